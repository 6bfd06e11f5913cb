//! Where elements live: the one place in the compiler, the emitter and the host where an address formula is written.
//!
//! Every layout here is a bijection, and a pure function of its arguments. A formula is written once, over
//! [`Index`]; evaluated on `u32` it gives the host's and the tests' addresses, on [`Formula`] the expression that the
//! lowering puts into the program.
//!
//! | module | what it places |
//! |---|---|
//! | [`swizzle`] | 16-byte chunks within an atom of shared memory |
//! | [`shared`] | the elements of a tile in shared memory, as the tensor memory accelerator (TMA) leaves them |
//! | [`fragment`] | the elements of a tile in the registers of threads |
//! | [`left`] | a sum in registers as the left operand of another product |
//! | [`policy`] | the warps of a block over a tile |
//! | [`operand`] | a tile in shared memory as an operand of `gemm`: K-major or MN-major |
//! | [`matrix`] | the row that a lane names in `ldmatrix` and `stmatrix` |
//! | [`word`] | the element that a lane loads where `ldmatrix` cannot |
//! | [`descriptor`] | the 64-bit matrix descriptors of `wgmma` |
//! | [`tma`] | tensor maps and boxes |
//!
//! `sim::hw` describes the same hardware a second time, from the PTX manual; `layout/tests` compares the two.

pub mod descriptor;
mod error;
pub mod fragment;
pub mod index;
pub mod left;
pub mod matrix;
pub mod operand;
pub mod policy;
pub mod shared;
pub mod swizzle;
pub mod tma;
pub mod word;

pub use descriptor::{Descriptor, WgmmaOperand};
pub use error::LayoutError;
pub use fragment::{Fragment, MmaInput};
pub use index::{Formula, Index, Operation};
pub use matrix::MatrixAccess;
pub use operand::{Major, Operand};
pub use policy::WarpGrid;
pub use shared::{SharedLayout, Step};
pub use swizzle::{Permutation, Swizzle};
pub use tma::{TensorMap, TmaBox, TmaPlan};
pub use word::WordAccess;

#[cfg(test)]
mod tests;
