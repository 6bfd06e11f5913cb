//! Nearest neighbour: A cluster along two axes.

use tile_runtime::prelude::*;

#[tile_kernel(targets(sm_90a))]
pub fn sums(x: &Tensor<f32, (Fixed<8>, N)>, y: &mut Tensor<f32, (Fixed<8>,)>) {
    let [_, _, part] = blocks([1, 1, 4]);
    let [t] = threads([32]);
    cluster([1, 1, 4]);
    let mut mine = alloc_shared::<f32>([4, 2]);
    let mut theirs = alloc_shared::<f32>([4, 2]);
    if t < 8 {
        let mut sum = 0.0f32;
        for i in (part..N).step_by(4) {
            sum += x[[t, i]];
        }
        mine[[t / 2, t % 2]] = sum;
    }
    cluster_exchange(&mine, &mut theirs);
    if t < 2 {
        let mut sum = 0.0f32;
        for s in 0..4 {
            sum += theirs[[s, t]];
        }
        y[part * 2 + t] = sum;
    }
}
