//! Elements as f64 and back.

use half::{bf16, f16};
use tile_ir::ir::Dtype;

pub(super) use crate::tuner::value as decode;

/// The bytes of the element nearest to a value; integers wrap, as Rust's `as` from a wider integer does.
pub(super) fn encode(dtype: Dtype, value: f64) -> Vec<u8> {
    match dtype {
        Dtype::Bool => vec![u8::from(value != 0.0)],
        Dtype::I32 => (value as i64 as i32).to_le_bytes().to_vec(),
        Dtype::U32 => (value as i64 as u32).to_le_bytes().to_vec(),
        Dtype::F32 => (value as f32).to_le_bytes().to_vec(),
        Dtype::F16 => f16::from_f64(value).to_bits().to_le_bytes().to_vec(),
        Dtype::Bf16 => bf16::from_f64(value).to_bits().to_le_bytes().to_vec(),
    }
}
