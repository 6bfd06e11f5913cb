//! The sum of a product is divided evenly among the threads.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn product(a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (K, N)>, c: &mut Tensor<f32, (M, N)>) {
    let [bx, by] = blocks([ceil_div(N, 20), ceil_div(M, 36)]);
    threads([96]);
    let mut a_s = alloc_shared::<f16>([36, 32]);
    let mut b_s = alloc_shared::<f16>([32, 20]);
    let mut acc = alloc_fragment::<f32>([36, 20]);
    clear(&mut acc);
    for k in 0..ceil_div(K, 32) {
        copy(a.at([by * 36, k * 32]), &mut a_s);
        copy(b.at([k * 32, bx * 20]), &mut b_s);
        gemm(&a_s, &b_s, &mut acc); //~
    }
    copy(&acc, c.at_mut([by * 36, bx * 20]));
}

fn main() {}
