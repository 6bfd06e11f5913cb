//! The CUDA driver's functions, in a table of our own.
//!
//! cudarc panics on a missing library or symbol and returns results as a Rust enum, which an unknown code of a newer
//! driver would make undefined. Here a missing symbol is a typed error and a result is an integer. The structures'
//! layouts are cudarc's.

use crate::error::DriverError;
use crate::library::{self, Attempt, Found, LibraryError};
use cudarc::driver::sys;
use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub(crate) type Pointer = u64;
pub(crate) use super::Handle;
type Result32 = c_int;

macro_rules! functions {
    ($($name:ident = $symbol:literal: fn($($argument:ty),*);)*) => {
        /// The driver's functions.
        #[allow(non_snake_case)]
        pub(crate) struct Driver {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> Result32,)*
            _library: Library,
        }

        impl Driver {
            fn load(library: Library) -> Result<Driver, String> {
                $(
                    // SAFETY: the declared type is the one in cuda.h for this symbol.
                    let $name = unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) -> Result32>(
                            concat!($symbol, "\0").as_bytes(),
                        )
                    };
                    let $name = *$name.map_err(|_| format!("has no symbol {}: the driver is too old", $symbol))?;
                )*
                Ok(Driver { $($name,)* _library: library })
            }
        }
    };
}

// Source: cuda.h of CUDA 13.0; the symbols are those its macros name for 64-bit Linux, all present since CUDA 12.0.
functions! {
    init = "cuInit": fn(c_uint);
    driver_get_version = "cuDriverGetVersion": fn(*mut c_int);
    device_get = "cuDeviceGet": fn(*mut c_int, c_int);
    device_get_count = "cuDeviceGetCount": fn(*mut c_int);
    device_get_name = "cuDeviceGetName": fn(*mut c_char, c_int, c_int);
    device_get_attribute = "cuDeviceGetAttribute": fn(*mut c_int, c_int, c_int);
    primary_ctx_retain = "cuDevicePrimaryCtxRetain": fn(*mut Handle, c_int);
    ctx_get_current = "cuCtxGetCurrent": fn(*mut Handle);
    ctx_set_current = "cuCtxSetCurrent": fn(Handle);
    ctx_synchronize = "cuCtxSynchronize": fn();
    mem_get_info = "cuMemGetInfo_v2": fn(*mut usize, *mut usize);
    mem_alloc = "cuMemAlloc_v2": fn(*mut Pointer, usize);
    mem_free = "cuMemFree_v2": fn(Pointer);
    mem_host_alloc = "cuMemHostAlloc": fn(*mut *mut c_void, usize, c_uint);
    mem_alloc_async = "cuMemAllocAsync": fn(*mut Pointer, usize, Handle);
    mem_free_async = "cuMemFreeAsync": fn(Pointer, Handle);
    memcpy_htod_async = "cuMemcpyHtoDAsync_v2": fn(Pointer, *const c_void, usize, Handle);
    memcpy_dtoh_async = "cuMemcpyDtoHAsync_v2": fn(*mut c_void, Pointer, usize, Handle);
    memcpy_dtod_async = "cuMemcpyDtoDAsync_v2": fn(Pointer, Pointer, usize, Handle);
    memcpy_2d_async = "cuMemcpy2DAsync_v2": fn(*const sys::CUDA_MEMCPY2D, Handle);
    memset_d8_async = "cuMemsetD8Async": fn(Pointer, u8, usize, Handle);
    stream_create = "cuStreamCreate": fn(*mut Handle, c_uint);
    stream_destroy = "cuStreamDestroy_v2": fn(Handle);
    stream_synchronize = "cuStreamSynchronize": fn(Handle);
    stream_wait_event = "cuStreamWaitEvent": fn(Handle, Handle, c_uint);
    stream_get_ctx = "cuStreamGetCtx": fn(Handle, *mut Handle);
    stream_is_capturing = "cuStreamIsCapturing": fn(Handle, *mut c_int);
    stream_begin_capture = "cuStreamBeginCapture_v2": fn(Handle, c_uint);
    stream_end_capture = "cuStreamEndCapture": fn(Handle, *mut Handle);
    event_create = "cuEventCreate": fn(*mut Handle, c_uint);
    event_record = "cuEventRecord": fn(Handle, Handle);
    event_synchronize = "cuEventSynchronize": fn(Handle);
    event_query = "cuEventQuery": fn(Handle);
    event_elapsed_time = "cuEventElapsedTime": fn(*mut f32, Handle, Handle);
    event_destroy = "cuEventDestroy_v2": fn(Handle);
    module_load_data = "cuModuleLoadData": fn(*mut Handle, *const c_void);
    module_unload = "cuModuleUnload": fn(Handle);
    module_get_function = "cuModuleGetFunction": fn(*mut Handle, Handle, *const c_char);
    func_get_attribute = "cuFuncGetAttribute": fn(*mut c_int, c_int, Handle);
    func_set_attribute = "cuFuncSetAttribute": fn(Handle, c_int, c_int);
    occupancy_blocks = "cuOccupancyMaxActiveBlocksPerMultiprocessor": fn(*mut c_int, Handle, c_int, usize);
    occupancy_clusters = "cuOccupancyMaxActiveClusters": fn(*mut c_int, Handle, *const sys::CUlaunchConfig);
    tensor_map_encode_tiled = "cuTensorMapEncodeTiled":
        fn(*mut sys::CUtensorMap, c_int, c_uint, *mut c_void, *const u64, *const u64, *const c_uint, *const c_uint, c_int, c_int, c_int, c_int);
    launch_kernel_ex = "cuLaunchKernelEx": fn(*const sys::CUlaunchConfig, Handle, *mut *mut c_void, *mut *mut c_void);
    graph_instantiate = "cuGraphInstantiateWithFlags": fn(*mut Handle, Handle, u64);
    graph_launch = "cuGraphLaunch": fn(Handle, Handle);
    graph_exec_destroy = "cuGraphExecDestroy": fn(Handle);
    graph_destroy = "cuGraphDestroy": fn(Handle);
    get_error_name = "cuGetErrorName": fn(c_int, *mut *const c_char);
    get_error_string = "cuGetErrorString": fn(c_int, *mut *const c_char);
}

