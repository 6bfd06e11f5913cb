//! Where the values of assigned `usize` variables are, over the whole of their lives.
//!
//! The walk follows a variable's value exactly where control flow lets it; what a loop assigns is unknown in the loop
//! and after it. How large it can be decides how many bits it is held in, so this looks at all assignments together,
//! in intervals: first as a fixed point (`i = (i * 5 + 1) % 64`), then, where a variable only has numbers added to it
//! (`i += d`), as its first values and as many additions as the loops around them make. Conditions around an assignment
//! count: in `while k <= 256 { k *= 2; }`, what is doubled is at most 256. A variable that grows faster has no bound, and
//! arithmetic on it is refused.

use super::comparisons::{Comparison, Comparisons};
use crate::constraint::Interval;
use crate::ir::parts::parts;
use crate::ir::{
    BinaryOp, BoundKernel, Dtype, DtypeClass, DtypeRef, ExprId, ExprKind, LoopIndex, MathFn, ParamKind, SecondaryMap,
    StmtId, StmtKind, Type, UnaryOp, VarId, VarKind,
};
use std::cell::RefCell;
use std::collections::HashMap;

/// What `f32 as usize` gives: beyond, it saturates.
pub(super) const FROM_FLOAT: Interval = Interval { lo: 0, hi: 1 << 62 };

/// Rounds in which intervals may grow before they are widened, and rounds after.
const ROUNDS: usize = 6;
/// Rounds in which bounds that hold are narrowed: a quotient by 2 of what was 2^31 is 1 after so many.
const NARROWED: usize = 32;
/// Bounds tried where an interval keeps growing.
const STEPS: [i128; 3] = [i32::MAX as i128, u32::MAX as i128, 1 << 62];
/// Iterations of loops that are followed one by one.
const FOLLOWED: i128 = 64;

/// The intervals of variables; of those that are not assigned, of their only value.
pub(super) struct Induction<'k> {
    kernel: &'k BoundKernel,
    vars: SecondaryMap<VarId, Option<Interval>>,
    /// Of variables that are not assigned, while the others stay as they are.
    defined: RefCell<HashMap<VarId, Interval>>,
    assignments: Vec<Assignment>,
    /// What holds where variables that have one value are declared.
    declared: HashMap<VarId, Comparisons>,
}

/// An assignment of a mutable variable, its declaration among them.
struct Assignment {
    var: VarId,
    value: ExprId,
    /// The loops around it, from the outside in.
    loops: Vec<StmtId>,
    /// What holds there.
    holds: Comparisons,
}

impl<'k> Induction<'k> {
    /// Looks at every assignment of a bound kernel.
    pub fn of(kernel: &'k BoundKernel) -> Self {
        let mut all = Induction {
            kernel,
            vars: SecondaryMap::new(),
            defined: RefCell::default(),
            assignments: Vec::new(),
            declared: HashMap::new(),
        };
        for axis in &kernel.grid {
            let last = all.expr(axis.extent).hi - 1;
            all.vars[axis.var] = Some(Interval::new(0, last.clamp(0, i128::from(i32::MAX) - 1)));
        }
        for (axis, extent) in kernel.threads.iter().zip(kernel.thread_extents()) {
            all.vars[axis.var] = Some(Interval::new(0, i128::from(extent.max(1)) - 1));
        }
        all.collect(&kernel.body, &mut Vec::new(), &mut Comparisons::default());
        if all.assignments.is_empty() {
            return all;
        }
        let mutable: Vec<VarId> = {
            let mut vars: Vec<VarId> = all.assignments.iter().map(|a| a.var).collect();
            vars.sort_unstable();
            vars.dedup();
            vars
        };
        all.solve(&mutable);
        all
    }

    /// Where a variable's values are.
    pub fn var(&self, var: VarId) -> Interval {
        self.vars[var].unwrap_or(Interval::ALL)
    }

    fn set(&mut self, var: VarId, interval: Option<Interval>) {
        self.vars[var] = interval;
        self.defined.get_mut().clear();
    }

    fn collect(&mut self, body: &[StmtId], loops: &mut Vec<StmtId>, holds: &mut Comparisons) {
        let kernel = self.kernel;
        for &stmt in body {
            let kind = &kernel.stmts[stmt].kind;
            if let StmtKind::Let { var, value: Some(value) } | StmtKind::Assign { var, value } = kind
                && kernel.vars[*var].ty == Type::Index
            {
                let (var, value) = (*var, *value);
                if matches!(kind, StmtKind::Assign { .. }) || kernel.vars[var].kind == VarKind::Mut {
                    let (loops, holds) = (loops.clone(), holds.clone());
                    self.assignments.push(Assignment { var, value, loops, holds });
                } else if !holds.all().is_empty() {
                    self.declared.insert(var, holds.clone());
                }
            }
            if let StmtKind::If { cond, then, otherwise } = kind {
                self.collect(then, loops, &mut holds.within(kernel, *cond, true));
                self.collect(otherwise, loops, &mut holds.within(kernel, *cond, false));
                holds.after(kernel, stmt);
                continue;
            }
            // A loop's next iteration begins with what the last one assigned.
            holds.after(kernel, stmt);
            loops.extend(kind.is_loop().then_some(stmt));
            kind.bodies().into_iter().for_each(|body| self.collect(body, loops, &mut holds.clone()));
            loops.truncate(loops.len() - usize::from(kind.is_loop()));
        }
    }

