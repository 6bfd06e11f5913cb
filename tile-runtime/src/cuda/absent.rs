//! The CUDA driver where this crate is built without it: types that have no values.
//!
//! [`Driver::get`] and [`CudaDevice::open`] are the only ways to a value, and they fail. So everything else is a method of
//! something that cannot exist. A method is listed here once code outside of this folder calls it.
#![allow(dead_code)]

use super::Handle;
use super::capture::Capture;
use super::foreign::StreamId;
use crate::error::{DriverError, Error};
use crate::kernel::{Definition, Values, Workspaces};
use crate::layout::Rows;
use crate::library::LibraryError;
use std::convert::Infallible;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tile_ir::lowered::{HostExpr, ParameterKind, Program, TensorMap};

/// Addresses, the end excluded.
pub(crate) type Range = (u64, u64);

/// A tensor map as the driver has encoded it.
pub(crate) type EncodedMap = Infallible;

/// The error of whoever asks for a driver.
fn absent() -> LibraryError {
    LibraryError {
        what: "CUDA support",
        tried: Vec::new(),
        help: "this program was built without it: build tile-runtime with its feature `cuda`, which is a default one; \
               without it every kernel runs on the CPU",
    }
}

/// Types without values, and their methods.
macro_rules! absent {
    ($($(#[$doc:meta])* $ty:ident { $($field:ident: $of:ty),* } {
        $(fn $method:ident(&self $(, $argument:ident: $takes:ty)*) $(-> $gives:ty)?;)*
    })*) => {$(
        $(#[$doc])*
        pub(crate) struct $ty { never: Infallible, $(pub $field: $of),* }

        #[allow(unused_variables)]
        impl $ty {
            $(pub fn $method(&self $(, $argument: $takes)*) $(-> $gives)? { match self.never {} })*
        }
    )*};
}

absent! {
    /// The driver's functions.
    Driver {} {
        fn device_count(&self) -> Result<usize, DriverError>;
        fn version(&self) -> (u32, u32);
    }

    /// A CUDA device.
    CudaDevice {
        ordinal: usize, label: String, name: String, capability: (u32, u32), multiprocessors: u32, max_shared: u32, l2_bytes: u64,
        memory_rate: u64, total_memory: u64, dependent_launch: AtomicBool
    } {
        fn driver_version(&self) -> (u32, u32);
        fn bind(&self) -> Result<(), Error>;
        fn memory(&self) -> Result<(u64, u64), Error>;
        fn allocate(&self, bytes: usize, stream: &StreamSlot) -> Result<u64, Error>;
        fn free(&self, address: u64, stream: &StreamSlot);
        fn default_stream(&self) -> Result<&StreamSlot, Error>;
        fn stream(&self, index: u8) -> Option<&StreamSlot>;
        fn take_stream(&self) -> Result<u8, Error>;
        fn give_back_stream(&self, index: u8);
        fn capture_stream(&self) -> Result<StreamSlot, Error>;
        fn destroy_capture_stream(&self, slot: &StreamSlot);
        fn order(&self, earlier: &StreamSlot, later: &StreamSlot) -> Result<(), Error>;
        fn is_context(&self, context: Handle) -> bool;
        fn context_of(&self, stream: Handle) -> Result<Handle, Error>;
        fn is_capturing(&self, stream: Handle) -> Result<bool, Error>;
        fn foreign_stream(&self, raw: Handle, id: StreamId) -> StreamSlot;
        fn synchronize_context(&self) -> Result<(), Error>;
        fn order_foreign(&self, earlier: Handle, later: Handle) -> Result<(), Error>;
        fn record_again(&self, event: Handle, stream: Handle) -> Result<(), Error>;
        fn synchronize(&self, stream: &StreamSlot) -> Result<(), Error>;
        fn synchronize_all(&self) -> Result<(), Error>;
        fn finish(&self, slot: &StreamSlot) -> Result<(), Error>;
    }

    /// A stream of a device.
    StreamSlot { index: u8, capture: Option<Capture>, foreign: Option<StreamId>, scratch: Workspaces } {
        fn is_foreign(&self) -> bool;
        fn enter(&self) -> Entry;
        fn share(&self) -> Handle;
        fn remember(&self, kernel: &'static Definition, at: &'static Location<'static>);
    }

    /// An operation being queued on a stream.
    Entry {} {
        fn stream(&self) -> Handle;
    }

    /// A recorded event.
    CudaEvent {} {
        fn holds_back(&self, device: &CudaDevice, slot: &StreamSlot) -> Result<(), Error>;
        fn synchronize(&self) -> Result<(), Error>;
        fn is_done(&self) -> Result<bool, Error>;
        fn since(&self, earlier: &CudaEvent) -> Result<std::time::Duration, Error>;
    }

    /// A captured graph.
    CudaGraph {} {
        fn launch(&self, stream: &StreamSlot) -> Result<(), Error>;
    }

    /// A kernel's machine code on a device.
    Function { device: &'static CudaDevice, parameters: Vec<ParameterKind>, computed: Vec<HostExpr>, maps: Vec<TensorMap> } {}

    /// The tensor maps of a launch.
    Maps {} {
        fn as_slice(&self) -> &[EncodedMap];
    }
}

impl Driver {
    /// Fails.
    pub fn get() -> Result<&'static Driver, LibraryError> {
        Err(absent())
    }
}

#[allow(unused_variables)]
impl CudaDevice {
    /// Fails.
    pub fn open(ordinal: usize) -> Result<CudaDevice, Error> {
        Err(absent().into())
    }

    pub unsafe fn fill(&self, stream: &StreamSlot, address: u64, bytes: usize, byte: u8) -> Result<(), Error> {
        match self.never {}
    }

    pub unsafe fn upload(&self, on: &StreamSlot, to: u64, bytes: &[u8], rows: &Rows, size: usize) -> Result<(), Error> {
        match self.never {}
    }

    pub unsafe fn download(
        &self,
        on: &StreamSlot,
        bytes: &mut [u8],
        from: u64,
        rows: &Rows,
        size: usize,
    ) -> Result<(), Error> {
        match self.never {}
    }

    pub unsafe fn copy(
        &self,
        on: &StreamSlot,
        target: (u64, &Rows),
        source: (u64, &Rows),
        size: usize,
    ) -> Result<(), Error> {
        match self.never {}
    }
}

#[allow(unused_variables)]
impl CudaEvent {
    pub fn record(device: &'static CudaDevice, slot: &StreamSlot) -> Result<CudaEvent, Error> {
        match device.never {}
    }
}

#[allow(unused_variables)]
impl CudaGraph {
    pub fn capture(
        device: &'static CudaDevice,
        stream: &StreamSlot,
        work: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Arc<CudaGraph>, Error> {
        match device.never {}
    }
}

#[allow(unused_variables)]
impl Function {
    pub fn accepts(kernel: &str, program: &Program) -> Result<(), Error> {
        Ok(())
    }

    pub fn load(
        device: &'static CudaDevice,
        kernel: &str,
        cubin: &[u8],
        program: &Program,
    ) -> Result<(Function, i64), Error> {
        match device.never {}
    }

    pub fn launch(
        &self,
        slot: &StreamSlot,
        grid: [u32; 3],
        parameters: (impl Iterator<Item = u64>, &[EncodedMap]),
        written: impl Iterator<Item = Range>,
        independent: Option<impl Iterator<Item = Range>>,
    ) -> Result<(), Error> {
        match self.never {}
    }
}

#[allow(unused_variables)]
impl Maps {
    pub fn new(device: &CudaDevice, maps: &[TensorMap], values: &Values<'_>) -> Result<Maps, Error> {
        match device.never {}
    }
}

#[cfg(test)]
mod tests {
    use crate::Device;

    #[test]
    fn a_program_without_cuda_says_so() {
        let error = Device::cuda(0).unwrap_err().to_string();
        assert!(error.contains("was built without it") && error.contains("feature `cuda`"), "{error}");
        assert!(Device::driver_version().is_err() && Device::cuda_count().is_err());
        let device = Device::auto().unwrap();
        assert!(device.is_simulator() && device.why().contains("without CUDA"), "{}", device.why());
    }
}
