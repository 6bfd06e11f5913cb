//! What random kernels are built with: the IR itself, since what is drawn is expressions, not text.

use crate::ir::*;

/// A kernel under construction.
#[derive(Default)]
pub(super) struct Builder {
    pub(super) kernel: Kernel,
    blocks: Vec<Vec<StmtId>>,
}

/// The kernel that `build` describes.
pub(super) fn kernel(name: &str, build: impl FnOnce(&mut Builder)) -> Kernel {
    let mut b = Builder { kernel: Kernel { name: name.into(), ..Kernel::default() }, blocks: vec![vec![]] };
    // Span 0 is nowhere in particular.
    b.kernel.spans.push(Span::default());
    build(&mut b);
    b.kernel.instances = vec![Instance::default()];
    b.kernel.body = b.blocks.pop().unwrap_or_default();
    b.kernel
}

/// The span of everything built by hand.
fn nowhere() -> SpanId {
    SpanId::from_u32(0)
}

impl Builder {
    pub(super) fn dim(&mut self, name: &str) -> ExprId {
        let dim = self.kernel.dims.push(Dim { name: name.into(), span: nowhere(), value: None });
        self.expr(ExprKind::Dim(dim), Type::Index)
    }

    /// A tensor whose extents are dims or literals.
    pub(super) fn tensor(&mut self, name: &str, dtype: Dtype, shape: &[ExprId]) -> Place {
        self.parameter(name, dtype, shape, false)
    }

    pub(super) fn tensor_mut(&mut self, name: &str, dtype: Dtype, shape: &[ExprId]) -> Place {
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

    pub(super) fn scalar(&mut self, name: &str, ty: impl Into<Type>) -> ExprId {
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
    pub(super) fn blocks<const N: usize>(&mut self, axes: [(&str, ExprId); N]) -> [ExprId; N] {
        let mut index = 0;
        axes.map(|(name, extent)| {
            let (axis, value) = self.axis(name, VarKind::Block(index), extent);
            index += 1;
            self.kernel.grid.push(axis);
            value
        })
    }

    /// `let [names..] = threads([extents..])`
    pub(super) fn threads<const N: usize>(&mut self, axes: [(&str, i64); N]) -> [ExprId; N] {
        let mut index = 0;
        axes.map(|(name, extent)| {
            let extent = self.int(extent);
            let (axis, value) = self.axis(name, VarKind::Thread(index), extent);
            index += 1;
            self.kernel.threads.push(axis);
            value
        })
    }

    pub(super) fn expr(&mut self, kind: ExprKind, ty: Type) -> ExprId {
        self.kernel.exprs.push(Expr { kind, ty, span: nowhere() })
    }

    pub(super) fn ty(&self, expr: ExprId) -> Type {
        self.kernel.exprs[expr].ty
    }

    pub(super) fn int(&mut self, value: i64) -> ExprId {
        self.expr(ExprKind::Int(value), Type::Index)
    }

    pub(super) fn int_of(&mut self, dtype: Dtype, value: i64) -> ExprId {
        self.expr(ExprKind::Int(value), dtype.into())
    }

    pub(super) fn binary(&mut self, op: BinaryOp, a: ExprId, b: ExprId) -> ExprId {
        let ty = if op.is_comparison() { Type::BOOL } else { self.ty(a) };
        self.expr(ExprKind::Binary(op, a, b), ty)
    }

    pub(super) fn lt(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinaryOp::Lt, a, b)
    }

    pub(super) fn cast(&mut self, to: impl Into<Type>, a: ExprId) -> ExprId {
        let ty = to.into();
        self.expr(ExprKind::Cast(ty, a), ty)
    }

    pub(super) fn lazy_if(&mut self, cond: ExprId, a: ExprId, b: ExprId) -> ExprId {
        let ty = self.ty(a);
        self.expr(ExprKind::If(cond, a, b), ty)
    }

    pub(super) fn select(&mut self, cond: ExprId, a: ExprId, b: ExprId) -> ExprId {
        let ty = self.ty(a);
        self.expr(ExprKind::Select(cond, a, b), ty)
    }

    pub(super) fn access(&mut self, place: Place, indices: &[ExprId], masked: bool) -> AccessId {
        self.kernel.accesses.push(Access { place, indices: indices.to_vec(), masked, span: nowhere() })
    }

    pub(super) fn load(&mut self, place: Place, indices: &[ExprId]) -> ExprId {
        let access = self.access(place, indices, false);
        let ty = Type::Value(self.kernel.place_dtype(place));
        self.expr(ExprKind::Load(access), ty)
    }

    pub(super) fn masked(&mut self, place: Place, indices: &[ExprId]) -> ExprId {
        let access = self.access(place, indices, true);
        let ty = Type::Value(self.kernel.place_dtype(place));
        self.expr(ExprKind::Load(access), ty)
    }

    pub(super) fn stmt(&mut self, kind: StmtKind) {
        let stmt = self.kernel.stmts.push(Stmt { kind, span: nowhere() });
        if let Some(block) = self.blocks.last_mut() {
            block.push(stmt);
        }
    }

    /// A name for an index.
    pub(super) fn declared(&mut self, name: &str, kind: VarKind) -> (VarId, ExprId) {
        self.declare(name, Type::Index, kind)
    }

    /// Statements from here on are those of a body.
    pub(super) fn enter(&mut self) {
        self.blocks.push(vec![]);
    }

    /// The statements of the body.
    pub(super) fn leave(&mut self) -> Vec<StmtId> {
        self.blocks.pop().unwrap_or_default()
    }

    fn declare(&mut self, name: &str, ty: Type, kind: VarKind) -> (VarId, ExprId) {
        let var = self.kernel.vars.push(Var { name: name.into(), ty, kind, span: nowhere() });
        (var, self.expr(ExprKind::Var(var), ty))
    }

    /// The variable that an expression names.
    pub(super) fn var_of(&self, expr: ExprId) -> VarId {
        match self.kernel.exprs[expr].kind {
            ExprKind::Var(var) => var,
            ref other => panic!("{other:?} is not a variable"),
        }
    }

    pub(super) fn bind(&mut self, name: &str, value: ExprId) -> ExprId {
        let (var, expr) = self.declare(name, self.ty(value), VarKind::Let);
        self.stmt(StmtKind::Let { var, value: Some(value) });
        expr
    }

    pub(super) fn bind_mut(&mut self, name: &str, value: ExprId) -> ExprId {
        let (var, expr) = self.declare(name, self.ty(value), VarKind::Mut);
        self.stmt(StmtKind::Let { var, value: Some(value) });
        expr
    }

    pub(super) fn assign(&mut self, var: ExprId, value: ExprId) {
        let var = self.var_of(var);
        self.stmt(StmtKind::Assign { var, value });
    }

    fn nested(&mut self, build: impl FnOnce(&mut Builder)) -> Vec<StmtId> {
        self.blocks.push(vec![]);
        build(self);
        self.blocks.pop().unwrap_or_default()
    }

    pub(super) fn when(&mut self, cond: ExprId, then: impl FnOnce(&mut Builder)) {
        self.branch(cond, then, |_| {});
    }

    pub(super) fn branch(
        &mut self,
        cond: ExprId,
        then: impl FnOnce(&mut Builder),
        otherwise: impl FnOnce(&mut Builder),
    ) {
        let (then, otherwise) = (self.nested(then), self.nested(otherwise));
        self.stmt(StmtKind::If { cond, then, otherwise });
    }
}
