//! Everything that touches the CUDA driver.

mod context;
mod dependent;
pub(crate) mod driver;
mod graph;
mod ordering;

pub(crate) use context::{CudaDevice, Limits, StreamSlot, lock};
pub(crate) use dependent::Range;
pub(crate) use graph::CudaGraph;
pub(crate) use ordering::{Usage, Use, touch};
