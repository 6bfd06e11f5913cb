//! Tiles: where fragments may be used, what a `gemm` multiplies, where `persistent` stands, and that the loads of a
//! pipelined loop of products lead its body.

use super::pipeline::{is_tile_pipeline, unsteady};
use crate::diag::{Code, Diagnostic};
use crate::ir::parts::{each, loads, parts, roots};
use crate::ir::pipeline::{is_index, split};
use crate::ir::{
    AccessId, AccessMode, Buffer, BufferId, ExprId, ExprKind, Kernel, LoopKind, MatrixRef, Place, Scope, SpanId,
    StmtId, StmtKind, StmtPart, TileOp, TileRef, VarId, VarKind,
};

pub(super) fn check(kernel: &Kernel, all: &mut Vec<Diagnostic>) {
    elements(kernel, &kernel.body, None, all);
    each(kernel, &kernel.body, &mut |stmt| {
        let kind = &kernel.stmts[stmt].kind;
        if let StmtKind::Tile(TileOp::Copy { src, dst, .. }) = kind {
            copy(kernel, src, dst, all);
        } else if let StmtKind::Tile(TileOp::Gemm { a, b, acc, .. }) = kind {
            gemm(kernel, stmt, a, b, *acc, all);
        } else if let StmtKind::Tile(TileOp::ReduceTile { src, dst, .. }) = kind {
            reduce(kernel, stmt, *src, *dst, all);
        } else if let StmtKind::For { kind: LoopKind::Pipelined { .. }, body, .. } = kind
            && is_tile_pipeline(kernel, body)
        {
            pipeline(kernel, stmt, body, all);
        }
    });
    persistent(kernel, all);
    cluster(kernel, all);
    launch(kernel, all);
}

/// What the blocks of a cluster do together stands where each of them comes by once: in no loop, and in no conditional but one that the
/// instance decides.
fn cluster(kernel: &Kernel, all: &mut Vec<Diagnostic>) {
    let once = reached_once(kernel, &kernel.body);
    each(kernel, &kernel.body, &mut |stmt| {
        let StmtKind::Tile(op) = &kernel.stmts[stmt].kind else { return };
        if !op.joins_cluster() {
            return;
        }
        let (name, span) = (op.name(), kernel.stmts[stmt].span);
        let mut report = |message: String, help: &str| {
            all.push(Diagnostic::new(Code::PLACEMENT, span, message).help(help));
        };
        if kernel.cluster.is_empty() {
            report(
                format!("{name} in a kernel without clusters"),
                "declare the blocks that work together: `cluster([1, 1, 2]);`, for a grid whose third axis has 2",
            );
        }
        if !once.contains(&stmt) {
            report(
                format!("{name} in a loop or conditional"),
                "every block of the cluster comes by once: write it in the kernel's body itself, and what one block does after it in an `if`",
            );
        }
        if let TileOp::ClusterExchange { src, dst } = op {
            return exchange(kernel, stmt, [*src, *dst], all);
        }
        let TileOp::ClusterReduce { tile, .. } = *op else { return };
        if kernel.buffers[tile].extents.len() != 2 {
            let declared = kernel.buffers[tile].span;
            let message = format!("`cluster_reduce` of `{}`, which is not a matrix", kernel.buffers[tile].name);
            let help = "declare it with two extents: `alloc_fragment::<f32>([64, 64])`";
            all.push(Diagnostic::new(Code::SHAPE, span, message).label(declared, "declared here").help(help));
        }
    });
}

/// The statements that a block comes by once whatever it holds: those of `body`, and of conditionals in it that the instance decides.
fn reached_once(kernel: &Kernel, body: &[StmtId]) -> Vec<StmtId> {
    let mut all = Vec::new();
    for &stmt in body {
        all.push(stmt);
        if let StmtKind::If { cond, then, otherwise } = &kernel.stmts[stmt].kind
            && is_constant(kernel, *cond)
        {
            all.extend([then, otherwise].into_iter().flat_map(|arm| reached_once(kernel, arm)));
        }
    }
    all
}

/// Whether the instance decides an expression.
fn is_constant(kernel: &Kernel, expr: ExprId) -> bool {
    let kind = &kernel.exprs[expr].kind;
    let mut constant = match kind {
        ExprKind::Int(_) | ExprKind::Bool(_) | ExprKind::Bits(_) | ExprKind::Const(_) | ExprKind::Present(_) => true,
        ExprKind::Unary(..) | ExprKind::Binary(..) | ExprKind::Select(..) | ExprKind::If(..) => true,
        ExprKind::Float(_) | ExprKind::Special(..) | ExprKind::Math(..) | ExprKind::Cast(..) => false,
        ExprKind::Dim(_) | ExprKind::Scalar(_) | ExprKind::Var(_) | ExprKind::Load(_) => false,
    };
    kind.operands(kernel, &mut |operand| constant &= is_constant(kernel, operand));
    constant
}

