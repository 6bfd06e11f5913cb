//! RMSNorm, LayerNorm and softmax.

use super::*;
use tile_kernel_examples::data::normal;
use tile_kernel_examples::rows as reference;
use tile_kernels::{norm, softmax::softmax as softmax_of};

/// Rows for every way to share them: a warp's, several warps', and those that are read twice.
const SHAPES: [[usize; 2]; 12] = [
    [0, 64],
    [1, 1],
    [3, 100],
    [9, 256],
    [5, 1000],
    [3, 1032],
    [1, 3000],
    [2, 4096],
    [2, 6000],
    [2, 7000],
    [1, 8184],
    [2, 8200],
];

const EPSILON: f32 = 1e-5;

/// Every shape in every place, but the long ones in one only.
fn places() -> impl Iterator<Item = ([usize; 2], [usize; 2])> {
    SHAPES
        .into_iter()
        .flat_map(|shape| MARGINS.into_iter().map(move |margins| (shape, margins)))
        .filter(|([_, n], margins)| *n <= 1032 || *margins == MARGINS[n / 8 % 2])
}

pub fn rms_norm<T: Rounded>(device: &Device) -> Bits {
    let mut all = Vec::new();
    for (shape @ [m, n], margins) in places() {
        let (x, weight) = (normal::<T>(n as u64, m * n), normal::<T>(1, n));
        let x_device = Framed::new(device, &x, shape, margins);
        let mut y = Framed::unwritten(device, shape, margins);
        let weight_device = device.tensor(&weight, [n]).unwrap();
        norm::rms_norm(device, x_device.view(), &weight_device, y.view_mut(), EPSILON).unwrap();
        let y = y.to_vec();
        let wanted = reference::rms_norm(&wide(&x), &wide(&weight), f64::from(EPSILON));
        close(&y, &wanted, T::EPSILON + 1e-5, 1e-7, &format!("{shape:?} {margins:?}"));
        all.extend(bits(&y));
    }
    all
}

pub fn add_rms_norm<T: Rounded>(device: &Device) -> Bits {
    let mut all = Vec::new();
    for (shape @ [m, n], margins) in places() {
        let (x, residual, weight) = (normal::<T>(n as u64, m * n), normal::<T>(2, m * n), normal::<T>(1, n));
        let x_device = Framed::new(device, &x, shape, margins);
        let mut residual_device = Framed::new(device, &residual, shape, margins);
        let mut y = Framed::unwritten(device, shape, margins);
        let weight_device = device.tensor(&weight, [n]).unwrap();
        let (stream, added) = (device, residual_device.view_mut());
        norm::add_rms_norm(stream, x_device.view(), added, &weight_device, y.view_mut(), EPSILON).unwrap();
        let sum: Vec<T> = x.iter().zip(&residual).map(|(a, b)| T::from_f32(a.to_f32() + b.to_f32())).collect();
        let what = format!("{shape:?} {margins:?}");
        close(&residual_device.to_vec(), &wide(&sum), 0.0, 0.0, &what);
        let y = y.to_vec();
        let wanted = reference::rms_norm(&wide(&sum), &wide(&weight), f64::from(EPSILON));
        close(&y, &wanted, T::EPSILON + 1e-5, 1e-7, &what);
        all.extend(bits(&y));
    }
    all
}

pub fn layer_norm<T: Rounded>(device: &Device) -> Bits {
    let mut all = Vec::new();
    for (shape @ [m, n], margins) in places() {
        let (x, weight, bias) = (normal::<T>(n as u64, m * n), normal::<T>(1, n), normal::<T>(2, n));
        all.extend(layer_norm_of(device, shape, margins, [&x, &weight, &bias]));
    }
    all
}

/// Rows whose mean is a thousand times their deviation: sums of squares alone would lose most of it.
pub fn layer_norm_far_from_zero(device: &Device) -> Bits {
    let of = |shape: [usize; 2], margins: [usize; 2]| {
        let [m, n] = shape;
        let x: Vec<f32> = normal::<f32>(3, m * n).iter().map(|v| v + 1000.0).collect();
        layer_norm_of(device, shape, margins, [&x, &normal::<f32>(1, n), &normal::<f32>(2, n)])
    };
    [of([2, 1000], [0, 0]), of([2, 1000], [3, 2]), of([1, 5000], [0, 0])].concat()
}

