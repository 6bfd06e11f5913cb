//! Everything that a call can choose among, with the time that the model expects of it.

use super::Choice;
use super::bulk::GemvBulkParams;
use super::kernel::GemvParams;
use super::lines::GemvLinesParams;
use super::model::{MULTIPROCESSORS, Parameters, Work};
use super::ring::GemvRingParams;
use super::rows::GemvRowsParams;
use super::specialized::GemvSpecializedParams;
use super::split::GemvSplitParams;
use super::work::{Loop, Ring, up};
use tile_runtime::kernel::{Dtype, TensorRef};

/// What a call is asked for, as far as the choice depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Rows of W.
    pub n: i64,
    /// Columns of W.
    pub k: i64,
    /// The type of the elements: f16, bf16 or f32.
    pub dtype: Dtype,
    /// The widest access that every row and x allow, in elements: of 16, 8 or 4 bytes, or 1.
    pub wide: usize,
    /// Whether rows lie side by side.
    pub dense: bool,
    /// Whether the device has bulk copies and clusters: compute capability 9.0, or a simulator.
    pub hopper: bool,
}

impl Problem {
    /// Dense, aligned operands on a device with bulk copies.
    ///
    /// Where `k` is no multiple of what 16 bytes hold, rows are as aligned as their length makes them.
    pub fn dense(n: i64, k: i64, dtype: Dtype) -> Problem {
        Problem {
            n,
            k,
            dtype,
            wide: widest(dtype, &[k.saturating_mul(i64::from(dtype.bytes()))]),
            dense: true,
            hopper: true,
        }
    }

    /// The problem that the operands of a launch are.
    pub(crate) fn of(w: &TensorRef<'_>, x: &TensorRef<'_>, hopper: bool) -> Problem {
        let dtype = w.dtype();
        let bytes = i64::from(dtype.bytes());
        let (n, k) = (w.shape().first().copied().unwrap_or(0), w.shape().get(1).copied().unwrap_or(0));
        // One row has no pitch that matters.
        let pitch = if n > 1 { w.strides().first().copied().unwrap_or(0) } else { 0 };
        let places = [w.address() as i64, x.address() as i64, k.saturating_mul(bytes), pitch.saturating_mul(bytes)];
        let dense = n <= 1 || w.strides().first() == Some(&k);
        Problem { n, k, dtype, wide: widest(dtype, &places), dense, hopper }
    }

    /// The product of the matrix's transpose: as many results as it has columns.
    pub(crate) fn turned(self) -> Problem {
        Problem { n: self.k, k: self.n, ..self }
    }

    /// Bytes of an element.
    pub(super) fn element(&self) -> i64 {
        i64::from(self.dtype.bytes()).max(1)
    }

    /// Elements of a 16-byte load.
    pub(super) fn vector(&self) -> usize {
        16 / self.element() as usize
    }
}

/// The widest access that divides all of these, in elements.
fn widest(dtype: Dtype, bytes: &[i64]) -> usize {
    let element = i64::from(dtype.bytes()).max(1);
    let widths = [16, 8, 4].into_iter().filter(|width| *width > element);
    let found = widths.into_iter().find(|width| bytes.iter().all(|value| value % width == 0));
    found.map_or(1, |width| (width / element) as usize)
}

/// Something that a call may launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Which instance.
    pub choice: Choice,
    /// The launch as the model sees it.
    pub work: Work,
}

impl Candidate {
    /// us that it is expected to take on an H200.
    pub fn us(&self) -> f64 {
        self.work.us(&Parameters::H200)
    }
}

/// Warps, rows, groups, most loads a row and steps ahead of [`gemv_specialized`](struct@super::specialized::gemv_specialized).
const FOR_K: [[usize; 5]; 12] = [
    [1, 1, 4, 8, 1],
    [1, 2, 4, 4, 1],
    [2, 1, 2, 4, 1],
    [2, 2, 2, 4, 1],
    [4, 1, 1, 4, 2],
    [4, 1, 1, 8, 1],
    [8, 1, 1, 2, 1],
    [8, 1, 1, 4, 1],
    [8, 2, 1, 1, 1],
    [8, 2, 1, 4, 1],
    [16, 1, 1, 4, 1],
    [32, 1, 1, 4, 1],
];

/// Threads a row, rows, groups and loads a row of [`gemv_rows`](struct@super::rows::gemv_rows), with 16-byte loads.
const ROWS: [[usize; 4]; 6] =
    [[4, 4, 64, 2], [8, 4, 32, 2], [16, 4, 16, 1], [16, 4, 16, 2], [32, 4, 8, 1], [32, 4, 8, 2]];

/// Threads a row, rows, groups and loads in flight of [`gemv_rows`](struct@super::rows::gemv_rows), for loads narrower than 16 bytes.
const NARROW: [[usize; 4]; 5] = [[32, 4, 8, 2], [32, 2, 4, 8], [128, 4, 1, 4], [256, 1, 1, 8], [1024, 1, 1, 8]];

