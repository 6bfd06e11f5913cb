//! Races that certainly happen: one block of one launch, its integer part executed for all threads at once.
//!
//! The launch is a representative one (dims that the `require`s admit), the block is the first, and of every loop the
//! first two iterations and the last are executed. A value from memory or from a scalar parameter is unknown, and what
//! happens only under a condition that is unknown is not recorded. So every race found is a race of an execution that
//! exists; what is not found is left to the checked simulator. Bounded in work: beyond the budget nothing more is
//! reported.

use super::point::apply;
use super::uniform::{Uniformity, dtype_range};
use crate::constraint::Varies;
use crate::diag::{Code, Diagnostic};
use crate::ir::{
    AccessId, DtypeRef, ExprId, ExprKind, Extent, Kernel, LoopKind, ParamKind, Place, ReduceSource, Scope,
    SecondaryMap, StmtId, StmtKind, Type, UnaryOp, VarId,
};
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

/// Values one thread may compute, all threads and statements together.
const BUDGET: usize = 60_000;
/// Threads executed; of a larger block, those at its start, middle and end.
const THREADS: usize = 256;
/// A value that is not known.
const UNKNOWN: i64 = i64::MIN;

/// One value a thread, or one for all of them.
#[derive(Clone, Debug)]
enum Values {
    Same(i64),
    Each(Vec<i64>),
}

impl Values {
    fn at(&self, thread: usize) -> i64 {
        match self {
            Values::Same(v) => *v,
            Values::Each(all) => all.get(thread).copied().unwrap_or(UNKNOWN),
        }
    }
}

/// Whether a thread is here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Here {
    No,
    Yes,
    Maybe,
}

/// An access since the last barrier.
#[derive(Clone, Copy)]
struct Touch {
    thread: u32,
    /// Warp synchronisations before it.
    epoch: u32,
    access: AccessId,
    stmt: StmtId,
    /// How many accesses were executed before it.
    time: u32,
}

/// The accesses of one element since the last barrier: of each kind, two by different threads.
#[derive(Clone, Default)]
struct Cell {
    reads: [Option<Touch>; 2],
    writes: [Option<Touch>; 2],
    atomics: [Option<Touch>; 2],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Atomic,
}

struct Run<'k> {
    kernel: &'k Kernel,
    uniform: &'k Uniformity,
    barriers: &'k BTreeSet<StmtId>,
    block_uniform: &'k BTreeSet<StmtId>,
    /// Linear indices of the executed threads.
    threads: Vec<u32>,
    dims: Vec<i64>,
    vars: SecondaryMap<VarId, Option<Values>>,
    /// Variables that indices, conditions and bounds depend on.
    needed: BTreeSet<VarId>,
    /// Statements that matter: with accesses to check, barriers, or assignments of needed variables.
    relevant: BTreeSet<StmtId>,
    cells: HashMap<(Key, i64), Cell, BuildHasherDefault<Mix>>,
    epoch: u32,
    time: u32,
    /// Statements around, from the outside in, each with the time its execution began.
    around: Vec<(StmtId, u32)>,
    control: Vec<Varies>,
    work: usize,
    reported: BTreeSet<Key>,
    found: Vec<Diagnostic>,
}

/// A place, ordered: tensors are even, arrays odd.
type Key = u64;

fn key(place: Place) -> Key {
    match place {
        Place::Tensor(p) => 2 * u64::from(p.as_u32()),
        Place::Buffer(b) => 2 * u64::from(b.as_u32()) + 1,
    }
}

/// A hash of a few integers, cheap in unoptimised builds; the keys are the compiler's own.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }

    fn write_u64(&mut self, value: u64) {
        // The multiplier of rustc's FxHash; the high bits select the bucket's tag, the low ones the bucket.
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_i64(&mut self, value: i64) {
        self.write_u64(value as u64);
    }
}

/// The races found in a bound kernel.
pub(super) fn find(
    kernel: &Kernel,
    uniform: &Uniformity,
    barriers: &BTreeSet<StmtId>,
    block_uniform: &BTreeSet<StmtId>,
) -> Vec<Diagnostic> {
    let count = kernel.thread_count() as usize;
    let threads: Vec<u32> = if count <= THREADS {
        (0..count as u32).collect()
    } else {
        let part = THREADS / 4;
        let middle = count / 2;
        (0..part).chain(middle - part..middle + part).chain(count - part..count).map(|t| t as u32).collect()
    };
    let mut run = Run {
        kernel,
        uniform,
        barriers,
        block_uniform,
        threads,
        dims: Vec::new(),
        vars: SecondaryMap::new(),
        needed: BTreeSet::new(),
        relevant: BTreeSet::new(),
        cells: HashMap::default(),
        epoch: 0,
        time: 0,
        around: Vec::new(),
        control: Vec::new(),
        work: 0,
        reported: BTreeSet::new(),
        found: Vec::new(),
    };
    run.select();
    if run.relevant.is_empty() || !run.launch() {
        return vec![];
    }
    let here = vec![Here::Yes; run.threads.len()];
    run.block(&kernel.body, &here);
    run.found
}

