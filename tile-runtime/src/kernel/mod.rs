//! The glue between a kernel's expansion and the runtime: what `#[tile_kernel]` emits calls, and what tools use to look
//! at a kernel.
//!
//! A [`Definition`] is a kernel's tile IR; an [`InstanceTable`] holds its prepared instances. [`launch`] finds the
//! prepared instance without a lock, checks the arguments, and hands the launch to the driver or a simulator.

pub(crate) mod argument;
mod class;
mod definition;
mod explain;
mod formula;
mod launch;
mod plan;
mod prepared;
mod repeat;
mod scratch;
mod show;
mod variants;
mod waiting;
mod which;
mod workspace;

#[cfg(test)]
mod tests;

pub use crate::element::Element;
pub use argument::{Argument, Scalar, ScalarInput, TensorInput, TensorOutput, TensorRef, optional, optional_mut};
pub use class::class;
pub use definition::{Definition, InstanceTable, instance_index, instance_text};
pub use explain::{Explanation, explain, explain_class};
pub use launch::{LaunchOn, Loaded, Place, launch, prepare};
pub use repeat::{PreparedLaunch, prepare_launch};
pub use scratch::{Lent, Scratch};
pub use show::{Binary, Format, compile, show};
/// What an expansion calls `String`: it names nothing but this crate and `core`.
#[doc(hidden)]
pub use std::string::String as Text;
pub use tile_ir::explain::Machine;
pub use tile_ir::ir::{Class, Dtype, Target, Width};
pub use variants::Specialized;
pub use which::Variant;

pub(crate) use class::plan_for;
pub(crate) use launch::{Recorded, unlisted};
pub(crate) use plan::Values;
pub(crate) use prepared::{code_for_bundle, key_for_bundle, slot, target_for};
pub(crate) use workspace::Workspaces;
