//! Rotary position embedding: element `i` of a head and element `i + D/2` are turned by the angle `position *
//! base^(-2i/D)`.
//!
//! The cosines and sines come from a table, one row a position, as inference engines keep it: it is small, stays in
//! cache, and is shared by all heads. A thread loads both halves of its pairs, so every element is read and written
//! once.

use crate::vector::width;
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// Turns the halves of every head of `x` (token, head, element) by the angles of the token's position. A block a token.
#[tile_kernel(instances(VEC in [4, 1]), require(HALF % VEC == 0))]
pub fn rotate_half<T: Float, const VEC: usize>(
    cosines: &Tensor<f32, (P, HALF)>,
    sines: &Tensor<f32, (P, HALF)>,
    positions: &Tensor<u32, (S,)>,
    x: &Tensor<T, (S, H, Extent<{ 2 * HALF }>)>,
    y: &mut Tensor<T, (S, H, Extent<{ 2 * HALF }>)>,
) {
    let [token] = blocks([S]);
    let [tx, ty] = threads([16, 16]); // 16 lanes along a head, 16 heads at a time
    let position = positions[token] as usize;
    let mut c = alloc_local::<f32>([VEC]);
    let mut s = alloc_local::<f32>([VEC]);
    let mut a = alloc_local::<T>([VEC]);
    let mut b = alloc_local::<T>([VEC]);
    for step in 0..ceil_div(HALF, 16 * VEC) {
        let i = (step * 16 + tx) * VEC;
        for v in vectorized(0..VEC) {
            c[v] = cosines.masked([position, i + v]); // 0 where a position is not in the table
            s[v] = sines.masked([position, i + v]);
        }
        for group in 0..ceil_div(H, 16) {
            let head = group * 16 + ty;
            if head < H && i < HALF {
                for v in vectorized(0..VEC) {
                    a[v] = x[[token, head, i + v]];
                    b[v] = x[[token, head, HALF + i + v]];
                }
                for v in unroll(0..VEC) {
                    let re = a[v].cast::<f32>();
                    let im = b[v].cast::<f32>();
                    a[v] = (re * c[v] - im * s[v]).cast::<T>();
                    b[v] = (im * c[v] + re * s[v]).cast::<T>();
                }
                for v in vectorized(0..VEC) {
                    y[[token, head, i + v]] = a[v];
                    y[[token, head, HALF + i + v]] = b[v];
                }
            }
        }
    }
}
// ANCHOR_END: kernel

// ANCHOR: host
/// Rotates `x` of shape `[tokens, heads, D]` by rows `positions` of the tables, of shape `[positions, D / 2]`. Where a
/// position is beyond the tables the result is 0.
///
/// # Errors
/// Where D is not twice the tables' row, shapes differ or tensors overlap, and whatever a launch may fail with.
pub fn rope<T: Float>(
    on: &impl LaunchOn,
    x: impl TensorInput<T, 3>,
    cosines: impl TensorInput<f32, 2>,
    sines: impl TensorInput<f32, 2>,
    positions: impl TensorInput<u32, 1>,
    mut y: impl TensorOutput<T, 3>,
) -> Result<(), LaunchError> {
    let params =
        RotateHalfParams { VEC: width(4, &[x.argument(), cosines.argument(), sines.argument(), y.argument()]) };
    rotate_half::<T>::instance(on.device(), params)?.launch_on(on, cosines, sines, positions, x, y)
}
// ANCHOR_END: host

/// The tables of [`rope`]: cosines and sines of `position * base^(-i / half)`, of shape `[positions, half]`.
pub fn tables(positions: usize, half: usize, base: f64) -> (Vec<f32>, Vec<f32>) {
    let angle = |at: usize| (at / half) as f64 * base.powf(-((at % half) as f64) / half as f64);
    let angles = (0..positions * half).map(angle);
    (angles.clone().map(|a| a.cos() as f32).collect(), angles.map(|a| a.sin() as f32).collect())
}

/// The rotation in f64, with the tables' values; `heads` heads of `2 * half` elements a token.
pub fn reference(x: &[f64], tables: (&[f32], &[f32]), positions: &[u32], heads: usize, half: usize) -> Vec<f64> {
    let d = 2 * half;
    let element = |at: usize| {
        let (position, i) = (positions[at / (heads * d)] as usize, at % d);
        let (cosine, sine) = (tables.0[position * half + i % half], tables.1[position * half + i % half]);
        let (other, sign) = if i < half { (x[at + half], -1.0) } else { (x[at - half], 1.0) };
        x[at] * f64::from(cosine) + sign * other * f64::from(sine)
    };
    (0..x.len()).map(element).collect()
}
