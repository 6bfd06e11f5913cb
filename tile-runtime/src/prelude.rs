//! What a program with kernels needs in scope: `use tile_runtime::prelude::*;`.
//!
//! The functions that kernel bodies are written in are in scope there by themselves and absent here, so that a host
//! program keeps its own `max` and `copy`.

pub use crate::dsl::{Cast, Float, Half, Integer, Number, Value};
pub use crate::{Device, Element, Tensor, tile_kernel};
pub use half::{bf16, f16};
