//! Global tensors.

use super::tile::{Tile, TileMut};
use super::{Value, shadow};
use std::marker::PhantomData;
use std::ops::{Index, IndexMut, Range};

/// A tensor parameter inside a kernel: what `&Tensor<T, (N, K)>` of the signature is in the body.
pub type Tensor<T, const R: usize> = GlobalTensor<T, R>;

/// Scratch memory of a launch inside a kernel: what `&mut Workspace<T, (S, N)>` of the signature is in the body.
///
/// The launcher allocates it; no argument stands for it. Its dims are those of tensors, const parameters or `Fixed<..>`, and
/// it comes after all other parameters. It is all zeros the first time, and then holds what the kernel's last launch on the
/// same stream left in it, unless a launch with other extents came between: a kernel writes what it reads, and leaves its
/// counters at 0, as [`super::last_arriver`] does.
pub type Workspace<T, const R: usize> = GlobalTensor<T, R>;

/// A kernel's tensor parameter: `R` axes of `T` in global memory, row-major, innermost stride 1.
///
/// `x[i]` is an element of a vector, `w[[row, k]]` one of a matrix. A plain element access must stay inside the
/// tensor: prove it by the loop's bounds or guard it with an `if`. Where the edge is ragged, use [`GlobalTensor::masked`].
pub struct GlobalTensor<T, const R: usize> {
    _element: PhantomData<T>,
}

impl<T: Value, const R: usize> GlobalTensor<T, R> {
    /// The element at `index`, or 0 where `index` is outside the tensor.
    ///
    /// In a [`super::vectorized`] loop the mask is all or nothing: the whole access is inside or the whole reads 0.
    pub fn masked(&self, index: [usize; R]) -> T {
        let _ = index;
        shadow()
    }

    /// The element at `index`, to be written: `*y.masked_mut([i]) = v;`. Nothing is written where `index` is outside
    /// the tensor.
    pub fn masked_mut(&mut self, index: [usize; R]) -> &mut T {
        let _ = index;
        shadow()
    }

    /// The tile that starts at `index`, as a source of [`super::copy`]; its extents are the destination's. Elements
    /// outside the tensor read 0.
    pub fn at(&self, index: [usize; R]) -> Tile<T> {
        let _ = index;
        shadow()
    }

    /// The tile that starts at `index`, as a destination of [`super::copy`]; its extents are the source's. Elements
    /// outside the tensor are not written.
    pub fn at_mut(&mut self, index: [usize; R]) -> TileMut<T> {
        let _ = index;
        shadow()
    }

    /// The tile `[r0..r1, c0..c1]`, as a source of [`super::copy`].
    pub fn tile(&self, ranges: [Range<usize>; R]) -> Tile<T> {
        let _ = ranges;
        shadow()
    }

    /// The tile `[r0..r1, c0..c1]`, as a destination of [`super::copy`].
    pub fn tile_mut(&mut self, ranges: [Range<usize>; R]) -> TileMut<T> {
        let _ = ranges;
        shadow()
    }
}

macro_rules! rows {
    ($($axes:literal => $less:literal),*) => { $(
        impl<T: Value> GlobalTensor<T, $axes> {
            /// The tensor at `index` of the first axis, as an argument of a `#[tile_fn]`: a matrix of a batch, a row of a matrix.
            pub fn row(&self, index: usize) -> &GlobalTensor<T, $less> {
                let _ = index;
                shadow()
            }

            /// The tensor at `index` of the first axis, as an argument of a `#[tile_fn]` that writes it.
            pub fn row_mut(&mut self, index: usize) -> &mut GlobalTensor<T, $less> {
                let _ = index;
                shadow()
            }
        }
    )* };
}

rows!(2 => 1, 3 => 2, 4 => 3);

impl<T: Value, const R: usize> Index<[usize; R]> for GlobalTensor<T, R> {
    type Output = T;
    fn index(&self, _: [usize; R]) -> &T {
        shadow()
    }
}

impl<T: Value, const R: usize> IndexMut<[usize; R]> for GlobalTensor<T, R> {
    fn index_mut(&mut self, _: [usize; R]) -> &mut T {
        shadow()
    }
}

impl<T: Value> Index<usize> for GlobalTensor<T, 1> {
    type Output = T;
    fn index(&self, _: usize) -> &T {
        shadow()
    }
}

impl<T: Value> IndexMut<usize> for GlobalTensor<T, 1> {
    fn index_mut(&mut self, _: usize) -> &mut T {
        shadow()
    }
}

/// What `if let Some(x) = tensor` looks at, of an optional tensor that the kernel writes: it is borrowed for the branch.
#[doc(hidden)]
pub fn lend<'a, T>(tensor: &'a Option<&mut T>) -> Option<&'a mut T> {
    let _ = tensor;
    shadow()
}
