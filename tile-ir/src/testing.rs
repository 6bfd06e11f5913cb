//! A builder of bound kernels, for tests: what `bind` would make of a kernel, written by hand; and the oracle of index
//! arithmetic, which the soak runs.
#![cfg_attr(not(test), allow(dead_code))]

pub mod indices;
pub mod text;

use crate::ir::*;

/// A kernel under construction.
#[derive(Default)]
pub(crate) struct Builder {
    pub(crate) kernel: Kernel,
    blocks: Vec<Vec<StmtId>>,
}

/// The kernel that `build` describes.
pub(crate) fn kernel(name: &str, build: impl FnOnce(&mut Builder)) -> Kernel {
    let mut b = Builder { kernel: Kernel { name: name.into(), ..Kernel::default() }, blocks: vec![vec![]] };
    // Span 0 is nowhere in particular.
    b.kernel.spans.push(Span::default());
    build(&mut b);
    b.kernel.instances = vec![Instance::default()];
    b.kernel.body = b.blocks.pop().unwrap_or_default();
    b.kernel
}

/// The kernel of a text, which the test wrote.
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) fn parsed(text: &str) -> Kernel {
    crate::text::parse_kernel(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The span of everything built by hand.
fn nowhere() -> SpanId {
    SpanId::from_u32(0)
}

#[allow(dead_code)]
impl Builder {
    pub(crate) fn dim(&mut self, name: &str) -> ExprId {
        let dim = self.kernel.dims.push(Dim { name: name.into(), span: nowhere(), value: None });
        self.expr(ExprKind::Dim(dim), Type::Index)
    }

    /// A tensor whose extents are dims or literals.
    pub(crate) fn tensor(&mut self, name: &str, dtype: Dtype, shape: &[ExprId]) -> Place {
        self.parameter(name, dtype, shape, false)
    }

    pub(crate) fn tensor_mut(&mut self, name: &str, dtype: Dtype, shape: &[ExprId]) -> Place {
        self.parameter(name, dtype, shape, true)
    }

    fn parameter(&mut self, name: &str, dtype: Dtype, shape: &[ExprId], mutable: bool) -> Place {
        let extent = |e: &ExprId| match self.kernel.exprs[*e].kind {
            ExprKind::Dim(dim) => Extent::Dim(dim),
            _ => Extent::Fixed(*e),
        };
        let kind = ParamKind::Tensor {
            dtype: dtype.into(),
            shape: shape.iter().map(extent).collect(),
            mutable,
            optional: false,
        };
        Place::Tensor(self.kernel.params.push(Param { name: name.into(), kind, span: nowhere() }))
    }

    pub(crate) fn scalar(&mut self, name: &str, ty: impl Into<Type>) -> ExprId {
        let ty = ty.into();
        let param =
            self.kernel.params.push(Param { name: name.into(), kind: ParamKind::Scalar { ty }, span: nowhere() });
        self.expr(ExprKind::Scalar(param), ty)
    }

    fn axis(&mut self, name: &str, kind: VarKind, extent: ExprId) -> (Axis, ExprId) {
        let (var, value) = self.declare(name, Type::Index, kind);
        (Axis { var, extent, span: nowhere() }, value)
    }

    /// `let [names..] = blocks([extents..])`
    pub(crate) fn blocks<const N: usize>(&mut self, axes: [(&str, ExprId); N]) -> [ExprId; N] {
        let mut index = 0;
        axes.map(|(name, extent)| {
            let (axis, value) = self.axis(name, VarKind::Block(index), extent);
            index += 1;
            self.kernel.grid.push(axis);
            value
        })
    }

    /// `let [names..] = threads([extents..])`
    pub(crate) fn threads<const N: usize>(&mut self, axes: [(&str, i64); N]) -> [ExprId; N] {
        let mut index = 0;
        axes.map(|(name, extent)| {
            let extent = self.int(extent);
            let (axis, value) = self.axis(name, VarKind::Thread(index), extent);
            index += 1;
            self.kernel.threads.push(axis);
            value
        })
    }

    /// `for [names..] in persistent([extents..])`
    pub(crate) fn persistent<const N: usize>(
        &mut self,
        axes: [(&str, ExprId); N],
        body: impl FnOnce(&mut Builder, [ExprId; N]),
    ) {
        let extents = axes.iter().map(|(_, extent)| *extent).collect();
        let declared = axes.map(|(name, _)| self.declare(name, Type::Index, VarKind::Loop));
        let body = self.nested(|b| body(b, declared.map(|(_, index)| index)));
        let vars = declared.iter().map(|(var, _)| *var).collect();
        self.stmt(StmtKind::Persistent { vars, extents, per_sm: None, contiguous: false, body });
    }

    pub(crate) fn buffer(&mut self, name: &str, scope: Scope, dtype: Dtype, extents: &[i64]) -> Place {
        let extents = extents.iter().map(|e| self.int(*e)).collect();
        let buffer = Buffer {
            name: name.into(),
            scope,
            dtype: dtype.into(),
            extents,
            swizzle: SwizzleRequest::Auto,
            span: nowhere(),
        };
        let buffer = self.kernel.buffers.push(buffer);
        self.stmt(StmtKind::Alloc { buffer });
        Place::Buffer(buffer)
    }

    pub(crate) fn expr(&mut self, kind: ExprKind, ty: Type) -> ExprId {
        self.kernel.exprs.push(Expr { kind, ty, span: nowhere() })
    }

    pub(crate) fn ty(&self, expr: ExprId) -> Type {
        self.kernel.exprs[expr].ty
    }

    pub(crate) fn int(&mut self, value: i64) -> ExprId {
        self.expr(ExprKind::Int(value), Type::Index)
    }

    pub(crate) fn int_of(&mut self, dtype: Dtype, value: i64) -> ExprId {
        self.expr(ExprKind::Int(value), dtype.into())
    }

    pub(crate) fn float(&mut self, dtype: Dtype, value: f64) -> ExprId {
        self.expr(ExprKind::Float(value), dtype.into())
    }

    pub(crate) fn binary(&mut self, op: BinaryOp, a: ExprId, b: ExprId) -> ExprId {
        let ty = if op.is_comparison() { Type::BOOL } else { self.ty(a) };
        self.expr(ExprKind::Binary(op, a, b), ty)
    }

    pub(crate) fn add(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinaryOp::Add, a, b)
    }

    pub(crate) fn mul(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinaryOp::Mul, a, b)
    }

    /// `a * n + b`
    pub(crate) fn scaled(&mut self, a: ExprId, n: i64, b: ExprId) -> ExprId {
        let n = self.int(n);
        let product = self.mul(a, n);
        self.add(product, b)
    }

    pub(crate) fn lt(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinaryOp::Lt, a, b)
    }

    pub(crate) fn eq(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinaryOp::Eq, a, b)
    }

    pub(crate) fn unary(&mut self, op: UnaryOp, a: ExprId) -> ExprId {
        let ty = self.ty(a);
        self.expr(ExprKind::Unary(op, a), ty)
    }

    pub(crate) fn math(&mut self, function: MathFn, args: &[ExprId]) -> ExprId {
        let ty = self.ty(args[0]);
        self.expr(ExprKind::Math(function, args.to_vec()), ty)
    }

    pub(crate) fn cast(&mut self, to: impl Into<Type>, a: ExprId) -> ExprId {
        let ty = to.into();
        self.expr(ExprKind::Cast(ty, a), ty)
    }

    pub(crate) fn lazy_if(&mut self, cond: ExprId, a: ExprId, b: ExprId) -> ExprId {
        let ty = self.ty(a);
        self.expr(ExprKind::If(cond, a, b), ty)
    }

    pub(crate) fn select(&mut self, cond: ExprId, a: ExprId, b: ExprId) -> ExprId {
        let ty = self.ty(a);
        self.expr(ExprKind::Select(cond, a, b), ty)
    }

    pub(crate) fn access(&mut self, place: Place, indices: &[ExprId], masked: bool) -> AccessId {
        self.kernel.accesses.push(Access { place, indices: indices.to_vec(), masked, span: nowhere() })
    }

    pub(crate) fn load(&mut self, place: Place, indices: &[ExprId]) -> ExprId {
        let access = self.access(place, indices, false);
        let ty = Type::Value(self.kernel.place_dtype(place));
        self.expr(ExprKind::Load(access), ty)
    }

    pub(crate) fn masked(&mut self, place: Place, indices: &[ExprId]) -> ExprId {
        let access = self.access(place, indices, true);
        let ty = Type::Value(self.kernel.place_dtype(place));
        self.expr(ExprKind::Load(access), ty)
    }

    pub(crate) fn stmt(&mut self, kind: StmtKind) {
        let stmt = self.kernel.stmts.push(Stmt { kind, span: nowhere() });
        if let Some(block) = self.blocks.last_mut() {
            block.push(stmt);
        }
    }

    /// A name for an index.
    pub(crate) fn declared(&mut self, name: &str, kind: VarKind) -> (VarId, ExprId) {
        self.declare(name, Type::Index, kind)
    }

    /// Statements from here on are those of a body.
    pub(crate) fn enter(&mut self) {
        self.blocks.push(vec![]);
    }

    /// The statements of the body.
    pub(crate) fn leave(&mut self) -> Vec<StmtId> {
        self.blocks.pop().unwrap_or_default()
    }

    fn declare(&mut self, name: &str, ty: Type, kind: VarKind) -> (VarId, ExprId) {
        let var = self.kernel.vars.push(Var { name: name.into(), ty, kind, span: nowhere() });
        (var, self.expr(ExprKind::Var(var), ty))
    }

    /// The variable that an expression names.
    pub(crate) fn var_of(&self, expr: ExprId) -> VarId {
        match self.kernel.exprs[expr].kind {
            ExprKind::Var(var) => var,
            ref other => panic!("{other:?} is not a variable"),
        }
    }

    pub(crate) fn bind(&mut self, name: &str, value: ExprId) -> ExprId {
        let (var, expr) = self.declare(name, self.ty(value), VarKind::Let);
        self.stmt(StmtKind::Let { var, value: Some(value) });
        expr
    }

    pub(crate) fn bind_mut(&mut self, name: &str, value: ExprId) -> ExprId {
        let (var, expr) = self.declare(name, self.ty(value), VarKind::Mut);
        self.stmt(StmtKind::Let { var, value: Some(value) });
        expr
    }

    pub(crate) fn assign(&mut self, var: ExprId, value: ExprId) {
        let var = self.var_of(var);
        self.stmt(StmtKind::Assign { var, value });
    }

    /// A variable that a collective gives its value.
    pub(crate) fn result(&mut self, name: &str, ty: impl Into<Type>) -> (VarId, ExprId) {
        self.declare(name, ty.into(), VarKind::Let)
    }

    pub(crate) fn store(&mut self, place: Place, indices: &[ExprId], value: ExprId) {
        let access = self.access(place, indices, false);
        self.stmt(StmtKind::Store { access, value });
    }

    pub(crate) fn store_masked(&mut self, place: Place, indices: &[ExprId], value: ExprId) {
        let access = self.access(place, indices, true);
        self.stmt(StmtKind::Store { access, value });
    }

    fn nested(&mut self, build: impl FnOnce(&mut Builder)) -> Vec<StmtId> {
        self.blocks.push(vec![]);
        build(self);
        self.blocks.pop().unwrap_or_default()
    }

    pub(crate) fn when(&mut self, cond: ExprId, then: impl FnOnce(&mut Builder)) {
        self.branch(cond, then, |_| {});
    }

    pub(crate) fn branch(
        &mut self,
        cond: ExprId,
        then: impl FnOnce(&mut Builder),
        otherwise: impl FnOnce(&mut Builder),
    ) {
        let (then, otherwise) = (self.nested(then), self.nested(otherwise));
        self.stmt(StmtKind::If { cond, then, otherwise });
    }

    pub(crate) fn for_each(
        &mut self,
        name: &str,
        kind: LoopKind,
        bounds: [ExprId; 3],
        body: impl FnOnce(&mut Builder, ExprId),
    ) {
        let (var, index) = self.declare(name, Type::Index, VarKind::Loop);
        let body = self.nested(|b| body(b, index));
        let [start, end, step] = bounds;
        self.stmt(StmtKind::For { var, start, end, step, kind, body });
    }

    /// `for name in 0..end`
    pub(crate) fn range(&mut self, name: &str, end: ExprId, body: impl FnOnce(&mut Builder, ExprId)) {
        let bounds = [self.int(0), end, self.int(1)];
        self.for_each(name, LoopKind::Serial { unroll: None }, bounds, body);
    }

    pub(crate) fn parallel(&mut self, axes: &[(&str, ExprId)], body: impl FnOnce(&mut Builder, &[ExprId])) {
        let declared: Vec<_> = axes.iter().map(|(name, _)| self.declare(name, Type::Index, VarKind::Loop)).collect();
        let (vars, indices): (Vec<_>, Vec<_>) = declared.into_iter().unzip();
        let body = self.nested(|b| body(b, &indices));
        self.stmt(StmtKind::Parallel { vars, extents: axes.iter().map(|(_, e)| *e).collect(), body });
    }

    /// A tile: `place.at(start)`, `place.tile(start, extents)`, or the whole place.
    pub(crate) fn tile(&self, place: Place, start: &[ExprId], extents: &[ExprId]) -> TileRef {
        TileRef { place, start: start.to_vec(), extents: extents.to_vec(), transposed: false, span: nowhere() }
    }

    pub(crate) fn copy(&mut self, src: TileRef, dst: TileRef) {
        self.stmt(StmtKind::Copy { src, dst, width: None, tma: true, evict: None });
    }

    /// `thread_allreduce(op, value, axis)`, or `warp_reduce` without an axis.
    pub(crate) fn reduce(&mut self, name: &str, op: ReduceOp, value: ExprId, axis: Option<ExprId>) -> ExprId {
        let (dst, result) = self.result(name, self.ty(value));
        let axis = axis.map(|a| self.var_of(a));
        self.stmt(StmtKind::Reduce { op, src: ReduceSource::Value(value), dst: Some(dst), axis });
        result
    }
}

