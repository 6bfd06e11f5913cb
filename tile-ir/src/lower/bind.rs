//! Bind: one instance of a kernel, with everything its constants decide.
//!
//! Contract. In: a verified kernel and one of its instances. Out: a kernel without type or const parameters, in which
//! every dtype is concrete, constant expressions of type `usize` and `bool` are literals, constant `let`s are gone,
//! `if`s on constants are resolved, literals are rounded to their dtype, and f32 `a * b + c` is one `fma`. A dim that
//! the instance gives a value is a constant too; it stays the extent of its tensors, with its value. Entities
//! that outlive binding (variables, buffers, parameters, dims, spans) keep their index; expressions, accesses and
//! statements are renumbered in program order, so that equal bodies bind to equal kernels.

use crate::diag::{Code, Diagnostic};
use crate::ir::*;
use crate::lowered::fold;
use half::{bf16, f16};

/// Binds `instance`, which gives every specialised dim a value; see the module's contract. Errors name constants that do
/// not exist or do not fit, and the values of specialised dims.
pub fn bind(kernel: &Kernel, instance: &Instance) -> Result<Kernel, Vec<Diagnostic>> {
    let missing: Vec<DimId> = kernel.specialized().iter().copied().filter(|d| instance.dim(*d).is_none()).collect();
    if let (Some(specialize), Some(dim)) = (&kernel.attributes.specialize, missing.first()) {
        let name = &kernel.dims[*dim].name;
        let message = format!("the kernel is specialised by `{name}`, and this instance gives it no value");
        let diagnostic = Diagnostic::new(Code::NOT_CONSTANT, specialize.span, message);
        return Err(vec![diagnostic.help(format!("name the value it is compiled for: `{name} = 4096`"))]);
    }
    let wrong = |(dim, value): &&(DimId, i64)| {
        !kernel.specialized().contains(dim) || !(0..=i64::from(i32::MAX)).contains(value)
    };
    if let Some((dim, value)) = instance.dims.iter().find(wrong)
        && let Some(span) = kernel.attributes.specialize.as_ref().map(|s| s.span).or(kernel.spans.keys().next())
    {
        let name = kernel.dims.get(*dim).map_or("?", |d| &d.name);
        let message = format!("{name} = {value} specialises nothing: it is no extent, or no dim of `specialize(..)`");
        return Err(vec![Diagnostic::new(Code::NOT_CONSTANT, span, message)]);
    }
    bound(kernel, instance).map(|(bound, _)| bound)
}

/// What is known of an instance before its specialised dims are: bound like any other, dims staying dims. `None` where
/// its form depends on them (its threads, an array's extent, the extent of an unrolled loop).
pub(crate) fn bind_ahead(kernel: &Kernel, instance: &Instance) -> Result<Option<Kernel>, Vec<Diagnostic>> {
    bound(kernel, instance).map(|(bound, open)| (!open).then_some(bound))
}

/// Diagnostics of a kernel name the values of its specialised dims: `for K = 1000`.
pub(super) fn for_values(bound: &Kernel, all: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let values = values(bound);
    if values.is_empty() { all } else { all.into_iter().map(|d| d.note(format!("for {values}"))).collect() }
}

/// `K = 1000, N = 8`.
fn values(bound: &Kernel) -> String {
    let values = bound.dims.values().filter_map(|d| d.value.map(|v| format!("{} = {v}", d.name)));
    values.collect::<Vec<_>>().join(", ")
}

