//! Which streams have used a piece of memory, and how a use is put in order after them.
//!
//! # The rule
//!
//! A use of memory is decided, queued and recorded in one piece: whoever uses memory holds the lock of its [`Usage`] from
//! before it looks up whom its stream must wait for until the work that uses the memory has been handed to the driver
//! ([`hold`], [`Held`]). So the uses of a piece of memory have one order, that in which its lock was held, and with the
//! same order they were queued on their streams. Memory has one *writer*, the stream of its allocation or latest write, and
//! *readers*, the other streams that have read it since. A read on a stream that is neither waits for the writer; a write
//! waits for the writer and all readers, and makes its stream the writer. A wait is an event recorded on the earlier stream
//! at that moment, when, by the rule, every earlier use has been queued there. So every write is ordered before every use
//! that comes after it, and every read before every write that comes after it.
//!
//! Nothing is asked of the borrow checker: a write through `&self` (`PreparedLaunch::launch`, `Graph::launch`), beside
//! readers on other threads and streams, is one more use in that order. What a program cannot know is which of two uses
//! on two threads came first; what it gets is one of the two orders.
//!
//! # Why it does not deadlock
//!
//! Work with several tensors holds all their locks at once, each memory once, taken in the order of their addresses. While
//! they are held nothing is called but the driver, so no other lock of ours is asked for. What is held before them: the
//! lock of a graph that is launched, which nobody asks for later. A free needs no lock: the last owner frees.
//!
//! # Captures
//!
//! While a stream is captured, uses are noted instead: the graph holds and settles them each time it is launched, and keeps
//! the memory alive. A stream is captured only if it was made for that one capture ([`super::capture`]).

use super::capture::{Kept, MemoryUse, Recording};
use super::foreign::{self, Guests};
use super::{CudaDevice, StreamSlot};
use crate::allocation::Allocation;
use crate::error::Error;
use crate::lock::lock;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, MutexGuard};

/// Most tensors of a launch whose locks are kept on the stack.
const FEW: usize = 8;

/// How memory is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// Read.
    Read,
    /// Written (and read).
    Write,
}

/// Who has used a piece of memory.
#[derive(Debug)]
pub(crate) struct Usage(Mutex<Streams>);

/// Streams by their numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streams {
    /// The stream of the latest write.
    writer: u8,
    /// Bits of the other streams that have read it since.
    readers: u64,
}

impl Usage {
    /// Memory that stream `writer` has allocated or written.
    pub fn written_by(writer: u8) -> Usage {
        Usage(Mutex::new(Streams { writer, readers: 0 }))
    }

    /// The stream that wrote it latest, at this moment: where a copy has the fewest to wait for.
    pub fn writer(&self) -> u8 {
        lock(&self.0).writer
    }

    /// The lock.
    pub fn streams(&self) -> &Mutex<Streams> {
        &self.0
    }

    /// Which streams have used memory that nobody else holds any more: no lock is needed.
    pub fn last(&mut self) -> &mut Streams {
        self.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Streams {
    /// The streams that a use on `stream` must wait for, as bits; 0 where it may go ahead.
    #[inline]
    fn waits(&self, stream: u8, how: Use) -> u64 {
        let own = 1 << stream;
        let writer = 1 << self.writer;
        match how {
            // A reader has waited for the writer, and nobody has written since.
            Use::Read if self.readers & own != 0 => 0,
            Use::Read => writer & !own,
            Use::Write => (writer | self.readers) & !own,
        }
    }

    #[inline]
    fn record(&mut self, stream: u8, how: Use) {
        match how {
            // What the writer's own stream reads is waited for with what it wrote.
            Use::Read if self.writer == stream => {}
            Use::Read => self.readers |= 1 << stream,
            Use::Write => *self = Streams { writer: stream, readers: 0 },
        }
    }

    /// Orders a use on `stream` after all that it must follow, by `order(earlier)`, and records it. It may be recorded
    /// before it is queued, because the lock is held until then; and if it never is, the others wait for too much.
    #[inline]
    fn settle(&mut self, stream: u8, how: Use, mut order: impl FnMut(u8) -> Result<(), Error>) -> Result<(), Error> {
        let mut waits = self.waits(stream, how);
        while waits != 0 {
            order(waits.trailing_zeros() as u8)?;
            waits &= waits - 1;
        }
        self.record(stream, how);
        Ok(())
    }

    /// Orders what frees the memory, on `stream`, after everything.
    pub fn settle_free(&mut self, device: &CudaDevice, stream: &StreamSlot) -> Result<(), Error> {
        self.settle_on(device, stream, Use::Write)
    }

    /// Orders a use on a stream of the table after all that it must follow, and records it.
    pub fn settle_on(&mut self, device: &CudaDevice, stream: &StreamSlot, how: Use) -> Result<(), Error> {
        self.settle(stream.index, how, |earlier| order(device, earlier, stream))
    }
}

fn order(device: &CudaDevice, earlier: u8, later: &StreamSlot) -> Result<(), Error> {
    device.stream(earlier).map_or(Ok(()), |earlier| device.order(earlier, later))
}

/// The memory that work uses: each piece once, in the order in which locks are taken.
pub(crate) type Uses<'a> = SmallVec<[(&'a Arc<Allocation>, Use); FEW]>;

