//! Kernels of `tile-kernels` by name: those of rows, and attention.

use crate::call::{Call, Failure};
use tile_kernels::attention::{Forward, Packed, forward, forward_packed};
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

/// `q`, `k`, `v`, `o` of attention over whole sequences, or where they have three axes of packed ones, the offsets of queries and keys behind them; sinks last,
/// where there are any. The scalars: whether it is causal, the keys of a window to the left and to the right (all where less than 0), the soft cap (none
/// where 0), queries and keys of a tile (chosen where 0); what is left out is as by default.
fn attention_of<T: Half + Plain>(call: &Call<'_>) -> Result<(), Failure> {
    let scalar = |at: usize| call.scalars.get(at).copied();
    let keys = |at: usize| scalar(at).filter(|keys| *keys >= 0.0).map(|keys| keys as usize);
    let extent = |at: usize| keys(at).filter(|extent| *extent > 0);
    let is_packed = call.views.first().is_some_and(|view| view.rank == 3);
    let last = if is_packed { 6 } else { 4 };
    let sinks = if call.views.len() > last { Some(call.input::<f32, 1>(last)?) } else { None };
    let options = Forward {
        causal: call.scalar(0)? != 0.0,
        left: keys(1),
        right: keys(2),
        soft_cap: scalar(3).filter(|cap| *cap != 0.0).map(|cap| cap as f32),
        sinks: sinks.as_deref(),
        tile: extent(4).zip(extent(5)).map(|(rows, keys)| [rows, keys]),
        ..Forward::default()
    };
    if is_packed {
        let (q, k, v) = (call.input::<T, 3>(0)?, call.input::<T, 3>(1)?, call.input::<T, 3>(2)?);
        let (first_query, first_key) = (call.input::<i32, 1>(4)?, call.input::<i32, 1>(5)?);
        let packed = Packed { first_query: &first_query, first_key: &first_key };
        let mut o = call.output::<T, 3>(3)?;
        return Ok(forward_packed(call.on, q.view(), k.view(), v.view(), packed, o.view_mut(), options)?);
    }
    let (q, k, v) = (call.input::<T, 4>(0)?, call.input::<T, 4>(1)?, call.input::<T, 4>(2)?);
    Ok(forward(call.on, q.view(), k.view(), &v, &mut call.output(3)?, options)?)
}
