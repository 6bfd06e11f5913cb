//! Qwen3 and Llama 3 on kernels of the tile-kernel language: loading, batching and serving.
//!
//! | module | what it is |
//! |---|---|
//! | [`config`] | a model's shapes, from Hugging Face's `config.json` or by name |
//! | [`weights`] | named tensors: from safetensors files, or random by a seed |
//! | [`backend`] | the seam: what a scheduler asks of a forward pass |
//! | [`pages`], [`scheduler`] | which pages of the cache are free; which sequences are in the next step |
//! | [`model`] | the forward pass on a device |
//! | [`reference`](mod@reference) | the forward pass in f64 on the CPU |
//! | [`text`] | tokens and text; stop strings |
//! | [`engine`], [`serve`] | a scheduler and its backend on a thread; the HTTP server |
//! | [`error`] | the one error type |
#![deny(missing_docs)]

pub mod backend;
pub mod config;
pub mod engine;
pub mod error;
#[doc(hidden)]
pub mod fake;
pub mod model;
pub mod pages;
pub mod reference;
pub mod scheduler;
pub mod serve;
pub mod text;
pub mod weights;

pub use backend::{Backend, Limits, Part, Sampling};
pub use config::ModelConfig;
pub use error::ModelError;
pub use weights::Weights;
