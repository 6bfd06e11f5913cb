//! K split over blocks, where a shape has too few tiles to fill the device: [`gemm_cluster`] over the blocks of a cluster,
//! which add their sums through distributed shared memory; [`gemm_slots`] over blocks that put their sums aside, which
//! the last to arrive adds in order; [`partial`] over blocks whose sums a second launch adds; and [`exchange`] over the blocks of a cluster
//! that each add some rows. All give the same bits at every
//! launch. All take operands of 16 bits in every layout; the first two also f32, one operand of it at least along K, of which the
//! leading 10 bits of the fraction are multiplied ([`Precision::Tf32`](super::Precision)).

use super::choice::TILES;
use super::epilogue::{finish, store_four};
use super::model::{Call, MULTIPROCESSORS, Work, at_once, up};
use super::operands::{add_steps, extents_agree};
use super::partial::{First, GemmPartialParams};
use super::{Gemm, exchange, partial};
use tile_runtime::kernel::{Definition, LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;
use tile_runtime::{Element, LaunchError};

/// `c = f(alpha a b + beta c + bias)`, [`kernel::gemm`](fn@super::kernel::gemm) with K cut into `CK` parts, each a block's of a cluster.
#[tile_kernel(
    instances(
        (BM, BN, BK, STAGES, THREADS, CK) in [
            (16, 64, 128, 11, 128, 2), (32, 64, 128, 9, 128, 2), (64, 64, 64, 12, 128, 2), (64, 64, 64, 9, 128, 4),
            (64, 128, 64, 4, 128, 4),
            // f32 as tf32, of which 32 elements are as many bytes.
            (64, 64, 32, 12, 128, 2), (64, 64, 32, 9, 128, 4), (64, 64, 32, 6, 128, 8), (128, 64, 32, 7, 128, 2),
            (64, 128, 32, 7, 128, 2), (64, 128, 32, 4, 128, 4), (128, 128, 32, 4, 256, 2),
        ],
        (A_T, B_T) in [(false, true), (false, false), (true, true), (true, false)],
        EPILOGUE in [false, true],
        where (BK == 64 || B_T && !A_T || BK == 32 && (B_T || !A_T)) && (T::BITS == 32) == (BK == 32) && (T::BITS == 16 || U::BITS == 32)
    ),
    pdl(independent = [b]),
    dtypes(T in [f16, bf16, f32], U in [f16, bf16, f32]),
    uses(finish, add_steps, extents_agree),
    targets(sm_90a),
    require(extents_agree::<A_T, B_T>(A0, A1, B0, B1, M, N))
)]
pub fn gemm_cluster<
    T,
    U,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
    const CK: usize,
    const A_T: bool,
    const B_T: bool,
    const EPILOGUE: bool,
>(
    a: &Tensor<T, (A0, A1)>,
    b: &Tensor<T, (B0, B1)>,
    c: &mut Tensor<U, (M, N)>,
    bias: Option<&Tensor<T, (N,)>>,
    alpha: f32,
    beta: f32,
    activation: u32,
) {
    // ANCHOR: cluster
    let depth = if A_T { A0 } else { A1 };
    // `add_steps` makes the transpose of the product then.
    let turned = T::BITS == 32 && !B_T;
    let [bx, by, part] = blocks([ceil_div(N, BN), ceil_div(M, BM), CK]);
    cluster([1, 1, CK]);
    threads([THREADS]);
    let row = by * BM;
    let col = bx * BN;
    let share = ceil_div(ceil_div(depth, BK), CK);
    let mut a_s = alloc_shared::<T>([if A_T { BK } else { BM }, if A_T { BM } else { BK }]);
    let mut b_s = alloc_shared::<T>([if B_T { BN } else { BK }, if B_T { BK } else { BN }]);
    let mut acc = alloc_fragment::<f32>([if turned { BN } else { BM }, if turned { BM } else { BN }]);
    clear(&mut acc);
    add_steps::<T, true, BK, STAGES, A_T, B_T>(a, b, &mut a_s, &mut b_s, &mut acc, row, col, part, share);
    cluster_reduce(Sum, &mut acc);
    if part == 0 {
        if turned {
            if EPILOGUE {
                finish::<T, U, true>(&mut acc, c, bias, row, col, alpha, beta, activation);
            }
            copy(acc.t(), c.at_mut([row, col]));
        } else {
            if EPILOGUE {
                finish::<T, U, false>(&mut acc, c, bias, row, col, alpha, beta, activation);
            }
            copy(&acc, c.at_mut([row, col]));
        }
    }
    // ANCHOR_END: cluster
}

