//! Why a launch was refused: which argument, which rule on which line, both numbers.

use crate::error::Error;
use std::fmt;
use std::panic::Location;
use thiserror::Error;
use tile_ir::diag::Code;
use tile_ir::ir::Dtype;

/// A launch that did not happen, or a simulated one that went wrong.
///
/// It becomes an [`Error`](enum@Error) under `?`, and an [`Error`](enum@Error) becomes one of these, so launches and copies
/// compose either way:
///
/// ```
/// # use tile_runtime::prelude::*;
/// # use tile_runtime::{Error, LaunchError};
/// # #[tile_kernel]
/// # pub fn double(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
/// #     let [b] = blocks([ceil_div(N, 32)]);
/// #     let [t] = threads([32]);
/// #     *y.masked_mut([b * 32 + t]) = 2.0 * x.masked([b * 32 + t]);
/// # }
/// fn doubled(device: &Device, values: &[f32]) -> Result<Vec<f32>, Error> {
///     let x = device.tensor(values, [values.len()])?;
///     let mut y = device.zeros::<f32, 1>([values.len()])?;
///     double::launch(device, &x, &mut y)?;
///     y.to_vec()
/// }
/// fn twice(device: &Device, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) -> Result<Vec<f32>, LaunchError> {
///     double::launch(device, x, &mut *y).and_then(|()| Ok(y.to_vec()?))
/// }
/// # let device = Device::simulator();
/// # let (x, mut y) = (device.tensor(&[1.0, 2.0], [2])?, device.zeros::<f32, 1>([2])?);
/// # assert_eq!(doubled(&device, &[1.0, 2.0])?, [2.0, 4.0]);
/// # assert_eq!(twice(&device, &x, &mut y)?, [2.0, 4.0]);
/// # Ok::<(), Error>(())
/// ```
///
/// `Debug` prints the same text as `Display`, because that is what `unwrap` shows.
#[derive(Clone, Error)]
#[error("{0}")]
pub struct LaunchError(Box<Report>);

#[derive(Clone)]
struct Report {
    kernel: String,
    at: &'static Location<'static>,
    problem: Problem,
}

/// What was wrong. Lines are those of the kernel's source; 0 where they are unknown.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Problem {
    /// Another number of arguments than parameters.
    ArgumentCount { expected: usize, found: usize },
    /// A tensor for a scalar, a scalar for a tensor, or a scalar of another type.
    Kind { argument: String, expected: String, found: String },
    /// Another element type.
    Dtype { argument: String, expected: Dtype, found: Dtype },
    /// Another number of axes.
    Rank { argument: String, expected: usize, found: usize },
    /// An extent that differs from what `Extent<{ 2 * K }>` says of it.
    DerivedExtent {
        argument: String,
        axis: usize,
        extent: String,
        expected: i64,
        found: i64,
        values: Vec<(String, i64)>,
    },
    /// An extent that differs from a fixed one.
    FixedExtent { argument: String, axis: usize, expected: i64, found: i64 },
    /// An extent that differs from the same dim of an earlier argument.
    NamedExtent {
        dim: String,
        first: String,
        first_axis: usize,
        expected: i64,
        argument: String,
        axis: usize,
        found: i64,
    },
    /// An extent beyond 32 bits.
    ExtentRange { argument: String, axis: usize, found: i64 },
    /// A stride beyond 32 bits.
    StrideRange { argument: String, axis: usize, found: i64 },
    /// A stride smaller than what lies inside it, so that elements overlap.
    StrideOverlap { argument: String, axis: usize, least: i64, found: i64 },
    /// The innermost stride is not 1.
    InnerStride { argument: String, found: i64 },
    /// An extent below zero.
    NegativeExtent { argument: String, axis: usize, found: i64 },
    /// A `usize` scalar beyond 32 bits, or negative.
    ScalarRange { argument: String, found: u64 },
    /// A variant prepared for another value of a specialised dim.
    Specialized { argument: String, dim: String, expected: i64, found: i64 },
    /// A broken `require`.
    Require { argument: Option<String>, text: String, line: u32, values: Vec<(String, i64)> },
    /// An address that is not a multiple of what a vector access needs.
    Alignment { argument: String, bytes: u32, address: u64, line: u32 },
    /// A stride that is not a multiple of what a vector access needs.
    StrideMultiple { argument: String, axis: usize, multiple: u32, found: i64, line: u32 },
    /// An index expression that would pass 2^31.
    IndexRange { expression: String, value: Option<i64>, line: u32, values: Vec<(String, i64)> },
    /// A step or the number of a shift that is out of its range.
    Operand { rule: &'static str, expression: String, value: Option<i64>, line: u32, values: Vec<(String, i64)> },
    /// The tensor's memory ends before its last element.
    Coverage { argument: String, needed: u64, found: u64 },
    /// A tensor of another device.
    Device { argument: String, expected: String, found: String },
    /// A tensor that is written overlaps another argument.
    Overlap { written: String, other: String },
    /// More blocks than the device takes.
    Grid { axis: char, blocks: Option<i64>, most: i64, expression: String },
    /// The kernel could not be compiled or loaded.
    Prepare(Error),
    /// The driver refused the launch, or the device has failed.
    Driver(Error),
    /// Something else of the runtime failed, in code that returns a [`LaunchError`].
    Other(Error),
    /// A stream whose capture is over.
    StreamOver,
    /// The simulator found a mistake of the kernel while it ran.
    Simulator(String),
    /// A simulated launch was stopped because it had taken all its steps: [`crate::Device::with_step_limit`].
    StepLimit { steps: u64, report: String },
    /// A simulated launch was stopped from another thread: [`crate::Device::with_cancel`].
    Cancelled,
}