/// `cluster_exchange`: other blocks write into the array before this one comes to the exchange, so nothing uses it before.
fn exchange(kernel: &Kernel, stmt: StmtId, [src, dst]: [BufferId; 2], all: &mut Vec<Diagnostic>) {
    let span = kernel.stmts[stmt].span;
    let [from, to] = [src, dst].map(|b| &kernel.buffers[b]);
    let array = |b: &Buffer| format!("`{}`", b.name);
    if from.extents.len() != to.extents.len() {
        let message = format!("`cluster_exchange`: {} and {} have different numbers of axes", array(from), array(to));
        let diagnostic =
            Diagnostic::new(Code::SHAPE, span, message).label(from.span, array(from)).label(to.span, array(to));
        all.push(diagnostic.help("declare them with the same extents, the first of which is the cluster's"));
    }
    let mut before: Option<StmtId> = None;
    let mut reached = false;
    each(kernel, &kernel.body, &mut |other| {
        reached |= other == stmt;
        let kind = &kernel.stmts[other].kind;
        if reached || before.is_some() || matches!(kind, StmtKind::Alloc { .. }) {
            return;
        }
        kind.each_part(&mut |part| {
            let touches = match part {
                StmtPart::Element(access, _) => kernel.accesses[access].place == Place::Buffer(dst),
                StmtPart::Tile(tile, _) => tile.place == Place::Buffer(dst),
                StmtPart::Array(buffer, _) => buffer == dst,
                StmtPart::Value(value) => loads(kernel, value, dst),
                StmtPart::Constant(_) | StmtPart::Binds(_) | StmtPart::Sets(_) | StmtPart::Body(_) => false,
                StmtPart::Report | StmtPart::BlockCollective | StmtPart::WarpCollective => false,
                StmtPart::BlockBarrier | StmtPart::WarpBarrier => false,
            };
            if touches {
                before = Some(other);
            }
        });
    });
    if let Some(before) = before {
        let message = format!("{} is used before it is received", array(to));
        all.push(Diagnostic::new(Code::PLACEMENT, span, message).label(kernel.stmts[before].span, "used here").help(
            "other blocks of the cluster may send long before this one comes here: receive into an array of its own",
        ));
    }
}

/// A `parallel` loop: its indices, and where it stands.
type Around<'k> = Option<(&'k [VarId], SpanId)>;

/// Elements of fragments, which only the threads that hold them can reach.
fn elements<'k>(kernel: &'k Kernel, body: &'k [StmtId], around: Around<'k>, all: &mut Vec<Diagnostic>) {
    for &stmt in body {
        let mut accesses: Vec<AccessId> = Vec::new();
        for root in roots(kernel, stmt) {
            parts(kernel, root, &mut |kind| {
                if let ExprKind::Load(access) = kind {
                    accesses.push(*access);
                }
            });
        }
        let kind = &kernel.stmts[stmt].kind;
        kind.each_part(&mut |part| {
            let StmtPart::Element(access, touch) = part else { return };
            match (touch, fragment(kernel, kernel.accesses[access].place)) {
                (AccessMode::Atomic, Some(name)) => {
                    let message = format!("an atomic update of an element of the fragment `{name}`");
                    let help = "one thread holds it: use a plain assignment";
                    let span = kernel.accesses[access].span;
                    all.push(Diagnostic::new(Code::PLACEMENT, span, message).help(help));
                }
                (AccessMode::Atomic, None) => {}
                (AccessMode::Read | AccessMode::Write | AccessMode::Update, _) => accesses.push(access),
            }
        });
        accesses.into_iter().for_each(|access| element(kernel, access, around, all));
        let own =
            if let StmtKind::Parallel { vars, .. } = kind { Some((&vars[..], kernel.stmts[stmt].span)) } else { None };
        let around = own.or(around);
        kind.bodies().into_iter().for_each(|body| elements(kernel, body, around, all));
    }
}

