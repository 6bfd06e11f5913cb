//! One CUDA device: its primary context, what it can do, its streams, its memory, and its first fatal error.

use super::capture::Capture;
use super::dependent::{Entry, Last};
use super::driver::{self, Driver, Handle, Pointer, attribute, function_attribute};
use super::foreign::StreamId;
use super::log::Log;
use crate::error::{DriverError, Error, Fault};
use crate::kernel::{Definition, Workspaces};
use crate::lock::lock;
use crate::settings;
use cudarc::driver::sys;
use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// Streams a device can have at once: their numbers are bits of a `u64`.
pub(crate) const STREAMS: usize = 64;

/// The number of streams that are used by one capture only.
const CAPTURE: u8 = u8::MAX;

/// The number of streams that other code owns: no memory is ever bound to one.
const FOREIGN: u8 = u8::MAX - 1;

/// Bytes of what stands for an empty tensor: more than an element.
const EMPTY_BYTES: usize = 256;

/// A CUDA device, for the life of the process: one a device number.
pub(crate) struct CudaDevice {
    pub driver: &'static Driver,
    pub ordinal: usize,
    /// `cuda:0`.
    pub label: String,
    /// `NVIDIA H200`.
    pub name: String,
    pub capability: (u32, u32),
    pub multiprocessors: u32,
    pub max_shared: u32,
    pub l2_bytes: u64,
    /// Bytes a second that memory gives at most; 0 where the driver does not say.
    pub memory_rate: u64,
    pub total_memory: u64,
    /// Wait for each launch: `TILE_LAUNCH_BLOCKING=1`.
    pub blocking: bool,
    /// Whether kernels that may start early do: not with `TILE_PDL=off`.
    pub dependent_launch: AtomicBool,
    context: Handle,
    pools: bool,
    /// See [`CudaDevice::instead_of_empty`].
    empty: Pointer,
    /// Made for the first function whose threads may say something.
    log: OnceLock<Log>,
    streams: [OnceLock<StreamSlot>; STREAMS],
    free_streams: Mutex<Vec<u8>>,
    /// Captures that are under way.
    pub(super) captures: AtomicUsize,
    failed: AtomicBool,
    fault: OnceLock<Fault>,
}

// SAFETY: the context handle may be used from any thread; everything else is synchronised.
unsafe impl Send for CudaDevice {}
// SAFETY: as above.
unsafe impl Sync for CudaDevice {}

/// A stream of a device. Slots are never destroyed, only reused: work that used memory on a stream can be waited for
/// as long as the memory lives, whoever made the stream.
pub(crate) struct StreamSlot {
    /// Given out by [`StreamSlot::enter`] only, so that nothing is queued unnoticed.
    raw: Handle,
    last: Last,
    pub index: u8,
    /// Orders other streams after this one; recorded again for each wait.
    event: Handle,
    /// The latest launches, for a fault's report.
    recent: [Launched; 4],
    recent_count: AtomicUsize,
    /// The capture that it was made for; `None` of the streams of the table, which are never captured.
    pub capture: Option<Capture>,
    /// Which stream of other code it is; `None` of ours.
    pub foreign: Option<StreamId>,
    /// Scratch memory of host functions that launch on it, by [`Scratch`](crate::kernel::Scratch); of a stream of other code in
    /// [`ForeignStream`](super::ForeignStream).
    pub scratch: Workspaces,
}

// SAFETY: stream and event handles may be used from any thread; the rest is synchronised.
unsafe impl Send for StreamSlot {}
// SAFETY: as above.
unsafe impl Sync for StreamSlot {}

/// A launch that a fault may be blamed on. Two launches on one stream at the same instant may mix their halves, each of
/// which stays a valid reference: it is a hint for a report.
#[derive(Default)]
struct Launched {
    kernel: AtomicPtr<Definition>,
    at: AtomicPtr<Location<'static>>,
}

/// What a block of a kernel needs.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub threads: u32,
    pub shared_bytes: u32,
}

