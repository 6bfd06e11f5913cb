//! Simulated global memory.
//!
//! Blocks run on several host threads and a wrong kernel may race, so the memory is a row of 32-bit words, and every access
//! is a relaxed atomic access of one whole word: a race gives some value, never undefined behaviour. (Atomics of different
//! sizes that meet in the same bytes without an order would be undefined; here there is one size.) An element or byte
//! narrower than its word is stored by compare-and-exchange, so what lies beside it in the word is kept whoever writes it.

use super::words::{WORD, Words};
use crate::ir::{Dtype, DtypeClass};
use std::alloc::{Layout, handle_alloc_error};
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use thiserror::Error;

/// One allocation of simulated device memory. Byte 0 counts as aligned to 256 bytes, as a device allocation is.
pub struct Memory {
    words: Words,
    len: usize,
}

/// Why a simulated memory cannot be made, or an access to one was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MemoryError {
    /// The host has not that much memory to give.
    #[error("the host cannot allocate {bytes} bytes")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// An access that leaves the memory.
    #[error("{bytes} bytes at byte {offset} leave a simulated memory of {len} bytes")]
    OutOfRange {
        /// The first byte.
        offset: usize,
        /// How many.
        bytes: usize,
        /// Bytes that there are.
        len: usize,
    },
    /// An element that does not begin at a multiple of its size.
    #[error("an element of {bytes} bytes at byte {offset} is misaligned")]
    Misaligned {
        /// The first byte.
        offset: usize,
        /// The element's size.
        bytes: usize,
    },
    /// A store in memory that was lent to be read.
    #[error("the memory was lent to be read only")]
    ReadOnly,
    /// Foreign memory that does not begin at a whole word.
    #[error("host memory at address {address:#x} does not begin at a multiple of {multiple} bytes")]
    Start {
        /// Where it begins.
        address: usize,
        /// What it must be a multiple of.
        multiple: usize,
    },
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes)", self.len)
    }
}

impl Memory {
    /// `len` bytes of zeros. Ends the process where the host has not that much memory, as a `Vec` does:
    /// [`Memory::try_zeros`] says so instead.
    pub fn zeros(len: usize) -> Memory {
        Memory::try_zeros(len)
            .unwrap_or_else(|_| handle_alloc_error(Layout::array::<u8>(len).unwrap_or(Layout::new::<u8>())))
    }

    /// `len` bytes of zeros.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`].
    pub fn try_zeros(len: usize) -> Result<Memory, MemoryError> {
        let words = Words::zeroed(len.div_ceil(WORD)).ok_or(MemoryError::OutOfMemory { bytes: len })?;
        Ok(Memory { words, len })
    }

    /// Somebody else's `len` bytes from `start` on, used in place. They are in the host's byte order, which is that of the
    /// device: the lowest byte first. `owner` is dropped with this memory, if it keeps the bytes alive. Where `frozen`,
    /// stores are refused.
    ///
    /// # Safety
    /// The bytes are initialised, and valid as long as this memory lives: to be read, and, unless `frozen`, to be written.
    /// Meanwhile nothing else writes them, and unless `frozen`, nothing else reads them; except by atomics of the sizes by
    /// which a memory accesses them.
    ///
    /// # Errors
    /// [`MemoryError::Start`]: they do not begin at a multiple of 4 bytes.
    pub unsafe fn foreign(
        start: NonNull<u8>,
        len: usize,
        frozen: bool,
        owner: Option<Box<dyn Any + Send + Sync>>,
    ) -> Result<Memory, MemoryError> {
        let address = start.addr().get();
        if len > 0 && !address.is_multiple_of(WORD) {
            return Err(MemoryError::Start { address, multiple: WORD });
        }
        // SAFETY: the caller vouches for the bytes; where there are none, none are accessed.
        Ok(Memory { words: unsafe { Words::foreign(start, len, frozen, owner) }, len })
    }

