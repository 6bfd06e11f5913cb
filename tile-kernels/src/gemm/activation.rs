//! Functions of one value that kernels of any crate may call: `#[tile_kernel(uses(tile_kernels::gemm::activation::silu))]`.
//!
//! ```
//! use tile_kernels::gemm::activation::silu;
//! use tile_runtime::prelude::*;
//!
//! /// `y = silu(x)`.
//! #[tile_kernel(uses(silu))]
//! pub fn activate(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
//!     let [b] = blocks([ceil_div(N, 128)]);
//!     let [t] = threads([128]);
//!     let i = b * 128 + t;
//!     *y.masked_mut([i]) = silu(x.masked([i]));
//! }
//!
//! # fn main() -> Result<(), Error> {
//! let device = Device::simulator();
//! let x = device.tensor(&[0.0f32, 1.0, -1.0], [3])?;
//! let mut y = device.zeros::<f32, 1>([3])?;
//! activate::launch(&device, &x, &mut y)?;
//! assert!((y.to_vec()?[1] - 0.731_06).abs() < 1e-5);
//! # Ok(())
//! # }
//! ```
//!
//! In f32, by the GPU's approximate instructions: a few ulp from the exact value, far below the rounding of 16-bit results.

use tile_runtime::prelude::*;

/// `max(x, 0)`.
#[tile_fn]
pub fn relu(x: f32) -> f32 {
    max(x, 0.0)
}

/// GELU in its tanh form: `0.5 x (1 + tanh(0.79788 (x + 0.044715 x^3)))`.
#[tile_fn]
pub fn gelu(x: f32) -> f32 {
    // 0.5 x (1 + tanh(u)) is x / (1 + e^-2u).
    let inner = 1.595_769_1 * (x + 0.044_715 * x * x * x);
    x * fast::recip(1.0 + fast::exp(-inner))
}

/// SiLU: `x / (1 + e^-x)`.
#[tile_fn]
pub fn silu(x: f32) -> f32 {
    x * fast::recip(1.0 + fast::exp(-x))
}

/// The function of a number, as `Activation::number` gives it: 0 is the identity, 1 ReLU, 2 GELU, 3 SiLU.
#[tile_fn(uses(relu, gelu, silu))]
pub(crate) fn activate(value: f32, activation: u32) -> f32 {
    if activation == 1 {
        relu(value)
    } else if activation == 2 {
        gelu(value)
    } else if activation == 3 {
        silu(value)
    } else {
        value
    }
}
