//! Simulated global memory. Blocks run on several host threads and a wrong kernel may race, so every element is
//! accessed by a relaxed atomic of its own size: a race gives some value, never undefined behaviour.

use crate::ir::Dtype;
use std::cell::UnsafeCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

/// One allocation of simulated device memory, aligned to 256 bytes as a device allocation is.
pub struct Memory {
    chunks: Box<[Chunk]>,
    len: usize,
}

#[repr(align(256))]
struct Chunk(#[expect(dead_code, reason = "only reached through pointers to its bytes")] UnsafeCell<[u8; 256]>);

// SAFETY: every access goes through atomics of the element's size (`load`, `store`, `update`) or of one byte.
unsafe impl Sync for Memory {}
// SAFETY: plain bytes, owned.
unsafe impl Send for Memory {}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes)", self.len)
    }
}

impl Memory {
    /// `len` bytes of zeros.
    pub fn zeros(len: usize) -> Memory {
        let chunks = (0..len.div_ceil(256)).map(|_| Chunk(UnsafeCell::new([0; 256]))).collect();
        Memory { chunks, len }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn address(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.len), "simulated memory access out of range");
        let base = self.chunks.as_ptr().cast::<u8>().cast_mut();
        // SAFETY: in range by the assertion above; chunks are contiguous.
        unsafe { base.add(offset) }
    }

    /// The bits of the element at byte `offset`, zero-extended. `offset` is a multiple of the element's size and the
    /// element lies inside the memory: the caller checks.
    #[inline]
    pub fn load(&self, offset: usize, dtype: Dtype) -> u32 {
        let pointer = self.address(offset, dtype.bytes() as usize);
        // SAFETY: in range, aligned for the element by contract (asserted in debug), only accessed atomically.
        unsafe {
            match dtype.bytes() {
                1 => u32::from(AtomicU8::from_ptr(pointer).load(Ordering::Relaxed)),
                2 => u32::from(AtomicU16::from_ptr(aligned(pointer)).load(Ordering::Relaxed)),
                _ => AtomicU32::from_ptr(aligned(pointer)).load(Ordering::Relaxed),
            }
        }
    }

    /// Stores the low bits of `bits` as the element at byte `offset`; the same contract as [`Memory::load`].
    #[inline]
    pub fn store(&self, offset: usize, dtype: Dtype, bits: u32) {
        let pointer = self.address(offset, dtype.bytes() as usize);
        // SAFETY: as in `load`.
        unsafe {
            match dtype.bytes() {
                1 => AtomicU8::from_ptr(pointer).store(bits as u8, Ordering::Relaxed),
                2 => AtomicU16::from_ptr(aligned(pointer)).store(bits as u16, Ordering::Relaxed),
                _ => AtomicU32::from_ptr(aligned(pointer)).store(bits, Ordering::Relaxed),
            }
        }
    }

    /// Replaces a 4-byte element by `f` of it, atomically, and returns the old bits.
    pub fn update(&self, offset: usize, f: impl Fn(u32) -> u32) -> u32 {
        let pointer = self.address(offset, 4);
        // SAFETY: as in `load`.
        let cell = unsafe { AtomicU32::from_ptr(aligned(pointer)) };
        cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| Some(f(old))).unwrap_or_else(|old| old)
    }

    /// Loads many elements: `out[i]` is the element at `base` bytes plus `offsets[i]` elements, 0 where not `valid`.
    /// Panics where a valid one is outside: the caller has checked.
    pub fn gather(&self, dtype: Dtype, base: usize, offsets: &[i64], valid: &[bool], out: &mut [u32]) {
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
    pub fn scatter(&self, dtype: Dtype, base: usize, offsets: &[i64], valid: &[bool], values: &[u32]) {
        for ((value, offset), _) in values.iter().zip(offsets).zip(valid).filter(|(_, valid)| **valid) {
            self.store(base.wrapping_add_signed(*offset as isize * dtype.bytes() as isize), dtype, *value);
        }
    }

    /// Copies bytes in.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let base = self.address(offset, bytes.len());
        for (i, byte) in bytes.iter().enumerate() {
            // SAFETY: in range; one-byte atomics need no alignment.
            unsafe { AtomicU8::from_ptr(base.add(i)).store(*byte, Ordering::Relaxed) }
        }
    }

    /// Copies bytes out.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        if bytes.is_empty() {
            return;
        }
        let base = self.address(offset, bytes.len());
        for (i, byte) in bytes.iter_mut().enumerate() {
            // SAFETY: as in `write`.
            *byte = unsafe { AtomicU8::from_ptr(base.add(i)).load(Ordering::Relaxed) };
        }
    }
}

#[inline]
fn aligned<T>(pointer: *mut u8) -> *mut T {
    let pointer = pointer.cast::<T>();
    debug_assert!(pointer.is_aligned(), "simulated memory access is misaligned");
    pointer
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
