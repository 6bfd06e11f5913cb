//! RMSNorm, LayerNorm and softmax.

use super::*;
use tile_kernel_examples::data::normal;
use tile_kernel_examples::rows as reference;
use tile_kernels::{norm, softmax::softmax as softmax_of};

/// Rows for every way to share them: a warp's, several warps', and those that are read twice.
const SHAPES: [[usize; 2]; 11] =
    [[0, 64], [1, 1], [3, 100], [9, 256], [5, 1000], [3, 1032], [1, 3000], [2, 4096], [2, 6000], [1, 8184], [2, 8200]];

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