impl CudaDevice {
    /// Opens device `ordinal`. Takes about 0.2 s, most of it the driver's.
    pub fn open(ordinal: usize) -> Result<CudaDevice, Error> {
        let driver = Driver::get()?;
        let label = format!("cuda:{ordinal}");
        let count = driver.device_count()?;
        if ordinal >= count {
            return Err(Error::NoDevice { asked: ordinal, count });
        }
        let mut handle: c_int = 0;
        let number = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        // SAFETY: `handle` outlives the call.
        driver.check("cuDeviceGet", &label, unsafe { (driver.device_get)(&mut handle, number) })?;
        let mut name = [0 as c_char; 256];
        // SAFETY: the buffer has the length given.
        driver.check("cuDeviceGetName", &label, unsafe { (driver.device_get_name)(name.as_mut_ptr(), 256, handle) })?;
        let name: String = name.iter().take_while(|c| **c != 0).map(|c| *c as u8 as char).collect();
        let get = |which: i32| -> Result<u32, DriverError> {
            let mut value = 0;
            // SAFETY: `value` outlives the call.
            let code = unsafe { (driver.device_get_attribute)(&mut value, which, handle) };
            driver.check("cuDeviceGetAttribute", &label, code)?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        let capability = (get(attribute::COMPUTE_CAPABILITY_MAJOR)?, get(attribute::COMPUTE_CAPABILITY_MINOR)?);
        if capability < (8, 0) {
            return Err(Error::OldDevice { name, major: capability.0, minor: capability.1 });
        }
        let mut context = std::ptr::null_mut();
        // SAFETY: a valid device. The context is never released: it lives as long as the process.
        let code = unsafe { (driver.primary_ctx_retain)(&mut context, handle) };
        driver.check("cuDevicePrimaryCtxRetain", &label, code)?;
        let mut device = CudaDevice {
            driver,
            ordinal,
            multiprocessors: get(attribute::MULTIPROCESSOR_COUNT)?,
            max_shared: get(attribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            l2_bytes: u64::from(get(attribute::L2_CACHE_SIZE)?),
            memory_rate: memory_rate(get(attribute::MEMORY_CLOCK_RATE)?, get(attribute::GLOBAL_MEMORY_BUS_WIDTH)?),
            pools: get(attribute::MEMORY_POOLS_SUPPORTED)? != 0,
            label,
            name,
            capability,
            total_memory: 0,
            blocking: settings::is_on("TILE_LAUNCH_BLOCKING", false),
            dependent_launch: AtomicBool::new(settings::is_on("TILE_PDL", true)),
            context,
            empty: 0,
            log: OnceLock::new(),
            streams: [const { OnceLock::new() }; STREAMS],
            free_streams: Mutex::new((0..STREAMS as u8).rev().collect()),
            captures: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            fault: OnceLock::new(),
        };
        device.total_memory = device.memory()?.1;
        // The default stream is slot 0, never given back.
        device.take_stream()?;
        // For the life of the process, and now: no allocation is allowed while a stream is being captured.
        device.empty = device.keep(&[0; 2 * EMPTY_BYTES / 4])?;
        Ok(device)
    }

    /// Memory of one element for a tensor map of an empty tensor, at a multiple of 256 bytes: zeros, which a box is loaded
    /// from, or bytes that nothing reads, which it is stored to.
    pub fn instead_of_empty(&self, stores: bool) -> Pointer {
        self.empty + if stores { EMPTY_BYTES as Pointer } else { 0 }
    }

    /// Makes the context current on this thread; fails fast after a fatal error.
    pub fn bind(&self) -> Result<(), Error> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(self.fault_error());
        }
        let mut current = std::ptr::null_mut();
        // SAFETY: `current` outlives the call; the context lives as long as the process.
        let code = unsafe {
            match (self.driver.ctx_get_current)(&mut current) {
                driver::SUCCESS if current == self.context => driver::SUCCESS,
                _ => (self.driver.ctx_set_current)(self.context),
            }
        };
        self.check("cuCtxSetCurrent", code)
    }

