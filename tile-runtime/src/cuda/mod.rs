//! Everything that touches the CUDA driver.

mod capture;
mod context;
mod dependent;
pub(crate) mod driver;
mod graph;
mod ordering;

pub(crate) use capture::{Kept, refused};
pub(crate) use context::{CudaDevice, Limits, StreamSlot, cluster_attribute, lock};
pub(crate) use dependent::Range;
pub(crate) use graph::CudaGraph;
pub(crate) use ordering::{Usage, Use, hold, hold_one, in_order};
