//! Which kernels have a bulk pipeline: a producer warp that fills slots with rows of tensors, each one copy of bytes that lie together, and
//! the author's threads, which read them by elements. There is no tensor map and no swizzle, and reading a slot is reading an array.
//!
//! Contract. In: a bound kernel with one pipelined loop, wherever it stands, whose loads are copies of long rows into shared arrays, which the
//! rest of the loop reads by elements. What each thread loads for itself stays the thread's. Out: a plan, as for any other kernel with a producer.

use super::{Channel, Load, Plan, Planner, Reason, Ring, Slice, Split, Transport, WARP, loops};
use crate::analysis::{Analysis, Bound};
use crate::ir::pipeline::shared_loads;
use crate::ir::*;
use crate::lower::channel::{Loop, Rows};
use crate::lower::uses::statements;
use crate::lower::value::OpenAxis;
use std::collections::BTreeSet;

/// Bytes of a row from which on one copy of it is worth a thread that does nothing else. Shorter ones cost TMA
/// more than their bytes: they are left to the copies of every thread.
const LONG_ROW: u32 = 1024;
/// What bulk copies are made of: addresses, and numbers of bytes.
/// Source: PTX ISA, `cp.async.bulk`.
const CHUNK: u32 = 16;
/// Iterations up to which the threads' side is written out, so that their slots and parities are constants: measured
/// on an H200, 0.5% of a dependent chain of GEMVs of 4096 x 4096 (8 iterations).
const WRITTEN_OUT: u32 = 16;
/// Most threads of a block.
const THREADS: u32 = 1024;

/// The plan for a bound kernel that loads long rows ahead, or why it has none; `None` for any other kernel.
pub(in crate::lower) fn plan_rows(
    kernel: &BoundKernel,
    analysis: &Analysis,
    target: Target,
) -> Option<Result<Plan, Reason>> {
    let is_long = |stmt: &StmtId| {
        let StmtKind::Tile(TileOp::Copy { dst: TileRef { place: Place::Buffer(buffer), .. }, .. }) =
            &kernel.stmts[*stmt].kind
        else {
            return false;
        };
        let columns = kernel.buffer_extents(*buffer).last().copied().unwrap_or(0);
        columns.saturating_mul(kernel.buffer_dtype(*buffer).bytes()) >= LONG_ROW
    };
    let any = shared_loads(kernel).iter().any(|l| l.loads.iter().any(is_long));
    any.then(|| Planner { kernel, analysis, target, loops: loops(kernel)?, cluster: [1; 3] }.rows())
}

