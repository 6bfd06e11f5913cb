//! The runtime's one error type. Variants carry the values that disagree; every message says what to do where there is
//! something to do.

use crate::launch_error::{LaunchError, Problem};
use crate::library::LibraryError;
use std::fmt;
use std::path::PathBuf;
use thiserror::Error;
use tile_ir::codec::DecodeError;

/// Why the runtime could not do what was asked.
///
/// `Debug` prints the same text as `Display`, because that is what `unwrap` and `fn main() -> Result<..>` show.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum Error {
    /// A library or tool is missing.
    #[error("{0}")]
    Library(#[from] LibraryError),
    /// A device number that does not exist.
    #[error("there is no CUDA device {asked}: this machine has {count} (cuda:0 to cuda:N-1)")]
    NoDevice {
        /// The number asked for.
        asked: usize,
        /// How many there are.
        count: usize,
    },
    /// The device is older than any target.
    #[error("{name} has compute capability {major}.{minor}; kernels need 8.0 (Ampere) or newer")]
    OldDevice {
        /// The device's name.
        name: String,
        /// Compute capability, major.
        major: u32,
        /// Compute capability, minor.
        minor: u32,
    },
    /// The kernel declares no target that the device runs.
    #[error("kernel `{kernel}` is declared for {declared}, which {device} does not run")]
    NoTarget {
        /// The kernel.
        kernel: String,
        /// The device.
        device: String,
        /// The declared targets.
        declared: String,
    },
    /// `TILE_DEVICE` is not a device.
    #[error("TILE_DEVICE is `{value}`; it must be cuda:0 (or another number), sim or sim-checked")]
    DeviceName {
        /// Its value.
        value: String,
    },
    /// A call of the CUDA driver failed.
    #[error("{0}")]
    Driver(#[from] DriverError),
    /// The device has failed earlier and cannot be used any more in this process.
    #[error("{0}")]
    Fault(Box<Fault>),
    /// A `device_assert` did not hold on a GPU. What was launched is done, its results are whatever the kernel made of it, and the
    /// device can still be used.
    #[error("{0}")]
    Assert(Box<Assertion>),
    /// Device memory is full.
    #[error("{device} is out of memory: {} were requested{}", Bytes(*.requested), Free(*.free, *.total))]
    OutOfMemory {
        /// The device; of a simulator, whose memory is the host's, the simulator.
        device: String,
        /// Bytes requested.
        requested: u64,
        /// Bytes free; 0 where that is unknown.
        free: u64,
        /// Bytes in all; 0 where that is unknown.
        total: u64,
    },
    /// An access to simulated memory was refused.
    #[error(transparent)]
    Memory(#[from] tile_ir::sim::MemoryError),
    /// NVRTC refused the source.
    #[error("the CUDA C of `{kernel}` does not compile; this is a mistake of the kernel compiler:\n{log}")]
    Compile {
        /// The kernel.
        kernel: String,
        /// NVRTC's log.
        log: String,
    },
    /// Nothing embedded can be used for a launch, and its kernel cannot be compiled either.
    #[error("{0}")]
    NotEmbedded(Box<NotEmbedded>),
    /// A bundle of embedded kernels cannot be read.
    #[error("embedded kernels: {problem}")]
    Embedded {
        /// Why not.
        problem: String,
    },
    /// A call of NVRTC failed.
    #[error("{call} failed with code {code}: {message}")]
    Nvrtc {
        /// The function.
        call: &'static str,
        /// Its result.
        code: i32,
        /// What it means.
        message: String,
    },
    /// The kernel's bytes cannot be read.
    #[error("kernel `{kernel}`: {source}")]
    Decode {
        /// The kernel.
        kernel: String,
        /// Why.
        source: DecodeError,
    },
    /// The kernel cannot be lowered for this device. The reports show the author's lines.
    #[error("{report}")]
    Lower {
        /// The kernel.
        kernel: String,
        /// The rendered diagnostics.
        report: String,
    },
    /// No such instance.
    #[error("[TK0706] kernel `{kernel}` has no instance {asked}; declared: {declared}")]
    Instance {
        /// The kernel.
        kernel: String,
        /// What was asked for.
        asked: String,
        /// What there is.
        declared: String,
    },
    /// Another set of dims than the kernel's `specialize(..)` names.
    #[error(
        "kernel `{kernel}` is specialised by {}; given: {}",
        if needed.is_empty() { "no dim" } else { needed },
        if asked.is_empty() { "none" } else { asked }
    )]
    Dims {
        /// The kernel.
        kernel: String,
        /// What was given, with its values.
        asked: String,
        /// The dims that need a value.
        needed: String,
    },
    /// A tensor is left out that is not optional, or that the kernel does not have.
    #[error(
        "kernel `{kernel}` cannot be without `{asked}`; optional: {}",
        if optional.is_empty() { "no tensor" } else { optional }
    )]
    Optional {
        /// The kernel.
        kernel: String,
        /// What was to be left out.
        asked: String,
        /// The optional tensors.
        optional: String,
    },
    /// A launch cannot be explained.
    #[error(transparent)]
    Explain(#[from] tile_ir::explain::ExplainError),
    /// No instance could be chosen by tuning.
    #[error("tuning kernel `{kernel}`: {problem}")]
    Tune {
        /// The kernel.
        kernel: String,
        /// Why, with what became of each candidate.
        problem: String,
    },
    /// The kernel is too large for the launcher.
    #[error("kernel `{kernel}` has {found} {what}; the launcher takes at most {most}")]
    TooMany {
        /// The kernel.
        kernel: String,
        /// Of what.
        what: &'static str,
        /// How many.
        found: usize,
        /// The limit.
        most: usize,
    },
    /// The kernel needs more than the device has.
    #[error("[TK0705] kernel `{kernel}` needs {needed} {what}; {device} allows {allowed}")]
    Resource {
        /// The kernel.
        kernel: String,
        /// The device.
        device: String,
        /// Of what.
        what: &'static str,
        /// How much.
        needed: u64,
        /// The limit.
        allowed: u64,
    },
    /// A shape does not fit the data or the tensor.
    #[error("{0}")]
    Shape(#[from] ShapeError),
    /// Two devices where there must be one.
    #[error("the source is on {source_device}, the destination on {destination}")]
    DifferentDevices {
        /// One.
        source_device: String,
        /// The other.
        destination: String,
    },
    /// A device has too many streams at once.
    #[error("{device} already has {most} streams; drop some before making more")]
    Streams {
        /// The device.
        device: String,
        /// The limit.
        most: usize,
    },
    /// A capture went wrong.
    #[error("graph capture on {device}: {problem}")]
    Capture {
        /// The device.
        device: String,
        /// What went wrong.
        problem: String,
    },
    /// A write into memory that was lent to be read.
    #[error("the memory on {device} was borrowed to be read; it cannot be written")]
    ReadOnly {
        /// The device.
        device: String,
    },
    /// A tensor of another library that cannot be used here.
    #[error("a DLPack tensor: {problem}")]
    Dlpack {
        /// What does not fit, with what was found and what is taken.
        problem: String,
    },
    /// A stream of other code that cannot be used.
    #[error("a stream of other code on {device}: {problem}")]
    ForeignStream {
        /// The device.
        device: String,
        /// Why not, and what to do.
        problem: String,
    },
    /// A file could not be read or written.
    #[error("could not {action} {}: {problem}", .path.display())]
    File {
        /// What was being done.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's words.
        problem: String,
    },
    /// A tool failed.
    #[error("{tool} failed: {problem}")]
    Tool {
        /// Its path.
        tool: String,
        /// What it said.
        problem: String,
    },
    /// A function was asked for what it does not do.
    #[error("{function}: {problem}")]
    Unsupported {
        /// The function.
        function: &'static str,
        /// What was asked for, and what there is instead.
        problem: String,
    },
    /// A launch was refused or failed.
    #[error("{0}")]
    Launch(#[source] LaunchError),
}

impl From<LaunchError> for Error {
    fn from(error: LaunchError) -> Error {
        // What only passed through code that returns a launch's error is what it was.
        match error.problem() {
            Problem::Other(error) => error.clone(),
            _ => Error::Launch(error),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A launch whose code is neither embedded in the program nor can be compiled.
#[derive(Clone, Debug, Error)]
#[error(
    "`{kernel}` {instance} for {architecture} cannot be taken from the kernels embedded in this program: {why}.\n\
     Nor can it be compiled: {problem}\n\
     help: `cargo tile export` writes what is to be embedded; build the program again with it"
)]
pub struct NotEmbedded {
    /// The kernel.
    pub kernel: String,
    /// The instance, as an author writes it.
    pub instance: String,
    /// NVRTC's architecture.
    pub architecture: String,
    /// What is embedded instead: where it is another version of the kernel, both versions.
    pub why: String,
    /// Why it cannot be compiled.
    pub problem: LibraryError,
}

/// A failed call of the CUDA driver.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{call} failed on {device}: {name} ({code}): {message}")]
pub struct DriverError {
    /// The function.
    pub call: &'static str,
    /// Its result.
    pub code: i32,
    /// The result's name, such as `CUDA_ERROR_ILLEGAL_ADDRESS`.
    pub name: String,
    /// What it means.
    pub message: String,
    /// The device.
    pub device: String,
}

impl DriverError {
    /// Whether the device's context is lost: an illegal address and its like.
    ///
    /// Source: CUDA driver API, `CUresult`: after these "the process must be terminated and relaunched".
    pub fn is_fatal(&self) -> bool {
        matches!(self.code, 700 | 702 | 709 | 710 | 714..=719 | 721 | 214 | 226)
    }
}

/// A `device_assert` that did not hold on a GPU, as the next wait for the device says: the first, of however many.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("kernel `{kernel}` on {device}:\n{report}{}", if *more > 0 { format!("\nand {more} more") } else { String::new() })]
pub struct Assertion {
    /// The device.
    pub device: String,
    /// The kernel.
    pub kernel: String,
    /// Its author's words.
    pub message: String,
    /// The file, as the compiler knew it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The block, x y z.
    pub block: [u32; 3],
    /// The thread in its block, x y z; of a kernel that is specialised into roles, those of the producer come first.
    pub thread: [u32; 3],
    /// The author's line, marked.
    pub report: String,
    /// Assertions that failed besides.
    pub more: u64,
}

/// The first fatal error of a device: what failed and which kernels were under way.
#[derive(Clone, Debug, Error)]
#[error("{error}\n{}\nThe device cannot be used any more in this process; nothing was done.", Suspects(.suspects))]
pub struct Fault {
    /// The error.
    pub error: DriverError,
    /// Kernels launched since the last synchronisation, `name at file:line`, latest first.
    pub suspects: Vec<String>,
}

struct Suspects<'a>(&'a [String]);

impl fmt::Display for Suspects<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => write!(f, "No kernel of this crate was under way."),
            [one] => write!(f, "The kernel under way was {one}."),
            many => write!(
                f,
                "Kernels under way, latest first: {}. TILE_LAUNCH_BLOCKING=1 waits after each launch and so names the one.",
                many.join("; ")
            ),
        }
    }
}