/// Rows that begin with what is far from all the rest. Differences are from the mean of a row's first vector, of 4 elements: the variance is right to N / 4 ulp.
pub fn layer_norm_after_outliers(device: &Device) -> Bits {
    let mut all = Vec::new();
    for (outliers, n) in [(1, 1000), (4, 1500), (7, 4096), (2, 5000)] {
        let mut x = normal::<f32>(n as u64, n);
        x.iter_mut().take(outliers).for_each(|v| *v += 3000.0);
        let [ones, zeros] = [1.0f32, 0.0].map(|value| vec![value; n]);
        let [weight, bias] = [&ones, &zeros].map(|values| device.tensor(values, [n]).unwrap());
        let (row, mut y) = (device.tensor(&x, [1, n]).unwrap(), device.zeros::<f32, 2>([1, n]).unwrap());
        norm::layer_norm(device, &row, &weight, &bias, &mut y, EPSILON).unwrap();
        let (y, wanted) =
            (y.to_vec().unwrap(), reference::layer_norm(&wide(&x), &wide(&ones), &wide(&zeros), f64::from(EPSILON)));
        close(&y, &wanted, 1e-5 + n as f64 / 4.0 * f64::from(f32::EPSILON), 1e-5, &format!("{outliers} of {n}"));
        all.extend(bits(&y));
    }
    all
}

/// A row has the same bits among few rows and among many, which fewer threads share each.
pub fn layer_norm_among_many_rows(device: &Device) {
    let (m, n) = (513, 1500);
    let [weight, bias] = [1, 2].map(|seed| device.tensor(&normal::<f32>(seed, n), [n]).unwrap());
    let x = normal::<f32>(3, m * n);
    let of = |rows: usize| {
        let x = device.tensor(&x[..rows * n], [rows, n]).unwrap();
        let mut y = device.zeros::<f32, 2>([rows, n]).unwrap();
        norm::layer_norm(device, &x, &weight, &bias, &mut y, EPSILON).unwrap();
        bits(&y.to_vec().unwrap())
    };
    let (few, many) = (of(3), of(m));
    assert!(few[..] == many[..few.len()], "a row depends on how many there are");
}

fn layer_norm_of<T: Rounded>(
    device: &Device,
    shape: [usize; 2],
    margins: [usize; 2],
    [x, weight, bias]: [&[T]; 3],
) -> Bits {
    let n = shape[1];
    let x_device = Framed::new(device, x, shape, margins);
    let mut y = Framed::unwritten(device, shape, margins);
    let [weight_device, bias_device] = [weight, bias].map(|values| device.tensor(values, [n]).unwrap());
    norm::layer_norm(device, x_device.view(), &weight_device, &bias_device, y.view_mut(), EPSILON).unwrap();
    let y = y.to_vec();
    let wanted = reference::layer_norm(&wide(x), &wide(weight), &wide(bias), f64::from(EPSILON));
    // The mean is rounded to f32, which shows where it is large.
    let largest = wide(x).iter().fold(0.0, |most: f64, v| most.max(v.abs()));
    close(&y, &wanted, T::EPSILON + 1e-5, 1e-5 + largest * 1e-6, &format!("{shape:?} {margins:?}"));
    bits(&y)
}

pub fn softmax<T: Rounded>(device: &Device) -> Bits {
    let mut all = Vec::new();
    // The long ones take every way to share a row, and the one that reads it twice.
    let long = [[1, 10_000], [1, 20_000], [1, 40_000]].map(|shape| (shape, MARGINS[0]));
    for (shape @ [m, n], margins) in places().chain(long) {
        let mut x = normal::<T>(n as u64, m * n);
        // Some far from others, some that have no weight, and a first row that has one element with any.
        x.iter_mut().step_by(7).for_each(|v| *v = T::from_f32(v.to_f32() * 30.0));
        x.iter_mut().skip(5).step_by(6).for_each(|v| *v = T::from_f32(f32::NEG_INFINITY));
        x.iter_mut().take(n).skip(1).for_each(|v| {
            if m > 2 {
                *v = T::from_f32(f32::NEG_INFINITY)
            }
        });
        let x_device = Framed::new(device, &x, shape, margins);
        let mut y = Framed::unwritten(device, shape, margins);
        softmax_of(device, x_device.view(), y.view_mut()).unwrap();
        let (y, wanted) = (y.to_vec(), reference::softmax(&wide(&x), n));
        close(&y, &wanted, T::EPSILON + 3e-5, 1e-7, &format!("{shape:?} {margins:?}"));
        all.extend(bits(&y));
    }
    // Nothing but -inf, and a NaN.
    for row in [[f32::NEG_INFINITY; 16], [f32::NAN; 16]] {
        let mut y = device.zeros::<T, 2>([1, 16]).unwrap();
        softmax_of(device, &device.tensor(&row.map(T::from_f32), [1, 16]).unwrap(), &mut y).unwrap();
        assert!(y.to_vec().unwrap().iter().all(|value| value.to_f32().is_nan()));
    }
    all
}
