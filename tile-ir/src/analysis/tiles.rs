//! Tiles of a bound kernel: the shapes and dtypes of a `gemm`, loops over fragments, clusters.

use super::walk::Walk;
use crate::diag::{Code, Diagnostic};
use crate::ir::{
    AccessId, BoundKernel, Buffer, BufferId, Dtype, ExprKind, MatrixRef, Place, Precision, Scope, SpanId, Stmt, StmtId,
    StmtKind, TileOp,
};

/// Meets a `gemm`: `[M, K] [K, N]` into `[M, N]`, of dtypes that can be multiplied.
pub(super) fn gemm(walk: &mut Walk<'_>, stmt: StmtId, a: &MatrixRef, b: &MatrixRef, acc: BufferId) {
    let kernel = walk.kernel;
    let span = kernel.stmts[stmt].span;
    let sum = extents(kernel, acc);
    let (m, k) = shape(kernel, a);
    let grouped = matches!(kernel.stmts[stmt].kind, StmtKind::Tile(TileOp::Gemm { grouped: true, .. }));
    // One matrix of the right operand: all of it, unless groups of rows have one each.
    let parts = if grouped { parts(kernel, (a, b), acc) } else { Some(1) };
    let (rows, columns) = extents(kernel, b.buffer);
    // A left operand in shared memory with the rows of one group is multiplied with every matrix.
    let is_one_group = |parts: &u32| kernel.buffers[a.buffer].scope == Scope::Shared && sum.0 / *parts == m;
    let repeats = parts.filter(is_one_group).unwrap_or(1);
    let Some(parts) = parts else {
        let own = if b.transposed {
            format!("{} rows, the columns of the sum", sum.1)
        } else {
            format!("{k} rows, the columns of the left operand")
        };
        let diagnostic = Diagnostic::new(
            Code::TILE_SHAPE,
            span,
            format!(
                "gemm: `.grouped()`, and {rows} rows of `{}` are not one matrix for each of several groups of {} rows",
                kernel.buffers[b.buffer].name, sum.0
            ),
        )
        .label(b.span, format!("[{rows}, {columns}]"))
        .label(kernel.buffers[acc].span, format!("`{}` has {} rows", kernel.buffers[acc].name, sum.0))
        .help(format!("the array of the right operand holds matrices of {own}, as many as divide the rows of the sum"));
        walk.analysis.diagnostics.push(diagnostic);
        return;
    };
    let part = (rows / parts, columns);
    let (k_of_b, n) = if b.transposed { (part.1, part.0) } else { part };
    let name = |buffer: BufferId| kernel.buffers[buffer].name.as_str();
    // Whether reading one operand the other way makes everything fit.
    let turned = |a_turned: bool, b_turned: bool| {
        let turn = |(x, y): (u32, u32), turned: bool| if turned { (y, x) } else { (x, y) };
        let (a, b) = (turn((m, k), a_turned), turn((k_of_b, n), b_turned));
        a.1 == b.0 && (a.0, b.1) == sum
    };
    let written = |m: &MatrixRef, turned: bool| {
        let name = name(m.buffer);
        if m.transposed != turned { format!("{name}.t()") } else { format!("&{name}") }
    };
    let advice = match (turned(false, true), turned(true, false)) {
        (true, _) => format!("write `{}` for the right operand", written(b, true)),
        (_, true) => format!("write `{}` for the left operand", written(a, true)),
        _ => "the left operand is [M, K], the right one [K, N], the sum [M, N]".to_owned(),
    };
    let mut report = |message: String, labels: [(crate::ir::SpanId, String); 2]| {
        let [first, second] = labels;
        let diagnostic = Diagnostic::new(Code::TILE_SHAPE, span, message);
        walk.analysis.diagnostics.push(diagnostic.label(first.0, first.1).label(second.0, second.1).help(&advice));
    };
    let of_a = (a.span, format!("`{}` is [{m}, {k}]", written(a, false)));
    let of_b = (b.span, format!("`{}` is [{k_of_b}, {n}]", written(b, false)));
    let of_sum = (kernel.buffers[acc].span, format!("`{}` is [{}, {}]", name(acc), sum.0, sum.1));
    if k != k_of_b {
        let message = format!("gemm: the left operand has {k} columns, the right one {k_of_b} rows");
        return report(message, [of_a, of_b]);
    }
    if m * repeats != sum.0 {
        return report(format!("gemm: the left operand has {m} rows, the sum {}", sum.0), [of_a, of_sum]);
    }
    if n != sum.1 {
        return report(format!("gemm: the right operand has {n} columns, the sum {}", sum.1), [of_b, of_sum]);
    }
    dtypes(walk, stmt, a, b, acc);
    let threads = kernel.thread_count();
    if !threads.is_multiple_of(32) {
        let message = format!("gemm: {threads} threads are not whole warps");
        let diagnostic = Diagnostic::new(Code::THREAD_COUNT, span, message);
        let diagnostic = match kernel.threads.first() {
            Some(axis) => diagnostic.label(axis.span, format!("{threads} threads")),
            None => diagnostic,
        };
        walk.analysis.diagnostics.push(diagnostic.help("use a multiple of 32 threads"));
    }
}

