//! Which swizzle a tile in shared memory has, and which one an author asks for. Names alone: where bytes lie under a
//! swizzle is written twice, in [`crate::layout::swizzle`] for the compiler and in [`crate::sim::hw`] for the simulator.

use serde::{Deserialize, Serialize};

/// A permutation of 16-byte chunks in shared memory, a function of the byte address alone. Named by its span: the bytes
/// of a row that it permutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Swizzle {
    /// No permutation.
    None,
    /// 32-byte rows: address bit 4 ^= bit 7.
    B32,
    /// 64-byte rows: bits 4-5 ^= bits 7-8.
    B64,
    /// 128-byte rows: bits 4-6 ^= bits 7-9.
    B128,
}

impl Swizzle {
    /// Every swizzle, the narrowest first.
    pub const ALL: [Swizzle; 4] = [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128];

    /// The name an author writes.
    pub const fn name(self) -> &'static str {
        match self {
            Swizzle::None => "None",
            Swizzle::B32 => "B32",
            Swizzle::B64 => "B64",
            Swizzle::B128 => "B128",
        }
    }
}

/// The layout an author asks for a shared array. Encoded as one byte: 0, or 1 and up for the swizzles in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum SwizzleRequest {
    /// The compiler chooses one without bank conflicts.
    #[default]
    Auto,
    /// This one; of [`Swizzle::None`], row-major.
    Exactly(Swizzle),
}

impl SwizzleRequest {
    /// Whether an author asks for rows that are swizzled.
    pub fn is_of_rows(self) -> bool {
        matches!(self, SwizzleRequest::Exactly(swizzle) if swizzle != Swizzle::None)
    }
}

impl From<SwizzleRequest> for u8 {
    fn from(request: SwizzleRequest) -> u8 {
        match request {
            SwizzleRequest::Auto => 0,
            SwizzleRequest::Exactly(swizzle) => 1 + swizzle as u8,
        }
    }
}

impl TryFrom<u8> for SwizzleRequest {
    type Error = &'static str;

    fn try_from(byte: u8) -> Result<SwizzleRequest, &'static str> {
        let Some(index) = byte.checked_sub(1) else { return Ok(SwizzleRequest::Auto) };
        Swizzle::ALL.get(usize::from(index)).map(|&s| SwizzleRequest::Exactly(s)).ok_or("no such swizzle")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_byte() {
        let requests = [SwizzleRequest::Auto].into_iter().chain(Swizzle::ALL.map(SwizzleRequest::Exactly));
        for (number, request) in (0u8..).zip(requests) {
            assert_eq!(postcard::to_allocvec(&request).unwrap(), [number]);
            assert_eq!(postcard::from_bytes(&[number]), Ok(request));
        }
        assert!(postcard::from_bytes::<SwizzleRequest>(&[5]).is_err());
    }
}