/// Threads a row, rows, groups and lines a row of [`gemv_lines`](struct@super::lines::gemv_lines).
const LINES: [[usize; 4]; 7] =
    [[32, 4, 8, 1], [32, 4, 4, 2], [64, 4, 4, 2], [128, 2, 1, 2], [256, 1, 1, 4], [256, 2, 1, 2], [256, 8, 1, 1]];

/// Warps, rows at a time, stages and rows of a block of [`gemv_bulk`](struct@super::bulk::gemv_bulk), of the instances that a call may choose.
const BULK: [[usize; 4]; 3] = [[2, 4, 1, 4], [4, 4, 1, 4], [4, 8, 1, 8]];

/// Warps, rows at a time, stages and most rows of a block of [`gemv_ring`](struct@super::ring::gemv_ring).
const RING: [[usize; 4]; 5] = [[4, 8, 6, 512], [4, 4, 6, 512], [4, 2, 6, 512], [8, 1, 6, 256], [16, 1, 3, 128]];

/// Warps, rows, loads a row and blocks of a cluster of [`gemv_split`](struct@super::split::gemv_split).
const SPLIT: [[usize; 4]; 2] = [[8, 1, 2, 8], [8, 1, 4, 8]];

/// Warps, rows, groups, loads a row and steps ahead of [`gemv`](struct@super::kernel::gemv), of the instances with 16-byte loads that may be chosen
/// where a K is not to be compiled for.
const ANY_K: [[usize; 5]; 4] = [[1, 1, 4, 4, 1], [4, 2, 1, 2, 1], [4, 1, 1, 4, 2], [8, 2, 1, 4, 1]];

/// Elements of x that a thread of a ring keeps in registers, at most.
const MOST_OF_X: i64 = 72;
/// Bytes of a row from which on it arrives by a bulk copy.
const BULK_BYTES: i64 = 1024;
/// Bytes of W up to which blocks have equally many rows.
const RING_BYTES: i64 = 64 << 20;
/// Rows that a split is for, and the bytes that they have at least.
const SPLIT_ROWS: i64 = 132;
const SPLIT_BYTES: i64 = 32_768;
/// Rows of which a block of 1024 threads may have one.
const FEW_ROWS: i64 = 528;
/// Blocks that leave half of the multiprocessors idle.
const IDLE_BLOCKS: f64 = 66.0;

/// Elements of W, and of a last group's rows beyond it, that [`gemv_lines`](struct@super::lines::gemv_lines) can count.
const MOST_ELEMENTS: i64 = (1 << 31) - (1 << 16);