fn element(kernel: &Kernel, access: AccessId, around: Around<'_>, all: &mut Vec<Diagnostic>) {
    let access = &kernel.accesses[access];
    let Some(name) = fragment(kernel, access.place) else { return };
    let Some((vars, parallel)) = around else {
        let message = format!("an element of the fragment `{name}` outside of a `parallel` loop");
        let diagnostic = Diagnostic::new(Code::PLACEMENT, access.span, message)
            .at("it is spread over the block's threads: none of them has all of it")
            .help(format!(
                "write `for [i, j] in parallel([..]) {{ .. {name}[[i, j]] .. }}` over the fragment's extents"
            ));
        return all.push(diagnostic);
    };
    let is = |index: &crate::ir::ExprId, var: &VarId| kernel.exprs[*index].kind == ExprKind::Var(*var);
    let own = match &access.indices[..] {
        // One of one axis: the row or the column of the loop's element.
        [index] => vars.iter().any(|var| is(index, var)),
        indices => indices.len() == vars.len() && indices.iter().zip(vars).all(|(index, var)| is(index, var)),
    };
    if own && !access.masked {
        return;
    }
    let names: Vec<&str> = vars.iter().map(|v| kernel.vars[*v].name.as_str()).collect();
    let index = match access.indices.len() {
        1 => names.first().copied().unwrap_or_default().to_owned(),
        _ => format!("[{}]", names.join(", ")),
    };
    let message = format!("the fragment `{name}` is indexed by something else than the loop's own indices");
    let diagnostic = Diagnostic::new(Code::PLACEMENT, access.span, message)
        .at("another thread may hold this element")
        .label(parallel, "the loop")
        .help(format!("write `{name}[{index}]`, or go through a shared array"));
    all.push(diagnostic);
}

/// The name of a fragment.
fn fragment(kernel: &Kernel, place: Place) -> Option<&str> {
    match place {
        Place::Buffer(buffer) if kernel.buffers[buffer].scope == Scope::Fragment => Some(&kernel.buffers[buffer].name),
        _ => None,
    }
}

fn copy(kernel: &Kernel, src: &TileRef, dst: &TileRef, all: &mut Vec<Diagnostic>) {
    if (src.transposed || dst.transposed) && !is_transposed_store(kernel, src, dst) {
        let span = if src.transposed { src.span } else { dst.span };
        let message = "copy: only a fragment that goes to a tensor is transposed";
        let help = "store the fragment, or multiply the transpose of a shared array: `gemm(a_s.t(), &b_s, &mut acc)`";
        return all.push(Diagnostic::new(Code::PLACEMENT, span, message).help(help));
    }
    for (tile, other) in [(src, dst), (dst, src)] {
        let Some(name) = fragment(kernel, tile.place) else { continue };
        if let Place::Buffer(buffer) = tile.place
            && kernel.buffers[buffer].extents.len() == 1
        {
            let message = format!("copy: the fragment `{name}` of one axis");
            let help =
                format!("several threads hold each element: write `for [i] in parallel([..]) {{ y[i] = {name}[i]; }}`");
            all.push(Diagnostic::new(Code::PLACEMENT, tile.span, message).help(help));
            continue;
        }
        if !tile.start.is_empty() {
            let message = format!("copy: a part of the fragment `{name}`");
            let help = format!("copy all of it: `{}{name}`", if std::ptr::eq(tile, dst) { "&mut " } else { "&" });
            all.push(Diagnostic::new(Code::PLACEMENT, tile.span, message).help(help));
        }
        let Place::Buffer(buffer) = other.place else { continue };
        let what = match kernel.buffers[buffer].scope {
            Scope::Shared => continue,
            Scope::Local => "a per-thread array",
            // Reported once, from the source's side.
            Scope::Fragment if std::ptr::eq(tile, dst) => continue,
            Scope::Fragment => "another fragment",
        };
        let message = format!("copy: between the fragment `{name}` and {what}");
        let diagnostic = Diagnostic::new(Code::PLACEMENT, other.span, message)
            .label(kernel.buffers[buffer].span, format!("`{}` is declared here", kernel.buffers[buffer].name))
            .help("a fragment is copied to and from tensors and shared arrays; elements meet in `parallel`");
        all.push(diagnostic);
    }
}

/// `copy(acc.t(), c.at_mut([..]))`
fn is_transposed_store(kernel: &Kernel, src: &TileRef, dst: &TileRef) -> bool {
    let of_fragment = matches!(src.place, Place::Buffer(b)
        if kernel.buffers[b].scope == Scope::Fragment && kernel.buffers[b].extents.len() == 2);
    of_fragment && src.start.is_empty() && !dst.transposed && matches!(dst.place, Place::Tensor(_))
}