    /// The address of byte 0 in the host's memory. Of no bytes: any.
    pub fn start(&self) -> NonNull<u8> {
        self.words.start()
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bits of the element at byte `offset`, zero-extended.
    ///
    /// # Errors
    /// The element leaves the memory or does not begin at a multiple of its size.
    pub fn get(&self, offset: usize, dtype: Dtype) -> Result<u32, MemoryError> {
        self.check(offset, dtype.bytes() as usize)?;
        Ok(self.load(offset, dtype))
    }

    /// Stores the low bits of `bits` as the element at byte `offset`.
    ///
    /// # Errors
    /// As [`Memory::get`].
    pub fn set(&self, offset: usize, dtype: Dtype, bits: u32) -> Result<(), MemoryError> {
        self.check(offset, dtype.bytes() as usize)?;
        self.check_writable()?;
        self.store(offset, dtype, bits);
        Ok(())
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// They leave the memory.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), MemoryError> {
        self.check_range(offset, bytes.len())?;
        self.check_writable()?;
        let head = bytes.len().min(offset.wrapping_neg() % WORD);
        let (head, rest) = bytes.split_at(head);
        let whole = rest.len() / WORD * WORD;
        let (whole, tail) = rest.split_at(whole);
        self.write_bytes(offset, head);
        let first = (offset + head.len()) / WORD;
        for (word, bytes) in (first..).zip(whole.chunks_exact(WORD)) {
            self.words.store(word, u32::MAX, u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        }
        self.write_bytes(offset + head.len() + whole.len(), tail);
        Ok(())
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// They leave the memory.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), MemoryError> {
        self.check_range(offset, bytes.len())?;
        let head = bytes.len().min(offset.wrapping_neg() % WORD);
        let (head, rest) = bytes.split_at_mut(head);
        let whole = rest.len() / WORD * WORD;
        let (whole, tail) = rest.split_at_mut(whole);
        self.read_bytes(offset, head);
        let first = (offset + head.len()) / WORD;
        for (word, bytes) in (first..).zip(whole.chunks_exact_mut(WORD)) {
            bytes.copy_from_slice(&self.words.load(word).to_le_bytes());
        }
        self.read_bytes(offset + head.len() + whole.len(), tail);
        Ok(())
    }

    fn check_range(&self, offset: usize, bytes: usize) -> Result<(), MemoryError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(MemoryError::OutOfRange { offset, bytes, len: self.len }),
        }
    }

    fn check(&self, offset: usize, bytes: usize) -> Result<(), MemoryError> {
        self.check_range(offset, bytes)?;
        if offset.is_multiple_of(bytes) { Ok(()) } else { Err(MemoryError::Misaligned { offset, bytes }) }
    }

    fn check_writable(&self) -> Result<(), MemoryError> {
        if self.words.is_frozen() { Err(MemoryError::ReadOnly) } else { Ok(()) }
    }

    fn write_bytes(&self, offset: usize, bytes: &[u8]) {
        bytes.iter().enumerate().for_each(|(i, byte)| self.store(offset + i, Dtype::Bool, u32::from(*byte)));
    }

    fn read_bytes(&self, offset: usize, bytes: &mut [u8]) {
        bytes.iter_mut().enumerate().for_each(|(i, byte)| *byte = self.load(offset + i, Dtype::Bool) as u8);
    }

    /// [`Memory::get`] for the simulators, which have checked that the element lies inside and is aligned. Of one that
    /// does not, they would get zero or the element that it lies in.
    #[inline]
    pub(crate) fn load(&self, offset: usize, dtype: Dtype) -> u32 {
        let (word, shift) = self.place(offset, dtype);
        self.words.load(word) >> shift & low_bits(dtype)
    }

    /// [`Memory::set`], under the contract of [`Memory::load`]; the launcher has refused memory that is lent to be read.
    #[inline]
    pub(crate) fn store(&self, offset: usize, dtype: Dtype, bits: u32) {
        let (word, shift) = self.place(offset, dtype);
        self.words.store(word, low_bits(dtype) << shift, bits << shift);
    }

    /// Replaces a 4-byte element by `f` of it, atomically, and returns the old bits; under the contract of
    /// [`Memory::store`].
    pub(crate) fn update(&self, offset: usize, f: impl Fn(u32) -> u32) -> u32 {
        self.words.update(self.place(offset, Dtype::U32).0, f)
    }

    /// The word that an element lies in, and its lowest bit there.
    #[inline]
    fn place(&self, offset: usize, dtype: Dtype) -> (usize, u32) {
        debug_assert_eq!(self.check(offset, dtype.bytes() as usize), Ok(()));
        (offset / WORD, (offset % WORD * 8) as u32)
    }

    /// Loads many elements: `out[i]` is the element at `base` bytes plus `offsets[i]` elements, 0 where not `valid`; under
    /// the contract of [`Memory::load`].
    pub(crate) fn gather(&self, dtype: Dtype, base: usize, offsets: &[i64], valid: &[bool], out: &mut [u32]) {
        let load = |offset: i64| base.wrapping_add_signed(offset as isize * dtype.bytes() as isize);
        // One loop a dtype: `load` is inlined with the dtype a constant.
        macro_rules! each {
            ($dtype:expr) => {
                for ((out, offset), valid) in out.iter_mut().zip(offsets).zip(valid) {
                    *out = if *valid { self.load(load(*offset), $dtype) } else { 0 };
                }
            };
        }
        match dtype.bytes() {
            1 => each!(Dtype::Bool),
            2 => each!(Dtype::F16),
            _ => each!(Dtype::F32),
        }
    }

