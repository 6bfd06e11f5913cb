//! Everything that touches the CUDA driver.
//!
//! Which streams have used a piece of memory ([`ordering`], [`foreign`]) and what a capture records ([`capture`]) is compiled
//! always, the rest with the feature `cudarc`. Without it [`absent`] gives the rest of the crate the same names, of types that have no
//! values: code for a CUDA device is type-checked there too, and never runs. The feature is asked for here, in
//! `crate::interop`, and nowhere else.

use std::ffi::c_void;

#[cfg_attr(not(feature = "cudarc"), allow(dead_code))]
mod capture;
#[cfg_attr(not(feature = "cudarc"), allow(dead_code))]
mod foreign;
#[cfg_attr(not(feature = "cudarc"), allow(dead_code))]
mod ordering;

#[cfg(not(feature = "cudarc"))]
mod absent;
#[cfg(feature = "cudarc")]
mod context;
#[cfg(feature = "cudarc")]
mod copy;
#[cfg(feature = "cudarc")]
mod dependent;
#[cfg(feature = "cudarc")]
mod driver;
#[cfg(feature = "cudarc")]
mod event;
#[cfg(feature = "cudarc")]
mod function;
#[cfg(feature = "cudarc")]
mod graph;
#[cfg(feature = "cudarc")]
mod log;
#[cfg(feature = "cudarc")]
mod maps;

#[cfg(not(feature = "cudarc"))]
pub(crate) use absent::*;
#[cfg(feature = "cudarc")]
pub(crate) use present::*;

/// What the rest of the crate uses of a driver that is there.
#[cfg(feature = "cudarc")]
mod present {
    pub(crate) use super::context::{CudaDevice, StreamSlot};
    pub(crate) use super::dependent::Range;
    pub(crate) use super::driver::Driver;
    pub(crate) use super::event::CudaEvent;
    pub(crate) use super::function::Function;
    pub(crate) use super::graph::CudaGraph;
    pub(crate) use super::maps::{EncodedMap, Maps};
}

pub(crate) use capture::{Kept, refused};
#[cfg(feature = "cudarc")]
pub(crate) use foreign::PER_THREAD;
pub(crate) use foreign::{ForeignStream, StreamId};
pub(crate) use ordering::{Usage, Use, hold, hold_one, in_order};

/// A handle of the driver: a context, stream, event, module, function or graph.
pub(crate) type Handle = *mut c_void;