impl Planner<'_> {
    fn rows(&self) -> Result<Plan, Reason> {
        let (kernel, analysis) = (self.kernel, self.analysis);
        let no = |text: &str, span| Err(Reason::new(text, span));
        let [at] = &self.loops[..] else {
            return no("two pipelined loops load shared arrays", kernel.stmts[self.loops[1].stmt].span);
        };
        let span = kernel.stmts[at.stmt].span;
        let Some(stages) = at.stages else { return no("the loop that loads is not pipelined", span) };
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
        let loads = at.loads.iter().map(|stmt| self.load_rows(*stmt)).collect::<Result<Vec<Load>, _>>()?;
        let buffers: Vec<BufferId> = loads.iter().map(|load| load.buffer).collect();
        let last_read = Some(self.reads(&buffers, at)?);
        Slice::new(kernel, vec![at.stmt], loads.iter().flat_map(|load| load.vars(kernel))).producible(kernel)?;
        let trips = self.trips(at.range);
        // Round an outer loop a slot is filled again.
        let once = kernel.body.contains(&at.stmt) && trips.is_some_and(|trips| trips <= stages);
        let slots = if once { trips.unwrap_or(1).max(1) } else { stages };
        let written_out = trips.is_some_and(|trips| trips <= WRITTEN_OUT);
        let bytes = loads.iter().map(Load::bytes).sum();
        let elements: BTreeSet<BufferId> = buffers.iter().copied().collect();
        let fills = vec![(0, loads)];
        Ok(Plan {
            split: Split::Threads(threads),
            rings: vec![Ring { last_read, written_out, ..Ring::new(at, fills) }],
            channels: vec![Channel { buffers, slots, once, bytes, shared: Vec::new() }],
            read: elements.clone(),
            elements,
            barriers: analysis.barriers_before.clone(),
            groups: 1,
            ..Plan::default()
        })
    }

    /// A copy as rows of contiguous bytes.
    fn load_rows(&self, stmt: StmtId) -> Result<Load, Reason> {
        let kernel = self.kernel;
        self.load(stmt, |facts, [_, dst], (_, buffer)| {
            let whole = dst.start.iter().all(|e| kernel.const_index(*e) == Some(0));
            if !whole || facts.extents.iter().map(|e| u64::from(*e)).product::<u64>() != kernel.buffer_len(buffer) {
                return Err("a load fills a part of its array".into());
            }
            if facts.rows.iter().any(|axes| !axes.is_empty()) {
                return Err("a load's rows are of several axes".into());
            }
            let most = facts.extents.len().saturating_sub(1);
            let ones = facts.extents.iter().take_while(|e| **e == 1).count().min(most);
            let (rows, columns) = match facts.extents[ones..] {
                [columns] => (1, columns),
                [rows, columns] => (rows, columns),
                _ => return Err("a load has more than rows and columns".into()),
            };
            let dtype = kernel.buffer_dtype(buffer);
            if facts.width.or(facts.transaction).map(|elements| elements * dtype.bytes()) != Some(CHUNK) {
                return Err("rows are not known to start and to end at multiples of 16 bytes".into());
            }
            if facts.src_nonnegative.iter().any(|known| !known) {
                return Err("a tile may begin before the tensor does".into());
            }
            let rank = facts.src.len();
            let is_open = |axis: &usize| facts.src[*axis] != Bound::Proven;
            let open: Vec<OpenAxis> = (0..rank).filter(is_open).map(|axis| OpenAxis { axis, below: false }).collect();
            if open.iter().any(|open| open.axis + 2 < rank) {
                return Err("a tile may leave the tensor on another axis than those of rows and columns".into());
            }
            Ok(Transport::Rows(Rows { rows, columns, open }))
        })
    }

    /// Slots are read by elements, in the loop alone; the last statement that does.
    fn reads(&self, buffers: &[BufferId], ring: &Loop) -> Result<StmtId, Reason> {
        let kernel = self.kernel;
        let touched = |stmt: StmtId| self.touched(stmt).into_iter().filter(|(buffer, ..)| buffers.contains(buffer));
        let inside = statements(kernel, &ring.body);
        for stmt in statements(kernel, &kernel.body).into_iter().filter(|stmt| !ring.loads.contains(stmt)) {
            let kind = &kernel.stmts[stmt].kind;
            let text = match touched(stmt).map(|(_, mode, _)| mode).max_by_key(|mode| mode.writes()) {
                _ if matches!(kind, StmtKind::Persistent { .. }) => "its tiles are `persistent`",
                None => continue,
                Some(mode) if mode.writes() => "what is loaded is also written",
                Some(_) if matches!(kind, StmtKind::Tile(_)) => "what is loaded is copied on, not read by elements",
                Some(_) if !inside.contains(&stmt) => "what is loaded is also read outside of the loop",
                Some(_) => continue,
            };
            return Err(Reason::new(text, kernel.stmts[stmt].span));
        }
        let reads = |stmt: &StmtId| statements(kernel, &[*stmt]).into_iter().any(|s| touched(s).next().is_some());
        let last = ring.body.iter().rfind(|stmt| !ring.loads.contains(stmt) && reads(stmt)).copied();
        last.ok_or_else(|| Reason::new("nothing reads what is loaded", kernel.stmts[ring.stmt].span))
    }

    /// The iterations of a loop from 0 in steps of 1, where they are known.
    fn trips(&self, [start, end, step]: [ExprId; 3]) -> Option<u32> {
        let kernel = self.kernel;
        let plain = kernel.const_index(start) == Some(0) && kernel.const_index(step) == Some(1);
        kernel.const_index(end).filter(|_| plain).map(|n| u32::try_from(n.max(0)).unwrap_or(u32::MAX))
    }
}
