//! A fragment's elements are divided evenly among the threads.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn halved(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let [bx, by] = blocks([ceil_div(N, 40), ceil_div(M, 33)]);
    threads([64]);
    let mut tile = alloc_fragment::<f32>([33, 40]); //~
    copy(x.at([by * 33, bx * 40]), &mut tile);
    for [i, j] in parallel([33, 40]) {
        tile[[i, j]] *= 0.5;
    }
    copy(&tile, y.at_mut([by * 33, bx * 40]));
}

fn main() {}
