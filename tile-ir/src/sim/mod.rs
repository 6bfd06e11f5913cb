//! The simulators: `fast` for results, `checked` for truth.
//!
//! Both take the same [`Argument`]s, one a kernel parameter in order, whose memory is [`Memory`].

mod argument;
pub mod checked;
mod error;
pub mod fast;
pub mod hw;
mod limit;
mod memory;
pub mod numeric;
mod print;
mod words;

pub use error::{Fault, SimError};
pub use limit::{Cancel, STEP_LIMIT, Stop};
pub use memory::{Memory, MemoryError, ScalarValue, TensorArgument};
pub use print::{PrintedLine, printed_line};

/// One kernel argument.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A tensor.
    Tensor(TensorArgument),
    /// A value.
    Scalar(ScalarValue),
    /// Nothing, for an optional tensor that the kernel was bound without.
    Absent,
}
