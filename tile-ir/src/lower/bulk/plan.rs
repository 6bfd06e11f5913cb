//! What qualifies for a ring of bulk copies.

use super::super::channel::{self, Loop, Slice};
use super::super::hopper::Reason;
use super::super::uses::{accesses, each};
use super::super::value::OpenAxis;
use crate::analysis::{Analysis, Bound};
use crate::ir::pipeline::{is_read_only, shared_loads};
use crate::ir::*;
use std::collections::BTreeSet;

/// Bytes of a row from which on one copy of it is worth a thread that does nothing else. Shorter ones cost TMA
/// more than their bytes: they are left to the copies of every thread.
const LONG_ROW: u32 = 1024;
/// What bulk copies are made of: addresses, and numbers of bytes.
/// Source: PTX ISA, `cp.async.bulk`.
pub(super) const CHUNK: u32 = 16;
/// Iterations up to which the threads' side is written out, so that their slots and parities are constants: measured
/// on an H200, 0.5% of a dependent chain of GEMVs of 4096 x 4096 (8 iterations).
const WRITTEN_OUT: u32 = 16;
/// Threads of a warp.
pub(super) const WARP: u32 = 32;
/// Most threads of a block.
const THREADS: u32 = 1024;

/// How a kernel is split.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The pipelined loop whose loads the producer issues.
    pub(super) at: Loop,
    /// Slots of the ring.
    pub(super) slots: u32,
    /// Whether every iteration has a slot of its own: none is filled twice, and iteration i is in slot i.
    pub(super) once: bool,
    /// Whether the threads' side of the loop has few enough iterations to be written out.
    pub(super) written_out: bool,
    /// What fills a slot, in order.
    pub(super) loads: Vec<Load>,
    /// The statement of the body after which nothing reads the slot.
    pub(super) last_read: StmtId,
    /// The author's threads.
    pub(super) threads: u32,
}

impl Plan {
    /// The partitions and what is between them as text.
    pub(in crate::lower) fn lines(&self, kernel: &BoundKernel) -> Vec<String> {
        let once = if self.once { ", one for every iteration" } else { "" };
        let mut lines = vec![
            format!("partitions: a producer warp and the author's {} threads", self.threads),
            format!("channel: {} slots by bulk copies{once}", self.slots),
        ];
        if self.written_out {
            lines.push("the threads' side of the loop is written out".into());
        }
        lines.extend(self.loads.iter().map(|load| {
            let (buffer, tensor) = (&kernel.buffers[load.buffer].name, &kernel.params[load.tensor].name);
            format!("load: `{buffer}` of `{tensor}`, {} rows of {} {}", load.rows, load.columns, load.dtype)
        }));
        lines
    }
}

/// One copy into the ring.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(in crate::lower) tensor: ParamId,
    pub(in crate::lower) buffer: BufferId,
    pub(in crate::lower) src: TileRef,
    /// The axes of the tensor on which the tile may leave it, past its end.
    pub(in crate::lower) open: Vec<OpenAxis>,
    /// Rows, and elements of one.
    pub(in crate::lower) rows: u32,
    pub(in crate::lower) columns: u32,
    pub(in crate::lower) dtype: Dtype,
    pub(in crate::lower) evict: Option<Evict>,
    pub(in crate::lower) span: SpanId,
}