    /// Stores many elements, in order; the counterpart of [`Memory::gather`].
    pub(crate) fn scatter(&self, dtype: Dtype, base: usize, offsets: &[i64], valid: &[bool], values: &[u32]) {
        for ((value, offset), _) in values.iter().zip(offsets).zip(valid).filter(|(_, valid)| **valid) {
            self.store(base.wrapping_add_signed(*offset as isize * dtype.bytes() as isize), dtype, *value);
        }
    }
}

/// The bits that an element has at the low end of a word.
#[inline]
fn low_bits(dtype: Dtype) -> u32 {
    match dtype.bytes() {
        1 => 0xff,
        2 => 0xffff,
        _ => u32::MAX,
    }
}

/// A tensor argument: a view of a memory.
#[derive(Clone, Debug)]
pub struct TensorArgument {
    /// Element type.
    pub dtype: Dtype,
    /// Extents, outermost first.
    pub shape: Vec<i64>,
    /// Strides in elements, outermost first; the last is 1.
    pub strides: Vec<i64>,
    /// The memory.
    pub memory: Arc<Memory>,
    /// Byte offset of element 0.
    pub offset: usize,
}

/// A scalar argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScalarValue {
    /// `usize`.
    Index(i64),
    /// An element value: its bits, zero-extended.
    Element(Dtype, u32),
}

