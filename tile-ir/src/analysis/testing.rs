//! Kernels built by hand, for tests. Every statement has a line of its own, counted from 1.

use crate::ir::*;

/// A kernel being built, with one block axis per `blocks` and one thread axis per `threads`.
pub(crate) struct Build {
    pub k: Kernel,
    /// Bodies being built, innermost last.
    open: Vec<Vec<StmtId>>,
    line: u32,
    column: u32,
}

/// An expression.
pub(crate) type E = ExprId;

impl Build {
    pub fn new() -> Self {
        let mut k = Kernel { name: "k".into(), instances: vec![Instance::default()], ..Kernel::default() };
        k.targets = Target::ALL.to_vec();
        Build { k, open: vec![vec![]], line: 1, column: 0 }
    }

    pub fn done(mut self) -> Kernel {
        self.k.body = self.open.pop().unwrap();
        assert!(self.open.is_empty());
        assert_eq!(crate::verify::structure(&self.k), Ok(()));
        self.k
    }

    fn span(&mut self) -> SpanId {
        self.column += 1;
        let (line, column) = (self.line, self.column);
        self.k.spans.push(Span { line, column, end_line: line, end_column: column + 1, text: 0 })
    }

    pub fn expr(&mut self, kind: ExprKind, ty: Type) -> E {
        let span = self.span();
        self.k.exprs.push(Expr { kind, ty, span })
    }

    pub fn int(&mut self, value: i64) -> E {
        self.expr(ExprKind::Int(value), Type::Index)
    }

    pub fn float(&mut self, value: f64) -> E {
        self.expr(ExprKind::Float(value), Type::F32)
    }

    pub fn var(&mut self, var: VarId) -> E {
        let ty = self.k.vars[var].ty;
        self.expr(ExprKind::Var(var), ty)
    }

    pub fn dim_id(&mut self, name: &str) -> DimId {
        let known = self.k.dims.iter().find(|d| d.1.name == name).map(|d| d.0);
        let span = self.span();
        known.unwrap_or_else(|| self.k.dims.push(Dim { name: name.into(), span, value: None }))
    }

    pub fn dim(&mut self, name: &str) -> E {
        let dim = self.dim_id(name);
        self.expr(ExprKind::Dim(dim), Type::Index)
    }

    pub fn bin(&mut self, op: BinaryOp, a: E, b: E) -> E {
        let ty = match op {
            _ if op.is_comparison() => Type::BOOL,
            BinaryOp::And | BinaryOp::Or => Type::BOOL,
            _ => self.k.exprs[a].ty,
        };
        self.expr(ExprKind::Binary(op, a, b), ty)
    }

    pub fn add(&mut self, a: E, b: E) -> E {
        self.bin(BinaryOp::Add, a, b)
    }

    pub fn mul(&mut self, a: E, b: E) -> E {
        self.bin(BinaryOp::Mul, a, b)
    }

    pub fn lt(&mut self, a: E, b: E) -> E {
        self.bin(BinaryOp::Lt, a, b)
    }

    pub fn and(&mut self, a: E, b: E) -> E {
        self.bin(BinaryOp::And, a, b)
    }

    /// `a * x + b` for constants.
    pub fn affine(&mut self, a: i64, x: VarId, b: i64) -> E {
        let (a, x, b) = (self.int(a), self.var(x), self.int(b));
        let product = self.mul(a, x);
        self.add(product, b)
    }

    /// A tensor with extents that are dims (a name) or constants (a number).
    pub fn tensor(&mut self, name: &str, dtype: Dtype, extents: &[&str], mutable: bool) -> Place {
        let shape = extents
            .iter()
            .map(|e| match e.parse() {
                Ok(value) => Extent::Fixed(self.int(value)),
                Err(_) => Extent::Dim(self.dim_id(e)),
            })
            .collect();
        let kind = ParamKind::Tensor { dtype: dtype.into(), shape, mutable, optional: false };
        let span = self.span();
        Place::Tensor(self.k.params.push(Param { name: name.into(), kind, span }))
    }

    pub fn scalar(&mut self, name: &str, ty: Type) -> E {
        let span = self.span();
        let param = self.k.params.push(Param { name: name.into(), kind: ParamKind::Scalar { ty }, span });
        self.expr(ExprKind::Scalar(param), ty)
    }

