//! The symbolic walk: every statement once, in order, with what is known on the way to it.
//!
//! Integer values become polynomials over symbols and conditions become [`Cond`]s, each with the values its variables
//! have where it stands. Loops are walked once with a symbol for the index; variables assigned in a loop become
//! symbols of their own. The rules themselves are in the sibling modules, called where their subject is met.

use super::uniform::{Uniformity, dtype_range};
use super::vector::VectorLoop;
use super::{Analysis, Bound};
use crate::constraint::{Answer, Cond, Context, Poly, Sym, Varies};
use crate::diag::{Code, Diagnostic};
use crate::ir::pipeline::shared_loads;
use crate::ir::{
    AccessId, BinaryOp, Dtype, DtypeRef, ExprId, ExprKind, Extent, Kernel, LoopKind, ParamKind, Place, ReduceSource,
    SecondaryMap, SpanId, StmtId, StmtKind, TileRef, Type, UnaryOp, VarId, VarKind,
};
use crate::lowered::HostExpr;
use std::collections::{BTreeSet, HashMap};

/// The state of the walk.
pub(super) struct Walk<'k> {
    pub kernel: &'k Kernel,
    pub cx: Context,
    pub analysis: Analysis,
    pub uniform: Uniformity,
    /// Dims, as multiples of what `require` says they are multiples of.
    dims: Vec<Poly>,
    /// Integer scalar parameters, likewise.
    scalars: HashMap<u32, Poly>,
    vars: SecondaryMap<VarId, Value>,
    /// What the launcher knows symbols as.
    pub hosts: HashMap<Sym, HostExpr>,
    /// Symbols that run over a range: thread and block indices, loop counters, from the outside in.
    pub ranged: Vec<Ranged>,
    /// Conditions on the way here.
    pub path: Vec<Cond>,
    /// Control around here, for collectives.
    pub control: Vec<Control>,
    /// The vectorised loop around here.
    pub vector: Option<VectorLoop>,
    /// The `parallel` loop around here.
    pub parallel: Option<StmtId>,
    /// Largest values of index expressions so far.
    pub ranges: BTreeSet<(Poly, u32)>,
    /// Statements of pipelined loops that load shared arrays ahead.
    pub loads_ahead: BTreeSet<StmtId>,
    /// Whether expressions are evaluated by the kernel, not by the launcher.
    in_kernel: bool,
    /// Whether to look for bank conflicts.
    lint_banks: bool,
    /// Assigned variables of loops and conditionals.
    assigned: HashMap<StmtId, Vec<VarId>>,
}

/// The value of an expression.
#[derive(Clone, Debug, Default)]
pub(super) enum Value {
    /// An integer.
    Int(Poly),
    /// A condition.
    Bool(Cond),
    /// A floating-point value, or nothing yet.
    #[default]
    Other,
}

/// A symbol that takes every value of `lo..=hi`.
#[derive(Clone, Debug)]
pub(super) struct Ranged {
    pub sym: Sym,
    pub lo: Poly,
    pub hi: Poly,
    /// The author's variable, and its value as a polynomial in `sym`.
    pub var: VarId,
    pub value: Poly,
}

/// A conditional or loop around a statement.
#[derive(Clone, Debug)]
pub(super) struct Control {
    pub span: SpanId,
    /// Where the decision to enter, or to go round again, differs.
    pub varies: Varies,
    /// The condition; none for a loop.
    pub cond: Option<Cond>,
}

impl<'k> Walk<'k> {
    /// Walks a bound kernel.
    pub fn new(kernel: &'k Kernel) -> Self {
        let mut walk = Walk {
            kernel,
            cx: Context::default(),
            analysis: Analysis::default(),
            uniform: Uniformity::of(kernel),
            dims: Vec::new(),
            scalars: HashMap::new(),
            vars: SecondaryMap::new(),
            hosts: HashMap::new(),
            ranged: Vec::new(),
            path: Vec::new(),
            control: Vec::new(),
            vector: None,
            parallel: None,
            ranges: BTreeSet::new(),
            loads_ahead: shared_loads(kernel).into_iter().flat_map(|l| l.loads).collect(),
            in_kernel: false,
            lint_banks: super::lints::enabled(kernel, Code::BANK_CONFLICT),
            assigned: HashMap::new(),
        };
        walk.launch_symbols();
        walk.bindings();
        walk
    }

    /// Walks the body.
    pub fn run(&mut self) {
        let kernel = self.kernel;
        for &stmt in &kernel.body {
            collect_assigned(kernel, stmt, &mut self.assigned);
        }
        self.in_kernel = true;
        self.block(&kernel.body);
    }