impl ScalarValue {
    /// The number as the launcher computes with it: a `usize`, a whole number with its sign, a bool as 0 or 1. Of a float, which
    /// no grid, stride or check is made of, its bits.
    pub fn host_number(self) -> i64 {
        match self {
            ScalarValue::Index(value) => value,
            ScalarValue::Element(dtype, bits) => match dtype.class() {
                DtypeClass::Int(format) => super::numeric::extend(format, bits),
                DtypeClass::Bool | DtypeClass::Float(_) => i64::from(bits),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_that_are_misaligned_or_outside_are_typed_errors() {
        let memory = Memory::zeros(10);
        for (dtype, offset) in [(Dtype::F32, 1), (Dtype::I32, 2), (Dtype::U32, 3), (Dtype::F16, 1), (Dtype::Bf16, 7)] {
            let bytes = dtype.bytes() as usize;
            assert_eq!(memory.get(offset, dtype), Err(MemoryError::Misaligned { offset, bytes }));
            assert_eq!(memory.set(offset, dtype, 1), Err(MemoryError::Misaligned { offset, bytes }));
        }
        for (dtype, offset) in [(Dtype::F32, 8), (Dtype::F16, 10), (Dtype::Bool, 10), (Dtype::F32, usize::MAX - 3)] {
            let bytes = dtype.bytes() as usize;
            assert_eq!(memory.get(offset, dtype), Err(MemoryError::OutOfRange { offset, bytes, len: 10 }));
        }
        let error = memory.write(8, &[0; 3]).unwrap_err();
        assert_eq!(error.to_string(), "3 bytes at byte 8 leave a simulated memory of 10 bytes");
        assert!(memory.read(usize::MAX, &mut [0; 2]).is_err());
        memory.read(10, &mut []).unwrap();
    }

    /// Every offset and length of a copy, and every element of every size, against plain bytes.
    #[test]
    fn bytes_and_elements_agree_with_plain_memory() {
        let memory = Memory::zeros(23);
        let mut plain = [0u8; 23];
        let mut next = 1u8;
        for start in 0..=23 {
            for end in start..=23 {
                for byte in &mut plain[start..end] {
                    *byte = next;
                    next = next.wrapping_mul(5).wrapping_add(3);
                }
                memory.write(start, &plain[start..end]).unwrap();
                let mut found = vec![0; end - start];
                memory.read(start, &mut found).unwrap();
                assert_eq!(found, plain[start..end]);
            }
        }
        for dtype in [Dtype::Bool, Dtype::F16, Dtype::F32] {
            let size = dtype.bytes() as usize;
            for offset in (0..=23 - size).step_by(size) {
                let mut bits = [0; 4];
                bits[..size].copy_from_slice(&plain[offset..offset + size]);
                assert_eq!(memory.get(offset, dtype), Ok(u32::from_le_bytes(bits)));
                let value = u32::from(next) | u32::from(next) << 8 | 0x5a5a_0000;
                next = next.wrapping_mul(5).wrapping_add(3);
                memory.set(offset, dtype, value).unwrap();
                plain[offset..offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
                let mut all = [0; 23];
                memory.read(0, &mut all).unwrap();
                assert_eq!(all, plain, "neighbours are kept");
            }
        }
    }

    /// Threads that write neighbours in one word, by elements and by bytes, lose nothing of each other.
    #[test]
    fn neighbours_that_are_written_at_the_same_time_are_both_kept() {
        let memory = Memory::zeros(8);
        let rounds = if cfg!(miri) { 50 } else { 20_000 };
        std::thread::scope(|scope| {
            for lane in 0..4usize {
                let memory = &memory;
                scope.spawn(move || {
                    for round in 0..rounds {
                        match lane {
                            0 => memory.set(0, Dtype::F16, round).unwrap(),
                            1 => memory.write(2, &[round as u8]).unwrap(),
                            2 => memory.write(3, &[round as u8, round as u8, round as u8]).unwrap(),
                            _ => drop(memory.update(0, |word| word)),
                        }
                    }
                });
            }
        });
        let last = (rounds - 1) as u8;
        let mut found = [0; 8];
        memory.read(0, &mut found).unwrap();
        let [low, high] = ((rounds - 1) as u16).to_le_bytes();
        assert_eq!(found, [low, high, last, last, last, last, 0, 0]);
    }

    /// Memory of somebody else, which ends in the middle of a word: every element and copy, and nothing beyond the end.
    #[test]
    fn foreign_memory_is_used_in_place_up_to_its_last_byte() {
        for len in 0..=11usize {
            let mut words = [0xa5a5_a5a5u32; 4];
            let start = NonNull::from(&mut words).cast::<u8>();
            {
                // SAFETY: the array outlives the memory and is not used meanwhile.
                let memory = unsafe { Memory::foreign(start, len, false, None) }.unwrap();
                let bytes: Vec<u8> = (1..=len as u8).collect();
                memory.write(0, &bytes).unwrap();
                let mut back = vec![0; len];
                memory.read(0, &mut back).unwrap();
                assert_eq!(back, bytes);
                for offset in (0..len.saturating_sub(1)).step_by(2) {
                    let bits = memory.get(offset, Dtype::F16).unwrap();
                    assert_eq!(bits, u32::from(bytes[offset]) | u32::from(bytes[offset + 1]) << 8);
                    memory.set(offset, Dtype::F16, !bits).unwrap();
                }
            }
            let all: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let pairs = len / 2 * 2;
            assert!((0..pairs).all(|i| all[i] == !(i as u8 + 1)), "{len}: {all:x?}");
            assert!((pairs..len).all(|i| all[i] == i as u8 + 1), "{len}: {all:x?}");
            assert!(all[len..].iter().all(|byte| *byte == 0xa5), "{len}: {all:x?}");
        }
    }

    #[test]
    fn frozen_memory_is_read_and_never_written() {
        let words = [0x0403_0201u32, 0x0807_0605];
        let start = NonNull::from(&words).cast::<u8>();
        // SAFETY: the words outlive the memory, and nobody writes them.
        let memory = unsafe { Memory::foreign(start, 7, true, None) }.unwrap();
        assert_eq!(memory.get(4, Dtype::F16).unwrap().to_le_bytes()[0], memory.get(4, Dtype::Bool).unwrap() as u8);
        assert_eq!(memory.set(0, Dtype::F32, 1), Err(MemoryError::ReadOnly));
        assert_eq!(memory.write(6, &[0]), Err(MemoryError::ReadOnly));
        // SAFETY: as above.
        let error = unsafe { Memory::foreign(start.add(2), 4, true, None) }.unwrap_err();
        assert!(error.to_string().ends_with("does not begin at a multiple of 4 bytes"), "{error}");
    }

    /// What keeps the bytes alive is dropped with the memory, and not before.
    #[test]
    fn the_owner_is_dropped_with_the_memory() {
        let owner = Arc::new(vec![7u32; 4]);
        let start = NonNull::from(&owner[0]).cast::<u8>();
        // SAFETY: the owner keeps the bytes, and nobody writes them.
        let memory = unsafe { Memory::foreign(start, 16, true, Some(Box::new(owner.clone()))) }.unwrap();
        let share = Arc::new(memory);
        let other = share.clone();
        drop(share);
        assert_eq!((Arc::strong_count(&owner), other.get(12, Dtype::U32)), (2, Ok(7)));
        drop(other);
        assert_eq!(Arc::strong_count(&owner), 1);
    }

    #[test]
    fn more_than_the_host_has_is_a_typed_error() {
        for bytes in [1 << 48, 1 << 60, isize::MAX as usize, usize::MAX] {
            assert_eq!(Memory::try_zeros(bytes).unwrap_err(), MemoryError::OutOfMemory { bytes });
        }
        assert!(Memory::try_zeros(0).unwrap().is_empty());
    }
}
