//! What the examples and the whole-program tests share: data, references, comparisons, timing, and what the benchmarks measure.

pub mod cliff;
pub mod data;
pub mod devices;
pub mod export;
pub mod gemm;
pub mod gemm_ladder;
pub mod gemv;
pub mod ladder;
pub mod output;
pub mod progress;
pub mod rows;
pub mod sampling;
pub mod simt;
pub mod suites;
pub mod timing;