    fn solve(&mut self, mutable: &[VarId]) {
        let first = |all: &Self, var: VarId| all.assignments.iter().find(|a| a.var == var).map(|a| a.value);
        // From nothing, upwards: the declaration stands before what reads it.
        for &var in mutable {
            let value = first(self, var).map(|value| self.expr(value));
            self.set(var, value);
        }
        if self.grow(mutable, ROUNDS) {
            return;
        }
        // As many rounds as there are assignments in all cover every value, whether it grows or not.
        let made =
            self.assignments.iter().map(|a| self.trips(&a.loops, &[])).fold(0i128, |all, n| all.saturating_add(n));
        if made <= FOLLOWED {
            self.grow(mutable, made as usize);
            return;
        }
        // What still grows: sums by the number of additions, anything else to a bound that holds itself.
        let sums: Vec<VarId> = mutable.iter().copied().filter(|v| self.is_sum(*v)).collect();
        for &var in &sums {
            let sum = self.sum(var);
            self.set(var, Some(sum));
        }
        let others: Vec<VarId> = mutable.iter().copied().filter(|v| !sums.contains(v)).collect();
        // First what only becomes smaller, by divisions and shifts: from 0 to what it has been. Then what comes nearer to
        // another, as the bounds of a search do.
        let greatest = others.iter().map(|v| self.var(*v).hi).max().unwrap_or(0);
        for bound in [0, greatest].into_iter().chain(STEPS) {
            for &var in &others {
                let now = self.var(var);
                let lo = if now.lo < 0 { now.lo.min(-bound) } else { 0 };
                self.set(var, Some(Interval::new(lo, now.hi.max(bound))));
            }
            for &var in &sums {
                let sum = self.sum(var);
                self.set(var, Some(sum));
            }
            let holds = others.iter().all(|v| self.assigned(*v).fits(self.var(*v)));
            if holds {
                // Downwards: what the bound became of is as true.
                for _ in 0..NARROWED {
                    let before: Vec<Interval> = others.iter().map(|v| self.var(*v)).collect();
                    for &var in &others {
                        let assigned = self.assigned(var);
                        self.set(var, Some(assigned));
                    }
                    if others.iter().map(|v| self.var(*v)).eq(before) {
                        break;
                    }
                }
                return;
            }
        }
        for &var in &others {
            self.set(var, Some(Interval::ALL));
        }
        for &var in &sums {
            let sum = self.sum(var);
            self.set(var, Some(sum));
        }
    }

    /// Adds what assignments make of the intervals, until nothing changes; false if it still does after `rounds`.
    fn grow(&mut self, mutable: &[VarId], rounds: usize) -> bool {
        for _ in 0..rounds {
            let mut changed = false;
            for &var in mutable {
                let next = self.var(var).join(self.assigned(var));
                changed |= self.vars[var] != Some(next);
                self.set(var, Some(next));
            }
            if !changed {
                return true;
            }
        }
        false
    }

    /// The interval of all that is assigned to a variable.
    fn assigned(&self, var: VarId) -> Interval {
        let assignments = self.assignments.iter().filter(|a| a.var == var);
        let values = assignments.filter_map(|a| self.where_it_stands(a.value, &a.holds));
        values.reduce(Interval::join).unwrap_or(Interval::ALL)
    }

    /// Whether all that is assigned either does not depend on assigned variables, or adds such a number, in loops whose
    /// ranges do not depend on them either.
    fn is_sum(&self, var: VarId) -> bool {
        let mut assignments = self.assignments.iter().filter(|a| a.var == var);
        assignments.all(|a| match self.increment(var, a.value) {
            Some(_) => !a.loops.iter().any(|l| self.varies(*l)),
            None => !self.depends_on_assigned(a.value),
        })
    }

    /// Whether how often a loop is done depends on assigned variables.
    fn varies(&self, stmt: StmtId) -> bool {
        let indices = self.kernel.stmts[stmt].kind.indices();
        indices.iter().flat_map(LoopIndex::range).any(|e| self.depends_on_assigned(e))
    }

