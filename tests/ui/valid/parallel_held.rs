//! Nearest neighbour: the fragment is added to memory, and stays as it is.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn running_sums(x: &Tensor<f32, (M, Fixed<64>)>, y: &mut Tensor<f32, (M,)>) {
    let [b] = blocks([ceil_div(M, 16)]);
    threads([128]);
    let mut tile = alloc_fragment::<f32>([16, 64]);
    let mut sums = alloc_fragment::<f32>([16]);
    copy(x.at([b * 16, 0]), &mut tile);
    reduce(Sum, &tile, &mut sums, 1);
    for [i] in parallel([16]) {
        if b * 16 + i < M {
            y[b * 16 + i] += sums[i];
        }
    }
}

fn main() {}
