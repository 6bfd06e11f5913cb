//! Indices that 32 bits may not hold, and indices below 0: safe kernels whose guards and masks once did not keep them in their
//! tensors. Every output is poisoned and lies amid poison, so that a store beside it is seen; one far away is for
//! `compute-sanitizer` to see, under which this test is run on a GPU. The simulators run it everywhere.

use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

/// What nothing here computes.
const POISON: f32 = -12345.0;
/// Poisoned elements before and behind an output on each axis.
const MARGIN: usize = 40;

/// The place of an element of a row-major tensor.
fn place<const R: usize>(shape: [usize; R], mut element: usize) -> [usize; R] {
    let mut at = [0; R];
    for axis in (0..R).rev() {
        at[axis] = element % shape[axis];
        element /= shape[axis];
    }
    at
}

/// The code of what a launch says whose greatest index is this one, where the launcher knows that 32 bits do not hold it.
fn too_large(greatest: usize) -> Option<&'static str> {
    (greatest > i32::MAX as usize).then_some("TK0705")
}

/// Launches on every device with an output of this shape amid poison. Afterwards an element of it is what `expected` says, `None`
/// for one that is not written; with an error, which must have the code `refused`, none is. Nothing else changes.
fn check<const R: usize>(
    shape: [usize; R],
    refused: Option<&str>,
    launch: impl Fn(&Device, TensorViewMut<'_, f32, R>) -> Result<(), LaunchError>,
    expected: impl Fn([usize; R]) -> Option<f32>,
) {
    let around = shape.map(|extent| extent + 2 * MARGIN);
    let elements = around.iter().product();
    for device in devices() {
        let mut whole = device.tensor(&vec![POISON; elements], around).unwrap();
        let output = whole.slice_mut(shape.map(|extent| MARGIN..MARGIN + extent)).unwrap();
        match (launch(&device, output), refused) {
            (Ok(()), None) => {}
            (Err(error), Some(code)) if error.to_string().contains(code) => {}
            (found, _) => panic!("{device:?}, {shape:?}: {found:?}, where {refused:?} was expected"),
        }
        for (element, value) in whole.to_vec().unwrap().into_iter().enumerate() {
            let at = place(around, element).map(|index| index.wrapping_sub(MARGIN));
            let is_inside = at.iter().zip(&shape).all(|(index, extent)| index < extent);
            let wanted = if is_inside && refused.is_none() { expected(at) } else { None };
            assert_eq!(value, wanted.unwrap_or(POISON), "{device:?}, {shape:?}: element {at:?}");
        }
    }
}

/// Thread 31 is at 2^31, which is -2^31 as an `int`.
#[tile_kernel(partial(y))]
fn powers(y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([32]);
    let i = 1 << t;
    if i < N {
        y[i] = t as f32;
    }
}

#[test]
fn powers_of_two() {
    for n in [1, 2, 700] {
        check([n], None, |on, y| powers::launch(on, y), |[i]| i.is_power_of_two().then(|| i.ilog2() as f32));
    }
}

/// A shift that the launcher knows.
#[tile_kernel(partial(y))]
fn shifted(y: &mut Tensor<f32, (N,)>, shift: usize) {
    let [b] = blocks([4]);
    let [t] = threads([32]);
    let i = (b * 32 + t) << shift;
    if i < N {
        y[i] = 1.0;
    }
}

#[test]
fn a_shift_by_a_scalar() {
    for shift in [0, 1, 5, 24, 25, 31] {
        let expected = |[i]: [usize; 1]| (i % (1 << shift) == 0 && i >> shift < 128).then_some(1.0);
        check([300], None, |on, y| shifted::launch(on, y, shift), expected);
    }
    check([300], Some("TK0306"), |on, y| shifted::launch(on, y, 32), |_| None);
}

/// No factor is large, and the product may be.
#[tile_kernel(partial(y))]
fn multiplied(y: &mut Tensor<f32, (N,)>, p: usize, q: usize, r: usize) {
    let [b] = blocks([3]);
    let [t] = threads([32]);
    let i = p * q * r * b * t;
    if i < N && b > 0 {
        atomic_add(&mut y[i], 1.0);
    }
}

#[test]
fn a_product_of_five() {
    // Of (2^15, 2^15, 2) thread 1 of block 2 is at 2^32, whose low bits are those of 0.
    for (p, q, r) in [(1, 1, 1), (2, 3, 5), (33, 1000, 1000), (1 << 10, 1 << 10, 1 << 10), (1 << 15, 1 << 15, 2)] {
        let expected = |[i]: [usize; 1]| {
            let hits = (1..3).flat_map(|b| (0..32).map(move |t| p * q * r * b * t)).filter(|at| *at == i).count();
            (hits > 0).then_some(POISON + hits as f32)
        };
        check([200], too_large(p * q * r * 62), |on, y| multiplied::launch(on, y, p, q, r), expected);
    }
}

/// Operations on bits have no closed form, and what is made of data the launcher does not know: 64 bits.
#[tile_kernel(partial(y))]
fn swapped(numbers: &Tensor<u32, (Fixed<64>,)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([64]);
    let i = (numbers[t] as usize ^ 1) * 4;
    if i < N {
        y[i] = t as f32;
    }
}

#[test]
fn bits_times_four() {
    // Of 2^30 four times as much is 2^32, whose low bits are those of 0.
    for first in [0, 6, (1 << 29) - 8, 1 << 29, (1 << 30) - 2, 1 << 30, (1 << 32) - 64] {
        let numbers: Vec<u32> = (0..64).map(|t| (first + t) as u32).collect();
        let expected = |[i]: [usize; 1]| {
            let t = ((i / 4) ^ 1).checked_sub(first).filter(|t| *t < 64);
            t.filter(|_| i % 4 == 0).map(|t| t as f32)
        };
        let launch =
            |on: &Device, y: TensorViewMut<'_, f32, 1>| swapped::launch(on, &on.tensor(&numbers, [64]).unwrap(), y);
        check([250], None, launch, expected);
    }
}

/// Tiles of 8 x 32, whose order the launch decides.
#[tile_kernel]
fn ordered(y: &mut Tensor<f32, (M, N)>, panel: usize) {
    let [bx, by] = blocks([ceil_div(N, 32), ceil_div(M, 8)]);
    let [t] = threads([32]);
    use_swizzle(panel);
    let column = bx * 32 + t;
    for r in 0..8 {
        let row = by * 8 + r;
        if row < M && column < N {
            y[[row, column]] = (row * 1000 + column) as f32;
        }
    }
}

#[test]
fn panels_of_any_height() {
    for panel in [1, 3, 8, 1 << 16, (1 << 31) - 1] {
        check([45, 100], None, |on, y| ordered::launch(on, y, panel), |[i, j]| Some((i * 1000 + j) as f32));
    }
}

/// Places of 32 bits, of which the greatest are negative as an `int`.
#[tile_kernel(partial(y))]
fn scattered(places: &Tensor<u32, (K,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(K, 32)]);
    let [t] = threads([32]);
    if b * 32 + t < K {
        let i = places[b * 32 + t] as usize;
        if i < N {
            atomic_add(&mut y[i], 1.0);
        }
    }
}

