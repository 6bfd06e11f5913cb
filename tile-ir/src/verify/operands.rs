//! Operands of arithmetic, reductions, atomics, exchanges, copies and prints.

use crate::diag::{Code, Diagnostic};
use crate::ir::parts::each;
use crate::ir::{
    AccessId, AtomicOp, Dtype, DtypeRef, ExprId, ExprKind, Kernel, Place, ReduceSource, Scope, SpanId, StmtId,
    StmtKind, TileOp, TileRef, Type, UnaryOp, VarId, VarKind,
};
use crate::lowered::MESSAGE_ARGS;

pub(super) fn check(kernel: &Kernel, all: &mut Vec<Diagnostic>) {
    each(kernel, &kernel.body, &mut |stmt| statement(kernel, stmt, all));
    arithmetic(kernel, all);
}

/// Numbers that are for storage are not computed with, nor are values of a parameter that may be one.
fn arithmetic(kernel: &Kernel, all: &mut Vec<Diagnostic>) {
    for expr in kernel.exprs.values() {
        let (what, operand) = match &expr.kind {
            ExprKind::Unary(UnaryOp::Neg, x) => ("-", *x),
            ExprKind::Unary(UnaryOp::Not, x) => ("!", *x),
            ExprKind::Binary(op, x, _) if !op.is_comparison() => (op.symbol(), *x),
            ExprKind::Math(function, args) if !args.is_empty() => (function.name(), args[0]),
            _ => continue,
        };
        let operand = kernel.exprs.get(operand).map(|e| dtypes(kernel, e.ty)).unwrap_or_default();
        if let Some(dtype) = operand.into_iter().flatten().find(|d| d.is_number() && !d.has_arithmetic()) {
            let message = format!("`{what}` of {dtype}, which is for storage and has no arithmetic");
            all.push(Diagnostic::new(Code::DTYPE, expr.span, message).help("cast to u32 or f32 first"));
        }
    }
}

fn statement(kernel: &Kernel, stmt: StmtId, all: &mut Vec<Diagnostic>) {
    let (kind, span) = (&kernel.stmts[stmt].kind, kernel.stmts[stmt].span);
    if let StmtKind::Reduce { src, axis, .. } = kind {
        reduction(kernel, src, axis.as_ref(), span, all);
    }
    if let StmtKind::Atomic { op, access, .. } = kind {
        atomic(kernel, *op, *access, all);
    }
    if let StmtKind::Shuffle { value, .. } = kind {
        computed(kernel, *value, "a shuffle", span, all);
    }
    if let StmtKind::Tile(TileOp::Clamp { low, .. }) = kind {
        computed(kernel, *low, "`clamp`", span, all);
    }
    if let StmtKind::Tile(TileOp::Copy { src, dst, .. }) = kind {
        copy(kernel, src, dst, span, all);
    }
    if let StmtKind::Print { format, args } = kind {
        print(format, args, span, all);
    }
}

fn reduction(kernel: &Kernel, src: &ReduceSource, axis: Option<&VarId>, span: SpanId, all: &mut Vec<Diagnostic>) {
    if let Some(axis) = axis
        && !matches!(kernel.vars[*axis].kind, VarKind::Thread(_))
    {
        let name = &kernel.vars[*axis].name;
        let message = format!("`{name}` is not a thread index");
        let diagnostic = Diagnostic::new(Code::PLACEMENT, span, message)
            .label(kernel.vars[*axis].span, "bound here")
            .help("the axis is one of the names bound by `let [..] = threads([..]);`");
        all.push(diagnostic);
    }
    let dtypes = match src {
        ReduceSource::Value(value) => dtypes(kernel, kernel.exprs[*value].ty),
        ReduceSource::Local(buffer) => {
            if kernel.buffers[*buffer].scope != Scope::Local {
                let name = &kernel.buffers[*buffer].name;
                let message = format!("`{name}` is not a local array");
                let help = "reduce a value, or an array from `alloc_local`";
                all.push(Diagnostic::new(Code::PLACEMENT, span, message).help(help));
            }
            dtypes(kernel, Type::Value(kernel.buffers[*buffer].dtype))
        }
    };
    if let Some(dtype) = dtypes.iter().find(|d| !d.is_some_and(Dtype::has_arithmetic)) {
        let name = dtype.map_or("usize", Dtype::name);
        let message = format!("a reduction combines numbers, not {name}");
        all.push(Diagnostic::new(Code::DTYPE, span, message).help("cast it to i32, u32 or a float"));
    }
}

