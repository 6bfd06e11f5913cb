//! The words that a simulated memory is made of: its own, or somebody else's memory that is used in place.
//!
//! Foreign memory is a row of whole words too, and may end in the middle of one. The bytes after the last whole word are a
//! *tail* that is accessed byte by byte, so that nothing beyond the end is touched; no element of 4 bytes lies in it. Each
//! byte is accessed by atomics of one size only: those of words by words, those of the tail by bytes.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// Bytes of a word.
pub(super) const WORD: usize = size_of::<u32>();

/// A row of words.
pub(super) struct Words {
    start: NonNull<AtomicU32>,
    /// Whole words.
    count: usize,
    /// Bytes after them: at most 3, and none of own memory.
    tail: usize,
    /// Whether nothing may be stored: then nobody else stores either, and loads are ordinary ones.
    frozen: bool,
    keeps: Keeps,
}

/// Who the memory belongs to.
enum Keeps {
    /// It was allocated here, in whole words.
    Own,
    /// Somebody else; this keeps it alive, where something has to.
    Foreign { _owner: Option<Box<dyn Any + Send + Sync>> },
}

// SAFETY: the words are reached by atomics, or, where they are frozen, read while nobody writes; the owner may be sent.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// This many words of zeros; `None` where the host has not that much memory. The system gives zeroed pages when they
    /// are first used, so a large memory costs nothing until then.
    pub fn zeroed(count: usize) -> Option<Words> {
        let layout = Layout::array::<AtomicU32>(count).ok()?;
        let start = match count {
            0 => NonNull::dangling(),
            // SAFETY: the layout has a size, since there are words.
            _ => NonNull::new(unsafe { alloc_zeroed(layout) }.cast::<AtomicU32>())?,
        };
        Some(Words { start, count, tail: 0, frozen: false, keeps: Keeps::Own })
    }

    /// The words of `len` bytes from `start` on, kept alive by `owner`.
    ///
    /// # Safety
    /// As [`super::Memory::foreign`], of a `start` that is a multiple of [`WORD`].
    pub unsafe fn foreign(
        start: NonNull<u8>,
        len: usize,
        frozen: bool,
        owner: Option<Box<dyn Any + Send + Sync>>,
    ) -> Words {
        let keeps = Keeps::Foreign { _owner: owner };
        Words { start: start.cast(), count: len / WORD, tail: len % WORD, frozen, keeps }
    }

    /// Whether nothing may be stored.
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// The address of the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start.cast()
    }

    /// A word; of one that the memory ends in, the bytes that there are, and zeros. Zero beyond the end.
    #[inline]
    pub fn load(&self, index: usize) -> u32 {
        if index >= self.count {
            return self.load_tail(index);
        }
        // SAFETY: `start` has `count` words, which live as long as this.
        let word = unsafe { self.start.add(index) };
        if self.frozen {
            // SAFETY: valid to read, and nobody writes it.
            return unsafe { word.cast::<u32>().read() };
        }
        // SAFETY: valid to read and write, aligned, and accessed by atomics of this size only.
        unsafe { word.as_ref() }.load(Ordering::Relaxed)
    }

    /// Replaces the bits of `mask` in a word by those of `bits`; the other bits are kept, whoever writes them meanwhile.
    /// Nothing is stored in frozen memory, nor beyond the end.
    #[inline]
    pub fn store(&self, index: usize, mask: u32, bits: u32) {
        match self.word(index) {
            Some(word) if mask == u32::MAX => word.store(bits, Ordering::Relaxed),
            Some(word) => drop(replace(word, |old| old & !mask | bits & mask)),
            None => self.store_tail(index, mask, bits),
        }
    }

    /// Replaces a whole word by `f` of it, atomically, and returns the old one.
    pub fn update(&self, index: usize, f: impl Fn(u32) -> u32) -> u32 {
        self.word(index).map_or(0, |word| replace(word, f))
    }

    /// A whole word, to be written.
    #[inline]
    fn word(&self, index: usize) -> Option<&AtomicU32> {
        debug_assert!(!self.frozen, "a store in memory that is lent to be read");
        // SAFETY: `start` has `count` words, which live as long as this, and are accessed by atomics of this size only.
        (index < self.count && !self.frozen).then(|| unsafe { self.start.add(index).as_ref() })
    }

    #[cold]
    fn load_tail(&self, index: usize) -> u32 {
        let mut bytes = [0; WORD];
        for (at, byte) in bytes.iter_mut().enumerate() {
            if let Some(place) = self.tail_byte(index, at) {
                *byte = match self.frozen {
                    // SAFETY: valid to read, and nobody writes it.
                    true => unsafe { place.read() },
                    // SAFETY: valid to read and write, and accessed by atomics of this size only.
                    false => unsafe { AtomicU8::from_ptr(place.as_ptr()) }.load(Ordering::Relaxed),
                };
            }
        }
        u32::from_le_bytes(bytes)
    }

    #[cold]
    fn store_tail(&self, index: usize, mask: u32, bits: u32) {
        if self.frozen {
            return;
        }
        for (at, (mask, byte)) in mask.to_le_bytes().into_iter().zip(bits.to_le_bytes()).enumerate() {
            if let Some(place) = self.tail_byte(index, at).filter(|_| mask != 0) {
                // SAFETY: valid to read and write, and accessed by atomics of this size only.
                unsafe { AtomicU8::from_ptr(place.as_ptr()) }.store(byte, Ordering::Relaxed);
            }
        }
    }

    /// Byte `at` of word `index`, if it is one of the tail's.
    fn tail_byte(&self, index: usize, at: usize) -> Option<NonNull<u8>> {
        // SAFETY: the tail follows the last whole word.
        (index == self.count && at < self.tail).then(|| unsafe { self.start.add(index).cast::<u8>().add(at) })
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        if let (Keeps::Own, 1..) = (&self.keeps, self.count)
            && let Ok(layout) = Layout::array::<AtomicU32>(self.count)
        {
            // SAFETY: `zeroed` has allocated it for this layout, and nothing else has it.
            unsafe { dealloc(self.start.as_ptr().cast(), layout) };
        }
    }
}

/// Replaces a word by `f` of it, atomically, and returns the old one.
#[inline]
fn replace(word: &AtomicU32, f: impl Fn(u32) -> u32) -> u32 {
    word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| Some(f(old))).unwrap_or_else(|old| old)
}
