//! What lanes read from each other by number and from below, and where the greatest or least value of a group is; against the
//! host on both simulators, and on a GPU where there is one.

use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

/// `shfl_up` by a distance, `shfl` of one lane for all, and of a lane each.
#[tile_kernel]
pub fn exchanged<T: Float>(x: &Tensor<T, (N,)>, y: &mut Tensor<T, (Fixed<3>, N)>, lane: usize) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let v = x.masked([b * 64 + t]);
    let below = shfl_up(v, 3);
    let one = shfl(v, lane);
    let other = shfl(v, (t * 7 + 1) % 32);
    if b * 64 + t < N {
        y[[0, b * 64 + t]] = below;
        y[[1, b * 64 + t]] = one;
        y[[2, b * 64 + t]] = other;
    }
}

/// The inclusive sum of the values of a warp, by `shfl_up`.
#[tile_kernel]
pub fn scanned(x: &Tensor<u32, (N,)>, y: &mut Tensor<u32, (N,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let mut sum = x.masked([b * 32 + t]);
    for step in unroll(0..5) {
        let below = shfl_up(sum, 1 << step);
        if t >= 1 << step {
            sum += below;
        }
    }
    *y.masked_mut([b * 32 + t]) = sum;
}

/// What every lane of a warp agrees on, because one lane says it, is no condition that lanes disagree on.
#[tile_kernel]
pub fn led(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let v = x.masked([b * 64 + t]);
    let first = shfl(v, 0);
    let mut sum = 0.0f32;
    if first > 0.0 {
        sum = warp_reduce(Sum, v);
    }
    *y.masked_mut([b * 64 + t]) = sum;
}

/// The greatest and the least of a row and where they are, by groups of threads of any number, and by warps.
#[tile_kernel(instances((TK, TN) in [(32, 2), (8, 4), (128, 1), (48, 2), (5, 3)]))]
pub fn found<T: Float, const TK: usize, const TN: usize>(
    x: &Tensor<T, (M, N)>,
    best: &mut Tensor<T, (Fixed<2>, M)>,
    at: &mut Tensor<u32, (Fixed<2>, M)>,
) {
    let [b] = blocks([ceil_div(M, TN)]);
    let [tk, tn] = threads([TK, TN]);
    let row = b * TN + tn;
    let mut most = T::NEG_INFINITY;
    let mut most_at = u32::MAX;
    let mut least = T::INFINITY;
    let mut least_at = u32::MAX;
    for k in 0..ceil_div(N, TK) {
        let column = k * TK + tk;
        if row < M && column < N {
            let v = x[[row, column]];
            if v > most {
                most = v;
                most_at = column as u32;
            }
            if v < least {
                least = v;
                least_at = column as u32;
            }
        }
    }
    let (greatest, greatest_at) = thread_argmax(most, most_at, tk);
    let (mut smallest, smallest_at) = thread_argmin(least, least_at, tk);
    smallest += T::ZERO;
    if tk == 0 && row < M {
        best[[0, row]] = greatest;
        at[[0, row]] = greatest_at;
        best[[1, row]] = smallest;
        at[[1, row]] = smallest_at;
    }
}

/// Of the integers of a warp, by lane.
#[tile_kernel]
pub fn by_warp(x: &Tensor<i32, (N,)>, at: &mut Tensor<u32, (Fixed<2>, N)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let v = x.masked([b * 64 + t]);
    let (_, most) = warp_argmax(v, (t % 32) as u32);
    let (_, least) = warp_argmin(v, (t % 32) as u32);
    if b * 64 + t < N {
        at[[0, b * 64 + t]] = most;
        at[[1, b * 64 + t]] = least;
    }
}

fn agree<T: PartialEq + std::fmt::Debug>(name: &str, found: &[T], wanted: impl Fn(usize) -> T) {
    for (i, found) in found.iter().enumerate() {
        assert_eq!(*found, wanted(i), "{name}: {i}");
    }
}

#[test]
fn lanes_are_read_by_number_and_from_below() {
    let n = 150;
    let x: Vec<f32> = (0..n).map(|i| i as f32 + 1.0).collect();
    let at = |i: usize| x.get(i).copied().unwrap_or(0.0);
    for device in devices() {
        let name = format!("{device:?}");
        for lane in [0, 5, 31] {
            let data = device.tensor(&x, [n]).unwrap();
            let mut y = device.zeros::<f32, 2>([3, n]).unwrap();
            exchanged::<f32>::launch(&device, &data, &mut y, lane).unwrap();
            let y = y.to_vec().unwrap();
            agree(&name, &y[..n], |i| if i % 32 < 3 { at(i) } else { at(i - 3) });
            agree(&name, &y[n..2 * n], |i| at(i / 32 * 32 + lane));
            agree(&name, &y[2 * n..], |i| at(i / 32 * 32 + (i % 64 * 7 + 1) % 32));
            let halves: Vec<f16> = x.iter().map(|v| f16::from_f32(*v)).collect();
            let data = device.tensor(&halves, [n]).unwrap();
            let mut y = device.zeros::<f16, 2>([3, n]).unwrap();
            exchanged::<f16>::launch(&device, &data, &mut y, lane).unwrap();
            agree(&name, &y.to_vec().unwrap()[n..2 * n], |i| f16::from_f32(at(i / 32 * 32 + lane)));
        }
        let data = device.tensor(&x, [n]).unwrap();
        let mut y = device.zeros::<f32, 2>([3, n]).unwrap();
        let error = exchanged::<f32>::launch(&device, &data, &mut y, 32).unwrap_err().to_string();
        assert!(error.contains("lane of a shuffle is below 32"), "{name}: {error}");
    }
}

#[test]
fn a_scan_of_a_warp() {
    let n = 100;
    let x: Vec<u32> = (0..n as u32).map(|i| i * i + 1).collect();
    for device in devices() {
        let name = format!("{device:?}");
        let data = device.tensor(&x, [n]).unwrap();
        let mut y = device.zeros::<u32, 1>([n]).unwrap();
        scanned::launch(&device, &data, &mut y).unwrap();
        agree(&name, &y.to_vec().unwrap(), |i| x[i / 32 * 32..=i].iter().sum());
    }
}

#[test]
fn one_lane_decides_for_its_warp() {
    let n = 128;
    let x: Vec<f32> = (0..n).map(|i| if i / 32 % 2 == 0 { 1.0 } else { -1.0 }).collect();
    for device in devices() {
        let name = format!("{device:?}");
        let data = device.tensor(&x, [n]).unwrap();
        let mut y = device.zeros::<f32, 1>([n]).unwrap();
        led::launch(&device, &data, &mut y).unwrap();
        agree(&name, &y.to_vec().unwrap(), |i| if i / 32 % 2 == 0 { 32.0 } else { 0.0 });
    }
}

/// The first greatest (or least) of what is no NaN.
fn first(row: &[f32], better: impl Fn(f32, f32) -> bool) -> u32 {
    let mut best: Option<usize> = None;
    for (i, v) in row.iter().enumerate().filter(|(_, v)| !v.is_nan()) {
        if best.is_none_or(|b| better(*v, row[b])) {
            best = Some(i);
        }
    }
    best.map_or(u32::MAX, |i| i as u32)
}

/// Rows with ties, NaNs, and nothing but NaNs.
fn rows(m: usize, n: usize) -> Vec<f32> {
    let value = |i: usize, j: usize| match (i, (i * 31 + j * 17) % 11) {
        (3, _) => f32::NAN,
        (_, 0) => f32::NAN,
        (_, k) => k as f32 - 5.0,
    };
    (0..m * n).map(|at| value(at / n, at % n)).collect()
}

macro_rules! compare {
    ($ty:ident, $x:expr, $m:expr, $n:expr; $(($tk:literal, $tn:literal)),*) => {$(
        for device in devices() {
            let name = format!("{device:?}, {} x {} in groups of {}", $m, $n, $tk);
            let typed: Vec<$ty> = $x.iter().map(|v| $ty::from_f32(*v)).collect();
            let data = device.tensor(&typed, [$m, $n]).unwrap();
            let mut best = device.zeros::<$ty, 2>([2, $m]).unwrap();
            let mut at = device.zeros::<u32, 2>([2, $m]).unwrap();
            found::<$ty, $tk, $tn>::launch(&device, &data, &mut best, &mut at).unwrap();
            let (best, at) = (best.to_vec().unwrap(), at.to_vec().unwrap());
            for i in 0..$m {
                let row = &$x[i * $n..(i + 1) * $n];
                let wanted = [first(row, |a, b| a > b), first(row, |a, b| a < b)];
                assert_eq!([at[i], at[$m + i]], wanted, "{name}: row {i}");
                for (found, at, none) in [(best[i], wanted[0], f32::NEG_INFINITY), (best[$m + i], wanted[1], f32::INFINITY)] {
                    let value = row.get(at as usize).copied().unwrap_or(none);
                    assert_eq!(found.to_f32(), value, "{name}: row {i}");
                }
            }
        }
    )*};
}

/// So that a macro converts all types alike.
trait Same {
    fn from_f32(value: f32) -> f32;
    fn to_f32(self) -> f32;
}

impl Same for f32 {
    fn from_f32(value: f32) -> f32 {
        value
    }
    fn to_f32(self) -> f32 {
        self
    }
}

#[test]
fn the_least_index_of_the_greatest_is_found() {
    for (m, n) in [(7, 1), (9, 37), (4, 300)] {
        let x = rows(m, n);
        compare!(f32, x, m, n; (32, 2), (8, 4), (128, 1), (48, 2), (5, 3));
        compare!(f16, x, m, n; (32, 2), (48, 2));
        compare!(bf16, x, m, n; (8, 4));
    }
}

#[test]
fn warps_find_integers() {
    let n = 128;
    let x: Vec<i32> = (0..n as i32).map(|i| i * 37 % 19 - 9).collect();
    for device in devices() {
        let data = device.tensor(&x, [n]).unwrap();
        let mut at = device.zeros::<u32, 2>([2, n]).unwrap();
        by_warp::launch(&device, &data, &mut at).unwrap();
        let at = at.to_vec().unwrap();
        for i in 0..n {
            let row: Vec<f32> = x[i / 32 * 32..i / 32 * 32 + 32].iter().map(|v| *v as f32).collect();
            assert_eq!(at[i], first(&row, |a, b| a > b));
            assert_eq!(at[n + i], first(&row, |a, b| a < b));
        }
    }
}
