//! A tile that is summed over its rows goes through shared memory, which its array leaves too little of.

use tile_runtime::prelude::*;

#[tile_kernel(targets(sm_80))]
pub fn columns(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (N,)>) {
    let [bx] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let mut rows = alloc_shared::<f32>([128, 128]);
    let mut tile = alloc_fragment::<f32>([128, 128]);
    let mut sums = alloc_shared::<f32>([128]);
    copy(x.at([0, bx * 128]), &mut rows);
    copy(x.at([0, bx * 128]), &mut tile);
    reduce(Sum, &tile, &mut sums, 0);
    *y.masked_mut([bx * 128 + t]) = sums[t] + rows[[t, t]];
}

fn main() {}
