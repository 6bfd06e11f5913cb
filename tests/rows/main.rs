//! The row kernels of a model on both simulators: right beside a reference in f64 on shapes that are multiples of nothing, dense,
//! with a row pitch and at odd addresses, and equal bit by bit. The GPU has the same cases in `tests/gpu/rows.rs`.

mod cases;

use cases::Bits;
use tile_runtime::prelude::*;

/// Runs a case on both simulators; each result must be right, and they must be equal.
fn on_simulators(case: impl Fn(&Device) -> Bits) {
    let [fast, checked] = [Device::simulator(), Device::checked_simulator()].map(|device| case(&device));
    assert!(!fast.is_empty(), "nothing was computed");
    let differs = fast.iter().zip(&checked).position(|(a, b)| a != b);
    assert!(fast.len() == checked.len() && differs.is_none(), "the simulators differ at {differs:?}");
}

macro_rules! cases {
    ($($name:ident: $case:expr;)*) => {$(
        #[test]
        fn $name() {
            on_simulators($case);
        }
    )*};
}

cases! {
    rms_norm_in_f16: cases::norms::rms_norm::<f16>;
    rms_norm_in_bf16: cases::norms::rms_norm::<bf16>;
    rms_norm_in_f32: cases::norms::rms_norm::<f32>;
    add_rms_norm_in_f16: cases::norms::add_rms_norm::<f16>;
    add_rms_norm_in_bf16: cases::norms::add_rms_norm::<bf16>;
    add_rms_norm_in_f32: cases::norms::add_rms_norm::<f32>;
    layer_norm_in_f16: cases::norms::layer_norm::<f16>;
    layer_norm_in_bf16: cases::norms::layer_norm::<bf16>;
    layer_norm_in_f32: cases::norms::layer_norm::<f32>;
    layer_norm_far_from_zero: cases::norms::layer_norm_far_from_zero;
    layer_norm_after_outliers: cases::norms::layer_norm_after_outliers;
    softmax_in_f16: cases::norms::softmax::<f16>;
    softmax_in_bf16: cases::norms::softmax::<bf16>;
    softmax_in_f32: cases::norms::softmax::<f32>;
    swiglu_in_f16: cases::elements::swiglu::<f16>;
    swiglu_in_bf16: cases::elements::swiglu::<bf16>;
    swiglu_in_f32: cases::elements::swiglu::<f32>;
    products_in_f16: cases::products::products::<f16>;
    products_in_bf16: cases::products::products::<bf16>;
    products_in_f32: cases::products::products::<f32>;
    norm_products_in_f16: cases::products::norm_products::<f16>;
    norm_products_in_bf16: cases::products::norm_products::<bf16>;
    norm_products_in_f32: cases::products::norm_products::<f32>;
    norm_swiglus_in_f16: cases::products::norm_swiglus::<f16>;
    norm_swiglus_in_bf16: cases::products::norm_swiglus::<bf16>;
    norm_swiglus_in_f32: cases::products::norm_swiglus::<f32>;
    gated_products_in_f16: cases::products::gated_products::<f16>;
    gated_products_in_bf16: cases::products::gated_products::<bf16>;
    embedding_in_f16: cases::elements::embedding::<f16>;
    embedding_in_bf16: cases::elements::embedding::<bf16>;
    embedding_in_f32: cases::elements::embedding::<f32>;
    rope_in_f16: cases::rope::append::<f16>;
    rope_in_bf16: cases::rope::append::<bf16>;
    rope_in_f32: cases::rope::append::<f32>;
    argmax_in_f16: cases::sampling::argmax::<f16>;
    argmax_in_bf16: cases::sampling::argmax::<bf16>;
    argmax_in_f32: cases::sampling::argmax::<f32>;
    sample_in_f16: cases::sampling::sample::<f16>;
    sample_in_bf16: cases::sampling::sample::<bf16>;
    sample_in_f32: cases::sampling::sample::<f32>;
    sample_alone: cases::sampling::sample_alone;
}

/// Thousands of tokens: the fast simulator alone.
#[test]
fn tokens_are_as_frequent_as_their_probabilities_say() {
    cases::sampling::frequencies(&Device::simulator());
}

/// Many rows: the fast simulator alone.
#[test]
fn a_row_is_the_same_among_few_rows_and_among_many() {
    cases::norms::layer_norm_among_many_rows(&Device::simulator());
}

/// More rows than an axis of a grid has blocks: on the fast simulator alone, because they are many.
#[test]
fn swiglu_of_more_rows_than_a_grid_has_blocks() {
    cases::elements::swiglu_of_many_rows(&Device::simulator());
}

/// A mistake is an error that names what disagrees, and nothing is launched.
#[test]
fn shapes_that_disagree_are_errors() {
    use tile_kernels::rope::{Rope, append};
    let device = Device::simulator();
    let (x, weight) = (device.zeros::<f16, 2>([2, 64]).unwrap(), device.zeros::<f16, 1>([32]).unwrap());
    let mut y = device.zeros::<f16, 2>([2, 64]).unwrap();
    let error = tile_kernels::norm::rms_norm(&device, &x, &weight, &mut y, 1e-6).unwrap_err().to_string();
    assert!(error.contains("32") && error.contains("64") && error.contains("rows/main.rs"), "{error}");
    let error = tile_kernels::swiglu::swiglu(&device, &x, &mut y).unwrap_err().to_string();
    assert!(error.contains("64") && error.contains("128"), "{error}");

    // Heads of 1,026 elements, and pages of no rows.
    for (half, page, words) in [(513, 4, "HALF"), (32, 0, "PAGE")] {
        let tables = device.zeros::<f32, 2>([8, half]).unwrap();
        let rope = Rope { cosines: &tables, sines: &tables, q_norm: None, k_norm: None, epsilon: 1e-6 };
        let qkv = device.zeros::<f16, 2>([1, 3 * 2 * half]).unwrap();
        let at = device.zeros::<u32, 1>([1]).unwrap();
        let mut q = device.zeros::<f16, 3>([1, 1, 2 * half]).unwrap();
        let [mut k, mut v] = [0, 1].map(|_| device.zeros::<f16, 4>([2, 1, page, 2 * half]).unwrap());
        let error = append(&device, &rope, &qkv, &at, &at, &mut q, [&mut k, &mut v]).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
