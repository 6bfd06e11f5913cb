//! Rows of a table at places that are data: the embedding at the beginning of a language model.
//!
//! What bounds it is memory, and what keeps memory busy is loads in flight: a thread issues four loads of 16 bytes
//! before it stores any of them. A place that is not in the table gives a row of zeros: `masked` looks at each access,
//! so data cannot lead a kernel out of a tensor.

use crate::vector::widest;
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// `y[i] = table[places[i]]`, rows of `K` elements. A block a row.
#[tile_kernel(
    instances(VEC in [8, 4, 1], where VEC * T::BITS == 128 || VEC == 1),
    dtypes(T in [f16, bf16, f32]),
    require(K % VEC == 0)
)]
pub fn gather_rows<T: Float, const VEC: usize>(
    table: &Tensor<T, (R, K)>,
    places: &Tensor<u32, (N,)>,
    y: &mut Tensor<T, (N, K)>,
) {
    let [i] = blocks([N]);
    let [t] = threads([128]);
    let place = places[i] as usize;
    let mut values = alloc_local::<T>([4, VEC]);
    for step in 0..ceil_div(K, 4 * 128 * VEC) {
        let first = (step * 4 * 128 + t) * VEC;
        for u in unroll(0..4) {
            for v in vectorized(0..VEC) {
                values[[u, v]] = table.masked([place, first + u * 128 * VEC + v]);
            }
        }
        for u in unroll(0..4) {
            for v in vectorized(0..VEC) {
                *y.masked_mut([i, first + u * 128 * VEC + v]) = values[[u, v]];
            }
        }
    }
}
// ANCHOR_END: kernel

// ANCHOR: host
/// Rows `places` of `table`; zeros for a place that is not in it.
///
/// # Errors
/// Where the shapes differ or `y` overlaps an input, and whatever a launch may fail with.
pub fn gather<T: Float>(
    on: &impl LaunchOn,
    table: impl TensorInput<T, 2>,
    places: impl TensorInput<u32, 1>,
    mut y: impl TensorOutput<T, 2>,
) -> Result<(), LaunchError> {
    let params = GatherRowsParams { VEC: widest::<T>(&[table.argument(), y.argument()]) };
    gather_rows::<T>::instance(on.device(), params)?.launch_on(on, table, places, y)
}
// ANCHOR_END: host

/// The rows, of `k` elements; `zero` for a place that is not in the table.
pub fn reference<T: Copy>(table: &[T], places: &[u32], k: usize, zero: T) -> Vec<T> {
    let row = |place: &u32| {
        let start = *place as usize * k;
        table.get(start..start + k).map_or_else(|| vec![zero; k], <[T]>::to_vec)
    };
    places.iter().flat_map(row).collect()
}
