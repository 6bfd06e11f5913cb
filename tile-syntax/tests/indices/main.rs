//! Index arithmetic from source text to results: what is refused while typing, what the launch checks, what the emitted
//! code computes, and that both simulators compute the same.

mod launch;

mod bounds;
mod negative;
mod width;

use launch::{Kernel, codes, kernel};

/// A kernel of one block of 32 threads `t`, and `y: (N,)` that is written.
fn one(params: &str, body: &str) -> Kernel {
    kernel(&format!("pub fn k({params}, y: &mut Tensor<f32, (N,)>) {{ blocks([1]); let [t] = threads([32]); {body} }}"))
}

/// A kernel of one grid axis `b`, 32 threads `t`, and `y: (N,)` that is written.
fn line(params: &str, body: &str) -> Kernel {
    kernel(&format!(
        "pub fn k({params}, y: &mut Tensor<f32, (N,)>) {{ let [b] = blocks([ceil_div(N, 32)]); let [t] = threads([32]); {body} }}"
    ))
}