/// Elements along K of one product of tensor cores on tf32.
const TF32_DEPTH: u32 = 8;

fn dtypes(walk: &mut Walk<'_>, stmt: StmtId, a: &MatrixRef, b: &MatrixRef, acc: BufferId) {
    let kernel = walk.kernel;
    let dtype = |buffer: BufferId| kernel.buffer_dtype(buffer);
    let (left, right, sum) = (dtype(a.buffer), dtype(b.buffer), dtype(acc));
    let span = kernel.stmts[stmt].span;
    let diagnostic = if left != right {
        Diagnostic::new(Code::DTYPE, span, format!("gemm: a product of {left} and {right}"))
            .label(a.span, left.name())
            .label(b.span, right.name())
            .help("both operands have one dtype: let a `copy` convert one of them")
    } else if left.info().matrix.is_none() {
        Diagnostic::new(Code::DTYPE, a.span, format!("gemm: products of {left} are not in the language"))
            .help("operands are f16, bf16 or f32")
    } else if sum != Dtype::F32 {
        Diagnostic::new(Code::DTYPE, span, format!("gemm: products of {left} are summed in f32, not in {sum}"))
            .label(kernel.buffers[acc].span, format!("`{}` holds {sum}", kernel.buffers[acc].name))
            .help("allocate it by `alloc_fragment::<f32>(..)`, and convert when it is copied out")
    } else if let StmtKind::Tile(TileOp::Gemm { precision: Precision::Tf32, .. }) = kernel.stmts[stmt].kind {
        let (_, k) = shape(kernel, a);
        if left != Dtype::F32 {
            Diagnostic::new(Code::DTYPE, span, format!("gemm: `.tf32()` of {left} operands"))
                .at(format!("they hold {left}"))
                .help(format!(
                    "tf32 is what tensor cores multiply of f32; without `.tf32()` they multiply {left} as it is"
                ))
        } else if !k.is_multiple_of(TF32_DEPTH) {
            let message = format!("gemm: `.tf32()` of {k} along K, which is not a multiple of {TF32_DEPTH}");
            Diagnostic::new(Code::ILLEGAL_OPERATION, span, message)
                .at(format!("tensor cores multiply {TF32_DEPTH} elements of tf32 at a time"))
                .help(format!("choose tiles of {} along K, or drop `.tf32()`", k.next_multiple_of(TF32_DEPTH)))
        } else {
            return;
        }
    } else {
        return;
    };
    walk.analysis.diagnostics.push(diagnostic);
}

