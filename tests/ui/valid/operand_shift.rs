//! Nearest neighbour: A thread's own number as the number of a shift: from 32 on there is no such bit.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn powers(y: &mut Tensor<f32, (N,)>) {
    let [_] = blocks([1]);
    let [t] = threads([128]);
    let i = 1 << min(t, 31);
    if i < N {
        y[i] = 1.0;
    }
}
