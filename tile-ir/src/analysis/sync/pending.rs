//! What has been accessed since the last barrier, at every point of a kernel.
//!
//! Joined where paths meet, carried round loops until nothing changes. Where an access meets an earlier one that the compiler
//! orders it after, the walk either inserts a barrier, or says that one is missing.

use crate::ir::parts::{each, roots};
use crate::ir::pipeline::{SharedLoads, shared_loads};
use crate::ir::{
    AccessId, AccessMode, BoundKernel, BufferId, ExprId, ExprKind, LoopKind, Place, ReduceSource, StmtId, StmtKind,
    StmtPart,
};
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
pub(super) type Pending = BTreeMap<BufferId, u8>;

/// A walk over a kernel with some barriers in it.
pub(super) struct Walk<'k> {
    kernel: &'k BoundKernel,
    uniform: &'k BTreeSet<StmtId>,
    /// The arrays whose accesses are ordered.
    arrays: &'k BTreeSet<BufferId>,
    /// The statements before which a barrier stands.
    pub(super) barriers: BTreeSet<StmtId>,
    /// Whether a barrier is inserted where one is missing.
    inserts: bool,
    /// Whether one was missing.
    missing: bool,
    /// Statements around, from the outside in.
    around: Vec<StmtId>,
    /// Depth of `parallel` loops.
    parallel: u32,
    /// Depth of loops whose body may be executed more than once.
    loops: u32,
    /// What is pending where each loop that stands in no other begins.
    pub(super) entries: BTreeMap<StmtId, Pending>,
    /// Pipelined loops that load shared arrays ahead.
    pipelined: BTreeMap<StmtId, SharedLoads>,
    /// The arrays that the loops around load.
    loaded: Vec<BufferId>,
    /// Statements visited.
    pub(super) steps: usize,
}

impl<'k> Walk<'k> {
    pub(super) fn new(kernel: &'k BoundKernel, uniform: &'k BTreeSet<StmtId>, arrays: &'k BTreeSet<BufferId>) -> Self {
        Walk {
            kernel,
            uniform,
            arrays,
            barriers: BTreeSet::new(),
            inserts: false,
            missing: false,
            around: Vec::new(),
            parallel: 0,
            loops: 0,
            entries: BTreeMap::new(),
            pipelined: shared_loads(kernel).into_iter().map(|l| (l.stmt, l)).collect(),
            loaded: Vec::new(),
            steps: 0,
        }
    }

    /// Adds the barriers that are missing, each right before the statement that needs it.
    pub(super) fn insert(&mut self) {
        self.inserts = true;
        // A barrier moved out of a conditional stands before statements that were visited without it: visit again.
        loop {
            let before = self.barriers.len();
            self.entries.clear();
            let mut pending = Pending::new();
            self.block(&self.kernel.body, &mut pending);
            if self.barriers.len() == before {
                break;
            }
        }
        self.inserts = false;
    }

    /// What is pending after a statement that is entered with `entry`; `None` where a barrier is missing in it.
    pub(super) fn after(&mut self, stmt: StmtId, entry: &Pending) -> Option<Pending> {
        let mut pending = entry.clone();
        let entries = std::mem::take(&mut self.entries);
        self.missing = false;
        self.block(&[stmt], &mut pending);
        self.entries = entries;
        (!self.missing).then_some(pending)
    }

