//! A block arrives once, at one counter.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn last(y: &mut Tensor<f32, (N,)>, arrived: &mut Tensor<u32, (N,)>) {
    let [_b] = blocks([N]);
    let [t] = threads([32]);
    if last_arriver(&mut arrived[t], N) { //~
        if t == 0 {
            y[0] = 1.0;
        }
    }
}

fn main() {}
