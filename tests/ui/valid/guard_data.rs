//! Nearest neighbour: A key of five values, for four elements.

use tile_runtime::prelude::*;

#[tile_kernel(lints(TK0604 = "deny"))]
pub fn counts(keys: &Tensor<u32, (N,)>, y: &mut Tensor<u32, (Fixed<4>,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i < N {
        let key = (keys[i] % 4) as usize;
        atomic_add(&mut y[key], 1);
    }
}
