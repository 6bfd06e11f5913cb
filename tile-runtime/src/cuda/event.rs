//! A moment on a stream of a CUDA device.

use super::context::{CudaDevice, StreamSlot};
use super::driver::{self, Handle};
use crate::error::Error;
use std::time::Duration;

/// A recorded event.
pub(crate) struct CudaEvent {
    device: &'static CudaDevice,
    raw: Handle,
}

// SAFETY: an event handle may be used from any thread.
unsafe impl Send for CudaEvent {}
// SAFETY: as above.
unsafe impl Sync for CudaEvent {}

impl CudaEvent {
    /// An event that happens when everything queued on `slot` so far is done.
    pub fn record(device: &'static CudaDevice, slot: &StreamSlot) -> Result<CudaEvent, Error> {
        device.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` outlives the call.
        let code = unsafe { (device.driver.event_create)(&mut raw, driver::EVENT_DEFAULT) };
        device.check("cuEventCreate", code)?;
        let event = CudaEvent { device, raw };
        // SAFETY: valid handles.
        device.check("cuEventRecord", unsafe { (device.driver.event_record)(raw, slot.enter().stream()) })?;
        Ok(event)
    }

    /// Makes what is queued on `slot`, a stream of `device`, from now on wait for it.
    pub fn holds_back(&self, device: &CudaDevice, slot: &StreamSlot) -> Result<(), Error> {
        device.bind()?;
        let entry = slot.enter();
        // SAFETY: valid handles.
        let code = unsafe { (device.driver.stream_wait_event)(entry.stream(), self.raw, 0) };
        device.check("cuStreamWaitEvent", code)
    }

    /// Waits until it has happened.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.device.bind()?;
        // SAFETY: a valid event.
        let waited =
            self.device.check("cuEventSynchronize", unsafe { (self.device.driver.event_synchronize)(self.raw) });
        self.device.heard(waited)
    }

    /// Whether it has happened.
    pub fn is_done(&self) -> Result<bool, Error> {
        self.device.bind()?;
        // SAFETY: a valid event.
        match unsafe { (self.device.driver.event_query)(self.raw) } {
            driver::NOT_READY => Ok(false),
            code => self.device.check("cuEventQuery", code).map(|()| true),
        }
    }

    /// Time from `earlier` to this one, both of which have happened.
    pub fn since(&self, earlier: &CudaEvent) -> Result<Duration, Error> {
        let mut milliseconds = 0.0f32;
        // SAFETY: both events are recorded and done; the float outlives the call.
        let code = unsafe { (self.device.driver.event_elapsed_time)(&mut milliseconds, earlier.raw, self.raw) };
        self.device.check("cuEventElapsedTime", code)?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // SAFETY: made once, destroyed once; the driver keeps what still waits for it.
            unsafe { (self.device.driver.event_destroy)(self.raw) };
        }
    }
}
