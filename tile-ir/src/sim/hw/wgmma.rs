//! `wgmma.mma_async.sync.aligned.m64nNk16` (f16, bf16) and `.m64nNk8` (tf32), f32 accumulators.
//!
//! Operands in shared memory are found through 64-bit descriptors; everything here is decoded from their bits, as the
//! PTX ISA's "Asynchronous warpgroup level matrix shared memory layout" lays it down: a matrix is made of core matrices
//! of 8 rows, and the swizzle permutes bits of the final byte address.

use super::mma::Input;
use super::{HwError, SwizzleMode, read};

/// A decoded matrix descriptor, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixDescriptor {
    /// Bits 0-13: start address.
    pub start: u32,
    /// Bits 16-29: leading dimension byte offset.
    pub leading: u32,
    /// Bits 32-45: stride dimension byte offset.
    pub stride: u32,
    /// Bits 62-63: swizzling mode.
    pub swizzle: SwizzleMode,
}

impl MatrixDescriptor {
    /// From its bits.
    ///
    /// # Errors
    /// Reserved bits that are set, and a base offset (bits 49-51) other than 0, which this model does not have.
    pub fn decode(bits: u64) -> Result<MatrixDescriptor, HwError> {
        let field = |low: u32| ((bits >> low) as u32 & 0x3fff) << 4;
        let allowed = "0, for patterns that begin at a multiple of their size";
        let base = bits >> 49 & 7;
        if base != 0 {
            return Err(HwError::Illegal { what: "base offset of a matrix descriptor", value: base, allowed });
        }
        let reserved = bits & !(0x3fff | 0x3fff << 16 | 0x3fff << 32 | 7 << 49 | 3 << 62);
        if reserved != 0 {
            return Err(HwError::Illegal { what: "reserved bits of a descriptor", value: reserved, allowed: "0" });
        }
        let swizzle = match bits >> 62 {
            0 => SwizzleMode::None,
            1 => SwizzleMode::Bytes128,
            2 => SwizzleMode::Bytes64,
            _ => SwizzleMode::Bytes32,
        };
        Ok(MatrixDescriptor { start: field(0), leading: field(16), stride: field(32), swizzle })
    }

    /// Address of the element in row `mn` (of M or N) and column `k`, elements of `size` bytes. `transposed`: MN-major.
    pub fn address(&self, transposed: bool, size: u32, mn: u32, k: u32) -> u32 {
        let span = self.swizzle.bytes();
        // The contiguous axis, in bytes, and the other, in rows of `span` bytes.
        let (along, across) = if transposed { (mn * size, k) } else { (k * size, mn) };
        let (outer, inner) = (along / span, along % span);
        let (eights, row) = (across / 8, across % 8);
        let strides = match (transposed, self.swizzle) {
            // The leading offset goes from core matrix to core matrix along K, the stride along M or N, without a
            // swizzle in either order.
            (false, SwizzleMode::None) => outer * self.leading + eights * self.stride,
            (true, SwizzleMode::None) => eights * self.leading + outer * self.stride,
            // K-major with a swizzle: the instruction's 32 bytes of K lie within a span, the leading offset is unused.
            (false, _) => eights * self.stride,
            (true, _) => outer * self.leading + eights * self.stride,
        };
        self.swizzle.physical(self.start + strides + row * span + inner)
    }
}

/// Where the A operand is.
#[derive(Clone, Copy, Debug)]
pub enum A<'a> {
    /// In shared memory, by descriptor; `transposed` is `imm-trans-a`.
    Shared {
        /// The descriptor's bits.
        descriptor: u64,
        /// MN-major.
        transposed: bool,
    },
    /// Four registers of each of the 128 threads.
    Registers(&'a [[u32; 4]]),
}

