//! R2 and R5: correct kernels are never flagged, whatever their extents, and what the analysis proved never fails.

use crate::kernels::fit::fit;
use crate::kernels::launch::Programs;
use crate::kernels::problem::Problem;
use crate::kernels::setup::verified;
use crate::kernels::source::{Source, library};
use crate::part::{Case, Outcome, Part};
use rand::Rng;
use std::sync::OnceLock;
use tile_ir::ir::Kernel;

/// The part.
pub struct Shapes;

/// Shapes of each kernel.
const SHAPES: u64 = 200;
/// Draws before a case is given up: extents that a kernel's `require`s refuse.
const DRAWS: usize = 300;
/// Most work of a case; see [`Problem::work`].
const WORK: f64 = 1e6;

/// The repository's kernels, parsed once.
pub(super) fn kernels() -> &'static [(&'static Source, Kernel)] {
    static KERNELS: OnceLock<Vec<(&'static Source, Kernel)>> = OnceLock::new();
    KERNELS.get_or_init(|| {
        let kernel = |source: &'static Source| library().check(source).map(|checked| (source, checked.kernel));
        library().kernels.iter().filter_map(kernel).collect()
    })
}

impl Part for Shapes {
    fn name(&self) -> &'static str {
        "shapes"
    }

    fn about(&self) -> &'static str {
        "every kernel on boundary shapes (a tile, one less, one more, primes, 1), on every target, under three schedules with \
         copies early and late. A failure is any report, or results that differ"
    }

    fn size(&self) -> u64 {
        kernels().len() as u64 * SHAPES
    }

    fn sample(&self) -> u64 {
        kernels().len() as u64
    }

    fn run(&self, case: Case) -> Outcome {
        let (source, kernel) = &kernels()[(case.number % kernels().len() as u64) as usize];
        let class = source.id.as_str();
        let mut rng = case.rng();
        let mut programs = Programs::of(kernel);
        for _ in 0..DRAWS {
            let instance = rng.random_range(0..kernel.instances.len());
            let mut problem = Problem::draw(kernel, &kernel.instances[instance].consts, &mut rng);
            fit(source, kernel, instance, &mut problem);
            if problem.work(kernel) > WORK {
                continue;
            }
            match verified(&mut programs, instance, &problem) {
                Ok(Some(_)) => return Outcome::passed(class, "clean"),
                Ok(None) => {}
                Err(error) => return Outcome::failed(class, error),
            }
        }
        Outcome::passed(class, "no shape served")
    }
}
