//! A captured CUDA graph.

use super::context::{CudaDevice, StreamSlot, lock};
use super::driver::{self, Handle};
use super::ordering::Use;
use crate::allocation::Allocation;
use crate::error::Error;
use std::any::Any;
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

type Kept = Arc<dyn Any + Send + Sync>;
type MemoryUse = (Arc<Allocation>, Use);

/// An executable graph, with the memory it uses, which it keeps alive.
pub(crate) struct CudaGraph {
    device: &'static CudaDevice,
    exec: Handle,
    /// Each piece of memory once, and how the graph uses it.
    uses: Vec<MemoryUse>,
    /// The kernels it launches, where nothing else keeps them.
    _kernels: Vec<Kept>,
}

// SAFETY: the handle may be used from any thread; a launch of a graph that is still running is queued by the driver.
unsafe impl Send for CudaGraph {}
// SAFETY: as above; launches from two threads are serialised by the driver.
unsafe impl Sync for CudaGraph {}

impl CudaGraph {
    /// Captures what `work` queues on `stream`. The capture always ends, whatever `work` does.
    pub fn capture(
        device: &'static CudaDevice,
        stream: &StreamSlot,
        work: impl FnOnce() -> Result<(), Error>,
    ) -> Result<CudaGraph, Error> {
        device.bind()?;
        // SAFETY: a valid stream that is not being captured.
        let code = unsafe { (device.driver.stream_begin_capture)(stream.enter().stream(), driver::CAPTURE_RELAXED) };
        device.check("cuStreamBeginCapture", code)?;
        stream.capturing.store(true, Ordering::Release);
        let capture = Capture { device, stream };
        let worked = work();
        let (graph, mut uses, kernels) = capture.end();
        let graph = graph.and_then(|graph| worked.map(|()| graph))?;
        uses.sort_by_key(|(memory, how)| (Arc::as_ptr(memory).addr(), Reverse(*how)));
        uses.dedup_by_key(|(memory, _)| Arc::as_ptr(memory).addr());
        let mut exec = std::ptr::null_mut();
        // SAFETY: a captured graph; `exec` outlives the call.
        let code = unsafe { (device.driver.graph_instantiate)(&mut exec, graph.0, 0) };
        device.check("cuGraphInstantiate", code)?;
        Ok(CudaGraph { device, exec, uses, _kernels: kernels })
    }

    /// Queues the graph on `stream`, after everything that it must follow.
    pub fn launch(&self, stream: &StreamSlot) -> Result<(), Error> {
        self.device.bind()?;
        for (memory, how) in &self.uses {
            super::touch(self.device, stream, memory, *how)?;
        }
        let entry = stream.enter();
        // SAFETY: valid handles; the memory is kept alive by `uses`.
        self.device.check("cuGraphLaunch", unsafe { (self.device.driver.graph_launch)(self.exec, entry.stream()) })
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // SAFETY: instantiated once, destroyed once; a running graph is destroyed when it is done.
            unsafe { (self.device.driver.graph_exec_destroy)(self.exec) };
        }
    }
}

/// A capture in progress: ends when dropped, so that a panic in the closure leaves a usable stream.
struct Capture<'a> {
    device: &'static CudaDevice,
    stream: &'a StreamSlot,
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

impl Capture<'_> {
    fn end(self) -> (Result<Graph, Error>, Vec<MemoryUse>, Vec<Kept>) {
        let ended = self.stop();
        let uses = std::mem::take(&mut *lock(&self.stream.captured));
        let kernels = std::mem::take(&mut *lock(&self.stream.kept));
        std::mem::forget(self);
        (ended, uses, kernels)
    }

    fn stop(&self) -> Result<Graph, Error> {
        self.stream.capturing.store(false, Ordering::Release);
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream is being captured; `graph` outlives the call.
        let code = unsafe { (self.device.driver.stream_end_capture)(self.stream.enter().stream(), &mut graph) };
        let graph = Graph(graph, self.device);
        self.device.check("cuStreamEndCapture", code).map(|()| graph)
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        self.stop().ok();
        lock(&self.stream.captured).clear();
        lock(&self.stream.kept).clear();
    }
}
