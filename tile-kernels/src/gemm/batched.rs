//! Products of many matrices at once: the kernel of [`gemm`](super::kernel::gemm) with a third axis of tiles.

use super::activation::activate;
use super::copied::MEMORY;
use super::model::{MULTIPROCESSORS, norm, up};
use super::operands::{extents_agree, multiply};
use super::{Gemm, GemmElement, Precision, full, gemm, has_copy_engine, rows_are_made_of};
use tile_runtime::kernel::{Argument, LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

/// `c[z] = f(alpha a[z] b[z] + beta c[z] + bias)` for every `z`; an operand whose first extent is 1 is every batch's.
#[tile_kernel(
    instances(
        (BM, BN, BK, STAGES, THREADS) in [
            (128, 256, 64, 4, 256), (128, 128, 64, 6, 128), (64, 64, 64, 8, 128),
            // Few rows, of X W^T alone.
            (16, 64, 128, 8, 128), (32, 64, 128, 7, 128),
            // Where every thread copies.
            (128, 128, 32, 4, 256), (64, 64, 32, 4, 128),
            // f32, multiplied by multiply-adds.
            (128, 64, 8, 4, 128), (64, 64, 16, 4, 128), (32, 64, 16, 4, 64),
        ],
        (A_T, B_T) in [(false, true), (false, false), (true, true), (true, false)],
        where (T::BITS == 16) == (BK > 16) && (T::BITS == 16 || U::BITS == 32) && (T::BITS == 32 || BM >= 64 || B_T && !A_T)
    ),
    dtypes(T in [f16, bf16, f32], U in [f16, bf16, f32]),
    uses(activate, multiply, extents_agree),
    require(AZ == Z || AZ == 1),
    require(BZ == Z || BZ == 1),
    require(extents_agree::<A_T, B_T>(A0, A1, B0, B1, M, N))
)]
pub fn gemm_batch<
    T,
    U,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
    const A_T: bool,
    const B_T: bool,
>(
    a: &Tensor<T, (AZ, A0, A1)>,
    b: &Tensor<T, (BZ, B0, B1)>,
    c: &mut Tensor<U, (Z, M, N)>,
    bias: Option<&Tensor<T, (N,)>>,
    alpha: f32,
    beta: f32,
    activation: u32,
) {
    let depth = if A_T { A0 } else { A1 };
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([if A_T { BK } else { BM }, if A_T { BM } else { BK }]);
    let mut b_s = alloc_shared::<T>([if B_T { BN } else { BK }, if B_T { BK } else { BN }]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    for [bx, by, z] in persistent([ceil_div(N, BN), ceil_div(M, BM), Z]) {
        let row = by * BM;
        let col = bx * BN;
        let az = min(z, AZ - 1);
        let bz = min(z, BZ - 1);
        clear(&mut acc);
        for step in pipelined(0..ceil_div(depth, BK), STAGES) {
            let k = step * BK;
            copy(a.at([az, if A_T { k } else { row }, if A_T { row } else { k }]), &mut a_s);
            copy(b.at([bz, if B_T { col } else { k }, if B_T { k } else { col }]), &mut b_s);
            multiply::<T, A_T, B_T>(&a_s, &b_s, &mut acc);
        }
        for [i, j] in parallel([BM, BN]) {
            let mut value = acc[[i, j]];
            // A multiplication an element; f32 has no registers for another branch.
            if T::BITS == 32 || alpha != 1.0 {
                value *= alpha;
            }
            if beta != 0.0 {
                value += beta * c.masked([z, row + i, col + j]).cast::<f32>();
            }
            if let Some(shift) = bias {
                value += shift.masked([col + j]).cast::<f32>();
            }
            acc[[i, j]] = activate(value, activation);
        }
        copy(&acc, c.at_mut([z, row, col]));
    }
}

/// `c[z] = f(alpha a[z] b[z] + beta c[z] + bias)` for every batch `z`, on a device or stream: `a` of shape `[Z, M, K]` (or
/// `[Z, K, M]`), `b` of `[Z, K, N]` (or `[Z, N, K]`), `c` of `[Z, M, N]`, the bias of `[N]`. An operand of one batch is
/// used for all of them.
///
/// One launch, but for f32 that is multiplied as tf32: that is a launch a batch.
///
/// # Errors
/// As [`gemm`]. Where batches are launched one by one, those before the one that fails are.
#[track_caller]
pub fn gemm_batched<T: GemmElement<C>, C: Element>(
    on: &impl LaunchOn,
    a: TensorView<'_, T, 3>,
    b: TensorView<'_, T, 3>,
    mut c: TensorViewMut<'_, C, 3>,
    options: &Gemm<'_, T>,
) -> Result<(), Error> {
    let shape = Shape::of(on, &a, &b, c.shape(), options);
    let bytes = T::DTYPE.bytes();
    if bytes == 2 || options.precision == Precision::Full {
        return Ok(launch_tile(on, shape.tile(bytes), a, b, c, options)?);
    }
    for z in 0..c.shape()[0] {
        let [a, b] = [&a, &b].map(|operand| operand.row(if operand.shape()[0] == 1 { 0 } else { z }));
        gemm(on, a?, b?, c.reborrow().row(z)?, options)?;
    }
    Ok(())
}

/// What a tile is chosen by.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Products.
    pub batches: i64,
    /// Rows of each.
    pub m: i64,
    /// Columns of each.
    pub n: i64,
    /// Elements that are added up.
    pub k: i64,
    /// Whether `a` and `b` are stored transposed.
    pub stored: [bool; 2],
    /// Whether TMA fetches operands.
    pub fetched: bool,
    /// Whether rows are whole words of 4 bytes, so that asynchronous copies bring them.
    pub asynchronous: bool,
}