impl Run<'_> {
    /// Finds what needs to be executed, from the accesses back to the variables they depend on.
    fn select(&mut self) {
        let kernel = self.kernel;
        let mut interesting = false;
        loop {
            let before = (self.needed.len(), self.relevant.len());
            for &stmt in &kernel.body {
                interesting |= self.select_stmt(stmt);
            }
            if (self.needed.len(), self.relevant.len()) == before {
                break;
            }
        }
        if !interesting {
            self.relevant.clear();
        }
    }

    /// Whether the place is one that threads share and some may write.
    fn watched(&self, place: Place) -> bool {
        match place {
            Place::Buffer(b) => self.kernel.buffers[b].scope == Scope::Shared,
            Place::Tensor(p) => matches!(self.kernel.params[p].kind, ParamKind::Tensor { mutable: true, .. }),
        }
    }

    fn select_stmt(&mut self, stmt: StmtId) -> bool {
        let kernel = self.kernel;
        let mut watched = false;
        let mut exprs: Vec<ExprId> = Vec::new();
        match &kernel.stmts[stmt].kind {
            StmtKind::Let { var, value: Some(value) } | StmtKind::Assign { var, value } => {
                exprs.push(*value);
                if self.needed.contains(var) {
                    self.relevant.insert(stmt);
                    self.need(*value);
                }
            }
            StmtKind::Let { var, value: None } => {
                if self.needed.contains(var) {
                    self.relevant.insert(stmt);
                }
            }
            StmtKind::Store { access, value } | StmtKind::Atomic { access, value, .. } => {
                exprs.push(*value);
                watched |= self.select_access(*access);
            }
            StmtKind::If { cond, then, otherwise } => {
                exprs.push(*cond);
                let mut inside = false;
                for s in then.iter().chain(otherwise) {
                    watched |= self.select_stmt(*s);
                    inside |= self.relevant.contains(s);
                }
                if inside {
                    self.relevant.insert(stmt);
                    self.need(*cond);
                }
            }
            StmtKind::For { start, end, step, body, .. } => {
                exprs.extend([*start, *end, *step]);
                let mut inside = false;
                for s in body {
                    watched |= self.select_stmt(*s);
                    inside |= self.relevant.contains(s);
                }
                if inside {
                    self.relevant.insert(stmt);
                    [*start, *end, *step].into_iter().for_each(|e| self.need(e));
                }
            }
            // The compiler orders these.
            StmtKind::Parallel { .. } | StmtKind::Copy { .. } | StmtKind::Fill { .. } => {
                self.relevant.insert(stmt);
            }
            StmtKind::Reduce { src, .. } => {
                if let ReduceSource::Value(value) = src {
                    exprs.push(*value);
                }
                self.relevant.insert(stmt);
            }
            StmtKind::Shuffle { value, lane, .. } => {
                exprs.extend([*value, *lane]);
                self.relevant.insert(stmt);
            }
            StmtKind::Vote { pred, .. } => {
                exprs.push(*pred);
                self.relevant.insert(stmt);
            }
            StmtKind::SyncThreads | StmtKind::SyncWarp => {
                self.relevant.insert(stmt);
            }
            StmtKind::Alloc { .. } => {}
            StmtKind::Print { args, .. } => exprs.extend(args),
            StmtKind::Assert { cond, .. } => exprs.push(*cond),
        }
        for expr in exprs {
            let mut loads = Vec::new();
            collect_loads(kernel, expr, &mut loads);
            for access in loads {
                watched |= self.select_access(access);
                if self.watched(kernel.accesses[access].place) {
                    self.relevant.insert(stmt);
                }
            }
        }
        if watched {
            self.relevant.insert(stmt);
        }
        watched
    }

    fn select_access(&mut self, access: AccessId) -> bool {
        let data = &self.kernel.accesses[access];
        let watched = self.watched(data.place);
        if watched {
            data.indices.iter().for_each(|e| self.need(*e));
        }
        watched
    }

    fn need(&mut self, expr: ExprId) {
        let kernel = self.kernel;
        match &kernel.exprs[expr].kind {
            ExprKind::Var(var) => {
                self.needed.insert(*var);
            }
            ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => self.need(*a),
            ExprKind::Binary(_, a, b) => [a, b].into_iter().for_each(|e| self.need(*e)),
            ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => [a, b, c].into_iter().for_each(|e| self.need(*e)),
            _ => {}
        }
    }

    /// Chooses dims that the `require`s admit, and binds indices.
    fn launch(&mut self) -> bool {
        let kernel = self.kernel;
        let admitted = |run: &mut Self| {
            kernel.requires.iter().all(|r| match run.eval(r.cond) {
                // What is about scalar parameters too is not known.
                Values::Same(v) => v != 0,
                Values::Each(_) => false,
            })
        };
        let chosen = [4096, 1 << 14, 1 << 16, 1024, 256, 128, 64, 32, 16, 8, 4, 2, 1].into_iter().find(|value| {
            self.dims = vec![*value; kernel.dims.len()];
            admitted(self)
        });
        if chosen.is_none() {
            return false;
        }
        let extents = kernel.thread_extents();
        let mut stride = 1;
        for (axis, binding) in kernel.threads.iter().enumerate().take(3) {
            let values = self.threads.iter().map(|t| i64::from(t / stride % extents[axis].max(1))).collect();
            self.vars[binding.var] = Some(Values::Each(values));
            stride *= extents[axis].max(1);
        }
        for binding in &kernel.grid {
            let Values::Same(blocks) = self.eval(binding.extent) else { return false };
            if blocks < 1 && blocks != UNKNOWN {
                return false;
            }
            self.vars[binding.var] = Some(Values::Same(0));
        }
        true
    }

    fn block(&mut self, body: &[StmtId], here: &[Here]) {
        for &stmt in body {
            if self.work > BUDGET {
                return;
            }
            if self.barriers.contains(&stmt) {
                self.cells.clear();
            }
            if self.relevant.contains(&stmt) {
                self.around.push((stmt, self.time));
                self.stmt(stmt, here);
                self.around.pop();
            }
        }
    }

    fn stmt(&mut self, stmt: StmtId, here: &[Here]) {
        let kernel = self.kernel;
        match &kernel.stmts[stmt].kind {
            StmtKind::Let { var, value } => {
                value.iter().for_each(|v| self.loads(*v, here));
                let value = value.filter(|_| self.needed.contains(var)).map(|v| self.eval(v));
                self.vars[*var] = value;
            }
            StmtKind::Assign { var, value } => {
                self.loads(*value, here);
                if self.needed.contains(var) {
                    let value = self.eval(*value);
                    self.assign(*var, value, here);
                }
            }
            StmtKind::Store { access, value } => {
                self.loads(*value, here);
                self.access(*access, Kind::Write, here);
            }
            StmtKind::Atomic { access, value, dst, .. } => {
                self.loads(*value, here);
                self.access(*access, Kind::Atomic, here);
                dst.iter().for_each(|v| self.vars[*v] = None);
            }
            StmtKind::If { cond, then, otherwise } => {
                self.loads(*cond, here);
                let value = self.eval(*cond);
                let arm = |wanted: i64| -> Vec<Here> {
                    here.iter()
                        .enumerate()
                        .map(|(t, h)| match value.at(t) {
                            _ if *h == Here::No => Here::No,
                            UNKNOWN => Here::Maybe,
                            v if v == wanted => *h,
                            _ => Here::No,
                        })
                        .collect()
                };
                self.control.push(self.uniform.expr(kernel, *cond));
                for (body, mask) in [(then, arm(1)), (otherwise, arm(0))] {
                    if mask.iter().any(|h| *h != Here::No) {
                        self.block(body, &mask);
                    }
                }
                self.control.pop();
            }
            StmtKind::For { .. } => self.for_loop(stmt, here),
            StmtKind::Parallel { body, .. } => body.iter().for_each(|s| self.forget_assigned(*s)),
            StmtKind::Copy { .. } | StmtKind::Fill { .. } | StmtKind::Alloc { .. } => {}
            StmtKind::Reduce { src, dst, .. } => {
                if let ReduceSource::Value(value) = src {
                    self.loads(*value, here);
                }
                dst.iter().for_each(|v| self.vars[*v] = None);
                self.epoch += 1;
            }
            StmtKind::Shuffle { value, lane, dst, .. } => {
                self.loads(*value, here);
                self.loads(*lane, here);
                self.vars[*dst] = None;
                self.epoch += 1;
            }
            StmtKind::Vote { pred, dst, .. } => {
                self.loads(*pred, here);
                self.vars[*dst] = None;
                self.epoch += 1;
            }
            StmtKind::SyncThreads => self.cells.clear(),
            StmtKind::SyncWarp => self.epoch += 1,
            StmtKind::Print { args, .. } => args.iter().for_each(|a| self.loads(*a, here)),
            StmtKind::Assert { cond, .. } => self.loads(*cond, here),
        }
    }

    fn assign(&mut self, var: VarId, value: Values, here: &[Here]) {
        let old = self.vars[var].take();
        let value = if here.iter().all(|h| *h == Here::Yes) {
            value
        } else {
            Values::Each(
                here.iter()
                    .enumerate()
                    .map(|(t, h)| match h {
                        Here::Yes => value.at(t),
                        Here::No => old.as_ref().map_or(UNKNOWN, |v| v.at(t)),
                        Here::Maybe => UNKNOWN,
                    })
                    .collect(),
            )
        };
        self.vars[var] = Some(value);
    }

    fn for_loop(&mut self, stmt: StmtId, here: &[Here]) {
        let kernel = self.kernel;
        let StmtKind::For { var, start, end, step, body, .. } = &kernel.stmts[stmt].kind else { return };
        [start, end, step].into_iter().for_each(|e| self.loads(*e, here));
        self.control
            .push([start, end, step].into_iter().fold(Varies::default(), |v, e| v.or(self.uniform.expr(kernel, *e))));
        let (start, end, step) = (self.eval(*start), self.eval(*end), self.eval(*step));
        // Iteration n of each thread; the last by its own count.
        let at = |t: usize, n: Option<i64>| -> (i64, Here) {
            let (a, b, s) = (start.at(t), end.at(t), step.at(t));
            if a == UNKNOWN || b == UNKNOWN || s == UNKNOWN || s < 1 {
                return (UNKNOWN, Here::Maybe);
            }
            let Some(trips) = b.checked_sub(a).map(|d| (d.max(0) as u64).div_ceil(s as u64) as i64) else {
                return (UNKNOWN, Here::Maybe);
            };
            let n = match n {
                Some(n) => n,
                None if trips > 2 => trips - 1,
                None => return (UNKNOWN, Here::No),
            };
            (a.saturating_add(n.saturating_mul(s)), if n < trips { Here::Yes } else { Here::No })
        };
        let known = (0..here.len()).all(|t| at(t, Some(0)).1 != Here::Maybe);
        let has_barrier = contains_barrier(kernel, body, self.barriers);
        let rounds: &[Option<i64>] = if known { &[Some(0), Some(1), None] } else { &[Some(0)] };
        for round in rounds {
            let mut mask = here.to_vec();
            let mut values = Vec::with_capacity(here.len());
            for (t, h) in mask.iter_mut().enumerate() {
                let (value, inside) = at(t, *round);
                values.push(value);
                *h = match (*h, inside) {
                    (Here::No, _) | (_, Here::No) => Here::No,
                    (Here::Yes, Here::Yes) => Here::Yes,
                    _ => Here::Maybe,
                };
            }
            if mask.iter().all(|h| *h == Here::No) {
                continue;
            }
            if round.is_none() {
                // Iterations in between are not executed: what they assigned is unknown, and where they
                // synchronised, nothing from before is pending.
                body.iter().for_each(|s| self.forget_assigned(*s));
                self.epoch += 1;
                if has_barrier {
                    self.cells.clear();
                }
            }
            let same = values.iter().all(|v| *v == values[0]);
            self.vars[*var] = Some(if same { Values::Same(values[0]) } else { Values::Each(values) });
            self.work += 1;
            self.block(body, &mask);
        }
        if !known {
            self.epoch += 1;
            body.iter().for_each(|s| self.forget_assigned(*s));
            if has_barrier {
                self.cells.clear();
            }
        } else if rounds.len() == 3 && (0..here.len()).any(|t| at(t, None).1 == Here::Yes) {
            body.iter().for_each(|s| self.forget_assigned(*s));
        }
        self.control.pop();
    }

    fn forget_assigned(&mut self, stmt: StmtId) {
        match &self.kernel.stmts[stmt].kind {
            StmtKind::Assign { var, .. } | StmtKind::Let { var, .. } => self.vars[*var] = None,
            StmtKind::If { then, otherwise, .. } => {
                then.iter().chain(otherwise).for_each(|s| self.forget_assigned(*s));
            }
            StmtKind::For { body, .. } | StmtKind::Parallel { body, .. } => {
                body.iter().for_each(|s| self.forget_assigned(*s));
            }
            StmtKind::Reduce { dst: Some(var), .. }
            | StmtKind::Shuffle { dst: var, .. }
            | StmtKind::Vote { dst: var, .. }
            | StmtKind::Atomic { dst: Some(var), .. } => self.vars[*var] = None,
            _ => {}
        }
    }

    /// Meets the loads of an expression. Those that only some evaluations reach are not recorded.
    fn loads(&mut self, expr: ExprId, here: &[Here]) {
        let kernel = self.kernel;
        match &kernel.exprs[expr].kind {
            ExprKind::Load(access) => {
                let indices = &kernel.accesses[*access].indices;
                indices.iter().for_each(|e| self.loads(*e, here));
                self.access(*access, Kind::Read, here);
            }
            ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => self.loads(*a, here),
            ExprKind::Binary(op, a, b) => {
                self.loads(*a, here);
                if !matches!(op, crate::ir::BinaryOp::And | crate::ir::BinaryOp::Or) {
                    self.loads(*b, here);
                }
            }
            ExprKind::Math(_, args) => args.iter().for_each(|e| self.loads(*e, here)),
            ExprKind::Select(a, b, c) => [a, b, c].into_iter().for_each(|e| self.loads(*e, here)),
            ExprKind::If(c, _, _) => self.loads(*c, here),
            _ => {}
        }
    }

    fn access(&mut self, access: AccessId, kind: Kind, here: &[Here]) {
        let kernel = self.kernel;
        let data = &kernel.accesses[access];
        if !self.watched(data.place) || self.reported.contains(&key(data.place)) {
            return;
        }
        let indices: Vec<Values> = data.indices.iter().map(|e| self.eval(*e)).collect();
        let extents: Vec<i64> = self.extents(data.place);
        self.time += 1;
        self.work += here.len();
        let stmt = self.around.last().map_or(StmtId::from_u32(0), |a| a.0);
        for (position, _) in here.iter().enumerate().filter(|(_, h)| **h == Here::Yes) {
            let mut address = 0i64;
            let mut inside = true;
            for (index, extent) in indices.iter().zip(&extents) {
                let value = index.at(position);
                inside &= value != UNKNOWN && (0..*extent).contains(&value);
                address = address.wrapping_mul(*extent).wrapping_add(value);
            }
            // What is out of bounds is not written.
            if !inside {
                continue;
            }
            let thread = self.threads[position];
            let touch = Touch { thread, epoch: self.epoch, access, stmt, time: self.time };
            let cell = self.cells.entry((key(data.place), address)).or_default();
            let races = |other: &&Touch| {
                other.thread != thread && (other.thread / 32 != thread / 32 || other.epoch == touch.epoch)
            };
            let against: [&[Option<Touch>; 2]; 3] = match kind {
                Kind::Read => [&cell.writes, &cell.atomics, &[None, None]],
                Kind::Write => [&cell.writes, &cell.reads, &cell.atomics],
                Kind::Atomic => [&cell.writes, &cell.reads, &[None, None]],
            };
            if let Some(earlier) = against.iter().flat_map(|a| a.iter().flatten()).find(races).copied() {
                let earlier_kind = if cell.writes.iter().flatten().any(|w| w.time == earlier.time) {
                    Kind::Write
                } else if cell.reads.iter().flatten().any(|r| r.time == earlier.time) {
                    Kind::Read
                } else {
                    Kind::Atomic
                };
                let index: Vec<i64> = indices.iter().map(|i| i.at(position)).collect();
                self.report(earlier, earlier_kind, touch, kind, &index);
                return;
            }
            let own = match kind {
                Kind::Read => &mut cell.reads,
                Kind::Write => &mut cell.writes,
                Kind::Atomic => &mut cell.atomics,
            };
            match own {
                [None, _] => own[0] = Some(touch),
                [Some(first), second] if first.thread != thread => *second = Some(touch),
                // The later access of the same thread is the one that a coming access may race with.
                [first, _] => *first = Some(touch),
            }
        }
        if kind == Kind::Write {
            self.blocks(access, here);
        }
    }

    /// A store that every block of a grid axis makes alike.
    fn blocks(&mut self, access: AccessId, here: &[Here]) {
        let kernel = self.kernel;
        let data = &kernel.accesses[access];
        if !matches!(data.place, Place::Tensor(_)) || !here.contains(&Here::Yes) {
            return;
        }
        let varies = self.control.iter().fold(self.uniform.address(kernel, access), |v, c| v.or(*c)).blocks;
        for (axis, binding) in kernel.grid.iter().enumerate().take(3) {
            let Values::Same(blocks) = self.eval(binding.extent) else { continue };
            if blocks < 2 || varies & (1 << axis) != 0 {
                continue;
            }
            let (name, axis_name) = (kernel.place_name(data.place), &kernel.vars[binding.var].name);
            let message = format!("blocks race on `{name}`: every block along `{axis_name}` stores the same elements");
            let at = format!("neither the index nor a condition around it depends on `{axis_name}`");
            let help = format!(
                "index `{name}` by `{axis_name}`, guard the store with `if {axis_name} == 0`, or use an atomic"
            );
            self.found.push(Diagnostic::new(Code::GLOBAL_RACE, data.span, message).at(at).help(help));
            self.reported.insert(key(data.place));
            return;
        }
    }

    fn report(&mut self, earlier: Touch, earlier_kind: Kind, later: Touch, later_kind: Kind, index: &[i64]) {
        let kernel = self.kernel;
        let place = kernel.accesses[later.access].place;
        self.reported.insert(key(place));
        let name = kernel.place_name(place);
        let scope = if matches!(place, Place::Buffer(_)) { "shared" } else { "global" };
        let index: Vec<String> = index.iter().map(i64::to_string).collect();
        let element = match index.as_slice() {
            [one] => format!("{name}[{one}]"),
            all => format!("{name}[[{}]]", all.join(", ")),
        };
        let verb = |kind: Kind| match kind {
            Kind::Read => "reads",
            Kind::Write => "writes",
            Kind::Atomic => "updates",
        };
        let spans = (kernel.accesses[earlier.access].span, kernel.accesses[later.access].span);
        let message = format!("data race on {scope} `{name}`");
        if earlier.time == later.time {
            // One store, several threads.
            let free = !self.uniform.address(kernel, later.access).threads;
            let (extents, mut stride) = (kernel.thread_extents(), 1);
            let mut axes = Vec::new();
            for (axis, binding) in kernel.threads.iter().enumerate().take(3) {
                let extent = extents[axis].max(1);
                let differ = earlier.thread / stride % extent != later.thread / stride % extent;
                if differ && free & (1 << axis) != 0 {
                    axes.push(format!("{} == 0", kernel.vars[binding.var].name));
                }
                stride *= extent;
            }
            let at = format!("threads {} and {} both write {element}", earlier.thread, later.thread);
            let mut diagnostic = Diagnostic::new(Code::RACE, spans.1, message).at(at);
            diagnostic = if axes.is_empty() {
                diagnostic.help("give each thread its own element, or use an atomic")
            } else {
                let line = line_of(kernel, later.stmt);
                diagnostic
                    .note("writes of the same value by several threads are a race too")
                    .help(format!("let one thread write it: put `if {} {{ .. }}` around{line}", axes.join(" && ")))
            };
            self.found.push(diagnostic);
            return;
        }
        let line = |span| kernel.spans.get(span).map(|s| s.line).filter(|l| *l > 0);
        let on = |span| line(span).map(|l| format!(" (line {l})")).unwrap_or_default();
        let at = format!(
            "thread {} {} {element}{}, thread {} {} {element}{}, no barrier between",
            earlier.thread,
            verb(earlier_kind),
            on(spans.0),
            later.thread,
            verb(later_kind),
            on(spans.1),
        );
        let mut diagnostic = Diagnostic::new(Code::RACE, spans.1, message).at(at);
        if spans.0 != spans.1 {
            diagnostic = diagnostic.label(spans.0, format!("thread {} {} it here", earlier.thread, verb(earlier_kind)));
        }
        let sync = "sync_threads();";
        diagnostic = match self.gap(earlier) {
            Gap::Before(stmt) => match line(kernel.stmts[stmt].span) {
                Some(line) => diagnostic.help(format!("insert `{sync}` before line {line}")),
                None => diagnostic.help(format!("insert `{sync}` between them")),
            },
            Gap::LoopEnd(stmt) => {
                let line = line(kernel.stmts[stmt].span).map(|l| format!(" of line {l}")).unwrap_or_default();
                diagnostic
                    .note("the second access is in a later iteration of the loop")
                    .help(format!("insert `{sync}` at the end of the loop{line}"))
            }
            Gap::Within => diagnostic.help(format!("read into a variable first, then `{sync}`, then write")),
            Gap::Split => diagnostic.help(format!(
                "split what is around them: not every thread runs it, so `{sync}` must stand between two parts"
            )),
        };
        self.found.push(diagnostic);
    }

    /// Where a barrier between an earlier access and the current one may stand.
    fn gap(&self, earlier: Touch) -> Gap {
        let kernel = self.kernel;
        // From the outside in, as long as the earlier access is inside too.
        for (depth, &(stmt, begun)) in self.around.iter().enumerate() {
            if !contains(kernel, stmt, earlier.stmt) {
                return Gap::Before(stmt);
            }
            if earlier.time <= begun {
                return self.loop_around(depth); // of an earlier execution of the same statement
            }
            let shared = match &kernel.stmts[stmt].kind {
                StmtKind::For { kind: LoopKind::Vectorized, .. } => false,
                StmtKind::If { .. } | StmtKind::For { .. } => self.block_uniform.contains(&stmt),
                _ => return Gap::Within,
            };
            if !shared {
                return Gap::Split;
            }
            if let StmtKind::For { body, .. } = &kernel.stmts[stmt].kind {
                let position = |s: StmtId| body.iter().position(|b| contains(kernel, *b, s));
                let next = self.around.get(depth + 1).and_then(|n| position(n.0));
                if position(earlier.stmt) > next {
                    return Gap::LoopEnd(stmt);
                }
            }
        }
        Gap::Within
    }

    /// The innermost loop around that all threads run alike.
    fn loop_around(&self, depth: usize) -> Gap {
        let uniform_loop = |s: &&(StmtId, u32)| {
            matches!(self.kernel.stmts[s.0].kind, StmtKind::For { kind, .. } if kind != LoopKind::Vectorized)
                && self.block_uniform.contains(&s.0)
        };
        match self.around[..depth].iter().rev().find(uniform_loop) {
            Some((stmt, _)) => Gap::LoopEnd(*stmt),
            None => Gap::Split,
        }
    }

    fn extents(&mut self, place: Place) -> Vec<i64> {
        let kernel = self.kernel;
        match place {
            Place::Buffer(b) => kernel.buffer_extents(b).into_iter().map(i64::from).collect(),
            Place::Tensor(p) => match &kernel.params[p].kind {
                ParamKind::Tensor { shape, .. } => shape
                    .iter()
                    .map(|e| match e {
                        Extent::Dim(d) => self.dims.get(d.as_u32() as usize).copied().unwrap_or(0),
                        Extent::Fixed(e) => kernel.const_index(*e).unwrap_or(0),
                    })
                    .collect(),
                ParamKind::Scalar { .. } => vec![],
            },
        }
    }

    fn eval(&mut self, expr: ExprId) -> Values {
        let kernel = self.kernel;
        let e = &kernel.exprs[expr];
        match &e.kind {
            ExprKind::Int(v) => Values::Same(*v),
            ExprKind::Bool(v) => Values::Same(i64::from(*v)),
            ExprKind::Dim(d) => Values::Same(self.dims.get(d.as_u32() as usize).copied().unwrap_or(UNKNOWN)),
            // A parameter may be anything: what depends on it is the launch's business.
            ExprKind::Scalar(_) => Values::Same(UNKNOWN),
            ExprKind::Var(var) => self.vars[*var].clone().unwrap_or(Values::Same(UNKNOWN)),
            ExprKind::Unary(op, a) => {
                let (a, ty) = (self.eval(*a), e.ty);
                self.map(&a, |v| match op {
                    UnaryOp::Neg => v.checked_neg().filter(|v| fits(ty, *v)),
                    UnaryOp::Not if ty == Type::BOOL => Some(1 - v),
                    UnaryOp::Not => None,
                })
            }
            ExprKind::Binary(op, a, b) => {
                let (left, right, op, ty) = (self.eval(*a), self.eval(*b), *op, e.ty);
                let is_integer = |e: ExprId| match kernel.exprs[e].ty {
                    Type::Index => true,
                    Type::Value(DtypeRef::Is(d)) => dtype_range(d).is_some(),
                    Type::Value(_) => false,
                };
                if !is_integer(*a) {
                    return Values::Same(UNKNOWN);
                }
                let f = move |a: i64, b: i64| -> i64 {
                    use crate::ir::BinaryOp::{And, Or};
                    match (op, a, b) {
                        (And, 0, _) | (And, _, 0) => 0,
                        (Or, 1, _) | (Or, _, 1) => 1,
                        (_, UNKNOWN, _) | (_, _, UNKNOWN) => UNKNOWN,
                        _ => apply(op, a, b).filter(|v| fits(ty, *v)).unwrap_or(UNKNOWN),
                    }
                };
                match (&left, &right) {
                    (Values::Same(a), Values::Same(b)) => Values::Same(f(*a, *b)),
                    _ => {
                        let count = self.threads.len();
                        self.work += count;
                        Values::Each((0..count).map(|t| f(left.at(t), right.at(t))).collect())
                    }
                }
            }
            ExprKind::Select(c, a, b) | ExprKind::If(c, a, b) => {
                let (c, a, b) = (self.eval(*c), self.eval(*a), self.eval(*b));
                let count = self.threads.len();
                self.work += count;
                let pick = |t: usize| match c.at(t) {
                    1 => a.at(t),
                    0 => b.at(t),
                    _ => UNKNOWN,
                };
                Values::Each((0..count).map(pick).collect())
            }
            ExprKind::Cast(ty, a) => {
                let (a, ty) = (self.eval(*a), *ty);
                self.map(&a, |v| Some(v).filter(|v| fits(ty, *v)))
            }
            _ => Values::Same(UNKNOWN),
        }
    }

    fn map(&mut self, values: &Values, f: impl Fn(i64) -> Option<i64>) -> Values {
        let f = |v: i64| if v == UNKNOWN { UNKNOWN } else { f(v).unwrap_or(UNKNOWN) };
        match values {
            Values::Same(v) => Values::Same(f(*v)),
            Values::Each(all) => {
                self.work += all.len();
                Values::Each(all.iter().map(|v| f(*v)).collect())
            }
        }
    }
}