/// Results that are told apart.
pub(crate) const SUCCESS: c_int = 0;
pub(crate) const OUT_OF_MEMORY: c_int = 2;
/// `CUDA_ERROR_NOT_READY`.
pub(crate) const NOT_READY: c_int = 600;

/// `CUdevice_attribute` values. Source: cuda.h of CUDA 13.0.
#[allow(missing_docs)]
pub(crate) mod attribute {
    pub const MULTIPROCESSOR_COUNT: i32 = 16;
    pub const MEMORY_CLOCK_RATE: i32 = 36;
    pub const GLOBAL_MEMORY_BUS_WIDTH: i32 = 37;
    pub const L2_CACHE_SIZE: i32 = 38;
    pub const COMPUTE_CAPABILITY_MAJOR: i32 = 75;
    pub const COMPUTE_CAPABILITY_MINOR: i32 = 76;
    pub const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: i32 = 97;
    pub const MEMORY_POOLS_SUPPORTED: i32 = 115;
}

/// `CUfunction_attribute` values. Source: cuda.h of CUDA 13.0.
pub(crate) mod function_attribute {
    pub const MAX_THREADS_PER_BLOCK: i32 = 0;
    pub const SHARED_SIZE_BYTES: i32 = 1;
    pub const MAX_DYNAMIC_SHARED_SIZE_BYTES: i32 = 8;
}

/// `CU_STREAM_NON_BLOCKING`.
pub(crate) const STREAM_NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DEFAULT`: timed.
pub(crate) const EVENT_DEFAULT: c_uint = 0;
/// `CU_EVENT_DISABLE_TIMING`: for ordering only.
pub(crate) const EVENT_DISABLE_TIMING: c_uint = 2;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`: other calls of this thread stay allowed while a stream is captured.
pub(crate) const CAPTURE_RELAXED: c_uint = 2;

impl Driver {
    /// The process's driver, opened and initialised at first use. The outcome, good or bad, is kept.
    pub fn get() -> Result<&'static Driver, LibraryError> {
        static DRIVER: OnceLock<Result<Driver, LibraryError>> = OnceLock::new();
        DRIVER.get_or_init(Driver::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Driver, LibraryError> {
        let found = open_library()?;
        let path = found.path;
        let unusable = |problem| LibraryError {
            what: "the CUDA driver",
            tried: vec![Attempt { path: path.clone(), problem }],
            help: library::DRIVER_HELP,
        };
        let driver = Driver::load(found.library).map_err(unusable)?;
        // SAFETY: no preconditions. A container may have the library and no device: that is a failure here.
        match unsafe { (driver.init)(0) } {
            SUCCESS => Ok(driver),
            code => {
                let (name, message) = driver.describe(code);
                Err(unusable(format!("cuInit failed: {name} ({code}): {message}")))
            }
        }
    }

    /// The newest CUDA version the driver supports, such as `(13, 0)`.
    pub fn version(&self) -> (u32, u32) {
        let mut version = 0;
        // SAFETY: `version` outlives the call.
        unsafe { (self.driver_get_version)(&mut version) };
        let version = u32::try_from(version).unwrap_or(0);
        (version / 1000, version % 1000 / 10)
    }

    /// How many devices there are.
    pub fn device_count(&self) -> Result<usize, DriverError> {
        let mut count = 0;
        // SAFETY: `count` outlives the call.
        self.check("cuDeviceGetCount", "the driver", unsafe { (self.device_get_count)(&mut count) })?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// A result as an error that names the call and the device.
    pub fn check(&self, call: &'static str, device: &str, code: c_int) -> Result<(), DriverError> {
        match code {
            SUCCESS => Ok(()),
            _ => Err(self.error(call, device, code)),
        }
    }

    #[cold]
    fn error(&self, call: &'static str, device: &str, code: c_int) -> DriverError {
        let (name, message) = self.describe(code);
        DriverError { call, code, name, message, device: device.into() }
    }

    fn describe(&self, code: c_int) -> (String, String) {
        let text = |function: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int| {
            let mut text = std::ptr::null();
            // SAFETY: `text` outlives the call, which sets it to a static string or null.
            unsafe { function(code, &mut text) };
            if text.is_null() {
                return "unknown error".to_string();
            }
            // SAFETY: not null: a static string that ends with a zero.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        (text(self.get_error_name), text(self.get_error_string))
    }
}

/// Opens the driver's library, which is always installed under these names.
fn open_library() -> Result<Found, LibraryError> {
    let mut tried = Vec::new();
    for name in ["libcuda.so.1", "libcuda.so"] {
        match library::open(Path::new(name)) {
            Ok(library) => return Ok(Found { library, path: PathBuf::from(name) }),
            Err(problem) => tried.push(Attempt { path: PathBuf::from(name), problem }),
        }
    }
    Err(LibraryError { what: "the CUDA driver", tried, help: library::DRIVER_HELP })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_driver_gives_an_error_that_lists_the_paths() {
        match Driver::get() {
            Ok(driver) => assert!(driver.version() >= (12, 0)),
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("libcuda.so.1") && text.contains("TILE_DEVICE=sim"), "{text}");
            }
        }
    }
}
