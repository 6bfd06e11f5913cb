//! An array cannot be as long as a tensor: its extent shapes the code.
use tile_runtime::prelude::*;

// ANCHOR: kernel
#[tile_kernel]
pub fn staged(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N, K)>) {
    let [row] = blocks([N]);
    let [t] = threads([32]);
    let mut s = alloc_shared::<f32>([K]);
    copy(x.at([row, 0]), &mut s);
    for i in (t..K).step_by(32) {
        y[[row, i]] = s[i];
    }
}
// ANCHOR_END: kernel

fn main() {}
