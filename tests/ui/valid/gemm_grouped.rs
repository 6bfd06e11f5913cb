//! Nearest neighbour: The matrices of a grouped product are not whole.

use tile_runtime::prelude::*;

/// Each of four groups of 16 rows is multiplied with a matrix of its own.
#[tile_kernel]
pub fn products(
    x: &Tensor<f16, (Fixed<64>, Fixed<32>)>,
    w: &Tensor<f16, (N, Fixed<32>)>,
    y: &mut Tensor<f32, (Fixed<64>, Fixed<24>)>,
) {
    blocks([1]);
    threads([128]);
    let mut x_s = alloc_shared::<f16>([64, 32]);
    let mut w_s = alloc_shared::<f16>([96, 32]);
    let mut acc = alloc_fragment::<f32>([64, 24]);
    copy(x.at([0, 0]), &mut x_s);
    copy(w.at([0, 0]), &mut w_s);
    gemm(&x_s, w_s.t(), &mut acc).grouped().clear();
    copy(&acc, y.at_mut([0, 0]));
}