fn gemm(kernel: &Kernel, stmt: StmtId, a: &MatrixRef, b: &MatrixRef, acc: BufferId, all: &mut Vec<Diagnostic>) {
    let span = kernel.stmts[stmt].span;
    let declared = |buffer: BufferId| {
        let buffer = &kernel.buffers[buffer];
        let scope = match buffer.scope {
            Scope::Shared => "a shared array",
            Scope::Local => "a per-thread array",
            Scope::Fragment => "a fragment",
        };
        (buffer.span, format!("`{}` is {scope}", buffer.name))
    };
    let mut wrong = |at: SpanId, buffer: BufferId, message: &str, help: &str| {
        let (declared, what) = declared(buffer);
        all.push(Diagnostic::new(Code::PLACEMENT, at, message).label(declared, what).help(help));
    };
    match kernel.buffers[a.buffer].scope {
        Scope::Shared => {}
        Scope::Fragment if !a.transposed => {}
        Scope::Fragment => {
            let help = "copy it to a shared array first, and multiply the transpose of that";
            wrong(a.span, a.buffer, "gemm: the transpose of a fragment", help);
        }
        Scope::Local => {
            let help = "copy it to a shared array first";
            wrong(a.span, a.buffer, "gemm: the left operand is neither shared nor a fragment", help);
        }
    }
    if kernel.buffers[b.buffer].scope != Scope::Shared {
        wrong(b.span, b.buffer, "gemm: the right operand is not a shared array", "copy it to a shared array first");
    }
    if kernel.buffers[acc].scope != Scope::Fragment {
        let help = "allocate it by `alloc_fragment::<f32>([M, N])`";
        wrong(span, acc, "gemm: the sum is not a fragment", help);
    }
    if a.buffer == acc {
        wrong(a.span, acc, "gemm: the left operand is the sum itself", "copy it to a shared array first");
    }
}

fn reduce(kernel: &Kernel, stmt: StmtId, src: BufferId, dst: BufferId, all: &mut Vec<Diagnostic>) {
    let (source, result) = (&kernel.buffers[src], &kernel.buffers[dst]);
    let (message, help) = match (source.scope, result.scope) {
        (Scope::Fragment, Scope::Fragment | Scope::Shared) | (Scope::Shared, Scope::Shared) => return,
        (Scope::Local, _) | (_, Scope::Local) => (
            "reduce: a per-thread array, of which every thread has its own",
            "reduce it in a loop, or over threads by `thread_allreduce`",
        ),
        (Scope::Shared, Scope::Fragment) => (
            "reduce: of a shared array into a fragment",
            "allocate the result by `alloc_shared`, or copy the array to a fragment first",
        ),
    };
    let diagnostic = Diagnostic::new(Code::PLACEMENT, kernel.stmts[stmt].span, message);
    let diagnostic = diagnostic.label(source.span, format!("`{}`", source.name));
    all.push(diagnostic.label(result.span, format!("`{}`", result.name)).help(help));
}

/// The loads of a pipelined loop of products: copies from tensors into shared arrays, before everything else.
fn pipeline(kernel: &Kernel, stmt: StmtId, body: &[StmtId], all: &mut Vec<Diagnostic>) {
    let span = kernel.stmts[stmt].span;
    let load = |stmt: StmtId| {
        let StmtKind::Tile(TileOp::Copy { src, dst, .. }) = &kernel.stmts[stmt].kind else { return None };
        let (Place::Tensor(_), Place::Buffer(buffer)) = (src.place, dst.place) else { return None };
        (kernel.buffers[buffer].scope == Scope::Shared).then_some(buffer)
    };
    let StmtKind::For { var: index, .. } = kernel.stmts[stmt].kind else { return };
    let names_index = |stmt: StmtId| {
        matches!(&kernel.stmts[stmt].kind, StmtKind::Let { var, value: Some(value) }
            if kernel.vars[*var].kind == VarKind::Let && is_index(kernel, index, *value))
    };
    let first = body.iter().position(|s| load(*s).is_none() && !names_index(*s)).unwrap_or(body.len());
    let (leading, rest) = body.split_at(first);
    if !leading.iter().any(|s| load(*s).is_some()) {
        let help = "begin the body with `copy`s from tensors into shared arrays, or use `serial(a..b)`";
        let mut diagnostic = Diagnostic::new(Code::PLACEMENT, span, "the loop has no loads to issue ahead").help(help);
        if let Some(&first) = body.first() {
            diagnostic = diagnostic.label(kernel.stmts[first].span, "its body begins with this");
        }
        return all.push(diagnostic);
    }
    let split = split(kernel, index, body);
    // A copy that is not the same in every iteration would be made when it is reached.
    if let (Some(moving), true) = (split.moving, leading.iter().skip(split.loads).any(|s| load(*s).is_some())) {
        return all.push(unsteady(kernel, stmt, moving));
    }
    let mut stray = None;
    each(kernel, rest, &mut |s| {
        if let Some(buffer) = load(s) {
            stray.get_or_insert((kernel.stmts[s].span, buffer));
        }
    });
    if let (Some((fill, buffer)), Some(&compute)) = (stray, rest.first()) {
        let name = &kernel.buffers[buffer].name;
        let message = format!("`{name}` is filled from global memory among statements that compute");
        let diagnostic = Diagnostic::new(Code::PLACEMENT, fill, message)
            .at("this is a load")
            .label(kernel.stmts[compute].span, "the computing begins here: loads stand before it")
            .help("move the copy to the beginning of the body");
        all.push(diagnostic);
    }
}