/// Brings uses in the order in which locks are taken, each piece of memory once.
#[inline]
pub(crate) fn in_order<'a>(uses: impl Iterator<Item = (&'a Arc<Allocation>, Use)>) -> Uses<'a> {
    let mut uses: Uses<'a> = uses.collect();
    let place = |(memory, _): &(&Arc<Allocation>, Use)| Arc::as_ptr(memory).addr();
    if !uses.is_sorted_by(|a, b| place(a) < place(b)) {
        // What is also written comes first of the same memory, and stays.
        uses.sort_unstable_by_key(|used| (place(used), std::cmp::Reverse(used.1)));
        uses.dedup_by_key(|used| place(used));
    }
    uses
}

/// What is held from the decision to the call of the driver: drop it once the work is queued.
pub(crate) enum Held<'a> {
    /// The locks of the memory.
    Ordered { _locks: SmallVec<[MutexGuard<'a, Streams>; FEW]> },
    /// The capture that records the work.
    Captured(Recording<'a>),
    /// What a borrowed stream needs.
    Foreign { _guests: Guests<'a> },
}

impl Held<'_> {
    /// Gives the graph that is being captured a share of what it launches. Outside a capture nothing needs one.
    #[inline]
    pub fn keep(&mut self, share: impl FnOnce() -> Option<Kept>) {
        if let Held::Captured(recording) = self {
            recording.keep(share());
        }
    }
}

/// Orders work on `stream` that uses this memory (see [`in_order`]), and holds what must be held until it is queued.
/// `None`: the stream belongs to a capture that is over.
#[inline]
pub(crate) fn hold<'a>(
    device: &'a CudaDevice,
    stream: &'a StreamSlot,
    uses: impl Iterator<Item = (&'a Arc<Allocation>, Use)>,
) -> Result<Option<Held<'a>>, Error> {
    if stream.is_foreign() {
        return foreign::hold(device, stream, uses).map(|_guests| Some(Held::Foreign { _guests }));
    }
    if let Some(capture) = &stream.capture {
        let Some(mut recording) = capture.recording() else { return Ok(None) };
        for (memory, how) in uses {
            if memory.only_on().is_some() {
                return Err(device.elsewhere_only());
            }
            if memory.is_borrowed() {
                let problem = "a graph cannot keep memory that is borrowed from other code".into();
                return Err(Error::Capture { device: device.label.clone(), problem });
            }
            let used: MemoryUse = (memory.clone(), how);
            recording.note(used);
        }
        return Ok(Some(Held::Captured(recording)));
    }
    let mut locks = SmallVec::new();
    for (memory, how) in uses {
        if memory.only_on().is_some() {
            return Err(device.elsewhere_only());
        }
        let mut streams = lock(&memory.usage.0);
        streams.settle_on(device, stream, how)?;
        locks.push(streams);
    }
    Ok(Some(Held::Ordered { _locks: locks }))
}

/// As [`hold`], of one piece of memory on a stream that we never capture: a copy, on the stream that the memory belongs to if
/// it belongs to a borrowed one.
pub(crate) fn hold_one<'a>(
    device: &CudaDevice,
    stream: &StreamSlot,
    memory: &'a Allocation,
    how: Use,
) -> Result<MutexGuard<'a, Streams>, Error> {
    let mut streams = lock(&memory.usage.0);
    if stream.is_foreign() {
        device.refuse_elsewhere(stream)?;
        device.refuse_capturing(stream, "copying to or from the host")?;
    } else {
        streams.settle_on(device, stream, how)?;
    }
    Ok(streams)
}

#[cfg(test)]
mod tests;
