//! The runtime.
#![allow(missing_docs)]
pub mod dsl;
pub mod element;
pub mod kernel;
pub mod prelude;
pub use element::Element;
pub use half::{bf16, f16};
pub use tile_macros::tile_kernel;
#[derive(Clone)]
pub struct Device;
#[derive(Debug)]
pub struct Error;
#[derive(Debug)]
pub struct LaunchError;
pub struct Tensor<T, const R: usize>(pub std::marker::PhantomData<T>);