/// Every candidate for a problem; at least one.
pub fn candidates(problem: Problem) -> impl Iterator<Item = Candidate> {
    let p = problem;
    let aligned = p.wide == p.vector();
    let row = p.k.saturating_mul(p.element());
    let for_k = FOR_K.into_iter().filter(move |_| aligned);
    let for_k = for_k.map(move |[warps, rows, groups, unroll, stages]| {
        let params = GemvSpecializedParams {
            WARPS: warps,
            ROWS: rows,
            GROUPS: groups,
            UNROLL: unroll,
            STAGES: stages,
            VEC: p.vector(),
        };
        let loop_of = Loop { lanes: 32 * warps, rows, groups, unroll, stages, parts: 1, vec: p.vector(), exact: true };
        Candidate { choice: Choice::ForK(params), work: loop_of.work(&p) }
    });
    // Where half of the multiprocessors stand idle, a row has more warps rather than a thread more than two loads.
    let for_k = for_k.filter(move |candidate| {
        let Choice::ForK(GemvSpecializedParams { WARPS: warps, .. }) = candidate.choice else { return true };
        warps >= 32 || candidate.work.blocks > IDLE_BLOCKS || up(p.k, (32 * warps * p.vector()) as i64) <= 2
    });
    // Threads of a row that have nothing to load are a loss in any case; long rows have better kernels.
    let few_columns = ROWS.into_iter().filter(move |[lanes, _, _, unroll]| {
        let step = (lanes * p.vector()) as i64;
        aligned && p.k <= 4 * step * *unroll as i64
    });
    // Blocks of 1024 threads are for rows that are too few to fill the device otherwise.
    let narrow = NARROW.into_iter().filter(move |[lanes, ..]| !aligned && (*lanes < 1024 || p.n <= FEW_ROWS));
    let rows = few_columns.chain(narrow).map(move |[lanes, rows, groups, unroll]| {
        let params = GemvRowsParams { LANES: lanes, ROWS: rows, GROUPS: groups, UNROLL: unroll, VEC: p.wide };
        let loop_of = Loop { lanes, rows, groups, unroll, stages: 1, parts: 1, vec: p.wide, exact: false };
        Candidate { choice: Choice::Rows(params), work: loop_of.work(&p) }
    });
    // The kernel counts the elements before a row, in 32 bits.
    let counted = p.n.saturating_add(64).saturating_mul(p.k) < MOST_ELEMENTS;
    let lines = LINES.into_iter().filter(move |_| !aligned && p.dense && counted);
    let lines = lines.map(move |[lanes, rows, groups, unroll]| {
        let params = GemvLinesParams { LANES: lanes, ROWS: rows, GROUPS: groups, UNROLL: unroll, VEC: p.vector() };
        let loop_of = Loop { lanes, rows, groups, unroll, stages: 1, parts: 1, vec: p.vector(), exact: false };
        Candidate { choice: Choice::Lines(params), work: loop_of.by_lines(&p) }
    });
    let split = SPLIT.into_iter().filter(move |[_, _, unroll, _]| {
        // Single elements have the instances of four loads; 8- and 4-byte rows are read by elements here.
        let narrow = !aligned && *unroll == 4;
        p.hopper && p.n <= SPLIT_ROWS && row >= SPLIT_BYTES && (aligned || narrow)
    });
    let split = split.map(move |[warps, rows, unroll, parts]| {
        let vec = if aligned { p.vector() } else { 1 };
        let params = GemvSplitParams { WARPS: warps, ROWS: rows, UNROLL: unroll, PARTS: parts, VEC: vec };
        let loop_of = Loop { lanes: 32 * warps, rows, groups: 1, unroll, stages: 1, parts, vec, exact: false };
        Candidate { choice: Choice::Split(params), work: loop_of.work(&p) }
    });
    let by_bulk = move |warps: usize, span: usize, stages: usize| {
        let ring = Ring { warps, span, stages, rows: 1, most: 0 };
        aligned && p.hopper && row >= BULK_BYTES && ring.loads(&p) * p.vector() as i64 <= MOST_OF_X
    };
    let bulk = BULK.into_iter().filter(move |[warps, span, stages, _]| by_bulk(*warps, *span, *stages));
    let bulk = bulk.map(move |[warps, span, stages, rows]| {
        let params = GemvBulkParams { WARPS: warps, SPAN: span, STAGES: stages, ROWS: rows, VEC: p.vector() };
        Candidate { choice: Choice::Bulk(params), work: Ring { warps, span, stages, rows, most: rows }.work(&p) }
    });
    // With one stage nothing is on its way while a block computes: no block may take the place of another.
    let bulk = bulk.filter(|candidate| candidate.work.blocks <= MULTIPROCESSORS * candidate.work.resident());
    // Blocks that have equally many rows are not equally fast: in a long launch the others wait for the slowest, and none takes its rows.
    let short = p.n.saturating_mul(row) <= RING_BYTES;
    let ring = RING.into_iter().filter(move |[warps, span, stages, _]| short && by_bulk(*warps, *span, *stages));
    let ring = ring.flat_map(move |[warps, span, stages, most]| {
        // As many rows as give each block of one wave equally many.
        let one = Ring { warps, span, stages, rows: 1, most };
        let resident = one.work(&p).resident() as i64;
        let counts = [1, 2, 4].into_iter().filter(move |count| *count <= resident);
        let mut known = 0;
        counts.filter_map(move |count| {
            // Whole stages, since what a block reads beyond its rows is the next one's.
            let whole = up(up(p.n, 132 * count), span as i64).saturating_mul(span as i64);
            let rows = whole.clamp(1, most as i64) as usize;
            let params = GemvRingParams { WARPS: warps, SPAN: span, STAGES: stages, MOST: most, VEC: p.vector() };
            let candidate = Candidate { choice: Choice::Ring(params, rows), work: Ring { rows, ..one }.work(&p) };
            (rows != std::mem::replace(&mut known, rows)).then_some(candidate)
        })
    });
    let all = for_k.chain(rows).chain(lines).chain(split).chain(bulk).chain(ring);
    all.filter(|candidate| candidate.work.resident() >= 1.0)
}

/// The candidates that are not compiled for each K; at least one.
pub(super) fn candidates_of_any_k(problem: Problem) -> impl Iterator<Item = Candidate> {
    let p = problem;
    let any = ANY_K.into_iter().filter(move |_| p.wide == p.vector());
    let any = any.map(move |[warps, rows, groups, unroll, stages]| {
        let vec = p.vector();
        let params = GemvParams { WARPS: warps, ROWS: rows, GROUPS: groups, UNROLL: unroll, STAGES: stages, VEC: vec };
        let loop_of = Loop { lanes: 32 * warps, rows, groups, unroll, stages, parts: 1, vec, exact: false };
        Candidate { choice: Choice::AnyK(params), work: loop_of.work(&p) }
    });
    candidates(problem).filter(|candidate| !candidate.choice.is_of_one_k()).chain(any)
}