    /// A result as an error. A fatal one is remembered, with the kernels under way: the first wins.
    #[inline]
    pub fn check(&self, call: &'static str, code: c_int) -> Result<(), Error> {
        if code == driver::SUCCESS { Ok(()) } else { Err(self.failure(call, code)) }
    }

    #[cold]
    fn failure(&self, call: &'static str, code: c_int) -> Error {
        match self.driver.check(call, &self.label, code) {
            Err(error) if error.is_fatal() => {
                let suspects = self.suspects();
                self.fault.get_or_init(|| Fault { error, suspects });
                self.failed.store(true, Ordering::Release);
                self.fault_error()
            }
            Err(error) => error.into(),
            Ok(()) => Error::Driver(DriverError {
                call,
                code,
                name: String::new(),
                message: "reported success".into(),
                device: self.label.clone(),
            }),
        }
    }

    fn fault_error(&self) -> Error {
        match self.fault.get() {
            Some(fault) => Error::Fault(Box::new(fault.clone())),
            None => Error::Driver(DriverError {
                call: "cuCtxSetCurrent",
                code: 0,
                name: "CUDA_ERROR_UNKNOWN".into(),
                message: "the device has failed".into(),
                device: self.label.clone(),
            }),
        }
    }

    fn suspects(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for slot in self.streams.iter().filter_map(OnceLock::get) {
            let count = slot.recent_count.load(Ordering::Relaxed);
            for i in (count.saturating_sub(slot.recent.len())..count).rev() {
                let Launched { kernel, at } = &slot.recent[i % slot.recent.len()];
                // SAFETY: null or pointers made from references that live as long as the process.
                let pair = unsafe { (kernel.load(Ordering::Acquire).as_ref(), at.load(Ordering::Acquire).as_ref()) };
                if let (Some(kernel), Some(at)) = pair {
                    let text = format!("`{}` at {}:{}", kernel.name(), at.file(), at.line());
                    if !all.contains(&text) {
                        all.push(text);
                    }
                }
            }
        }
        all
    }

