//! The tile IR as compact bytes, as a kernel carries it from expansion to run time.
//!
//! `MAGIC`, format version, then the kernel in postcard's encoding. Decoding is total: any bytes give a kernel that
//! passes [`crate::verify::structure`], or an error.

use crate::ir::Kernel;
use thiserror::Error;

const MAGIC: [u8; 4] = *b"TKIR";

/// Version of the encoding. Changes whenever `ir` changes.
pub const VERSION: u8 = 10;

/// Why bytes are not a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes do not start as a kernel does.
    #[error("not a tile kernel: the first bytes are not `TKIR`")]
    Magic,
    /// Another version of the crate wrote them.
    #[error(
        "the kernel was encoded in format {found}, this build reads format {VERSION}: rebuild the crate that holds the kernel"
    )]
    Version {
        /// The version found.
        found: u8,
    },
    /// The bytes are damaged.
    #[error("the kernel's bytes are damaged: {0}")]
    Damaged(String),
}

/// Encodes a kernel.
pub fn encode(kernel: &Kernel) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.push(VERSION);
    // Every type in a kernel is encodable: no maps with computed keys, no unsized sequences.
    if let Ok(body) = postcard::to_allocvec(kernel) {
        bytes.extend(body);
    }
    bytes
}

/// Decodes a kernel.
pub fn decode(bytes: &[u8]) -> Result<Kernel, DecodeError> {
    let rest = bytes.strip_prefix(&MAGIC).ok_or(DecodeError::Magic)?;
    let (&found, body) = rest.split_first().ok_or(DecodeError::Magic)?;
    if found != VERSION {
        return Err(DecodeError::Version { found });
    }
    let kernel: Kernel = postcard::from_bytes(body).map_err(|e| DecodeError::Damaged(e.to_string()))?;
    crate::verify::structure(&kernel).map_err(DecodeError::Damaged)?;
    Ok(kernel)
}
