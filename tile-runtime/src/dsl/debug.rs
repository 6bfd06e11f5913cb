//! Looking inside a running kernel.

use super::{Cast, shadow};

/// Prints from the simulator: `device_print("row {} sum {}", row, sum);`, a `{}` for each further argument.
pub fn device_print(format: &str) {
    let _ = format;
    shadow()
}

/// Stops the simulator with `message`, the thread and the line where `condition` does not hold. On a GPU it is
/// ignored.
pub fn device_assert(condition: bool, message: &str) {
    let _ = (condition, message);
    shadow()
}

/// An argument of [`device_print`], which Rust cannot declare: the macro checks each by itself.
#[doc(hidden)]
pub fn printed<T: Cast>(value: T) {
    let _ = value;
    shadow()
}
