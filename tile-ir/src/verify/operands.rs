//! Operands of reductions, atomics, copies and prints.

use crate::diag::{Code, Diagnostic};
use crate::ir::{AtomicOp, Dtype, DtypeRef, Kernel, Place, ReduceSource, Scope, StmtId, StmtKind, Type, VarKind};
use crate::lowered::MESSAGE_ARGS;

pub(super) fn check(kernel: &Kernel, all: &mut Vec<Diagnostic>) {
    block(kernel, &kernel.body, all);
}

fn block(kernel: &Kernel, body: &[StmtId], all: &mut Vec<Diagnostic>) {
    for &stmt in body {
        let span = kernel.stmts[stmt].span;
        match &kernel.stmts[stmt].kind {
            StmtKind::If { then, otherwise, .. } => {
                block(kernel, then, all);
                block(kernel, otherwise, all);
            }
            StmtKind::For { body, .. } | StmtKind::Parallel { body, .. } | StmtKind::Persistent { body, .. } => {
                block(kernel, body, all);
            }
            StmtKind::Reduce { src, axis, .. } => {
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
                if let Some(dtype) = dtypes.iter().find(|d| d.is_none_or(|d| d == Dtype::Bool)) {
                    let name = dtype.map_or("usize", Dtype::name);
                    let message = format!("a reduction combines numbers, not {name}");
                    all.push(Diagnostic::new(Code::DTYPE, span, message).help("cast it to i32, u32 or a float"));
                }
            }
            StmtKind::Atomic { op, access, .. } => {
                let place = kernel.accesses[*access].place;
                if let Place::Buffer(buffer) = place
                    && kernel.buffers[buffer].scope == Scope::Local
                {
                    let name = &kernel.buffers[buffer].name;
                    let message = format!("`{name}` is a local array: no other thread sees it");
                    let help = "use a plain assignment";
                    all.push(Diagnostic::new(Code::PLACEMENT, kernel.accesses[*access].span, message).help(help));
                }
                let dtypes = dtypes(kernel, Type::Value(kernel.place_dtype(place)));
                if let Some(dtype) = dtypes.iter().flatten().find(|d| !op.supports(**d)) {
                    let name = match op {
                        AtomicOp::Add => "atomic_add",
                        AtomicOp::Max => "atomic_max",
                        AtomicOp::Min => "atomic_min",
                    };
                    let allowed: Vec<&str> =
                        Dtype::ALL.into_iter().filter(|d| op.supports(*d)).map(Dtype::name).collect();
                    let message = format!("`{name}` does not exist for {dtype}");
                    let help = format!("use an element of {}", allowed.join(", "));
                    all.push(Diagnostic::new(Code::DTYPE, kernel.accesses[*access].span, message).help(help));
                }
            }
            StmtKind::Copy { src, dst, .. } => {
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
            StmtKind::Print { format, args } => {
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
            _ => {}
        }
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