/// `c = f(alpha a b + beta c + bias)`, [`kernel::gemm`](fn@super::kernel::gemm) with K cut into `slots` parts, at most `S`. A block puts
/// its sum aside; the last one to arrive at a tile adds those of all, slot after slot.
#[tile_kernel(
    instances(
        (BM, BN, BK, STAGES, THREADS) in [
            (64, 64, 64, 12, 128), (16, 64, 128, 10, 128),
            // f32 as tf32.
            (64, 64, 32, 12, 128), (128, 128, 32, 6, 256),
        ],
        S in [8, 64],
        (A_T, B_T) in [(false, true), (false, false), (true, true), (true, false)],
        // The sums of many slots of a wide tile take the last block longer than the products.
        where (!A_T || BM >= 64) && (BN < 128 || S == 8) && (T::BITS == 32) == (BK == 32) && (T::BITS == 16 || U::BITS == 32)
            && (T::BITS == 16 || B_T || !A_T)
    ),
    pdl(independent = [b]),
    dtypes(T in [f16, bf16, f32], U in [f16, bf16, f32]),
    uses(add_steps, store_four, extents_agree),
    targets(sm_90a),
    require(0 < slots && slots <= S),
    require(A0 <= 1 << 22 && A1 <= 1 << 22),
    require(ceil_div(M, BM) <= 128),
    require(ceil_div(N, BN) <= 128),
    require(extents_agree::<A_T, B_T>(A0, A1, B0, B1, M, N)),
    require(N % 8 == 0),
    require(!B_T || B0 % 8 == 0),
    require(B_T || B1 % 8 == 0)
)]
pub fn gemm_slots<
    T,
    U,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
    const S: usize,
    const A_T: bool,
    const B_T: bool,
>(
    a: &Tensor<T, (A0, A1)>,
    b: &Tensor<T, (B0, B1)>,
    c: &mut Tensor<U, (M, N)>,
    bias: Option<&Tensor<T, (N,)>>,
    alpha: f32,
    beta: f32,
    activation: u32,
    slots: usize,
    partial: &mut Workspace<f32, (S, M, N)>,
    arrived: &mut Workspace<u32, (Fixed<128>, Fixed<128>)>,
) {
    let depth = if A_T { A0 } else { A1 };
    // `add_steps` makes the transpose of the product then.
    let turned = T::BITS == 32 && !B_T;
    let [bx, by, part] = blocks([ceil_div(N, BN), ceil_div(M, BM), slots]);
    let [t] = threads([THREADS]);
    let row = by * BM;
    let col = bx * BN;
    let steps = ceil_div(depth, BK);
    // Steps of a slot, with bounds that keep a tile's place in 32 bits.
    let share = max(0, min(ceil_div(steps, min(max(1, slots), S)), 1 << 16));
    let mut a_s = alloc_shared::<T>([if A_T { BK } else { BM }, if A_T { BM } else { BK }]);
    let mut b_s = alloc_shared::<T>([if B_T { BN } else { BK }, if B_T { BK } else { BN }]);
    let mut acc = alloc_fragment::<f32>([if turned { BN } else { BM }, if turned { BM } else { BN }]);
    clear(&mut acc);
    add_steps::<T, true, BK, STAGES, A_T, B_T>(a, b, &mut a_s, &mut b_s, &mut acc, row, col, min(part, S), share);
    if turned {
        copy(acc.t(), partial.at_mut([part, row, col]));
    } else {
        copy(&acc, partial.at_mut([part, row, col]));
    }
    if last_arriver(&mut arrived[[by, bx]], slots) {
        // A thread has four neighbours of every so many rows, 16 bytes that all of a warp's lie together, and eight such at once, or four
        // where a consumer has fewer registers.
        let fours = min(if THREADS > 128 { 4 } else { 8 }, BM * BN / (4 * THREADS));
        for part in 0..BM * BN / (4 * THREADS) / fours {
            let mut sums = alloc_local::<f32>([fours, 4]);
            let mut read = alloc_local::<f32>([4]);
            clear(&mut sums);
            for s in serial(0..slots).unroll(4) {
                for e in unroll(0..fours) {
                    let at = ((part * fours + e) * THREADS + t) * 4;
                    for v in vectorized(0..4) {
                        read[v] = partial.masked([s, row + at / BN, col + at % BN + v]);
                    }
                    for v in unroll(0..4) {
                        sums[[e, v]] += read[v];
                    }
                }
            }
            for e in unroll(0..fours) {
                let at = ((part * fours + e) * THREADS + t) * 4;
                let (i, j) = (row + at / BN, col + at % BN);
                store_four::<T, U>(&sums, e, c, bias, i, j, alpha, beta, activation);
            }
        }
    }
}

