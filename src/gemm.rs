//! A matrix product on the CPU, to compare with; and a case of it for tests of kernels.

use crate::data::{Real, integers};
use anyhow::{Result, bail};
use rayon::prelude::*;
use tile_kernels::gemm::{Activation, Gemm, GemmElement, Precision};
use tile_runtime::{Device, LaunchError, TensorView, TensorViewMut};

/// `a b` summed in f32 along K in order: exact where every partial sum is an integer below 2^24. Row-major: `a` is M x K
/// or, where it is stored transposed, K x M; `b` is K x N or N x K; the result is M x N.
pub fn product<T: Real>(a: &[T], b: &[T], [m, n, k]: [usize; 3], [a_t, b_t]: [bool; 2]) -> Vec<f32> {
    let lines = |x: &[T], count: usize, across: bool| -> Vec<f32> {
        let at = |line: usize, l: usize| x[if across { l * count + line } else { line * k + l }].to_f32();
        (0..count).flat_map(|line| (0..k).map(move |l| (line, l))).map(|(line, l)| at(line, l)).collect()
    };
    let (rows, cols) = (lines(a, m, a_t), lines(b, n, !b_t));
    let dot = &|i: usize, j: usize| {
        let (row, col) = (&rows[i * k..(i + 1) * k], &cols[j * k..(j + 1) * k]);
        row.iter().zip(col).map(|(x, y)| x * y).sum::<f32>()
    };
    (0..m).into_par_iter().flat_map_iter(|i| (0..n).map(move |j| dot(i, j))).collect()
}

/// How operands can be stored: `[a_transposed, b_transposed]`.
pub const LAYOUTS: [[bool; 2]; 4] = [[false, true], [false, false], [true, true], [true, false]];

/// A product of integers in wider rows, without an epilogue and with one that uses everything, and what it must give: every bit is known.
pub struct Case<T, U> {
    /// Rows, columns and depth of the product.
    pub shape: [usize; 3],
    /// Whether `a` is stored as K x M, `b` as N x K.
    pub stored: [bool; 2],
    /// Elements between the rows of `a`, `b` and the result; as many rows of an operand are in front of it, so that it begins elsewhere.
    pub pads: [usize; 3],
    operands: [Vec<T>; 2],
    bias: Vec<T>,
    old: Vec<U>,
    wanted: [Vec<U>; 2],
}

impl<T: GemmElement<U> + Real, U: Real> Case<T, U> {
    /// The product of this shape.
    pub fn new(shape: [usize; 3], stored: [bool; 2], pads: [usize; 3]) -> Self {
        let [m, n, k] = shape;
        let wide = |seed: u64, [rows, cols]: [usize; 2], pad: usize| {
            let all = integers::<T>(seed, (rows + pad) * (cols + pad), 3);
            let own = all.chunks(cols + pad).skip(pad).flat_map(|row| row.iter().take(cols)).copied().collect();
            (all, own)
        };
        let [of_a, of_b] = Self::extents(shape, stored);
        let ((wide_a, a), (wide_b, b)): ((_, Vec<T>), (_, Vec<T>)) = (wide(1, of_a, pads[0]), wide(2, of_b, pads[1]));
        let (old, bias) = (integers::<U>(3, m * n, 3), integers::<T>(4, n, 3));
        let sums = product(&a, &b, [m, n, k], stored);
        let shift = bias.iter().cycle();
        let finished = sums.iter().zip(&old).zip(shift);
        let finished = finished.map(|((sum, old), shift)| (2.0 * sum + old.to_f32() + shift.to_f32()).max(0.0));
        let finished = finished.map(U::from_f32).collect();
        let plain = sums.iter().map(|sum| U::from_f32(*sum)).collect();
        Case { shape, stored, pads, operands: [wide_a, wide_b], bias, old, wanted: [plain, finished] }
    }

    /// Rows and columns of `a` and `b` as they are stored.
    fn extents([m, n, k]: [usize; 3], [a_transposed, b_transposed]: [bool; 2]) -> [[usize; 2]; 2] {
        [if a_transposed { [k, m] } else { [m, k] }, if b_transposed { [n, k] } else { [k, n] }]
    }

    /// Launches the product without an epilogue, and then with one, into a result that holds something else, and compares every element.
    ///
    /// # Errors
    /// A launch fails, or gives something else.
    pub fn check(
        &self,
        device: &Device,
        precision: Precision,
        mut launch: impl FnMut(
            TensorView<'_, T, 2>,
            TensorView<'_, T, 2>,
            TensorViewMut<'_, U, 2>,
            &Gemm<'_, T>,
        ) -> Result<(), LaunchError>,
    ) -> Result<()> {
        let Case { shape, stored, pads: [pad_a, pad_b, pad_c], operands: [a, b], old, wanted, .. } = self;
        let ([m, n, _], [of_a, of_b]) = (*shape, Self::extents(*shape, *stored));
        let wide = |all: &[T], [rows, cols]: [usize; 2], pad: usize| device.tensor(all, [rows + pad, cols + pad]);
        let (a, b) = (wide(a, of_a, *pad_a)?, wide(b, of_b, *pad_b)?);
        let part = |[rows, cols]: [usize; 2], pad: usize| [pad..rows + pad, 0..cols];
        let (a, b) = (a.slice(part(of_a, *pad_a))?, b.slice(part(of_b, *pad_b))?);
        let bias = device.tensor(&self.bias, [n])?;
        let [a_transposed, b_transposed] = *stored;
        let plain = Gemm { a_transposed, b_transposed, precision, ..Gemm::default() };
        let finishing = Gemm { alpha: 2.0, beta: 1.0, bias: Some(&bias), activation: Activation::Relu, ..plain };
        for (options, wanted) in [plain, finishing].iter().zip(wanted) {
            let mut c = device.zeros::<U, 2>([m, n + pad_c])?;
            let mut c = c.slice_mut([0..m, 0..n])?;
            c.write(old)?;
            launch(a, b, c.reborrow(), options)?;
            let found = c.view().to_vec()?;
            if let Some((at, (found, wanted))) = found.iter().zip(wanted).enumerate().find(|(_, (x, y))| x != y) {
                let pads = self.pads;
                bail!("{found:?} at {at}, not {wanted:?}: {shape:?} {stored:?} {pads:?}, {options:?}");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_is_the_same_product() {
        // 2 x 3 times 3 x 2.
        let (a, b) = ([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0f32, 0.0, 0.0, 1.0, 2.0, 2.0]);
        let (a_t, b_t) = ([1.0f32, 4.0, 2.0, 5.0, 3.0, 6.0], [1.0f32, 0.0, 2.0, 0.0, 1.0, 2.0]);
        let wanted = vec![7.0, 8.0, 16.0, 17.0];
        assert_eq!(product(&a, &b, [2, 2, 3], [false, false]), wanted);
        assert_eq!(product(&a_t, &b, [2, 2, 3], [true, false]), wanted);
        assert_eq!(product(&a, &b_t, [2, 2, 3], [false, true]), wanted);
        assert_eq!(product(&a_t, &b_t, [2, 2, 3], [true, true]), wanted);
    }
}