/// `persistent` stands for the grid: alone at the end of the body, after declarations.
fn persistent(kernel: &Kernel, all: &mut Vec<Diagnostic>) {
    let is = |stmt: &StmtId| matches!(kernel.stmts[*stmt].kind, StmtKind::Persistent { .. });
    let mut found = Vec::new();
    each(kernel, &kernel.body, &mut |stmt| {
        if is(&stmt) {
            found.push(stmt);
        }
    });
    let Some(&first) = found.first() else { return };
    let span = kernel.stmts[first].span;
    let mut report = |at: SpanId, message: &str, help: &str| {
        all.push(Diagnostic::new(Code::PLACEMENT, at, message).label(span, "the `persistent` loop").help(help));
    };
    if let Some(axis) = kernel.grid.first() {
        report(axis.span, "`blocks(..)` beside `persistent(..)`: each gives the grid", "keep one of the two");
    }
    let Some(at) = kernel.body.iter().position(is).filter(|_| found.len() == 1) else {
        let at = found.get(1).map_or(span, |second| kernel.stmts[*second].span);
        return report(at, "a kernel has one `persistent` loop, around all of its work", "merge the loops");
    };
    if let Some(after) = kernel.body.get(at + 1) {
        let help = "move it into the loop: it would run once a block, and how many blocks there are is the device's";
        report(kernel.stmts[*after].span, "a statement after `persistent`", help);
    }
    for before in &kernel.body[..at] {
        let kind = &kernel.stmts[*before].kind;
        let is_let = matches!(kind, StmtKind::Let { var, value: Some(_) } if kernel.vars[*var].kind == VarKind::Let);
        let declares = is_let || matches!(kind, StmtKind::Alloc { .. });
        if !declares {
            let help = "move it into the loop, which runs once a tile";
            report(kernel.stmts[*before].span, "before `persistent` stand declarations only", help);
        }
    }
}

/// `cluster` and `use_swizzle` fit the grid; what is specialised is an extent of a tensor that every launch has.
fn launch(kernel: &Kernel, all: &mut Vec<Diagnostic>) {
    let specialize = kernel.attributes.specialize.iter();
    for (specialize, dim) in specialize.flat_map(|specialize| specialize.dims.iter().map(move |dim| (specialize, *dim)))
    {
        if kernel.place_of(dim).is_none() {
            let message = format!("`{}` is specialised, and only optional tensors have it", kernel.dims[dim].name);
            let help =
                "a launch that leaves them out would not say its value: let a tensor that is always there have it";
            all.push(Diagnostic::new(Code::ATTRIBUTE, specialize.span, message).help(help));
        }
    }
    let axes = kernel.persistent().map_or(kernel.grid.len(), |tiles| tiles.extents.len());
    let plural = |n: usize| if n == 1 { "axis" } else { "axes" };
    if let Some(&first) = kernel.cluster.first()
        && kernel.cluster.len() > axes
    {
        let found = kernel.cluster.len();
        let message = format!("a cluster of {found} {} on a grid of {axes}", plural(found));
        let help = "give an extent for each axis of the grid, x first";
        all.push(Diagnostic::new(Code::SHAPE, kernel.exprs[first].span, message).help(help));
    }
    if let Some(panel) = kernel.swizzle
        && axes < 2
    {
        let message = format!("`use_swizzle` orders the tiles of a grid of 2 or 3 axes, this one has {axes}");
        all.push(Diagnostic::new(Code::SHAPE, kernel.exprs[panel].span, message).help("remove it"));
    }
}
