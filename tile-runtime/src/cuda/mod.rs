//! Everything that touches the CUDA driver.

mod context;
pub(crate) mod driver;
mod graph;
mod ordering;

pub(crate) use context::{CudaDevice, Limits, StreamSlot, lock};
pub(crate) use graph::CudaGraph;
pub(crate) use ordering::{Usage, touch};
