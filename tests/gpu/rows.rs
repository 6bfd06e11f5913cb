//! The row kernels' cases of `tests/rows` on the GPU.

#[path = "../rows/cases/mod.rs"]
mod cases;

use super::gpu;
use tile_runtime::prelude::*;

macro_rules! cases {
    ($($name:ident: $case:expr;)*) => {$(
        #[test]
        fn $name() {
            if let Some(device) = gpu() {
                $case(&device);
            }
        }
    )*};
}

cases! {
    rms_norm: |device| [cases::norms::rms_norm::<f16>(device), cases::norms::rms_norm::<bf16>(device), cases::norms::rms_norm::<f32>(device)];
    add_rms_norm: |device| [cases::norms::add_rms_norm::<f16>(device), cases::norms::add_rms_norm::<f32>(device)];
    layer_norm: |device| [cases::norms::layer_norm::<bf16>(device), cases::norms::layer_norm_far_from_zero(device), cases::norms::layer_norm_after_outliers(device)];
    layer_norm_among_many_rows: cases::norms::layer_norm_among_many_rows;
    softmax: |device| [cases::norms::softmax::<f16>(device), cases::norms::softmax::<bf16>(device), cases::norms::softmax::<f32>(device)];
    swiglu: |device| [cases::elements::swiglu::<f16>(device), cases::elements::swiglu::<bf16>(device), cases::elements::swiglu::<f32>(device)];
    swiglu_of_many_rows: cases::elements::swiglu_of_many_rows;
    products: |device| [cases::products::products::<f16>(device), cases::products::products::<bf16>(device), cases::products::products::<f32>(device)];
    norm_products: |device| [cases::products::norm_products::<f16>(device), cases::products::norm_products::<bf16>(device), cases::products::norm_products::<f32>(device)];
    norm_swiglus: |device| [cases::products::norm_swiglus::<f16>(device), cases::products::norm_swiglus::<bf16>(device), cases::products::norm_swiglus::<f32>(device)];
    gated_products: |device| [cases::products::gated_products::<f16>(device), cases::products::gated_products::<bf16>(device)];
    embedding: |device| [cases::elements::embedding::<bf16>(device), cases::elements::embedding::<f32>(device)];
    rope: |device| [cases::rope::append::<f16>(device), cases::rope::append::<bf16>(device), cases::rope::append::<f32>(device)];
    sample: |device| [cases::sampling::sample::<f16>(device), cases::sampling::sample::<bf16>(device), cases::sampling::sample::<f32>(device)];
    sample_alone: cases::sampling::sample_alone;
    frequencies: cases::sampling::frequencies;
    argmax: |device| [cases::sampling::argmax::<f16>(device), cases::sampling::argmax::<bf16>(device), cases::sampling::argmax::<f32>(device)];
}
