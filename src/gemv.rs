//! `y = W x` in f64, and how far a result may be from it.

use crate::data::Real;
use rayon::prelude::*;

/// `W x` and `|W| |x|`, row by row, in f64.
pub fn reference<T: Real>(w: &[T], x: &[T], n: usize, k: usize) -> Vec<(f64, f64)> {
    let x: Vec<f64> = x.iter().map(|v| f64::from(v.to_f32())).collect();
    let row = |row: &[T]| {
        row.iter().zip(&x).fold((0.0, 0.0), |(sum, abs), (w, x)| {
            let product = f64::from(w.to_f32()) * x;
            (sum + product, abs + product.abs())
        })
    };
    // Without columns every sum is 0, and there are no chunks.
    if k == 0 { vec![(0.0, 0.0); n] } else { w[..n * k].par_chunks(k).map(row).collect() }
}

/// The largest error of `y` in units of its bound; correct up to 1.
///
/// The bound of a row is the rounding of the result to its dtype plus the f32 accumulation error of K terms in any
/// order, `K 2^-24 sum |w x|` (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
pub fn worst_error<T: Real>(y: &[T], reference: &[(f64, f64)], k: usize) -> f64 {
    let unit = match T::DTYPE.bytes() {
        4 => 2f64.powi(-24),
        _ if T::DTYPE == tile_ir::ir::Dtype::Bf16 => 2f64.powi(-8),
        _ => 2f64.powi(-11),
    };
    let smallest = if T::DTYPE == tile_ir::ir::Dtype::F16 { 2f64.powi(-25) } else { f64::MIN_POSITIVE };
    let errors = y.iter().zip(reference).map(|(y, (sum, abs))| {
        let bound = unit * sum.abs() + (k.max(1) as f64) * 2f64.powi(-24) * abs * (1.0 + unit) + smallest;
        let error = (f64::from(y.to_f32()) - sum).abs();
        if error.is_nan() { f64::INFINITY } else { error / bound }
    });
    errors.fold(0.0, f64::max)
}
