//! Devices, tensors, compilation, cache and launch for tile kernels: the crate a kernel's author uses.
//!
//! | module | what it is |
//! |---|---|
//! | [`Device`], [`Tensor`], [`Stream`] | where kernels run, what they run on, in which order |
//! | [`prelude`], [`dsl`] | what a program with kernels needs in scope; what a kernel's body is written in |
//! | [`kernel`] | what an expanded kernel calls; looking at a kernel's CUDA C, PTX and machine code |
//! | [`tuner`] | which instance is the fastest for given arguments, measured |
//! | [`interop`] | memory that other code owns |
//! | [`nvrtc`] | CUDA C to machine code |
//! | [`cache`], [`embedded`] | compiled kernels, kept between runs; built into the program |
//! | [`check`](mod@check) | a kernel on both simulators at the shapes where mistakes show, beside a reference |
//! | [`library`] | finding NVIDIA's libraries and tools |
//! | [`settings`] | the environment variables: what each takes, what holds without it |
//! | [`error`] | the one error type |
//!
//! Nothing here needs a GPU, a driver or a toolkit to build or to start: without a device kernels are simulated on the
//! CPU, and what is missing is an error that lists what was tried.
//!
//! The environment variables that it reads are the table in [`settings`].
#![deny(missing_docs)]

mod allocation;
pub mod cache;
pub mod check;
mod cuda;
mod device;
pub mod dsl;
pub mod element;
pub mod embedded;
pub mod error;
pub mod interop;
pub mod kernel;
mod launch_error;
mod layout;
pub mod library;
mod lock;
pub mod nvrtc;
mod owner;
pub mod prelude;
pub mod settings;
mod stream;
mod tensor;
#[cfg(unix)]
mod trust;
#[cfg(not(unix))]
#[path = "trust_elsewhere.rs"]
mod trust;
pub mod tuner;

pub use device::Device;
pub use element::Element;
pub use error::{DriverError, Error, Fault, NotEmbedded, ShapeError};
pub use half::{bf16, f16};
pub use kernel::PreparedLaunch;
pub use launch_error::{LaunchError, Problem};
pub use library::LibraryError;
pub use stream::{Event, Graph, Stream};
pub use tensor::{Tensor, TensorView, TensorViewMut};
pub use tile_ir::sim::Cancel;
#[doc(hidden)]
pub use tile_macros::link_step;
pub use tile_macros::{tile_fn, tile_kernel};
