//! What the examples and the whole-program tests share: data, references, comparisons, timing.

pub mod data;
pub mod export;
pub mod gemv;
pub mod ladder;
pub mod timing;