    /// What is added, of `var + d`, `var - d` and choices between such, where that does not depend on assigned variables.
    fn increment(&self, var: VarId, value: ExprId) -> Option<Interval> {
        let number = |e: ExprId| (!self.depends_on_assigned(e)).then(|| self.expr(e));
        let sum = |op, a, b| Some(Interval::apply(op, self.increment(var, a)?, number(b)?));
        match self.kernel.exprs[value].kind {
            ExprKind::Var(v) if v == var => Some(Interval::of(0)),
            ExprKind::Binary(BinaryOp::Add, a, b) => sum(BinaryOp::Add, a, b).or_else(|| sum(BinaryOp::Add, b, a)),
            ExprKind::Binary(BinaryOp::Sub, a, b) => sum(BinaryOp::Sub, a, b),
            ExprKind::Binary(BinaryOp::Mul, a, b) if self.kernel.const_index(b) == Some(1) => self.increment(var, a),
            ExprKind::Binary(BinaryOp::Mul, a, b) if self.kernel.const_index(a) == Some(1) => self.increment(var, b),
            ExprKind::Select(_, a, b) | ExprKind::If(_, a, b) => {
                Some(self.increment(var, a)?.join(self.increment(var, b)?))
            }
            _ => None,
        }
    }

    /// Whether an expression depends on an assigned index, also through what other variables are made of.
    fn depends_on_assigned(&self, expr: ExprId) -> bool {
        let kernel = self.kernel;
        let (mut left, mut seen) = (vec![expr], Vec::new());
        while let Some(expr) = left.pop() {
            let mut vars = Vec::new();
            parts(kernel, expr, &mut |kind| {
                if let ExprKind::Var(var) = kind {
                    vars.push(*var);
                }
            });
            for var in vars {
                if kernel.vars[var].kind == VarKind::Mut && kernel.vars[var].ty == Type::Index {
                    return true;
                }
                if seen.contains(&var) {
                    continue;
                }
                seen.push(var);
                for stmt in kernel.stmts.values() {
                    if let StmtKind::Let { var: v, value: Some(value) } = stmt.kind
                        && v == var
                    {
                        left.push(value);
                    }
                    let own = stmt.kind.indices().into_iter().find(|index| index.var == var);
                    left.extend(own.into_iter().flat_map(|index| index.start.into_iter().chain([index.end])));
                }
            }
        }
        false
    }

    /// A sum: what it starts from, and every addition as often as it is made.
    fn sum(&self, var: VarId) -> Interval {
        let of_var: Vec<&Assignment> = self.assignments.iter().filter(|a| a.var == var).collect();
        let declared: &[StmtId] = of_var.first().map_or(&[], |a| &a.loops);
        let starts = of_var.iter().filter(|a| self.increment(var, a.value).is_none()).map(|a| self.expr(a.value));
        let mut all = starts.reduce(Interval::join).unwrap_or(Interval::of(0));
        for Assignment { value, loops, .. } in of_var {
            let Some(by) = self.increment(var, *value) else { continue };
            let times = Interval::new(0, self.trips(loops, declared));
            all = Interval::apply(BinaryOp::Add, all, Interval::apply(BinaryOp::Mul, times, by));
        }
        all
    }

    /// How often what stands in `loops` is done for once what stands in `outer` is.
    fn trips(&self, loops: &[StmtId], outer: &[StmtId]) -> i128 {
        let inner = loops.iter().filter(|l| !outer.contains(l));
        inner.map(|l| self.iterations(*l)).fold(1, |all, n| all.saturating_mul(n).min(1 << 100))
    }

    fn iterations(&self, stmt: StmtId) -> i128 {
        let along = |index: LoopIndex| {
            let start = index.start.map_or(0, |start| self.expr(start).lo);
            let step = index.step.map_or(1, |step| self.expr(step).lo.max(1));
            let distance = (self.expr(index.end).hi - start).max(0);
            distance / step + i128::from(distance % step != 0)
        };
        let indices = self.kernel.stmts[stmt].kind.indices().into_iter();
        indices.map(along).fold(1, |all: i128, n| all.saturating_mul(n).min(1 << 100))
    }

