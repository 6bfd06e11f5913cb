//! Functions of a number: trigonometry, powers, roundings to whole numbers, and the integer functions that counter-based random
//! numbers are made of; against the host's own on both simulators, and on a GPU where there is one.

use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

/// Exact functions, a row of `y` each.
#[tile_kernel]
pub fn roundings<T: Float>(x: &Tensor<T, (N,)>, y: &mut Tensor<T, (Fixed<5>, N)>, nan: &mut Tensor<bool, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i < N {
        let v = x[i];
        y[[0, i]] = floor(v);
        y[[1, i]] = ceil(v);
        y[[2, i]] = trunc(v);
        y[[3, i]] = round(v);
        y[[4, i]] = round_ties_even(v);
        nan[i] = is_nan(v) || is_nan(x[i] * T::ZERO);
    }
}

/// Functions with a stated error, a row of `y` each.
#[tile_kernel]
pub fn inexact<T: Float>(x: &Tensor<T, (N,)>, e: &Tensor<T, (N,)>, y: &mut Tensor<T, (Fixed<5>, N)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let i = b * 64 + t;
    if i < N {
        y[[0, i]] = sin(x[i]);
        y[[1, i]] = cos(x[i]);
        y[[2, i]] = pow(abs(x[i]), e[i]);
        y[[3, i]] = fast::sin(min(x[i], lit(3.0)));
        y[[4, i]] = fast::cos(min(x[i], lit(3.0)));
    }
}

/// Functions of integers, a row of the outputs each; and what is known of a count of bits: it is no further than 32.
#[tile_kernel]
pub fn bits(
    a: &Tensor<u32, (N,)>,
    b: &Tensor<u32, (N,)>,
    y: &mut Tensor<u32, (Fixed<5>, N)>,
    z: &mut Tensor<i32, (Fixed<2>, N)>,
    table: &Tensor<f32, (Fixed<33>,)>,
    looked_up: &mut Tensor<f32, (N,)>,
    words: &mut Tensor<u32, (N,)>,
) {
    let [block] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let i = block * 64 + t;
    if i < N {
        y[[0, i]] = mul_hi(a[i], b[i]);
        y[[1, i]] = mul_hi(a[i], 0xD251_1F53);
        y[[2, i]] = count_ones(a[i]);
        y[[3, i]] = leading_zeros(a[i]);
        y[[4, i]] = trailing_zeros(a[i]);
        z[[0, i]] = mul_hi(a[i] as i32, b[i] as i32);
        // A difference of counts is negative where it is computed with a sign.
        z[[1, i]] = count_ones(a[i] as i32) - count_ones(b[i] as i32);
        looked_up[i] = table[count_ones(a[i]) as usize];
        words[i] = to_bits(a[i] as f32 * -1.5);
    }
}

/// Philox 4x32-10, the generator of cuRAND, PyTorch and JAX: four random words of a counter and a key.
#[tile_kernel]
pub fn philox(y: &mut Tensor<u32, (N, Fixed<4>)>, seed: u32, stream: u32) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    let mut c0 = i as u32;
    let mut c1 = 0u32;
    let mut c2 = stream;
    let mut c3 = 0u32;
    let mut k0 = seed;
    let mut k1 = 0x5851_F42Du32;
    for _round in unroll(0..10) {
        let high0 = mul_hi(c0, 0xD251_1F53);
        let low0 = c0 * 0xD251_1F53;
        let high1 = mul_hi(c2, 0xCD9E_8D57);
        let low1 = c2 * 0xCD9E_8D57;
        c0 = high1 ^ c1 ^ k0;
        c2 = high0 ^ c3 ^ k1;
        c1 = low1;
        c3 = low0;
        k0 += 0x9E37_79B9;
        k1 += 0xBB67_AE85;
    }
    if i < N {
        y[[i, 0]] = c0;
        y[[i, 1]] = c1;
        y[[i, 2]] = c2;
        y[[i, 3]] = c3;
    }
}

fn philox_on_host(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let ([mut c0, mut c1, mut c2, mut c3], [mut k0, mut k1]) = (counter, key);
    for _ in 0..10 {
        let (p0, p1) = (u64::from(c0) * 0xD251_1F53, u64::from(c2) * 0xCD9E_8D57);
        (c0, c1, c2, c3) = ((p1 >> 32) as u32 ^ c1 ^ k0, p1 as u32, (p0 >> 32) as u32 ^ c3 ^ k1, p0 as u32);
        (k0, k1) = (k0.wrapping_add(0x9E37_79B9), k1.wrapping_add(0xBB67_AE85));
    }
    [c0, c1, c2, c3]
}

