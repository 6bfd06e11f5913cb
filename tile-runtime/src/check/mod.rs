//! A kernel run on both simulators at the shapes where mistakes show, beside a reference that its crate names.
//!
//! ```ignore
//! tile_runtime::check! {
//!     saxpy == saxpy_reference,
//!     scaled_add<f16> == scaled_add_reference, // any dtype names the kernel; every declared instance is run
//! }
//!
//! /// y = a x + y, in f64.
//! #[cfg(test)]
//! fn saxpy_reference(case: &mut Case) -> Result<(), CheckError> {
//!     let (a, x, y) = (case.scalar("a")?, case.tensor("x")?, case.tensor("y")?);
//!     case.expect("y", x.iter().zip(&y).map(|(x, y)| a * x + y).collect())
//! }
//! ```
//!
//! [`check!`](crate::check!) makes a test of each line: `cargo test` runs it, and `cargo tile check saxpy` runs it with the
//! instances and shapes that its arguments name. For each instance and shape:
//!
//! 1. the inputs are random values, rounded to their dtypes: floats between -1 and 1, integers that are valid indices of the
//!    smallest extent, tensors that are written too;
//! 2. the kernel runs on the fast simulator and on the checked one, which reports races, accesses out of bounds, uninitialised
//!    reads and misused barriers;
//! 3. both results agree bit for bit (within the bound below where the kernel has unordered atomics or approximate functions);
//! 4. they agree with the reference, which computes in f64: element by element, within [`gate_bound`](crate::tuner::gate_bound)
//!    of the largest magnitude or two units in the last place; integers and bools exactly.
//!
//! A shape that the kernel's launch contract refuses (`require(K % 8 == 0)` at K = 7) is skipped and counted. Shapes are small
//! and straddle the numbers that the kernel divides its dims by: 1, one tile less one element, a tile, one element more, two
//! tiles and one element.

mod case;
mod fit;
mod run;
mod shapes;
#[cfg(test)]
mod tests;

pub use case::Case;
pub use run::{CheckReport, Mistake, run};

use crate::error::Error;
use crate::kernel::Definition;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::Write;

/// What a kernel should compute: reads the case's inputs, and says by [`Case::expect`] what its outputs should be.
pub type Reference = fn(&mut Case) -> Result<(), CheckError>;

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckOptions {
    /// One instance, in order of declaration; `None` for every one.
    pub instance: Option<usize>,
    /// Dims and scalars by name, each with the values it takes: `[("K", [64, 72])]`. Other dims take boundary values, other
    /// `usize` scalars 1, other scalars a random value.
    pub values: Vec<(String, Vec<f64>)>,
    /// The most shapes of an instance.
    pub shapes: usize,
    /// The largest difference from the reference, relative to the largest magnitude of the result; `None` for the default of
    /// the dtype.
    pub tolerance: Option<f64>,
    /// What the random values are made of.
    pub seed: u64,
}

impl Default for CheckOptions {
    fn default() -> Self {
        CheckOptions { instance: None, values: Vec::new(), shapes: 12, tolerance: None, seed: 1 }
    }
}

/// Why a kernel could not be checked, or what is wrong with it.
#[derive(Clone, thiserror::Error)]
pub enum CheckError {
    /// A reference or an option names something that the kernel does not have.
    #[error("kernel `{kernel}` has no {what} `{asked}`; it has {there}")]
    Name {
        /// The kernel.
        kernel: String,
        /// Of what.
        what: &'static str,
        /// What was named.
        asked: String,
        /// What there is.
        there: String,
    },
    /// A reference gives another number of elements than the tensor has.
    #[error("the reference gives {found} elements for `{tensor}`, which has {expected}")]
    Length {
        /// The tensor.
        tensor: String,
        /// Its elements.
        expected: usize,
        /// How many elements the reference gives.
        found: usize,
    },
    /// The reference left an output out.
    #[error("the reference says nothing of `{0}`: `case.expect(\"{0}\", ..)` is missing")]
    NoExpectation(String),
    /// The reference failed.
    #[error("the reference: {0}")]
    Reference(String),
    /// No shape that was tried satisfies the kernel's launch contract.
    #[error("kernel `{kernel}` {instance}: none of {tried} shapes may be launched; the last: {why}")]
    NoShape {
        /// The kernel.
        kernel: String,
        /// The instance.
        instance: String,
        /// How many were tried.
        tried: usize,
        /// Why the last one was refused.
        why: String,
    },
    /// A tensor's extent is not a dim and not a constant of the instance.
    #[error("the extents of the tensors of `{0}` are not known before a launch")]
    Extent(String),
    /// The kernel is wrong.
    #[error("{0}")]
    Mistake(Box<Mistake>),
    /// The runtime failed.
    #[error("{0}")]
    Runtime(#[from] Error),
    /// What `cargo tile check` passed on cannot be read.
    #[error("CARGO_TILE_CHECK: {0}")]
    Request(String),
}

/// `Debug` prints the same text as `Display`, because that is what a test that returns an error shows.
impl std::fmt::Debug for CheckError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// What `cargo tile check` asks of the tests that [`check!`](crate::check!) made, in `CARGO_TILE_CHECK`, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct Request {
    /// The kernel; the tests of others do nothing.
    pub kernel: String,
    /// What to run.
    pub options: CheckOptions,
    /// A file that each test adds a line to: how many runs there were.
    pub done: std::path::PathBuf,
}

/// The environment variable of a [`Request`].
#[doc(hidden)]
pub const REQUEST: &str = "CARGO_TILE_CHECK";

/// What a test of [`check!`](crate::check!) does.
///
/// # Errors
/// The kernel is wrong, or could not be checked.
pub fn against(def: &'static Definition, reference: Reference) -> Result<(), CheckError> {
    let Some(request) = std::env::var_os(REQUEST) else {
        return run(def, Some(reference), &CheckOptions::default(), &mut |_| {}).map(|_| ());
    };
    let request: Request =
        serde_json::from_slice(request.as_encoded_bytes()).map_err(|e| CheckError::Request(e.to_string()))?;
    if request.kernel != def.name() {
        return Ok(());
    }
    let report = run(def, Some(reference), &request.options, &mut |line| println!("{line}"));
    let text = match &report {
        Ok(report) => format!("ok {report}\n"),
        Err(_) => "failed\n".to_owned(),
    };
    let file = OpenOptions::new().append(true).create(true).open(&request.done);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|e| CheckError::Request(format!("{}: {e}", request.done.display())))?;
    report.map(|_| ())
}

/// Makes a test of each kernel beside its reference, in a module `tile_check`: once in a module of the author's. See
/// [`check`](mod@crate::check).
///
/// The kernel is named by its type: `saxpy`, or `gemv<f16>` with any of its dtypes where it is generic.
#[macro_export]
macro_rules! check {
    ($($kernel:ident $(<$($argument:ty),+>)? == $reference:expr),+ $(,)?) => {
        #[cfg(test)]
        mod tile_check {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $kernel() -> ::core::result::Result<(), $crate::check::CheckError> {
                    $crate::check::against(<super::$kernel $(<$($argument),+>)?>::definition(), $reference)
                }
            )+
        }
    };
}