/// How K is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Rows and columns of a tile, a step along K, slots of shared memory.
    pub tile: (i64, i64, usize, usize),
    /// Tiles of a cluster beside one another, which share what they fetch of `a`, and below one another, which share what they fetch of `b`.
    pub shares: [i64; 2],
    /// Blocks of a cluster that add their sums: [`gemm_cluster`]. 1 of others.
    pub parts: usize,
    /// Sums of a tile that are put aside; 1 of [`gemm_cluster`].
    pub slots: usize,
    /// Who adds them.
    pub adds: Adds,
}

/// Who adds the sums of the parts of K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adds {
    /// The blocks of a cluster: [`gemm_cluster`].
    Cluster,
    /// The last block to arrive at a tile: [`gemm_slots`].
    LastArriver,
    /// All of the device, in a second launch: [`partial`].
    SecondLaunch,
    /// The blocks of a cluster, some rows each: [`exchange`].
    Exchange,
}

/// The splits over clusters alone; those whose step along K is 128 are of operands that are both stored along K.
pub(super) const CLUSTERS: [Split; 5] = [
    over([16, 64, 128, 11], 2, 1),
    over([32, 64, 128, 9], 2, 1),
    over([64, 64, 64, 12], 2, 1),
    over([64, 64, 64, 9], 4, 1),
    over([64, 128, 64, 4], 4, 1),
];

/// The splits over clusters alone of f32 as tf32, stored along K.
const TF32_CLUSTERS: [Split; 7] = [
    over([64, 64, 32, 12], 2, 1),
    over([64, 64, 32, 9], 4, 1),
    over([64, 64, 32, 6], 8, 1),
    over([128, 64, 32, 7], 2, 1),
    over([64, 128, 32, 7], 2, 1),
    over([64, 128, 32, 4], 4, 1),
    over([128, 128, 32, 4], 2, 1),
];

/// The tiles of the splits of f32 as tf32 whose last arriver adds.
const TF32_SLOTS: [Split; 2] = [over([64, 64, 32, 12], 1, 2), over([128, 128, 32, 6], 1, 2)];

/// The tiles of the splits whose last arriver adds.
pub(super) const SLOTS: [Split; 2] = [over([64, 64, 64, 12], 1, 2), over([16, 64, 128, 10], 1, 2)];

/// The tiles of the splits whose sums a second launch adds.
pub(super) const PARTIAL: [Split; 20] = [
    aside([160, 128, 64, 5], [2, 1]),
    aside([192, 128, 64, 4], [2, 1]),
    aside([64, 96, 64, 10], [1, 4]),
    aside([64, 128, 64, 8], [1, 4]),
    aside([64, 128, 64, 8], [4, 1]),
    aside([128, 64, 64, 8], [4, 1]),
    aside([64, 64, 64, 12], [4, 1]),
    aside([144, 64, 64, 8], [2, 1]),
    aside([96, 64, 64, 9], [4, 1]),
    aside([64, 192, 64, 6], [1, 4]),
    aside([256, 128, 64, 4], [2, 1]),
    aside([144, 128, 64, 5], [2, 1]),
    aside([64, 96, 64, 10], [2, 4]),
    aside([64, 48, 64, 14], [4, 2]),
    aside([176, 128, 64, 4], [2, 1]),
    aside([192, 176, 64, 4], [2, 1]),
    aside([152, 128, 64, 6], [1, 2]),
    aside([128, 224, 64, 4], [1, 2]),
    aside([224, 128, 64, 4], [2, 1]),
    aside([136, 128, 64, 6], [1, 2]),
];

