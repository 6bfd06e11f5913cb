//! What the benchmarks measure: a module a problem, with everybody who computes it.

pub mod batches;
pub mod gemm;
pub mod gemv;
