//! The simulators: `fast` for results, `checked` for truth.
//!
//! Both take the same [`Argument`]s, one a kernel parameter in order, whose memory is [`Memory`].

pub mod checked;
mod error;
mod memory;
pub mod numeric;

pub use error::{Fault, SimError};
pub use memory::{Memory, ScalarValue, TensorArgument};

/// One kernel argument.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A tensor.
    Tensor(TensorArgument),
    /// A value.
    Scalar(ScalarValue),
}
