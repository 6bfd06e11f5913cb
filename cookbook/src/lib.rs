//! The cookbook: one recipe a file. A recipe is a kernel of at most 60 lines, the host function that launches it, and a
//! reference in plain Rust that the tests compare it with.
//!
//! | recipe | what it shows |
//! |---|---|
//! | [`softmax`] | a running maximum and sum, so that a row is read once before it is written |
//! | [`rms_norm`] | two passes over a row, the residual stream updated on the way |
//! | [`layer_norm`] | a row that stays in registers: the kernel is compiled for each row length |
//! | [`rope`] | rotations of pairs that are half a head apart |
//! | [`argmax`] | a value and its place, reduced over a block |
//! | [`top_k`] | a row a warp, in registers, and a maximum a round |
//! | [`histogram`] | counters in shared memory, added to global memory once |
//! | [`scan`] | prefix sums in two launches: sums of chunks, then chunks |
//! | [`transpose`] | both sides coalesced through shared memory without bank conflicts |
//! | [`stencil`] | a tile with its halo, zeros around the image |
//! | [`gather`] | rows at places that are data |
//! | [`segmented_sum`] | a warp a segment, loops whose bounds are data |
//! | [`swiglu`] | element by element, vectorised, two halves of a row |
//! | [`dropout`] | random numbers without a state: Philox |
//! | [`attention`] | two products and an online softmax, causal, with grouped heads |
//!
//! They are written to be read, not tuned: the tuned kernels are those of `tile-kernels`. The book's chapter "Cookbook"
//! explains each, and says what it costs beside PyTorch.
#![deny(missing_docs)]

pub mod argmax;
pub mod attention;
pub mod dropout;
pub mod gather;
pub mod histogram;
pub mod layer_norm;
pub mod rms_norm;
pub mod rope;
pub mod scan;
pub mod segmented_sum;
pub mod softmax;
pub mod stencil;
pub mod swiglu;
pub mod top_k;
pub mod transpose;
mod vector;

use tile_runtime::kernel::Definition;
use tile_runtime::{bf16, f16};

/// Every kernel of the cookbook.
pub fn definitions() -> Vec<&'static Definition> {
    vec![
        argmax::argmax_rows::<f32>::definition(),
        attention::causal_attention::<f16>::definition(),
        dropout::dropout_philox::<f32>::definition(),
        gather::gather_rows::<f32>::definition(),
        histogram::count_bins::<256>::definition(),
        layer_norm::add_layer_norm::<f32>::definition(),
        rms_norm::add_rms_norm::<f32>::definition(),
        rope::rotate_half::<f32>::definition(),
        scan::chunk_sums::<f32>::definition(),
        scan::scan_chunks::<f32>::definition(),
        segmented_sum::sum_segments::<f32>::definition(),
        softmax::softmax_rows::<f32>::definition(),
        stencil::convolve_5x5::definition(),
        swiglu::swiglu_rows::<bf16>::definition(),
        top_k::top_k_rows::<8>::definition(),
        transpose::transpose_tiles::<f32>::definition(),
    ]
}
