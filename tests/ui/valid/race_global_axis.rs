//! Nearest neighbour: Tiles of parts that are put aside at one column, beside an axis of as many parts as a parameter says.

use tile_runtime::prelude::*;

#[tile_kernel(require(0 < parts && parts <= 8))]
pub fn aside(
    x: &Tensor<f32, (M, N)>,
    z: &mut Tensor<f32, (M, N)>,
    parts: usize,
    y: &mut Workspace<f32, (Fixed<8>, M, N)>,
) {
    let [bx, by, part] = blocks([ceil_div(N, 64), ceil_div(M, 64), parts]);
    threads([128]);
    let mut s = alloc_shared::<f32>([64, 64]);
    copy(x.at([by * 64, bx * 64]), &mut s);
    copy(&s, y.at_mut([part, by * 64, bx * 64]));
    if part == 0 {
        copy(&s, z.at_mut([by * 64, bx * 64]));
    }
}