/// The splits over clusters whose blocks add some rows each.
pub(super) const EXCHANGE: [Split; 4] =
    [among([64, 64, 64, 11], 8), among([64, 48, 64, 13], 8), among([64, 32, 64, 16], 8), among([64, 96, 64, 8], 8)];

/// Most blocks of a launch that splits K over clusters: two rounds of blocks.
const CLUSTERED: i64 = 2 * MULTIPROCESSORS;

/// Most bytes of the sums that are put aside, in a workspace of the stream.
pub(super) const ASIDE: i64 = 128 << 20;

/// Most slots of each kind of instance.
const MOST: [usize; 2] = [8, 64];

/// The splits over clusters, those whose last arriver adds, those whose sums a second launch adds, and those of clusters that exchange them.
fn kinds(tf32: bool) -> [&'static [Split]; 4] {
    if tf32 { [&TF32_CLUSTERS, &TF32_SLOTS, &[], &[]] } else { [&CLUSTERS, &SLOTS, &PARTIAL, &EXCHANGE] }
}

const fn over([rows, cols, step, stages]: [usize; 4], parts: usize, slots: usize) -> Split {
    let adds = if slots == 1 { Adds::Cluster } else { Adds::LastArriver };
    Split { tile: (rows as i64, cols as i64, step, stages), shares: [1, 1], parts, slots, adds }
}

const fn aside(tile: [usize; 4], shares: [i64; 2]) -> Split {
    Split { adds: Adds::SecondLaunch, shares, ..over(tile, 1, 2) }
}

const fn among(tile: [usize; 4], parts: usize) -> Split {
    Split { adds: Adds::Exchange, ..over(tile, parts, 1) }
}

impl Split {
    /// Every split that serves a shape whose operands are stored so, with all of its blocks running at once. `tf32`: of f32, instead of
    /// elements of 16 bits.
    pub fn candidates(m: i64, n: i64, k: i64, stored: [bool; 2], tf32: bool) -> impl Iterator<Item = Split> {
        let [clusters, slots, partial, exchange] = kinds(tf32);
        let clusters = clusters
            .iter()
            .chain(exchange.iter().filter(move |_| n % 8 == 0))
            .copied()
            .filter(move |s| s.has(stored) && s.blocks(m, n) <= CLUSTERED && k > s.tile.2 as i64);
        let slots = slots.iter().chain(partial).flat_map(move |&split| {
            let (rows, cols, step, _) = split.tile;
            let tiles = split.tiles(m, n).max(1);
            let counted = split.adds == Adds::SecondLaunch || up(m, rows) <= 128 && up(n, cols) <= 128;
            let in_rows = n % 8 == 0 || split.adds == Adds::SecondLaunch;
            let legal = in_rows && k <= 1 << 22 && m.saturating_mul(n) <= 1 << 28 && counted && split.has(stored);
            let room = if cols < 128 || split.adds == Adds::SecondLaunch { MOST[1] } else { MOST[0] };
            let most = if legal { up(k, step as i64).min(room as i64) } else { 0 };
            // As many as one, two, three or four rounds of blocks have room for; and fewer, whose sums are added sooner.
            let rounds = |rounds: i64| (rounds * at_once(split.shares[0] * split.shares[1]) / tiles).min(most);
            let one = rounds(1);
            let mut counts = vec![rounds(4), rounds(3), rounds(2), one, one / 2, one / 4, one / 8];
            counts.retain(|count| *count > 1);
            counts.dedup();
            let all = counts.into_iter().map(move |slots| Split { slots: slots as usize, ..split });
            all.filter(move |split| {
                (4 * split.room() as i64).saturating_mul(m).saturating_mul(partial::width(n)) <= ASIDE
            })
        });
        clusters.chain(slots).filter(move |_| m > 0 && n > 0 && k > 0)
    }

    /// What a launch by it does.
    pub fn work(self, shape: [i64; 3], stored: [bool; 2]) -> Work {
        let (rows, cols, step, stages) = self.tile;
        let [depth, threads, parts, slots] =
            [step * stages, self.threads(), self.parts, self.slots].map(|size| size as i64);
        let kind = |split: Split| (split.tile, split.shares, split.adds, split.parts);
        let like = |other: Split| kind(other) == kind(self);
        let instance = Split::instances().position(like).map(|place| TILES.len() + place);
        let launches = if self.adds == Adds::SecondLaunch { 2 } else { 1 };
        Work {
            shape,
            stored,
            tile: [rows, cols],
            depth,
            threads,
            cluster: self.shares,
            parts,
            slots,
            launches,
            exchanges: self.adds == Adds::Exchange,
            instance,
            call: Call::dense(shape, stored),
        }
    }

