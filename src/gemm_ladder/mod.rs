//! The GEMM ladder: the same product, rung by rung faster. `examples/gemm_ladder.rs` climbs it; `tests/gemm_ladder.rs`
//! compares every rung on the simulators and counts what the first ones read.

pub mod kernels;

use anyhow::{Context, Result, anyhow, ensure};
use std::sync::Arc;
use tile_bench::data::Real;
use tile_ir::analysis::traffic::Tile;
use tile_ir::ir::{Instance, ParamId, Target};
use tile_ir::lower::lower;
use tile_ir::lowered::Space;
use tile_ir::sim::checked::{AccessKind, CheckedOptions, run};
use tile_ir::sim::{Argument, Memory, TensorArgument};
use tile_runtime::kernel::Definition;
use tile_runtime::prelude::*;

/// Launches a rung: `a` of M x K, `b` of K x N, `c` of M x N.
pub type Launch<T> = fn(&Stream, &Tensor<T, 2>, &Tensor<T, 2>, &mut Tensor<T, 2>) -> Result<(), LaunchError>;

/// One rung for one element type.
pub struct Rung<T: Real> {
    /// Its name.
    pub name: &'static str,
    /// What it adds to the one before.
    pub idea: &'static str,
    /// The tile of C whose rows of A and columns of B are read once: what [`tile_ir::analysis::traffic`] expects it to read.
    pub tile: Tile,
    /// What N and K must be multiples of: rows of A and B then begin where wide copies may.
    pub multiple: usize,
    /// Whether it needs the tensor memory accelerator and `wgmma`.
    pub hopper: bool,
    /// The kernel and the instance, by its constants.
    pub kernel: (&'static Definition, &'static [i64]),
    /// `c = a b`.
    pub launch: Launch<T>,
}

/// Element types the ladder is instantiated for.
pub trait LadderElement: Real {
    /// Every rung, slowest first.
    fn rungs() -> Vec<Rung<Self>>;
}

macro_rules! ladder {
    ($($ty:ty)*) => {$(
        impl LadderElement for $ty {
            fn rungs() -> Vec<Rung<$ty>> {
                type T = $ty;
                vec![
                    Rung {
                        name: "naive",
                        idea: "a thread an element",
                        tile: Tile { m: 1, n: 1 },
                        multiple: 1,
                        hopper: false,
                        kernel: (kernels::naive::<T>::definition(), &[]),
                        launch: |on, a, b, c| kernels::naive::<T>::launch(on, a, b, c),
                    },
                    Rung {
                        name: "tiled",
                        idea: "tiles of 64 x 64 in shared memory, 4 x 4 in registers",
                        tile: Tile { m: 64, n: 64 },
                        multiple: 1,
                        hopper: false,
                        kernel: (kernels::tiled::<T>::definition(), &[64, 64, 16, 4, 4]),
                        launch: |on, a, b, c| kernels::tiled::<T, 64, 64, 16, 4, 4>::launch(on, a, b, c),
                    },
                    Rung {
                        name: "mma.sync",
                        idea: "tensor cores, cp.async, three stages",
                        tile: Tile { m: 128, n: 128 },
                        multiple: 8,
                        hopper: false,
                        kernel: (kernels::mma::<T>::definition(), &[128, 128, 32, 3]),
                        launch: |on, a, b, c| kernels::mma::<T, 128, 128, 32, 3>::launch(on, a, b, c),
                    },
                    Rung {
                        name: "wgmma",
                        idea: "TMA and wgmma, a producer warp, four stages",
                        tile: Tile { m: 128, n: 128 },
                        multiple: 8,
                        hopper: true,
                        kernel: (kernels::wgmma::<T>::definition(), &[128, 128, 4]),
                        launch: |on, a, b, c| kernels::wgmma::<T, 128, 128, 4>::launch(on, a, b, c),
                    },
                    Rung {
                        name: "specialised",
                        idea: "128 x 256, registers given to the warpgroups that multiply",
                        tile: Tile { m: 128, n: 256 },
                        multiple: 8,
                        hopper: true,
                        kernel: (kernels::wgmma::<T>::definition(), &[128, 256, 4]),
                        launch: |on, a, b, c| kernels::wgmma::<T, 128, 256, 4>::launch(on, a, b, c),
                    },
                    Rung {
                        name: "persistent",
                        idea: "tile after tile, stored while the next is fetched; clusters of two share what they read of B",
                        tile: Tile { m: 128, n: 256 },
                        multiple: 8,
                        hopper: true,
                        kernel: (kernels::persistent_tiles::<T>::definition(), &[128, 256, 4, 2, 8]),
                        launch: |on, a, b, c| kernels::persistent_tiles::<T, 128, 256, 4, 2, 8>::launch(on, a, b, c),
                    },
                    Rung {
                        name: "panels",
                        idea: "panels of 16 tiles instead of clusters: the cache shares, and no block waits for another",
                        tile: Tile { m: 128, n: 256 },
                        multiple: 8,
                        hopper: true,
                        kernel: (kernels::persistent_tiles::<T>::definition(), &[128, 256, 4, 1, 16]),
                        launch: |on, a, b, c| kernels::persistent_tiles::<T, 128, 256, 4, 1, 16>::launch(on, a, b, c),
                    },
                ]
            }
        }
    )*};
}

ladder! { f16 bf16 }

/// Every kernel of the ladder.
pub fn definitions() -> Vec<&'static Definition> {
    use kernels::*;
    vec![
        naive::<f16>::definition(),
        tiled::<f16>::definition(),
        mma::<f16>::definition(),
        wgmma::<f16>::definition(),
        persistent_tiles::<f16>::definition(),
    ]
}

/// Elements of A and B that a rung reads from global memory, counted by the checked simulator as it executes the lowered
/// program for M x N x K. None where TMA reads, whose elements it does not count.
///
/// # Errors
/// The kernel cannot be lowered, or the simulator finds it wrong.
pub fn reads<T: Real>(rung: &Rung<T>, [m, n, k]: [usize; 3]) -> Result<Option<u64>> {
    if rung.hopper {
        return Ok(None);
    }
    let (definition, consts) = rung.kernel;
    let kernel = definition.kernel()?;
    let wanted = |i: &&Instance| i.dtypes == [T::DTYPE] && i.consts == consts;
    let instance = kernel.instances.iter().find(wanted).with_context(|| format!("no instance {consts:?}"))?;
    let program = lower(kernel, instance, Target::Sm80)
        .map_err(|mistakes| anyhow!("{}", mistakes.iter().map(|d| d.message.clone()).collect::<Vec<_>>().join("; ")))?;
    let tensor = |rows: usize, cols: usize| {
        Argument::Tensor(TensorArgument {
            dtype: T::DTYPE,
            shape: vec![rows as i64, cols as i64],
            strides: vec![cols as i64, 1],
            memory: Arc::new(Memory::zeros(rows * cols * size_of::<T>())),
            offset: 0,
        })
    };
    let report = run(&program, &[tensor(m, k), tensor(k, n), tensor(m, n)], &CheckedOptions::default())?;
    ensure!(report.is_clean(), "{}: {}", rung.name, report.render(&program));
    let operands = [0, 1].map(|index| Space::Global(ParamId::from_u32(index)));
    Ok(Some(operands.into_iter().map(|space| report.elements(space, AccessKind::Read)).sum()))
}
