//! Tile operations: copies between memories, and fills.

use super::array::{Array, Fragment};
use super::{GlobalTensor, LocalArray, Number, SharedArray, Value, shadow};
use std::marker::PhantomData;

/// Copies a tile: `copy(w.at([row, k]), &mut w_s);`, `copy(&y_s, y.at_mut([row]));`.
///
/// The shapes must agree; an `.at(..)` has the extents of the other side, leading axes that the other side lacks have
/// extent 1. Where one side is a matrix, the rows of the other may be of several axes, in their order: `copy(x.tile([a..a + 16, h..h + 8, 0..64]), &mut s)`
/// into a `[128, 64]` array. The dtype may differ: elements are converted as by [`super::Cast::cast`]. Past the ragged edge of a
/// tensor, elements read 0 and are not written.
///
/// To and from shared memory the threads of the block share the work: every thread must reach the copy, with the same
/// coordinates, and the compiler places the barriers. To a local array each thread copies for itself.
pub fn copy<T: Value, U: Value>(source: impl CopySource<T>, destination: impl CopyDestination<U>) -> CopyRequest {
    let _ = (source, destination);
    shadow()
}

/// Sets every element of an array to `value`.
///
/// On a shared array the threads share the work; every thread must reach it, and the compiler places the barriers.
pub fn fill<A: Array<Element: Value>>(array: &mut A, value: A::Element) {
    let _ = (array, value);
    shadow()
}

/// Sets every element of an array to 0, as [`fill`].
pub fn clear<A: Array<Element: Number>>(array: &mut A) {
    let _ = array;
    shadow()
}

/// Brings every element `x` of a fragment into a range: it becomes `min(max(x, low), high)`, where [`super::max`] and
/// [`super::min`] say what becomes of a NaN.
///
/// The two bounds are evaluated once; a `low` above `high` makes every element `high`. Every thread must reach it.
pub fn clamp<T: Number>(fragment: &mut Fragment<T>, low: T, high: T) {
    let _ = (fragment, low, high);
    shadow()
}

/// A copy, of which more can be demanded.
pub struct CopyRequest(());

impl CopyRequest {
    /// Demands `elements` elements in each transaction (2, 4, 8 or 16 bytes): what cannot be proven aligned is an
    /// error that names the `require` to add.
    pub fn width(self, elements: usize) -> CopyRequest {
        let _ = elements;
        shadow()
    }
}

impl CopyRequest {
    /// Whether the tensor memory accelerator may do it: `.tma(false)` has the threads copy.
    pub fn tma(self, allowed: bool) -> CopyRequest {
        let _ = allowed;
        shadow()
    }

    /// How long the second-level cache should keep what is copied: [`First`], [`Last`] or [`Normal`], or one chosen by
    /// constants. A hint to TMA; copies by the threads do without.
    pub fn evict(self, order: EvictionOrder) -> CopyRequest {
        let _ = order;
        shadow()
    }
}

/// When what a copy moves leaves the second-level cache: [`First`], [`Last`], [`Normal`].
#[derive(Clone, Copy)]
pub struct EvictionOrder(());

/// It leaves the caches first: it is used once.
#[allow(non_upper_case_globals)]
pub const First: EvictionOrder = EvictionOrder(());
/// It leaves the caches last: others read it again.
#[allow(non_upper_case_globals)]
pub const Last: EvictionOrder = EvictionOrder(());
/// It leaves the caches as anything else.
#[allow(non_upper_case_globals)]
pub const Normal: EvictionOrder = EvictionOrder(());

/// A part of a tensor or array, to be read.
#[derive(Clone, Copy)]
pub struct Tile<T> {
    _element: PhantomData<T>,
}

/// A part of a tensor or array, to be written.
#[derive(Clone, Copy)]
pub struct TileMut<T> {
    _element: PhantomData<T>,
}

/// The transpose of a fragment, to be stored: `copy(acc.t(), c.at_mut([col, row]));`.
#[derive(Clone, Copy)]
pub struct TransposedFragment<T> {
    _element: PhantomData<T>,
}

impl<T> Fragment<T> {
    /// Its transpose, for a [`copy`] to a tensor: element `[i, j]` goes where `[j, i]` of the tile is.
    pub fn t(&self) -> TransposedFragment<T> {
        shadow()
    }
}

/// What [`copy`] reads: a tensor, `.at(..)` or `.tile(..)` of one, or an array of the kernel.
#[diagnostic::on_unimplemented(
    message = "`copy` cannot read from `{Self}`",
    label = "expected `x.at([..])`, `x.tile([..])` or `&array`"
)]
pub trait CopySource<T> {}

/// What [`copy`] writes: `.at_mut(..)` or `.tile_mut(..)` of a tensor, or an array of the kernel.
#[diagnostic::on_unimplemented(
    message = "`copy` cannot write to `{Self}`",
    label = "expected `y.at_mut([..])`, `y.tile_mut([..])` or `&mut array`"
)]
pub trait CopyDestination<T> {}

impl<T> CopySource<T> for Tile<T> {}
impl<T, const R: usize> CopySource<T> for &GlobalTensor<T, R> {}
impl<T> CopySource<T> for &SharedArray<T> {}
impl<T> CopySource<T> for &LocalArray<T> {}
impl<T> CopySource<T> for &Fragment<T> {}
impl<T> CopySource<T> for TransposedFragment<T> {}
impl<T> CopyDestination<T> for TileMut<T> {}
impl<T, const R: usize> CopyDestination<T> for &mut GlobalTensor<T, R> {}
impl<T> CopyDestination<T> for &mut SharedArray<T> {}
impl<T> CopyDestination<T> for &mut LocalArray<T> {}
impl<T> CopyDestination<T> for &mut Fragment<T> {}
