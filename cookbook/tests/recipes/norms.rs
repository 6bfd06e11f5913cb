//! Rows that are normalised: softmax, RMSNorm, LayerNorm.

use super::*;
use tile_cookbook::{layer_norm, rms_norm, softmax};

const SHAPES: [[usize; 2]; 4] = [[1, 1], [3, 100], [5, 257], [2, 4104]];

fn softmax_of<T: Rounded>() {
    for [m, n] in SHAPES {
        let x = noise::<T>(m * n, n);
        let wanted = softmax::reference(&wide(&x), n);
        let run = |device: &Device| {
            let mut y = device.tensor(&vec![T::of(f32::NAN); m * n], [m, n])?;
            softmax::softmax(device, &device.tensor(&x, [m, n])?, &mut y)?;
            y.to_vec()
        };
        everywhere(Bits::OnSimulators, run, |y| close(y, &wanted, 2.0 * T::EPSILON + 1e-5, 1e-7));
    }
}

#[test]
fn softmax_in_f32() {
    softmax_of::<f32>();
}

#[test]
fn softmax_in_f16() {
    softmax_of::<f16>();
}

#[test]
fn softmax_in_bf16() {
    softmax_of::<bf16>();
}

/// A masked row, as attention has them; one that is all masked is NaN, as PyTorch's.
#[test]
fn softmax_of_minus_infinity() {
    let n = 300;
    let row = |at: usize| if at >= n || at % 7 != 3 { f32::NEG_INFINITY } else { (at % 5) as f32 };
    let x: Vec<f32> = (0..2 * n).map(row).collect();
    let wanted = softmax::reference(&wide(&x[..n]), n);
    let run = |device: &Device| {
        let mut y = device.zeros::<f32, 2>([2, n])?;
        softmax::softmax(device, &device.tensor(&x, [2, n])?, &mut y)?;
        y.to_vec()
    };
    everywhere(Bits::OnSimulators, run, |y| {
        close(&y[..n], &wanted, 1e-5, 0.0);
        assert!(y[n..].iter().all(|value| value.is_nan()));
    });
}

/// What a norm has left in the residual and in its output, one behind the other.
type Norm<T> = fn(&Device, [&[T]; 4], [usize; 2]) -> Result<Vec<T>, tile_runtime::Error>;

/// The sum with the residual, gamma and beta to the norm in f64.
type Reference = fn(&[f64], &[f64], &[f64]) -> Vec<f64>;

fn norm_of<T: Rounded>(norm: Norm<T>, reference: Reference) {
    for [m, n] in SHAPES {
        let [x, residual, gamma, beta] =
            [(m * n, 0), (m * n, 50), (n, 100), (n, 150)].map(|(count, seed)| noise::<T>(count, seed));
        let sum: Vec<T> = x.iter().zip(&residual).map(|(a, b)| T::of((a.up() + b.up()) as f32)).collect();
        let wanted = reference(&wide(&sum), &wide(&gamma), &wide(&beta));
        let run = |device: &Device| norm(device, [&x, &residual, &gamma, &beta], [m, n]);
        everywhere(Bits::OnSimulators, run, |found| {
            close(&found[..m * n], &wide(&sum), 0.0, 0.0);
            close(&found[m * n..], &wanted, 2.0 * T::EPSILON + 1e-5, 2e-5);
        });
    }
}

fn rms_norm_on<T: Rounded>(
    device: &Device,
    [x, residual, gamma, _]: [&[T]; 4],
    [m, n]: [usize; 2],
) -> Result<Vec<T>, tile_runtime::Error> {
    let x = device.tensor(x, [m, n])?;
    let mut residual = device.tensor(residual, [m, n])?;
    let mut y = device.tensor(&vec![T::of(f32::NAN); m * n], [m, n])?;
    rms_norm::rms_norm(device, &x, &mut residual, &device.tensor(gamma, [n])?, &mut y, 1e-5)?;
    Ok([residual.to_vec()?, y.to_vec()?].concat())
}

fn layer_norm_on<T: Rounded>(
    device: &Device,
    [x, residual, gamma, beta]: [&[T]; 4],
    [m, n]: [usize; 2],
) -> Result<Vec<T>, tile_runtime::Error> {
    let x = device.tensor(x, [m, n])?;
    let (gamma, beta) = (device.tensor(gamma, [n])?, device.tensor(beta, [n])?);
    let mut residual = device.tensor(residual, [m, n])?;
    let mut y = device.tensor(&vec![T::of(f32::NAN); m * n], [m, n])?;
    layer_norm::layer_norm(device, &x, &mut residual, &gamma, &beta, &mut y, 1e-5)?;
    Ok([residual.to_vec()?, y.to_vec()?].concat())
}

#[test]
fn rms_norm_in_f32() {
    norm_of::<f32>(rms_norm_on, |x, gamma, _| rms_norm::reference(x, gamma, 1e-5));
}

#[test]
fn rms_norm_in_bf16() {
    norm_of::<bf16>(rms_norm_on, |x, gamma, _| rms_norm::reference(x, gamma, 1e-5));
}

#[test]
fn layer_norm_in_f32() {
    norm_of::<f32>(layer_norm_on, |x, gamma, beta| layer_norm::reference(x, gamma, beta, 1e-5));
}

#[test]
fn layer_norm_in_f16() {
    norm_of::<f16>(layer_norm_on, |x, gamma, beta| layer_norm::reference(x, gamma, beta, 1e-5));
}