fn extents(kernel: &BoundKernel, buffer: BufferId) -> (u32, u32) {
    match kernel.buffer_extents(buffer) {
        [rows, columns] => (*rows, *columns),
        _ => (0, 0),
    }
}

/// How many matrices the right operand of a grouped product holds; none where they do not come out even.
fn parts(kernel: &BoundKernel, (a, b): (&MatrixRef, &MatrixRef), acc: BufferId) -> Option<u32> {
    let ((_, k), (m, n), (rows, _)) = (shape(kernel, a), extents(kernel, acc), extents(kernel, b.buffer));
    let own = if b.transposed { n } else { k };
    let parts = rows.checked_div(own)?;
    (parts > 0 && rows.is_multiple_of(own) && m.is_multiple_of(parts)).then_some(parts)
}

/// Rows and columns of an operand as it is multiplied.
fn shape(kernel: &BoundKernel, matrix: &MatrixRef) -> (u32, u32) {
    let (rows, columns) = extents(kernel, matrix.buffer);
    if matrix.transposed { (columns, rows) } else { (rows, columns) }
}

/// Meets a `reduce`: the result has the extent of the axis that stays.
pub(super) fn reduce(walk: &mut Walk<'_>, stmt: StmtId, src: BufferId, dst: BufferId, axis: u8) {
    let kernel = walk.kernel;
    let (source, result) = (&kernel.buffers[src], &kernel.buffers[dst]);
    let [rows, columns] = kernel.buffer_extents(src)[..] else { return };
    let [found] = kernel.buffer_extents(dst)[..] else { return };
    let stays = if axis == 0 { columns } else { rows };
    let span = kernel.stmts[stmt].span;
    let diagnostic = if found != stays {
        let message =
            format!("reduce: {stays} remain of [{rows}, {columns}] without axis {axis}, `{}` has {found}", result.name);
        let help = match (axis, found) {
            (0, f) if f == rows => "reduce over axis 1".to_owned(),
            (1, f) if f == columns => "reduce over axis 0".to_owned(),
            _ => format!("allocate `{}` with [{stays}]", result.name),
        };
        Diagnostic::new(Code::TILE_SHAPE, span, message).help(help)
    } else if source.dtype != result.dtype || !kernel.buffer_dtype(src).has_arithmetic() {
        let (from, to) = (kernel.buffer_dtype(src), kernel.buffer_dtype(dst));
        let message = format!("reduce: `{}` holds {from}, `{}` holds {to}", source.name, result.name);
        Diagnostic::new(Code::DTYPE, span, message).help("both hold numbers of one dtype")
    } else {
        return;
    };
    let declared = |b: &crate::ir::Buffer| (b.span, format!("`{}` is declared here", b.name));
    let ((at_source, of_source), (at_result, of_result)) = (declared(source), declared(result));
    walk.analysis.diagnostics.push(diagnostic.label(at_source, of_source).label(at_result, of_result));
}

/// Meets an element of a fragment: the `parallel` loop around it runs over exactly the fragment. Whether it does; an
/// access to anything else does.
pub(super) fn element(walk: &mut Walk<'_>, access: AccessId) -> bool {
    let kernel = walk.kernel;
    let data = &kernel.accesses[access];
    let Place::Buffer(buffer) = data.place else { return true };
    if kernel.buffers[buffer].scope != Scope::Fragment {
        return true;
    }
    let Some(parallel) = walk.parallel else { return true };
    let StmtKind::Parallel { vars, extents, .. } = &kernel.stmts[parallel].kind else { return true };
    let whole = kernel.buffer_extents(buffer);
    // A fragment of one axis in a loop of two: the axis that names its element.
    let extents = match (whole.len(), vars.len(), data.indices.first().map(|e| &kernel.exprs[*e].kind)) {
        (1, 2, Some(ExprKind::Var(var))) => match vars.iter().position(|v| v == var) {
            Some(axis) => &extents[axis..=axis],
            None => return true,
        },
        _ => &extents[..],
    };
    let found: Vec<Option<i64>> = extents.iter().map(|e| kernel.const_index(*e)).collect();
    if found.len() == whole.len() && found.iter().zip(whole).all(|(f, w)| *f == Some(i64::from(*w))) {
        return true;
    }
    let shown: Vec<String> = found.iter().map(|f| f.map_or_else(|| "?".into(), |f| f.to_string())).collect();
    let whole: Vec<String> = whole.iter().map(u32::to_string).collect();
    let (shown, whole, name) = (shown.join(", "), whole.join(", "), &kernel.buffers[buffer].name);
    let message = format!("the loop runs over [{shown}], the fragment `{name}` is [{whole}]");
    let diagnostic = Diagnostic::new(Code::TILE_SHAPE, data.span, message)
        .label(kernel.stmts[parallel].span, format!("[{shown}]"))
        .label(kernel.buffers[buffer].span, format!("[{whole}]"))
        .help(format!("loop over the whole of it: `parallel([{whole}])`, and guard what is outside with an `if`"));
    walk.analysis.diagnostics.push(diagnostic);
    false
}