    /// Where an expression's values are at a place where these comparisons hold; none where they cannot, as far as is known
    /// of the variables.
    fn where_it_stands(&self, value: ExprId, holds: &Comparisons) -> Option<Interval> {
        let mut narrowed: Vec<(VarId, Interval)> = Vec::new();
        for Comparison { op, left, right } in holds.all() {
            for (side, other, below, above) in [
                (*left, *right, matches!(op, BinaryOp::Lt | BinaryOp::Le), matches!(op, BinaryOp::Gt | BinaryOp::Ge)),
                (*right, *left, matches!(op, BinaryOp::Gt | BinaryOp::Ge), matches!(op, BinaryOp::Lt | BinaryOp::Le)),
            ] {
                let ExprKind::Var(var) = self.kernel.exprs[side].kind else { continue };
                if self.kernel.vars[var].ty != Type::Index {
                    continue;
                }
                let other = self.expr(other);
                let apart = i128::from(matches!(op, BinaryOp::Lt | BinaryOp::Gt));
                let lo = if below { Interval::ALL.lo } else { other.lo + apart };
                let hi = if above { Interval::ALL.hi } else { other.hi - apart };
                let known = narrowed.iter().find(|(v, _)| *v == var).map_or_else(|| self.expr(side), |(_, i)| *i);
                let both = (known.lo.max(lo), known.hi.min(hi));
                if both.0 > both.1 {
                    return None;
                }
                narrowed.retain(|(v, _)| *v != var);
                narrowed.push((var, Interval::new(both.0, both.1)));
            }
        }
        Some(self.expr_of(value, &narrowed))
    }

    /// Where an expression's values are, wherever it stands.
    pub fn expr(&self, id: ExprId) -> Interval {
        self.expr_of(id, &[])
    }

    /// Where an expression's values are, if those of some variables are where this says.
    fn expr_of(&self, id: ExprId, narrowed: &[(VarId, Interval)]) -> Interval {
        let kernel = self.kernel;
        let of = |id: ExprId| self.expr_of(id, narrowed);
        let expr = &kernel.exprs[id];
        let of_type = || match expr.ty {
            Type::Value(DtypeRef::Is(dtype)) => {
                dtype.range().map_or(Interval::ALL, |(lo, hi)| Interval::new(lo.into(), hi.into()))
            }
            Type::Index | Type::Value(DtypeRef::Param(_)) => Interval::ALL,
        };
        if expr.ty != Type::Index {
            return match &expr.kind {
                ExprKind::Int(value) => Interval::of(*value),
                ExprKind::Math(function, _) if function.counts_bits() => Interval::new(0, 32),
                _ => of_type(),
            };
        }
        match &expr.kind {
            ExprKind::Int(value) => Interval::of(*value),
            ExprKind::Dim(dim) => match kernel.dims[*dim].value {
                Some(value) => Interval::of(value),
                None => Interval::new(0, i32::MAX.into()),
            },
            ExprKind::Scalar(param) => match kernel.params[*param].kind {
                ParamKind::Scalar { ty: Type::Index } => Interval::new(0, i32::MAX.into()),
                _ => Interval::ALL,
            },
            ExprKind::Var(var) if narrowed.iter().any(|(v, _)| v == var) => {
                narrowed.iter().find(|(v, _)| v == var).map_or(Interval::ALL, |(_, known)| *known)
            }
            ExprKind::Var(var) => match self.vars[*var] {
                Some(known) => known,
                None => {
                    if let Some(known) = self.defined.borrow().get(var) {
                        return *known;
                    }
                    let found = self.definition(*var);
                    self.defined.borrow_mut().insert(*var, found);
                    found
                }
            },
            ExprKind::Unary(UnaryOp::Neg, x) => Interval::apply(BinaryOp::Sub, Interval::of(0), of(*x)),
            ExprKind::Binary(op, a, b) => Interval::apply(*op, of(*a), of(*b)),
            ExprKind::Math(MathFn::Abs, args) => args.first().map_or(Interval::ALL, |a| {
                let Interval { lo, hi } = of(*a);
                Interval::new(0, lo.abs().max(hi.abs()))
            }),
            ExprKind::Select(_, a, b) | ExprKind::If(_, a, b) => of(*a).join(of(*b)),
            ExprKind::Cast(_, x) => match kernel.exprs[*x].ty.dtype().map(Dtype::class) {
                Some(DtypeClass::Bool) => Interval::new(0, 1),
                Some(DtypeClass::Float(_)) => FROM_FLOAT,
                Some(DtypeClass::Int(_)) | None => of(*x),
            },
            _ => Interval::ALL,
        }
    }

    /// The interval of a variable that has one value wherever it is declared.
    fn definition(&self, var: VarId) -> Interval {
        let kernel = self.kernel;
        for stmt in kernel.stmts.values() {
            if let StmtKind::Let { var: v, value: Some(value) } = stmt.kind
                && v == var
            {
                let holds = self.declared.get(&var);
                return holds.and_then(|holds| self.where_it_stands(value, holds)).unwrap_or_else(|| self.expr(value));
            }
            if let Some(index) = stmt.kind.indices().into_iter().find(|index| index.var == var) {
                let start = index.start.map_or(0, |start| self.expr(start).lo);
                return Interval::new(start, (self.expr(index.end).hi - 1).max(start));
            }
        }
        Interval::ALL
    }
}
