//! A thread index names what an element of a `parallel` loop does.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn some(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let [b] = blocks([ceil_div(M, 16)]);
    let [t] = threads([128]);
    let mut f = alloc_fragment::<f32>([16, 32]);
    copy(x.at([b * 16, 0]), &mut f);
    for [i, j] in parallel([16, 32]) {
        if t < 7 { //~
            f[[i, j]] = 1.0;
        }
    }
    copy(&f, y.at_mut([b * 16, 0]));
}

fn main() {}
