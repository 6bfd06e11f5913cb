//! Which launches may start before the previous kernel of their stream is done.
//!
//! A kernel with `pdl(independent = [w])` reads nothing but its independent tensors before its *wait*, writes nothing
//! before it, runs it on every path, and lets dependents start only after it. Such a launch C gets the driver's
//! attribute, and so may start early, only where
//!
//! 1. the last operation of its stream is a kernel B of ours, and
//! 2. B wrote no byte of an independent tensor of C.
//!
//! Why that is enough. B either was launched with the attribute or without. Without, B started after everything before
//! it in the stream was done. With, B has a wait; C starts once every block of B has let dependents start or has ended,
//! both of which come after its own wait, so after everything before B was done. Either way, while C runs early only B
//! may still run: what C then reads is complete, because B does not write it (2) and everything older is done. After
//! its wait C has all of B's writes. By the same argument a kernel that is done leaves nothing before it undone, so
//! whatever follows C as an ordinary operation (a copy, an event, a graph, a kernel without the attribute) follows all.
//! What C writes, it writes after B is done: B may read and write it.
//!
//! The last operation is not a kernel of ours after a copy, a clearing, an allocation, a free, an event recorded or
//! waited for, a launch of a graph; at the start of a stream; and in a capture before its first kernel, since each
//! capture has a stream of its own: so a graph's first kernel has no programmatic edge, nor one after a wait for
//! another stream. Tensors that another stream wrote are waited for with an event on this stream before the launch
//! that reads them, so no kernel on this stream between that event and C can have started before it. Once other code has
//! been given a stream, its last operation is never known again.
//!
//! Streams may be used from several threads: what is queued between another thread's decision and its launch makes
//! the last operation unknown, and so does anything queued while something else is. No lock is taken.

use super::driver::Handle;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Most written ranges that are remembered of a kernel; of one with more it is as if it wrote everything.
const MOST: usize = 4;
/// Low bits of a ticket: operations being queued. The others: operations so far.
const IN_FLIGHT: u64 = (1 << 16) - 1;
const ONE: u64 = (1 << 16) + 1;
/// The number of no operation, and neither is the next: those have 48 bits. (`u64::MAX` would not do: the next is the
/// number of a stream's first operation.)
const NO_KERNEL: u64 = 1 << 48;

/// Addresses, the end excluded.
pub(crate) type Range = (u64, u64);

/// What is known of a stream's last operation.
pub(crate) struct Last {
    ticket: AtomicU64,
    /// Whether other code may queue operations, which are not counted.
    shared: AtomicBool,
    /// The number of the operation that `written` is about.
    number: AtomicU64,
    written: [(AtomicU64, AtomicU64); MOST],
}

/// An operation being queued on a stream.
pub(crate) struct Entry<'a> {
    last: &'a Last,
    stream: Handle,
    number: u64,
    /// Whether nothing else was being queued when this began: then `last` is this operation's alone.
    alone: bool,
}

impl Last {
    pub fn new() -> Last {
        let nothing = || (AtomicU64::new(0), AtomicU64::new(0));
        Last {
            ticket: AtomicU64::new(0),
            shared: AtomicBool::new(false),
            number: AtomicU64::new(NO_KERNEL),
            written: std::array::from_fn(|_| nothing()),
        }
    }

    /// From here on other code may queue operations.
    pub fn share(&self) {
        self.shared.store(true, Ordering::Release);
    }

    /// Begins an operation. Unless it is recorded as a kernel, the stream's last operation is then none.
    #[inline]
    pub fn enter(&self, stream: Handle) -> Entry<'_> {
        let ticket = self.ticket.fetch_add(ONE, Ordering::AcqRel);
        Entry { last: self, stream, number: ticket >> 16, alone: ticket & IN_FLIGHT == 0 }
    }
}

