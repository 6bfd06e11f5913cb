//! Where the compiler places block barriers: around tile operations whose accesses meet others'.
//!
//! Between element accesses the author synchronises. An access of a tile operation (`copy`, `fill`, `parallel`) to a
//! shared array is ordered with every other access to it by a barrier of the compiler's; so are accesses on different
//! sides of a `thread_allreduce`. A barrier stands before the statement that meets the earlier access, moved out of
//! every conditional and loop that not all threads run alike. The state is what has been accessed since the last
//! barrier, joined where paths meet, carried round loops until nothing changes.
//!
//! Within a pipelined loop the arrays that it loads ahead are not looked at: the pipeline synchronises them, with a
//! barrier in every iteration between its loads and the rest, which orders everything else too. To what is around it
//! the loop is one operation, which writes them first and reads them last.

use crate::ir::pipeline::{SharedLoads, shared_loads};
use crate::ir::{AccessId, BufferId, ExprId, ExprKind, Kernel, LoopKind, Place, ReduceSource, Scope, StmtId, StmtKind};
use std::collections::{BTreeMap, BTreeSet};

/// Element reads since the last barrier.
const READ: u8 = 1;
/// Element writes.
const WRITE: u8 = 2;
/// Reads that the compiler orders with whatever follows.
const TILE_READ: u8 = 4;
/// Writes that the compiler orders with whatever follows.
const TILE_WRITE: u8 = 8;

/// What has been accessed since the last barrier.
type Pending = BTreeMap<BufferId, u8>;

struct Placement<'k> {
    kernel: &'k Kernel,
    uniform: &'k BTreeSet<StmtId>,
    barriers: BTreeSet<StmtId>,
    /// Statements around, from the outside in.
    around: Vec<StmtId>,
    /// Depth of `parallel` loops.
    parallel: u32,
    /// Pipelined loops that load shared arrays ahead.
    pipelined: &'k BTreeMap<StmtId, SharedLoads>,
    /// The arrays that the loops around load.
    loaded: Vec<BufferId>,
}

/// The statements before which a barrier must stand.
pub(super) fn place(kernel: &Kernel, uniform: &BTreeSet<StmtId>) -> BTreeSet<StmtId> {
    let loops: BTreeMap<StmtId, SharedLoads> = shared_loads(kernel).into_iter().map(|l| (l.stmt, l)).collect();
    let mut this = Placement {
        kernel,
        uniform,
        barriers: BTreeSet::new(),
        around: Vec::new(),
        parallel: 0,
        pipelined: &loops,
        loaded: Vec::new(),
    };
    if kernel.buffers.values().all(|b| b.scope != Scope::Shared) {
        return this.barriers;
    }
    // A barrier moved out of a conditional stands before statements that were visited without it: visit again.
    loop {
        let before = this.barriers.len();
        let mut pending = Pending::new();
        this.block(&kernel.body, &mut pending);
        if this.barriers.len() == before {
            return this.barriers;
        }
    }
}