/// The blocks of a cluster each have a part of one tile: they differ along one axis of the grid, which is cut into whole clusters.
pub(super) fn in_cluster(walk: &mut Walk<'_>, stmt: StmtId, tile: BufferId) {
    let kernel = walk.kernel;
    let Stmt { span, kind } = &kernel.stmts[stmt];
    let (span, name) = (*span, if let StmtKind::Tile(op) = kind { op.name().trim_matches('`') } else { "" });
    let extents: Vec<i64> = kernel.cluster.iter().map(|e| kernel.const_index(*e).unwrap_or(0)).collect();
    let long: Vec<usize> = (0..extents.len()).filter(|axis| extents[*axis] > 1).collect();
    let listed = extents.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let diagnostic = if let [_, axis, ..] = long[..] {
        let message = format!("{name}: a cluster of [{listed}] differs along {} axes", long.len());
        Diagnostic::new(Code::ILLEGAL_OPERATION, span, message)
            .label(kernel.exprs[kernel.cluster[axis]].span, "the second")
            .help("blocks that work together differ along one axis: `cluster([1, 1, 2]);`")
    } else if let [axis] = long[..]
        && kernel.grid.get(axis).and_then(|a| kernel.const_index(a.extent)).is_none_or(|n| n % extents[axis] != 0)
    {
        let found = match kernel.grid.get(axis) {
            Some(a) => kernel.const_index(a.extent).map_or_else(|| "no constant".into(), |n| n.to_string()),
            None => "none".into(),
        };
        let wanted = extents[axis];
        let message = format!("{name}: {wanted} blocks a cluster, the grid's axis {axis} has {found}");
        let mut diagnostic = Diagnostic::new(Code::ILLEGAL_OPERATION, span, message)
            .label(kernel.exprs[kernel.cluster[axis]].span, format!("{wanted} blocks"))
            .help("every cluster is whole: give the axis a constant extent that is a multiple of the cluster's");
        if let Some(a) = kernel.grid.get(axis) {
            diagnostic = diagnostic.label(kernel.exprs[a.extent].span, found);
        }
        diagnostic
    } else if !crosses_blocks(kernel.buffer_dtype(tile)) {
        let Buffer { name: array, span: declared, .. } = &kernel.buffers[tile];
        let message = format!("{name}: `{array}` holds {}", kernel.buffer_dtype(tile));
        Diagnostic::new(Code::DTYPE, span, message)
            .label(*declared, "declared here")
            .help("what crosses blocks is f32, i32 or u32: declare it so, and convert where it is stored")
    } else {
        return;
    };
    walk.analysis.diagnostics.push(diagnostic);
}