/// The plan for a bound kernel; why there is none, if it loads long rows ahead.
pub(crate) fn plan(kernel: &BoundKernel, analysis: &Analysis) -> Result<Plan, Option<Reason>> {
    let loops = shared_loads(kernel);
    let is_long = |stmt: &StmtId| {
        let StmtKind::Tile(TileOp::Copy { dst: TileRef { place: Place::Buffer(buffer), .. }, .. }) =
            &kernel.stmts[*stmt].kind
        else {
            return false;
        };
        let columns = kernel.buffer_extents(*buffer).last().copied().unwrap_or(0);
        columns.saturating_mul(kernel.buffer_dtype(*buffer).bytes()) >= LONG_ROW
    };
    if !loops.iter().any(|l| l.loads.iter().any(is_long)) {
        return Err(None);
    }
    let no = |text: &str, span| Err(Some(Reason { text: text.to_owned(), span }));
    let found = channel::loops(kernel).map_err(Some)?;
    let [at] = &found[..] else {
        return no("two pipelined loops load shared arrays", kernel.stmts[found[1].stmt].span);
    };
    let span = kernel.stmts[at.stmt].span;
    let StmtKind::For { body, .. } = &kernel.stmts[at.stmt].kind else { return Err(None) };
    let Some(stages) = at.stages else { return Err(None) };
    if analysis.wide_vars.contains(&at.var) {
        return no("the pipelined loop counts in 64 bits", span);
    }
    let threads = kernel.thread_count();
    if !threads.is_multiple_of(WARP) || threads + WARP > THREADS {
        let text = format!("{threads} threads are not whole warps that leave room for one more in {THREADS}");
        return no(&text, span);
    }
    if !kernel.cluster.is_empty() {
        return no("its blocks form clusters", span);
    }
    let planner = Planner { kernel, analysis };
    let loads = at.loads.iter().map(|stmt| planner.load(*stmt)).collect::<Result<Vec<Load>, _>>()?;
    let buffers: Vec<BufferId> = loads.iter().map(|load| load.buffer).collect();
    let last_read = planner.reads(&buffers, at, body)?;
    let starts = loads.iter().flat_map(|load| &load.src.start);
    Slice::new(kernel, vec![at.stmt], starts).producible(kernel).map_err(Some)?;
    let trips = planner.trips(at.range);
    // Round an outer loop a slot is filled again.
    let once = kernel.body.contains(&at.stmt) && trips.is_some_and(|trips| trips <= stages);
    let slots = if once { trips.unwrap_or(1).max(1) } else { stages };
    let written_out = trips.is_some_and(|trips| trips <= WRITTEN_OUT);
    Ok(Plan { at: at.clone(), slots, once, written_out, loads, last_read, threads })
}

struct Planner<'k> {
    kernel: &'k BoundKernel,
    analysis: &'k Analysis,
}

