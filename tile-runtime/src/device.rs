//! Devices: CUDA devices and the simulators, behind one handle.

use crate::allocation::Allocation;
use crate::cuda::CudaDevice;
use crate::element::{Element, as_bytes};
use crate::error::{Bytes, Error, ShapeError};
use crate::layout::Layout;
use crate::library::LibraryError;
use crate::lock::lock;
use crate::settings;
use crate::stream::{Graph, Stream};
use crate::tensor::Tensor;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use tile_ir::ir::Target;
use tile_ir::sim::{Cancel, STEP_LIMIT};

/// A device that kernels run on. Cheap to clone; a device lives as long as the process.
///
/// ```
/// # use tile_runtime::Device;
/// let device = Device::simulator();
/// let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
/// assert_eq!(x.rows(1..2)?.to_vec()?, [3.0, 4.0]);
/// # Ok::<(), tile_runtime::Error>(())
/// ```
#[derive(Clone)]
pub struct Device {
    pub(crate) state: &'static DeviceState,
    why: Arc<str>,
    /// How long launches through this handle may run, on a simulator.
    limits: Limits,
}

/// How long simulated launches may run.
#[derive(Clone, Default)]
struct Limits {
    steps: Option<u64>,
    cancel: Option<Cancel>,
}

/// What there is once for each device.
pub(crate) struct DeviceState {
    /// A small number: where a kernel's record for this device is found.
    pub slot: u32,
    pub backend: Backend,
}

pub(crate) enum Backend {
    Cuda(Box<CudaDevice>),
    Simulator { checked: bool },
}

static SIMULATOR: DeviceState = DeviceState { slot: 0, backend: Backend::Simulator { checked: false } };
static CHECKED: DeviceState = DeviceState { slot: 1, backend: Backend::Simulator { checked: true } };
/// Slots of CUDA devices start here.
const FIRST_CUDA: u32 = 2;

impl Device {
    /// CUDA device `ordinal`. The first use of a device takes about 0.2 s.
    ///
    /// # Errors
    /// No driver, no such device, a device older than compute capability 8.0.
    pub fn cuda(ordinal: usize) -> Result<Device, Error> {
        static DEVICES: Mutex<Vec<Option<&'static DeviceState>>> = Mutex::new(Vec::new());
        let mut devices = lock(&DEVICES);
        let known = devices.get(ordinal).copied().flatten();
        let state = match known {
            Some(state) => state,
            None => {
                let backend = Backend::Cuda(Box::new(CudaDevice::open(ordinal)?));
                let state: &'static DeviceState =
                    Box::leak(Box::new(DeviceState { slot: FIRST_CUDA + ordinal as u32, backend }));
                let len = devices.len().max(ordinal + 1);
                devices.resize(len, None);
                devices[ordinal] = Some(state);
                state
            }
        };
        Ok(Device::over(state))
    }

    /// The fast simulator: kernels run on the CPU, for results.
    pub fn simulator() -> Device {
        Device::over(&SIMULATOR)
    }

    /// The checked simulator: kernels run lane by lane on the CPU, and races, accesses out of bounds and misused
    /// barriers are reported. Slow.
    pub fn checked_simulator() -> Device {
        Device::over(&CHECKED)
    }

    fn over(state: &'static DeviceState) -> Device {
        Device { state, why: "asked for".into(), limits: Limits::default() }
    }

    /// This simulator, with another limit for the launches that are made through this handle, its clones, and its streams:
    /// one that has taken `steps` steps is stopped with [`Problem::StepLimit`](crate::Problem::StepLimit). What it wrote
    /// until then stays written. On the fast simulator a block is a step, and each iteration of a loop that it goes
    /// through; on the checked one, each instruction of a warp. Without this the limit is `TILE_STEP_LIMIT`, else 2 * 10^9.
    /// A GPU has no such limit.
    #[must_use]
    pub fn with_step_limit(mut self, steps: u64) -> Device {
        self.limits.steps = Some(steps);
        self
    }

