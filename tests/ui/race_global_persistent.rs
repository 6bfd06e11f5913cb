//! Every tile of a row is stored to the first column.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn copied(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    threads([128]);
    for [bx, by] in persistent([ceil_div(N, 64), ceil_div(M, 64)]) {
        let mut s = alloc_shared::<f32>([64, 64]);
        copy(x.at([by * 64, bx * 64]), &mut s);
        copy(&s, y.at_mut([by * 64, 0])); //~
    }
}

fn main() {}
