//! Kernels of `tile-kernels` by name: those of rows, and attention.

use crate::call::{Call, Failure};
use tile_kernels::attention::{Forward, forward};
use tile_kernels::embedding::embedding;
use tile_kernels::{norm, sampling};
use tile_runtime::interop::Plain;
use tile_runtime::prelude::*;

/// Runs a kernel of `tile-kernels` for Python: tensors and scalars are those of its host entry point.
pub fn run(kernel: &str, call: &Call<'_>) -> Result<(), Failure> {
    let on = call.on;
    match kernel {
        "add_rms_norm" => floats!(call, |T| norm::add_rms_norm(
            on,
            &call.input::<T, 2>(0)?,
            &mut call.output(1)?,
            &call.input(2)?,
            &mut call.output(3)?,
            call.scalar(0)? as f32,
        ))?,
        "argmax" => floats!(call, |T| sampling::argmax(on, &call.input::<T, 2>(0)?, &mut call.output(1)?))?,
        "attention" if call.views.first().is_some_and(|view| view.dtype == 0) => attention_of::<f16>(call)?,
        "attention" => attention_of::<bf16>(call)?,
        "embedding" => {
            floats!(call, |T| embedding(on, &call.input::<T, 2>(0)?, &call.input(1)?, &mut call.output(2)?))?
        }
        "layer_norm" => floats!(call, |T| norm::layer_norm(
            on,
            &call.input::<T, 2>(0)?,
            &call.input(1)?,
            &call.input(2)?,
            &mut call.output(3)?,
            call.scalar(0)? as f32,
        ))?,
        "rms_norm" => floats!(call, |T| norm::rms_norm(
            on,
            &call.input::<T, 2>(0)?,
            &call.input(1)?,
            &mut call.output(2)?,
            call.scalar(0)? as f32,
        ))?,
        "softmax" => {
            floats!(call, |T| tile_kernels::softmax::softmax(on, &call.input::<T, 2>(0)?, &mut call.output(1)?))?
        }
        "swiglu" => floats!(call, |T| tile_kernels::swiglu::swiglu(on, &call.input::<T, 2>(0)?, &mut call.output(1)?))?,
        _ => return Err(format!("there is no kernel `{kernel}`").into()),
    }
    Ok(())
}

/// Attention of whole sequences; the scalar says whether it is causal.
fn attention_of<T: Half + Plain>(call: &Call<'_>) -> Result<(), Failure> {
    let (q, k, v) = (call.input::<T, 4>(0)?, call.input::<T, 4>(1)?, call.input::<T, 4>(2)?);
    let options = Forward { causal: call.scalar(0)? != 0.0, ..Forward::default() };
    Ok(forward(call.on, q.view(), k.view(), &v, &mut call.output(3)?, options)?)
}