/// The bound kernel, and whether something in it waits for a specialised dim.
fn bound(kernel: &Kernel, instance: &Instance) -> Result<(Kernel, bool), Vec<Diagnostic>> {
    let mut binder = Binder {
        from: kernel,
        instance,
        to: Kernel {
            name: symbol(kernel, instance),
            dims: kernel.dims.clone(),
            instances: vec![Instance::default()],
            class: instance.class,
            targets: kernel.targets.clone(),
            attributes: kernel.attributes.clone(),
            spans: kernel.spans.clone(),
            source: kernel.source.clone(),
            ..Kernel::default()
        },
        values: SecondaryMap::new(),
        inlining: false,
        open: false,
        diagnostics: Vec::new(),
    };
    binder.tables();
    binder.launch_shape();
    binder.to.body = binder.block(&kernel.body);
    for require in &kernel.requires {
        binder.require(require);
    }
    if binder.diagnostics.is_empty() {
        Ok((binder.to, binder.open))
    } else {
        Err(for_values(&binder.to, binder.diagnostics))
    }
}

/// Most stages of a pipelined loop that is written out once a stage: each is a copy of its body in the code, and of its
/// arrays in registers.
pub(super) const MOST_STAGES: i64 = 8;
/// Most stages of one that may become a ring of slots, which is written once: shared memory has room for no more.
const MOST_SLOTS: i64 = 64;

/// A pipelined loop with more stages than it can have, or none.
pub(super) fn wrong_stages(span: SpanId, most: i64, found: i64) -> Diagnostic {
    let message = format!("a pipelined loop has 1 to {most} stages, not {found}");
    let help = "1 loads nothing ahead, 2 loads the next iteration's data during this one";
    Diagnostic::new(Code::CALL, span, message).help(help)
}

/// The instance's symbol: `gemv_f16_8`, or `gemv_f16_8_K4096`.
fn symbol(kernel: &Kernel, instance: &Instance) -> String {
    let mut name = kernel.name.clone();
    for dtype in &instance.dtypes {
        name += &format!("_{dtype}");
    }
    for value in &instance.consts {
        name += &format!("_{value}");
    }
    for (dim, value) in &instance.dims {
        name += &format!("_{}{value}", kernel.dims.get(*dim).map_or("", |d| d.name.as_str()));
    }
    for &param in &instance.absent {
        name += &format!("_no_{}", kernel.params.get(param).map_or("", |p| p.name.as_str()));
    }
    for (side, width) in [("reads", instance.class.reads), ("writes", instance.class.writes)] {
        match width {
            Width::Sixteen => {}
            Width::Eight | Width::Four => name += &format!("_{side}{}", width.bytes()),
            Width::Element => name += &format!("_{side}_elements"),
        }
    }
    name
}

struct Binder<'a> {
    from: &'a Kernel,
    instance: &'a Instance,
    to: Kernel,
    /// What an immutable variable stands for, in `from`.
    values: SecondaryMap<VarId, Option<ExprId>>,
    /// Whether variables are replaced by what they stand for even where that is not a constant: in extents, which the
    /// host evaluates.
    inlining: bool,
    /// Whether a constant depends on a specialised dim that has no value yet.
    open: bool,
    diagnostics: Vec<Diagnostic>,
}

