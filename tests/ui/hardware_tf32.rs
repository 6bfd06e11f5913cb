//! Tiles that tf32 does not divide along K.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn product(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let [bx, by] = blocks([ceil_div(N, 64), ceil_div(M, 64)]);
    threads([128]);
    let mut a_s = alloc_shared::<f32>([64, 12]);
    let mut b_s = alloc_shared::<f32>([64, 12]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, 12), 3) {
        copy(a.at([by * 64, k * 12]), &mut a_s);
        copy(b.at([bx * 64, k * 12]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc).tf32(); //~
    }
    copy(&acc, c.at_mut([by * 64, bx * 64]));
}

fn main() {}
