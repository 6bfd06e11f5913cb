//! What the benchmarks measure: a module a problem, with everybody who computes it.

pub mod fit;
pub mod gemm;
pub mod gemm_measured;
pub mod gemv;
pub mod gemv_sweep;
