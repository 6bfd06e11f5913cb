//! A kernel built by hand:
//!
//! ```text
//! #[tile_kernel(instances(W in [32, 64]), dtypes(T in [f32, f16]), require(K % 8 == 0), require(n <= N))]
//! fn scale<T, const W: usize>(x: &Tensor<T, (N, K)>, v: &Tensor<f32, (K,)>, y: &mut Tensor<T, (N, K)>, alpha: f32, n: usize) {
//!     let [bn] = blocks([N]);
//!     let [tk] = threads([W]);
//!     for k in (0..K).step_by(W) {
//!         if k + tk < K && bn < n { y[bn, k + tk] = (x[bn, k + tk].cast::<f32>() * v[k + tk] * alpha).cast::<T>(); }
//!     }
//! }
//! ```

use super::super::Definition;
use std::sync::OnceLock;
use tile_ir::codec;
use tile_ir::ir::*;

/// How many instances it declares.
pub const INSTANCES: usize = 4;

/// The kernel.
pub fn definition() -> &'static Definition {
    static DEFINITION: OnceLock<Definition> = OnceLock::new();
    DEFINITION.get_or_init(|| Definition::new("scale", codec::encode(&kernel()).leak()))
}

struct Build {
    kernel: Kernel,
    line: u32,
}

impl Build {
    fn span(&mut self) -> SpanId {
        let (line, column) = (self.line, 5);
        self.kernel.spans.push(Span { line, column, end_line: line, end_column: column + 1, text: 0 })
    }

    fn e(&mut self, kind: ExprKind, ty: impl Into<Type>) -> ExprId {
        let span = self.span();
        self.kernel.exprs.push(Expr { kind, ty: ty.into(), span })
    }

    fn index(&mut self, kind: ExprKind) -> ExprId {
        self.e(kind, Type::Index)
    }

    fn int(&mut self, value: i64) -> ExprId {
        self.index(ExprKind::Int(value))
    }

    fn binary(&mut self, op: BinaryOp, a: ExprId, b: ExprId) -> ExprId {
        let logical = op.is_comparison() || matches!(op, BinaryOp::And | BinaryOp::Or);
        let ty = if logical { Type::BOOL } else { self.kernel.exprs[a].ty };
        self.e(ExprKind::Binary(op, a, b), ty)
    }

    fn var(&mut self, name: &str, kind: VarKind) -> VarId {
        let span = self.span();
        self.kernel.vars.push(Var { name: name.into(), ty: Type::Index, kind, span })
    }

    fn access(&mut self, param: ParamId, indices: Vec<ExprId>) -> AccessId {
        let span = self.span();
        self.kernel.accesses.push(Access { place: Place::Tensor(param), indices, masked: false, span })
    }

    fn stmt(&mut self, kind: StmtKind) -> StmtId {
        let span = self.span();
        self.kernel.stmts.push(Stmt { kind, span })
    }
}

