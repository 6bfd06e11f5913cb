//! Arrays of a kernel: shared by a block, or private to a thread.

use super::tile::{Tile, TileMut};
use super::{Value, shadow};
use std::marker::PhantomData;
use std::ops::{Index, IndexMut, Range};

/// An array that the threads of a block share: `s[i]`, `s[[i, j]]`. Its elements are uninitialised until they are
/// written.
pub struct SharedArray<T> {
    _element: PhantomData<T>,
}

/// An array of one thread, in registers: `v[i]`, `v[[i, j]]`. Its elements are uninitialised until they are written.
pub struct LocalArray<T> {
    _element: PhantomData<T>,
}

/// A tile of the block, spread over its threads' registers by a layout that the compiler chooses: the accumulator of
/// [`super::gemm`].
///
/// It is used whole: [`super::clear`] and [`super::fill`], [`super::gemm`], [`super::reduce`], [`super::copy`] to and from
/// tensors and shared arrays, and element by element in a [`super::parallel`] loop over exactly its extents:
/// `for [i, j] in parallel([BM, BN]) { acc[[i, j]] *= alpha; }`. One of one axis holds a value for every row (or column) of
/// a tile: `acc[[i, j]] -= row[i]`.
pub struct Fragment<T> {
    _element: PhantomData<T>,
}

/// Allocates a tile of the block in registers, of two axes, or a value for each row or column of one, of one axis; the
/// extents are constants.
pub fn alloc_fragment<T: Value>(extents: impl FragmentExtents) -> Fragment<T> {
    let _ = extents;
    shadow()
}

/// Allocates an array that the threads of the block share; the extents are constants.
///
/// A thread that reads what another wrote needs a [`super::sync_threads`] between, except around tile operations
/// ([`super::copy`], [`super::fill`], [`super::thread_allreduce`]), whose barriers the compiler places.
pub fn alloc_shared<T: Value>(extents: impl Extents) -> SharedArray<T> {
    let _ = extents;
    shadow()
}

/// Allocates an array for each thread, in registers; the extents are constants, and so should be the indices.
pub fn alloc_local<T: Value>(extents: impl Extents) -> LocalArray<T> {
    let _ = extents;
    shadow()
}

impl<T> SharedArray<T> {
    /// Asks for a layout: `Auto`, the default, has no bank conflicts where the compiler knows the array's uses; `None`
    /// is row-major; `B32`, `B64` and `B128` permute 16-byte units within that many bytes.
    pub fn swizzle(self, layout: impl SwizzleName) -> SharedArray<T> {
        let _ = layout;
        shadow()
    }
}

/// A layout of a shared array: `Auto`, `None`, `B32`, `B64`, `B128`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a layout of a shared array",
    label = "expected `Auto`, `None`, `B32`, `B64` or `B128`"
)]
pub trait SwizzleName {}

/// Row-major: the `None` of `.swizzle(None)`.
#[doc(hidden)]
pub struct Plain(());
impl SwizzleName for Option<Plain> {}

/// The type of [`B32`], [`B64`] and [`B128`].
#[derive(Clone, Copy)]
pub struct SwizzleBytes(());
impl SwizzleName for SwizzleBytes {}

/// 16-byte units are permuted within 32 bytes.
pub const B32: SwizzleBytes = SwizzleBytes(());
/// 16-byte units are permuted within 64 bytes.
pub const B64: SwizzleBytes = SwizzleBytes(());
/// 16-byte units are permuted within 128 bytes.
pub const B128: SwizzleBytes = SwizzleBytes(());

impl<T> Array for Fragment<T> {
    type Element = T;
}

impl<T: Value, I: ArrayIndex> Index<I> for Fragment<T> {
    type Output = T;
    fn index(&self, _: I) -> &T {
        shadow()
    }
}

impl<T: Value, I: ArrayIndex> IndexMut<I> for Fragment<T> {
    fn index_mut(&mut self, _: I) -> &mut T {
        shadow()
    }
}

/// The extents of a fragment: `[m, n]`, or `[m]`.
#[diagnostic::on_unimplemented(
    message = "the extents of a fragment are `[m, n]` or `[m]` of `usize`, not `{Self}`",
    label = "expected one or two extents in brackets"
)]
pub trait FragmentExtents {}
impl FragmentExtents for [usize; 1] {}
impl FragmentExtents for [usize; 2] {}

/// The extents of an array: `[n]`, `[m, n]` or `[l, m, n]`.
#[diagnostic::on_unimplemented(
    message = "the extents of an array are `[n]`, `[m, n]` or `[l, m, n]` of `usize`, not `{Self}`",
    label = "expected one to three extents in brackets"
)]
pub trait Extents {}
impl Extents for [usize; 1] {}
impl Extents for [usize; 2] {}
impl Extents for [usize; 3] {}

/// What an array is indexed by: `s[i]` where it has one axis, else `s[[i, j]]`.
#[diagnostic::on_unimplemented(
    message = "an array of the kernel is indexed by `usize`, `s[i]` or `s[[i, j]]`, not by `{Self}`",
    label = "expected an index of type `usize`, or several in brackets"
)]
pub trait ArrayIndex {}
impl ArrayIndex for usize {}
impl<const R: usize> ArrayIndex for [usize; R] {}

/// Either array, where it does not matter which.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an array of the kernel",
    label = "expected an array made by `alloc_shared`, `alloc_local` or `alloc_fragment`"
)]
pub trait Array {
    /// The element type.
    type Element;
}

macro_rules! arrays {
    ($($array:ident)*) => {$(
        impl<T> Array for $array<T> {
            type Element = T;
        }

        impl<T: Value> $array<T> {
            /// The element at `index`, or 0 where `index` is outside the array.
            pub fn masked<const R: usize>(&self, index: [usize; R]) -> T {
                let _ = index;
                shadow()
            }

            /// The element at `index`, to be written: `*s.masked_mut([i]) = v;`. Nothing is written where `index` is
            /// outside the array.
            pub fn masked_mut<const R: usize>(&mut self, index: [usize; R]) -> &mut T {
                let _ = index;
                shadow()
            }

            /// The tile that starts at `index`, as a source of [`super::copy`]; its extents are the destination's.
            pub fn at<const R: usize>(&self, index: [usize; R]) -> Tile<T> {
                let _ = index;
                shadow()
            }

            /// The tile that starts at `index`, as a destination of [`super::copy`]; its extents are the source's.
            pub fn at_mut<const R: usize>(&mut self, index: [usize; R]) -> TileMut<T> {
                let _ = index;
                shadow()
            }

            /// The tile `[r0..r1, c0..c1]`, as a source of [`super::copy`].
            pub fn tile<const R: usize>(&self, ranges: [Range<usize>; R]) -> Tile<T> {
                let _ = ranges;
                shadow()
            }

            /// The tile `[r0..r1, c0..c1]`, as a destination of [`super::copy`].
            pub fn tile_mut<const R: usize>(&mut self, ranges: [Range<usize>; R]) -> TileMut<T> {
                let _ = ranges;
                shadow()
            }
        }

        impl<T: Value, I: ArrayIndex> Index<I> for $array<T> {
            type Output = T;
            fn index(&self, _: I) -> &T {
                shadow()
            }
        }

        impl<T: Value, I: ArrayIndex> IndexMut<I> for $array<T> {
            fn index_mut(&mut self, _: I) -> &mut T {
                shadow()
            }
        }
    )*};
}
arrays!(SharedArray LocalArray);
