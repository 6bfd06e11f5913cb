//! A capture in progress: what the graph that it makes will use and keep.
//!
//! A stream is captured only if it was made for that one capture, never one of the device's table: what is bound to a
//! stream of the table (allocations, copies, frees) would end up in the graph. For the same reason nothing may join another
//! stream to a capture: events can be neither recorded nor waited for on its stream ([`refused`]). So everything
//! that a capture records passes [`super::ordering::hold`] on that stream, which notes it here.
//!
//! Other threads may have the stream too. The lock is held from the question whether the capture is still going on until
//! what is recorded has been handed to the driver, so nothing is queued on the stream once the capture has ended.

use super::ordering::Use;
use crate::allocation::Allocation;
use crate::error::Error;
use crate::lock::lock;
use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard};

/// A share of something that a graph launches.
pub(crate) type Kept = Arc<dyn Any + Send + Sync>;
/// A piece of memory and how it is used.
pub(crate) type MemoryUse = (Arc<Allocation>, Use);

/// The capture that a stream was made for.
#[derive(Default)]
pub(crate) struct Capture(Mutex<State>);

#[derive(Default)]
struct State {
    going_on: bool,
    recorded: Recorded,
}

/// What a capture has recorded.
#[derive(Default)]
pub(crate) struct Recorded {
    /// The memory that it uses, and how.
    pub uses: Vec<MemoryUse>,
    /// The kernels and graphs that it launches, where nothing else keeps them.
    pub kept: Vec<Kept>,
}

/// A capture that is going on, for as long as this is held.
pub(crate) struct Recording<'a>(MutexGuard<'a, State>);

impl Capture {
    /// Begins it: `begin` tells the driver.
    pub fn begin(&self, begin: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let mut state = lock(&self.0);
        begin()?;
        state.going_on = true;
        Ok(())
    }

    /// Ends it: `end` tells the driver.
    pub fn end<R>(&self, end: impl FnOnce() -> R) -> (R, Recorded) {
        let mut state = lock(&self.0);
        state.going_on = false;
        (end(), std::mem::take(&mut state.recorded))
    }

    /// To record something; `None` where it is over (or has not begun).
    pub fn recording(&self) -> Option<Recording<'_>> {
        let state = lock(&self.0);
        state.going_on.then(|| Recording(state))
    }

    /// Whether it is going on at this moment.
    pub fn is_going_on(&self) -> bool {
        lock(&self.0).going_on
    }
}

impl Recording<'_> {
    /// The graph uses this memory.
    pub fn note(&mut self, used: MemoryUse) {
        self.0.recorded.uses.push(used);
    }

    /// The graph keeps this.
    pub fn keep(&mut self, share: Option<Kept>) {
        self.0.recorded.kept.extend(share);
    }
}

/// The error of something that a stream made for a capture does not do, whether the capture is going on or over.
pub(crate) fn refused(device: &str, going_on: bool, what: &str) -> Error {
    let problem = match going_on {
        true => format!(
            "{what} on a stream that is being captured, which would join other streams to the capture or wait for work \
             that is only recorded; launch everything that belongs to the graph on the stream that is captured"
        ),
        false => "the capture that this stream belongs to is over".to_owned(),
    };
    Error::Capture { device: device.to_owned(), problem }
}