#[test]
fn unsigned_places() {
    let near = |place: u32| [place.wrapping_sub(1), place, place.wrapping_add(1)];
    let places: Vec<u32> = [0, 70, 99, 1 << 31, (1 << 31) + 70, u32::MAX - 5].into_iter().flat_map(near).collect();
    let expected = |[i]: [usize; 1]| {
        let hits = places.iter().filter(|place| **place as usize == i).count();
        (hits > 0).then_some(POISON + hits as f32)
    };
    let launch = |on: &Device, y: TensorViewMut<'_, f32, 1>| {
        scattered::launch(on, &on.tensor(&places, [places.len()]).unwrap(), y)
    };
    check([100], None, launch, expected);
}

/// A step that is known at the launch: `k + step` may not fit where `k` does.
#[tile_kernel]
fn stepped(x: &Tensor<f32, (K,)>, y: &mut Tensor<f32, (N,)>, step: usize) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    if b * 32 + t < N {
        let mut sum = 0.0f32;
        for k in (b * 32 + t..K).step_by(step) {
            sum += x[k];
        }
        y[b * 32 + t] = sum;
    }
}

#[test]
fn a_step_known_at_the_launch() {
    let x: Vec<f32> = (0..100).map(|k| (k % 7) as f32).collect();
    let launch =
        |on: &Device, y: TensorViewMut<'_, f32, 1>, step| stepped::launch(on, &on.tensor(&x, [100]).unwrap(), y, step);
    for step in [1, 2, 33, 99, 1 << 30, (1 << 31) - 100, (1 << 31) - 99, (1 << 31) - 1] {
        let expected = |[n]: [usize; 1]| Some((n..100).step_by(step).map(|k| x[k]).sum());
        check([50], too_large(step + 99), |on, y| launch(on, y, step), expected);
    }
    check([50], Some("TK0306"), |on, y| launch(on, y, 0), |_| None);
}

