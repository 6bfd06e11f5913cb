//! Nearest neighbour: what `reduce` gives has one axis.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn sums(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    let [b] = blocks([ceil_div(M, 32)]);
    threads([64]);
    let mut tile = alloc_fragment::<f32>([32, 64]);
    let mut rows = alloc_fragment::<f32>([32]);
    clear(&mut rows);
    copy(x.at([b * 32, 0]), &mut tile);
    reduce(Sum, &tile, &mut rows, 1);
    for [i] in parallel([32]) {
        *y.masked_mut([b * 32 + i]) = rows[i];
    }
}
