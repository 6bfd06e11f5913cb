//! K split over blocks, where a shape has too few tiles to fill the device: [`gemm_cluster`] over the blocks of a cluster,
//! which add their sums through distributed shared memory, and [`gemm_slots`] over clusters that put their sums aside, which
//! the last to arrive adds in order. Both give the same bits at every launch. `b` is stored as N x K, as weights are.

use super::activation::activate;
use super::epilogue::finish;
use super::{Choice, Gemm, GemmElement};
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;
use tile_runtime::{Element, LaunchError};

/// `c = f(alpha a b^T + beta c + bias)`, [`kernel::gemm`](fn@super::kernel::gemm) with K cut into `CK` parts.
#[tile_kernel(
    instances(
        (BM, BN, BK, STAGES, CK) in [(16, 64, 128, 11, 2), (32, 64, 128, 9, 2), (64, 64, 128, 6, 2), (128, 64, 64, 7, 2)],
        EPILOGUE in [false, true]
    ),
    pdl(independent = [b]),
    dtypes(T in [f16, bf16], U in [f16, bf16, f32]),
    uses(finish),
    targets(sm_90a)
)]
pub fn gemm_cluster<
    T,
    U,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const CK: usize,
    const EPILOGUE: bool,
>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    c: &mut Tensor<U, (M, N)>,
    bias: Option<&Tensor<T, (N,)>>,
    alpha: f32,
    beta: f32,
    activation: u32,
) {
    // ANCHOR: cluster
    let [bx, by, part] = blocks([ceil_div(N, BN), ceil_div(M, BM), CK]);
    cluster([1, 1, CK]);
    threads([128]);
    let row = by * BM;
    let col = bx * BN;
    let share = ceil_div(ceil_div(K, BK), CK);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for step in pipelined(0..share, STAGES) {
        let k = (part * share + step) * BK;
        copy(a.at([row, k]), &mut a_s);
        copy(b.at([col, k]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    cluster_reduce(Sum, &mut acc);
    if part == 0 {
        if EPILOGUE {
            finish(&mut acc, c, bias, row, col, alpha, beta, activation);
        }
        copy(&acc, c.at_mut([row, col]));
    }
    // ANCHOR_END: cluster
}

/// `c = f(alpha a b^T + beta c + bias)` with K cut into `S` slots, each of a cluster of `CK` blocks. A cluster puts its sum aside;
/// the last one to arrive at a tile adds those of all, slot after slot.
#[tile_kernel(
    instances(
        (BM, BN, BK, STAGES, CK) in [(64, 64, 128, 6, 2), (64, 64, 128, 7, 1), (128, 64, 64, 7, 2)],
        S in [2, 4, 8, 16],
        EPILOGUE in [false, true]
    ),
    pdl(independent = [b]),
    dtypes(T in [f16, bf16], U in [f16, bf16, f32]),
    uses(activate),
    targets(sm_90a),
    require(N % 8 == 0),
    require(ceil_div(M, BM) <= 64),
    require(ceil_div(N, BN) <= 64)
)]
pub fn gemm_slots<
    T,
    U,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const CK: usize,
    const S: usize,
    const EPILOGUE: bool,
>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    c: &mut Tensor<U, (M, N)>,
    bias: Option<&Tensor<T, (N,)>>,
    alpha: f32,
    beta: f32,
    activation: u32,
    partial: &mut Workspace<f32, (S, M, N)>,
    arrived: &mut Workspace<u32, (Fixed<64>, Fixed<64>)>,
) {
    let [bx, by, part] = blocks([ceil_div(N, BN), ceil_div(M, BM), S * CK]);
    cluster([1, 1, CK]);
    let [t] = threads([128]);
    let row = by * BM;
    let col = bx * BN;
    let share = ceil_div(ceil_div(K, BK), S * CK);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for step in pipelined(0..share, STAGES) {
        let k = (part * share + step) * BK;
        copy(a.at([row, k]), &mut a_s);
        copy(b.at([col, k]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    cluster_reduce(Sum, &mut acc);
    if part % CK == 0 {
        copy(&acc, partial.at_mut([part / CK, row, col]));
        if last_arriver(&mut arrived[[by, bx]], S) {
            // A thread has four neighbours of every so many rows: 16 bytes that all of a warp's lie together.
            let mut sums = alloc_local::<f32>([BM * BN / 128]);
            let mut read = alloc_local::<f32>([4]);
            let mut out = alloc_local::<U>([4]);
            for e in unroll(0..BM * BN / 128) {
                sums[e] = 0.0;
            }
            for s in serial(0..S).unroll(8192 / (BM * BN)) {
                for e in unroll(0..BM * BN / 512) {
                    let at = (e * 128 + t) * 4;
                    for v in vectorized(0..4) {
                        read[v] = partial.masked([s, row + at / BN, col + at % BN + v]);
                    }
                    for v in unroll(0..4) {
                        sums[e * 4 + v] += read[v];
                    }
                }
            }
            for e in unroll(0..BM * BN / 512) {
                let at = (e * 128 + t) * 4;
                if EPILOGUE && beta != 0.0 {
                    for v in vectorized(0..4) {
                        out[v] = c.masked([row + at / BN, col + at % BN + v]);
                    }
                }
                for v in unroll(0..4) {
                    let mut value = sums[e * 4 + v];
                    if EPILOGUE {
                        value = alpha * value;
                        if beta != 0.0 {
                            value += beta * out[v].cast::<f32>();
                        }
                        if let Some(shift) = bias {
                            value += shift.masked([col + at % BN + v]).cast::<f32>();
                        }
                        value = activate(value, activation);
                    }
                    out[v] = value.cast::<U>();
                }
                for v in vectorized(0..4) {
                    *c.masked_mut([row + at / BN, col + at % BN + v]) = out[v];
                }
            }
        }
    }
}

/// How K is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Rows and columns of a tile, a step along K, slots of shared memory.
    pub tile: (i64, i64, usize, usize),
    /// Blocks of a cluster that add their sums.
    pub parts: usize,
    /// Sums that the last arriver adds; 1 where there is one cluster a tile, [`gemm_cluster`].
    pub slots: usize,
}

/// The splits over clusters alone.
const CLUSTERS: [Split; 4] = [
    over([16, 64, 128, 11], 2, 1),
    over([32, 64, 128, 9], 2, 1),
    over([64, 64, 128, 6], 2, 1),
    over([128, 64, 64, 7], 2, 1),
];

/// The splits whose last arriver adds, for each number of sums.
const SLOTS: [Split; 3] = [over([64, 64, 128, 6], 2, 2), over([64, 64, 128, 7], 1, 2), over([128, 64, 64, 7], 2, 2)];

const fn over([rows, cols, step, stages]: [usize; 4], parts: usize, slots: usize) -> Split {
    Split { tile: (rows as i64, cols as i64, step, stages), parts, slots }
}

/// Bytes a us of sums that a cluster adds, or a last arriver (`docs/hopper.md`, "Rates that constants were fitted to").
const REDUCE_RATE: f64 = 0.041e6;
/// us that a cluster saves by reading `a` half as often as blocks of half the columns do. Measured where both are possible:
/// 32, 64 and 16 rows of 4096 columns.
const SHARED_US: f64 = 0.5;
/// us that a sum takes to be put aside and its arrival to be known.
const ARRIVE_US: f64 = 1.7;
/// us from the launch to the first product and from the last one to the end.
const FIXED_US: f64 = 3.4;
/// Bytes a us that all multiprocessors read from memory, that come into one of them from the second-level cache where all of
/// them read, and where few do.
const READ_RATE: f64 = 4.57e6;
const PORT_RATE: f64 = 0.109e6;
const ALONE_RATE: f64 = 0.194e6;
/// Multiprocessors of the device the costs were measured on.
const MULTIPROCESSORS: i64 = 132;
/// K from which on it is split: below, that takes longer than it saves.
const LONG: i64 = 4096;
/// Most of the estimate without a split that one over slots may have: it is an estimate.
const SLOTS_GAIN: f64 = 0.8;

impl Split {
    /// The split for a shape that takes `plain_us` without one; none where that is faster. `b` is stored as N x K.
    pub fn for_shape(m: i64, n: i64, k: i64, plain_us: f64) -> Option<Split> {
        // As many rows as a tile has; for 128, two tiles of 64 that share what they read of `b` are faster by 3%.
        let fits = |s: &Split| (1..=s.tile.0.min(64)).contains(&m) && k >= LONG;
        let clusters = CLUSTERS.into_iter().filter(fits).map(|s| (s, s.estimate(m, n, k), plain_us));
        // Clusters gain nothing where sums are put aside anyway.
        let slots = Split::over_slots().filter(|s| s.parts == 1 && k >= LONG && n % 8 == 0).map(|s| {
            let least = if s.tiles(m, n) * 2 <= MULTIPROCESSORS { plain_us * SLOTS_GAIN } else { 0.0 };
            (s, s.estimate(m, n, k), least)
        });
        // All blocks run at once.
        let all = clusters.chain(slots).filter(|(s, us, least)| us < least && s.blocks(m, n) <= MULTIPROCESSORS);
        all.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(split, ..)| split)
    }

    /// Every split that there is a kernel for.
    pub fn candidates() -> impl Iterator<Item = Split> {
        CLUSTERS.into_iter().chain(Split::over_slots())
    }

    /// Whether its kernel takes this shape with all blocks running at once.
    pub fn serves(self, m: i64, n: i64, k: i64) -> bool {
        let slots = self.slots == 1 || n % 8 == 0 && up(m, self.tile.0) <= 64 && up(n, self.tile.1) <= 64;
        slots && self.blocks(m, n) <= MULTIPROCESSORS && k >= (self.parts * self.slots * self.tile.2) as i64
    }

    fn over_slots() -> impl Iterator<Item = Split> {
        SLOTS.into_iter().flat_map(|split| [2, 4, 8, 16].map(|slots| Split { slots, ..split }))
    }

    /// us that it is expected to take for a shape, where all of its blocks run at once.
    pub fn estimate(self, m: i64, n: i64, k: i64) -> f64 {
        let (rows, cols, step, stages) = self.tile;
        let shares = (self.parts * self.slots) as i64;
        let steps = up(up(k, step as i64), shares);
        let port = if self.slots > 1 { ALONE_RATE } else { PORT_RATE };
        let compute = steps as f64 * ((rows + cols) * step as i64 * 2) as f64 / port;
        let asked = (m.min(rows) + n.min(cols)) as f64 * (step * stages * 2) as f64;
        let rate = READ_RATE.min(self.blocks(m, n) as f64 * 0.063e6) * (1.0 - (-asked / 33e3).exp());
        let read = ((m * k + n * k + m * n) * 2) as f64 / rate.max(1.0);
        let tile_bytes = (rows * cols * 4) as f64;
        let reduce = if self.parts > 1 { tile_bytes / REDUCE_RATE - SHARED_US } else { 0.0 };
        let arrive = if self.slots > 1 { ARRIVE_US + self.slots as f64 * tile_bytes / REDUCE_RATE } else { 0.0 };
        FIXED_US + compute.max(read) + 0.02 * compute.min(read) + reduce + arrive
    }

    fn tiles(self, m: i64, n: i64) -> i64 {
        up(m, self.tile.0) * up(n, self.tile.1)
    }

    fn blocks(self, m: i64, n: i64) -> i64 {
        self.tiles(m, n) * (self.parts * self.slots) as i64
    }

    /// The constants of the kernel's instance, in order of declaration.
    pub fn consts(self, epilogue: bool) -> Vec<i64> {
        let (rows, cols, step, stages) = self.tile;
        let mut all = vec![rows, cols, step as i64, stages as i64, self.parts as i64];
        all.extend((self.slots > 1).then_some(self.slots as i64));
        all.push(i64::from(epilogue));
        all
    }
}

fn up(a: i64, b: i64) -> i64 {
    (a.max(0) + b - 1) / b
}

/// An element type whose products split K, where the result's is `C`.
pub trait SplitElement<C: Element = Self>: Element {
    /// Launches a split; `b` is stored as N x K, and `a` as M x K.
    #[doc(hidden)]
    #[track_caller]
    fn launch_split(
        on: &impl LaunchOn,
        split: Split,
        a: impl TensorInput<Self, 2>,
        b: impl TensorInput<Self, 2>,
        c: impl TensorOutput<C, 2>,
        options: &Gemm<'_, Self>,
    ) -> Result<(), LaunchError>;
}

macro_rules! launch {
    ($ty:ty, $out:ty, $on:ident, $split:ident, $a:ident, $b:ident, $c:ident, $o:ident;
     $(($bm:literal, $bn:literal, $bk:literal, $stages:literal, $parts:literal): $slots:tt),*) => {
        match ($split.tile, $split.parts) {
            $((($bm, $bn, $bk, $stages), $parts) => launch!(
                @slots $ty, $out, $on, $split, $a, $b, $c, $o, ($bm, $bn, $bk, $stages, $parts), $slots
            ),)*
            _ => launch!(@any $ty, $out, $on, $a, $b, $c, $o),
        }
    };
    (@slots $ty:ty, $out:ty, $on:ident, $split:ident, $a:ident, $b:ident, $c:ident, $o:ident,
     ($bm:literal, $bn:literal, $bk:literal, $stages:literal, $parts:literal), [$($one:literal)?; $($s:literal),*]) => {
        match ($split.slots, $o.is_plain()) {
            $(($one, true) => gemm_cluster::<$ty, $out, $bm, $bn, $bk, $stages, $parts, false>::launch(
                $on, $a, $b, $c, None, 1.0, 0.0, 0,
            ),
            ($one, false) => gemm_cluster::<$ty, $out, $bm, $bn, $bk, $stages, $parts, true>::launch(
                $on, $a, $b, $c, $o.bias, $o.alpha, $o.beta, $o.activation.number(),
            ),)?
            $(($s, true) => gemm_slots::<$ty, $out, $bm, $bn, $bk, $stages, $parts, $s, false>::launch(
                $on, $a, $b, $c, None, 1.0, 0.0, 0,
            ),
            ($s, false) => gemm_slots::<$ty, $out, $bm, $bn, $bk, $stages, $parts, $s, true>::launch(
                $on, $a, $b, $c, $o.bias, $o.alpha, $o.beta, $o.activation.number(),
            ),)*
            _ => launch!(@any $ty, $out, $on, $a, $b, $c, $o),
        }
    };
    (@any $ty:ty, $out:ty, $on:ident, $a:ident, $b:ident, $c:ident, $o:ident) => {
        <$ty as GemmElement<$out>>::launch($on, Choice::default(), $a, $b, $c, $o)
    };
}

macro_rules! elements {
    ($($ty:ty => $out:ty),*) => { $(
        impl SplitElement<$out> for $ty {
            #[track_caller]
            fn launch_split(
                on: &impl LaunchOn,
                split: Split,
                a: impl TensorInput<Self, 2>,
                b: impl TensorInput<Self, 2>,
                c: impl TensorOutput<$out, 2>,
                options: &Gemm<'_, Self>,
            ) -> Result<(), LaunchError> {
                launch!($ty, $out, on, split, a, b, c, options;
                    (16, 64, 128, 11, 2): [1;],
                    (32, 64, 128, 9, 2): [1;],
                    (64, 64, 128, 6, 2): [1; 2, 4, 8, 16],
                    (64, 64, 128, 7, 1): [; 2, 4, 8, 16],
                    (128, 64, 64, 7, 2): [1; 2, 4, 8, 16]
                )
            }
        }
    )* };
}

elements!(f16 => f16, f16 => f32, bf16 => bf16, bf16 => f32);

#[cfg(test)]
mod tests {
    use super::*;

    /// Every split is an instance of its kernel.
    #[test]
    fn candidates_are_instances() {
        let kernels = [gemm_cluster::<f16, f16>::definition(), gemm_slots::<f16, f16>::definition()];
        for split in Split::candidates() {
            let kernel = kernels[usize::from(split.slots > 1)].kernel().unwrap();
            for epilogue in [false, true] {
                assert!(kernel.instances.iter().any(|i| i.consts == split.consts(epilogue)), "{split:?}");
            }
        }
    }

    #[test]
    fn what_is_split_and_what_is_not() {
        let split = |m, n, k| Choice::for_shape(m, n, k, [false, true]).split;
        // Few tiles and a long K.
        for (m, n, k) in [(128, 128, 65_536), (256, 256, 16_384), (64, 64, 16_384)] {
            let split = split(m, n, k).unwrap();
            assert!(split.slots > 1 && split.blocks(m, n) <= MULTIPROCESSORS, "{m} {n} {k}: {split:?}");
        }
        // 64 tiles of 64 columns, a pair of blocks each.
        assert_eq!(split(64, 4096, 7168), Some(CLUSTERS[2]));
        assert_eq!(split(32, 4096, 7168), Some(CLUSTERS[1]));
        assert_eq!(split(16, 4096, 14_336), Some(CLUSTERS[0]));
        // Tiles for every multiprocessor, or a K that is soon through.
        for (m, n, k) in [
            (4096, 4096, 4096),
            (1024, 1024, 1024),
            (16, 7168, 16_384),
            (128, 128, 512),
            (64, 18_432, 7168),
            (128, 4096, 7168),
        ] {
            assert_eq!(split(m, n, k), None, "{m} {n} {k}");
        }
        // Nothing to do is done at once.
        assert_eq!(split(0, 0, 0), None);
        // `a` or `b` stored otherwise: there is no kernel.
        assert_eq!(Choice::for_shape(128, 128, 65_536, [false, false]).split, None);
    }
}
