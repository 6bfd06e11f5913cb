//! Elements as f64 and back.

use half::{bf16, f16};
use tile_ir::ir::{Dtype, DtypeClass, FloatFormat};

pub(super) use crate::tuner::value as decode;

/// The bytes of the element nearest to a value; integers wrap, as Rust's `as` from a wider integer does.
pub(super) fn encode(dtype: Dtype, value: f64) -> Vec<u8> {
    let bits = match dtype.class() {
        DtypeClass::Bool => u32::from(value != 0.0),
        DtypeClass::Int(format) => format.wrapped(value as i64) as u32,
        DtypeClass::Float(FloatFormat::Binary32) => (value as f32).to_bits(),
        DtypeClass::Float(FloatFormat::Binary16) => f16::from_f64(value).to_bits().into(),
        DtypeClass::Float(FloatFormat::Bfloat16) => bf16::from_f64(value).to_bits().into(),
    };
    bits.to_le_bytes()[..dtype.bytes() as usize].to_vec()
}