    pub fn require(&mut self, cond: E, text: &str) {
        let span = self.span();
        self.k.requires.push(Require { cond, text: text.into(), span });
    }

    /// `require(dim % m == 0)`.
    pub fn require_multiple(&mut self, dim: &str, m: i64) {
        let (d, m_, zero) = (self.dim(dim), self.int(m), self.int(0));
        let rem = self.bin(BinaryOp::Rem, d, m_);
        let cond = self.bin(BinaryOp::Eq, rem, zero);
        self.require(cond, &format!("{dim} % {m} == 0"));
    }

    pub fn new_var(&mut self, name: &str, ty: Type, kind: VarKind) -> VarId {
        let span = self.span();
        self.k.vars.push(Var { name: name.into(), ty, kind, span })
    }

    pub fn blocks(&mut self, name: &str, extent: E) -> VarId {
        let at = self.k.grid.len() as u8;
        let var = self.new_var(name, Type::Index, VarKind::Block(at));
        let span = self.span();
        self.k.grid.push(Axis { var, extent, span });
        var
    }

    pub fn threads(&mut self, name: &str, extent: i64) -> VarId {
        let at = self.k.threads.len() as u8;
        let var = self.new_var(name, Type::Index, VarKind::Thread(at));
        let (span, extent) = (self.span(), self.int(extent));
        self.k.threads.push(Axis { var, extent, span });
        var
    }

    pub fn stmt(&mut self, kind: StmtKind) -> StmtId {
        let span = self.span();
        let stmt = self.k.stmts.push(Stmt { kind, span });
        self.open.last_mut().unwrap().push(stmt);
        self.line += 1;
        self.column = 0;
        stmt
    }

    pub fn alloc(&mut self, name: &str, scope: Scope, dtype: Dtype, extents: &[i64]) -> Place {
        let extents = extents.iter().map(|e| self.int(*e)).collect();
        let span = self.span();
        let buffer = self.k.buffers.push(Buffer {
            name: name.into(),
            scope,
            dtype: dtype.into(),
            extents,
            swizzle: SwizzleRequest::Auto,
            span,
        });
        self.stmt(StmtKind::Alloc { buffer });
        Place::Buffer(buffer)
    }

    pub fn shared(&mut self, name: &str, dtype: Dtype, extents: &[i64]) -> Place {
        self.alloc(name, Scope::Shared, dtype, extents)
    }

    pub fn local(&mut self, name: &str, dtype: Dtype, extents: &[i64]) -> Place {
        self.alloc(name, Scope::Local, dtype, extents)
    }

    pub fn access(&mut self, place: Place, indices: &[E], masked: bool) -> AccessId {
        let span = self.span();
        self.k.accesses.push(Access { place, indices: indices.to_vec(), masked, span })
    }

    pub fn load(&mut self, place: Place, indices: &[E]) -> E {
        let access = self.access(place, indices, false);
        let ty = Type::Value(self.k.place_dtype(place));
        self.expr(ExprKind::Load(access), ty)
    }

    pub fn masked(&mut self, place: Place, indices: &[E]) -> E {
        let access = self.access(place, indices, true);
        let ty = Type::Value(self.k.place_dtype(place));
        self.expr(ExprKind::Load(access), ty)
    }

    pub fn store(&mut self, place: Place, indices: &[E], value: E) -> AccessId {
        let access = self.access(place, indices, false);
        self.stmt(StmtKind::Store { access, value });
        access
    }

    /// `clear(&mut array)`.
    pub fn clear(&mut self, array: Place) -> StmtId {
        let Place::Buffer(buffer) = array else { unreachable!("a tensor is not cleared") };
        let value = self.float(0.0);
        self.stmt(StmtKind::Fill { buffer, value })
    }

    pub fn let_(&mut self, name: &str, value: E) -> VarId {
        let var = self.new_var(name, self.k.exprs[value].ty, VarKind::Let);
        self.stmt(StmtKind::Let { var, value: Some(value) });
        var
    }

