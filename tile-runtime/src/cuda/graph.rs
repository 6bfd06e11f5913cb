//! A captured CUDA graph.

use super::capture::{Capture, Kept, MemoryUse, Recorded};
use super::context::{CudaDevice, StreamSlot};
use super::driver::{self, Handle};
use super::ordering::hold;
use crate::error::Error;
use crate::lock::lock;
use std::cmp::Reverse;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// An executable graph, with the memory it uses, which it keeps alive.
pub(crate) struct CudaGraph {
    device: &'static CudaDevice,
    /// Held while it is launched: the driver asks that calls with one graph be made one after another.
    exec: Mutex<Exec>,
    /// Each piece of memory once, in the order in which locks are taken, and how the graph uses it.
    uses: Vec<MemoryUse>,
    /// The kernels and graphs that it launches, where nothing else keeps them.
    _kept: Vec<Kept>,
}

struct Exec(Handle);

// SAFETY: the handle may be used from any thread, by one at a time, which the lock around it makes sure of.
unsafe impl Send for Exec {}

impl CudaGraph {
    /// Captures what `work` queues on `stream`, which was made for this capture. The capture always ends, whatever `work`
    /// does.
    pub fn capture(
        device: &'static CudaDevice,
        stream: &StreamSlot,
        work: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Arc<CudaGraph>, Error> {
        let capture = stream.capture.as_ref().ok_or_else(|| Error::Capture {
            device: device.label.clone(),
            problem: "the stream was not made to be captured".into(),
        })?;
        device.bind()?;
        let counted = Counted::new(&device.captures);
        capture.begin(|| {
            // SAFETY: a valid stream that is not being captured.
            let code =
                unsafe { (device.driver.stream_begin_capture)(stream.enter().stream(), driver::CAPTURE_RELAXED) };
            device.check("cuStreamBeginCapture", code)
        })?;
        let underway = Underway { device, stream, capture };
        let worked = work();
        let (graph, Recorded { mut uses, kept }) = underway.end();
        drop(counted);
        let graph = graph.and_then(|graph| worked.map(|()| graph))?;
        uses.sort_by_key(|(memory, how)| (Arc::as_ptr(memory).addr(), Reverse(*how)));
        uses.dedup_by_key(|(memory, _)| Arc::as_ptr(memory).addr());
        let mut exec = std::ptr::null_mut();
        // SAFETY: a captured graph; `exec` outlives the call.
        let code = unsafe { (device.driver.graph_instantiate)(&mut exec, graph.0, 0) };
        device.check("cuGraphInstantiate", code)?;
        Ok(Arc::new(CudaGraph { device, exec: Mutex::new(Exec(exec)), uses, _kept: kept }))
    }

    /// Queues the graph on `stream`, after everything that it must follow. In a capture the new graph contains this one, and
    /// keeps it with all that it keeps.
    pub fn launch(self: &Arc<CudaGraph>, stream: &StreamSlot) -> Result<(), Error> {
        self.device.bind()?;
        self.device.refuse_capturing(stream, "launching a graph, which the other graph would not keep,")?;
        let exec = lock(&self.exec);
        let uses = self.uses.iter().map(|(memory, how)| (memory, *how));
        let over = || super::capture::refused(&self.device.label, false, "");
        let mut held = hold(self.device, stream, uses)?.ok_or_else(over)?;
        held.keep(|| Some(Arc::clone(self) as Kept));
        let entry = stream.enter();
        // SAFETY: valid handles; the memory and the kernels are kept alive by this graph, and it by the one that it
        // becomes a part of. The driver puts launches of one graph one after another, whatever streams they are on.
        self.device.check("cuGraphLaunch", unsafe { (self.device.driver.graph_launch)(exec.0, entry.stream()) })
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            let Exec(exec) = *self.exec.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
            // SAFETY: instantiated once, destroyed once; a running graph is destroyed when it is done.
            unsafe { (self.device.driver.graph_exec_destroy)(exec) };
        }
    }
}

/// One more in a number of things under way, until it is dropped.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A capture in progress: ends when dropped, so that a panic in the closure leaves nothing open.
struct Underway<'a> {
    device: &'static CudaDevice,
    stream: &'a StreamSlot,
    capture: &'a Capture,
}

/// A graph that was captured.
struct Graph(Handle, &'static CudaDevice);

impl Drop for Graph {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: captured once, destroyed once; executables made from it do not need it.
            unsafe { (self.1.driver.graph_destroy)(self.0) };
        }
    }
}

impl Underway<'_> {
    fn end(self) -> (Result<Graph, Error>, Recorded) {
        let ended = self.stop();
        std::mem::forget(self);
        ended
    }

    fn stop(&self) -> (Result<Graph, Error>, Recorded) {
        self.capture.end(|| {
            let mut graph = std::ptr::null_mut();
            // SAFETY: the stream is being captured; `graph` outlives the call.
            let code = unsafe { (self.device.driver.stream_end_capture)(self.stream.enter().stream(), &mut graph) };
            let graph = Graph(graph, self.device);
            self.device.check("cuStreamEndCapture", code).map(|()| graph)
        })
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        // What was recorded is let go here, after the lock.
        drop(self.stop());
    }
}
