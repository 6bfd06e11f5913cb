//! What extents and launch contracts are made of.

use crate::diag::{Code, Diagnostic};
use crate::ir::constant::value;
use crate::ir::{ExprId, ExprKind, Extent, Kernel, LoopKind, ParamKind, StmtKind, Type};

pub(super) fn check(kernel: &Kernel, all: &mut Vec<Diagnostic>) {
    let whole = kernel.grid.first().or(kernel.threads.first()).map(|a| a.span);
    let anywhere = whole.or_else(|| kernel.spans.keys().next());
    if let Some(span) = anywhere {
        if kernel.instances.is_empty() {
            all.push(Diagnostic::new(Code::ATTRIBUTE, span, "the kernel has no instance").help("add `instances(..)`"));
        }
        if kernel.threads.is_empty() {
            let help = "begin the body with `let [tx] = threads([128]);`";
            all.push(Diagnostic::new(Code::THREAD_COUNT, span, "the kernel binds no threads").help(help));
        }
    }
    for axis in &kernel.grid {
        launch_time(kernel, axis.extent, "a grid extent", all);
    }
    for require in &kernel.requires {
        launch_time(kernel, require.cond, "a `require`", all);
    }
    for axis in &kernel.threads {
        constant(kernel, axis.extent, "a thread extent", all);
    }
    for buffer in kernel.buffers.values() {
        let what = format!("an extent of `{}`", buffer.name);
        buffer.extents.iter().for_each(|e| constant(kernel, *e, &what, all));
    }
    for param in kernel.params.values() {
        let ParamKind::Tensor { shape, .. } = &param.kind else { continue };
        for extent in shape {
            if let Extent::Fixed(expr) = extent {
                constant(kernel, *expr, "a fixed extent", all);
            }
        }
    }
    if let Some(panel) = kernel.swizzle {
        launch_time(kernel, panel, "the panel of `use_swizzle`", all);
    }
    for stmt in kernel.stmts.values() {
        if let StmtKind::Persistent { extents, .. } = &stmt.kind {
            extents.iter().for_each(|extent| launch_time(kernel, *extent, "an extent of `persistent`", all));
        }
        if let StmtKind::For { kind: LoopKind::Serial { unroll: Some(n) }, .. } = stmt.kind {
            constant(kernel, n, "an unrolling factor", all);
        }
        if let StmtKind::For { kind: LoopKind::Pipelined { stages, .. }, .. } = stmt.kind {
            constant(kernel, stages, "the number of stages", all);
        }
    }
}

/// Reports an expression with a part that the launcher does not know, or does not compute: it has integers and conditions, no floats.
fn launch_time(kernel: &Kernel, expr: ExprId, what: &str, all: &mut Vec<Diagnostic>) {
    let is_unknown = |kind: &ExprKind| match kind {
        ExprKind::Load(_) => true,
        ExprKind::Var(var) => value(kernel, *var).is_none(),
        _ => false,
    };
    let is_of_floats = |kind: &ExprKind| match kind {
        ExprKind::Float(_) | ExprKind::Math(..) => true,
        ExprKind::Cast(to, _) => *to != Type::Index,
        ExprKind::Scalar(param) => {
            matches!(kernel.params[*param].kind, ParamKind::Scalar { ty } if ty.dtype().is_some_and(|dtype| dtype.is_float()))
        }
        _ => false,
    };
    let Some(part) = find(kernel, expr, &mut |kind| !is_unknown(kind) && !is_of_floats(kind)) else { return };
    let span = kernel.exprs[part].span;
    all.push(if is_of_floats(&kernel.exprs[part].kind) {
        let message = format!("{what} is made of integers and conditions");
        let diagnostic = Diagnostic::new(Code::NOT_CONSTANT, span, message).at("the launcher does not compute this");
        diagnostic.help(
            "use `+ - * / %`, `min`, `max`, `ceil_div`, comparisons and `if` of dims, constants and integer parameters",
        )
    } else {
        let message = format!("{what} is made of dims, constants and scalar parameters only");
        Diagnostic::new(Code::NOT_CONSTANT, span, message).at("this is not known before the launch")
    });
}

/// Reports an expression with a part that neither an instance nor `specialize` makes constant.
fn constant(kernel: &Kernel, expr: ExprId, what: &str, all: &mut Vec<Diagnostic>) {
    let Some(part) = find(kernel, expr, &mut |kind| match kind {
        ExprKind::Dim(dim) => kernel.specialized().contains(dim),
        ExprKind::Load(_) | ExprKind::Scalar(_) | ExprKind::Float(_) => false,
        ExprKind::Var(v) => value(kernel, *v).is_some(),
        _ => true,
    }) else {
        return;
    };
    let at = match kernel.exprs[part].kind {
        ExprKind::Dim(dim) => format!("`{}` is a dynamic dim, known at launch only", kernel.dims[dim].name),
        ExprKind::Scalar(param) => format!("`{}` is a parameter, known at launch only", kernel.params[param].name),
        _ => "this is not known when the kernel is compiled".into(),
    };
    let diagnostic = Diagnostic::new(Code::NOT_CONSTANT, kernel.exprs[part].span, format!("{what} must be a constant"));
    all.push(diagnostic.at(at).help("use literals, const parameters, `T::BITS` and immutable `let`s of these"));
}

/// The first part that is not `allowed`, immutable variables replaced by their values.
fn find(kernel: &Kernel, expr: ExprId, allowed: &mut impl FnMut(&ExprKind) -> bool) -> Option<ExprId> {
    let kind = &kernel.exprs[expr].kind;
    if !allowed(kind) {
        return Some(expr);
    }
    match kind {
        // The variable's value may be far away: the place to report is its use.
        ExprKind::Var(var) => value(kernel, *var).and_then(|v| find(kernel, v, allowed)).map(|_| expr),
        ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => find(kernel, *a, allowed),
        ExprKind::Binary(_, a, b) => find(kernel, *a, allowed).or_else(|| find(kernel, *b, allowed)),
        ExprKind::Math(_, args) => args.iter().find_map(|e| find(kernel, *e, allowed)),
        ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => {
            [a, b, c].into_iter().find_map(|e| find(kernel, *e, allowed))
        }
        _ => None,
    }
}