    fn launch_symbols(&mut self) {
        let (kernel, most) = (self.kernel, Some(i64::from(i32::MAX)));
        for (id, dim) in kernel.dims.iter() {
            if let Some(value) = dim.value {
                self.dims.push(Poly::constant(value));
                continue;
            }
            let sym = self.cx.fresh(&dim.name, Some(0), most, Varies::default());
            self.hosts.insert(sym, HostExpr::Dim(id));
            self.dims.push(Poly::sym(sym));
        }
        for (id, param) in kernel.params.iter() {
            let ParamKind::Scalar { ty } = param.kind else { continue };
            let (lo, hi) = match ty {
                Type::Index => (0, i64::from(i32::MAX)),
                Type::Value(DtypeRef::Is(dtype)) if dtype.is_int() => match dtype_range(dtype) {
                    Some(range) => range,
                    None => continue,
                },
                Type::Value(_) => continue,
            };
            let sym = self.cx.fresh(&param.name, Some(lo), Some(hi), Varies::default());
            self.hosts.insert(sym, HostExpr::Scalar(id));
            self.scalars.insert(id.as_u32(), Poly::sym(sym));
        }
        for require in &kernel.requires {
            self.require_multiples(require.cond);
        }
        for require in &kernel.requires {
            if let Value::Bool(cond) = self.eval(require.cond) {
                self.cx.assume(&cond);
            }
        }
    }

    /// `e % m == 0` with one symbol that is not known to be such a multiple: the symbol becomes a multiple of a new
    /// one, so that divisibility can be read off coefficients.
    fn require_multiples(&mut self, cond: ExprId) {
        let kernel = self.kernel;
        let ExprKind::Binary(op, a, b) = kernel.exprs[cond].kind else { return };
        if op == BinaryOp::And {
            self.require_multiples(a);
            self.require_multiples(b);
            return;
        }
        let (remainder, zero) = if kernel.const_index(a) == Some(0) { (b, a) } else { (a, b) };
        let ExprKind::Binary(BinaryOp::Rem, value, modulus) = kernel.exprs[remainder].kind else { return };
        if op != BinaryOp::Eq || kernel.const_index(zero) != Some(0) {
            return;
        }
        let (Value::Int(value), Value::Int(modulus)) = (self.eval(value), self.eval(modulus)) else { return };
        let Some(modulus) = modulus.as_constant().filter(|m| (2..=1 << 20).contains(m)) else { return };
        let mut rest = value.terms().iter().filter(|t| t.1 % modulus != 0);
        let (Some((monomial, coefficient)), None) = (rest.next(), rest.next()) else { return };
        let Some(sym) = monomial.latest().filter(|_| monomial.rest() == crate::constraint::Monomial::ONE) else {
            return;
        };
        let shared = crate::constraint::gcd(coefficient.unsigned_abs(), modulus.unsigned_abs()) as i64;
        let factor = modulus / shared;
        let Some(host) = self.hosts.get(&sym).cloned() else { return };
        let symbol = self.cx.symbol(sym);
        let (name, hi) = (format!("{} / {factor}", symbol.name), symbol.hi.map(|hi| hi / factor));
        let lo = symbol.lo.map(|lo| -((-lo).div_euclid(factor)));
        let part = self.cx.fresh(&name, lo, hi, Varies::default());
        self.hosts.insert(part, HostExpr::binary(BinaryOp::Div, host, HostExpr::Int(factor)));
        let Some(multiple) = Poly::sym(part).scaled(factor) else { return };
        for value in self.dims.iter_mut().chain(self.scalars.values_mut()) {
            if let Some(next) = value.substitute(sym, &multiple) {
                *value = next;
            }
        }
    }

    /// Whether a value depends on a specialised dim that has no value yet: what is demanded of it is checked once it
    /// has one.
    pub fn waits(&self, value: &Poly) -> bool {
        fn mentions(kernel: &Kernel, host: &HostExpr) -> bool {
            match host {
                HostExpr::Dim(dim) => kernel.specialized().contains(dim) && kernel.dims[*dim].value.is_none(),
                HostExpr::Binary(_, a, b) => mentions(kernel, a) || mentions(kernel, b),
                HostExpr::Not(a) => mentions(kernel, a),
                HostExpr::Int(_) | HostExpr::Stride(..) | HostExpr::Scalar(_) => false,
                HostExpr::Address(_) | HostExpr::Capacity => false,
            }
        }
        let mut leaves = Vec::new();
        self.leaves(value, &mut leaves);
        leaves.iter().any(|sym| self.hosts.get(sym).is_some_and(|host| mentions(self.kernel, host)))
    }

    fn bindings(&mut self) {
        let kernel = self.kernel;
        for (axis, binding) in kernel.grid.iter().enumerate().take(3) {
            let Value::Int(extent) = self.eval(binding.extent) else { continue };
            let varies = Varies { blocks: 1 << axis, ..Varies::default() };
            let name = &kernel.vars[binding.var].name;
            let sym = self.cx.fresh(name, Some(0), Some(i64::from(i32::MAX) - 1), varies);
            let Some(last) = extent.plus_constant(-1) else { continue };
            self.bind_ranged(binding.var, sym, last);
        }
        let extents = kernel.thread_extents();
        for (axis, binding) in kernel.threads.iter().enumerate().take(3) {
            let last = i64::from(extents[axis].max(1)) - 1;
            let varies = self.uniform.var(binding.var);
            let sym = self.cx.fresh(&kernel.vars[binding.var].name, Some(0), Some(last), varies);
            self.bind_ranged(binding.var, sym, Poly::constant(last));
        }
    }

    fn bind_ranged(&mut self, var: VarId, sym: Sym, last: Poly) {
        if let Some(fact) = last.minus(&Poly::sym(sym)) {
            self.cx.assume_nonneg(fact);
        }
        let value = Poly::sym(sym);
        self.vars[var] = Value::Int(value.clone());
        self.ranged.push(Ranged { sym, lo: Poly::constant(0), hi: last, var, value });
    }