    fn block(&mut self, body: &[StmtId], pending: &mut Pending) {
        for &stmt in body {
            if self.missing {
                return;
            }
            self.steps += 1;
            let repeats = matches!(self.kernel.stmts[stmt].kind, StmtKind::For { .. } | StmtKind::Persistent { .. });
            if repeats && self.loops == 0 {
                join(self.entries.entry(stmt).or_default(), pending);
            }
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
                let (buffers, stages, leading) = (loads.buffers.clone(), loads.stages, loads.leading);
                // The first loads are issued before the loop: what their addresses are read from is there by then.
                each(kernel, &body[..leading], &mut |load| {
                    roots(kernel, load).into_iter().for_each(|e| self.expr(e, pending));
                });
                buffers.iter().for_each(|b| self.touch(Place::Buffer(*b), TILE_WRITE, pending));
                let around = self.loaded.len();
                self.loaded.extend(&buffers);
                self.round(stmt, body, pending);
                self.loaded.truncate(around);
                for buffer in buffers {
                    // With one stage an iteration ends with a barrier.
                    match stages {
                        1 => pending.remove(&buffer),
                        _ => pending.insert(buffer, TILE_READ),
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
            // The sum of a product, and what a cluster reduces, are in registers.
            StmtKind::Tile(op) => op.each_part(&mut |part| {
                let bits = |touch: AccessMode| match touch {
                    AccessMode::Read => TILE_READ,
                    AccessMode::Write => TILE_WRITE,
                    AccessMode::Update | AccessMode::Atomic => TILE_READ | TILE_WRITE,
                };
                match part {
                    StmtPart::Value(value) => self.expr(value, pending),
                    StmtPart::Tile(tile, touch) => {
                        tile.start.iter().for_each(|e| self.expr(*e, pending));
                        self.touch(tile.place, bits(touch), pending);
                    }
                    StmtPart::Array(buffer, touch) => self.touch(Place::Buffer(buffer), bits(touch), pending),
                    StmtPart::Constant(_)
                    | StmtPart::Element(..)
                    | StmtPart::Binds(_)
                    | StmtPart::Sets(_)
                    | StmtPart::Body(_) => {}
                    StmtPart::Report | StmtPart::BlockCollective | StmtPart::WarpCollective => {}
                    StmtPart::BlockBarrier | StmtPart::WarpBarrier => {}
                }
            }),
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
        self.loops += 1;
        loop {
            let mut state = pending.clone();
            if loads.is_some() {
                state.clear();
            }
            self.block(&body[loads.unwrap_or(0)..], &mut state);
            if !join(pending, &state) {
                break;
            }
        }
        self.loops -= 1;
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
        if !self.arrays.contains(&buffer) || self.loaded.contains(&buffer) {
            return;
        }
        if self.parallel > 0 {
            *pending.entry(buffer).or_default() |= bits;
            return;
        }
        let conflict = needs_barrier(pending.get(&buffer).copied().unwrap_or(0), bits);
        if conflict && self.inserts {
            let at = self.landing();
            if self.barriers.insert(at) {
                pending.clear();
            }
        } else if conflict {
            self.missing = true;
        }
        *pending.entry(buffer).or_default() |= bits;
    }

    /// The statement before which a barrier may stand: the outermost around here that not all threads run alike, else
    /// the innermost.
    fn landing(&self) -> StmtId {
        let bars = |stmt: &StmtId| {
            let kind = &self.kernel.stmts[*stmt].kind;
            let elementwise =
                matches!(kind, StmtKind::Parallel { .. } | StmtKind::For { kind: LoopKind::Vectorized, .. });
            let control = matches!(kind, StmtKind::If { .. } | StmtKind::For { .. });
            elementwise || control && !self.uniform.contains(stmt)
        };
        let innermost = self.around.last().copied();
        // `around` is never empty while a statement is visited.
        self.around.iter().copied().find(bars).or(innermost).unwrap_or_else(|| StmtId::from_u32(0))
    }
}

/// Whether the compiler orders accesses to an array after those that are pending.
pub(super) fn needs_barrier(before: u8, bits: u8) -> bool {
    let is_tile = |b: u8| b & (TILE_READ | TILE_WRITE) != 0;
    let writes = |b: u8| b & (WRITE | TILE_WRITE) != 0;
    if is_tile(bits) {
        before != 0 && (writes(bits) || writes(before))
    } else {
        // Only what the compiler orders; element accesses among themselves are the author's.
        is_tile(before) && (writes(bits) || before & TILE_WRITE != 0)
    }
}

/// The shared arrays that a statement without a body, or a `parallel` loop, accesses.
#[cfg(test)]
pub(super) fn accesses(kernel: &BoundKernel, stmt: StmtId) -> Vec<(BufferId, u8)> {
    let (uniform, arrays) = (BTreeSet::new(), super::shared(kernel));
    let mut pending = Pending::new();
    Walk::new(kernel, &uniform, &arrays).stmt(stmt, &mut pending);
    pending.into_iter().collect()
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
