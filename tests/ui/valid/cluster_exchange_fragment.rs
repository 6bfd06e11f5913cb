//! Nearest neighbour: An exchange of a fragment.

use tile_runtime::prelude::*;

#[tile_kernel(targets(sm_90a))]
pub fn sums(x: &Tensor<f32, (Fixed<8>, N)>, y: &mut Tensor<f32, (Fixed<8>,)>) {
    let [part, _] = blocks([4, 1]);
    let [t] = threads([32]);
    cluster([4, 1]);
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