/// Rows, columns, elements of a step along K, slots, threads: an instance of [`gemm_batch`](struct@gemm_batch) but for its layouts.
pub type Tile = (i64, i64, usize, usize, usize);

/// The tiles of 16-bit operands that TMA fetches, with how fast they are.
const FETCHED: [(Tile, Paces); 5] = [
    ((128, 256, 64, 4, 256), Paces { products: 7.62e6, step: 0.1762, depth: 256, turns: false }),
    ((128, 128, 64, 6, 128), Paces { products: 8.338e6, step: 0.1762, depth: 384, turns: true }),
    ((64, 64, 64, 8, 128), Paces { products: 6.866e6, step: 0.03935, depth: 768, turns: false }),
    ((32, 64, 128, 7, 128), Paces { products: 6.866e6, step: 0.03935, depth: 1280, turns: false }),
    ((16, 64, 128, 8, 128), Paces { products: 6.866e6, step: 0.03935, depth: 1536, turns: false }),
];

/// How fast a tile of an H200 is, in us, bytes and operations: figures of the kernel of one product, fitted to 338 of its shapes by an older
/// form of its [model](super::model). Few batches have been measured, so what is chosen for them has stayed.
#[derive(Clone, Copy)]
struct Paces {
    /// Operations a us of one multiprocessor.
    products: f64,
    /// us of 64 along K that no step falls below.
    step: f64,
    /// Elements along K of all stages.
    depth: i64,
    /// Whether two warpgroups take turns at tiles of their own.
    turns: bool,
}

