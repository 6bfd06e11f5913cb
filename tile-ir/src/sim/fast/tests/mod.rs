//! Hand-built kernels against plain Rust.

mod checked;
mod collectives;
mod control;
mod faults;
mod gemv;
mod memory;
mod pipeline;
mod staged;

use super::{FastReport, run};
use crate::ir::{Dtype, Kernel};
use crate::sim::{Argument, Memory, ScalarValue, SimError, TensorArgument, numeric};
use std::sync::Arc;

/// A row-major tensor of these values.
fn tensor(dtype: Dtype, shape: &[i64], values: &[f64]) -> Argument {
    let elements = shape.iter().product::<i64>() as usize;
    assert_eq!(elements, values.len());
    let memory = Memory::zeros(elements * dtype.bytes() as usize);
    for (i, value) in values.iter().enumerate() {
        let bits = match dtype {
            Dtype::Bool => u32::from(*value != 0.0),
            Dtype::I32 => *value as i32 as u32,
            Dtype::U32 => *value as u32,
            float => numeric::encode(float, numeric::literal(float, *value)),
        };
        memory.store(i * dtype.bytes() as usize, dtype, bits);
    }
    let strides = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
    Argument::Tensor(TensorArgument { dtype, shape: shape.to_vec(), strides, memory: Arc::new(memory), offset: 0 })
}

fn zeros(dtype: Dtype, shape: &[i64]) -> Argument {
    tensor(dtype, shape, &vec![0.0; shape.iter().product::<i64>() as usize])
}

/// A tensor's elements, in row-major order.
fn values(argument: &Argument) -> Vec<f64> {
    let Argument::Tensor(t) = argument else { panic!("a tensor") };
    let total = t.shape.iter().product::<i64>();
    let element = |linear: i64| {
        let mut rest = linear;
        let mut offset = 0;
        for axis in (0..t.shape.len()).rev() {
            offset += rest % t.shape[axis] * t.strides[axis];
            rest /= t.shape[axis];
        }
        let bits = t.memory.load(t.offset + offset as usize * t.dtype.bytes() as usize, t.dtype);
        match t.dtype {
            Dtype::Bool | Dtype::U32 => f64::from(bits),
            Dtype::I32 => f64::from(bits as i32),
            float => f64::from(numeric::decode(float, bits)),
        }
    };
    (0..total).map(element).collect()
}

fn index(value: i64) -> Argument {
    Argument::Scalar(ScalarValue::Index(value))
}

fn ok(kernel: &Kernel, args: &[Argument]) -> FastReport {
    run(&crate::testing::bound(kernel), args).unwrap_or_else(|e| panic!("{e}"))
}

/// The text of a fault.
fn fault(kernel: &Kernel, args: &[Argument]) -> String {
    match run(&crate::testing::bound(kernel), args) {
        Err(SimError::Fault(fault)) => fault.to_string(),
        other => panic!("expected a fault, found {other:?}"),
    }
}

fn ramp(count: i64) -> Vec<f64> {
    (0..count).map(|i| i as f64).collect()
}