    /// The extents of a place, outermost first.
    pub fn extents(&mut self, place: Place) -> Vec<Poly> {
        let kernel = self.kernel;
        match place {
            Place::Tensor(param) => match &kernel.params[param].kind {
                ParamKind::Tensor { shape, .. } => shape
                    .iter()
                    .map(|extent| match extent {
                        Extent::Dim(dim) => self.dims[dim.as_u32() as usize].clone(),
                        Extent::Fixed(e) => match self.eval(*e) {
                            Value::Int(p) => p,
                            _ => Poly::default(),
                        },
                    })
                    .collect(),
                ParamKind::Scalar { .. } | ParamKind::Absent => vec![],
            },
            Place::Buffer(buffer) => {
                kernel.buffer_extents(buffer).into_iter().map(|e| Poly::constant(i64::from(e))).collect()
            }
        }
    }

    fn block(&mut self, body: &[StmtId]) {
        for &stmt in body {
            if let Some(vector) = &mut self.vector {
                vector.next();
            }
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: StmtId) {
        let kernel = self.kernel;
        super::collective::check(self, stmt);
        match &kernel.stmts[stmt].kind {
            StmtKind::Let { var, value } => {
                self.vars[*var] = match value {
                    Some(value) => self.eval(*value),
                    None => Value::Other,
                };
            }
            StmtKind::Assign { var, value } => self.vars[*var] = self.eval(*value),
            StmtKind::Alloc { .. } | StmtKind::SyncThreads | StmtKind::SyncWarp => {}
            StmtKind::Store { access, value } => {
                self.eval(*value);
                self.access(*access, true);
            }
            StmtKind::If { cond, then, otherwise } => self.conditional(stmt, *cond, then, otherwise),
            StmtKind::For { .. } => self.for_loop(stmt),
            StmtKind::Parallel { vars, extents, body } => self.parallel(stmt, vars, extents, body),
            StmtKind::Copy { src, dst, width, tma: _, evict: _ } => self.copy(stmt, src, dst, *width),
            StmtKind::Fill { value, .. } => {
                self.eval(*value);
            }
            StmtKind::Gemm { a, b, acc, .. } => super::tiles::gemm(self, stmt, a, b, *acc),
            StmtKind::ReduceTile { src, dst, axis, .. } => super::tiles::reduce(self, stmt, *src, *dst, *axis),
            StmtKind::ClusterReduce { tile, .. } => super::tiles::cluster_reduce(self, stmt, *tile),
            StmtKind::Persistent { vars, extents, body, .. } => self.persistent(stmt, vars, extents, body),
            StmtKind::Reduce { src, dst, .. } => {
                if let ReduceSource::Value(value) = src {
                    self.eval(*value);
                }
                dst.iter().for_each(|v| self.forget(*v));
            }
            StmtKind::Shuffle { value, lane, dst, .. } => {
                self.eval(*value);
                self.eval(*lane);
                self.forget(*dst);
            }
            StmtKind::Vote { pred, dst, .. } => {
                self.eval(*pred);
                self.forget(*dst);
            }
            StmtKind::LastArriver { access, count, dst } => {
                self.eval(*count);
                let kernel = self.kernel;
                let mut named = kernel.accesses[*access].indices.iter().chain([count]);
                if let Some(index) = named.find(|e| self.uniform.expr(kernel, **e).threads != 0) {
                    let message = "last_arriver: the threads of the block disagree about this";
                    let diagnostic = Diagnostic::new(Code::PLACEMENT, kernel.exprs[*index].span, message)
                        .at("the block arrives once, at one counter")
                        .help("make it of constants, dims and block indices");
                    self.analysis.diagnostics.push(diagnostic);
                }
                self.access(*access, true);
                self.forget(*dst);
            }
            StmtKind::Atomic { access, value, dst, .. } => {
                self.eval(*value);
                self.access(*access, true);
                dst.iter().for_each(|v| self.forget(*v));
            }
            StmtKind::Print { args, .. } => args.iter().for_each(|a| {
                self.eval(*a);
            }),
            StmtKind::Assert { cond, .. } => {
                // What is asserted is not assumed: the GPU does not evaluate it.
                self.eval(*cond);
            }
        }
    }

    /// The variable holds some value of its type.
    fn forget(&mut self, var: VarId) {
        let varies = self.uniform.var(var);
        self.vars[var] = self.unknown(self.kernel.vars[var].ty, varies);
    }

    /// Some value of a type, from memory.
    fn unknown(&mut self, ty: Type, varies: Varies) -> Value {
        match ty {
            Type::Index => {
                let most = i64::from(i32::MAX);
                Value::Int(Poly::sym(self.cx.fresh_data(Some(-most), Some(most), varies)))
            }
            Type::Value(DtypeRef::Is(Dtype::Bool)) => Value::Bool(Cond::Unknown(varies)),
            Type::Value(DtypeRef::Is(dtype)) => match dtype_range(dtype) {
                Some((lo, hi)) => Value::Int(Poly::sym(self.cx.fresh_data(Some(lo), Some(hi), varies))),
                None => Value::Other,
            },
            Type::Value(DtypeRef::Param(_)) => Value::Other,
        }
    }

    fn conditional(&mut self, stmt: StmtId, cond: ExprId, then: &'k [StmtId], otherwise: &'k [StmtId]) {
        let cond = match self.eval(cond) {
            Value::Bool(cond) => cond,
            _ => Cond::Unknown(Varies::ALL),
        };
        let decided = self.cx.decide(&cond);
        let varies = if decided == Answer::Unknown { cond.varies(&self.cx) } else { Varies::default() };
        self.record_uniform(stmt, varies, Some(&cond));
        let span = self.kernel.stmts[stmt].span;
        let before = self.vars.clone();
        let mut after = Vec::new();
        for (arm, cond, skip) in [(then, cond.clone(), Answer::Refuted), (otherwise, cond.negated(), Answer::Proven)] {
            if decided == skip {
                continue;
            }
            self.vars = before.clone();
            let mark = self.cx.mark();
            self.cx.assume(&cond);
            self.path.push(cond.clone());
            self.control.push(Control { span, varies, cond: Some(cond) });
            self.block(arm);
            self.control.pop();
            self.path.pop();
            self.cx.reset(mark);
            after.push(self.vars.clone());
        }
        let [a, b] = after.as_slice() else { return };
        self.vars = before;
        for var in self.assigned.get(&stmt).cloned().unwrap_or_default() {
            let differs = self.uniform.var(var).or(varies);
            self.vars[var] = match (&a[var], &b[var]) {
                (Value::Int(x), Value::Int(y)) if x == y => Value::Int(x.clone()),
                (Value::Int(x), Value::Int(y)) => {
                    Value::Int(Poly::sym(self.cx.one_of(vec![x.clone(), y.clone()], differs)))
                }
                (Value::Bool(x), Value::Bool(y)) if x == y => Value::Bool(x.clone()),
                (Value::Bool(_), Value::Bool(_)) => Value::Bool(Cond::Unknown(differs)),
                _ => self.unknown(self.kernel.vars[var].ty, differs),
            };
        }
    }

    fn record_uniform(&mut self, stmt: StmtId, varies: Varies, cond: Option<&Cond>) {
        if varies.threads == 0 {
            self.analysis.block_uniform.insert(stmt);
        }
        let warp =
            !varies.warp || varies.threads == 0 || cond.is_some_and(|c| super::collective::warp_uniform(self, c));
        if warp {
            self.analysis.warp_uniform.insert(stmt);
        }
    }

    fn for_loop(&mut self, stmt: StmtId) {
        let StmtKind::For { var, start, end, step, kind, body } = &self.kernel.stmts[stmt].kind else { return };
        let span = self.kernel.stmts[stmt].span;
        let (Value::Int(start_at), Value::Int(end_at), Value::Int(step_by)) =
            (self.eval(*start), self.eval(*end), self.eval(*step))
        else {
            return;
        };
        if let Some(step_at) = step_by.as_constant().filter(|s| *s < 1) {
            let message = format!("a loop's step must be at least 1, not {step_at}");
            let diagnostic = Diagnostic::new(Code::INDEX_OVERFLOW, self.kernel.exprs[*step].span, message);
            self.analysis.diagnostics.push(diagnostic);
            return;
        }
        let trip = end_at.minus(&start_at);
        let assigned = self.assigned.get(&stmt).cloned().unwrap_or_default();
        if let Some(trip) = &trip
            && trip.scaled(-1).is_some_and(|p| self.cx.proves(&p))
            && *kind != LoopKind::Vectorized
        {
            self.analysis.block_uniform.insert(stmt);
            self.analysis.warp_uniform.insert(stmt);
            return; // no iteration
        }
        let varies = trip.as_ref().map_or(Varies::ALL, |t| self.cx.varies(t)).or(self.cx.varies(&step_by));
        self.record_uniform(stmt, varies, None);
        super::collective::iterations(self, stmt, varies);
        let constant = |p: &Poly| p.as_constant().is_some();
        let form = match kind {
            LoopKind::Unroll if !trip.as_ref().is_some_and(constant) => Some("the extent of `unroll`"),
            LoopKind::Vectorized if !constant(&start_at) || !constant(&end_at) => Some("the range of `vectorized`"),
            LoopKind::Vectorized if step_by.as_constant() != Some(1) => {
                let span = self.kernel.exprs[*step].span;
                let message = "the step of `vectorized` must be 1";
                self.analysis.diagnostics.push(Diagnostic::new(Code::VECTOR_SHAPE, span, message));
                return;
            }
            _ => None,
        };
        if let Some(form) = form {
            let expr = if constant(&end_at) { *start } else { *end };
            self.analysis.diagnostics.push(
                Diagnostic::new(Code::NOT_CONSTANT, self.kernel.exprs[expr].span, format!("{form} must be constant"))
                    .help("use constants, and add what varies to the index in the body; or use a plain `for` loop"),
            );
            return;
        }
        assigned.iter().for_each(|v| self.forget(*v));
        let mark = self.cx.mark();
        let step = step_by.as_constant().filter(|s| *s >= 1).unwrap_or(1);
        // The index is start + step * counter; a step that is not known is only known to be at least 1.
        let counter_most = match trip.as_ref().and_then(|t| self.cx.range(t).1) {
            Some(most) => (most - 1).div_euclid(step).max(0),
            None => i64::from(i32::MAX),
        };
        let name = &self.kernel.vars[*var].name;
        let counter = self.cx.fresh(name, Some(0), Some(counter_most), Varies::default());
        if self.cx.is_data(&start_at) || self.cx.is_data(&end_at) {
            self.cx.mark_data(counter);
        }
        let value = Poly::sym(counter).scaled(step).and_then(|p| p.plus(&start_at));
        let room = value.as_ref().and_then(|v| end_at.minus(v)?.plus_constant(-1));
        let (Some(value), Some(room)) = (value, room) else { return };
        self.cx.assume_nonneg(room);
        if self.in_kernel {
            // A pipelined loop looks ahead, and advances by all of its stages at once.
            let stages = match kind {
                LoopKind::Pipelined { stages, .. } => self.kernel.const_index(*stages).unwrap_or(1).max(1),
                _ => 1,
            };
            let past = end_at.plus_constant(stages.saturating_mul(step) - 1);
            past.iter().for_each(|p| self.note_range(p, self.kernel.exprs[*end].span));
            if stages > 1 {
                let ahead = start_at.plus_constant(stages.saturating_mul(step));
                ahead.iter().for_each(|p| self.note_range(p, self.kernel.exprs[*start].span));
            }
        }
        self.vars[*var] = Value::Int(value.clone());
        let last = trip.clone().and_then(|t| {
            let t = t.plus_constant(-1)?;
            if step == 1 { Some(t) } else { self.cx.floor_div(&t, &Poly::constant(step)) }
        });
        let known_step = step_by.as_constant() == Some(step);
        let is_ranged = last.is_some() && known_step;
        if let Some(hi) = last.filter(|_| known_step) {
            self.ranged.push(Ranged { sym: counter, lo: Poly::constant(0), hi, var: *var, value: value.clone() });
        }
        self.control.push(Control { span, varies, cond: None });
        let width = trip.and_then(|t| t.as_constant()).unwrap_or(0);
        if *kind == LoopKind::Vectorized {
            self.vector = Some(VectorLoop::new(stmt, counter, width));
        }
        self.block(body);
        if *kind == LoopKind::Vectorized {
            super::vector::finish(self);
            self.vector = None;
        }
        self.control.pop();
        if is_ranged {
            self.ranged.pop();
        }
        self.cx.reset(mark);
        assigned.iter().for_each(|v| self.forget(*v));
    }

    fn parallel(&mut self, stmt: StmtId, vars: &[VarId], extents: &[ExprId], body: &'k [StmtId]) {
        let mark = self.cx.mark();
        let varies = Varies { threads: 7, blocks: 0, warp: true };
        let mut ranged = 0;
        let mut total = Some(Poly::constant(1));
        for (var, extent) in vars.iter().zip(extents) {
            let Value::Int(extent) = self.eval(*extent) else { return };
            let most = self.cx.range(&extent).1.map_or(i64::from(i32::MAX), |e| (e - 1).max(0));
            let sym = self.cx.fresh(&self.kernel.vars[*var].name, Some(0), Some(most), varies);
            let Some(last) = extent.plus_constant(-1) else { return };
            self.bind_ranged(*var, sym, last);
            ranged += 1;
            total = total.and_then(|t| t.times(&extent));
        }
        // Elements are counted in steps of the block's threads.
        if let Some(past) = total.and_then(|t| t.plus_constant(i64::from(self.kernel.thread_count()))) {
            self.note_range(&past, self.kernel.stmts[stmt].span);
        }
        let assigned = self.assigned.get(&stmt).cloned().unwrap_or_default();
        assigned.iter().for_each(|v| self.forget(*v));
        self.control.push(Control { span: self.kernel.stmts[stmt].span, varies, cond: None });
        let outer = self.parallel.replace(stmt);
        self.block(body);
        self.parallel = outer;
        self.control.pop();
        self.ranged.truncate(self.ranged.len() - ranged);
        self.cx.reset(mark);
        assigned.iter().for_each(|v| self.forget(*v));
    }

    /// Every tile once: the indices are the block's, as those of `blocks`.
    fn persistent(&mut self, stmt: StmtId, vars: &[VarId], extents: &[ExprId], body: &'k [StmtId]) {
        let kernel = self.kernel;
        let mark = self.cx.mark();
        let ranged = self.ranged.len();
        for (&var, &extent) in vars.iter().zip(extents) {
            let Value::Int(extent) = self.eval(extent) else { continue };
            let varies = self.uniform.var(var);
            let sym = self.cx.fresh(&kernel.vars[var].name, Some(0), Some(i64::from(i32::MAX) - 1), varies);
            let Some(last) = extent.plus_constant(-1) else { continue };
            self.bind_ranged(var, sym, last);
        }
        let assigned = self.assigned.get(&stmt).cloned().unwrap_or_default();
        assigned.iter().for_each(|v| self.forget(*v));
        // A block's number of tiles differs between blocks, never within one.
        let varies = Varies { blocks: 1, ..Varies::default() };
        self.record_uniform(stmt, varies, None);
        self.control.push(Control { span: kernel.stmts[stmt].span, varies, cond: None });
        self.block(body);
        self.control.pop();
        self.ranged.truncate(ranged);
        self.cx.reset(mark);
        assigned.iter().for_each(|v| self.forget(*v));
    }

    fn copy(&mut self, stmt: StmtId, src: &'k TileRef, dst: &'k TileRef, width: Option<ExprId>) {
        super::copy::check(self, stmt, src, dst, width);
    }

    /// An index list's values.
    pub fn index_values(&mut self, indices: &[ExprId]) -> Vec<Poly> {
        indices
            .iter()
            .map(|e| match self.eval(*e) {
                Value::Int(p) => p,
                _ => Poly::sym(self.cx.fresh_data(None, None, Varies::ALL)),
            })
            .collect()
    }

    /// Meets an element access: bounds, and the rules of vectorised loops.
    fn access(&mut self, access: AccessId, write: bool) {
        let data = &self.kernel.accesses[access];
        if !super::tiles::element(self, access) {
            return;
        }
        let indices = self.index_values(&data.indices);
        let extents = self.extents(data.place);
        let mut bounds = Vec::with_capacity(indices.len());
        for (axis, (index, extent)) in indices.iter().zip(&extents).enumerate() {
            bounds.push(super::bounds::axis(self, access, axis, index, extent));
        }
        let nonnegative: Vec<bool> = indices.iter().map(|p| self.cx.proves(p)).collect();
        match self.analysis.nonnegative.get_mut(&access) {
            Some(known) => known.iter_mut().zip(nonnegative).for_each(|(a, b)| *a &= b),
            None => {
                self.analysis.nonnegative.insert(access, nonnegative);
            }
        }
        match self.analysis.bounds.get_mut(&access) {
            // Met on several paths: what holds on all of them.
            Some(known) => known.iter_mut().zip(bounds).for_each(|(a, b)| *a = merged(*a, b)),
            None => {
                self.analysis.bounds.insert(access, bounds);
            }
        }
        if self.lint_banks {
            super::lints::banks(self, access, &indices, &extents);
        }
        if self.vector.is_some() {
            super::vector::access(self, access, write, indices, extents);
        }
    }

    /// An integer expression's value; `None` if it is not one.
    pub fn eval_int(&mut self, expr: ExprId) -> Option<Poly> {
        match self.eval(expr) {
            Value::Int(p) => Some(p),
            _ => None,
        }
    }

    /// Evaluates an expression, meeting the accesses in it.
    pub fn eval(&mut self, expr: ExprId) -> Value {
        let kernel = self.kernel;
        let e = &kernel.exprs[expr];
        match &e.kind {
            ExprKind::Int(value) if (-(1 << 53)..=1 << 53).contains(value) => Value::Int(Poly::constant(*value)),
            ExprKind::Int(_) => self.unknown(e.ty, Varies::default()),
            ExprKind::Float(_) | ExprKind::Special(..) => Value::Other,
            ExprKind::Bool(value) => Value::Bool(if *value { Cond::True } else { Cond::False }),
            ExprKind::Dim(dim) => Value::Int(self.dims[dim.as_u32() as usize].clone()),
            ExprKind::Const(_) | ExprKind::Bits(_) | ExprKind::Present(_) => self.unknown(e.ty, Varies::default()),
            ExprKind::Scalar(param) => match self.scalars.get(&param.as_u32()) {
                Some(value) => Value::Int(value.clone()),
                None => self.unknown(e.ty, Varies::default()),
            },
            ExprKind::Var(var) => match &self.vars[*var] {
                Value::Other => self.unknown(e.ty, self.uniform.var(*var)),
                value => value.clone(),
            },
            ExprKind::Unary(op, a) => {
                let a = self.eval(*a);
                match (op, a) {
                    (UnaryOp::Not, Value::Bool(cond)) => Value::Bool(cond.negated()),
                    (UnaryOp::Neg, Value::Int(p)) => match p.scaled(-1) {
                        Some(negated) => self.fitted(e.ty, negated, BinaryOp::Sub, &Poly::constant(0), &p),
                        None => self.unknown(e.ty, self.cx.varies(&p)),
                    },
                    (_, Value::Int(p)) => self.unknown(e.ty, self.cx.varies(&p)),
                    _ => self.unknown(e.ty, self.uniform.expr(kernel, expr)),
                }
            }
            ExprKind::Binary(op, a, b) => self.binary(expr, *op, *a, *b),
            ExprKind::Math(_, args) => {
                args.iter().for_each(|a| {
                    self.eval(*a);
                });
                self.unknown(e.ty, self.uniform.expr(kernel, expr))
            }
            ExprKind::Select(c, a, b) => {
                let (c, a, b) = (self.eval(*c), self.eval(*a), self.eval(*b));
                self.choice(e.ty, c, a, b)
            }
            ExprKind::If(c, a, b) => {
                let c = self.eval(*c);
                let cond = if let Value::Bool(cond) = &c { cond.clone() } else { Cond::Unknown(Varies::ALL) };
                let a = self.under(&cond, *a);
                let b = self.under(&cond.negated(), *b);
                self.choice(e.ty, c, a, b)
            }
            ExprKind::Cast(ty, a) => {
                let from = kernel.exprs[*a].ty;
                let value = self.eval(*a);
                self.cast(from, *ty, value, expr)
            }
            ExprKind::Load(access) => {
                self.access(*access, false);
                let varies = self.uniform.load(kernel, *access);
                self.unknown(e.ty, varies)
            }
        }
    }

    fn under(&mut self, cond: &Cond, expr: ExprId) -> Value {
        let mark = self.cx.mark();
        self.cx.assume(cond);
        self.path.push(cond.clone());
        let value = self.eval(expr);
        self.path.pop();
        self.cx.reset(mark);
        value
    }

    fn choice(&mut self, ty: Type, cond: Value, a: Value, b: Value) -> Value {
        let Value::Bool(cond) = cond else { return self.unknown(ty, Varies::ALL) };
        match self.cx.decide(&cond) {
            Answer::Proven => return a,
            Answer::Refuted => return b,
            Answer::Unknown => {}
        }
        let varies = cond.varies(&self.cx);
        match (a, b) {
            (Value::Int(a), Value::Int(b)) if a == b => Value::Int(a),
            (Value::Int(a), Value::Int(b)) => Value::Int(Poly::sym(self.cx.one_of(vec![a, b], varies))),
            (Value::Bool(a), Value::Bool(b)) => Value::Bool(cond.clone().and(a).or(cond.negated().and(b))),
            _ => Value::Other,
        }
    }

    fn cast(&mut self, from: Type, to: Type, value: Value, expr: ExprId) -> Value {
        let varies = self.uniform.expr(self.kernel, expr);
        let Value::Int(p) = value else { return self.unknown(to, varies) };
        let (lo, hi) = self.cx.range(&p);
        let fits = |least: i64, most: i64| lo.is_some_and(|lo| lo >= least) && hi.is_some_and(|hi| hi <= most);
        match to {
            // An index is a signed 32-bit number in the emitted code.
            Type::Index if from == Type::Index || fits(0, i64::from(i32::MAX)) => Value::Int(p),
            Type::Index if fits(i64::from(i32::MIN), i64::from(i32::MAX)) => Value::Int(p),
            Type::Value(DtypeRef::Is(dtype)) if dtype.is_int() => match dtype_range(dtype) {
                Some((least, most)) if fits(least, most) => Value::Int(p),
                _ => self.unknown(to, varies),
            },
            _ => self.unknown(to, varies),
        }
    }

    fn binary(&mut self, expr: ExprId, op: BinaryOp, a: ExprId, b: ExprId) -> Value {
        let (kernel, ty) = (self.kernel, self.kernel.exprs[expr].ty);
        let left = self.eval(a);
        let right = match (op, &left) {
            (BinaryOp::And, Value::Bool(cond)) => self.under(&cond.clone(), b),
            (BinaryOp::Or, Value::Bool(cond)) => self.under(&cond.negated(), b),
            _ => self.eval(b),
        };
        match (left, right) {
            (Value::Bool(a), Value::Bool(b)) => Value::Bool(match op {
                BinaryOp::And | BinaryOp::BitAnd => a.and(b),
                BinaryOp::Or | BinaryOp::BitOr => a.or(b),
                BinaryOp::Eq => a.clone().and(b.clone()).or(a.negated().and(b.negated())),
                BinaryOp::Ne | BinaryOp::BitXor => a.clone().and(b.negated()).or(a.negated().and(b)),
                _ => Cond::Unknown(self.uniform.expr(kernel, expr)),
            }),
            (Value::Int(a), Value::Int(b)) if op.is_comparison() => Value::Bool(match op {
                BinaryOp::Lt => Cond::less(&a, &b),
                BinaryOp::Ge => Cond::less(&a, &b).negated(),
                BinaryOp::Gt => Cond::less(&b, &a),
                BinaryOp::Le => Cond::less(&b, &a).negated(),
                BinaryOp::Eq => Cond::equal(&a, &b),
                _ => Cond::equal(&a, &b).negated(),
            }),
            (Value::Int(x), Value::Int(y)) => {
                self.check_divisor(op, b, &y);
                let value = self.arithmetic(op, &x, &y, ty);
                if ty == Type::Index && self.in_kernel {
                    self.note_operation(op, &x, &y, &value, kernel.exprs[expr].span);
                }
                value
            }
            _ => self.unknown(ty, self.uniform.expr(kernel, expr)),
        }
    }

    fn check_divisor(&mut self, op: BinaryOp, divisor: ExprId, value: &Poly) {
        if matches!(op, BinaryOp::Div | BinaryOp::Rem | BinaryOp::CeilDiv) && value.as_constant() == Some(0) {
            self.analysis.diagnostics.push(
                Diagnostic::new(Code::INDEX_OVERFLOW, self.kernel.exprs[divisor].span, "division by zero")
                    .at("this is 0"),
            );
        }
    }

    fn arithmetic(&mut self, op: BinaryOp, a: &Poly, b: &Poly, ty: Type) -> Value {
        let nonneg = |cx: &Context, p: &Poly| cx.proves(p);
        let shift = b.as_constant().filter(|s| (0..31).contains(s)).map(|s| Poly::constant(1 << s));
        let result = match op {
            BinaryOp::Add => a.plus(b),
            BinaryOp::Sub => a.minus(b),
            BinaryOp::Mul => a.times(b),
            BinaryOp::Min => Some(self.cx.min(a, b)),
            BinaryOp::Max => Some(self.cx.max(a, b)),
            BinaryOp::Div | BinaryOp::Rem | BinaryOp::CeilDiv => {
                let positive = b.plus_constant(-1).is_some_and(|p| nonneg(&self.cx, &p));
                if !positive || !nonneg(&self.cx, a) {
                    None
                } else if op == BinaryOp::CeilDiv {
                    let top = a.plus(b).and_then(|p| p.plus_constant(-1));
                    top.and_then(|top| self.cx.floor_div(&top, b))
                } else if op == BinaryOp::Div {
                    self.cx.floor_div(a, b)
                } else {
                    self.cx.floor_rem(a, b)
                }
            }
            BinaryOp::Shl => shift.and_then(|s| a.times(&s)),
            BinaryOp::Shr => shift.filter(|_| nonneg(&self.cx, a)).and_then(|s| self.cx.floor_div(a, &s)),
            BinaryOp::BitAnd => match b.as_constant() {
                Some(mask) if mask >= 0 && ((mask + 1) as u64).is_power_of_two() && nonneg(&self.cx, a) => {
                    self.cx.floor_rem(a, &Poly::constant(mask + 1))
                }
                _ => None,
            },
            _ => None,
        };
        match result {
            Some(result) => self.fitted(ty, result, op, a, b),
            None => Value::Int(self.opaque(ty, op, a, b)),
        }
    }

    /// A result, or what wrapping may make of it.
    fn fitted(&mut self, ty: Type, result: Poly, op: BinaryOp, a: &Poly, b: &Poly) -> Value {
        let range = match ty {
            // Launch checks keep indices in range, but not those that come from memory.
            Type::Index if !self.cx.is_data(&result) => None,
            Type::Index => Some((-i64::from(i32::MAX), i64::from(i32::MAX))),
            Type::Value(DtypeRef::Is(dtype)) => dtype_range(dtype),
            Type::Value(DtypeRef::Param(_)) => None,
        };
        let fits = range.is_none_or(|(least, most)| {
            let (lo, hi) = self.cx.range(&result);
            lo.is_some_and(|lo| lo >= least) && hi.is_some_and(|hi| hi <= most)
        });
        Value::Int(if fits { result } else { self.opaque(ty, op, a, b) })
    }

    fn opaque(&mut self, ty: Type, op: BinaryOp, a: &Poly, b: &Poly) -> Poly {
        use crate::constraint::Definition;
        let range = match ty {
            Type::Index => self
                .cx
                .is_data(a)
                .then_some(())
                .or(self.cx.is_data(b).then_some(()))
                .map(|()| (-i64::from(i32::MAX), i64::from(i32::MAX))),
            Type::Value(DtypeRef::Is(dtype)) => dtype_range(dtype),
            Type::Value(DtypeRef::Param(_)) => None,
        };
        Poly::sym(self.cx.define(Definition::Opaque(op, a.clone(), b.clone(), range)))
    }

    fn note_operation(&mut self, op: BinaryOp, a: &Poly, b: &Poly, value: &Value, span: SpanId) {
        match op {
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Shl => {
                if let Value::Int(p) = value {
                    self.note_range(&p.clone(), span);
                }
            }
            // Rounded up by adding the divisor first.
            BinaryOp::CeilDiv => {
                let top = a.plus(b).and_then(|p| p.plus_constant(-1));
                top.iter().for_each(|p| self.note_range(p, span));
            }
            _ => {}
        }
    }

    /// Records a value an index takes.
    pub fn note_range(&mut self, poly: &Poly, span: SpanId) {
        super::ranges::note(self, poly, span);
    }
}

fn merged(a: Bound, b: Bound) -> Bound {
    a.max(b)
}

/// Variables each loop and conditional assigns, those declared inside included.
fn collect_assigned(kernel: &Kernel, stmt: StmtId, all: &mut HashMap<StmtId, Vec<VarId>>) -> Vec<VarId> {
    let mut own = Vec::new();
    let mut inner = |body: &[StmtId], own: &mut Vec<VarId>| {
        for &s in body {
            own.extend(collect_assigned(kernel, s, all));
        }
    };
    let is_region = match &kernel.stmts[stmt].kind {
        StmtKind::Assign { var, .. }
        | StmtKind::Vote { dst: var, .. }
        | StmtKind::LastArriver { dst: var, .. }
        | StmtKind::Shuffle { dst: var, .. } => {
            own.push(*var);
            false
        }
        StmtKind::Let { var, .. } if kernel.vars[*var].kind == VarKind::Mut => {
            own.push(*var);
            false
        }
        StmtKind::Reduce { dst: Some(var), .. } | StmtKind::Atomic { dst: Some(var), .. } => {
            own.push(*var);
            false
        }
        StmtKind::If { then, otherwise, .. } => {
            inner(then, &mut own);
            inner(otherwise, &mut own);
            true
        }
        StmtKind::For { body, .. } | StmtKind::Parallel { body, .. } | StmtKind::Persistent { body, .. } => {
            inner(body, &mut own);
            true
        }
        _ => false,
    };
    if is_region {
        own.sort_unstable();
        own.dedup();
        all.insert(stmt, own.clone());
    }
    own
}
