//! The hardware's data movement and matrix instructions, from the PTX manual: on bytes of shared memory, registers of
//! lanes and bits of descriptors.
//!
//! This is the second description of what the compiler's address formulas describe first, written without them and
//! importing none, so that a mistake in either shows where the two are compared. It knows nothing of tiles: an
//! instruction is given addresses and registers, and gives bytes and registers back.
//!
//! | module | instructions |
//! |---|---|
//! | [`matrix`] | `ldmatrix`, `stmatrix`, `movmatrix` |
//! | [`mma`] | `mma.sync.m16n8k16` (f16, bf16), `mma.sync.m16n8k8` (tf32), f32 accumulators |
//! | [`wgmma`] | `wgmma.mma_async.m64nNk16` and `k8`: descriptors, both operand sources |
//! | [`tma`] | `cp.async.bulk.tensor` in both directions |
//!
//! **Numbers.** Products are exact in f32 and are added to the accumulator one by one, K ascending, each sum rounded to
//! nearest even. The hardware's own order and rounding are not documented: results are the same bits while every
//! partial sum is an integer below 2^24, and within the stated bound otherwise.

mod error;
pub mod matrix;
pub mod mma;
pub mod swizzle;
pub mod tma;
pub mod wgmma;

pub use error::HwError;
pub use swizzle::SwizzleMode;

/// `bytes[at .. at + N]`.
fn read<const N: usize>(bytes: &[u8], at: u32) -> Result<[u8; N], HwError> {
    let found = bytes.get(at as usize..).and_then(|rest| rest.first_chunk::<N>());
    found.copied().ok_or(HwError::OutOfBounds { address: at.into(), bytes: N as u64, size: bytes.len() as u64 })
}

/// `bytes[at .. at + N] = value`.
fn write<const N: usize>(bytes: &mut [u8], at: u32, value: [u8; N]) -> Result<(), HwError> {
    let size = bytes.len() as u64;
    let place = bytes.get_mut(at as usize..).and_then(|rest| rest.first_chunk_mut::<N>());
    *place.ok_or(HwError::OutOfBounds { address: at.into(), bytes: N as u64, size })? = value;
    Ok(())
}
