//! Which streams have used a piece of memory, so that work on another stream is ordered after them.
//!
//! A piece of memory has one *writer*: the stream of its allocation or latest write. Every stream that read it since is
//! a *reader*. Reading on a new stream waits for the writer; writing waits for the writer and every reader. Waits are
//! recorded when they are needed, at a moment when the borrow rules have made sure that every earlier launch has been
//! queued (a write needs `&mut`, so no launch that reads is still being made). In the common case, one stream, this is
//! one comparison.

use super::context::{CudaDevice, StreamSlot, lock};
use crate::allocation::Allocation;
use crate::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Who has used a piece of memory.
#[derive(Debug)]
pub(crate) struct Usage {
    writer: AtomicU8,
    readers: AtomicU64,
}

/// What must be waited for before a use, as stream numbers.
#[derive(Debug, PartialEq, Eq)]
struct Waits(u64);

impl Usage {
    /// Memory that stream `writer` has allocated or written.
    pub fn written_by(writer: u8) -> Usage {
        Usage { writer: AtomicU8::new(writer), readers: AtomicU64::new(0) }
    }

    /// The stream of the latest write.
    pub fn writer(&self) -> u8 {
        self.writer.load(Ordering::Acquire)
    }

    /// Whether `stream` may use it without further ado.
    #[inline]
    fn settled(&self, stream: u8, write: bool) -> bool {
        let own = self.writer.load(Ordering::Acquire) == stream;
        let readers = self.readers.load(Ordering::Acquire);
        let bit = 1 << stream;
        if write { own && readers & !bit == 0 } else { own || readers & bit != 0 }
    }

    fn waits(&self, stream: u8, write: bool) -> Waits {
        let writer = 1u64 << self.writer();
        let readers = if write { self.readers.load(Ordering::Acquire) } else { 0 };
        Waits((writer | readers) & !(1u64 << stream))
    }

    fn record(&self, stream: u8, write: bool) {
        if write {
            self.readers.store(0, Ordering::Release);
            self.writer.store(stream, Ordering::Release);
        } else {
            self.readers.fetch_or(1 << stream, Ordering::AcqRel);
        }
    }

    /// Orders `stream` after every use that a use of this kind must follow, and records the use.
    pub fn settle(&self, device: &CudaDevice, stream: &StreamSlot, write: bool) -> Result<(), Error> {
        for earlier in self.waits(stream.index, write).streams() {
            if let Some(earlier) = device.stream(earlier) {
                device.order(earlier, stream)?;
            }
        }
        self.record(stream.index, write);
        Ok(())
    }
}

impl Waits {
    fn streams(&self) -> impl Iterator<Item = u8> + use<> {
        let bits = self.0;
        (0..64).filter(move |i| bits >> i & 1 == 1)
    }
}

/// Orders `stream` before a use of `memory`. While the stream is captured the use is noted instead: the graph settles it
/// each time it is launched, and keeps the memory alive.
#[inline]
pub(crate) fn touch(
    device: &CudaDevice,
    stream: &StreamSlot,
    memory: &Arc<Allocation>,
    write: bool,
) -> Result<(), Error> {
    if stream.capturing.load(Ordering::Relaxed) {
        if memory.is_borrowed() {
            let problem = "a graph cannot keep memory that is borrowed from other code".into();
            return Err(Error::Capture { device: device.label.clone(), problem });
        }
        lock(&stream.captured).push((memory.clone(), write));
        return Ok(());
    }
    if memory.usage.settled(stream.index, write) {
        return Ok(());
    }
    memory.usage.settle(device, stream, write)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One use of the memory; the streams it had to wait for.
    fn act(usage: &Usage, stream: u8, write: bool) -> Vec<u8> {
        let waits = if usage.settled(stream, write) { vec![] } else { usage.waits(stream, write).streams().collect() };
        if !usage.settled(stream, write) {
            usage.record(stream, write);
        }
        waits
    }

    #[test]
    fn one_stream_never_waits() {
        let usage = Usage::written_by(3);
        for write in [false, true, true, false, true] {
            assert!(usage.settled(3, write));
            assert_eq!(act(&usage, 3, write), []);
        }
    }

    #[test]
    fn readers_wait_for_the_writer_once_and_a_writer_for_all_readers() {
        let usage = Usage::written_by(0);
        assert_eq!(act(&usage, 1, false), [0]);
        assert_eq!(act(&usage, 1, false), []);
        assert_eq!(act(&usage, 63, false), [0]);
        assert_eq!(act(&usage, 0, false), []);
        assert_eq!(act(&usage, 0, true), [1, 63]);
        assert_eq!(act(&usage, 1, true), [0]);
        assert_eq!(act(&usage, 0, false), [1]);
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
                let (stream, write) = (random(4) as usize, random(3) == 0);
                for earlier in act(&usage, stream as u8, write) {
                    let known = after[usize::from(earlier)].clone();
                    after[stream].iter_mut().zip(known).for_each(|(a, k)| *a |= k);
                }
                let last_write = events.iter().rposition(|w| *w).unwrap();
                let must: Vec<usize> = if write { (0..events.len()).collect() } else { vec![last_write] };
                assert!(must.iter().all(|e| after[stream][*e]), "stream {stream} write {write}: {events:?} {after:?}");
                events.push(write);
                after.iter_mut().enumerate().for_each(|(s, a)| a.push(s == stream));
            }
        }
    }
}