impl Paces {
    /// us that a launch is expected to take, of so many batches, rows, columns and elements along K.
    fn us(self, (rows, cols, ..): Tile, [batches, m, n, k]: [i64; 4], [a_across, b_across]: [bool; 2]) -> f64 {
        const POWER: f64 = 2.598;
        // `b` is stored along K where it is stored transposed.
        let b_across = !b_across;
        let blocks = up(m, rows).saturating_mul(up(n, cols)).saturating_mul(batches).max(1);
        let waves = up(blocks, MULTIPROCESSORS);
        let last = (blocks - (waves - 1) * MULTIPROCESSORS) as f64 / MULTIPROCESSORS as f64;
        let filled = (waves - 1) as f64 + 0.8514 + 0.1486 * last;
        let across = 1.0 + 0.004228 * f64::from(a_across) + 0.03098 * f64::from(b_across);
        let products = (2 * rows.max(64) * cols * 64) as f64 / self.products * across;
        let a_rows = if a_across { rows } else { m.min(rows) };
        let b_rows = if b_across { cols } else { n.min(cols) };
        let pitches = [if a_across { m } else { k }, if b_across { n } else { k }];
        // Rows that begin between lines of 128 bytes are in two of them.
        let fetched = |part: f64| {
            let [a, b] = pitches.map(|pitch| 128.0 * (1.0 + part * f64::from(pitch % 64 != 0)));
            a_rows as f64 * a + b_rows as f64 * b
        };
        let working = blocks.min(MULTIPROCESSORS) as f64;
        let cache = fetched(0.9394) * working / 20.11e6;
        let few = if a_across { (64 - m).max(0) as f64 / 64.0 } else { 0.0 };
        let thin = 0.3963 * few * working / MULTIPROCESSORS as f64;
        let step = norm(&[products, fetched(0.5421) / 0.1659e6, cache, thin, self.step], POWER);
        let stored = (rows.min(m) * cols.min(n) * 2) as f64 / 0.04158e6;
        let between = if self.turns { 0.0 } else { (waves - 1) as f64 * (0.2073 + stored) };
        let compute = filled * up(k, 64) as f64 * step + between + stored;
        let asked = ((m.min(rows) + n.min(cols)) * self.depth * 2) as f64 * working;
        let again = 0.02937 * (up(m, rows) - 1).max(0) as f64;
        let bytes = (((m * k + n * k + m * n) * 2) as f64 + (n * k * 2) as f64 * again) * batches as f64;
        let [memory, under_way] = MEMORY;
        norm(&[compute, bytes / (memory * (1.0 - (-asked / under_way).exp())).max(1.0)], POWER)
    }
}

/// The tiles of 16-bit operands that every thread copies.
const COPIED: [Tile; 2] = [(128, 128, 32, 4, 256), (64, 64, 32, 4, 128)];

/// The tiles of f32 operands.
const FULL: [Tile; 3] = [(128, 64, 8, 4, 128), (64, 64, 16, 4, 128), (32, 64, 16, 4, 64)];

impl Shape {
    /// What a call of [`gemm_batched`] with these chooses a tile by.
    pub fn of<T: Element>(
        on: &impl LaunchOn,
        a: &TensorView<'_, T, 3>,
        b: &TensorView<'_, T, 3>,
        [batches, m, n]: [usize; 3],
        options: &Gemm<'_, T>,
    ) -> Shape {
        let k = a.shape()[if options.a_transposed { 1 } else { 2 }];
        let (fetched, asynchronous) = match (a.argument(), b.argument()) {
            (Argument::Tensor(a), Argument::Tensor(b)) => {
                (has_copy_engine(on, [&a, &b]), [&a, &b].into_iter().all(|operand| rows_are_made_of(operand, 4)))
            }
            _ => (false, false),
        };
        let [batches, m, n, k] = [batches, m, n, k].map(|extent| i64::try_from(extent).unwrap_or(i64::MAX));
        let stored = [options.a_transposed, options.b_transposed];
        Shape { batches, m, n, k, stored, fetched, asynchronous }
    }

    /// The tile for operands of so many bytes an element.
    pub fn tile(&self, bytes: u32) -> Tile {
        let &Shape { batches, m, n, k, stored, fetched, asynchronous } = self;
        if bytes >= 4 {
            let (bm, bn, bk, stages, threads, ..) = full::tile_of(
                FULL.map(|(bm, bn, bk, stages, threads)| (bm, bn, bk, stages, threads, 1, 1)),
                batches,
                m,
                n,
            );
            return (bm, bn, bk, stages, threads);
        }
        if fetched {
            // Of few rows there is one row of tiles.
            let legal = FETCHED.iter().filter(|((bm, ..), _)| *bm >= 64 || m <= *bm && stored == [false, true]);
            let cost = |(tile, paces): &(Tile, Paces)| paces.us(*tile, [batches, m, n, k], stored);
            return legal.min_by(|a, b| cost(a).total_cmp(&cost(b))).map_or(FETCHED[0].0, |(tile, _)| *tile);
        }
        // Single elements of large tiles, which are held in registers, leave none for a third axis.
        let covered = |(bm, bn, ..): Tile| {
            let tiles = batches.saturating_mul(up(m, bm)).saturating_mul(up(n, bn));
            (tiles, tiles.saturating_mul(bm * bn))
        };
        let [(tiles, large), (_, small)] = COPIED.map(covered);
        // Large tiles are a quarter faster where they are as many elements.
        match asynchronous && tiles >= 100 && large as f64 <= 1.25 * small as f64 {
            true => COPIED[0],
            false => COPIED[1],
        }
    }

