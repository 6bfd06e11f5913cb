//! Bind: one instance of a kernel, with everything its constants decide.
//!
//! Contract. In: a verified kernel and one of its instances. Out: a kernel without type or const parameters, in which
//! every dtype is concrete, constant expressions of type `usize` and `bool` are literals, constant `let`s are gone,
//! `if`s on constants are resolved, literals are rounded to their dtype, f32 `a * b + c` is one `fma`, and a loop that adds
//! up the rows of a product keeps four parts of each sum ([`sums`]). A dim that
//! the instance gives a value is a constant too; it stays the extent of its tensors, with its value. Entities
//! that outlive binding (variables, buffers, parameters, dims, spans) keep their index; expressions, accesses and
//! statements are renumbered in program order, so that equal bodies bind to equal kernels.

mod expression;
mod statement;
pub(super) mod sums;

use crate::diag::{Code, Diagnostic};
use crate::ir::*;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Binds `instance`, which gives every specialised dim a value; see the module's contract. Errors name constants that do
/// not exist or do not fit, and the values of specialised dims.
pub fn bind(kernel: &Kernel, instance: &Instance) -> Result<BoundKernel, Vec<Diagnostic>> {
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
pub(crate) fn bind_ahead(kernel: &Kernel, instance: &Instance) -> Result<Option<BoundKernel>, Vec<Diagnostic>> {
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
fn bound(kernel: &Kernel, instance: &Instance) -> Result<(BoundKernel, bool), Vec<Diagnostic>> {
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
        literals: RefCell::default(),
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
    drop_unused(kernel, &mut binder.to);
    if !binder.diagnostics.is_empty() {
        return Err(for_values(&binder.to, binder.diagnostics));
    }
    sums::sums(&mut binder.to);
    Ok((BoundKernel::new(binder.to).map_err(|diagnostic| vec![*diagnostic])?, binder.open))
}

/// Leaves out what only other instances use, in branches which this one does not have: arrays, and the copies of variables that
/// a call makes of its arguments.
fn drop_unused(from: &Kernel, to: &mut Kernel) {
    let (before, now) = (used_arrays(from), used_arrays(to));
    let mut dropped: BTreeSet<StmtId> = BTreeSet::new();
    // A copy may have been made for another copy, which is dropped before it.
    loop {
        let read = read_variables(to, &dropped);
        let is_unused = |stmt: &Stmt| {
            if let StmtKind::Alloc { buffer } = &stmt.kind {
                return before.contains(buffer) && !now.contains(buffer);
            }
            let StmtKind::Let { var, value: Some(value) } = stmt.kind else { return false };
            let is_copy = to.vars[var].kind == VarKind::Let && matches!(to.exprs[value].kind, ExprKind::Var(_));
            is_copy && !read.contains(&var)
        };
        let found: BTreeSet<StmtId> = to.stmts.iter().filter(|(_, stmt)| is_unused(stmt)).map(|(id, _)| id).collect();
        if found.len() == dropped.len() {
            break;
        }
        dropped = found;
    }
    let keep = |body: &mut Vec<StmtId>| body.retain(|stmt| !dropped.contains(stmt));
    keep(&mut to.body);
    for stmt in to.stmts.values_mut() {
        stmt.kind.bodies_mut().into_iter().for_each(keep);
    }
}

/// The arrays that a statement or an access of `kernel` names.
fn used_arrays(kernel: &Kernel) -> BTreeSet<BufferId> {
    let named = kernel.stmts.values().flat_map(|stmt| stmt.kind.parts()).filter_map(|part| match part {
        StmtPart::Tile(tile, _) => tile.place.buffer(),
        StmtPart::Array(buffer, _) => Some(buffer),
        _ => None,
    });
    named.chain(kernel.accesses.values().filter_map(|access| access.place.buffer())).collect()
}

/// The variables that an expression of `kernel` reads, the values of the `dropped` declarations left out.
fn read_variables(kernel: &Kernel, dropped: &BTreeSet<StmtId>) -> BTreeSet<VarId> {
    let copies: BTreeSet<ExprId> = dropped.iter().flat_map(|stmt| kernel.stmts[*stmt].kind.values()).collect();
    let read = kernel.exprs.iter().filter(|(id, _)| !copies.contains(id));
    read.filter_map(|(_, expr)| expr.kind.variable()).collect()
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
    /// What constant each of those is, if one, once it has been asked.
    literals: RefCell<SecondaryMap<VarId, Option<Option<i64>>>>,
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
                // An instance without it leaves something generic, which no bound kernel has.
                self.instance.dtypes.get(param.index()).map_or(dtype, |dtype| DtypeRef::Is(*dtype))
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
                    let shape = shape.iter().map(|extent| self.extent(*extent)).collect();
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

    fn extent(&mut self, extent: Extent) -> Extent {
        match extent {
            Extent::Dim(dim) => Extent::Dim(dim),
            Extent::Fixed(expr) => Extent::Fixed(self.constant(expr, "a fixed extent")),
        }
    }

    fn launch_shape(&mut self) {
        for axis in &self.from.grid {
            let extent = self.inlined(axis.extent);
            self.to.grid.push(Axis { extent, ..axis.clone() });
        }
        for axis in &self.from.threads {
            let extent = self.constant(axis.extent, "a thread extent");
            self.to.threads.push(Axis { extent, ..axis.clone() });
        }
        self.to.swizzle = self.from.swizzle.map(|panel| self.inlined(panel));
        for &extent in &self.from.cluster {
            let extent = self.constant(extent, "an extent of a cluster");
            self.to.cluster.push(extent);
        }
    }

    /// Binds an expression that must be constant.
    fn constant(&mut self, expr: ExprId, what: &str) -> ExprId {
        let bound = self.inlined(expr);
        if self.to.const_index(bound).is_some() {
            return bound;
        }
        let span = self.from.exprs[expr].span;
        match self.waits(expr) {
            true => self.open = true,
            false => self.not_constant(span, what),
        }
        self.push(ExprKind::Int(1), Type::Index, span)
    }

    fn not_constant(&mut self, span: SpanId, what: &str) {
        let help = "use literals, const parameters, `T::BITS` and immutable `let`s of these";
        let message = format!("{what} must be a constant");
        self.diagnostics.push(Diagnostic::new(Code::NOT_CONSTANT, span, message).help(help));
    }

    /// An expression with the `let`s that it names written out.
    fn inlined(&mut self, expr: ExprId) -> ExprId {
        let inlining = std::mem::replace(&mut self.inlining, true);
        let bound = self.expr(expr);
        self.inlining = inlining;
        bound
    }

    /// The order of an eviction: its first case that holds.
    fn eviction(&mut self, eviction: &Eviction) -> Eviction {
        let always = |otherwise| Eviction { cases: Vec::new(), otherwise };
        for &(cond, order) in &eviction.cases {
            let bound = self.inlined(cond);
            match self.to.exprs[bound].kind {
                ExprKind::Bool(true) => return always(order),
                ExprKind::Bool(false) => {}
                _ if self.waits(cond) => self.open = true,
                _ => self.not_constant(self.from.exprs[cond].span, "what a copy's eviction depends on"),
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
            ExprKind::Load(_) => false,
            kind => {
                let mut any = false;
                kind.operands(self.from, &mut |operand| any |= self.specialized(operand));
                any
            }
        }
    }

    fn stages(&mut self, expr: ExprId) -> ExprId {
        let bound = self.constant(expr, "the number of stages");
        let stages = self.to.const_index(bound).unwrap_or(1);
        // Whether it does become a ring, `infer` knows.
        let copies = self
            .from
            .stmts
            .values()
            .any(|s| matches!(s.kind, StmtKind::Tile(TileOp::Gemm { .. } | TileOp::Copy { .. })));
        let most = if copies { MOST_SLOTS } else { MOST_STAGES };
        if !(1..=most).contains(&stages) {
            let span = self.from.exprs[expr].span;
            self.diagnostics.push(wrong_stages(span, most, stages));
        }
        bound
    }

    fn require(&mut self, require: &Require) {
        let cond = self.inlined(require.cond);
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
}
