//! The counts of a histogram start with whatever was in shared memory.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn histogram(x: &Tensor<u32, (N,)>, y: &mut Tensor<u32, (Fixed<64>,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let mut counts = alloc_shared::<u32>([64]);
    let value = x.masked([b * 64 + t]) as usize;
    atomic_add(&mut counts[min(value, 63)], 1); //~
    sync_threads();
    atomic_add(&mut y[t], counts[t]);
}

fn main() {}
