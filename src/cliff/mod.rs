//! Kernels a step away from the plain GEMM: what keeps the fastest path and what does not (`tests/cliff.rs`, `examples/cliff.rs`).

pub mod kernels;
