//! A sum over the blocks of a cluster that there is not.

use tile_runtime::prelude::*;

#[tile_kernel(targets(sm_90a))]
pub fn product(a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, c: &mut Tensor<f16, (M, N)>) {
    let [bx, by, part] = blocks([ceil_div(N, 64), ceil_div(M, 64), 2]);
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 32]);
    let mut b_s = alloc_shared::<f16>([64, 32]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    let share = ceil_div(ceil_div(K, 32), 2);
    clear(&mut acc);
    for step in pipelined(0..share, 3) {
        let k = (part * share + step) * 32;
        copy(a.at([by * 64, k]), &mut a_s);
        copy(b.at([bx * 64, k]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    cluster_reduce(Sum, &mut acc); //~
    if part % 2 == 0 {
        copy(&acc, c.at_mut([by * 64, bx * 64]));
    }
}

fn main() {}
