//! How wide a kernel may access its tensors.

use tile_runtime::kernel::{Argument, TensorRef};

/// The elements of 16 bytes of `T` where every row of every tensor consists of whole, aligned vectors of them; else 1.
///
/// A row length that they do not divide, a row pitch likewise, or a view that starts in the middle of a vector leaves single
/// elements.
pub(crate) fn widest<T>(tensors: &[Argument<'_>]) -> usize {
    let vec = 16 / size_of::<T>().clamp(1, 16);
    let fits = |argument: &Argument<'_>| match argument {
        Argument::Tensor(tensor) => {
            tensor.shape().last().is_none_or(|row| row % vec as i64 == 0) && begins(tensor, vec)
        }
        _ => true,
    };
    if tensors.iter().all(fits) { vec } else { 1 }
}

/// Whether every row of a tensor begins at an address that is a multiple of `vec` elements.
pub(crate) fn begins(tensor: &TensorRef<'_>, vec: usize) -> bool {
    let bytes = u64::from(tensor.dtype().bytes()) * vec as u64;
    let [pitches @ .., _] = tensor.strides() else { return true };
    tensor.address().is_multiple_of(bytes) && pitches.iter().all(|pitch| pitch % vec as i64 == 0)
}

/// The extents of a tensor; all 0 where it has another number of axes.
pub(crate) fn extents<const R: usize>(argument: &Argument<'_>) -> [usize; R] {
    match argument {
        Argument::Tensor(tensor) if tensor.shape().len() == R => {
            std::array::from_fn(|axis| usize::try_from(tensor.shape()[axis]).unwrap_or(usize::MAX))
        }
        _ => [0; R],
    }
}
