//! Two dimensions: transpose, stencil.

use super::*;
use tile_cookbook::{stencil, transpose};

fn transpose_of<T: Number + Element + Copy + std::fmt::Debug>(value: impl Fn(usize) -> T) {
    for [m, n] in [[1, 1], [3, 100], [65, 33], [130, 66]] {
        let x: Vec<T> = (0..m * n).map(&value).collect();
        let wanted = transpose::reference(&x, n);
        let run = |device: &Device| {
            let mut y = device.tensor(&vec![value(12_345); m * n], [n, m])?;
            transpose::transpose(device, &device.tensor(&x, [m, n])?, &mut y)?;
            y.to_vec()
        };
        everywhere(Bits::Everywhere, run, |y| assert_eq!(y, wanted));
    }
}

#[test]
fn transpose_in_u32() {
    transpose_of(|i| i as u32);
}

#[test]
fn transpose_in_bf16() {
    transpose_of(|i| bf16::from_bits((i % 0x7f00) as u16));
}

#[test]
fn stencil_of_images() {
    for [height, width] in [[1, 1], [3, 50], [33, 31], [70, 97]] {
        let (x, w) = (noise::<f32>(height * width, width), noise::<f32>(25, 7));
        let wanted = stencil::reference(&wide(&x), &wide(&w), width);
        let run = |device: &Device| {
            let mut y = device.tensor(&vec![f32::NAN; height * width], [height, width])?;
            let (x, w) = (device.tensor(&x, [height, width])?, device.tensor(&w, [5, 5])?);
            stencil::stencil(device, &x, &w, &mut y)?;
            y.to_vec()
        };
        everywhere(Bits::Everywhere, run, |y| close(y, &wanted, 1e-6, 1e-5));
    }
}
