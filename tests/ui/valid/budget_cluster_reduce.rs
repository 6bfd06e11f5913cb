//! Nearest neighbour: What three other blocks send has to lie beside the pipeline's slots.

use tile_runtime::prelude::*;

#[tile_kernel(targets(sm_90a))]
pub fn product(a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let [bx, by, part] = blocks([ceil_div(N, 128), ceil_div(M, 64), 4]);
    threads([128]);
    cluster([1, 1, 4]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([128, 64]);
    let mut acc = alloc_fragment::<f32>([64, 128]);
    let share = ceil_div(ceil_div(K, 64), 4);
    clear(&mut acc);
    for step in pipelined(0..share, 3) {
        let k = (part * share + step) * 64;
        copy(a.at([by * 64, k]), &mut a_s);
        copy(b.at([bx * 128, k]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    cluster_reduce(Sum, &mut acc);
    if part == 0 {
        copy(&acc, c.at_mut([by * 64, bx * 128]));
    }
}