fn kernel() -> Kernel {
    let source =
        Source { file: "scale.rs".into(), first_line: 1, lines: vec!["// scale".into(); 12], functions: vec![] };
    let mut b = Build { kernel: Kernel { name: "scale".into(), source, ..Kernel::default() }, line: 1 };
    let at = b.span();
    let t = b.kernel.type_params.push(TypeParam { name: "T".into(), allowed: vec![Dtype::F32, Dtype::F16], span: at });
    let w = b.kernel.consts.push(ConstParam { name: "W".into(), kind: ConstKind::Usize, span: at });
    let n = b.kernel.dims.push(Dim { name: "N".into(), span: at, value: None });
    let k = b.kernel.dims.push(Dim { name: "K".into(), span: at, value: None });
    let element = DtypeRef::Param(t);
    let matrix = vec![Extent::Dim(n), Extent::Dim(k)];
    let mut param = |name: &str, kind| b.kernel.params.push(Param { name: name.into(), kind, span: at });
    let x = param("x", ParamKind::Tensor { dtype: element, shape: matrix.clone(), mutable: false, optional: false });
    let f32_ = DtypeRef::Is(Dtype::F32);
    let v = param("v", ParamKind::Tensor { dtype: f32_, shape: vec![Extent::Dim(k)], mutable: false, optional: false });
    let y = param("y", ParamKind::Tensor { dtype: element, shape: matrix, mutable: true, optional: false });
    let alpha = param("alpha", ParamKind::Scalar { ty: Type::F32 });
    let count = param("n", ParamKind::Scalar { ty: Type::Index });
    for dtype in [Dtype::F32, Dtype::F16] {
        for width in [32, 64] {
            b.kernel.instances.push(Instance {
                dtypes: vec![dtype],
                consts: vec![width],
                dims: vec![],
                absent: vec![],
                class: Class::WIDEST,
            });
        }
    }

    b.line = 2;
    let (dim_k, eight) = (b.index(ExprKind::Dim(k)), b.int(8));
    let (rest, zero) = (b.binary(BinaryOp::Rem, dim_k, eight), b.int(0));
    let cond = b.binary(BinaryOp::Eq, rest, zero);
    let span = b.span();
    b.kernel.requires.push(Require { cond, text: "K % 8 == 0".into(), span });
    b.line = 3;
    let (scalar_n, dim_n) = (b.index(ExprKind::Scalar(count)), b.index(ExprKind::Dim(n)));
    let cond = b.binary(BinaryOp::Le, scalar_n, dim_n);
    let span = b.span();
    b.kernel.requires.push(Require { cond, text: "n <= N".into(), span });

    b.line = 5;
    let bn = b.var("bn", VarKind::Block(0));
    let tk = b.var("tk", VarKind::Thread(0));
    let (blocks, threads) = (b.index(ExprKind::Dim(n)), b.index(ExprKind::Const(w)));
    let span = b.span();
    b.kernel.grid.push(Axis { var: bn, extent: blocks, span });
    b.kernel.threads.push(Axis { var: tk, extent: threads, span });

    b.line = 7;
    let index = b.var("k", VarKind::Loop);
    let (start, end, step) = (b.int(0), b.index(ExprKind::Dim(k)), b.index(ExprKind::Const(w)));
    b.line = 8;
    let row = |b: &mut Build| b.index(ExprKind::Var(bn));
    let column = |b: &mut Build| {
        let (k, t) = (b.index(ExprKind::Var(index)), b.index(ExprKind::Var(tk)));
        b.binary(BinaryOp::Add, k, t)
    };
    let (c, end_k) = (column(&mut b), b.index(ExprKind::Dim(k)));
    let inside = b.binary(BinaryOp::Lt, c, end_k);
    let (r, count) = (row(&mut b), b.index(ExprKind::Scalar(count)));
    let counted = b.binary(BinaryOp::Lt, r, count);
    let cond = b.binary(BinaryOp::And, inside, counted);
    let place = vec![row(&mut b), column(&mut b)];
    let from = b.access(x, place);
    let loaded = b.e(ExprKind::Load(from), Type::Value(element));
    let wide = b.e(ExprKind::Cast(Type::F32, loaded), Dtype::F32);
    let place = vec![column(&mut b)];
    let factor = b.access(v, place);
    let factor = b.e(ExprKind::Load(factor), Dtype::F32);
    let product = b.binary(BinaryOp::Mul, wide, factor);
    let alpha = b.e(ExprKind::Scalar(alpha), Dtype::F32);
    let product = b.binary(BinaryOp::Mul, product, alpha);
    let value = b.e(ExprKind::Cast(Type::Value(element), product), Type::Value(element));
    let place = vec![row(&mut b), column(&mut b)];
    let access = b.access(y, place);
    let store = b.stmt(StmtKind::Store { access, value });
    let guarded = b.stmt(StmtKind::If { cond, then: vec![store], otherwise: vec![] });
    let kind = LoopKind::Serial { unroll: None };
    let all = b.stmt(StmtKind::For { var: index, start, end, step, kind, body: vec![guarded] });
    b.kernel.body.push(all);
    b.kernel
}