/// A shape that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ShapeError {
    /// The data has another length than the shape.
    #[error("shape {shape:?} has {expected} elements, the slice has {found}")]
    Length {
        /// The shape.
        shape: Vec<usize>,
        /// Its elements.
        expected: usize,
        /// The slice's.
        found: usize,
    },
    /// The shape's size overflows.
    #[error("shape {shape:?} is too large to address")]
    Overflow {
        /// The shape.
        shape: Vec<usize>,
    },
    /// A rank outside 1 to 4.
    #[error("tensors have rank 1 to 4, not {rank}")]
    Rank {
        /// The rank.
        rank: usize,
    },
    /// A range that leaves its axis.
    #[error("range {start}..{end} leaves axis {axis}, which has extent {extent}")]
    Range {
        /// First.
        start: usize,
        /// Past the last.
        end: usize,
        /// The axis, outermost 0.
        axis: usize,
        /// Its extent.
        extent: usize,
    },
    /// Axes that cannot be exchanged.
    #[error(
        "axes {first} and {second} of {rank} cannot be exchanged: those before the last can, numbered from the outermost, 0"
    )]
    Axes {
        /// One.
        first: usize,
        /// The other.
        second: usize,
        /// How many axes there are.
        rank: usize,
    },
    /// Two shapes that must agree.
    #[error("the source has shape {source_shape:?}, the destination {destination:?}")]
    Differ {
        /// One.
        source_shape: Vec<usize>,
        /// The other.
        destination: Vec<usize>,
    },
    /// Elements of a row that do not lie beside each other.
    #[error("neighbours on the innermost axis of shape {shape:?} lie {stride} elements apart, not 1")]
    InnerStride {
        /// The shape.
        shape: Vec<usize>,
        /// The stride of the innermost axis.
        stride: usize,
    },
    /// A place where an element cannot begin.
    #[error("address {address:#x} is not a multiple of {multiple} bytes, an element's size")]
    Address {
        /// Where the memory begins.
        address: u64,
        /// The element's size.
        multiple: usize,
    },
    /// Rows that share elements.
    #[error("neighbours on axis {axis} of shape {shape:?} lie {stride} elements apart, and each takes {least}")]
    Overlap {
        /// The shape.
        shape: Vec<usize>,
        /// The axis, outermost 0.
        axis: usize,
        /// Its stride.
        stride: usize,
        /// The elements that one index of the axis spans.
        least: usize,
    },
    /// A view that leaves the memory it is said to lie in.
    #[error("shape {shape:?} with strides {strides:?} ends at element {end} of memory that has {len}")]
    Outside {
        /// The shape.
        shape: Vec<usize>,
        /// Its strides.
        strides: Vec<usize>,
        /// One past its last element.
        end: usize,
        /// Elements that there are.
        len: usize,
    },
    /// A view that cannot be given another shape without a copy.
    #[error("shape {shape:?} with strides {strides:?} is not contiguous, so it has no view of shape {wanted:?}")]
    NotContiguous {
        /// The shape.
        shape: Vec<usize>,
        /// Its strides.
        strides: Vec<usize>,
        /// The shape asked for.
        wanted: Vec<usize>,
    },
}