impl LaunchError {
    pub(crate) fn new(kernel: &str, at: &'static Location<'static>, problem: Problem) -> LaunchError {
        LaunchError(Box::new(Report { kernel: kernel.into(), at, problem }))
    }

    /// The kernel's name; empty of [`Problem::Other`].
    pub fn kernel(&self) -> &str {
        &self.0.kernel
    }

    /// Where it was launched; of [`Problem::Other`], where the error became one of a launch.
    pub fn location(&self) -> &'static Location<'static> {
        self.0.at
    }

    /// What was wrong.
    pub fn problem(&self) -> &Problem {
        &self.0.problem
    }

    /// The code of the rule that was broken; `None` where it is a failure and not a rule.
    pub fn code(&self) -> Option<Code> {
        self.0.problem.code()
    }
}

impl From<Error> for LaunchError {
    #[track_caller]
    fn from(error: Error) -> LaunchError {
        match error {
            Error::Launch(error) => error,
            other => LaunchError::new("", Location::caller(), Problem::Other(other)),
        }
    }
}

impl fmt::Debug for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Problem {
    fn code(&self) -> Option<Code> {
        use Problem::*;
        Some(match self {
            ArgumentCount { .. }
            | Kind { .. }
            | Dtype { .. }
            | Rank { .. }
            | FixedExtent { .. }
            | DerivedExtent { .. }
            | NamedExtent { .. }
            | NegativeExtent { .. }
            | Specialized { .. }
            | Coverage { .. } => Code::LAUNCH_ARGUMENT,
            Require { .. } => Code::LAUNCH_REQUIRE,
            Operand { .. } => Code::OPERAND_RANGE,
            StrideOverlap { .. } | InnerStride { .. } | Alignment { .. } | StrideMultiple { .. } => {
                Code::LAUNCH_ALIGNMENT
            }
            Device { .. } | Overlap { .. } => Code::LAUNCH_ALIAS,
            ExtentRange { .. } | StrideRange { .. } | ScalarRange { .. } | IndexRange { .. } | Grid { .. } => {
                Code::LAUNCH_LIMIT
            }
            Prepare(_) | Driver(_) | Other(_) | StreamOver | Simulator(_) | StepLimit { .. } | Cancelled => {
                return None;
            }
        })
    }
}

/// ` (line 9)`, or nothing where the line is unknown.
struct Line(u32);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { Ok(()) } else { write!(f, " (line {})", self.0) }
    }
}

struct Values<'a>(&'a [(String, i64)]);

