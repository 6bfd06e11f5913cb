//! What the benchmarks measure: a module a problem, with everybody who computes it.

pub mod gemv;