impl Error {
    /// The host cannot give this many bytes.
    pub(crate) fn host_out_of_memory(device: &str, bytes: usize) -> Error {
        let (free, total) = host_memory();
        Error::OutOfMemory { device: device.to_owned(), requested: bytes as u64, free, total }
    }
}

/// Free and total memory of the host in bytes, as Linux says it; zeros elsewhere.
fn host_memory() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    };
    field("MemAvailable:").zip(field("MemTotal:")).unwrap_or_default()
}

/// `, 1 GiB of 2 GiB are free`, or nothing where that is unknown.
struct Free(u64, u64);

impl fmt::Display for Free {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Free(_, 0) => Ok(()),
            Free(free, total) => write!(f, ", {} of {} are free", Bytes(*free), Bytes(*total)),
        }
    }
}

/// A size for people, exact below 10 KiB.
pub(crate) struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["KiB", "MiB", "GiB", "TiB"];
        if self.0 < 10_240 {
            return write!(f, "{} bytes", self.0);
        }
        let mut size = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while size >= 10_240.0 && unit + 1 < units.len() {
            size /= 1024.0;
            unit += 1;
        }
        match size < 100.0 {
            true => write!(f, "{size:.1} {}", units[unit]),
            false => write!(f, "{size:.0} {}", units[unit]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        assert_eq!(Bytes(512).to_string(), "512 bytes");
        assert_eq!(Bytes(40 << 10).to_string(), "40.0 KiB");
        assert_eq!(Bytes(139 << 30).to_string(), "139 GiB");
        assert_eq!(Bytes(12 << 40).to_string(), "12.0 TiB");
    }

    #[test]
    fn out_of_memory_says_requested_free_and_total() {
        let error =
            Error::OutOfMemory { device: "cuda:0".into(), requested: 40 << 30, free: 20 << 30, total: 139 << 30 };
        assert_eq!(error.to_string(), "cuda:0 is out of memory: 40.0 GiB were requested, 20.0 GiB of 139 GiB are free");
    }
}