    /// Free and total device memory, bytes.
    pub fn memory(&self) -> Result<(u64, u64), Error> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both outlive the call.
        self.check("cuMemGetInfo", unsafe { (self.driver.mem_get_info)(&mut free, &mut total) })?;
        Ok((free as u64, total as u64))
    }

    /// Allocates `bytes` bytes in stream order; uninitialised.
    pub fn allocate(&self, bytes: usize, stream: &StreamSlot) -> Result<Pointer, Error> {
        self.bind()?;
        let mut pointer = 0;
        // SAFETY: `pointer` outlives the call; the size is not zero.
        let code = unsafe {
            match self.pools {
                true => (self.driver.mem_alloc_async)(&mut pointer, bytes.max(1), stream.enter().stream()),
                false => (self.driver.mem_alloc)(&mut pointer, bytes.max(1)),
            }
        };
        if code == driver::OUT_OF_MEMORY {
            let (free, total) = self.memory()?;
            return Err(Error::OutOfMemory { device: self.label.clone(), requested: bytes as u64, free, total });
        }
        self.check("cuMemAllocAsync", code)?;
        Ok(pointer)
    }

    /// Frees in stream order. Never fails aloud: it is called by destructors.
    pub fn free(&self, pointer: Pointer, stream: &StreamSlot) {
        if self.bind().is_ok() {
            // SAFETY: allocated by `allocate`, freed once; later work on this stream is after it.
            let code = unsafe {
                match self.pools {
                    true => (self.driver.mem_free_async)(pointer, stream.enter().stream()),
                    false => (self.driver.mem_free)(pointer),
                }
            };
            // A fatal error is remembered for the next call; any other leaves nothing to do.
            self.check("cuMemFreeAsync", code).ok();
        }
    }

    /// The default stream.
    pub fn default_stream(&self) -> Result<&StreamSlot, Error> {
        self.stream(0).ok_or_else(|| self.fault_error())
    }

    /// The stream with this number, once made.
    pub fn stream(&self, index: u8) -> Option<&StreamSlot> {
        self.streams.get(usize::from(index))?.get()
    }

    /// A stream that nobody uses; given back by [`CudaDevice::give_back_stream`].
    pub fn take_stream(&self) -> Result<u8, Error> {
        self.bind()?;
        let full = || Error::Streams { device: self.label.clone(), most: STREAMS };
        let index = lock(&self.free_streams).pop().ok_or_else(full)?;
        if self.streams[usize::from(index)].get().is_none() {
            match self.new_stream(index) {
                Ok(slot) => drop(self.streams[usize::from(index)].set(slot)),
                Err(error) => {
                    self.give_back_stream(index);
                    return Err(error);
                }
            }
        }
        Ok(index)
    }

    /// Lets a stream be used again, without its scratch memory. What is queued on it stays ordered before what comes next.
    pub fn give_back_stream(&self, index: u8) {
        drop(self.stream(index).map(|slot| slot.scratch.take()));
        lock(&self.free_streams).push(index);
    }

    /// A stream outside the table, for one capture: it never becomes the stream that memory is bound to, so nothing but
    /// launches can end up in the captured graph.
    pub fn capture_stream(&self) -> Result<StreamSlot, Error> {
        Ok(StreamSlot { capture: Some(Capture::default()), ..self.new_stream(CAPTURE)? })
    }

    /// Destroys a stream made by [`CudaDevice::capture_stream`].
    pub fn destroy_capture_stream(&self, slot: &StreamSlot) {
        if self.bind().is_ok() {
            // SAFETY: the owner is being dropped, so the handles are not used again.
            unsafe {
                (self.driver.stream_destroy)(slot.raw);
                (self.driver.event_destroy)(slot.event);
            }
        }
    }

    fn new_stream(&self, index: u8) -> Result<StreamSlot, Error> {
        self.bind()?;
        let (mut raw, mut event) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: both outlive the calls.
        unsafe {
            let code = (self.driver.stream_create)(&mut raw, driver::STREAM_NON_BLOCKING);
            self.check("cuStreamCreate", code)?;
            let code = (self.driver.event_create)(&mut event, driver::EVENT_DISABLE_TIMING);
            self.check("cuEventCreate", code)?;
        }
        Ok(StreamSlot {
            raw,
            last: Last::new(),
            index,
            event,
            recent: Default::default(),
            recent_count: AtomicUsize::new(0),
            capture: None,
            foreign: None,
            scratch: Workspaces::default(),
        })
    }

    /// Makes everything queued on `later` from now wait for everything queued on `earlier` so far.
    pub fn order(&self, earlier: &StreamSlot, later: &StreamSlot) -> Result<(), Error> {
        let (from, to) = (earlier.enter(), later.enter());
        // SAFETY: valid handles of this context. Another thread may record the same event in between: then `later`
        // waits for a little more than it must.
        unsafe {
            self.check("cuEventRecord", (self.driver.event_record)(earlier.event, from.stream()))?;
            self.check("cuStreamWaitEvent", (self.driver.stream_wait_event)(to.stream(), earlier.event, 0))
        }
    }

    /// Makes work on a raw stream wait for what another raw stream has been given so far, where one of the two belongs to other
    /// code. Neither may be being captured.
    pub fn order_foreign(&self, earlier: Handle, later: Handle) -> Result<(), Error> {
        self.bind()?;
        let mut event = std::ptr::null_mut();
        // SAFETY: the caller vouches for the streams; the event outlives both calls, and the driver keeps what a stream
        // still waits for after it is destroyed.
        unsafe {
            let code = (self.driver.event_create)(&mut event, driver::EVENT_DISABLE_TIMING);
            self.check("cuEventCreate", code)?;
            let recorded = self.check("cuEventRecord", (self.driver.event_record)(event, earlier));
            let ordered = recorded
                .and_then(|()| self.check("cuStreamWaitEvent", (self.driver.stream_wait_event)(later, event, 0)));
            (self.driver.event_destroy)(event);
            ordered
        }
    }

    /// Records an event of other code again, on its stream: it then stands for what it stood for before, and for all that
    /// is queued on the stream by now.
    pub fn record_again(&self, event: Handle, stream: Handle) -> Result<(), Error> {
        // SAFETY: the caller vouches for the event and the stream.
        unsafe {
            self.check("cuStreamWaitEvent", (self.driver.stream_wait_event)(stream, event, 0))?;
            self.check("cuEventRecord", (self.driver.event_record)(event, stream))
        }
    }

    /// The newest CUDA version that the driver supports, such as `(13, 0)`.
    pub fn driver_version(&self) -> (u32, u32) {
        self.driver.version()
    }

    /// The context of a stream of other code.
    pub fn context_of(&self, stream: Handle) -> Result<Handle, Error> {
        let mut context = std::ptr::null_mut();
        // SAFETY: the caller vouches for the stream; `context` outlives the call.
        self.check("cuStreamGetCtx", unsafe { (self.driver.stream_get_ctx)(stream, &mut context) }).map(|()| context)
    }

    /// Whether a stream is being captured, by anybody.
    pub fn is_capturing(&self, stream: Handle) -> Result<bool, Error> {
        let mut status = 0;
        // SAFETY: the caller vouches for the stream; `status` outlives the call.
        let code = unsafe { (self.driver.stream_is_capturing)(stream, &mut status) };
        self.check("cuStreamIsCapturing", code).map(|()| status != 0)
    }

    /// A stream of other code, which has no event of ours and on which nothing is known of the last operation.
    pub fn foreign_stream(&self, raw: Handle, id: StreamId) -> StreamSlot {
        let last = Last::new();
        last.share();
        StreamSlot {
            raw,
            last,
            index: FOREIGN,
            event: std::ptr::null_mut(),
            recent: Default::default(),
            recent_count: AtomicUsize::new(0),
            capture: None,
            foreign: Some(id),
            scratch: Workspaces::default(),
        }
    }

    /// Whether `context` is this device's.
    pub fn is_context(&self, context: Handle) -> bool {
        context == self.context
    }

    /// Waits until everything queued on `stream` is done; reports what it did wrong.
    pub fn synchronize(&self, stream: &StreamSlot) -> Result<(), Error> {
        self.bind()?;
        let waited = self.wait(stream);
        if waited.is_ok() {
            stream.recent_count.store(0, Ordering::Relaxed);
        }
        self.heard(waited)
    }

    /// The log of its threads, made when it is first asked for.
    pub fn log(&self) -> Result<&Log, Error> {
        match self.log.get() {
            Some(log) => Ok(log),
            None => {
                let made = Log::new(self)?;
                Ok(self.log.get_or_init(|| made))
            }
        }
    }

    /// Waits for a stream, and for nothing that threads say.
    fn wait(&self, stream: &StreamSlot) -> Result<(), Error> {
        // SAFETY: a valid stream.
        self.check("cuStreamSynchronize", unsafe { (self.driver.stream_synchronize)(stream.raw) })
    }

    /// Puts words into memory of the device, which is kept for the life of the process, at a multiple of 256 bytes.
    pub fn keep(&self, words: &[u32]) -> Result<Pointer, Error> {
        self.bind()?;
        let (stream, bytes) = (self.default_stream()?, size_of_val(words));
        let mut pointer = 0;
        // SAFETY: `pointer` outlives the call; the copy is waited for while `words` is borrowed.
        unsafe {
            self.check("cuMemAlloc", (self.driver.mem_alloc)(&mut pointer, bytes.max(1)))?;
            let copied =
                (self.driver.memcpy_htod_async)(pointer, words.as_ptr().cast(), bytes, stream.enter().stream());
            self.check("cuMemcpyHtoDAsync", copied)?;
        }
        self.wait(stream)?;
        Ok(pointer)
    }

    /// A word of the device's memory, read in the order of the default stream.
    pub fn word(&self, address: Pointer) -> Result<u32, Error> {
        let stream = self.default_stream()?;
        let mut word = 0u32;
        // SAFETY: the caller's address is of memory that lives as long as the process; the copy is waited for.
        let copied =
            unsafe { (self.driver.memcpy_dtoh_async)((&raw mut word).cast(), address, 4, stream.enter().stream()) };
        self.check("cuMemcpyDtoHAsync", copied)?;
        self.wait(stream)?;
        Ok(word)
    }

    /// The end of a wait: what threads have said by now is shown, also where the device has failed.
    pub fn heard(&self, waited: Result<(), Error>) -> Result<(), Error> {
        let said = self.log.get().map_or(Ok(()), |log| log.collect(self));
        waited.and(said)
    }

    /// Waits until everything queued on the device is done, whoever queued it.
    ///
    /// # Errors
    /// A capture is under way, in any thread: the driver would refuse to wait, and end the capture with an error.
    pub fn synchronize_context(&self) -> Result<(), Error> {
        self.bind()?;
        if self.captures.load(Ordering::Acquire) > 0 {
            let problem = "waiting for everything on the device, while a stream of it is being captured".to_owned();
            return Err(Error::Capture { device: self.label.clone(), problem });
        }
        // SAFETY: no preconditions.
        let waited = self.check("cuCtxSynchronize", unsafe { (self.driver.ctx_synchronize)() });
        self.heard(waited)
    }

    /// Called after each launch: waits for it with `TILE_LAUNCH_BLOCKING=1`.
    #[inline]
    pub fn finish(&self, slot: &StreamSlot) -> Result<(), Error> {
        if !self.blocking || slot.capture.is_some() || (slot.is_foreign() && self.is_capturing(slot.raw)?) {
            return Ok(());
        }
        self.synchronize(slot)
    }

    /// Waits for every stream.
    pub fn synchronize_all(&self) -> Result<(), Error> {
        self.streams.iter().filter_map(OnceLock::get).try_for_each(|slot| self.synchronize(slot))
    }

    /// Blocks of a loaded function that the device holds at once, in whole clusters.
    ///
    /// # Errors
    /// The driver cannot say.
    pub fn capacity(&self, function: Handle, threads: u32, dynamic_shared: u32, cluster: u32) -> Result<i64, Error> {
        let mut found = 0;
        if cluster <= 1 {
            // SAFETY: a loaded function.
            let code = unsafe {
                (self.driver.occupancy_blocks)(&mut found, function, threads as i32, dynamic_shared as usize)
            };
            self.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", code)?;
            return Ok((i64::from(found) * i64::from(self.multiprocessors)).max(1));
        }
        let mut attribute = cluster_attribute(cluster);
        let config = sys::CUlaunchConfig {
            gridDimX: cluster,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: dynamic_shared,
            hStream: std::ptr::null_mut(),
            attrs: &mut attribute,
            numAttrs: 1,
        };
        // SAFETY: a loaded function, and a configuration that outlives the call.
        let code = unsafe { (self.driver.occupancy_clusters)(&mut found, function, &config) };
        self.check("cuOccupancyMaxActiveClusters", code)?;
        Ok((i64::from(found) * i64::from(cluster)).max(1))
    }

    /// Loads a cubin and finds its kernel; allows it `dynamic` bytes of dynamic shared memory where it declares none
    /// statically. Returns the module, the function and the dynamic bytes to launch it with.
    pub fn load(
        &self,
        kernel: &str,
        cubin: &[u8],
        symbol: &str,
        limits: Limits,
    ) -> Result<(Handle, Handle, u32), Error> {
        let Limits { threads, shared_bytes } = limits;
        self.bind()?;
        let (mut module, mut function) = (std::ptr::null_mut(), std::ptr::null_mut());
        let name = CString::new(symbol).unwrap_or_default();
        // SAFETY: the image is a whole cubin, which carries its own length; it is copied by the call.
        let code = unsafe { (self.driver.module_load_data)(&mut module, cubin.as_ptr().cast::<c_void>()) };
        self.check("cuModuleLoadData", code)?;
        // SAFETY: a loaded module and a string that ends with a zero.
        let code = unsafe { (self.driver.module_get_function)(&mut function, module, name.as_ptr()) };
        self.check("cuModuleGetFunction", code)?;
        let get = |which: i32| -> Result<u32, Error> {
            let mut value = 0;
            // SAFETY: a valid function.
            let code = unsafe { (self.driver.func_get_attribute)(&mut value, which, function) };
            self.check("cuFuncGetAttribute", code)?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        let most = get(function_attribute::MAX_THREADS_PER_BLOCK)?;
        if threads > most {
            return Err(Error::Resource {
                kernel: kernel.into(),
                device: self.label.clone(),
                what: "threads a block",
                needed: u64::from(threads),
                allowed: u64::from(most),
            });
        }
        // The emitter declares all of a block's shared memory statically, or all of it dynamically.
        let fixed = get(function_attribute::SHARED_SIZE_BYTES)?;
        let dynamic = if fixed == 0 { shared_bytes } else { 0 };
        if dynamic + fixed > self.max_shared {
            return Err(Error::Resource {
                kernel: kernel.into(),
                device: self.label.clone(),
                what: "bytes of shared memory",
                needed: u64::from(dynamic + fixed),
                allowed: u64::from(self.max_shared),
            });
        }
        if dynamic > 0 {
            let which = function_attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: a valid function.
            let code = unsafe { (self.driver.func_set_attribute)(function, which, dynamic as c_int) };
            self.check("cuFuncSetAttribute", code)?;
        }
        Ok((module, function, dynamic))
    }

    /// Unloads a module that nothing will launch again, once what was launched is done. Never fails aloud: it is called
    /// by destructors, and a module that cannot be unloaded stays loaded.
    pub fn unload(&self, module: Handle) {
        if self.bind().is_ok() && self.synchronize_all().is_ok() {
            // SAFETY: loaded by `load` and unloaded once, by its only owner. Launches are queued on this device's
            // streams, which are all done; graphs keep the kernels that they launch.
            let code = unsafe { (self.driver.module_unload)(module) };
            self.check("cuModuleUnload", code).ok();
        }
    }
}

