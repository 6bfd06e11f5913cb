//! Nearest neighbour: `clamp` of what is not in registers.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn clamped(x: &Tensor<f32, (Fixed<64>, Fixed<64>)>, y: &mut Tensor<f32, (Fixed<64>, Fixed<64>)>) {
    blocks([1]);
    threads([128]);
    let mut tile = alloc_shared::<f32>([64, 64]);
    let mut f = alloc_fragment::<f32>([64, 64]);
    copy(x, &mut tile);
    copy(&tile, &mut f);
    clamp(&mut f, 0.0, 1.0);
    copy(&f, y);
}

fn main() {}
