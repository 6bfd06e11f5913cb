//! Many products at once: `C[z] = op(A[z]) op(B[z])`, checked on sampled rows of sampled matrices.

use rayon::prelude::*;
use tile_bench::data::{Real, normal};
use tile_bench::problem::{Problem, Title};
use tile_kernels::gemm::Gemm;
use tile_runtime::kernel::Dtype;
use tile_runtime::prelude::*;

/// Rows that are compared with f64, evenly spread over all matrices.
const SAMPLED_ROWS: usize = 48;

/// Operands of `batches` products of M x N x K, and whether either is stored transposed.
pub struct Batches<T> {
    /// Products.
    pub batches: usize,
    /// M, N, K of each.
    pub shape: [usize; 3],
    /// Whether `a` is stored as K x M, `b` as N x K.
    pub transposed: [bool; 2],
    a: Vec<T>,
    b: Vec<T>,
    /// Numbers of rows, counted through all matrices, and these rows in f64.
    reference: Vec<(usize, Vec<f64>)>,
}

/// `a`, `b` and `c` on the device.
pub type Buffers<T> = (Tensor<T, 3>, Tensor<T, 3>, Tensor<T, 3>);

impl<T: Real> Batches<T> {
    /// Normal data of this shape, and sampled rows of its products in f64.
    pub fn new(batches: usize, shape: [usize; 3], transposed: [bool; 2]) -> Batches<T> {
        let [m, n, k] = shape;
        let (a, b) = (normal::<T>(1, batches * m * k), normal::<T>(2, batches * n * k));
        let all = batches * m;
        let step = all.div_ceil(SAMPLED_ROWS).max(1);
        // A step that is no multiple of a matrix's rows, so that its rows are not always the same.
        let rows: Vec<usize> = (0..all).step_by(step | 1).chain(all.checked_sub(1)).collect();
        let reference = rows.into_par_iter().map(|number| {
            let (z, i) = (number / m, number % m);
            let at = |l: usize| a[z * m * k + if transposed[0] { l * m + i } else { i * k + l }].to_f32();
            let bt = |l: usize, j: usize| b[z * n * k + if transposed[1] { j * k + l } else { l * n + j }].to_f32();
            let sum = |j: usize| (0..k).map(|l| f64::from(at(l)) * f64::from(bt(l, j))).sum();
            (number, (0..n).map(sum).collect())
        });
        let reference = reference.collect();
        Batches { batches, shape, transposed, a, b, reference }
    }

    /// How the bundled GEMM is asked for these products.
    pub fn options(&self) -> Gemm<'static, T> {
        let [a_transposed, b_transposed] = self.transposed;
        Gemm { a_transposed, b_transposed, ..Gemm::default() }
    }
}

impl<T: Real> Problem for Batches<T> {
    type Buffers = Buffers<T>;

    fn title(&self) -> Title {
        let [m, n, k] = self.shape;
        let shape = [("z", self.batches), ("m", m), ("n", n), ("k", k)];
        let layout: String = self.transposed.iter().map(|t| if *t { 't' } else { 'n' }).collect();
        Title {
            op: format!("batches {layout}"),
            dtype: T::DTYPE.name().into(),
            shape: shape.map(|(name, extent)| (name.to_owned(), extent as u64)).to_vec(),
        }
    }

    fn bytes(&self) -> u64 {
        let [m, n, k] = self.shape;
        (self.batches * (m * k + n * k + m * n) * size_of::<T>()) as u64
    }

    fn flops(&self) -> u64 {
        self.shape.iter().map(|extent| *extent as u64).product::<u64>() * 2 * self.batches as u64
    }

    fn buffers(&self, device: &Device) -> Result<Buffers<T>, Error> {
        let [m, n, k] = self.shape;
        let stored = |t: bool, rows: usize, cols: usize| match t {
            true => [self.batches, cols, rows],
            false => [self.batches, rows, cols],
        };
        let a = device.tensor(&self.a, stored(self.transposed[0], m, k))?;
        let b = device.tensor(&self.b, stored(self.transposed[1], k, n))?;
        Ok((a, b, device.zeros([self.batches, m, n])?))
    }

    fn poison(&self, (_, _, c): &mut Buffers<T>) -> Result<(), Error> {
        let [m, n, _] = self.shape;
        c.write(&vec![T::from_f32(f32::NAN); self.batches * m * n])
    }

    /// In units of `eps |c| + sqrt(K) 2^-12`, as [`Dense`](super::gemm::Dense) has it.
    fn error(&self, (_, _, c): &Buffers<T>) -> Result<f64, Error> {
        let [_, n, k] = self.shape;
        let eps = match T::DTYPE {
            Dtype::F16 => 2f64.powi(-11),
            Dtype::Bf16 => 2f64.powi(-8),
            _ => 2f64.powi(-22),
        };
        let slack = (k as f64).sqrt() * 2f64.powi(-12);
        let found = c.to_vec()?;
        let rows = self.reference.iter().map(|(row, wanted)| {
            let errors = found[row * n..(row + 1) * n].iter().zip(wanted).map(|(found, wanted)| {
                let error = (f64::from(found.to_f32()) - wanted).abs() / (eps * wanted.abs() + slack);
                // NaN is no small error.
                if error.is_nan() { f64::INFINITY } else { error }
            });
            errors.fold(0.0, f64::max)
        });
        Ok(rows.fold(0.0, f64::max))
    }
}
