//! Tile operations: copies between memories, and fills.

use super::buffer::Buffer;
use super::{Number, Tensor, Value, shadow};
use std::marker::PhantomData;

/// Copies a tile: `copy(w.at([row, k]), &mut w_s);`, `copy(&y_s, y.at_mut([row]));`.
///
/// The shapes must agree; an `.at(..)` has the extents of the other side, leading axes that the other side lacks have
/// extent 1. The dtype may differ: elements are converted as by [`super::Cast::cast`]. Past the ragged edge of a
/// tensor, elements read 0 and are not written.
///
/// To and from shared memory the threads of the block share the work: every thread must reach the copy, with the same
/// coordinates, and the compiler places the barriers. To a local array each thread copies for itself.
pub fn copy<T: Value, U: Value>(source: impl Source<T>, destination: impl Destination<U>) -> CopyRequest {
    let _ = (source, destination);
    shadow()
}

/// Sets every element of an array to `value`.
///
/// On a shared array the threads share the work; every thread must reach it, and the compiler places the barriers.
pub fn fill<T: Value, M>(buffer: &mut Buffer<T, M>, value: T) {
    let _ = (buffer, value);
    shadow()
}

/// Sets every element of an array to 0, as [`fill`].
pub fn clear<T: Number, M>(buffer: &mut Buffer<T, M>) {
    let _ = buffer;
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

/// What [`copy`] reads: a tensor, `.at(..)` or `.tile(..)` of one, or an array of the kernel.
#[diagnostic::on_unimplemented(
    message = "`copy` cannot read from `{Self}`",
    label = "expected `x.at([..])`, `x.tile([..])` or `&array`"
)]
pub trait Source<T> {}

/// What [`copy`] writes: `.at_mut(..)` or `.tile_mut(..)` of a tensor, or an array of the kernel.
#[diagnostic::on_unimplemented(
    message = "`copy` cannot write to `{Self}`",
    label = "expected `y.at_mut([..])`, `y.tile_mut([..])` or `&mut array`"
)]
pub trait Destination<T> {}

impl<T> Source<T> for Tile<T> {}
impl<T, const R: usize> Source<T> for &Tensor<T, R> {}
impl<T, M> Source<T> for &Buffer<T, M> {}
impl<T> Destination<T> for TileMut<T> {}
impl<T, const R: usize> Destination<T> for &mut Tensor<T, R> {}
impl<T, M> Destination<T> for &mut Buffer<T, M> {}
