//! A product of two numbers from memory and a dim, which 64 bits need not hold.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn gather(rows: &Tensor<u32, (N,)>, x: &Tensor<f32, (K,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i + 1 < N {
        let row = rows[i] as usize;
        let column = rows[i + 1] as usize;
        let at = row * column * N; //~
        y[i] = x.masked([at]);
    }
}

fn main() {}
