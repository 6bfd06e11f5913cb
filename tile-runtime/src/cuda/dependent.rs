//! Which launches may start before the previous kernel of their stream is done.
//!
//! A kernel with `pdl(independent = [w])` reads nothing but its independent tensors before its *wait*, writes nothing before it (an
//! independent tensor that it writes too is written after it), and runs it on every path. It lets dependents start after that wait, or, with `trigger = AtStart`, once all its blocks have started.
//! A launch C of such a kernel gets the driver's attribute for programmatic dependent launch, and so may start before the kernel in
//! front of it is done, only where
//!
//! 1. the last operation of its stream is a kernel B of ours, and
//! 2. no kernel that may still run when C starts wrote a byte of an independent tensor of C.
//!
//! Which kernels may still run then. B may. If B was launched without the attribute, it started after everything before it was
//! done: B alone may still run. If it has the attribute and lets dependents start after its wait, C starts once every block of B
//! has waited or ended, so everything before B is done: B alone again. If it has the attribute and lets dependents start at once,
//! what may run beside B may run beside C as well: the kernel A before B, and what may run beside A. So the question goes back
//! from kernel to kernel, up to the first one after whose start nothing older runs, at most [`CHAIN`] of them: beyond, C starts when B is done.
//!
//! Why that is enough. What C reads early, none of the kernels that may still run writes, and everything older is done. The wait
//! of C returns when B is done and its writes can be seen. B is done only after its own wait has returned, so A is done by then,
//! and likewise everything older: after its wait C has all writes of all of them, and it overwrites nothing that they still read.
//! By the same argument a kernel that is done leaves nothing before it undone, so whatever follows C as an ordinary operation (a
//! copy, an event, a graph, a kernel without the attribute) follows all.
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
const MOST: usize = 8;
/// Low bits of a ticket: operations being queued. The others: operations so far.
const IN_FLIGHT: u64 = (1 << 16) - 1;
const ONE: u64 = (1 << 16) + 1;
/// The number of no operation, and neither is the next: those have 48 bits. (`u64::MAX` would not do: the next is the
/// number of a stream's first operation.)
const NO_KERNEL: u64 = 1 << 48;

/// Addresses, the end excluded.
pub(crate) type Range = (u64, u64);

/// Most kernels back to which one that may still run is looked for.
const CHAIN: usize = 4;

/// What is known of a stream's last operations.
pub(crate) struct Last {
    ticket: AtomicU64,
    /// Whether other code may queue operations, which are not counted.
    shared: AtomicBool,
    /// The last kernels, each at the place of its number.
    kernels: [Kernel; CHAIN],
}

/// A kernel that was queued.
struct Kernel {
    /// The number of its operation.
    number: AtomicU64,
    /// Whether kernels before it may still run when the next one starts.
    passes: AtomicBool,
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
        let kernel = || Kernel {
            number: AtomicU64::new(NO_KERNEL),
            passes: AtomicBool::new(false),
            written: std::array::from_fn(|_| (AtomicU64::new(0), AtomicU64::new(0))),
        };
        Last { ticket: AtomicU64::new(0), shared: AtomicBool::new(false), kernels: std::array::from_fn(|_| kernel()) }
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

    /// Whether the operation before is a kernel of ours, and no kernel that may still run when this one starts early wrote any of these bytes.
    #[inline]
    pub fn follows_kernel_apart_from(&self, independent: impl Iterator<Item = Range>) -> bool {
        if !self.alone || self.last.shared.load(Ordering::Acquire) {
            return false;
        }
        let Some(count) = self.running() else { return false };
        for (start, end) in independent {
            for written in (1..=count).flat_map(|back| &self.kernel(back).written) {
                if start < written.1.load(Ordering::Relaxed) && written.0.load(Ordering::Relaxed) < end {
                    return false;
                }
            }
        }
        true
    }

    /// How many of the last kernels may still run when this one starts early; none where that is not known.
    fn running(&self) -> Option<u64> {
        for back in 1..=CHAIN as u64 {
            let kernel = self.kernel(back);
            if kernel.number.load(Ordering::Relaxed).wrapping_add(back) != self.number {
                return None;
            }
            if !kernel.passes.load(Ordering::Relaxed) {
                return Some(back);
            }
        }
        None
    }

    /// Where the operation that is so far back is kept, if it is a kernel.
    fn kernel(&self, back: u64) -> &Kernel {
        &self.last.kernels[(self.number.wrapping_sub(back) % CHAIN as u64) as usize]
    }

    /// The operation was queued and is a kernel of ours that writes these bytes. `passes`: it may have started early, and lets the next one start
    /// before it has waited.
    #[inline]
    pub fn is_kernel(&self, written: impl Iterator<Item = Range>, passes: bool) {
        if !self.alone {
            return;
        }
        let put = |slot: &(AtomicU64, AtomicU64), (start, end): Range| {
            slot.0.store(start, Ordering::Relaxed);
            slot.1.store(end, Ordering::Relaxed);
        };
        let kernel = self.kernel(0);
        let mut slots = kernel.written.iter();
        for range in written {
            match slots.next() {
                Some(slot) => put(slot, range),
                None => put(&kernel.written[0], (0, u64::MAX)),
            }
        }
        slots.for_each(|slot| put(slot, (0, 0)));
        kernel.passes.store(passes, Ordering::Relaxed);
        kernel.number.store(self.number, Ordering::Relaxed);
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
        kernel_that(last, independent, written, false)
    }

    /// Whether a kernel may start early; `at_start`: it lets the next one start at once.
    fn kernel_that(last: &Last, independent: Range, written: &[Range], at_start: bool) -> bool {
        let entry = enter(last);
        let early = entry.follows_kernel_apart_from([independent].into_iter());
        entry.is_kernel(written.iter().copied(), early && at_start);
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
    fn what_runs_beside_a_kernel_that_lets_the_next_start_at_once_runs_beside_that_too() {
        let last = Last::new();
        let (w, other) = ((100, 200), (300, 400));
        // It waits for all before it: what it lets start runs beside it alone.
        assert!(!kernel_that(&last, other, &[w], true), "nothing is before");
        assert!(kernel_that(&last, other, &[], true));
        assert!(!kernel(&last, w, &[]), "the writer of w may still run, two kernels away");
        assert!(kernel(&last, w, &[w]));
        assert!(kernel_that(&last, other, &[], true));
        assert!(kernel_that(&last, other, &[], true));
        assert!(!kernel(&last, w, &[]), "three kernels away");
        assert!(kernel_that(&last, other, &[], false));
        assert!(kernel(&last, w, &[]), "the kernel between them has waited");
        for _ in 1..CHAIN {
            assert!(kernel_that(&last, other, &[], true));
        }
        assert!(kernel_that(&last, w, &[], true), "all that may run are known");
        assert!(!kernel(&last, w, &[]), "there are more than are remembered");
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
        first.is_kernel([].into_iter(), false);
        drop(first);
        assert!(!kernel(&last, w, &[]), "which of the two was last is unknown");
        assert!(kernel(&last, w, &[]));
        let first = enter(&last);
        drop(enter(&last));
        first.is_kernel([].into_iter(), false);
        drop(first);
        assert!(!kernel(&last, w, &[]), "the copy may have come after");
    }
}
