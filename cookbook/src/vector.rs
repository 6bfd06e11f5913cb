//! How wide a kernel may access its tensors.

use tile_runtime::kernel::Argument;

/// `vec` where every row of every tensor consists of whole, aligned vectors of `vec` elements; else 1.
///
/// A GPU moves up to 16 bytes a thread with one instruction if their address is a multiple of 16. A row length that is
/// not a multiple of `vec`, or a view that starts in the middle of a vector, leaves single elements.
pub(crate) fn width(vec: usize, tensors: &[Argument<'_>]) -> usize {
    let fits = |argument: &Argument<'_>| {
        let Argument::Tensor(tensor) = argument else { return true };
        let bytes = u64::from(tensor.dtype().bytes()) * vec as u64;
        let [pitches @ .., _] = tensor.strides() else { return true };
        tensor.address() % bytes == 0
            && tensor.shape().last().is_none_or(|row| row % vec as i64 == 0)
            && pitches.iter().all(|pitch| pitch % vec as i64 == 0)
    };
    if tensors.iter().all(fits) { vec } else { 1 }
}

/// [`width`] of 16 bytes of `T`.
pub(crate) fn widest<T>(tensors: &[Argument<'_>]) -> usize {
    width(16 / size_of::<T>().clamp(1, 16), tensors)
}

/// How many elements a row of a tensor has.
pub(crate) fn row(argument: &Argument<'_>) -> usize {
    match argument {
        Argument::Tensor(tensor) => tensor.shape().last().map_or(0, |row| usize::try_from(*row).unwrap_or(usize::MAX)),
        _ => 0,
    }
}

/// How many rows a tensor has, or each matrix of it.
pub(crate) fn length(argument: &Argument<'_>) -> usize {
    match argument {
        Argument::Tensor(tensor) => {
            tensor.shape().iter().nth_back(1).map_or(1, |rows| usize::try_from(*rows).unwrap_or(usize::MAX))
        }
        _ => 0,
    }
}