impl Entry<'_> {
    /// The stream, to queue the operation on.
    #[inline]
    pub fn stream(&self) -> Handle {
        self.stream
    }

    /// Whether the operation before is a kernel of ours that wrote none of these bytes.
    #[inline]
    pub fn follows_kernel_apart_from(&self, independent: impl Iterator<Item = Range>) -> bool {
        let last = self.last;
        if !self.alone
            || last.shared.load(Ordering::Acquire)
            || last.number.load(Ordering::Relaxed).wrapping_add(1) != self.number
        {
            return false;
        }
        for (start, end) in independent {
            for (written_start, written_end) in &last.written {
                if start < written_end.load(Ordering::Relaxed) && written_start.load(Ordering::Relaxed) < end {
                    return false;
                }
            }
        }
        true
    }

    /// The operation was queued and is a kernel of ours that writes these bytes.
    #[inline]
    pub fn is_kernel(&self, written: impl Iterator<Item = Range>) {
        if !self.alone {
            return;
        }
        let put = |slot: &(AtomicU64, AtomicU64), (start, end): Range| {
            slot.0.store(start, Ordering::Relaxed);
            slot.1.store(end, Ordering::Relaxed);
        };
        let mut slots = self.last.written.iter();
        for range in written {
            match slots.next() {
                Some(slot) => put(slot, range),
                None => put(&self.last.written[0], (0, u64::MAX)),
            }
        }
        slots.for_each(|slot| put(slot, (0, 0)));
        self.last.number.store(self.number, Ordering::Relaxed);
    }
}

impl Drop for Entry<'_> {
    #[inline]
    fn drop(&mut self) {
        // Releases what was stored to whoever enters next.
        self.last.ticket.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(last: &Last) -> Entry<'_> {
        last.enter(std::ptr::null_mut())
    }

    /// A kernel that writes `written` and whose independent tensor is `independent`: whether it may start early.
    fn kernel(last: &Last, independent: Range, written: &[Range]) -> bool {
        let entry = enter(last);
        let early = entry.follows_kernel_apart_from([independent].into_iter());
        entry.is_kernel(written.iter().copied());
        early
    }

    #[test]
    fn only_a_kernel_that_did_not_write_it_lets_the_next_start_early() {
        let last = Last::new();
        let w = (100, 200);
        assert!(!kernel(&last, w, &[(300, 400)]), "nothing is before");
        assert!(kernel(&last, w, &[(0, 100), (200, 201)]), "neighbours");
        assert!(kernel(&last, w, &[(0, 10), (199, 200)]));
        assert!(!kernel(&last, w, &[(300, 400)]), "its last byte was written");
        assert!(kernel(&last, w, &[(300, 400)]), "the writer is two kernels away");
        drop(enter(&last));
        assert!(!kernel(&last, w, &[]), "a copy is before");
        assert!(kernel(&last, w, &[(1, 2); MOST + 1]));
        assert!(!kernel(&last, w, &[]), "it wrote more than is remembered");
        assert!(kernel(&last, w, &[]));
    }

    #[test]
    fn no_kernel_starts_early_on_a_stream_that_other_code_has() {
        let last = Last::new();
        let w = (100, 200);
        kernel(&last, w, &[]);
        assert!(kernel(&last, w, &[]));
        last.share();
        for _ in 0..3 {
            assert!(!kernel(&last, w, &[]), "other code may have queued something");
        }
    }

    #[test]
    fn what_is_queued_at_the_same_time_makes_the_order_unknown() {
        let last = Last::new();
        let w = (100, 200);
        kernel(&last, w, &[]);
        let first = enter(&last);
        assert!(!kernel(&last, w, &[]), "another is being queued");
        first.is_kernel([].into_iter());
        drop(first);
        assert!(!kernel(&last, w, &[]), "which of the two was last is unknown");
        assert!(kernel(&last, w, &[]));
        let first = enter(&last);
        drop(enter(&last));
        first.is_kernel([].into_iter());
        drop(first);
        assert!(!kernel(&last, w, &[]), "the copy may have come after");
    }
}