/// The vectorised GEMV of the language's description, bound: `rows` rows a block, a vector of 16 bytes a transaction.
pub(crate) fn gemv(dtype: Dtype, rows: i64) -> Kernel {
    let vec = 128 / i64::from(dtype.bits());
    let step = 32 * vec;
    parsed(&format!(
        "#[require(K % {vec} == 0)]
        kernel gemv_{dtype}_{rows}(x: &Tensor<{dtype}, (K,)>, w: &Tensor<{dtype}, (N, K)>, y: &mut Tensor<{dtype}, (N,)>) {{
            let [bn] = blocks([ceil_div(N, {rows})]);
            let [tk, tn] = threads([32, {rows}]);
            let row = bn * {rows} + tn;
            let mut acc = 0.0f32;
            let mut xs = alloc_local::<{dtype}>([{vec}]);
            let mut ws = alloc_local::<{dtype}>([{vec}]);
            for bk in 0..ceil_div(K, {step}) {{
                for v in vectorized(0..{vec}) {{
                    xs[v] = x.masked([bk * {step} + (tk * {vec} + v)]);
                    ws[v] = w.masked([row, bk * {step} + (tk * {vec} + v)]);
                }}
                for v in unroll(0..{vec}) {{
                    acc = fma(xs[v].cast::<f32>(), ws[v].cast::<f32>(), acc);
                }}
            }}
            let sum = thread_allreduce(Sum, acc, tk);
            if tk == 0 && row < N {{
                y[row] = sum.cast::<{dtype}>();
            }}
        }}"
    ))
}