/// Row and column of accumulator `i` of `thread`: "row = 16 * (thread / 32) + (lane / 4) + 8 * ((i / 2) % 2), col = 8 *
/// (i / 4) + 2 * (lane % 4) + i % 2".
pub fn d_position(thread: usize, i: usize) -> (usize, usize) {
    let lane = thread % 32;
    (16 * (thread / 32) + lane / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * (lane % 4) + i % 2)
}

/// Row and column of half `half` of register `word` of the A operand that `thread` holds.
pub fn a_position(input: Input, thread: usize, word: usize, half: usize) -> (usize, usize) {
    let (warp, lane) = (thread / 32, thread % 32);
    let row = 16 * warp + lane / 4 + 8 * (word % 2);
    match input {
        Input::F16 | Input::Bf16 => (row, 2 * (lane % 4) + half + 8 * (word / 2)),
        Input::Tf32 => (row, lane % 4 + 4 * (word / 2)),
    }
}

/// One instruction: `d = a * b + d`, or `a * b` where `scale_d` is false. `d` has the `n / 2` accumulators of each of
/// the 128 threads, `b` is a descriptor and `imm-trans-b`.
///
/// # Errors
/// `n` that is not a multiple of 8 up to 256; registers of other than 128 threads; transposed tf32; descriptors as
/// [`MatrixDescriptor::decode`]; elements outside `shared`.
pub fn wgmma(
    shared: &[u8],
    input: Input,
    n: usize,
    a: A<'_>,
    b: (u64, bool),
    d: &mut [Vec<f32>],
    scale_d: bool,
) -> Result<(), HwError> {
    if n == 0 || !n.is_multiple_of(8) || n > 256 {
        return Err(HwError::Illegal { what: "n", value: n as u64, allowed: "a multiple of 8 up to 256" });
    }
    if d.len() != 128 || d.iter().any(|thread| thread.len() != n / 2) {
        return Err(HwError::Illegal { what: "accumulators", value: d.len() as u64, allowed: "n / 2 of 128 threads" });
    }
    let k = input.k();
    let operand = |rows: usize, descriptor: u64, transposed: bool| -> Result<Vec<f32>, HwError> {
        if transposed && input == Input::Tf32 {
            return Err(HwError::Illegal { what: "transpose of tf32", value: 1, allowed: "0" });
        }
        let descriptor = MatrixDescriptor::decode(descriptor)?;
        let mut matrix = Vec::with_capacity(rows * k);
        for index in 0..rows * k {
            let address = descriptor.address(transposed, input.bytes(), (index / k) as u32, (index % k) as u32);
            matrix.push(input.value(match input {
                Input::F16 | Input::Bf16 => u16::from_le_bytes(read(shared, address)?).into(),
                Input::Tf32 => u32::from_le_bytes(read(shared, address)?),
            }));
        }
        Ok(matrix)
    };
    let left = match a {
        A::Shared { descriptor, transposed } => operand(64, descriptor, transposed)?,
        A::Registers(registers) => {
            if registers.len() != 128 {
                let value = registers.len() as u64;
                return Err(HwError::Illegal { what: "threads of A", value, allowed: "128" });
            }
            let mut matrix = vec![0.0; 64 * k];
            for (thread, words) in registers.iter().enumerate() {
                for (word, bits) in words.iter().enumerate() {
                    for half in 0..(4 / input.bytes()) as usize {
                        let (row, col) = a_position(input, thread, word, half);
                        let element = if input == Input::Tf32 { *bits } else { bits >> (16 * half) & 0xffff };
                        matrix[row * k + col] = input.value(element);
                    }
                }
            }
            matrix
        }
    };
    let right = operand(n, b.0, b.1)?;
    for (thread, sums) in d.iter_mut().enumerate() {
        for (i, sum) in sums.iter_mut().enumerate() {
            let (row, col) = d_position(thread, i);
            let products = left[row * k..][..k].iter().zip(&right[col * k..][..k]);
            *sum = products.fold(if scale_d { *sum } else { 0.0 }, |sum, (a, b)| sum + a * b);
        }
    }
    Ok(())
}
