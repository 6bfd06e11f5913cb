//! What threads do together. Every thread of the block (or warp) must reach a collective; one inside an `if` that
//! depends on the thread is an error.

use super::{Array, Fragment, LocalArray, Number, SharedArray, Value, shadow};

/// Waits for every thread of the block; what they wrote before is visible to all after.
pub fn sync_threads() {
    shadow()
}

/// Waits for every lane of the warp; what they wrote before is visible to the warp after.
pub fn sync_warp() {
    shadow()
}

/// Combines `value` over the threads that differ only in `axis`, a binding of [`super::threads`]; every one of them
/// gets the result. `value` is a number, or `&mut` of a local array, whose every element is combined in place, all at
/// the price of one barrier.
///
/// The order is defined: a butterfly within a warp, then warps in ascending order. So the result has the same bits
/// everywhere.
pub fn thread_allreduce<V: Reducible>(operator: impl ReduceOperator, value: V, axis: usize) -> V::Output {
    let _ = (operator, value, axis);
    shadow()
}

/// Combines `value` over the 32 lanes of the warp, by a butterfly; every lane gets the result.
pub fn warp_reduce<V: Reducible>(operator: impl ReduceOperator, value: V) -> V::Output {
    let _ = (operator, value);
    shadow()
}

/// Combines `source`, a fragment or shared array of two axes, over `axis`, 0 or 1: `destination[i]` becomes what is in
/// row `i` (`axis` 1) or column `i` (`axis` 0). It has one axis, of the extent that stays, and is a fragment where `source`
/// is one, or a shared array.
///
/// Every thread of the block must reach it, and the compiler places the barriers. The order is defined and does not depend
/// on how the tile lies in registers, so the result has the same bits everywhere.
pub fn reduce<T: Number, S: BlockArray<Element = T>, D: BlockArray<Element = T>>(
    operator: impl ReduceOperator,
    source: &S,
    destination: &mut D,
    axis: usize,
) {
    let _ = (operator, source, destination, axis);
    shadow()
}

/// Combines `tile` over the blocks of a cluster, through their shared memory: the block of rank 0 gets its own
/// combined with those of ranks 1, 2, .., in this order; the others keep theirs. So the result has the same bits everywhere.
///
/// The blocks of such a cluster differ along one axis of the grid, which is cut into whole clusters; the rank is the index
/// along it, modulo the cluster's extent:
///
/// ```text
/// let [bn, bm, part] = blocks([ceil_div(N, BN), ceil_div(M, BM), 2]);
/// cluster([1, 1, 2]);
/// ..                                          // multiplies a part of K into acc
/// cluster_reduce(Sum, &mut acc);
/// if part == 0 { copy(&acc, c.at_mut([bm * BM, bn * BN])); }
/// ```
///
/// Every block of the cluster must reach it, once: it stands in no loop and no conditional. `f32`, `i32` and `u32`; where
/// there are no clusters (`sm_80`) a kernel that needs it does not exist.
pub fn cluster_reduce<T: Number>(operator: impl ReduceOperator, tile: &mut Fragment<T>) {
    let _ = (operator, tile);
    shadow()
}

/// Sends each block of a cluster a part of `mine`, through their shared memory: where there are C blocks, both arrays have C parts along their
/// first axis, and part `s` of `theirs` becomes what the block of rank `s` has as the part of this block's rank. A cluster of one block gets what it
/// has.
///
/// The blocks of such a cluster differ along one axis of the grid, which is cut into whole clusters; the rank is the index along it, modulo the
/// cluster's extent. So each block can combine a part of a result that all of them have a share in, in whatever way, in the order of ranks:
///
/// ```text
/// let [part, head] = blocks([C, H]);
/// cluster([C, 1]);
/// let mut mine = alloc_shared::<f32>([C, ROWS, D]);     // C groups of rows, of each this block's share
/// let mut theirs = alloc_shared::<f32>([C, ROWS, D]);   // one group, of which each block has a share
/// ..
/// cluster_exchange(&mine, &mut theirs);
/// ..                                                    // adds theirs[[0, ..]], theirs[[1, ..]], ..
/// ```
///
/// Every block of the cluster must reach it, once: it stands in no loop, and in no conditional but one on constants of the instance. Nothing before it
/// uses `theirs`, since other blocks may send early; the same array is received into once. `f32`, `i32` and `u32`; where there are no clusters (`sm_80`)
/// an instance with clusters of several blocks does not exist.
pub fn cluster_exchange<T: Number>(mine: &SharedArray<T>, theirs: &mut SharedArray<T>) {
    let _ = (mine, theirs);
    shadow()
}