    pub fn let_mut(&mut self, name: &str, value: E) -> VarId {
        let var = self.new_var(name, self.k.exprs[value].ty, VarKind::Mut);
        self.stmt(StmtKind::Let { var, value: Some(value) });
        var
    }

    pub fn assign(&mut self, var: VarId, value: E) {
        self.stmt(StmtKind::Assign { var, value });
    }

    pub fn sync(&mut self) -> StmtId {
        self.stmt(StmtKind::SyncThreads)
    }

    pub fn if_(&mut self, cond: E, then: impl FnOnce(&mut Self)) -> StmtId {
        self.if_else(cond, then, |_| {})
    }

    pub fn if_else(&mut self, cond: E, then: impl FnOnce(&mut Self), other: impl FnOnce(&mut Self)) -> StmtId {
        let head = self.line;
        self.line += 1;
        self.column = 0;
        self.open.push(vec![]);
        then(self);
        let then = self.open.pop().unwrap();
        self.open.push(vec![]);
        other(self);
        let otherwise = self.open.pop().unwrap();
        self.placed(head, StmtKind::If { cond, then, otherwise })
    }

    fn placed(&mut self, head: u32, kind: StmtKind) -> StmtId {
        let span = self.k.spans.push(Span { line: head, column: 1, end_line: head, end_column: 2, text: 0 });
        let stmt = self.k.stmts.push(Stmt { kind, span });
        self.open.last_mut().unwrap().push(stmt);
        stmt
    }

    pub fn for_(&mut self, name: &str, start: E, end: E, kind: LoopKind, f: impl FnOnce(&mut Self, VarId)) -> StmtId {
        let var = self.new_var(name, Type::Index, VarKind::Loop);
        let step = self.int(1);
        let head = self.line;
        self.line += 1;
        self.column = 0;
        self.open.push(vec![]);
        f(self, var);
        let body = self.open.pop().unwrap();
        self.placed(head, StmtKind::For { var, start, end, step, kind, body })
    }

    pub fn serial(&mut self, name: &str, end: E, f: impl FnOnce(&mut Self, VarId)) -> StmtId {
        let zero = self.int(0);
        self.for_(name, zero, end, LoopKind::Serial { unroll: None }, f)
    }

    pub fn vectorized(&mut self, name: &str, width: i64, f: impl FnOnce(&mut Self, VarId)) -> StmtId {
        let (zero, end) = (self.int(0), self.int(width));
        self.for_(name, zero, end, LoopKind::Vectorized, f)
    }

    pub fn parallel(&mut self, name: &str, extent: i64, f: impl FnOnce(&mut Self, VarId)) -> StmtId {
        let var = self.new_var(name, Type::Index, VarKind::Loop);
        let extents = vec![self.int(extent)];
        let head = self.line;
        self.line += 1;
        self.open.push(vec![]);
        f(self, var);
        let body = self.open.pop().unwrap();
        self.placed(head, StmtKind::Parallel { vars: vec![var], extents, body })
    }

    pub fn allreduce(&mut self, name: &str, value: E, axis: VarId) -> VarId {
        let dst = self.new_var(name, self.k.exprs[value].ty, VarKind::Let);
        let src = ReduceSource::Value(value);
        self.stmt(StmtKind::Reduce { op: ReduceOp::Sum, src, dst: Some(dst), axis: Some(axis) });
        dst
    }

    /// A tile that starts at `start`, with extents from the other side.
    pub fn tile(&mut self, place: Place, start: &[E]) -> TileRef {
        TileRef { place, start: start.to_vec(), extents: vec![], transposed: false, span: self.span() }
    }
}

/// One line a diagnostic: code, message, what is at the place, help.
pub(crate) fn report(diagnostics: &[crate::diag::Diagnostic]) -> String {
    let mut text = String::new();
    for d in diagnostics {
        text += &format!("[{}] {}\n", d.code, d.message);
        if !d.at.is_empty() {
            text += &format!("  at: {}\n", d.at);
        }
        for (_, label) in &d.labels {
            text += &format!("  label: {label}\n");
        }
        for note in &d.notes {
            text += &format!("  note: {note}\n");
        }
        if let Some(help) = &d.help {
            text += &format!("  help: {help}\n");
        }
    }
    text
}