/// Where a barrier may stand.
enum Gap {
    Before(StmtId),
    LoopEnd(StmtId),
    /// The two accesses are one statement's.
    Within,
    Split,
}

/// Whether a value needs no wrapping or rounding in its type.
fn fits(ty: Type, value: i64) -> bool {
    match ty {
        Type::Index => (-i64::from(i32::MAX)..=i64::from(i32::MAX)).contains(&value),
        Type::Value(DtypeRef::Is(dtype)) => dtype_range(dtype).is_some_and(|(lo, hi)| (lo..=hi).contains(&value)),
        Type::Value(DtypeRef::Param(_)) => false,
    }
}

fn line_of(kernel: &Kernel, stmt: StmtId) -> String {
    match kernel.spans.get(kernel.stmts[stmt].span).map(|s| s.line).filter(|l| *l > 0) {
        Some(line) => format!(" line {line}"),
        None => " the store".into(),
    }
}

/// Whether `inner` is `stmt` or inside it.
fn contains(kernel: &Kernel, stmt: StmtId, inner: StmtId) -> bool {
    stmt == inner
        || match &kernel.stmts[stmt].kind {
            StmtKind::If { then, otherwise, .. } => then.iter().chain(otherwise).any(|s| contains(kernel, *s, inner)),
            StmtKind::For { body, .. } | StmtKind::Parallel { body, .. } => {
                body.iter().any(|s| contains(kernel, *s, inner))
            }
            _ => false,
        }
}