/// Row 0 and column 0 of what is read and written lie `up` and `left` before the tensors.
#[tile_kernel(partial(y))]
fn masked_before(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>, up: usize, left: usize) {
    let [b] = blocks([M + up]);
    let [t] = threads([128]);
    *y.masked_mut([b - up, t - left]) = x.masked([b - 2 * up, t - 2 * left]) + 1.0;
}

/// [`masked_before`] by tiles.
#[tile_kernel(instances((UP, LEFT) in [(0, 0), (1, 0), (0, 1), (0, 16), (3, 5)]), partial(y))]
fn tiles_before<const UP: usize, const LEFT: usize>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let [bx, by] = blocks([ceil_div(N + LEFT, 32), ceil_div(M + UP, 16)]);
    threads([128]);
    let mut tile = alloc_shared::<f32>([16, 32]);
    let mut sum = alloc_fragment::<f32>([16, 32]);
    copy(x.at([by * 16 - 2 * UP, bx * 32 - 2 * LEFT]), &mut tile);
    for [i, j] in parallel([16, 32]) {
        sum[[i, j]] = tile[[i, j]] + 1.0;
    }
    copy(&sum, y.at_mut([by * 16 - UP, bx * 32 - LEFT]));
}

#[test]
fn what_begins_before_its_tensor() {
    let (m, n) = (21, 70);
    let x: Vec<f32> = (0..m * n).map(|i| (i % 1000) as f32).collect();
    let data = |on: &Device| on.tensor(&x, [m, n]).unwrap();
    for (up, left) in [(0, 0), (1, 0), (0, 1), (0, 16), (3, 5)] {
        let read = |i: usize, j: usize| i.checked_sub(up).and_then(|i| Some(x[i * n + j.checked_sub(left)?]));
        let expected = |[i, j]: [usize; 2]| Some(read(i, j).unwrap_or(0.0) + 1.0);
        check([m, n], None, |on, y| masked_before::launch(on, &data(on), y, up, left), expected);
        let params = TilesBeforeParams { UP: up, LEFT: left };
        let launch =
            |on: &Device, y: TensorViewMut<'_, f32, 2>| tiles_before::instance(on, params)?.launch(&data(on), y);
        check([m, n], None, launch, expected);
    }
    // So far before it that nothing is written.
    for left in [1 << 29, 1 << 30] {
        let launch = |on: &Device, y: TensorViewMut<'_, f32, 2>| masked_before::launch(on, &data(on), y, 4, left);
        check([m, n], too_large(2 * left), launch, |_| None);
    }
}
