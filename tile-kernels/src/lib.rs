//! Kernels written in the tile-kernel language, with host entry points.
//!
//! | module | what it computes |
//! |---|---|
//! | [`gemv`] | `y = alpha W x + beta y` |
//! | [`gemm`] | `c = f(alpha a b + beta c + bias)`, also batched |
//! | [`norm`] | RMSNorm, with and without a residual, and LayerNorm, of rows |
//! | [`softmax`] | softmax of rows |
//! | [`rope`] | per-head norm, rotary embedding and append to a paged cache of keys and values, in one launch |
//! | [`swiglu`] | `silu(gate) * up` |
//! | [`attention`] | attention of the newest tokens of many sequences over paged keys and values |
//! | [`embedding`] | rows of a table by token |
//! | [`sampling`] | the next token from logits: argmax, or at random with temperature, top-k and top-p |
//!
//! [`reduce`] has functions that kernels of rows may call.
#![deny(missing_docs)]

pub mod attention;
pub mod embedding;
pub mod gemm;
pub mod gemv;
pub mod norm;
pub mod reduce;
pub mod rope;
pub mod sampling;
pub mod softmax;
pub mod swiglu;
mod vector;
mod ways;
