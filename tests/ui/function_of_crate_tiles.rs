//! What is wrong with a kernel because of another crate's function is shown at the call.

use tile_kernels::gemm::operands::multiply;
use tile_runtime::prelude::*;

#[tile_kernel(uses(multiply))]
pub fn product(a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (K, N)>, c: &mut Tensor<f32, (M, N)>) {
    let [bx, by] = blocks([ceil_div(N, 64), ceil_div(M, 64)]);
    let [_t] = threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 32]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, 32), 3) {
        copy(a.at([by * 64, k * 32]), &mut a_s);
        copy(b.at([k * 32, bx * 64]), &mut b_s);
        multiply::<f16, false, false>(&a_s, &b_s, &mut acc); //~
    }
    copy(&acc, c.at_mut([by * 64, bx * 64]));
}

fn main() {}