impl Placement<'_> {
    fn block(&mut self, body: &[StmtId], pending: &mut Pending) {
        for &stmt in body {
            if self.barriers.contains(&stmt) {
                pending.clear();
            }
            self.around.push(stmt);
            self.stmt(stmt, pending);
            self.around.pop();
        }
    }

    fn stmt(&mut self, stmt: StmtId, pending: &mut Pending) {
        let kernel = self.kernel;
        match &kernel.stmts[stmt].kind {
            StmtKind::Let { value, .. } => value.iter().for_each(|v| self.expr(*v, pending)),
            StmtKind::Assign { value, .. } => self.expr(*value, pending),
            StmtKind::Alloc { .. } | StmtKind::SyncWarp => {}
            StmtKind::Store { access, value } => {
                self.expr(*value, pending);
                self.access(*access, WRITE, pending);
            }
            StmtKind::Atomic { access, value, .. } => {
                self.expr(*value, pending);
                self.access(*access, READ | WRITE, pending);
            }
            StmtKind::If { cond, then, otherwise } => {
                self.expr(*cond, pending);
                let mut other = pending.clone();
                self.block(then, pending);
                self.block(otherwise, &mut other);
                join(pending, &other);
            }
            StmtKind::For { start, end, step, body, .. } => {
                [start, end, step].into_iter().for_each(|e| self.expr(*e, pending));
                let Some(loads) = self.pipelined.get(&stmt) else { return self.round(stmt, body, pending) };
                loads.buffers.iter().for_each(|b| self.touch(Place::Buffer(*b), TILE_WRITE, pending));
                let around = self.loaded.len();
                self.loaded.extend(&loads.buffers);
                self.round(stmt, body, pending);
                self.loaded.truncate(around);
                for buffer in &loads.buffers {
                    // With one stage an iteration ends with a barrier.
                    match loads.stages {
                        1 => pending.remove(buffer),
                        _ => pending.insert(*buffer, TILE_READ),
                    };
                }
            }
            StmtKind::Parallel { extents, body, .. } => {
                extents.iter().for_each(|e| self.expr(*e, pending));
                // One operation: its accesses are ordered with what is around it, not among themselves.
                self.parallel += 1;
                let mut inner = Pending::new();
                self.block(body, &mut inner);
                self.parallel -= 1;
                inner.into_iter().for_each(|(buffer, bits)| self.touch(Place::Buffer(buffer), bits, pending));
            }
            StmtKind::Copy { src, dst, .. } => {
                src.start.iter().chain(&dst.start).for_each(|e| self.expr(*e, pending));
                self.touch(src.place, TILE_READ, pending);
                self.touch(dst.place, TILE_WRITE, pending);
            }
            StmtKind::Fill { buffer, value } => {
                self.expr(*value, pending);
                self.touch(Place::Buffer(*buffer), TILE_WRITE, pending);
            }
            // The sum is in registers.
            StmtKind::Gemm { a, b, .. } => {
                self.touch(Place::Buffer(a.buffer), TILE_READ, pending);
                self.touch(Place::Buffer(b.buffer), TILE_READ, pending);
            }
            StmtKind::ReduceTile { src, dst, .. } => {
                self.touch(Place::Buffer(*src), TILE_READ, pending);
                self.touch(Place::Buffer(*dst), TILE_WRITE, pending);
            }
            // The tile is in registers, and what it goes through is the compiler's.
            StmtKind::ClusterReduce { .. } => {}
            StmtKind::Persistent { extents, body, .. } => {
                extents.iter().for_each(|e| self.expr(*e, pending));
                self.round(stmt, body, pending);
            }
            StmtKind::Reduce { src, axis, .. } => {
                if let ReduceSource::Value(value) = src {
                    self.expr(*value, pending);
                }
                if axis.is_some() {
                    // From here on the compiler orders what came before.
                    pending
                        .values_mut()
                        .for_each(|bits| *bits = (*bits & (READ | WRITE)) << 2 | *bits & (TILE_READ | TILE_WRITE));
                }
            }
            StmtKind::Shuffle { value, lane, .. } => {
                self.expr(*value, pending);
                self.expr(*lane, pending);
            }
            StmtKind::Vote { pred, .. } => self.expr(*pred, pending),
            StmtKind::LastArriver { access, count, .. } => {
                self.expr(*count, pending);
                self.kernel.accesses[*access].indices.iter().for_each(|e| self.expr(*e, pending));
                pending.clear();
            }
            StmtKind::SyncThreads => pending.clear(),
            StmtKind::Print { args, .. } => args.iter().for_each(|a| self.expr(*a, pending)),
            StmtKind::Assert { cond, .. } => self.expr(*cond, pending),
        }
    }

    /// A loop's body until what is pending at its start no longer grows.
    fn round(&mut self, stmt: StmtId, body: &[StmtId], pending: &mut Pending) {
        let loads = self.pipelined.get(&stmt).map(|l| l.leading);
        loop {
            let mut state = pending.clone();
            if loads.is_some() {
                state.clear();
            }
            self.block(&body[loads.unwrap_or(0)..], &mut state);
            if !join(pending, &state) {
                return;
            }
        }
    }

    fn expr(&mut self, expr: ExprId, pending: &mut Pending) {
        let kernel = self.kernel;
        match &kernel.exprs[expr].kind {
            ExprKind::Load(access) => self.access(*access, READ, pending),
            ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => self.expr(*a, pending),
            ExprKind::Binary(_, a, b) => [a, b].into_iter().for_each(|e| self.expr(*e, pending)),
            ExprKind::Math(_, args) => args.iter().for_each(|e| self.expr(*e, pending)),
            ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => {
                [a, b, c].into_iter().for_each(|e| self.expr(*e, pending));
            }
            _ => {}
        }
    }

    fn access(&mut self, access: AccessId, bits: u8, pending: &mut Pending) {
        let data = &self.kernel.accesses[access];
        data.indices.iter().for_each(|e| self.expr(*e, pending));
        let bits = if self.parallel > 0 { bits << 2 } else { bits };
        self.touch(data.place, bits, pending);
    }

    fn touch(&mut self, place: Place, bits: u8, pending: &mut Pending) {
        let Place::Buffer(buffer) = place else { return };
        if self.kernel.buffers[buffer].scope != Scope::Shared || self.loaded.contains(&buffer) {
            return;
        }
        if self.parallel > 0 {
            *pending.entry(buffer).or_default() |= bits;
            return;
        }
        let before = pending.get(&buffer).copied().unwrap_or(0);
        let is_tile = |b: u8| b & (TILE_READ | TILE_WRITE) != 0;
        let writes = |b: u8| b & (WRITE | TILE_WRITE) != 0;
        let conflict = if is_tile(bits) {
            before != 0 && (writes(bits) || writes(before))
        } else {
            // Only what the compiler orders; element accesses among themselves are the author's.
            is_tile(before) && (writes(bits) || before & TILE_WRITE != 0)
        };
        if conflict {
            let at = self.landing();
            if self.barriers.insert(at) {
                pending.clear();
            }
        }
        *pending.entry(buffer).or_default() |= bits;
    }

    /// The statement before which a barrier may stand: the outermost around here that not all threads run alike, else
    /// the innermost.
    fn landing(&self) -> StmtId {
        let bars = |stmt: &StmtId| match &self.kernel.stmts[*stmt].kind {
            StmtKind::If { .. } => !self.uniform.contains(stmt),
            StmtKind::For { kind, .. } => *kind == LoopKind::Vectorized || !self.uniform.contains(stmt),
            StmtKind::Parallel { .. } => true,
            _ => false,
        };
        let innermost = self.around.last().copied();
        // `around` is never empty while a statement is visited.
        self.around.iter().copied().find(bars).or(innermost).unwrap_or_else(|| StmtId::from_u32(0))
    }
}

/// Adds what is pending on another path; whether that was news.
fn join(pending: &mut Pending, other: &Pending) -> bool {
    let mut grown = false;
    for (buffer, bits) in other {
        let own = pending.entry(*buffer).or_default();
        grown |= *own | bits != *own;
        *own |= bits;
    }
    grown
}
