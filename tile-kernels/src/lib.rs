//! Kernels written in the tile-kernel language, with host entry points.
//!
//! | module | what it computes |
//! |---|---|
//! | [`gemv`] | `y = alpha W x + beta y` |
//! | [`gemm`] | `c = f(alpha a b + beta c + bias)`, also batched |
#![deny(missing_docs)]

pub mod gemm;
pub mod gemv;