    /// Every instance for operands of 16 bits that splits K: over the blocks of a cluster, or over slots, of which one instance serves any number.
    pub(super) fn instances() -> impl Iterator<Item = Split> {
        CLUSTERS.into_iter().chain(SLOTS).chain(PARTIAL).chain(EXCHANGE)
    }

    pub(super) fn threads(self) -> usize {
        match (self.tile.0, self.tile.1) {
            (192, _) => 384,
            (65.., cols) if self.tile.0 * cols >= 128 * 128 => 256,
            _ => 128,
        }
    }

    /// The instance of [`partial::gemm_partial`](struct@partial::gemm_partial).
    pub(super) fn partial_params<T: Element>(self, options: &Gemm<'_, T>) -> GemmPartialParams {
        let (rows, cols, step, stages) = self.tile;
        GemmPartialParams {
            BM: rows as usize,
            BN: cols as usize,
            BK: step,
            STAGES: stages,
            THREADS: self.threads(),
            CX: self.shares[0] as usize,
            CY: self.shares[1] as usize,
            A_T: options.a_transposed,
            B_T: options.b_transposed,
        }
    }

    /// Slots that there is memory for.
    fn room(self) -> usize {
        if self.adds == Adds::SecondLaunch { self.slots } else { self.most() }
    }

    /// Most slots of its instance.
    pub fn most(self) -> usize {
        MOST[usize::from(self.slots > MOST[0])]
    }

    /// One of every kind of instance, each with some counts of slots, for tests.
    pub fn samples(tf32: bool) -> impl Iterator<Item = Split> {
        let [clusters, slots, partial, exchange] = kinds(tf32);
        let slots = slots.iter().flat_map(|split| [2, 5, 8, 11].map(|slots| Split { slots, ..*split }));
        let slots = slots.filter(|split| split.tile.1 < 128 || split.slots <= MOST[0]);
        let partial = partial.iter().flat_map(|split| [2, 11].map(|slots| Split { slots, ..*split }));
        clusters.iter().chain(exchange).copied().chain(slots).chain(partial)
    }

    /// Whether there is an instance for operands that are stored so.
    pub fn has(self, [a_transposed, b_transposed]: [bool; 2]) -> bool {
        let (rows, cols, step, _) = self.tile;
        match self.adds {
            _ if step == 32 => super::tf32::takes([a_transposed, b_transposed]),
            Adds::Cluster => step == 64 || !a_transposed && b_transposed,
            Adds::LastArriver => !a_transposed || rows >= 64,
            Adds::Exchange => b_transposed || cols % 64 == 0,
            Adds::SecondLaunch => cols >= 64 || b_transposed && !a_transposed,
        }
    }

    /// The kernel whose instance it is.
    pub fn definition(self) -> &'static Definition {
        match self.adds {
            Adds::Cluster => gemm_cluster::<f16, f16>::definition(),
            Adds::LastArriver => gemm_slots::<f16, f16>::definition(),
            Adds::SecondLaunch => partial::gemm_partial::<f16>::definition(),
            Adds::Exchange => exchange::gemm_exchange::<f16, f16>::definition(),
        }
    }

    /// The constants of the kernel's instance, in order of declaration.
    pub fn consts(self, [a_transposed, b_transposed]: [bool; 2], epilogue: bool) -> Vec<i64> {
        let (rows, cols, step, stages) = self.tile;
        let mut all = vec![rows, cols, step as i64, stages as i64];
        all.push(self.threads() as i64);
        match self.adds {
            Adds::LastArriver => all.push(self.most() as i64),
            Adds::SecondLaunch => all.extend(self.shares),
            Adds::Cluster | Adds::Exchange => all.push(self.parts as i64),
        }
        all.extend([a_transposed, b_transposed].map(i64::from));
        if self.adds == Adds::Cluster {
            all.push(i64::from(epilogue));
        }
        all
    }

    fn tiles(self, m: i64, n: i64) -> i64 {
        let [cx, cy] = self.shares;
        up(up(m, self.tile.0), cy) * cy * up(up(n, self.tile.1), cx) * cx
    }

    fn blocks(self, m: i64, n: i64) -> i64 {
        self.tiles(m, n) * (self.parts * self.slots) as i64
    }
}

