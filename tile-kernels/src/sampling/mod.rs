//! The next token from logits: [`argmax()`] takes the largest; its kernel is in [`mod@argmax`].

pub mod argmax;

pub use argmax::argmax;

use tile_runtime::kernel::Definition;

/// The kernels, as data.
pub fn definitions() -> [&'static Definition; 1] {
    [argmax::argmax_rows::<f32>::definition()]
}
