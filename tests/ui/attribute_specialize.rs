//! `specialize` names a const parameter.

use tile_runtime::prelude::*;

#[tile_kernel(specialize(ROWS), instances(ROWS = 4))] //~
pub fn double<const ROWS: usize>(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 32 * ROWS)]);
    let [t] = threads([32]);
    for r in unroll(0..ROWS) {
        let i = (b * ROWS + r) * 32 + t;
        if i < N {
            y[i] = x[i] + x[i];
        }
    }
}

fn main() {}
