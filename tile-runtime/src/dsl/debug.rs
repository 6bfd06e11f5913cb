//! Looking inside a running kernel.

use super::{Cast, shadow};

/// Prints a line: `device_print("row {} sum {}", row, sum);`, a `{}` for each further argument, of which there are at most 8.
///
/// On a simulator the lines of a launch appear with it, by block and thread. On a GPU they appear when the host next waits for the
/// device, in no order, each with kernel, line, block and thread; of more than 8192 between two waits the rest is counted.
pub fn device_print(format: &str) {
    let _ = format;
    shadow()
}

/// Says `message`, the thread and the line where `condition` does not hold.
///
/// A simulator stops there, and the launch fails. On a GPU the thread goes on, and the next wait for the device (`synchronize`,
/// `to_vec`) is the error `Error::Assert`. Nothing is assumed because it was asserted: an access stays guarded.
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
