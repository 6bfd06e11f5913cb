//! The crate's one error type.

use std::path::PathBuf;
use thiserror::Error;

/// Why a model could not be loaded or run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A field of `config.json` asks for what is not implemented, or makes no sense.
    #[error("config: `{field}` {why}")]
    Config {
        /// The field, as `config.json` spells it.
        field: String,
        /// What is wrong with its value, and what it may be.
        why: String,
    },
    /// A file could not be opened, read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        error: std::io::Error,
    },
    /// A file is not in the format that its name promises.
    #[error("{}: {why}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A tensor is missing, not expected, or of another shape or dtype than the configuration asks for.
    #[error("{origin}: tensor `{tensor}` {why}")]
    Tensor {
        /// The file (or the random weights) that the tensor is looked for in.
        origin: String,
        /// The tensor's name.
        tensor: String,
        /// What is wrong with it.
        why: String,
    },
    /// The tokenizer could not be loaded, or failed on a text.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// A call breaks the rules of [`Backend::step`](crate::Backend::step).
    #[error("step: {0}")]
    Step(String),
    /// What was asked for does not fit the device or the limits.
    #[error("{0}")]
    Capacity(String),
    /// The device, a copy or a compilation failed.
    #[error(transparent)]
    Device(#[from] tile_runtime::Error),
    /// A launch was refused.
    #[error(transparent)]
    Launch(#[from] tile_runtime::LaunchError),
}

impl ModelError {
    /// [`ModelError::Config`] of `field`.
    pub fn config(field: impl Into<String>, why: impl Into<String>) -> ModelError {
        ModelError::Config { field: field.into(), why: why.into() }
    }

    /// [`ModelError::Io`] of `path`, as `map_err` takes it.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> ModelError {
        let path = path.into();
        move |error| ModelError::Io { path, error }
    }

    /// [`ModelError::Format`] of `path`.
    pub fn format(path: impl Into<PathBuf>, why: impl ToString) -> ModelError {
        ModelError::Format { path: path.into(), why: why.to_string() }
    }
}
