//! Which streams have used a piece of memory, so that work on another stream is ordered after them.
//!
//! A piece of memory has *writers*: the stream of its allocation or latest write, and more where parts of it were written
//! at the same time through views that a split made. Every stream that read it since is a *reader*. Reading on a new
//! stream waits for the writers; writing waits for the writers and all readers. Waits are recorded when they are needed,
//! at a moment when the borrow rules have made sure that every use that must come first has been queued: a write needs
//! `&mut`, so no launch that reads is still being made, and views of a split write different elements. In the common
//! case, one stream, this is one comparison.

use super::context::{CudaDevice, StreamSlot, lock};
use crate::allocation::Allocation;
use crate::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How memory is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// Read.
    Read,
    /// Written (and read) through a view beside which other views write other elements.
    WritePart,
    /// Written (and read) with nothing else using it.
    Write,
}

/// Who has used a piece of memory, as bits by stream number.
#[derive(Debug)]
pub(crate) struct Usage {
    writers: AtomicU64,
    readers: AtomicU64,
}

impl Usage {
    /// Memory that stream `writer` has allocated or written.
    pub fn written_by(writer: u8) -> Usage {
        Usage { writers: AtomicU64::new(1 << writer), readers: AtomicU64::new(0) }
    }

    /// A stream that wrote it latest.
    pub fn writer(&self) -> u8 {
        self.writers.load(Ordering::Acquire).trailing_zeros() as u8
    }

    /// Whether `stream` may use it without further ado.
    #[inline]
    fn settled(&self, stream: u8, how: Use) -> bool {
        let bit = 1 << stream;
        let alone = self.writers.load(Ordering::Acquire) == bit;
        let readers = self.readers.load(Ordering::Acquire);
        match how {
            Use::Read => alone || readers & bit != 0,
            Use::Write | Use::WritePart => alone && readers & !bit == 0,
        }
    }

    /// The streams that must be waited for, as bits.
    fn waits(&self, stream: u8, how: Use) -> u64 {
        let readers = if how == Use::Read { 0 } else { self.readers.load(Ordering::Acquire) };
        (self.writers.load(Ordering::Acquire) | readers) & !(1 << stream)
    }

    fn record(&self, stream: u8, how: Use) {
        let bit = 1 << stream;
        match how {
            Use::Read => {
                self.readers.fetch_or(bit, Ordering::AcqRel);
            }
            Use::WritePart => {
                // A reader is ordered after the writers it knew, which no longer are all; and it still must be waited
                // for. So it becomes a writer.
                let readers = self.readers.swap(0, Ordering::AcqRel);
                self.writers.fetch_or(readers | bit, Ordering::AcqRel);
            }
            Use::Write => {
                self.readers.store(0, Ordering::Release);
                self.writers.store(bit, Ordering::Release);
            }
        }
    }

    /// Orders `stream` after every use that a use of this kind must follow, and records the use.
    #[inline]
    pub fn settle(&self, device: &CudaDevice, stream: &StreamSlot, how: Use) -> Result<(), Error> {
        if self.settled(stream.index, how) { Ok(()) } else { self.wait(device, stream, how) }
    }

    #[cold]
    fn wait(&self, device: &CudaDevice, stream: &StreamSlot, how: Use) -> Result<(), Error> {
        for earlier in streams(self.waits(stream.index, how)) {
            if let Some(earlier) = device.stream(earlier) {
                device.order(earlier, stream)?;
            }
        }
        self.record(stream.index, how);
        Ok(())
    }
}

fn streams(bits: u64) -> impl Iterator<Item = u8> {
    (0..64).filter(move |i| bits >> i & 1 == 1)
}

/// Orders `stream` before a use of `memory`. While the stream is captured the use is noted instead: the graph settles it
/// each time it is launched, and keeps the memory alive.
#[inline]
pub(crate) fn touch(device: &CudaDevice, stream: &StreamSlot, memory: &Arc<Allocation>, how: Use) -> Result<(), Error> {
    if stream.capturing.load(Ordering::Relaxed) {
        if memory.is_borrowed() {
            let problem = "a graph cannot keep memory that is borrowed from other code".into();
            return Err(Error::Capture { device: device.label.clone(), problem });
        }
        lock(&stream.captured).push((memory.clone(), how));
        return Ok(());
    }
    memory.usage.settle(device, stream, how)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One use of the memory; the streams it had to wait for.
    fn act(usage: &Usage, stream: u8, how: Use) -> Vec<u8> {
        if usage.settled(stream, how) {
            return vec![];
        }
        let waits = streams(usage.waits(stream, how)).collect();
        usage.record(stream, how);
        waits
    }

    #[test]
    fn one_stream_never_waits() {
        let usage = Usage::written_by(3);
        for how in [Use::Read, Use::Write, Use::WritePart, Use::Read, Use::Write] {
            assert!(usage.settled(3, how));
            assert_eq!(act(&usage, 3, how), [0u8; 0]);
        }
    }

    #[test]
    fn readers_wait_for_the_writer_once_and_a_writer_for_all_readers() {
        let usage = Usage::written_by(0);
        assert_eq!(act(&usage, 1, Use::Read), [0]);
        assert_eq!(act(&usage, 1, Use::Read), [0u8; 0]);
        assert_eq!(act(&usage, 63, Use::Read), [0]);
        assert_eq!(act(&usage, 0, Use::Read), [0u8; 0]);
        assert_eq!(act(&usage, 0, Use::Write), [1, 63]);
        assert_eq!(act(&usage, 1, Use::Write), [0]);
        assert_eq!(act(&usage, 0, Use::Read), [1]);
    }

    /// Parts written at the same time: when the second waits, the first may not be queued yet, so whoever comes later
    /// waits for both.
    #[test]
    fn writers_of_parts_are_all_waited_for() {
        let usage = Usage::written_by(0);
        assert_eq!(act(&usage, 7, Use::Read), [0]);
        assert_eq!(act(&usage, 1, Use::WritePart), [0, 7]);
        assert_eq!(act(&usage, 2, Use::WritePart), [0, 1, 7]);
        assert_eq!(act(&usage, 7, Use::Read), [0, 1, 2]);
        assert_eq!(act(&usage, 3, Use::Write), [0, 1, 2, 7]);
        assert_eq!(act(&usage, 3, Use::Read), [0u8; 0]);
    }

    /// Every random history is ordered: a read is after the latest write, a write after everything.
    #[test]
    fn any_history_is_ordered() {
        let mut seed = 1u64;
        let mut random = |n: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % n
        };
        for _ in 0..500 {
            let usage = Usage::written_by(0);
            // after[s][e]: everything queued on stream s from now runs after event e.
            let mut after: Vec<Vec<bool>> = vec![vec![false]; 4];
            after[0][0] = true;
            let mut events = vec![true];
            for _ in 0..30 {
                let stream = random(4) as usize;
                let how = [Use::Read, Use::Read, Use::Write, Use::WritePart][random(4) as usize];
                for earlier in act(&usage, stream as u8, how) {
                    let known = after[usize::from(earlier)].clone();
                    after[stream].iter_mut().zip(known).for_each(|(a, k)| *a |= k);
                }
                let write = how != Use::Read;
                let writes: Vec<usize> = (0..events.len()).filter(|e| write || events[*e]).collect();
                assert!(writes.iter().all(|e| after[stream][*e]), "stream {stream} {how:?}: {events:?} {after:?}");
                events.push(write);
                after.iter_mut().enumerate().for_each(|(s, a)| a.push(s == stream));
            }
        }
    }
}
