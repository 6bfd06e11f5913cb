//! Why something could not be measured.

use crate::blas::BlasError;
use std::path::PathBuf;
use thiserror::Error;
use tile_runtime::Error;

/// Why something could not be measured.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The device failed, or lacks memory.
    #[error(transparent)]
    Runtime(#[from] Error),
    /// A launch was refused.
    #[error(transparent)]
    Launch(#[from] tile_runtime::LaunchError),
    /// cuBLAS failed.
    #[error(transparent)]
    Blas(#[from] BlasError),
    /// The rotating buffers do not fit.
    #[error(
        "{sets} buffer sets of {bytes} bytes do not fit into the {free} bytes that are free; \
         take a smaller problem or a smaller `Options::rotate`"
    )]
    Memory {
        /// How many sets.
        sets: usize,
        /// Bytes of one.
        bytes: u64,
        /// Bytes that are free on the device.
        free: u64,
    },
    /// Nobody computes the right result.
    #[error("no contender takes part in {problem}: {reasons}")]
    Nobody {
        /// The problem.
        problem: String,
        /// Each contender's reason.
        reasons: String,
    },
    /// A file could not be written or read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A report could not be read: not JSON, or of another version.
    #[error("not a report of this version: {0}")]
    Report(#[from] serde_json::Error),
    /// A plot could not be drawn.
    #[error("the plot could not be drawn: {0}")]
    Plot(String),
}