    /// Every tile that there is for operands of so many bytes an element, for benchmarks and tests.
    pub fn tiles(&self, bytes: u32) -> Vec<Tile> {
        let narrow = self.stored == [false, true];
        match (bytes >= 4, self.fetched) {
            (true, _) => FULL.to_vec(),
            (false, true) => FETCHED.iter().map(|(tile, _)| *tile).filter(|tile| tile.0 >= 64 || narrow).collect(),
            (false, false) => COPIED.to_vec(),
        }
    }
}

/// `c[z] = f(alpha a[z] b[z] + beta c[z] + bias)` by a tile of [`Shape::tiles`].
///
/// # Errors
/// As [`gemm_batched`], and of any other tile.
#[doc(hidden)]
#[track_caller]
pub fn launch_tile<T: Element, C: Element>(
    on: &impl LaunchOn,
    tile: Tile,
    a: impl TensorInput<T, 3>,
    b: impl TensorInput<T, 3>,
    c: impl TensorOutput<C, 3>,
    options: &Gemm<'_, T>,
) -> Result<(), LaunchError> {
    let (rows, cols, step, stages, threads) = tile;
    let Gemm { a_transposed, b_transposed, bias, alpha, beta, activation, .. } = *options;
    let params = GemmBatchParams {
        BM: rows as usize,
        BN: cols as usize,
        BK: step,
        STAGES: stages,
        THREADS: threads,
        A_T: a_transposed,
        B_T: b_transposed,
    };
    let kernel = gemm_batch::<T, C>::instance(on.device(), params)?;
    kernel.launch_on(on, a, b, c, bias, alpha, beta, activation.number())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tile_runtime::kernel::Dtype;

    /// Every tile is an instance, in the layouts that it is offered in.
    #[test]
    fn tiles_are_instances() {
        let kernel = gemm_batch::<f16, f16>::definition().kernel().unwrap();
        for stored in [[false, true], [false, false], [true, true], [true, false]] {
            for (dtype, fetched) in [(Dtype::F16, true), (Dtype::F16, false), (Dtype::F32, false)] {
                let shape = Shape { batches: 4, m: 64, n: 64, k: 64, stored, fetched, asynchronous: true };
                for (bm, bn, bk, stages, threads) in shape.tiles(dtype.bytes()) {
                    let sizes = [bk, stages, threads].map(|size| size as i64);
                    let consts: Vec<i64> = [bm, bn].into_iter().chain(sizes).chain(stored.map(i64::from)).collect();
                    let found = kernel.instances.iter().any(|i| i.consts == consts && i.dtypes == [dtype, Dtype::F32]);
                    assert!(found, "{dtype} {consts:?}");
                }
            }
        }
    }

    #[test]
    fn small_matrices_take_small_tiles() {
        let shape =
            |batches, m, n, k| Shape { batches, m, n, k, stored: [false, true], fetched: true, asynchronous: true };
        assert_eq!(shape(1024, 64, 64, 64).tile(2).0, 64);
        assert!(shape(64, 16, 1024, 1024).tile(2).0 <= 64);
        assert_eq!(shape(64, 1024, 1024, 1024).tile(2).0, 128);
        assert_eq!(shape(512, 64, 64, 64).tile(4).0, 64);
        assert_eq!(shape(64, 1024, 1024, 1024).tile(4).0, 128);
        let copied = Shape { fetched: false, ..shape(1024, 64, 64, 64) };
        assert_eq!(copied.tile(2).0, 64);
    }
}
