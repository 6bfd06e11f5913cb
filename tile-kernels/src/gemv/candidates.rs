//! Everything that a call can choose among, with the time that the model expects of it.

use super::Choice;
use super::bulk::GemvBulkParams;
use super::kernel::GemvParams;
use super::lines::GemvLinesParams;
use super::model::{Parameters, Path, Work};
use super::ring::GemvRingParams;
use super::rows::GemvRowsParams;
use super::specialized::GemvSpecializedParams;
use super::split::GemvSplitParams;
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

    /// These operands.
    pub(super) fn of(w: &TensorRef<'_>, x: &TensorRef<'_>, hopper: bool) -> Problem {
        let dtype = w.dtype();
        let bytes = i64::from(dtype.bytes());
        let (n, k) = (w.shape().first().copied().unwrap_or(0), w.shape().get(1).copied().unwrap_or(0));
        // One row has no pitch that matters.
        let pitch = if n > 1 { w.strides().first().copied().unwrap_or(0) } else { 0 };
        let places = [w.address() as i64, x.address() as i64, k.saturating_mul(bytes), pitch.saturating_mul(bytes)];
        let dense = n <= 1 || w.strides().first() == Some(&k);
        Problem { n, k, dtype, wide: widest(dtype, &places), dense, hopper }
    }

    fn element(&self) -> i64 {
        i64::from(self.dtype.bytes()).max(1)
    }

    /// Elements of a 16-byte load.
    fn vector(&self) -> usize {
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

/// Warps, rows, groups, loads a row and steps ahead of [`gemv`](struct@super::kernel::gemv).
const ANY_K: [[usize; 5]; 9] = [
    [1, 1, 4, 4, 1],
    [1, 1, 8, 2, 1],
    [4, 1, 1, 4, 1],
    [4, 2, 1, 2, 1],
    [8, 2, 1, 1, 1],
    [8, 2, 1, 4, 1],
    [4, 1, 1, 4, 2],
    [4, 1, 1, 8, 2],
    [8, 2, 1, 1, 2],
];

/// Warps, rows, groups, most loads a row and steps ahead of [`gemv_specialized`](struct@super::specialized::gemv_specialized).
const FOR_K: [[usize; 5]; 22] = [
    [1, 1, 4, 4, 1],
    [1, 1, 4, 8, 1],
    [1, 2, 4, 4, 1],
    [2, 1, 2, 2, 1],
    [2, 1, 2, 4, 1],
    [2, 2, 2, 4, 1],
    [4, 1, 1, 4, 1],
    [4, 1, 1, 4, 2],
    [4, 1, 1, 8, 1],
    [4, 1, 1, 8, 2],
    [4, 2, 1, 4, 1],
    [8, 1, 1, 2, 1],
    [8, 1, 1, 4, 1],
    [8, 1, 1, 8, 1],
    [8, 2, 1, 1, 1],
    [8, 2, 1, 1, 2],
    [8, 2, 1, 2, 1],
    [8, 2, 1, 4, 1],
    [16, 1, 1, 2, 1],
    [16, 1, 1, 4, 1],
    [32, 1, 1, 2, 1],
    [32, 1, 1, 4, 1],
];

/// Threads a row, rows, groups and loads a row of [`gemv_rows`](struct@super::rows::gemv_rows), with 16-byte loads.
const ROWS: [[usize; 4]; 7] =
    [[4, 4, 64, 2], [8, 4, 32, 1], [8, 4, 32, 2], [16, 4, 16, 1], [16, 4, 16, 2], [32, 4, 8, 1], [32, 4, 8, 2]];

/// The same, with narrower loads.
const NARROW: [[usize; 4]; 10] = [
    [32, 4, 8, 2],
    [32, 4, 4, 4],
    [32, 2, 4, 8],
    [32, 8, 4, 2],
    [128, 2, 1, 8],
    [128, 4, 1, 4],
    [256, 1, 1, 8],
    [256, 2, 1, 8],
    [256, 4, 1, 4],
    [1024, 1, 1, 8],
];

/// Threads a row, rows, groups and lines a row of [`gemv_lines`](struct@super::lines::gemv_lines).
const LINES: [[usize; 4]; 10] = [
    [32, 4, 8, 1],
    [32, 4, 4, 2],
    [64, 4, 4, 2],
    [128, 2, 1, 2],
    [128, 4, 1, 2],
    [256, 1, 1, 4],
    [256, 2, 1, 2],
    [256, 4, 1, 1],
    [256, 4, 1, 2],
    [256, 8, 1, 1],
];

/// Warps, rows at a time, stages and rows of a block of [`gemv_bulk`](struct@super::bulk::gemv_bulk), of the instances that a call may choose.
const BULK: [[usize; 4]; 6] = [[2, 2, 1, 2], [2, 4, 1, 4], [4, 4, 1, 4], [4, 8, 1, 8], [8, 2, 3, 8], [4, 2, 6, 16]];

/// Warps, rows at a time, stages and most rows of a block of [`gemv_ring`](struct@super::ring::gemv_ring).
const RING: [[usize; 4]; 8] = [
    [4, 8, 6, 512],
    [4, 4, 6, 512],
    [4, 2, 6, 512],
    [8, 2, 6, 256],
    [8, 1, 6, 256],
    [8, 1, 4, 256],
    [8, 1, 3, 256],
    [16, 1, 3, 128],
];

/// Warps, rows, loads a row and blocks of a cluster of [`gemv_split`](struct@super::split::gemv_split).
const SPLIT: [[usize; 4]; 8] =
    [[8, 1, 4, 2], [8, 1, 2, 4], [8, 1, 4, 4], [8, 1, 2, 8], [8, 1, 4, 8], [8, 2, 4, 2], [8, 2, 2, 4], [8, 4, 2, 8]];

/// Elements of x that a thread of a ring keeps in registers, at most.
const MOST_OF_X: i64 = 72;
/// Bytes of a row from which on it arrives by a bulk copy, and rows that a split is for.
const BULK_BYTES: i64 = 1024;
const FEW_ROWS: i64 = 1056;

/// Elements of W, and of a last group's rows beyond it, that [`gemv_lines`](struct@super::lines::gemv_lines) can count.
const MOST_ELEMENTS: i64 = (1 << 31) - (1 << 16);

/// Every candidate for a problem; at least one.
pub fn candidates(problem: Problem) -> impl Iterator<Item = Candidate> {
    let p = problem;
    let aligned = p.wide == p.vector();
    let row = p.k.saturating_mul(p.element());
    let any_k = ANY_K.into_iter().filter(move |_| aligned);
    let any_k = any_k.map(move |[warps, rows, groups, unroll, stages]| {
        let params =
            GemvParams { WARPS: warps, ROWS: rows, GROUPS: groups, UNROLL: unroll, STAGES: stages, VEC: p.vector() };
        let loop_of = Loop { lanes: 32 * warps, rows, groups, unroll, stages, parts: 1, vec: p.vector(), exact: false };
        Candidate { choice: Choice::AnyK(params), work: loop_of.work(&p) }
    });
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
    // Threads of a row that have nothing to load are a loss in any case; long rows have better kernels.
    let short = ROWS.into_iter().filter(move |[lanes, _, _, unroll]| {
        let step = (lanes * p.vector()) as i64;
        aligned && p.k <= 4 * step * *unroll as i64
    });
    let narrow = NARROW.into_iter().filter(move |_| !aligned);
    let rows = short.chain(narrow).map(move |[lanes, rows, groups, unroll]| {
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
        p.hopper && p.n <= FEW_ROWS && row >= 8192 && (aligned || narrow)
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
    let ring = RING.into_iter().filter(move |[warps, span, stages, _]| by_bulk(*warps, *span, *stages));
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
    let all = any_k.chain(for_k).chain(rows).chain(lines).chain(split).chain(bulk).chain(ring);
    all.filter(|candidate| candidate.work.resident() >= 1.0)
}

fn up(a: i64, b: i64) -> i64 {
    let b = b.max(1);
    a.max(0) / b + i64::from(a.max(0) % b != 0)
}

/// A kernel whose threads load to registers.
struct Loop {
    /// Threads of a row, in each of `parts` blocks.
    lanes: usize,
    rows: usize,
    groups: usize,
    unroll: usize,
    stages: usize,
    parts: usize,
    vec: usize,
    /// Whether it is compiled for K: its loads are as many as K takes, shared out evenly among its steps.
    exact: bool,
}

impl Loop {
    fn work(&self, p: &Problem) -> Work {
        let Loop { lanes, rows, groups, unroll, stages, parts, vec, exact } = *self;
        let threads = lanes * groups;
        let block_rows = rows * groups;
        let share = up(p.k, (lanes * vec * parts) as i64).max(1);
        let steps = up(share, unroll as i64);
        let unrolled = if exact { up(share, steps) } else { unroll as i64 };
        let in_flight = share.min(unrolled * stages as i64);
        let row_bytes = (p.k * p.element()) as f64;
        let block_bytes = block_rows as f64 * row_bytes / parts as f64;
        let thread_bytes = (in_flight * rows as i64) as f64 * (vec as i64 * p.element()) as f64;
        let blocks = up(p.n, block_rows as i64) * parts as i64;
        let warps = (threads as f64 / 32.0).ceil() * blocks as f64;
        let taken = (steps * unrolled) as f64;
        // A register holds 4 bytes, or one narrower element.
        let held = (unrolled * (rows * stages) as i64) as f64 * ((vec as i64 * p.element()) as f64 / 4.0).max(1.0);
        let shuffles = 5.0f64.min((lanes as f64).log2()) + if lanes > 32 { 3.0 } else { 0.0 };
        Work {
            path: if parts > 1 { Path::Cluster } else { Path::Registers },
            blocks: blocks as f64,
            threads: threads as f64,
            registers: (24.0 + held).max(32.0),
            shared: if lanes > 32 { (rows * threads / 8) as f64 } else { 0.0 },
            block_bytes,
            bytes: p.n as f64 * row_bytes,
            // Threads beyond a short row ask for nothing.
            asked: (threads as f64 * thread_bytes).min(block_bytes),
            steps: up(steps, stages as i64) as f64,
            loads: warps * taken * (rows as f64 + 1.0),
            products: warps * taken * (rows * vec) as f64,
            shuffles: warps * rows as f64 * shuffles,
        }
    }
}

impl Loop {
    /// The same for rows whose ends are read by elements, and x by elements too.
    fn by_lines(&self, p: &Problem) -> Work {
        let work = self.work(p);
        let Loop { rows, groups, vec, .. } = *self;
        // Rows that are `vec` apart belong together.
        let blocks = up(up(p.n, (vec * rows) as i64) * vec as i64, groups as i64) as f64;
        let more = blocks / work.blocks.max(1.0);
        let of_w = work.loads * more * rows as f64 / (rows as f64 + 1.0);
        let warps = blocks * work.threads / 32.0;
        Work {
            blocks,
            registers: work.registers + (2 * rows) as f64,
            // An element of x a lane, 16 bytes apart, is four times the work of neighbours.
            loads: of_w + of_w / rows as f64 * (vec as f64 * 2.0) + warps * (2 * rows + 2) as f64,
            products: work.products * more,
            shuffles: work.shuffles * more,
            ..work
        }
    }
}

/// A kernel with a ring in shared memory.
#[derive(Clone, Copy)]
struct Ring {
    warps: usize,
    span: usize,
    stages: usize,
    /// Rows of a block.
    rows: usize,
    /// Rows whose sums there is room for.
    most: usize,
}

impl Ring {
    /// Loads of a row that a thread makes.
    fn loads(&self, p: &Problem) -> i64 {
        up(p.k, (32 * self.warps * p.vector()) as i64).max(1)
    }

    fn work(&self, p: &Problem) -> Work {
        let Ring { warps, span, stages, rows, most } = *self;
        let row_bytes = (p.k * p.element()) as f64;
        let slot = (self.loads(p) * (32 * warps * span * 16) as i64) as f64;
        let steps = up(rows as i64, span as i64);
        let blocks = up(p.n, rows as i64) as f64;
        let taken = blocks * (warps as i64 * steps * span as i64 * self.loads(p)) as f64;
        let block_bytes = rows as f64 * row_bytes;
        Work {
            path: Path::Ring,
            blocks,
            threads: (32 * (warps + 1)) as f64,
            registers: 40.0 + (self.loads(p) * p.vector() as i64) as f64,
            shared: stages as f64 * slot + ((most + span) * warps * 4) as f64 + 256.0,
            block_bytes,
            bytes: p.n as f64 * row_bytes,
            asked: (stages * span) as f64 * row_bytes,
            steps: steps as f64,
            loads: taken,
            products: taken * p.vector() as f64,
            shuffles: blocks * (warps * rows) as f64 * 5.0,
        }
    }
}