impl StreamSlot {
    /// Whether other code owns it.
    #[inline]
    pub fn is_foreign(&self) -> bool {
        self.foreign.is_some()
    }

    /// Begins an operation on the stream: keep what this returns until the driver has been called.
    #[inline]
    pub fn enter(&self) -> Entry<'_> {
        self.last.enter(self.raw)
    }

    /// The stream, for other code to queue work on.
    pub fn share(&self) -> Handle {
        self.last.share();
        self.raw
    }

    /// Remembers a launch for a fault's report.
    #[inline]
    pub fn remember(&self, kernel: &'static Definition, at: &'static Location<'static>) {
        let count = self.recent_count.fetch_add(1, Ordering::Relaxed);
        let slot = &self.recent[count % self.recent.len()];
        slot.kernel.store(std::ptr::from_ref(kernel).cast_mut(), Ordering::Release);
        slot.at.store(std::ptr::from_ref(at).cast_mut(), Ordering::Release);
    }
}

/// The launch attribute of clusters of this many blocks along x.
#[inline]
pub(crate) fn cluster_attribute(blocks: u32) -> sys::CUlaunchAttribute {
    let mut attribute = sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue { pad: [0; 64] },
    };
    attribute.value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: blocks, y: 1, z: 1 };
    attribute
}

/// Bytes a second of memory by its clock in kHz, at each of whose edges it gives as many bits as its bus is wide.
fn memory_rate(clock: u32, bits: u32) -> u64 {
    u64::from(clock) * 1000 * 2 * u64::from(bits) / 8
}

#[cfg(test)]
mod tests {
    use super::memory_rate;

    /// What the driver says of an H100 SXM and of an H200, beside their data sheets.
    #[test]
    fn the_rate_of_memory() {
        assert_eq!(memory_rate(2_619_000, 5120), 3_352_320_000_000);
        assert_eq!(memory_rate(3_201_000, 6144), 4_916_736_000_000);
        assert_eq!(memory_rate(0, 5120), 0);
    }
}
