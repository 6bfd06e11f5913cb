//! What the hardware does not do.

/// An instruction that the hardware refuses, or whose effect the manual leaves undefined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HwError {
    /// Outside the memory.
    #[error("{bytes} bytes at address {address} are outside a memory of {size} bytes")]
    OutOfBounds {
        /// The first byte's address.
        address: u64,
        /// Bytes of the access.
        bytes: u64,
        /// Bytes of the memory.
        size: u64,
    },
    /// An address that is not a multiple of what the instruction needs.
    #[error("{what} {address} is not a multiple of {multiple}")]
    Misaligned {
        /// Which address or stride.
        what: &'static str,
        /// Its value.
        address: u64,
        /// What it must be a multiple of.
        multiple: u64,
    },
    /// A coordinate of a box that TMA does not take.
    #[error("a box begins at coordinate {value} ({what}); TMA takes one that is {allowed}")]
    Coordinate {
        /// Which coordinate.
        what: &'static str,
        /// Its value.
        value: i64,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A field or shape that no instruction has.
    #[error("{what} is {value}: {allowed}")]
    Illegal {
        /// Which field.
        what: &'static str,
        /// Its value.
        value: u64,
        /// What is allowed.
        allowed: &'static str,
    },
}