    /// This simulator, with a switch that stops the launches that are made through this handle, its clones, and its streams:
    /// once [`Cancel::cancel`] is called, from any thread, they end with
    /// [`Problem::Cancelled`](crate::Problem::Cancelled). On a GPU it has no effect.
    #[must_use]
    pub fn with_cancel(mut self, cancel: &Cancel) -> Device {
        self.limits.cancel = Some(cancel.clone());
        self
    }

    /// Steps that a simulated launch may take.
    pub(crate) fn step_limit(&self) -> u64 {
        self.limits.steps.unwrap_or_else(usual_step_limit)
    }

    /// What stops its simulated launches.
    pub(crate) fn cancel(&self) -> Option<Cancel> {
        self.limits.cancel.clone()
    }

    /// What `TILE_DEVICE` says (`cuda:0`, `sim`, `sim-checked`); without it the first CUDA device if there is one, else
    /// the simulator, which is said once on standard error. [`Device::why`] tells which and why.
    ///
    /// # Errors
    /// `TILE_DEVICE` names no device, or one that cannot be opened.
    pub fn auto() -> Result<Device, Error> {
        match settings::path("TILE_DEVICE") {
            Some(value) => {
                let value = value.to_string_lossy();
                Ok(Device { why: format!("TILE_DEVICE={value}").into(), ..Device::named(&value)? })
            }
            None => Ok(match Device::cuda(0) {
                Ok(device) => Device { why: "the first CUDA device".into(), ..device },
                Err(error) => {
                    let why = why_not(&error);
                    static SAID: OnceLock<()> = OnceLock::new();
                    SAID.get_or_init(|| eprintln!("tile: {why}: kernels are simulated on the CPU"));
                    Device { why: why.into(), ..Device::simulator() }
                }
            }),
        }
    }

    /// Whether `name` is one that [`Device::named`] takes; the device may still be missing.
    pub fn is_name(name: &str) -> bool {
        let numbered = name.strip_prefix("cuda:").is_some_and(|number| number.parse::<usize>().is_ok());
        numbered || matches!(name, "sim" | "sim-checked" | "cuda")
    }

    /// The device called `cuda:N`, `cuda`, `sim` or `sim-checked`.
    ///
    /// # Errors
    /// No such name, or a device that cannot be opened.
    pub fn named(name: &str) -> Result<Device, Error> {
        let unknown = || Error::DeviceName { value: name.to_string() };
        match name {
            "sim" => Ok(Device::simulator()),
            "sim-checked" => Ok(Device::checked_simulator()),
            "cuda" => Device::cuda(0),
            _ => {
                let number = name.strip_prefix("cuda:").ok_or_else(unknown)?;
                Device::cuda(number.parse().map_err(|_| unknown())?)
            }
        }
    }

    /// How many CUDA devices there are.
    ///
    /// # Errors
    /// No driver.
    pub fn cuda_count() -> Result<usize, Error> {
        Ok(crate::cuda::Driver::get()?.device_count()?)
    }

    /// The newest CUDA version the driver supports, such as `(13, 0)`.
    ///
    /// # Errors
    /// No driver.
    pub fn driver_version() -> Result<(u32, u32), LibraryError> {
        Ok(crate::cuda::Driver::get()?.version())
    }

    /// A tensor with this shape, outermost extent first, and these elements.
    ///
    /// # Errors
    /// The slice has another length; the device is out of memory.
    pub fn tensor<T: Element, const R: usize>(&self, values: &[T], shape: [usize; R]) -> Result<Tensor<T, R>, Error> {
        let layout = Layout::packed(shape)?;
        if layout.len() != values.len() {
            let (expected, found) = (layout.len(), values.len());
            return Err(ShapeError::Length { shape: shape.to_vec(), expected, found }.into());
        }
        let allocation = Allocation::new(self.state, size_of_val(values), false)?;
        allocation.upload(as_bytes(values), &layout.as_rows(), size_of::<T>())?;
        Ok(Tensor::from_parts(Arc::new(allocation), layout))
    }

