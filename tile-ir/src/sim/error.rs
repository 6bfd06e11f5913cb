//! Why a simulation gives no result.

use crate::diag::Diagnostic;
use crate::ir::{Dtype, Kernel};
use std::fmt;
use thiserror::Error;

/// Why a simulation gives no result.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SimError {
    /// The number of arguments is not the number of parameters.
    #[error("kernel `{kernel}` takes {expected} arguments, {found} were given")]
    ArgumentCount {
        /// The kernel's name.
        kernel: String,
        /// Parameters.
        expected: usize,
        /// Arguments.
        found: usize,
    },
    /// A tensor was given for a scalar, or the other way around.
    #[error("argument `{argument}` must be {expected}, found {found}")]
    ArgumentKind {
        /// The parameter's name.
        argument: String,
        /// What the parameter is.
        expected: String,
        /// What was given.
        found: String,
    },
    /// The dtype differs.
    #[error("argument `{argument}` must hold {expected}, found {found}")]
    ArgumentDtype {
        /// The parameter's name.
        argument: String,
        /// The parameter's dtype.
        expected: Dtype,
        /// The argument's.
        found: Dtype,
    },
    /// The rank differs.
    #[error("argument `{argument}` must have {expected} axes, found {found}")]
    ArgumentRank {
        /// The parameter's name.
        argument: String,
        /// The parameter's rank.
        expected: usize,
        /// The argument's.
        found: usize,
    },
    /// An extent differs from what the kernel or an earlier argument says.
    #[error("argument `{argument}` must have extent {extent} = {expected} on axis {axis}, found {found}")]
    ArgumentExtent {
        /// The parameter's name.
        argument: String,
        /// Counted from the outermost.
        axis: usize,
        /// The extent as the kernel writes it.
        extent: String,
        /// Its value.
        expected: i64,
        /// The argument's extent.
        found: i64,
    },
    /// A tensor's elements do not all lie in its memory, at addresses of their size.
    #[error(
        "argument `{argument}` of {bytes} bytes at offset {offset} leaves its memory of {memory} bytes, or is misaligned"
    )]
    ArgumentMemory {
        /// The parameter's name.
        argument: String,
        /// Byte offset of its first element.
        offset: usize,
        /// Bytes from its first to its last element.
        bytes: u64,
        /// Bytes of the memory.
        memory: usize,
    },
    /// A grid extent is not positive or too large.
    #[error("the grid has {extent} blocks on axis {axis}; it must be 0 to 2147483647")]
    Grid {
        /// 0 is x.
        axis: usize,
        /// Its extent.
        extent: i64,
    },
    /// The thread extents are not 1 to 1024 threads.
    #[error("a block has {threads} threads; it must have 1 to 1024")]
    Threads {
        /// How many.
        threads: u64,
    },
    /// What was given is not a bound kernel (or a well-formed program).
    #[error("the kernel cannot be simulated: {0}")]
    Malformed(String),
    /// It was stopped because it had taken all the steps that it was given. What it wrote until then stays written.
    #[error("the launch is still running after {steps} steps, the limit{}", Place(.at))]
    StepLimit {
        /// The limit.
        steps: u64,
        /// Where one of its blocks was; `None` where it was between two blocks.
        at: Option<Box<Fault>>,
    },
    /// It was stopped from another thread. What it wrote until then stays written.
    #[error("the launch was cancelled")]
    Cancelled,
    /// The kernel did something wrong while it ran.
    #[error("{0}")]
    Fault(Box<Fault>),
}

/// ` in block ..`, or nothing where that is unknown.
struct Place<'a>(&'a Option<Box<Fault>>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |fault| write!(f, ", {}", fault.place()))
    }
}

/// What a kernel did wrong, and which thread did it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What and where.
    pub diagnostic: Diagnostic,
    /// The block, x y z.
    pub block: [u32; 3],
    /// The thread, x y z.
    pub thread: [u32; 3],
}

impl Fault {
    /// The report with the author's lines.
    pub fn render(&self, kernel: &Kernel) -> String {
        let mut diagnostic = self.diagnostic.clone();
        diagnostic.notes.push(self.place());
        diagnostic.render(&kernel.source, &kernel.spans)
    }

    fn place(&self) -> String {
        let ([bx, by, bz], [tx, ty, tz]) = (self.block, self.thread);
        format!("in block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz})")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic { code, message, at, .. } = &self.diagnostic;
        write!(f, "[{code}] {message}")?;
        if !at.is_empty() {
            write!(f, ": {at}")?;
        }
        write!(f, ", {}", self.place())
    }
}