/// Halves, whole numbers, signs, both zeros, what is too large to have a fraction, and what is no number.
fn numbers<T: Real>() -> Vec<T> {
    let mut all: Vec<f32> = (-40..40).map(|i| i as f32 * 0.25).collect();
    all.extend([-0.0, 1e-8, -1e-8, 0.499_999_97, -0.499_999_97, 8_388_607.5, 8_388_609.0, -3.4e38, 65504.0, 1e10]);
    all.extend([f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
    all.into_iter().map(T::from_f32).collect()
}

/// An element type and its neighbours on the host.
trait Real: Float {
    const EPSILON: f64;
    fn from_f32(value: f32) -> Self;
    fn to_f32(self) -> f32;
}

macro_rules! reals {
    ($($ty:ty, $epsilon:expr, $from:expr, $to:expr;)*) => {$(
        impl Real for $ty {
            const EPSILON: f64 = $epsilon;
            fn from_f32(value: f32) -> Self {
                $from(value)
            }
            fn to_f32(self) -> f32 {
                $to(self)
            }
        }
    )*};
}
reals! {
    f32, 1.0 / 8_388_608.0, |x| x, |x| x;
    f16, 1.0 / 1024.0, f16::from_f32, f16::to_f32;
    bf16, 1.0 / 128.0, bf16::from_f32, bf16::to_f32;
}

fn bits_of(value: f32) -> u32 {
    if value.is_nan() { u32::MAX } else { value.to_bits() }
}

macro_rules! exact {
    ($($ty:ty),*) => {$(
        let x = numbers::<$ty>();
        let n = x.len();
        let host: [fn(f32) -> f32; 5] = [f32::floor, f32::ceil, f32::trunc, f32::round, f32::round_ties_even];
        for device in devices() {
            let name = format!("{device:?}");
            let data = device.tensor(&x, [n]).unwrap();
            let mut y = device.zeros::<$ty, 2>([5, n]).unwrap();
            let mut nan = device.zeros::<bool, 1>([n]).unwrap();
            roundings::<$ty>::launch(&device, &data, &mut y, &mut nan).unwrap();
            let (y, nan) = (y.to_vec().unwrap(), nan.to_vec().unwrap());
            for (row, f) in host.iter().enumerate() {
                for (i, v) in x.iter().enumerate() {
                    let v = Real::to_f32(*v);
                    let (found, wanted) = (Real::to_f32(y[row * n + i]), Real::to_f32(<$ty as Real>::from_f32(f(v))));
                    assert_eq!(bits_of(found), bits_of(wanted), "{name}: row {row} of {v} is {found}");
                }
            }
            for (i, v) in x.iter().enumerate() {
                let v = Real::to_f32(*v);
                assert_eq!(nan[i], v.is_nan() || v.is_infinite(), "{name}: is_nan({v})");
            }
        }
    )*};
}

#[test]
fn roundings_are_exact() {
    exact!(f32, f16, bf16);
}

/// Whether `found` is within `ulps` units in the last place of f32, and the rounding to the type, of `wanted`.
fn close<T: Real>(found: T, wanted: f64, ulps: f64) -> bool {
    let found = f64::from(found.to_f32());
    let f32_error = ulps * wanted.abs() / 8_388_608.0;
    let rounding = if T::EPSILON > 1e-6 { wanted.abs() * T::EPSILON } else { 0.0 };
    (found - wanted).abs() <= f32_error + rounding + 1e-7 * T::EPSILON.min(1e-3)
}

macro_rules! stated {
    ($($ty:ty),*) => {$(
        let far = |i: usize| if i % 7 == 0 { 100.0 } else { 1.0 };
        let x: Vec<$ty> = (0..200).map(|i| <$ty as Real>::from_f32((i as f32 - 100.0) * 0.37 * far(i))).collect();
        let e: Vec<$ty> = (0..200).map(|i| <$ty as Real>::from_f32((i % 9) as f32 * 0.5 - 2.0)).collect();
        let n = x.len();
        for device in devices() {
            let name = format!("{device:?}");
            let (dx, de) = (device.tensor(&x, [n]).unwrap(), device.tensor(&e, [n]).unwrap());
            let mut y = device.zeros::<$ty, 2>([5, n]).unwrap();
            inexact::<$ty>::launch(&device, &dx, &de, &mut y).unwrap();
            let y = y.to_vec().unwrap();
            for i in 0..n {
                let (v, power) = (f64::from(Real::to_f32(x[i])), f64::from(Real::to_f32(e[i])));
                let at = |row: usize| y[row * n + i];
                assert!(close(at(0), v.sin(), 2.0), "{name}: sin({v}) is {}", at(0));
                assert!(close(at(1), v.cos(), 2.0), "{name}: cos({v}) is {}", at(1));
                let wanted = v.abs().powf(power);
                // f16 neither overflows nor becomes subnormal there.
                let ordinary = wanted < 60000.0 && wanted > 1e-3;
                assert!(!ordinary || close(at(2), wanted, 4.0), "{name}: pow({}, {power}) is {}", v.abs(), at(2));
                // An absolute error of 2^-21 within [-pi, pi].
                let near = v.min(3.0);
                if near.abs() < 3.1 {
                    let bound = 1.0 / 2_097_152.0 + <$ty as Real>::EPSILON;
                    let [sine, cosine] = [at(3), at(4)].map(|v| f64::from(Real::to_f32(v)));
                    assert!((sine - near.sin()).abs() <= bound, "{name}: fast::sin({near}) is {sine}");
                    assert!((cosine - near.cos()).abs() <= bound, "{name}: fast::cos({near}) is {cosine}");
                }
            }
        }
    )*};
}

#[test]
fn inexact_functions_keep_their_bounds() {
    stated!(f32, f16, bf16);
}

#[test]
fn integer_functions_are_exact() {
    let mut a = vec![0u32, 1, 2, 3, 0x8000_0000, u32::MAX, 0x7fff_ffff, 0x0001_0000];
    a.extend((0..150u32).map(|i| i.wrapping_mul(0x9E37_79B9) >> (i % 32)));
    let b: Vec<u32> = a.iter().rev().copied().collect();
    let n = a.len();
    let table: Vec<f32> = (0..33).map(|i| i as f32 * 10.0).collect();
    for device in devices() {
        let name = format!("{device:?}");
        let (da, db) = (device.tensor(&a, [n]).unwrap(), device.tensor(&b, [n]).unwrap());
        let table = device.tensor(&table, [33]).unwrap();
        let mut y = device.zeros::<u32, 2>([5, n]).unwrap();
        let mut z = device.zeros::<i32, 2>([2, n]).unwrap();
        let mut found = device.zeros::<f32, 1>([n]).unwrap();
        let mut words = device.zeros::<u32, 1>([n]).unwrap();
        bits::launch(&device, &da, &db, &mut y, &mut z, &table, &mut found, &mut words).unwrap();
        let (y, z, found) = (y.to_vec().unwrap(), z.to_vec().unwrap(), found.to_vec().unwrap());
        let words = words.to_vec().unwrap();
        let high = |a: u32, b: u32| ((u64::from(a) * u64::from(b)) >> 32) as u32;
        for i in 0..n {
            let at = |row: usize| y[row * n + i];
            let counts = [a[i].count_ones(), a[i].leading_zeros(), a[i].trailing_zeros()];
            assert_eq!([at(0), at(1)], [high(a[i], b[i]), high(a[i], 0xD251_1F53)], "{name}: {:#x}", a[i]);
            assert_eq!([at(2), at(3), at(4)], counts, "{name}: {:#x}", a[i]);
            let signed = (i64::from(a[i] as i32) * i64::from(b[i] as i32)) >> 32;
            let difference = a[i].count_ones() as i32 - b[i].count_ones() as i32;
            assert_eq!([z[i], z[n + i]], [signed as i32, difference], "{name}: {:#x}", a[i]);
            assert_eq!(found[i], counts[0] as f32 * 10.0, "{name}");
            assert_eq!(words[i], (a[i] as f32 * -1.5).to_bits(), "{name}: {:#x}", a[i]);
        }
    }
}

/// The access through a count of bits is proven, so that nothing guards it.
#[test]
fn a_count_of_bits_is_no_index_beyond_32() {
    let kernel = bits::definition().kernel().unwrap();
    let program = tile_ir::lower::lower(kernel, &kernel.instances[0], tile_ir::ir::Target::Sm80).unwrap();
    let text = tile_ir::emit::cuda::emit(&program);
    let line = text.lines().find(|line| line.contains("table[")).unwrap();
    assert!(line.contains("__popc") && !line.contains('?'), "{line}");
}

#[test]
fn philox_gives_the_reference_words() {
    // Known answers of Random123: of counter and key 0, and of all ones.
    assert_eq!(philox_on_host([0; 4], [0; 2]), [0x6627_E8D5, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8]);
    assert_eq!(philox_on_host([u32::MAX; 4], [u32::MAX; 2]), [0x408F_276D, 0x41C8_3B0E, 0xA20B_C7C6, 0x6D54_51FD]);
    let n = 300;
    for device in devices() {
        let mut y = device.zeros::<u32, 2>([n, 4]).unwrap();
        philox::launch(&device, &mut y, 0x1234_5678u32, 9u32).unwrap();
        let y = y.to_vec().unwrap();
        for i in 0..n {
            let wanted = philox_on_host([i as u32, 0, 9, 0], [0x1234_5678, 0x5851_F42D]);
            assert_eq!(y[4 * i..4 * i + 4], wanted, "{device:?}: {i}");
        }
    }
}
