//! The clock and the power of a GPU, as NVML reads them.

use libloading::Library;
use serde::{Deserialize, Serialize};
use std::ffi::{c_int, c_uint, c_void};

/// What the sensors said at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Clock of the multiprocessors, in MHz.
    pub sm_mhz: Option<u32>,
    /// Power of the board, in watts.
    pub watts: Option<f64>,
}

/// A GPU's sensors; without NVML they read nothing.
pub struct Sensors {
    nvml: Option<Nvml>,
}

type Get = unsafe extern "C" fn(*mut c_void, *mut c_uint) -> c_int;
type GetClock = unsafe extern "C" fn(*mut c_void, c_int, *mut c_uint) -> c_int;

struct Nvml {
    device: *mut c_void,
    clock: GetClock,
    power: Get,
    /// Keeps the functions.
    _library: Library,
}

/// `NVML_CLOCK_SM`. Source: nvml.h.
const CLOCK_SM: c_int = 1;

impl Sensors {
    /// The sensors of GPU `ordinal`, in NVML's numbering, which is the driver's where `CUDA_VISIBLE_DEVICES` hides none.
    pub fn open(ordinal: u32) -> Sensors {
        Sensors { nvml: Nvml::open(ordinal) }
    }

    /// What they say now.
    pub fn read(&self) -> Reading {
        let Some(nvml) = &self.nvml else { return Reading::default() };
        let (mut mhz, mut milliwatts) = (0, 0);
        // SAFETY: a valid handle; both integers outlive their call.
        let codes =
            unsafe { ((nvml.clock)(nvml.device, CLOCK_SM, &mut mhz), (nvml.power)(nvml.device, &mut milliwatts)) };
        Reading { sm_mhz: (codes.0 == 0).then_some(mhz), watts: (codes.1 == 0).then_some(f64::from(milliwatts) / 1e3) }
    }
}

impl Nvml {
    fn open(ordinal: u32) -> Option<Nvml> {
        // SAFETY: NVIDIA's library, whose initialisers may run at any time.
        let library = unsafe { Library::new("libnvidia-ml.so.1") }.ok()?;
        // SAFETY: the types are those of nvml.h.
        let (init, handle, clock, power) = unsafe {
            (
                *library.get::<unsafe extern "C" fn() -> c_int>(b"nvmlInit_v2\0").ok()?,
                *library
                    .get::<unsafe extern "C" fn(c_uint, *mut *mut c_void) -> c_int>(b"nvmlDeviceGetHandleByIndex_v2\0")
                    .ok()?,
                *library.get::<GetClock>(b"nvmlDeviceGetClockInfo\0").ok()?,
                *library.get::<Get>(b"nvmlDeviceGetPowerUsage\0").ok()?,
            )
        };
        let mut device = std::ptr::null_mut();
        // SAFETY: NVML is initialised before it is asked; `device` outlives the call.
        let opened = unsafe { init() == 0 && handle(ordinal, &mut device) == 0 };
        opened.then_some(Nvml { device, clock, power, _library: library })
    }
}