    /// A tensor of zeros (`false` for bool) with this shape, outermost extent first.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn zeros<T: Element, const R: usize>(&self, shape: [usize; R]) -> Result<Tensor<T, R>, Error> {
        let layout = Layout::packed(shape)?;
        let allocation = Allocation::new(self.state, layout.len() * size_of::<T>(), true)?;
        Ok(Tensor::from_parts(Arc::new(allocation), layout))
    }

    /// A new stream, concurrent with the default one. At most 63 at once.
    ///
    /// # Errors
    /// Too many streams; the device has failed.
    pub fn stream(&self) -> Result<Stream, Error> {
        Stream::new(self)
    }

    /// Captures what `work` launches on the stream it is given, to be launched again as one piece. Launches on other
    /// streams or on the device itself happen at once and are not captured. Kernels should be prepared before: the
    /// first use of one compiles it.
    ///
    /// # Errors
    /// What `work` returns; what the driver refuses to capture.
    pub fn capture(&self, work: impl FnOnce(&Stream) -> Result<(), Error>) -> Result<Graph, Error> {
        Graph::capture(self, work)
    }

    /// Waits for everything launched on this device.
    ///
    /// # Errors
    /// What a kernel did wrong since the last wait: the device then cannot be used any more.
    pub fn synchronize(&self) -> Result<(), Error> {
        match &self.state.backend {
            Backend::Cuda(cuda) => cuda.synchronize_all(),
            Backend::Simulator { .. } => Ok(()),
        }
    }

    /// Free and total memory in bytes; `None` for a simulator.
    ///
    /// # Errors
    /// The device has failed.
    pub fn memory(&self) -> Result<Option<(u64, u64)>, Error> {
        match &self.state.backend {
            Backend::Cuda(cuda) => cuda.memory().map(Some),
            Backend::Simulator { .. } => Ok(None),
        }
    }

    /// Lets kernels with `pdl(..)` start before the previous kernel of their stream is done, or not: everywhere in this
    /// process. They do unless `TILE_PDL=off` is set; to compare. A captured graph keeps what held at its capture.
    pub fn set_dependent_launch(&self, on: bool) {
        if let Backend::Cuda(cuda) = &self.state.backend {
            cuda.dependent_launch.store(on, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// Whether kernels with `pdl(..)` may start before the previous kernel of their stream is done; on simulators none does.
    pub fn dependent_launch(&self) -> bool {
        match &self.state.backend {
            Backend::Cuda(cuda) => cuda.dependent_launch.load(std::sync::atomic::Ordering::Relaxed),
            Backend::Simulator { .. } => false,
        }
    }

    /// Why [`Device::auto`] chose this device.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// `cuda:0`, `sim`, `sim-checked`.
    pub fn label(&self) -> &str {
        self.state.label()
    }

    /// Whether kernels compiled for `target` run here. The simulators run all of them.
    pub fn supports(&self, target: Target) -> bool {
        self.target(&[target]).is_some()
    }

    /// Bytes a second that the device's memory gives at most, by its clock and the width of its bus; none of a simulator, and where the
    /// driver does not say. To tell devices of one architecture apart: an H100 has 3.35 TB/s, an H200 4.9.
    pub fn memory_rate(&self) -> Option<u64> {
        match &self.state.backend {
            Backend::Cuda(cuda) => Some(cuda.memory_rate).filter(|rate| *rate > 0),
            Backend::Simulator { .. } => None,
        }
    }

    /// Whether kernels are simulated.
    pub fn is_simulator(&self) -> bool {
        matches!(self.state.backend, Backend::Simulator { .. })
    }

    /// What kernels are compiled for here: the first of these targets the device can run, best first.
    ///
    /// # Errors
    /// None of them runs here.
    pub(crate) fn target(&self, declared: &[Target]) -> Option<Target> {
        let can = |target: &Target| declared.is_empty() || declared.contains(target);
        let runs = |target: &Target| match &self.state.backend {
            Backend::Cuda(cuda) => target.runs_on(cuda.capability),
            Backend::Simulator { .. } => true,
        };
        Target::best_first().filter(runs).find(can)
    }
}

impl DeviceState {
    /// NVRTC's architecture for a target.
    pub(crate) fn architecture(&self, target: Target) -> String {
        match &self.backend {
            Backend::Cuda(cuda) if !target.info().exact => format!("sm_{}{}", cuda.capability.0, cuda.capability.1),
            Backend::Cuda(_) | Backend::Simulator { .. } => target.name().to_string(),
        }
    }
}

/// `TILE_STEP_LIMIT`, else what the simulators have by themselves.
fn usual_step_limit() -> u64 {
    static LIMIT: OnceLock<u64> = OnceLock::new();
    *LIMIT.get_or_init(|| settings::number_of("TILE_STEP_LIMIT").unwrap_or(STEP_LIMIT))
}

/// Why there is no CUDA device, in a line.
fn why_not(error: &Error) -> String {
    match error {
        Error::Library(LibraryError { tried, .. }) => match tried.iter().find(|t| t.problem.contains("cuInit")) {
            Some(attempt) => attempt.problem.clone(),
            None if tried.is_empty() => {
                "this program was built without CUDA (feature `cuda` of tile-runtime)".to_string()
            }
            None => "there is no CUDA driver".to_string(),
        },
        Error::NoDevice { .. } => "there is no CUDA device".to_string(),
        other => other.to_string(),
    }
}

impl DeviceState {
    /// `cuda:0`, `sim`, `sim-checked`.
    pub fn label(&self) -> &str {
        match &self.backend {
            Backend::Cuda(cuda) => &cuda.label,
            Backend::Simulator { checked: false } => "sim",
            Backend::Simulator { checked: true } => "sim-checked",
        }
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        std::ptr::eq(self.state, other.state)
    }
}

impl Eq for Device {}

/// What the device is, in a line.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state.backend {
            Backend::Cuda(cuda) => {
                let CudaDevice {
                    name, label, capability: (major, minor), multiprocessors, total_memory, l2_bytes, ..
                } = &**cuda;
                write!(f, "{name} ({label}, compute capability {major}.{minor}, {multiprocessors} multiprocessors, ")?;
                write!(f, "{} memory, {} L2)", Bytes(*total_memory), Bytes(*l2_bytes))
            }
            Backend::Simulator { checked: false } => write!(f, "the simulator, on the CPU"),
            Backend::Simulator { checked: true } => write!(f, "the checked simulator, on the CPU"),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_documented_ones() {
        assert_eq!(Device::named("sim").unwrap(), Device::simulator());
        assert_eq!(Device::named("sim-checked").unwrap(), Device::checked_simulator());
        for wrong in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "sim:0", "SIM"] {
            let error = Device::named(wrong).unwrap_err();
            assert!(matches!(&error, Error::DeviceName { value } if value == wrong), "{error}");
        }
        assert!(Device::named("cuda:999").is_err());
    }

    #[test]
    fn tensors_come_back_as_they_went() {
        let device = Device::simulator();
        let values: Vec<i32> = (0..24).collect();
        let tensor = device.tensor(&values, [2, 3, 4]).unwrap();
        assert_eq!(tensor.to_vec().unwrap(), values);
        assert_eq!(device.zeros::<bool, 1>([3]).unwrap().to_vec().unwrap(), [false; 3]);
        assert_eq!(device.tensor::<f32, 2>(&[], [0, 5]).unwrap().to_vec().unwrap(), [0.0; 0]);
        let error = device.tensor(&values, [5, 5]).unwrap_err();
        assert_eq!(error.to_string(), "shape [5, 5] has 25 elements, the slice has 24");
    }

    #[test]
    fn a_declared_target_is_respected() {
        let device = Device::simulator();
        assert_eq!(device.target(&[]), Some(Target::Sm90a));
        assert_eq!(device.target(&[Target::Sm80]), Some(Target::Sm80));
    }
}
