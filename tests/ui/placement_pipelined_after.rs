//! An array of a pipelined loop that is read after it.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn two_products(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    v: &Tensor<f16, (N, Fixed<32>)>,
    c: &mut Tensor<f16, (M, N)>,
) {
    let [bx, by] = blocks([ceil_div(N, 64), ceil_div(M, 64)]);
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 32]);
    let mut b_s = alloc_shared::<f16>([64, 32]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, 32), 3) {
        copy(a.at([by * 64, k * 32]), &mut a_s);
        copy(b.at([bx * 64, k * 32]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(v.at([bx * 64, 0]), &mut b_s);
    gemm(&a_s, b_s.t(), &mut acc); //~
    copy(&acc, c.at_mut([by * 64, bx * 64]));
}

fn main() {}
