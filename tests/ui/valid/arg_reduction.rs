//! Nearest neighbour: The two values of an arg-reduction bound to one name.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn greatest(x: &Tensor<f32, (N,)>, at: &mut Tensor<u32, (B,)>) {
    let [b] = blocks([B]);
    let [t] = threads([128]);
    let v = x.masked([b * 128 + t]);
    let (_, found) = thread_argmax(v, t as u32, t);
    if t == 0 {
        at[b] = found;
    }
}