impl Planner<'_> {
    /// One copy, as rows of contiguous bytes.
    fn load(&self, stmt: StmtId) -> Result<Load, Option<Reason>> {
        let kernel = self.kernel;
        let span = kernel.stmts[stmt].span;
        let no = |text: &str| Err(Some(Reason { text: text.to_owned(), span }));
        let StmtKind::Tile(TileOp::Copy { src, dst, tma, evict, .. }) = &kernel.stmts[stmt].kind else {
            return Err(None);
        };
        let (Place::Tensor(tensor), Place::Buffer(buffer)) = (src.place, dst.place) else { return Err(None) };
        let Some(facts) = self.analysis.copies.get(&stmt) else { return Err(None) };
        if !tma {
            return no("a copy says `.tma(false)`");
        }
        if !is_read_only(kernel, tensor) {
            return no(
                "what is loaded from is also written by the kernel, and bulk copies are not ordered with other accesses",
            );
        }
        let dtype = kernel.buffer_dtype(buffer);
        if kernel.place_dtype(src.place) != kernel.place_dtype(dst.place) {
            return no("a load converts its elements");
        }
        let whole = dst.start.iter().all(|e| kernel.const_index(*e) == Some(0));
        if !whole || facts.extents.iter().map(|e| u64::from(*e)).product::<u64>() != kernel.buffer_len(buffer) {
            return no("a load fills a part of its array");
        }
        let ones = facts.extents.iter().take_while(|e| **e == 1).count().min(facts.extents.len().saturating_sub(1));
        let (rows, columns) = match facts.extents[ones..] {
            [columns] => (1, columns),
            [rows, columns] => (rows, columns),
            _ => return no("a load has more than rows and columns"),
        };
        let bytes = dtype.bytes();
        if facts.width.or(facts.transaction).map(|elements| elements * bytes) != Some(CHUNK) {
            return no("rows are not known to start and to end at multiples of 16 bytes");
        }
        if facts.src_nonnegative.iter().any(|known| !known) {
            return no("a tile may begin before the tensor does");
        }
        if src.start.iter().any(|start| self.analysis.wide.contains(start)) {
            return no("where a tile begins may not fit 32 bits");
        }
        let rank = facts.src.len();
        let is_open = |axis: &usize| facts.src[*axis] != Bound::Proven;
        let open: Vec<OpenAxis> = (0..rank).filter(is_open).map(|axis| OpenAxis { axis, below: false }).collect();
        if open.iter().any(|open| open.axis + 2 < rank) {
            return no("a tile may leave the tensor on another axis than those of rows and columns");
        }
        let evict = evict.as_ref().and_then(Eviction::hint);
        Ok(Load { tensor, buffer, src: src.clone(), open, rows, columns, dtype, evict, span })
    }

    /// Slots are read by elements, in the loop alone; the last statement that does.
    fn reads(&self, buffers: &[BufferId], ring: &Loop, body: &[StmtId]) -> Result<StmtId, Option<Reason>> {
        let kernel = self.kernel;
        let is_slot = |place: Place| matches!(place, Place::Buffer(b) if buffers.contains(&b));
        let mut found = None;
        let mut inside = BTreeSet::new();
        each(kernel, body, &mut |s| {
            inside.insert(s);
        });
        let mut meet = |stmt: StmtId, text: &str| {
            found.get_or_insert(Reason { text: text.to_owned(), span: kernel.stmts[stmt].span });
        };
        each(kernel, &kernel.body, &mut |stmt| {
            if ring.loads.contains(&stmt) || stmt == ring.stmt {
                return;
            }
            let kind = &kernel.stmts[stmt].kind;
            if matches!(kind, StmtKind::Persistent { .. }) {
                return meet(stmt, "its tiles are `persistent`");
            }
            kind.parts(&mut |part| match part {
                StmtPart::Element(access, touch) if touch.writes() && is_slot(kernel.accesses[access].place) => {
                    meet(stmt, "what is loaded is also written");
                }
                StmtPart::Tile(tile, _) if is_slot(tile.place) => {
                    meet(stmt, "what is loaded is copied on, not read by elements");
                }
                StmtPart::Array(buffer, touch) if touch == AccessMode::Write && is_slot(Place::Buffer(buffer)) => {
                    meet(stmt, "what is loaded is also filled");
                }
                StmtPart::Element(..)
                | StmtPart::Tile(..)
                | StmtPart::Array(..)
                | StmtPart::Value(_)
                | StmtPart::Constant(_) => {}
                StmtPart::Binds(_) | StmtPart::Sets(_) | StmtPart::Body(_) | StmtPart::Report => {}
                StmtPart::BlockCollective
                | StmtPart::WarpCollective
                | StmtPart::BlockBarrier
                | StmtPart::WarpBarrier => {}
            });
            let reads = accesses(kernel, &[stmt]).into_iter().any(|a| is_slot(kernel.accesses[a].place));
            if kind.bodies().is_empty() && reads && !inside.contains(&stmt) {
                meet(stmt, "what is loaded is also read outside of the loop");
            }
        });
        if let Some(reason) = found {
            return Err(Some(reason));
        }
        let reads = |stmt: &StmtId| accesses(kernel, &[*stmt]).iter().any(|a| is_slot(kernel.accesses[*a].place));
        body.iter().rfind(|stmt| !ring.loads.contains(stmt) && reads(stmt)).copied().ok_or_else(|| {
            let text = "nothing reads what is loaded".to_owned();
            Some(Reason { text, span: kernel.stmts[ring.stmt].span })
        })
    }

    /// The iterations of a loop from 0 in steps of 1, where they are known.
    fn trips(&self, [start, end, step]: [ExprId; 3]) -> Option<u32> {
        let kernel = self.kernel;
        let plain = kernel.const_index(start) == Some(0) && kernel.const_index(step) == Some(1);
        kernel.const_index(end).filter(|_| plain).map(|n| u32::try_from(n.max(0)).unwrap_or(u32::MAX))
    }
}
