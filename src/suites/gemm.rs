//! GEMM: C = op(A) op(B), checked on sampled rows, beside cuBLAS and cuBLASLt.

use rayon::prelude::*;
use tile_bench::BenchError;
use tile_bench::blas::Blas;
use tile_bench::data::{Real, normal};
use tile_bench::problem::{Contender, Problem, Title};
use tile_bench::race::{OURS, Options, race};
use tile_bench::report::Row;
use tile_kernels::gemm::{Choice, Gemm, GemmElement, Precision, gemm};
use tile_runtime::kernel::Dtype;
use tile_runtime::prelude::*;

/// The shapes on which the selector is judged: 1 to 8192 rows of X times the weights of language models.
pub fn selector_shapes() -> impl Iterator<Item = [usize; 3]> {
    let weights = [(4096, 4096), (7168, 2048), (14336, 4096), (4096, 14336), (7168, 16384), (18432, 7168)];
    let rows = [1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
    weights.into_iter().flat_map(move |(n, k)| rows.map(|m| [m, n, k]))
}

/// Rows of C that are compared with f64: all of a small matrix, evenly spread ones of a large one.
const SAMPLED_ROWS: usize = 24;

/// `c = op(a) op(b)` with dense operands: M x N x K, and whether either operand is stored transposed.
pub struct Dense<T> {
    /// M, N, K.
    pub shape: [usize; 3],
    /// Whether `a` is stored as K x M, `b` as N x K.
    pub transposed: [bool; 2],
    /// What is multiplied of f32.
    precision: Precision,
    a: Vec<T>,
    b: Vec<T>,
    /// Row numbers, and the products of these rows in f64.
    reference: Vec<(usize, Vec<f64>)>,
}

/// `a`, `b` and `c` on the device.
pub type Buffers<T> = (Tensor<T, 2>, Tensor<T, 2>, Tensor<T, 2>);

impl<T: Real> Dense<T> {
    /// Normal data of this shape, and sampled rows of its product in f64.
    pub fn new(shape: [usize; 3], transposed: [bool; 2]) -> Dense<T> {
        let [m, n, k] = shape;
        let (a, b) = (normal::<T>(1, m * k), normal::<T>(2, n * k));
        let step = m.div_ceil(SAMPLED_ROWS).max(1);
        let wide = |values: &[T]| values.iter().map(|v| f64::from(v.to_f32())).collect::<Vec<f64>>();
        let rows: Vec<usize> = (0..m).step_by(step).chain(m.checked_sub(1)).collect();
        let reference = rows.into_par_iter().map(|i| {
            let at = |l: usize| f64::from(a[if transposed[0] { l * m + i } else { i * k + l }].to_f32());
            let left: Vec<f64> = (0..k).map(at).collect();
            let sums = if transposed[1] {
                let dot = |row: &[T]| wide(row).iter().zip(&left).map(|(x, y)| x * y).sum();
                (0..n).map(|j| dot(&b[j * k..(j + 1) * k])).collect()
            } else {
                let mut sums = vec![0.0; n];
                for (l, x) in left.iter().enumerate() {
                    b[l * n..(l + 1) * n].iter().zip(&mut sums).for_each(|(y, sum)| *sum += x * f64::from(y.to_f32()));
                }
                sums
            };
            (i, sums)
        });
        let reference = reference.collect();
        Dense { shape, transposed, precision: Precision::Full, a, b, reference }
    }

    /// This problem with f32 multiplied as tf32, and the bound of that.
    pub fn tf32(self) -> Dense<T> {
        Dense { precision: Precision::Tf32, ..self }
    }

    /// The largest distance of the sampled rows from f64, in units of its bound: `eps |c| + sqrt(K) 2^-12`, where `eps` is
    /// that of the element type (`docs/hopper.md`, "Numbers of the tensor cores"). As tf32, `2^-9 |c| + sqrt(K) 2^-8`: two
    /// operands rounded towards zero by up to 2^-10 each, on normal data.
    pub fn worst_error(&self, c: &[T]) -> f64 {
        self.worst_error_after(c, |sum, _| sum)
    }

    /// [`Dense::worst_error`] where `epilogue` of a sum and its column was to follow.
    pub fn worst_error_after(&self, c: &[T], epilogue: impl Fn(f64, usize) -> f64) -> f64 {
        let [_, n, k] = self.shape;
        let (eps, slack) = match (T::DTYPE, self.precision) {
            (Dtype::F16, _) => (2f64.powi(-11), 2f64.powi(-12)),
            (Dtype::Bf16, _) => (2f64.powi(-8), 2f64.powi(-12)),
            (_, Precision::Full) => (2f64.powi(-22), 2f64.powi(-12)),
            (_, Precision::Tf32) => (2f64.powi(-9), 2f64.powi(-8)),
        };
        let slack = (k as f64).sqrt() * slack;
        let rows = self.reference.iter().map(|(row, wanted)| {
            let found = &c[row * n..(row + 1) * n];
            let errors = found.iter().zip(wanted).enumerate().map(|(column, (found, sum))| {
                let wanted = epilogue(*sum, column);
                let error = (f64::from(found.to_f32()) - wanted).abs() / (eps * wanted.abs() + slack);
                // NaN is no small error.
                if error.is_nan() { f64::INFINITY } else { error }
            });
            errors.fold(0.0, f64::max)
        });
        rows.fold(0.0, f64::max)
    }

    /// How the bundled GEMM is asked for this product.
    pub fn options(&self) -> Gemm<'static, T> {
        let [a_transposed, b_transposed] = self.transposed;
        Gemm { a_transposed, b_transposed, precision: self.precision, ..Gemm::default() }
    }
}

