//! Places in and out: argmax, top-k, gather.

use super::*;
use tile_cookbook::{argmax, gather, top_k};

fn argmax_of<T: Rounded>() {
    for [m, n] in [[1, 1], [4, 100], [3, 1025], [2, 16_392]] {
        // Coarse, so that there are ties.
        let x: Vec<T> = noise::<f32>(m * n, n).into_iter().map(|value| T::of((value * 8.0).round())).collect();
        let wanted = argmax::reference(&wide(&x), n);
        let run = |device: &Device| {
            let mut y = device.tensor(&vec![u32::MAX; m], [m])?;
            argmax::argmax(device, &device.tensor(&x, [m, n])?, &mut y)?;
            y.to_vec()
        };
        everywhere(Bits::Everywhere, run, |y| assert_eq!(y, wanted));
    }
}

#[test]
fn argmax_in_f32() {
    argmax_of::<f32>();
}

#[test]
fn argmax_in_bf16() {
    argmax_of::<bf16>();
}

/// NaNs are passed over; a row without a number above -inf gives 0.
#[test]
fn argmax_of_no_numbers() {
    let mut x = vec![f32::NAN; 3 * 70];
    x[70 + 33] = -5.0;
    x[140..].fill(f32::NEG_INFINITY);
    let run = |device: &Device| {
        let mut y = device.zeros::<u32, 1>([3])?;
        argmax::argmax(device, &device.tensor(&x, [3, 70])?, &mut y)?;
        y.to_vec()
    };
    everywhere(Bits::Everywhere, run, |y| assert_eq!(y, [0, 33, 0]));
}

#[test]
fn top_k_of_rows() {
    for [m, n, k] in [[1, 1, 1], [9, 33, 33], [5, 250, 8], [3, 1000, 6]] {
        // Coarse, so that there are ties, with infinities of both signs.
        let mut x: Vec<f32> = noise::<f32>(m * n, n).into_iter().map(|value| (value * 8.0).round()).collect();
        if n > 30 {
            x[n / 2] = f32::INFINITY;
            x[3..20].fill(f32::NEG_INFINITY);
        }
        let (wanted, places) = top_k::reference(&x, n, k);
        let run = |device: &Device| {
            let mut values = device.tensor(&vec![f32::NAN; m * k], [m, k])?;
            let mut places = device.tensor(&vec![7u32; m * k], [m, k])?;
            top_k::top_k(device, &device.tensor(&x, [m, n])?, &mut values, &mut places)?;
            Ok(places.to_vec()?.into_iter().chain(values.to_vec()?.into_iter().map(|v| v.to_bits())).collect())
        };
        everywhere(Bits::Everywhere, run, |found: &[u32]| {
            let values: Vec<f32> = found[m * k..].iter().map(|bits| f32::from_bits(*bits)).collect();
            assert_eq!(values, wanted);
            assert_eq!(found[..m * k], places);
        });
    }
}

/// NaNs are passed over, and what is left of a row when its numbers are used up is -inf nowhere.
#[test]
fn top_k_of_few_numbers() {
    let x = [f32::NAN, 1.0, f32::NEG_INFINITY, f32::NAN, f32::NAN];
    let run = |device: &Device| {
        let mut values = device.zeros::<f32, 2>([1, 5])?;
        let mut places = device.zeros::<u32, 2>([1, 5])?;
        top_k::top_k(device, &device.tensor(&x, [1, 5])?, &mut values, &mut places)?;
        assert_eq!(values.to_vec()?, [[1.0].as_slice(), &[f32::NEG_INFINITY; 4]].concat());
        places.to_vec()
    };
    everywhere(Bits::Everywhere, run, |places: &[u32]| assert_eq!(places, [1, 2, u32::MAX, u32::MAX, u32::MAX]));
}

#[test]
fn top_k_refuses_long_rows() {
    let device = Device::simulator();
    let x = device.zeros::<f32, 2>([1, 1025]).unwrap();
    let (mut values, mut places) = (device.zeros([1, 2]).unwrap(), device.zeros([1, 2]).unwrap());
    let error = top_k::top_k(&device, &x, &mut values, &mut places).unwrap_err();
    assert!(error.to_string().contains("1025"), "{error}");
}

fn gather_of<T: Rounded>() {
    for [rows, k, n] in [[1, 1, 1], [10, 100, 7], [6, 1025, 11], [3, 4104, 5]] {
        let table = noise::<T>(rows * k, k);
        // The last two are not in the table.
        let places: Vec<u32> =
            (0..n).map(|i| [(i * 7 % rows) as u32, rows as u32, u32::MAX][(i + 3).saturating_sub(n)]).collect();
        let wanted = gather::reference(&table, &places, k, T::of(0.0));
        let run = |device: &Device| {
            let mut y = device.tensor(&vec![T::of(f32::NAN); n * k], [n, k])?;
            let (table, places) = (device.tensor(&table, [rows, k])?, device.tensor(&places, [n])?);
            gather::gather(device, &table, &places, &mut y)?;
            y.to_vec()
        };
        everywhere(Bits::Everywhere, run, |y| close(y, &wide(&wanted), 0.0, 0.0));
    }
}

#[test]
fn gather_in_f32() {
    gather_of::<f32>();
}

#[test]
fn gather_in_bf16() {
    gather_of::<bf16>();
}