/// What [`reduce`] combines: a fragment or a shared array.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an array of the block",
    label = "expected an array made by `alloc_fragment` or `alloc_shared`"
)]
pub trait BlockArray: Array {}
impl<T> BlockArray for Fragment<T> {}
impl<T> BlockArray for SharedArray<T> {}

/// The `value` of the lane whose index is this lane's xor `mask`.
pub fn shfl_xor<T: Value>(value: T, mask: usize) -> T {
    let _ = (value, mask);
    shadow()
}

/// The `value` of the lane `delta` above this one; this lane's own where there is none.
pub fn shfl_down<T: Value>(value: T, delta: usize) -> T {
    let _ = (value, delta);
    shadow()
}

/// The `value` of the lane `delta` below this one; this lane's own where there is none.
pub fn shfl_up<T: Value>(value: T, delta: usize) -> T {
    let _ = (value, delta);
    shadow()
}

/// The `value` of lane `lane`, 0 to 31, of this warp.
pub fn shfl<T: Value>(value: T, lane: usize) -> T {
    let _ = (value, lane);
    shadow()
}

/// The greatest `value` of the threads that differ only in `axis`, a binding of [`super::threads`], and the `index` that
/// came with it; of several, the least. Every one of the threads gets both: `let (best, at) = thread_argmax(v, i, tk);`.
///
/// A NaN is never the greatest; where there is nothing else, the index is `u32::MAX`. -0 and +0 are equal here.
pub fn thread_argmax<T: Number>(value: T, index: u32, axis: usize) -> (T, u32) {
    let _ = (value, index, axis);
    shadow()
}

/// The least `value` of the threads that differ only in `axis`, and the `index` that came with it; else as [`thread_argmax`].
pub fn thread_argmin<T: Number>(value: T, index: u32, axis: usize) -> (T, u32) {
    let _ = (value, index, axis);
    shadow()
}

/// The greatest `value` of the 32 lanes of the warp, and the `index` that came with it; else as [`thread_argmax`].
pub fn warp_argmax<T: Number>(value: T, index: u32) -> (T, u32) {
    let _ = (value, index);
    shadow()
}

/// The least `value` of the 32 lanes of the warp, and the `index` that came with it; else as [`thread_argmax`].
pub fn warp_argmin<T: Number>(value: T, index: u32) -> (T, u32) {
    let _ = (value, index);
    shadow()
}

/// A bit for each lane of the warp: whether its `predicate` holds.
pub fn ballot(predicate: bool) -> u32 {
    let _ = predicate;
    shadow()
}

/// Whether `predicate` holds in any lane of the warp.
pub fn any(predicate: bool) -> bool {
    let _ = predicate;
    shadow()
}

/// Whether `predicate` holds in every lane of the warp.
pub fn all(predicate: bool) -> bool {
    let _ = predicate;
    shadow()
}

/// The operator of a reduction: [`Sum`], [`Max`] or [`Min`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an operator of a reduction: those are `Sum`, `Max` and `Min`",
    label = "expected `Sum`, `Max` or `Min`"
)]
pub trait ReduceOperator {}

macro_rules! operators {
    ($($(#[$doc:meta])* $name:ident: $ty:ident;)*) => {$(
        $(#[$doc])*
        #[allow(non_upper_case_globals)]
        pub const $name: $ty = $ty;

        #[doc = concat!("The type of [`", stringify!($name), "`].")]
        #[derive(Clone, Copy)]
        pub struct $ty;
        impl ReduceOperator for $ty {}
    )*};
}
operators! {
    /// Adds.
    Sum: SumOperator;
    /// Takes the greatest; of a number and a NaN, the number.
    Max: MaxOperator;
    /// Takes the least; of a number and a NaN, the number.
    Min: MinOperator;
}

/// What a reduction combines: a number, or `&mut` of a local array.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be reduced over threads",
    label = "expected a number, or `&mut` of an array made by `alloc_local`"
)]
pub trait Reducible {
    /// The number's type; `()` for a local array, which is reduced in place.
    type Output;
}

impl<T: Number> Reducible for T {
    type Output = T;
}

impl<T: Number> Reducible for &mut LocalArray<T> {
    type Output = ();
}