impl fmt::Display for Values<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, value)) in self.0.iter().enumerate() {
            write!(f, "{}{name} = {value}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Problem::Other(error) = &self.problem {
            return write!(f, "{error}");
        }
        write!(f, "launch error ")?;
        if let Some(code) = self.problem.code() {
            write!(f, "[{code}] ")?;
        }
        write!(f, "{} at {}:{}: {}", self.kernel, self.at.file(), self.at.line(), self.problem)?;
        match &self.problem {
            Problem::Simulator(_) | Problem::StepLimit { .. } | Problem::Cancelled => Ok(()),
            Problem::Driver(Error::Fault(_)) => Ok(()),
            problem => {
                let end = if problem.to_string().ends_with(['.', '\n']) { "" } else { "." };
                write!(f, "{end} Nothing was launched.")
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Problem::*;
        match self {
            ArgumentCount { expected, found } => {
                write!(f, "the kernel has {expected} parameters, {found} arguments were given")
            }
            Kind { argument, expected, found } => write!(f, "`{argument}` must be {expected}, it is {found}"),
            Dtype { argument, expected, found } => write!(f, "`{argument}` must hold {expected}, it holds {found}"),
            Rank { argument, expected, found } => write!(f, "`{argument}` must have {expected} axes, it has {found}"),
            DerivedExtent { argument, axis, extent, expected, found, values } => write!(
                f,
                "`{argument}` must have extent {extent} = {expected} on axis {axis}, it has {found}: {}",
                Values(values)
            ),
            FixedExtent { argument, axis, expected, found } => {
                write!(f, "`{argument}` must have extent {expected} on axis {axis}, it has {found}")
            }
            NamedExtent { dim, first, first_axis, expected, argument, axis, found } => write!(
                f,
                "{dim} = {expected} (`{first}`, axis {first_axis}) and {dim} = {found} (`{argument}`, axis {axis}) must be equal"
            ),
            ExtentRange { argument, axis, found } => {
                write!(f, "`{argument}` has extent {found} on axis {axis}; at most {} is possible", i32::MAX)
            }
            StrideRange { argument, axis, found } => {
                write!(f, "`{argument}` has stride {found} on axis {axis}; at most {} is possible", i32::MAX)
            }
            StrideOverlap { argument, axis, least, found } => write!(
                f,
                "`{argument}` has stride {found} on axis {axis}, but {least} elements lie inside it: its elements overlap"
            ),
            InnerStride { argument, found } => {
                write!(f, "`{argument}` has stride {found} on its innermost axis; it must be 1")
            }
            NegativeExtent { argument, axis, found } => write!(f, "`{argument}` has extent {found} on axis {axis}"),
            ScalarRange { argument, found } => {
                write!(f, "`{argument}` = {found}; it must be 0 to {}", i32::MAX)
            }
            Specialized { argument, dim, expected, found } => {
                write!(f, "this variant is compiled for {dim} = {expected}; `{argument}` has {dim} = {found}")
            }
            Require { argument, text, line, values } => match argument {
                Some(argument) => write!(f, "`{argument}` breaks `require({text})`{}: {}", Line(*line), Values(values)),
                None => write!(f, "`require({text})`{} is broken: {}", Line(*line), Values(values)),
            },
            Alignment { argument, bytes, address, line } => write!(
                f,
                "`{argument}` is at address {address:#x}, which is {} past a multiple of {bytes}; a {bytes}-byte access{} needs such a multiple",
                address % u64::from((*bytes).max(1)),
                Line(*line)
            ),
            StrideMultiple { argument, axis, multiple, found, line } => write!(
                f,
                "`{argument}` has stride {found} on axis {axis}; a vector access{} needs a multiple of {multiple}",
                Line(*line)
            ),
            IndexRange { expression, value, line, values } => {
                let value = value.map_or("more than 64 bits hold".to_string(), |v| v.to_string());
                write!(f, "index `{expression}`{} reaches {value}; at most {} is possible", Line(*line), i32::MAX)?;
                if values.is_empty() { Ok(()) } else { write!(f, ": {}", Values(values)) }
            }
            Operand { rule, expression, value, line, values } => {
                let value = value.map_or("more than 64 bits hold".to_string(), |v| v.to_string());
                write!(f, "{rule}: `{expression}`{} is {value}", Line(*line))?;
                // Where the operand is a parameter, it has been said.
                if values.is_empty() || matches!(values.as_slice(), [(name, _)] if name == expression) {
                    return Ok(());
                }
                write!(f, ": {}", Values(values))
            }
            Coverage { argument, needed, found } => {
                write!(f, "`{argument}` needs {needed} bytes of memory, {found} are there")
            }
            Device { argument, expected, found } => {
                write!(f, "`{argument}` is on {found}, the launch is on {expected}")
            }
            Overlap { written, other } => {
                write!(f, "`{written}`, which is written, overlaps `{other}` in memory")
            }
            Grid { axis, blocks, most, expression } => {
                let blocks = blocks.map_or("more than 64 bits hold".to_string(), |b| b.to_string());
                write!(f, "the grid needs {blocks} blocks on {axis} ({expression}); at most {most} are possible")
            }
            Prepare(error) | Driver(error) | Other(error) => write!(f, "{error}"),
            StreamOver => write!(f, "the capture that this stream belongs to is over"),
            Simulator(report) => write!(f, "{report}"),
            StepLimit { steps, report } => {
                let separator = if report.is_empty() { "" } else { "\n" };
                write!(
                    f,
                    "the simulated launch was stopped after {steps} steps, as many as it may take\nhelp: if it does end, \
                     TILE_STEP_LIMIT or `Device::with_step_limit` gives it more{separator}{report}"
                )
            }
            Cancelled => write!(f, "the simulated launch was cancelled"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_become_each_other_and_lose_nothing() {
        let shape = || crate::ShapeError::Rank { rank: 9 };
        let launch = LaunchError::from(Error::from(shape()));
        assert_eq!(launch.to_string(), Error::from(shape()).to_string());
        assert!(launch.code().is_none() && launch.location().file().ends_with("launch_error.rs"));
        let made = LaunchError::new("double", Location::caller(), Problem::Cancelled);
        let back = LaunchError::from(Error::from(made.clone()));
        assert_eq!((back.kernel(), back.to_string()), ("double", made.to_string()));
        // Through `Error` and back it is the error that it was.
        assert!(matches!(Error::from(launch), Error::Shape(_)));
    }
}