impl<T: Real> Problem for Dense<T> {
    type Buffers = Buffers<T>;

    fn title(&self) -> Title {
        let shape = ["m", "n", "k"].iter().zip(self.shape).map(|(name, extent)| ((*name).into(), extent as u64));
        let layout: String = self.transposed.iter().map(|t| if *t { 't' } else { 'n' }).collect();
        let dtype = match self.precision {
            Precision::Full => T::DTYPE.name(),
            Precision::Tf32 => "tf32",
        };
        Title { op: format!("gemm {layout}"), dtype: dtype.into(), shape: shape.collect() }
    }

    fn bytes(&self) -> u64 {
        let [m, n, k] = self.shape;
        ((m * k + n * k + m * n) * size_of::<T>()) as u64
    }

    fn flops(&self) -> u64 {
        self.shape.iter().map(|extent| *extent as u64).product::<u64>() * 2
    }

    fn buffers(&self, device: &Device) -> Result<Buffers<T>, Error> {
        let [m, n, k] = self.shape;
        let stored = |t: bool, rows: usize, cols: usize| if t { [cols, rows] } else { [rows, cols] };
        let a = device.tensor(&self.a, stored(self.transposed[0], m, k))?;
        let b = device.tensor(&self.b, stored(self.transposed[1], k, n))?;
        Ok((a, b, device.zeros([m, n])?))
    }

    fn poison(&self, (_, _, c): &mut Buffers<T>) -> Result<(), Error> {
        let [m, n, _] = self.shape;
        c.write(&vec![T::from_f32(f32::NAN); m * n])
    }

    fn error(&self, (_, _, c): &Buffers<T>) -> Result<f64, Error> {
        Ok(self.worst_error(&c.to_vec()?))
    }
}

/// Measures one shape and layout: what `gemm` takes by itself, every tile it could have taken, and, for `c = a b^T`, cuBLAS
/// and cuBLASLt where they are given.
///
/// # Errors
/// As [`race`].
pub fn measure<T: GemmElement + Real>(
    device: &Device,
    blas: Option<&Blas>,
    shape: [usize; 3],
    transposed: [bool; 2],
    options: &Options,
) -> Result<Row, BenchError> {
    let problem = Dense::<T>::new(shape, transposed);
    let [m, n, k] = shape;
    let blas = blas.filter(|_| transposed == [false, true]);
    let algorithms = blas.map(|blas| blas.heuristics::<T>(m, n, k));
    let asked = problem.options();
    let own =
        Contender::new(OURS, "gemm", |on: &Stream, (a, b, c): &mut Buffers<T>| Ok(gemm(on, &*a, &*b, c, &asked)?));
    let mut contenders = vec![own.chosen()];
    contenders.extend(Choice::candidates(m as i64, n as i64, k as i64, transposed).map(|choice| {
        Contender::new(OURS, choice.to_string(), move |on: &Stream, (a, b, c): &mut Buffers<T>| {
            Ok(T::launch(on, choice, &*a, &*b, c, &asked)?)
        })
    }));
    if let Some(blas) = blas {
        let gemm_ex =
            Contender::new("cublas", "GemmEx", |on: &Stream, (a, b, c): &mut Buffers<T>| Ok(blas.gemm(on, a, b, c)?));
        contenders.push(gemm_ex.chosen());
    }
    if let Some(Ok(algorithms)) = &algorithms {
        contenders.extend((0..algorithms.len()).map(|index| {
            Contender::new("cublaslt", format!("heuristic {index}"), move |on: &Stream, (a, b, c): &mut Buffers<T>| {
                Ok(algorithms.gemm(index, on, a, b, c)?)
            })
        }));
    }
    let mut row = race(device, &problem, contenders, options)?;
    if let Some(Err(error)) = &algorithms {
        row.refused.push(("cublaslt".into(), error.to_string()));
    }
    Ok(row)
}
