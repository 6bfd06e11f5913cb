//! Streams, events and captured graphs.

use crate::cuda::{CudaDevice, CudaEvent, CudaGraph, ForeignStream, StreamSlot, refused};
use crate::device::{Backend, Device};
use crate::error::Error;
use crate::kernel::Recorded;
use crate::lock::lock;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A queue of work on a device. Work on one stream happens in order; work on two may overlap, except that whatever
/// touches a tensor waits for what must come before (see [`crate::Tensor`]).
#[derive(Clone)]
pub struct Stream {
    device: Device,
    inner: Arc<Inner>,
}

struct Inner {
    device: Device,
    queue: Queue,
}

enum Queue {
    /// A stream of the device's table, by its number.
    Pooled(u8),
    /// A stream that only a capture uses: no memory is ever bound to it.
    Capture(Box<StreamSlot>),
    /// A stream of other code, which this keeps.
    Foreign(Arc<ForeignStream>),
    /// Work on a simulator happens at once.
    Simulator,
    /// What a capture on a simulator has recorded; `None` once it is over.
    Recording(Mutex<Option<Vec<Recorded>>>),
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Backend::Cuda(cuda) = &self.device.state.backend {
            match &self.queue {
                Queue::Pooled(slot) => cuda.give_back_stream(*slot),
                Queue::Capture(slot) => cuda.destroy_capture_stream(slot),
                Queue::Foreign(_) | Queue::Simulator | Queue::Recording(_) => {}
            }
        }
    }
}

impl Stream {
    pub(crate) fn new(device: &Device) -> Result<Stream, Error> {
        Ok(Stream::over(
            device,
            match &device.state.backend {
                Backend::Cuda(cuda) => Queue::Pooled(cuda.take_stream()?),
                Backend::Simulator { .. } => Queue::Simulator,
            },
        ))
    }

    /// A stream of other code.
    pub(crate) fn borrowed(device: &Device, stream: ForeignStream) -> Stream {
        Stream::over(device, Queue::Foreign(Arc::new(stream)))
    }

    /// The stream of other code that this is.
    pub(crate) fn foreign(&self) -> Option<&Arc<ForeignStream>> {
        match &self.inner.queue {
            Queue::Foreign(stream) => Some(stream),
            _ => None,
        }
    }

    fn over(device: &Device, queue: Queue) -> Stream {
        Stream { device: device.clone(), inner: Arc::new(Inner { device: device.clone(), queue }) }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Waits for everything launched on this stream.
    ///
    /// # Errors
    /// What a kernel did wrong since the last wait. [`Error::Capture`] on a stream that a capture has made: what is launched
    /// there is recorded, and there is nothing to wait for.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.refuse_in_capture("waiting for what is launched")?;
        match self.cuda() {
            Some((cuda, slot)) => cuda.synchronize(slot),
            None => Ok(()),
        }
    }

    /// An event that happens when everything launched on this stream so far is done.
    ///
    /// # Errors
    /// The device has failed. [`Error::Capture`] on a stream that a capture has made: whoever waited for the event would
    /// join the capture.
    pub fn record(&self) -> Result<Event, Error> {
        Event::record(self)
    }

    /// Makes what is launched on this stream from now on wait for `event`.
    ///
    /// # Errors
    /// The device has failed. [`Error::Capture`] on a stream that a capture has made: the event is none of its own. A graph
    /// is ordered after whatever it must follow at each launch.
    pub fn wait(&self, event: &Event) -> Result<(), Error> {
        self.refuse_in_capture("waiting for an event")?;
        match (self.cuda(), &event.kind) {
            (Some((cuda, slot)), EventKind::Cuda(event)) => event.holds_back(cuda, slot),
            _ => Ok(()),
        }
    }

    pub(crate) fn cuda(&self) -> Option<(&'static CudaDevice, &StreamSlot)> {
        match (&self.device.state.backend, &self.inner.queue) {
            (Backend::Cuda(cuda), Queue::Pooled(slot)) => Some((cuda, cuda.stream(*slot)?)),
            (Backend::Cuda(cuda), Queue::Capture(slot)) => Some((cuda, slot)),
            (Backend::Cuda(cuda), Queue::Foreign(stream)) => Some((cuda, &stream.slot)),
            _ => None,
        }
    }

    /// The error where the stream is being captured: nothing but launches belongs there.
    fn refuse_in_capture(&self, what: &str) -> Result<(), Error> {
        let going_on = match &self.inner.queue {
            Queue::Pooled(_) | Queue::Simulator => return Ok(()),
            Queue::Foreign(stream) => {
                let Some((cuda, _)) = self.cuda() else { return Ok(()) };
                cuda.bind()?;
                cuda.refuse_elsewhere(&stream.slot)?;
                return cuda.refuse_capturing(&stream.slot, what);
            }
            Queue::Capture(slot) => slot.capture.as_ref().is_some_and(|capture| capture.is_going_on()),
            Queue::Recording(recorded) => lock(recorded).is_some(),
        };
        Err(refused(self.device.label(), going_on, what))
    }