/// Launches a split.
///
/// # Errors
/// As [`gemm`](super::gemm), and where there is no instance for operands that are stored so.
#[doc(hidden)]
#[track_caller]
pub fn launch<T: Element, C: Element>(
    on: &impl LaunchOn,
    split: Split,
    a: impl TensorInput<T, 2>,
    b: impl TensorInput<T, 2>,
    c: impl TensorOutput<C, 2>,
    options: &Gemm<'_, T>,
) -> Result<(), LaunchError> {
    if split.adds == Adds::SecondLaunch {
        return partial::launch(on, on, First::Fetched(split), a, b, c, options);
    }
    if split.adds == Adds::Exchange {
        return exchange::launch(on, split, a, b, c, options);
    }
    let (rows, cols, step, stages) = split.tile;
    let [rows, cols] = [rows, cols].map(|extent| extent as usize);
    let Gemm { a_transposed, b_transposed, bias, alpha, beta, activation, .. } = *options;
    if split.adds == Adds::Cluster {
        let params = GemmClusterParams {
            BM: rows,
            BN: cols,
            BK: step,
            STAGES: stages,
            THREADS: split.threads(),
            CK: split.parts,
            A_T: a_transposed,
            B_T: b_transposed,
            EPILOGUE: !options.is_plain(),
        };
        let kernel = gemm_cluster::<T, C>::instance(on.device(), params)?;
        return kernel.launch_on(on, a, b, c, bias, alpha, beta, activation.number());
    }
    let params = GemmSlotsParams {
        BM: rows,
        BN: cols,
        BK: step,
        STAGES: stages,
        THREADS: split.threads(),
        S: split.most(),
        A_T: a_transposed,
        B_T: b_transposed,
    };
    let kernel = gemm_slots::<T, C>::instance(on.device(), params)?;
    kernel.launch_on(on, a, b, c, bias, alpha, beta, activation.number(), split.slots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::Choice;
    use tile_runtime::kernel::Dtype;

    /// Every split is an instance of its kernel.
    #[test]
    fn samples_are_instances() {
        let halves = Split::samples(false).map(|split| (split, [Dtype::F16; 2]));
        let all = halves.chain(Split::samples(true).map(|split| (split, [Dtype::F32; 2])));
        for (split, dtypes) in all {
            let kernel = split.definition().kernel().unwrap();
            for stored in [[false, true], [false, false], [true, true], [true, false]] {
                for epilogue in [false, true] {
                    let consts = split.consts(stored, epilogue);
                    // The kernel whose sums a second launch adds is of the operands' type alone.
                    let found = kernel.instances.iter().any(|i| i.consts == consts && dtypes.starts_with(&i.dtypes));
                    let is_cluster = split.adds == Adds::Cluster;
                    assert_eq!(found || is_cluster, split.has(stored) || is_cluster, "{split:?} {stored:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_split_and_what_is_not() {
        let split = |m, n, k| Choice::for_shape(m, n, k, [false, true]).split;
        // Few tiles and a long K.
        for (m, n, k) in [(128, 128, 65_536), (256, 256, 16_384), (64, 64, 16_384)] {
            let split = split(m, n, k).unwrap();
            assert!(split.parts * split.slots > 1, "{m} {n} {k}: {split:?}");
        }
        // 64 tiles of 64 columns, a pair of blocks each.
        assert_eq!(split(16, 4096, 14_336), Some(CLUSTERS[0]));
        // Tiles for every multiprocessor, or a K that is soon through.
        for (m, n, k) in
            [(4096, 4096, 4096), (1024, 1024, 1024), (16, 7168, 16_384), (128, 128, 512), (64, 18_432, 7168)]
        {
            assert_eq!(split(m, n, k), None, "{m} {n} {k}");
        }
        // Nothing to do is done at once.
        assert_eq!(split(0, 0, 0), None);
        // `a` or `b` stored otherwise.
        assert!(Choice::for_shape(128, 128, 65_536, [false, false]).split.is_some());
    }
}
