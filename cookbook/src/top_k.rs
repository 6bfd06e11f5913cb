//! The K largest elements of each row, in order: the router of a mixture of experts.
//!
//! A warp has a row, each lane `PER` of its elements in registers. A round finds the largest element that comes after
//! the last one found, where "after" means smaller, or equal and further right. Nothing has to be crossed out, and ties
//! are in the order of their places.

use crate::vector::row;
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// The `K` largest of each row of up to `32 * PER` elements, and their places. A warp a row, eight rows a block.
#[tile_kernel(instances(PER in [2, 8, 32]), require(K <= N && N <= 32 * PER))]
pub fn top_k_rows<const PER: usize>(
    x: &Tensor<f32, (M, N)>,
    values: &mut Tensor<f32, (M, K)>,
    places: &mut Tensor<u32, (M, K)>,
) {
    let [block] = blocks([ceil_div(M, 8)]);
    let [lane, warp] = threads([32, 8]);
    let row = block * 8 + warp;
    let mut mine = alloc_local::<f32>([PER]);
    for p in unroll(0..PER) {
        mine[p] = x.masked([row, p * 32 + lane]);
    }
    let mut last = f32::INFINITY;
    let mut next = 0u32; // behind the place of the last one found
    for k in 0..K {
        let mut best = f32::NEG_INFINITY;
        let mut place = 0xffffffffu32;
        for p in unroll(0..PER) {
            let at = (p * 32 + lane) as u32;
            let is_after = mine[p] < last || mine[p] == last && at >= next;
            if is_after && (mine[p] > best || mine[p] == best && at < place) && p * 32 + lane < N {
                best = mine[p];
                place = at;
            }
        }
        let (value, found) = warp_argmax(best, place);
        last = value;
        next = max(found, found + 1); // where nothing was found `found` is the greatest place, and `found + 1` wraps
        if lane == 0 && row < M {
            values[[row, k]] = value;
            places[[row, k]] = found;
        }
    }
}
// ANCHOR_END: kernel

// ANCHOR: host
/// The largest elements of each row of `x`, largest first, and their places; how many is the row length of `values` and
/// `places`. Rows of up to 1,024 elements. NaNs are passed over: where fewer numbers than asked for are left, the rest
/// are
/// -inf at place `u32::MAX`.
///
/// # Errors
/// Where rows are longer, more elements are asked for than there are, shapes differ or tensors overlap, and whatever a
/// launch may fail with.
pub fn top_k(
    on: &impl LaunchOn,
    x: impl TensorInput<f32, 2>,
    values: impl TensorOutput<f32, 2>,
    places: impl TensorOutput<u32, 2>,
) -> Result<(), LaunchError> {
    let row = row(&x.argument());
    let params = TopKRowsParams { PER: [2, 8].into_iter().find(|per| row <= 32 * per).unwrap_or(32) };
    top_k_rows::instance(on.device(), params)?.launch_on(on, x, values, places)
}
// ANCHOR_END: host

/// The `k` largest of each row of `n` elements, which are numbers, and their places.
pub fn reference(x: &[f32], n: usize, k: usize) -> (Vec<f32>, Vec<u32>) {
    let row = |row: &[f32]| {
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|a, b| row[*b].total_cmp(&row[*a]).then(a.cmp(b)));
        order.into_iter().take(k).map(|at| (row[at], at as u32)).collect::<Vec<_>>()
    };
    x.chunks(n.max(1)).flat_map(row).unzip()
}
