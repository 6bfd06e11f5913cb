//! Whether elements share an address: within a tensor, and of two tensors.

use crate::kernel::argument::{MAX_RANK, TensorRef};

/// Why a tensor's strides are not taken.
pub(super) enum StrideProblem {
    Range { axis: usize },
    Inner,
    Overlap { axis: usize, least: i64 },
}

/// Whether the strides fit 32 bits and no two elements share an address. Axes may be in any order of their strides but for the innermost one.
#[inline]
pub(super) fn check_strides(tensor: &TensorRef<'_>) -> Result<(), StrideProblem> {
    let (shape, strides) = (tensor.shape(), tensor.strides());
    let Some((inner, outer)) = strides.split_last() else { return Ok(()) };
    if *inner != 1 {
        return Err(StrideProblem::Inner);
    }
    // From the shortest stride to the longest.
    let mut order: [usize; MAX_RANK] = std::array::from_fn(|axis| axis);
    let order = &mut order[..outer.len()];
    order.reverse();
    if !outer.is_sorted_by(|a, b| a >= b) {
        order.sort_by_key(|axis| outer[*axis]);
    }
    // Elements from the first to one past the last, of the axes inside.
    let mut inside = shape[outer.len()];
    for &axis in &*order {
        let stride = &outer[axis];
        if *stride as u64 > i32::MAX as u64 {
            return Err(if *stride < 0 {
                StrideProblem::Overlap { axis, least: inside }
            } else {
                StrideProblem::Range { axis }
            });
        }
        // An axis of one element steps over nothing.
        if *stride < inside && shape[axis] > 1 {
            return Err(StrideProblem::Overlap { axis, least: inside });
        }
        // Both are below 2^31, so this cannot overflow.
        inside = inside.saturating_add((shape[axis] - 1).max(0).saturating_mul(*stride));
    }
    Ok(())
}

/// Whether two tensors whose address ranges overlap share an element. Column ranges of one matrix do not; where that
/// cannot be seen at once, they are taken to.
#[cold]
pub(super) fn share_elements(a: &TensorRef<'_>, b: &TensorRef<'_>) -> bool {
    if a.bytes() == 0 || b.bytes() == 0 {
        return false;
    }
    let (&[_, columns_a], &[_, columns_b], &[pitch_a, _], &[pitch_b, _]) =
        (a.shape(), b.shape(), a.strides(), b.strides())
    else {
        return true;
    };
    let (size_a, size_b) = (i64::from(a.dtype().bytes()), i64::from(b.dtype().bytes()));
    let pitch = pitch_a * size_a;
    if pitch != pitch_b * size_b || pitch <= 0 {
        return true;
    }
    let distance = (b.address().wrapping_sub(a.address()) as i64).rem_euclid(pitch);
    // `b` starts `distance` bytes into one of `a`'s rows (or where one would be).
    distance < columns_a * size_a || distance + columns_b * size_b > pitch
}