impl Binder<'_> {
    fn dtype(&self, dtype: DtypeRef) -> DtypeRef {
        match dtype {
            DtypeRef::Is(_) => dtype,
            DtypeRef::Param(param) => {
                DtypeRef::Is(self.instance.dtypes.get(param.index()).copied().unwrap_or(Dtype::F32))
            }
        }
    }

    fn ty(&self, ty: Type) -> Type {
        match ty {
            Type::Index => Type::Index,
            Type::Value(dtype) => Type::Value(self.dtype(dtype)),
        }
    }

    fn concrete(&self, dtype: DtypeRef) -> Dtype {
        match self.dtype(dtype) {
            DtypeRef::Is(dtype) => dtype,
            DtypeRef::Param(_) => Dtype::F32,
        }
    }

    fn tables(&mut self) {
        for (dim, value) in &self.instance.dims {
            if let Some(dim) = self.to.dims.get_mut(*dim) {
                dim.value = Some(*value);
            }
        }
        for stmt in self.from.stmts.values() {
            if let StmtKind::Let { var, value: Some(value) } = stmt.kind
                && self.from.vars[var].kind == VarKind::Let
            {
                self.values[var] = Some(value);
            }
        }
        for var in self.from.vars.values() {
            let ty = self.ty(var.ty);
            self.to.vars.push(Var { ty, ..var.clone() });
        }
        for (id, param) in self.from.params.iter() {
            let kind = match &param.kind {
                ParamKind::Scalar { ty } => ParamKind::Scalar { ty: self.ty(*ty) },
                ParamKind::Absent => ParamKind::Absent,
                ParamKind::Tensor { .. } if self.instance.absent.contains(&id) => ParamKind::Absent,
                ParamKind::Tensor { dtype, shape, mutable, optional: _ } => {
                    let shape = shape.iter().map(|extent| self.extent(*extent, param.span)).collect();
                    ParamKind::Tensor { dtype: self.dtype(*dtype), shape, mutable: *mutable, optional: false }
                }
            };
            self.to.params.push(Param { kind, ..param.clone() });
        }
        for buffer in self.from.buffers.values() {
            let extents =
                buffer.extents.iter().map(|&e| self.constant(e, &format!("an extent of `{}`", buffer.name))).collect();
            let dtype = self.dtype(buffer.dtype);
            self.to.buffers.push(Buffer { extents, dtype, ..buffer.clone() });
        }
    }

    fn extent(&mut self, extent: Extent, _span: SpanId) -> Extent {
        match extent {
            Extent::Dim(dim) => Extent::Dim(dim),
            Extent::Fixed(expr) => Extent::Fixed(self.constant(expr, "a fixed extent")),
        }
    }

    fn launch_shape(&mut self) {
        self.inlining = true;
        for axis in &self.from.grid {
            let extent = self.expr(axis.extent);
            self.to.grid.push(Axis { extent, ..axis.clone() });
        }
        for axis in &self.from.threads {
            let extent = self.constant(axis.extent, "a thread extent");
            self.to.threads.push(Axis { extent, ..axis.clone() });
        }
        self.to.swizzle = self.from.swizzle.map(|panel| self.expr(panel));
        self.inlining = false;
        for &extent in &self.from.cluster {
            let extent = self.constant(extent, "an extent of a cluster");
            self.to.cluster.push(extent);
        }
    }

    /// Binds an expression that must be constant.
    fn constant(&mut self, expr: ExprId, what: &str) -> ExprId {
        let inlining = std::mem::replace(&mut self.inlining, true);
        let bound = self.expr(expr);
        self.inlining = inlining;
        if self.to.const_index(bound).is_none() {
            let span = self.from.exprs[expr].span;
            if self.waits(expr) {
                self.open = true;
                return self.push(ExprKind::Int(1), Type::Index, span);
            }
            let message = format!("{what} must be a constant");
            let help = "use literals, const parameters, `T::BITS` and immutable `let`s of these";
            self.diagnostics.push(Diagnostic::new(Code::NOT_CONSTANT, span, message).help(help));
            return self.push(ExprKind::Int(1), Type::Index, span);
        }
        bound
    }

    /// The order of an eviction: its first case that holds.
    fn eviction(&mut self, eviction: &Eviction) -> Eviction {
        let always = |otherwise| Eviction { cases: Vec::new(), otherwise };
        for &(cond, order) in &eviction.cases {
            let inlining = std::mem::replace(&mut self.inlining, true);
            let bound = self.expr(cond);
            self.inlining = inlining;
            match self.to.exprs[bound].kind {
                ExprKind::Bool(true) => return always(order),
                ExprKind::Bool(false) => {}
                _ if self.waits(cond) => self.open = true,
                _ => {
                    let span = self.from.exprs[cond].span;
                    let message = "what a copy's eviction depends on must be a constant";
                    let help = "use literals, const parameters, `T::BITS` and immutable `let`s of these";
                    self.diagnostics.push(Diagnostic::new(Code::NOT_CONSTANT, span, message).help(help));
                }
            }
        }
        always(eviction.otherwise)
    }

    /// Whether an expression depends on a specialised dim that has no value yet.
    fn waits(&self, expr: ExprId) -> bool {
        self.instance.dims.is_empty() && self.specialized(expr)
    }

    /// Whether an expression depends on a specialised dim.
    fn specialized(&self, expr: ExprId) -> bool {
        match &self.from.exprs[expr].kind {
            ExprKind::Dim(dim) => self.from.specialized().contains(dim),
            ExprKind::Var(var) => self.values[*var].is_some_and(|value| self.specialized(value)),
            ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => self.specialized(*a),
            ExprKind::Binary(_, a, b) => self.specialized(*a) || self.specialized(*b),
            ExprKind::Math(_, args) => args.iter().any(|a| self.specialized(*a)),
            ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => [a, b, c].into_iter().any(|e| self.specialized(*e)),
            ExprKind::Int(_)
            | ExprKind::Bool(_)
            | ExprKind::Float(_)
            | ExprKind::Const(_)
            | ExprKind::Bits(_)
            | ExprKind::Special(..)
            | ExprKind::Scalar(_)
            | ExprKind::Present(_)
            | ExprKind::Load(_) => false,
        }
    }

    fn stages(&mut self, expr: ExprId) -> ExprId {
        let bound = self.constant(expr, "the number of stages");
        let stages = self.to.const_index(bound).unwrap_or(1);
        // Whether it does become a ring, `infer` knows.
        let copies = self.from.stmts.values().any(|s| matches!(s.kind, StmtKind::Gemm { .. } | StmtKind::Copy { .. }));
        let most = if copies { MOST_SLOTS } else { MOST_STAGES };
        if !(1..=most).contains(&stages) {
            let span = self.from.exprs[expr].span;
            self.diagnostics.push(wrong_stages(span, most, stages));
        }
        bound
    }

    fn require(&mut self, require: &Require) {
        self.inlining = true;
        let cond = self.expr(require.cond);
        self.inlining = false;
        match self.to.exprs[cond].kind {
            ExprKind::Bool(true) => {}
            ExprKind::Bool(false) => {
                let diagnostic = if self.specialized(require.cond) {
                    let message = format!("`require({})` does not hold for {}", require.text, values(&self.to));
                    Diagnostic::new(Code::ATTRIBUTE, require.span, message)
                } else {
                    let message =
                        format!("this instance breaks `require({})`: every launch of it would fail", require.text);
                    let diagnostic = Diagnostic::new(Code::ATTRIBUTE, require.span, message);
                    diagnostic.help("exclude it with `where` in `instances(..)`")
                };
                self.diagnostics.push(diagnostic);
            }
            _ => self.to.requires.push(Require { cond, ..require.clone() }),
        }
    }

    fn push(&mut self, kind: ExprKind, ty: Type, span: SpanId) -> ExprId {
        self.to.exprs.push(Expr { kind, ty, span })
    }

    fn expr(&mut self, id: ExprId) -> ExprId {
        let Expr { kind, ty, span } = &self.from.exprs[id];
        let (ty, span) = (self.ty(*ty), *span);
        let kind = match kind {
            ExprKind::Int(_) | ExprKind::Bool(_) | ExprKind::Scalar(_) => kind.clone(),
            ExprKind::Dim(dim) => self.instance.dim(*dim).map_or(ExprKind::Dim(*dim), ExprKind::Int),
            ExprKind::Float(value) => ExprKind::Float(round(*value, ty)),
            ExprKind::Const(id) => {
                let value = self.instance.consts.get(id.index()).copied().unwrap_or(0);
                match self.from.consts[*id].kind {
                    ConstKind::Usize => ExprKind::Int(value),
                    ConstKind::Bool => ExprKind::Bool(value != 0),
                }
            }
            ExprKind::Bits(dtype) => ExprKind::Int(i64::from(self.concrete(*dtype).bits())),
            ExprKind::Special(dtype, value) => special(self.concrete(*dtype), *value),
            ExprKind::Var(var) => return self.variable(*var, ty, span),
            ExprKind::Unary(op, x) => {
                let x = self.expr(*x);
                match (op, &self.to.exprs[x].kind) {
                    (UnaryOp::Not, ExprKind::Bool(value)) => ExprKind::Bool(!value),
                    (UnaryOp::Neg, ExprKind::Int(value)) if ty == Type::Index || ty.dtype() == Some(Dtype::I32) => {
                        ExprKind::Int(value.wrapping_neg())
                    }
                    (UnaryOp::Neg, ExprKind::Float(value)) => ExprKind::Float(-value),
                    _ => ExprKind::Unary(*op, x),
                }
            }
            ExprKind::Binary(op, a, b) => return self.binary(*op, *a, *b, ty, span),
            ExprKind::Math(function, args) => {
                let args = args.iter().map(|&a| self.expr(a)).collect();
                ExprKind::Math(*function, args)
            }
            ExprKind::Select(c, a, b) | ExprKind::If(c, a, b) => {
                let c = self.expr(*c);
                match self.to.exprs[c].kind {
                    ExprKind::Bool(true) => return self.expr(*a),
                    ExprKind::Bool(false) => return self.expr(*b),
                    _ => {}
                }
                let lazy = matches!(kind, ExprKind::If(..));
                let (a, b) = (self.expr(*a), self.expr(*b));
                if lazy { ExprKind::If(c, a, b) } else { ExprKind::Select(c, a, b) }
            }
            ExprKind::Cast(_, x) => {
                let x = self.expr(*x);
                let source = &self.to.exprs[x];
                match source.kind {
                    _ if source.ty == ty => return x,
                    ExprKind::Int(value) if ty == Type::Index => ExprKind::Int(value),
                    ExprKind::Int(value) if ty.dtype().is_some_and(Dtype::is_float) => {
                        ExprKind::Float(round(value as f64, ty))
                    }
                    ExprKind::Float(value) if ty.dtype().is_some_and(Dtype::is_float) => {
                        ExprKind::Float(round(value, ty))
                    }
                    _ => ExprKind::Cast(ty, x),
                }
            }
            ExprKind::Load(access) => ExprKind::Load(self.access(*access)),
            ExprKind::Present(param) => ExprKind::Bool(!self.instance.absent.contains(param)),
        };
        self.push(kind, ty, span)
    }

    /// A constant variable becomes its value; in extents, every immutable one does.
    fn variable(&mut self, var: VarId, ty: Type, span: SpanId) -> ExprId {
        if let Some(value) = self.values[var]
            && matches!(self.to.vars[var].ty, Type::Index | Type::BOOL)
        {
            if self.inlining {
                return self.expr(value);
            }
            if let Some(number) = self.literal(value) {
                let kind = if ty == Type::BOOL { ExprKind::Bool(number != 0) } else { ExprKind::Int(number) };
                return self.push(kind, ty, span);
            }
        }
        self.push(ExprKind::Var(var), ty, span)
    }

    /// The value of a constant expression of type `usize` or `bool`, without building anything.
    fn literal(&self, expr: ExprId) -> Option<i64> {
        Some(match &self.from.exprs[expr].kind {
            ExprKind::Int(value) => *value,
            ExprKind::Bool(value) => i64::from(*value),
            ExprKind::Const(id) => self.instance.consts.get(id.index()).copied()?,
            ExprKind::Dim(dim) => self.instance.dim(*dim)?,
            ExprKind::Bits(dtype) => i64::from(self.concrete(*dtype).bits()),
            ExprKind::Present(param) => i64::from(!self.instance.absent.contains(param)),
            ExprKind::Var(var) => self.literal(self.values[*var]?)?,
            ExprKind::Unary(UnaryOp::Not, x) => i64::from(self.literal(*x)? == 0),
            ExprKind::Unary(UnaryOp::Neg, x) => self.literal(*x)?.checked_neg()?,
            ExprKind::Binary(op, a, b) => {
                let a = self.literal(*a)?;
                match op {
                    BinaryOp::And if a == 0 => 0,
                    BinaryOp::Or if a != 0 => 1,
                    _ => fold(*op, a, self.literal(*b)?)?,
                }
            }
            ExprKind::Select(c, a, b) | ExprKind::If(c, a, b) => {
                if self.literal(*c)? != 0 {
                    self.literal(*a)?
                } else {
                    self.literal(*b)?
                }
            }
            ExprKind::Cast(Type::Index, x) => self.literal(*x)?,
            _ => return None,
        })
    }

    fn binary(&mut self, op: BinaryOp, a: ExprId, b: ExprId, ty: Type, span: SpanId) -> ExprId {
        let a = self.expr(a);
        // A constant left side of `&&` and `||` decides whether the right side exists.
        match (op, &self.to.exprs[a].kind) {
            (BinaryOp::And, ExprKind::Bool(false)) | (BinaryOp::Or, ExprKind::Bool(true)) => return a,
            (BinaryOp::And | BinaryOp::Or, ExprKind::Bool(_)) => return self.expr(b),
            _ => {}
        }
        let b = self.expr(b);
        let (left, right) = (self.to.exprs[a].clone(), self.to.exprs[b].clone());
        let kind = match (op, &left.kind, &right.kind) {
            (_, ExprKind::Int(x), ExprKind::Int(y)) if left.ty == Type::Index => match fold(op, *x, *y) {
                Some(value) if op.is_comparison() => ExprKind::Bool(value != 0),
                Some(value) => ExprKind::Int(value),
                None => {
                    let message = format!("{x} {} {y} has no value", op.symbol());
                    self.diagnostics.push(Diagnostic::new(Code::NOT_CONSTANT, span, message));
                    ExprKind::Int(1)
                }
            },
            (_, ExprKind::Bool(x), ExprKind::Bool(y)) => match fold(op, i64::from(*x), i64::from(*y)) {
                Some(value) => ExprKind::Bool(value != 0),
                None => ExprKind::Binary(op, a, b),
            },
            (BinaryOp::And, _, ExprKind::Bool(true)) | (BinaryOp::Or, _, ExprKind::Bool(false)) => return a,
            (BinaryOp::Add, ExprKind::Int(0), _) | (BinaryOp::Mul, ExprKind::Int(1), _) => return b,
            (BinaryOp::Add | BinaryOp::Sub, _, ExprKind::Int(0)) => return a,
            (BinaryOp::Mul | BinaryOp::Div | BinaryOp::CeilDiv, _, ExprKind::Int(1)) => return a,
            (BinaryOp::Mul, ExprKind::Int(0), _) | (BinaryOp::Mul, _, ExprKind::Int(0)) if ty == Type::Index => {
                ExprKind::Int(0)
            }
            _ if ty == Type::F32 => self.contract(op, a, b, span),
            _ => ExprKind::Binary(op, a, b),
        };
        self.push(kind, ty, span)
    }

    /// f32 `a * b + c`, `c + a * b`, `a * b - c`, `c - a * b` are one `fma`: the contraction a CUDA compiler would
    /// do by itself, made part of the language so that every executor rounds alike.
    fn contract(&mut self, op: BinaryOp, a: ExprId, b: ExprId, span: SpanId) -> ExprKind {
        let product = |kernel: &Kernel, e: ExprId| match kernel.exprs[e].kind {
            ExprKind::Binary(BinaryOp::Mul, x, y) => Some((x, y)),
            _ => None,
        };
        match (op, product(&self.to, a), product(&self.to, b)) {
            (BinaryOp::Add, Some((x, y)), _) => ExprKind::Math(MathFn::Fma, vec![x, y, b]),
            (BinaryOp::Add, None, Some((x, y))) => ExprKind::Math(MathFn::Fma, vec![x, y, a]),
            (BinaryOp::Sub, Some((x, y)), _) => {
                let minus = self.push(ExprKind::Unary(UnaryOp::Neg, b), Type::F32, span);
                ExprKind::Math(MathFn::Fma, vec![x, y, minus])
            }
            (BinaryOp::Sub, None, Some((x, y))) => {
                let minus = self.push(ExprKind::Unary(UnaryOp::Neg, x), Type::F32, span);
                ExprKind::Math(MathFn::Fma, vec![minus, y, a])
            }
            _ => ExprKind::Binary(op, a, b),
        }
    }

    fn access(&mut self, id: AccessId) -> AccessId {
        let access = &self.from.accesses[id];
        let indices = access.indices.iter().map(|&e| self.expr(e)).collect();
        self.to.accesses.push(Access { indices, ..access.clone() })
    }

    fn tile(&mut self, tile: &TileRef) -> TileRef {
        let start = tile.start.iter().map(|&e| self.expr(e)).collect();
        let extents = tile.extents.iter().map(|&e| self.constant(e, "a tile's extent")).collect();
        TileRef { start, extents, ..tile.clone() }
    }

    fn block(&mut self, block: &[StmtId]) -> Vec<StmtId> {
        let mut out = Vec::new();
        for &stmt in block {
            self.statement(stmt, &mut out);
        }
        out
    }

    fn statement(&mut self, id: StmtId, out: &mut Vec<StmtId>) {
        let Stmt { kind, span } = &self.from.stmts[id];
        let kind = match kind {
            StmtKind::Let { var, value } => {
                let value = value.map(|e| self.expr(e));
                let constant = value.is_some_and(|e| {
                    matches!(self.to.exprs[e].kind, ExprKind::Int(_) | ExprKind::Bool(_))
                        && matches!(self.to.vars[*var].ty, Type::Index | Type::BOOL)
                });
                if constant && self.from.vars[*var].kind == VarKind::Let {
                    return;
                }
                StmtKind::Let { var: *var, value }
            }
            StmtKind::Assign { var, value } => StmtKind::Assign { var: *var, value: self.expr(*value) },
            StmtKind::Store { access, value } => {
                let value = self.expr(*value);
                StmtKind::Store { access: self.access(*access), value }
            }
            StmtKind::If { cond, then, otherwise } => {
                let cond = self.expr(*cond);
                match self.to.exprs[cond].kind {
                    ExprKind::Bool(value) => {
                        let arm = self.block(if value { then } else { otherwise });
                        out.extend(arm);
                        return;
                    }
                    _ => StmtKind::If { cond, then: self.block(then), otherwise: self.block(otherwise) },
                }
            }
            StmtKind::For { var, start, end, step, kind, body } => {
                if matches!(kind, LoopKind::Unroll | LoopKind::Vectorized) && (self.waits(*start) || self.waits(*end)) {
                    self.open = true;
                }
                let (start, end, step) = (self.expr(*start), self.expr(*end), self.expr(*step));
                let kind = match kind {
                    LoopKind::Serial { unroll: Some(n) } => {
                        LoopKind::Serial { unroll: Some(self.constant(*n, "an unrolling factor")) }
                    }
                    LoopKind::Pipelined { stages, schedule } => {
                        LoopKind::Pipelined { stages: self.stages(*stages), schedule: *schedule }
                    }
                    LoopKind::Serial { unroll: None } | LoopKind::Unroll | LoopKind::Vectorized => *kind,
                };
                StmtKind::For { var: *var, start, end, step, kind, body: self.block(body) }
            }
            StmtKind::Parallel { vars, extents, body } => {
                let extents = extents.iter().map(|&e| self.expr(e)).collect();
                StmtKind::Parallel { vars: vars.clone(), extents, body: self.block(body) }
            }
            StmtKind::Copy { src, dst, width, tma, evict } => {
                let width = width.map(|w| self.constant(w, "a copy's width"));
                let evict = evict.as_ref().map(|eviction| self.eviction(eviction));
                StmtKind::Copy { src: self.tile(src), dst: self.tile(dst), width, tma: *tma, evict }
            }
            StmtKind::Persistent { vars, extents, per_sm, contiguous, body } => {
                let inlining = std::mem::replace(&mut self.inlining, true);
                let extents = extents.iter().map(|&e| self.expr(e)).collect();
                self.inlining = inlining;
                let per_sm = per_sm.map(|n| self.constant(n, "the number of blocks a multiprocessor"));
                let (vars, contiguous) = (vars.clone(), *contiguous);
                StmtKind::Persistent { vars, extents, per_sm, contiguous, body: self.block(body) }
            }
            StmtKind::Fill { buffer, value } => StmtKind::Fill { buffer: *buffer, value: self.expr(*value) },
            StmtKind::Reduce { op, src, dst, axis } => {
                let src = match src {
                    ReduceSource::Value(value) => ReduceSource::Value(self.expr(*value)),
                    ReduceSource::Local(buffer) => ReduceSource::Local(*buffer),
                };
                StmtKind::Reduce { op: *op, src, dst: *dst, axis: *axis }
            }
            StmtKind::Shuffle { kind, value, lane, dst } => {
                let (value, lane) = (self.expr(*value), self.expr(*lane));
                StmtKind::Shuffle { kind: *kind, value, lane, dst: *dst }
            }
            StmtKind::Vote { kind, pred, dst } => StmtKind::Vote { kind: *kind, pred: self.expr(*pred), dst: *dst },
            StmtKind::LastArriver { access, count, dst } => {
                let count = self.expr(*count);
                StmtKind::LastArriver { access: self.access(*access), count, dst: *dst }
            }
            StmtKind::Atomic { op, access, value, dst } => {
                let value = self.expr(*value);
                StmtKind::Atomic { op: *op, access: self.access(*access), value, dst: *dst }
            }
            StmtKind::Print { format, args } => {
                let args = args.iter().map(|&a| self.expr(a)).collect();
                StmtKind::Print { format: format.clone(), args }
            }
            StmtKind::Assert { cond, message } => StmtKind::Assert { cond: self.expr(*cond), message: message.clone() },
            StmtKind::ReduceTile { .. } | StmtKind::ClusterReduce { .. } => kind.clone(),
            StmtKind::Alloc { .. } | StmtKind::Gemm { .. } | StmtKind::SyncThreads | StmtKind::SyncWarp => kind.clone(),
        };
        out.push(self.to.stmts.push(Stmt { kind, span: *span }));
    }
}

fn special(dtype: Dtype, value: SpecialValue) -> ExprKind {
    let number = match value {
        SpecialValue::Zero => 0.0,
        SpecialValue::One => 1.0,
        SpecialValue::NegInfinity => f64::NEG_INFINITY,
        SpecialValue::Infinity => f64::INFINITY,
    };
    match dtype {
        Dtype::Bool => ExprKind::Bool(number != 0.0),
        Dtype::I32 | Dtype::U32 => ExprKind::Int(number as i64),
        Dtype::F16 | Dtype::Bf16 | Dtype::F32 => ExprKind::Float(number),
    }
}

/// A literal as its dtype holds it.
fn round(value: f64, ty: Type) -> f64 {
    match ty.dtype() {
        Some(Dtype::F16) => f16::from_f64(value).to_f64(),
        Some(Dtype::Bf16) => bf16::from_f64(value).to_f64(),
        Some(Dtype::F32) => f64::from(value as f32),
        _ => value,
    }
}
