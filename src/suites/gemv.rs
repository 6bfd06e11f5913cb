//! GEMV: every vectorised instance of the bundled kernel and what it takes by itself, beside cuBLAS and cuBLASLt.

use crate::gemv::{reference, worst_error};
use tile_bench::BenchError;
use tile_bench::blas::{Algorithms, Blas};
use tile_bench::data::{Real, normal};
use tile_bench::problem::{Contender, Problem, Title};
use tile_bench::race::{OURS, Options, race};
use tile_bench::report::Row;
use tile_kernels::gemv::kernel::GemvParams;
use tile_kernels::gemv::{Choice, Gemv, GemvElement, definition, gemv};
use tile_runtime::prelude::*;

/// `y = w x` with dense operands: `w` of N rows and K columns.
pub struct Dense<T> {
    n: usize,
    k: usize,
    w: Vec<T>,
    x: Vec<T>,
    /// `w x` and `|w| |x|`, row by row.
    reference: Vec<(f64, f64)>,
}

/// `w`, `x` and `y` on the device.
pub type Buffers<T> = (Tensor<T, 2>, Tensor<T, 1>, Tensor<T, 1>);

impl<T: Real> Dense<T> {
    /// Normal data of this shape, and its product in f64.
    pub fn new(n: usize, k: usize) -> Dense<T> {
        Dense::with(normal::<T>(1, n * k), normal::<T>(2, k), n, k)
    }

    /// A problem of the given operands, and their product in f64.
    pub fn with(w: Vec<T>, x: Vec<T>, n: usize, k: usize) -> Dense<T> {
        let reference = reference(&w, &x, n, k);
        Dense { n, k, w, x, reference }
    }
}

impl<T: Real> Problem for Dense<T> {
    type Buffers = Buffers<T>;

    fn title(&self) -> Title {
        let shape = vec![("n".to_string(), self.n as u64), ("k".to_string(), self.k as u64)];
        Title { op: "gemv".into(), dtype: T::DTYPE.name().into(), shape }
    }

    fn bytes(&self) -> u64 {
        ((self.n * self.k + self.n + self.k) * size_of::<T>()) as u64
    }

    fn flops(&self) -> u64 {
        2 * (self.n * self.k) as u64
    }

    fn buffers(&self, device: &Device) -> Result<Buffers<T>, Error> {
        Ok((device.tensor(&self.w, [self.n, self.k])?, device.tensor(&self.x, [self.k])?, device.zeros([self.n])?))
    }

    fn poison(&self, (_, _, y): &mut Buffers<T>) -> Result<(), Error> {
        y.write(&vec![T::from_f32(f32::NAN); self.n])
    }

    fn error(&self, (_, _, y): &Buffers<T>) -> Result<f64, Error> {
        Ok(worst_error(&y.to_vec()?, &self.reference, self.k))
    }
}

/// Measures one shape, with cuBLAS where it is given.
///
/// # Errors
/// As [`race`].
pub fn measure<T: GemvElement + Real>(
    device: &Device,
    blas: Option<&Blas>,
    n: usize,
    k: usize,
    options: &Options,
) -> Result<Row, BenchError> {
    let problem = Dense::<T>::new(n, k);
    // Before the contenders, which borrow it.
    let algorithms = blas.map(|blas| blas.heuristics::<T>(1, n, k));
    let default = Contender::new(OURS, "gemv", |on: &Stream, (w, x, y): &mut Buffers<T>| {
        Ok(gemv(on, &*w, &*x, y, Gemv::default())?)
    });
    let mut contenders = vec![default.chosen()];
    contenders.extend(instances::<T>(k).into_iter().map(|choice| {
        Contender::new(OURS, choice.to_string(), move |on: &Stream, (w, x, y): &mut Buffers<T>| {
            Ok(T::launch(on, choice, &*w, &*x, y, Gemv::default())?)
        })
    }));
    if let Some(blas) = blas {
        let gemm_ex =
            Contender::new("cublas", "GemmEx", |on: &Stream, (w, x, y): &mut Buffers<T>| Ok(blas.gemv(on, w, x, y)?));
        contenders.push(gemm_ex.chosen());
    }
    if let Some(Ok(algorithms)) = &algorithms {
        contenders.extend((0..algorithms.len()).map(|index| heuristic(algorithms, index)));
    }
    let mut row = race(device, &problem, contenders, options)?;
    if let Some(Err(error)) = &algorithms {
        row.refused.push(("cublaslt".into(), error.to_string()));
    }
    Ok(row)
}

/// cuBLASLt's proposal `index`.
fn heuristic<'a, T: Real>(algorithms: &'a Algorithms<'a>, index: usize) -> Contender<'a, Buffers<T>> {
    let contender =
        Contender::new("cublaslt", format!("heuristic {index}"), move |on: &Stream, set: &mut Buffers<T>| {
            let (w, x, y) = set;
            Ok(algorithms.gemv(index, on, w, x, y)?)
        });
    if index == 0 { contender.chosen() } else { contender }
}

/// The kernel's vectorised instances for an element type, which need rows of whole 16-byte loads.
#[allow(non_snake_case)] // the kernel's constants
fn instances<T: Element>(k: usize) -> Vec<Choice> {
    let Ok(kernel) = definition().kernel() else { return Vec::new() };
    let vector = 16 / size_of::<T>();
    let of_dtype = kernel.instances.iter().filter(|i| i.dtypes.first() == Some(&T::DTYPE) && k.is_multiple_of(vector));
    let choices = of_dtype.filter_map(|instance| {
        let consts: Vec<usize> = instance.consts.iter().filter_map(|c| usize::try_from(*c).ok()).collect();
        let &[WARPS, ROWS, GROUPS, UNROLL, STAGES, VEC] = &consts[..] else { return None };
        (VEC > 1).then_some(Choice::AnyK(GemvParams { WARPS, ROWS, GROUPS, UNROLL, STAGES, VEC }))
    });
    choices.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_vectorised_instance_takes_part_and_is_right() {
        let zero = Duration::ZERO;
        let quick = Options {
            rounds: 1,
            block: zero,
            idle: zero,
            screening: (1, zero),
            rotate: 1,
            keep: 99,
            ..Options::default()
        };
        let row = measure::<f16>(&Device::simulator(), None, 37, 264, &quick).unwrap();
        assert_eq!(row.refused, []);
        assert_eq!(row.entries.len(), instances::<f16>(264).len() + 1);
        assert!(row.entries.len() > 5, "{} entries", row.entries.len());
        assert_eq!(instances::<f16>(265), [], "rows of odd length are not vectorised");
    }
}
