//! What is left of a tile along axis 0 are its columns: a loop over the tile reads them by the column's index.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn row_sums(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let [bx, by] = blocks([ceil_div(N, 64), ceil_div(M, 64)]);
    threads([128]);
    let mut tile = alloc_fragment::<f32>([64, 64]);
    let mut sums = alloc_fragment::<f32>([64]);
    copy(x.at([by * 64, bx * 64]), &mut tile);
    reduce(Sum, &tile, &mut sums, 1);
    for [i, j] in parallel([64, 64]) {
        tile[[i, j]] -= sums[i];
    }
    copy(&tile, y.at_mut([by * 64, bx * 64]));
}

fn main() {}