    /// What a simulated capture records; the inner `None` once it is over.
    pub(crate) fn recording(&self) -> Option<&Mutex<Option<Vec<Recorded>>>> {
        match &self.inner.queue {
            Queue::Recording(recorded) => Some(recorded),
            _ => None,
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.cuda().map_or(0, |(_, slot)| slot.index);
        match self.foreign() {
            Some(_) => write!(f, "Stream(borrowed, of {})", self.device.label()),
            None => write!(f, "Stream({number} of {})", self.device.label()),
        }
    }
}

/// A moment on a stream.
pub struct Event {
    kind: EventKind,
}

enum EventKind {
    Cuda(CudaEvent),
    Host(Instant),
}

impl Event {
    fn record(stream: &Stream) -> Result<Event, Error> {
        stream.refuse_in_capture("recording an event")?;
        let kind = match stream.cuda() {
            Some((device, slot)) => EventKind::Cuda(CudaEvent::record(device, slot)?),
            None => EventKind::Host(Instant::now()),
        };
        Ok(Event { kind })
    }

    /// Waits until it has happened.
    ///
    /// # Errors
    /// What a kernel did wrong.
    pub fn synchronize(&self) -> Result<(), Error> {
        match &self.kind {
            EventKind::Host(_) => Ok(()),
            EventKind::Cuda(event) => event.synchronize(),
        }
    }

    /// Whether it has happened, without waiting.
    ///
    /// # Errors
    /// What a kernel did wrong.
    pub fn is_done(&self) -> Result<bool, Error> {
        match &self.kind {
            EventKind::Host(_) => Ok(true),
            EventKind::Cuda(event) => event.is_done(),
        }
    }

    /// Time from `earlier` to this event, after waiting for both. Of the device; on a simulator, of the host.
    ///
    /// # Errors
    /// What a kernel did wrong; events of two devices.
    pub fn since(&self, earlier: &Event) -> Result<Duration, Error> {
        self.synchronize()?;
        earlier.synchronize()?;
        match (&self.kind, &earlier.kind) {
            (EventKind::Host(end), EventKind::Host(start)) => Ok(end.duration_since(*start)),
            (EventKind::Cuda(end), EventKind::Cuda(start)) => end.since(start),
            _ => Err(Error::DifferentDevices {
                source_device: "a CUDA device".into(),
                destination: "a simulator".into(),
            }),
        }
    }
}

/// Launches recorded by [`Device::capture`]. It keeps the memory of every tensor it uses, so it may outlive them.
pub struct Graph {
    device: Device,
    kind: GraphKind,
}

enum GraphKind {
    Cuda(Arc<CudaGraph>),
    Simulator(Vec<Recorded>),
}

impl Graph {
    pub(crate) fn capture(device: &Device, work: impl FnOnce(&Stream) -> Result<(), Error>) -> Result<Graph, Error> {
        let kind = match &device.state.backend {
            Backend::Cuda(cuda) => {
                let stream = Stream::over(device, Queue::Capture(Box::new(cuda.capture_stream()?)));
                let problem = || Error::Capture { device: device.label().into(), problem: "no stream".into() };
                let (_, slot) = stream.cuda().ok_or_else(problem)?;
                GraphKind::Cuda(CudaGraph::capture(cuda, slot, || work(&stream))?)
            }
            Backend::Simulator { .. } => {
                let recording = EndOfRecording(Stream::over(device, Queue::Recording(Mutex::new(Some(Vec::new())))));
                work(&recording.0)?;
                GraphKind::Simulator(recording.end())
            }
        };
        Ok(Graph { device: device.clone(), kind })
    }

    /// Launches everything captured, on the device's default stream.
    ///
    /// # Errors
    /// The device has failed; on a simulator, what a kernel did wrong.
    pub fn launch(&self) -> Result<(), Error> {
        match (&self.kind, &self.device.state.backend) {
            (GraphKind::Cuda(graph), Backend::Cuda(cuda)) => graph.launch(cuda.default_stream()?),
            _ => self.replay(),
        }
    }

    /// Launches everything captured, on `stream`. On a stream that is being captured the new graph contains this one.
    ///
    /// # Errors
    /// As [`Graph::launch`]; [`Error::Capture`] on the stream of a capture that is over.
    pub fn launch_on(&self, stream: &Stream) -> Result<(), Error> {
        match (&self.kind, stream.cuda()) {
            (GraphKind::Cuda(graph), Some((_, slot))) if *stream.device() == self.device => graph.launch(slot),
            (GraphKind::Simulator(launches), _) if *stream.device() == self.device => match stream.recording() {
                None => self.replay(),
                Some(recording) => match &mut *lock(recording) {
                    Some(recorded) => {
                        recorded.extend(launches.iter().cloned());
                        Ok(())
                    }
                    None => Err(refused(self.device.label(), false, "")),
                },
            },
            _ => Err(Error::DifferentDevices {
                source_device: self.device.label().into(),
                destination: stream.device().label().into(),
            }),
        }
    }

    fn replay(&self) -> Result<(), Error> {
        match &self.kind {
            GraphKind::Simulator(recorded) => recorded.iter().try_for_each(|launch| Ok(launch.run(&self.device)?)),
            GraphKind::Cuda(_) => Ok(()),
        }
    }
}

/// The stream of a simulated capture, which takes no more launches once this is dropped, on a panic too.
struct EndOfRecording(Stream);

impl EndOfRecording {
    fn end(&self) -> Vec<Recorded> {
        self.0.recording().and_then(|recorded| lock(recorded).take()).unwrap_or_default()
    }
}

impl Drop for EndOfRecording {
    fn drop(&mut self) {
        drop(self.end());
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({})", self.device.label())
    }
}
