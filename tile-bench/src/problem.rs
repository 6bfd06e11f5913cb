//! What is computed, and who takes part.

use crate::BenchError;
use serde::{Deserialize, Serialize};
use std::fmt;
use tile_runtime::{Device, Error, Stream};

/// What is computed: its name, its size, its operands and its right answer.
pub trait Problem {
    /// The operands and the result of one call, on the device.
    type Buffers;

    /// What it is called.
    fn title(&self) -> Title;

    /// Bytes that a call must move: every operand read once, the result written once.
    fn bytes(&self) -> u64;

    /// Floating-point operations of a call; a fused multiply-add is two.
    fn flops(&self) -> u64;

    /// Fresh operands with values of N(0, 1): zeros run faster and hide mistakes.
    ///
    /// # Errors
    /// The device is out of memory.
    fn buffers(&self, device: &Device) -> Result<Self::Buffers, Error>;

    /// Overwrites the result with NaN, so that what is not written cannot be right.
    ///
    /// # Errors
    /// The device has failed.
    fn poison(&self, buffers: &mut Self::Buffers) -> Result<(), Error>;

    /// The largest distance of the result from an f64 reference, in units of its bound: right up to 1, NaN never.
    ///
    /// # Errors
    /// The device has failed.
    fn error(&self, buffers: &Self::Buffers) -> Result<f64, Error>;
}

/// An operation, an element type and a shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Title {
    /// The operation, such as `gemv`.
    pub op: String,
    /// The element type, such as `f16`.
    pub dtype: String,
    /// Names and extents of its axes, such as `n` and `k`.
    pub shape: Vec<(String, u64)>,
}

impl fmt::Display for Title {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.op, self.dtype)?;
        for (position, (_, extent)) in self.shape.iter().enumerate() {
            write!(f, "{}{extent}", if position == 0 { " " } else { "x" })?;
        }
        Ok(())
    }
}

/// How a contender launches one call. It may be captured, so it neither waits nor allocates; the first call is not.
pub type Call<'a, B> = Box<dyn FnMut(&Stream, &mut B) -> Result<(), BenchError> + 'a>;

/// One way to compute a problem.
pub struct Contender<'a, B> {
    /// Who: `ours`, `cublas`; the best of a group stands for it.
    pub group: String,
    /// Which of its configurations.
    pub name: String,
    /// Whether this is what the group takes by itself, untuned: it is always in the final.
    pub chosen: bool,
    pub(crate) call: Call<'a, B>,
}

impl<'a, B> Contender<'a, B> {
    /// A configuration of a group, and how it launches.
    pub fn new(
        group: impl Into<String>,
        name: impl Into<String>,
        call: impl FnMut(&Stream, &mut B) -> Result<(), BenchError> + 'a,
    ) -> Self {
        Contender { group: group.into(), name: name.into(), chosen: false, call: Box::new(call) }
    }

    /// Marks it as what the group takes by itself.
    #[must_use]
    pub fn chosen(mut self) -> Self {
        self.chosen = true;
        self
    }
}
