//! The last block of each tile stores to the first column.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn last(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>, arrived: &mut Workspace<u32, (M, N)>) {
    let [bx, by, _part] = blocks([N, M, 4]);
    let [t] = threads([32]);
    if last_arriver(&mut arrived[[by, bx]], 4) {
        if t == 0 {
            y[[by, 0]] = x[[by, bx]]; //~
        }
    }
}

fn main() {}