fn atomic(kernel: &Kernel, op: AtomicOp, access: AccessId, all: &mut Vec<Diagnostic>) {
    let place = kernel.accesses[access].place;
    if let Place::Buffer(buffer) = place
        && kernel.buffers[buffer].scope == Scope::Local
    {
        let name = &kernel.buffers[buffer].name;
        let message = format!("`{name}` is a local array: no other thread sees it");
        let help = "use a plain assignment";
        all.push(Diagnostic::new(Code::PLACEMENT, kernel.accesses[access].span, message).help(help));
    }
    let dtypes = dtypes(kernel, Type::Value(kernel.place_dtype(place)));
    if let Some(dtype) = dtypes.iter().flatten().find(|d| !op.supports(**d)) {
        let name = match op {
            AtomicOp::Add => "atomic_add",
            AtomicOp::Max => "atomic_max",
            AtomicOp::Min => "atomic_min",
        };
        let allowed: Vec<&str> = Dtype::ALL.into_iter().filter(|d| op.supports(*d)).map(Dtype::name).collect();
        let message = format!("`{name}` does not exist for {dtype}");
        let help = format!("use an element of {}", allowed.join(", "));
        all.push(Diagnostic::new(Code::DTYPE, kernel.accesses[access].span, message).help(help));
    }
}

/// Numbers that are for storage are neither exchanged nor compared with bounds.
fn computed(kernel: &Kernel, value: ExprId, what: &str, span: SpanId, all: &mut Vec<Diagnostic>) {
    let dtypes = dtypes(kernel, kernel.exprs[value].ty);
    if let Some(dtype) = dtypes.into_iter().flatten().find(|d| d.is_number() && !d.has_arithmetic()) {
        let message = format!("{what} of {dtype}, which is for storage");
        all.push(Diagnostic::new(Code::DTYPE, span, message).help("cast to u32 or f32 first"));
    }
}

fn copy(kernel: &Kernel, src: &TileRef, dst: &TileRef, span: SpanId, all: &mut Vec<Diagnostic>) {
    if matches!((src.place, dst.place), (Place::Tensor(_), Place::Tensor(_))) {
        let message = "copy: from one tensor to another, every thread would copy the whole tile";
        let help = "copy through a shared or local array, or use `parallel`";
        all.push(Diagnostic::new(Code::PLACEMENT, span, message).help(help));
    }
    let of = |place| dtypes(kernel, Type::Value(kernel.place_dtype(place)));
    let is_bool = |d: &Option<Dtype>| *d == Some(Dtype::Bool);
    let (from, to) = (of(src.place), of(dst.place));
    if from.iter().any(is_bool) != to.iter().any(is_bool) {
        let message = "copy: bool converts to nothing else";
        all.push(Diagnostic::new(Code::DTYPE, span, message).help("use arrays of one dtype"));
    }
}

fn print(format: &str, args: &[ExprId], span: SpanId, all: &mut Vec<Diagnostic>) {
    let holes = format.matches("{}").count();
    if holes != args.len() {
        let message = format!("device_print: {holes} `{{}}` and {} arguments", args.len());
        all.push(Diagnostic::new(Code::CALL, span, message).help("give one argument for each `{}`"));
    }
    if args.len() > MESSAGE_ARGS {
        let message = format!("device_print: {} arguments; a line has at most {MESSAGE_ARGS}", args.len());
        all.push(Diagnostic::new(Code::CALL, span, message).help("print several lines"));
    }
}

/// The dtypes a type may be; `None` for `usize`.
fn dtypes(kernel: &Kernel, ty: Type) -> Vec<Option<Dtype>> {
    match ty {
        Type::Index => vec![None],
        Type::Value(DtypeRef::Is(dtype)) => vec![Some(dtype)],
        // Those that an instance uses.
        Type::Value(DtypeRef::Param(param)) => {
            let at = param.as_u32() as usize;
            kernel.instances.iter().filter_map(|i| i.dtypes.get(at)).map(|d| Some(*d)).collect()
        }
    }
}