/// What is exchanged has a part for every block of the cluster, and what is received is as large.
pub(super) fn cluster_exchange(walk: &mut Walk<'_>, stmt: StmtId, [src, dst]: [BufferId; 2]) {
    let kernel = walk.kernel;
    let extents = |b: BufferId| -> Vec<i64> {
        kernel.buffers[b].extents.iter().map(|e| kernel.const_index(*e).unwrap_or(0)).collect()
    };
    let blocks: i64 = kernel.cluster.iter().map(|e| kernel.const_index(*e).unwrap_or(0)).product();
    let (from, to) = (extents(src), extents(dst));
    let listed = |extents: &[i64]| extents.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let (code, message, help) = if from != to {
        let message = format!("cluster_exchange: [{}] into [{}]", listed(&from), listed(&to));
        (Code::TILE_SHAPE, message, "what is received is as large as what is sent".to_owned())
    } else if from.first() != Some(&blocks) {
        let message = format!("cluster_exchange: [{}] has no part for each of {blocks} blocks", listed(&from));
        (Code::TILE_SHAPE, message, format!("declare both arrays with {blocks} as their first extent"))
    } else if kernel.buffer_dtype(src) != kernel.buffer_dtype(dst) {
        let [a, b] = [src, dst].map(|b| kernel.buffer_dtype(b));
        (Code::DTYPE, format!("cluster_exchange: {a} into {b}"), "declare both arrays alike".to_owned())
    } else {
        return;
    };
    let [from, to] = [src, dst].map(|b| &kernel.buffers[b]);
    let diagnostic = Diagnostic::new(code, kernel.stmts[stmt].span, message)
        .label(from.span, format!("`{}`", from.name))
        .label(to.span, format!("`{}`", to.name))
        .help(help);
    walk.analysis.diagnostics.push(diagnostic);
}

/// Whether sums of a dtype cross blocks: as words that need no rounding in between.
fn crosses_blocks(dtype: Dtype) -> bool {
    dtype.has_arithmetic() && dtype.bytes() == 4
}

/// Blocks that do something together, what, and where it stands; none where each does it by itself.
pub(super) fn joined(kernel: &BoundKernel) -> Option<(i64, &'static str, SpanId)> {
    let size = kernel.cluster.iter().map(|e| kernel.const_index(*e).unwrap_or(1)).product();
    let joins = |s: &Stmt| {
        let StmtKind::Tile(op) = &s.kind else { return None };
        op.joins_cluster().then_some((op.name(), s.span))
    };
    let (name, span) = kernel.stmts.values().find_map(joins)?;
    (size > 1).then_some((size, name, span))
}

/// What is wrong with the cluster.
pub(super) fn cluster(kernel: &BoundKernel) -> Option<Diagnostic> {
    let first = kernel.exprs[*kernel.cluster.first()?].span;
    let extents: Vec<i64> = kernel.cluster.iter().map(|e| kernel.const_index(*e).unwrap_or(0)).collect();
    let blocks = extents.iter().try_fold(1i64, |product, e| product.checked_mul(*e)).unwrap_or(0);
    if extents.iter().all(|e| *e >= 1) && matches!(blocks, 1 | 2 | 4 | 8) {
        return None;
    }
    let listed: Vec<String> = extents.iter().map(i64::to_string).collect();
    let message = format!("a cluster of [{}] has {blocks} blocks: 1, 2, 4 and 8 are possible", listed.join(", "));
    Some(Diagnostic::new(Code::ILLEGAL_OPERATION, first, message).help("write `cluster([2, 1]);`"))
}

/// What is wrong with the order of tiles, where it is a constant; one that the launch makes 0 counts as 1.
pub(super) fn raster(kernel: &BoundKernel) -> Option<Diagnostic> {
    let panel = kernel.swizzle?;
    let rows = kernel.const_index(panel).filter(|rows| *rows < 1)?;
    let message = format!("a panel of {rows} tiles: `use_swizzle` takes at least 1");
    Some(Diagnostic::new(Code::CALL, kernel.exprs[panel].span, message).help("write `use_swizzle(8);`"))
}
