//! The recipes of the cookbook, by name.

use crate::call::{Call, Failure};
use crate::kernels;
use tile_cookbook::{
    argmax, attention, dropout, gather, histogram, layer_norm, rms_norm, rope, scan, segmented_sum, softmax, stencil,
    swiglu, top_k, transpose,
};
use tile_runtime::interop::Plain;
use tile_runtime::prelude::*;

pub fn run(recipe: &str, call: &Call<'_>) -> Result<(), Failure> {
    let on = call.on;
    match recipe {
        "argmax" => floats!(call, |T| argmax::argmax(on, &call.input::<T, 2>(0)?, &mut call.output(1)?))?,
        "attention" if call.views.first().is_some_and(|view| view.dtype == 0) => attention_of::<f16>(call)?,
        "attention" => attention_of::<bf16>(call)?,
        "dropout" => floats!(call, |T| dropout::dropout(
            on,
            &call.input::<T, 1>(0)?,
            &mut call.output(1)?,
            call.scalar(0)?,
            call.scalar(1)? as u64,
            call.scalar(2)? as u32,
        ))?,
        "gather" => {
            floats!(call, |T| gather::gather(on, &call.input::<T, 2>(0)?, &call.input(1)?, &mut call.output(2)?))?
        }
        "histogram" => histogram::histogram(on, &call.input(0)?, &mut call.output(1)?)?,
        "layer_norm" => floats!(call, |T| layer_norm::layer_norm(
            on,
            &call.input::<T, 2>(0)?,
            &mut call.output(1)?,
            &call.input(2)?,
            &call.input(3)?,
            &mut call.output(4)?,
            call.scalar(0)? as f32,
        ))?,
        "rms_norm" => floats!(call, |T| rms_norm::rms_norm(
            on,
            &call.input::<T, 2>(0)?,
            &mut call.output(1)?,
            &call.input(2)?,
            &mut call.output(3)?,
            call.scalar(0)? as f32,
        ))?,
        "rope" => floats!(call, |T| rope::rope(
            on,
            &call.input::<T, 3>(0)?,
            &call.input(1)?,
            &call.input(2)?,
            &call.input(3)?,
            &mut call.output(4)?,
        ))?,
        "scan" if call.views.first().is_some_and(|view| view.dtype == 3) => scan_of::<i32>(call)?,
        "scan" => scan_of::<f32>(call)?,
        "segmented_sum" => {
            segmented_sum::segmented_sum::<f32>(on, &call.input(0)?, &call.input(1)?, &mut call.output(2)?)?
        }
        "softmax" => floats!(call, |T| softmax::softmax(on, &call.input::<T, 2>(0)?, &mut call.output(1)?))?,
        "stencil" => stencil::stencil(on, &call.input(0)?, &call.input(1)?, &mut call.output(2)?)?,
        "swiglu" => floats!(call, |T| swiglu::swiglu(on, &call.input::<T, 2>(0)?, &mut call.output(1)?))?,
        "top_k" => top_k::top_k(on, &call.input(0)?, &mut call.output(1)?, &mut call.output(2)?)?,
        "transpose" => floats!(call, |T| transpose::transpose(on, &call.input::<T, 2>(0)?, &mut call.output(1)?))?,
        _ => match recipe.strip_prefix("kernels/") {
            Some(kernel) => kernels::run(kernel, call)?,
            None => return Err(format!("there is no recipe `{recipe}`").into()),
        },
    }
    Ok(())
}

fn attention_of<T: Half + Plain>(call: &Call<'_>) -> Result<(), Failure> {
    let (q, k, v) = (call.input::<T, 3>(0)?, call.input(1)?, call.input(2)?);
    Ok(attention::attention(call.on, &q, &k, &v, &mut call.output(3)?)?)
}

fn scan_of<T: Number + Plain>(call: &Call<'_>) -> Result<(), Failure> {
    let (x, mut sums) = (call.input::<T, 1>(0)?, call.output::<T, 1>(1)?);
    Ok(scan::scan(call.on, x.view(), sums.view_mut(), &mut call.output(2)?)?)
}
