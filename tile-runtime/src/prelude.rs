//! What a program with kernels needs in scope: `use tile_runtime::prelude::*;`.
//!
//! The functions that kernel bodies are written in are in scope there by themselves and absent here, so that a host
//! program keeps its own `max` and `copy`.

pub use crate::dsl::{Float, Half, Integer, Number};
pub use crate::{
    Device, Element, Error, LaunchError, Stream, Tensor, TensorView, TensorViewMut, bf16, f16, tile_fn, tile_kernel,
};