fn contains_barrier(kernel: &Kernel, body: &[StmtId], barriers: &BTreeSet<StmtId>) -> bool {
    body.iter().any(|s| {
        barriers.contains(s)
            || match &kernel.stmts[*s].kind {
                StmtKind::SyncThreads => true,
                StmtKind::If { then, otherwise, .. } => {
                    contains_barrier(kernel, then, barriers) || contains_barrier(kernel, otherwise, barriers)
                }
                StmtKind::For { body, .. } | StmtKind::Parallel { body, .. } => {
                    contains_barrier(kernel, body, barriers)
                }
                _ => false,
            }
    })
}

fn collect_loads(kernel: &Kernel, expr: ExprId, all: &mut Vec<AccessId>) {
    match &kernel.exprs[expr].kind {
        ExprKind::Load(access) => {
            all.push(*access);
            kernel.accesses[*access].indices.iter().for_each(|e| collect_loads(kernel, *e, all));
        }
        ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => collect_loads(kernel, *a, all),
        ExprKind::Binary(_, a, b) => [a, b].into_iter().for_each(|e| collect_loads(kernel, *e, all)),
        ExprKind::Math(_, args) => args.iter().for_each(|e| collect_loads(kernel, *e, all)),
        ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => {
            [a, b, c].into_iter().for_each(|e| collect_loads(kernel, *e, all));
        }
        _ => {}
    }
}
