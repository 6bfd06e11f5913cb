//! Running sums of rows: a loop that adds the rows of a product's tile to a total combines the lanes of a row once, behind the loop.
//!
//! Contract. In: a kernel whose constants are literals. Out: the same, in which every loop such as
//!
//! ```text
//! for step in .. {
//!     reduce(Sum, &tile, &mut here, 1);
//!     for [r] in parallel([ROWS]) { total[r] = total[r] * factor[r] + here[r]; }
//! }
//! ```
//!
//! keeps the four parts of a row's sum apart ([`crate::ir::reduction`]), of which each of the four lanes that share the row adds up one:
//!
//! ```text
//! for [r, part] in parallel([ROWS, 4]) { total_parts[[r, part]] = select(part == 0, total[r], 0.0); }
//! for step in .. {
//!     reduce(Sum, &tile, &mut here_parts, 1);
//!     for [r, part] in parallel([ROWS, 4]) { total_parts[[r, part]] = total_parts[[r, part]] * factor[r] + here_parts[[r, part]]; }
//! }
//! reduce(Sum, &total_parts, &mut total, 1);
//! ```
//!
//! It is legal where both statements stand in one list, nothing else in the loop touches `total`, nothing but the update reads what the
//! reduction wrote, and `factor` is the row's. It pays where a row lies in one warp, which the product's policy says. All of this is known
//! without a target: what is computed is the same on each of them, bit by bit, and in both simulators. [`remarks`] says what was done and
//! why a loop that is nearly of this form was left.

use crate::ir::parts::{accesses, expressions, loads, statements};
use crate::ir::reduction::{PARTS, WARP};
use crate::ir::*;
use crate::layout::MmaInput;
use crate::lower::block::{ATOM, EXCHANGED_ATOM};
use crate::lower::uses;

/// Most columns of an accumulator that one warpgroup has.
const MOST_COLUMNS: u32 = 256;

/// A loop that adds up rows.
struct RunningSum {
    around: StmtId,
    reduction: StmtId,
    update: StmtId,
    here: BufferId,
    total: BufferId,
}

/// Rewrites every loop that may be.
pub(super) fn sums(kernel: &mut Kernel) {
    for sum in found(kernel).into_iter().flat_map(|(_, found)| found) {
        keep_parts(kernel, &sum);
    }
}

/// What was done, and what was left as it is with the reason, each with its place. Of a bound kernel: what is left in it is what cannot
/// be rewritten.
pub(in crate::lower) fn remarks(kernel: &Kernel) -> Vec<(SpanId, String)> {
    let mut all = Vec::new();
    for stmt in statements(kernel, &kernel.body) {
        let Stmt { kind, span } = &kernel.stmts[stmt];
        if let StmtKind::Tile(TileOp::ReduceTile { src, dst, .. }) = kind
            && kernel.buffers[*dst].extents.len() == 2
        {
            let tile = &kernel.buffers[*src].name;
            let text =
                format!("the loop adds up the rows of `{tile}` in four parts, which are combined once behind it");
            all.push((*span, text));
        }
    }
    let left = found(kernel).into_iter().filter_map(|(span, found)| found.err().map(|reason| (span, reason)));
    all.extend(left.map(|(span, reason)| (span, format!("the lanes of a row are combined in every step: {reason}"))));
    all
}

/// A list of statements, which statement nests it, and a place in it.
#[derive(Clone, Copy)]
struct Level<'k> {
    list: &'k [StmtId],
    of: Option<StmtId>,
    at: usize,
}

/// The reductions of rows in loops that also update a total by them: what they are, or why they are left.
fn found(kernel: &Kernel) -> Vec<(SpanId, Result<RunningSum, String>)> {
    let mut all = Vec::new();
    visit(kernel, &kernel.body, None, &mut Vec::new(), &mut all);
    all
}

fn visit<'k>(
    kernel: &'k Kernel,
    list: &'k [StmtId],
    of: Option<StmtId>,
    path: &mut Vec<Level<'k>>,
    all: &mut Vec<(SpanId, Result<RunningSum, String>)>,
) {
    for (at, &stmt) in list.iter().enumerate() {
        path.push(Level { list, of, at });
        if let StmtKind::Tile(TileOp::ReduceTile { op, src, dst, axis: 1 }) = kernel.stmts[stmt].kind
            && kernel.buffers[dst].extents.len() == 1
            && kernel.buffers[dst].scope == Scope::Fragment
            && let Some(around) = path.iter().rev().find_map(|level| level.of.filter(|of| is_loop(kernel, *of)))
            && let Some((update, total)) = updates(kernel, around, dst)
        {
            let sum = RunningSum { around, reduction: stmt, update, here: dst, total };
            let legal = is_kept(kernel, path, (op, src), &sum);
            all.push((kernel.stmts[stmt].span, legal.map(|()| sum)));
        }
        for body in kernel.stmts[stmt].kind.bodies() {
            visit(kernel, body, Some(stmt), path, all);
        }
        path.pop();
    }
}

fn is_loop(kernel: &Kernel, stmt: StmtId) -> bool {
    matches!(kernel.stmts[stmt].kind, StmtKind::For { .. })
}

/// The first loop over rows in a loop's body that stores to a total what it reads of the same total and of `here`, and that total.
fn updates(kernel: &Kernel, around: StmtId, here: BufferId) -> Option<(StmtId, BufferId)> {
    let total = |stmt: StmtId| {
        let StmtKind::Store { access, value } = kernel.stmts[stmt].kind else { return None };
        let total = kernel.accesses[access].place.buffer()?;
        let is_total = total != here && kernel.buffers[total].scope == Scope::Fragment;
        (is_total && [total, here].iter().all(|buffer| loads(kernel, value, *buffer))).then_some(total)
    };
    statements(kernel, &[around]).into_iter().find_map(|stmt| {
        let StmtKind::Parallel { vars, body, .. } = &kernel.stmts[stmt].kind else { return None };
        let found = statements(kernel, body).into_iter().find_map(total);
        Some((stmt, found.filter(|_| vars.len() == 1)?))
    })
}

/// Whether a reduction of a tile by an operator, which stands at the end of a path, may leave parts; else why not.
fn is_kept(
    kernel: &Kernel,
    path: &[Level<'_>],
    (op, src): (ReduceOp, BufferId),
    &RunningSum { around, update, here, total, .. }: &RunningSum,
) -> Result<(), String> {
    let name = |buffer: BufferId| &kernel.buffers[buffer].name;
    match op {
        ReduceOp::Sum => {}
        ReduceOp::Max | ReduceOp::Min => return Err(format!("`{}` is no sum", name(here))),
    }
    if kernel.buffers[src].dtype != DtypeRef::Is(Dtype::F32) {
        return Err(format!("`{}` does not hold f32", name(src)));
    }
    rows_of_a_warp(kernel, src)?;
    let (list, at) = path.last().map_or((&[][..], 0), |level| (level.list, level.at + 1));
    let (before, rest) = list.split_at(at);
    let behind = rest.iter().position(|stmt| *stmt == update);
    let Some(behind) = behind else {
        return Err(match before.contains(&update) {
            true => format!("`{}` is updated before the reduction", name(total)),
            false => {
                format!("the update of `{}` stands under another condition or loop than the reduction", name(total))
            }
        });
    };
    is_linear(kernel, update, here, total)?;
    if rest[..behind].iter().any(|stmt| uses::mentions(kernel, *stmt, here)) {
        return Err(format!("`{}` is also used between the reduction and the update", name(here)));
    }
    // What comes next, out to the kernel's end.
    let updated = at + behind;
    for (outwards, level) in path.iter().rev().enumerate() {
        let from = if outwards == 0 { updated } else { level.at };
        match meets(kernel, &level.list[from + 1..], here) {
            Meets::Reads => return Err(format!("`{}` is read behind the update, too", name(here))),
            Meets::Overwrites => break,
            Meets::Nothing => {}
        }
        let goes_round = level.of.is_some_and(|of| kernel.stmts[of].kind.is_loop());
        if goes_round && meets(kernel, level.list, here) == Meets::Reads {
            return Err(format!("the next iteration reads what `{}` holds", name(here)));
        }
    }
    let own = |stmt: &StmtId| uses::touches(kernel, *stmt, total) || declares(kernel, *stmt, total);
    // One is the update's own store.
    if statements(kernel, &[around]).iter().filter(|stmt| **stmt != update && own(stmt)).count() > 1 {
        return Err(format!("the loop also uses `{}` otherwise", name(total)));
    }
    Ok(())
}

/// Whether a tile is an accumulator of which every warp has whole rows, on any target.
fn rows_of_a_warp(kernel: &Kernel, tile: BufferId) -> Result<(), String> {
    let Buffer { name, extents, .. } = &kernel.buffers[tile];
    let threads: i64 = kernel.threads.iter().filter_map(|axis| kernel.const_index(axis.extent)).product();
    let threads = u32::try_from(threads).unwrap_or(0);
    let number = |extent: &ExprId| kernel.const_index(*extent).and_then(|extent| u32::try_from(extent).ok());
    let extents: Option<Vec<u32>> = extents.iter().map(number).collect();
    let Some(&[rows, columns]) = extents.as_deref() else { return Err(format!("`{name}` is not a matrix")) };
    let products = kernel.stmts.values().filter_map(|stmt| {
        let StmtKind::Tile(TileOp::Gemm { a, b, acc, policy, grouped, .. }) = &stmt.kind else { return None };
        let left = &kernel.buffers[a.buffer];
        let whole_rows = *grouped || left.scope == Scope::Fragment;
        // Grouped products are those of warps on every target.
        let depth = if a.transposed { left.extents.first() } else { left.extents.last() };
        let depth = depth.and_then(number)?;
        let is_deep = depth.is_multiple_of(MmaInput::Half.k());
        let exchanges = *grouped && is_deep && matches!(left.dtype, DtypeRef::Is(dtype) if dtype.is_half());
        // Rows of the right operand's array that a group's matrix has.
        let own = if b.transposed { columns } else { depth };
        let all = kernel.buffers[b.buffer].extents.first().and_then(number)?;
        let groups = if *grouped { all / own.max(1) } else { 1 };
        (*acc == tile).then_some((*policy, whole_rows, exchanges, groups))
    });
    let mut whole = columns <= MOST_COLUMNS && threads.is_multiple_of(WARP);
    let mut any = false;
    for (policy, whole_rows, exchanges, groups) in products {
        // A left operand in registers is one of whole rows.
        let policy = if whole_rows && policy == WarpPolicy::Square { WarpPolicy::FullRow } else { policy };
        let atoms = [Some(ATOM), exchanges.then_some(EXCHANGED_ATOM)];
        let grid = atoms.into_iter().flatten().find_map(|atom| policy.grid(rows, columns, threads / WARP, atom).ok());
        // A warp multiplies one matrix: with rows of several groups it has no tensor cores, and no whole rows.
        whole &= grid.is_some_and(|grid| grid.cols == 1 && grid.rows.is_multiple_of(groups.max(1)));
        any = true;
    }
    match (any, whole) {
        (false, _) => Err(format!("no product makes `{name}`")),
        (true, false) => Err(format!("no warp has whole rows of `{name}`")),
        (true, true) => Ok(()),
    }
}

/// Whether a loop over rows does nothing but `total[r] = total[r] * factor + here[r]`, or without the factor.
fn is_linear(kernel: &Kernel, update: StmtId, here: BufferId, total: BufferId) -> Result<(), String> {
    let other =
        || format!("the loop over `{}` does something else than multiply it and add to it", kernel.buffers[total].name);
    let StmtKind::Parallel { vars, body, .. } = &kernel.stmts[update].kind else { return Err(other()) };
    let (&[row], &[store]) = (&vars[..], &body[..]) else { return Err(other()) };
    let StmtKind::Store { access, value } = kernel.stmts[store].kind else { return Err(other()) };
    let is_row = |access: AccessId| {
        let indices = &kernel.accesses[access].indices;
        matches!(indices[..], [index] if kernel.exprs[index].kind == ExprKind::Var(row))
    };
    let is = |expr: ExprId, buffer: BufferId| {
        matches!(kernel.exprs[expr].kind, ExprKind::Load(access)
            if kernel.accesses[access].place == Place::Buffer(buffer) && is_row(access))
    };
    if !is_row(access) {
        return Err(other());
    }
    // What is added, and what the total becomes before that: itself, or a product.
    let (added, before) = match &kernel.exprs[value].kind {
        ExprKind::Math(MathFn::Fma, args) => match args[..] {
            [a, b, c] => (c, Some([a, b])),
            _ => return Err(other()),
        },
        ExprKind::Binary(BinaryOp::Add, a, b) => {
            let (added, rest) = if is(*a, here) { (*a, *b) } else { (*b, *a) };
            match kernel.exprs[rest].kind {
                ExprKind::Binary(BinaryOp::Mul, a, b) => (added, Some([a, b])),
                _ if is(rest, total) => (added, None),
                _ => return Err(other()),
            }
        }
        _ => return Err(other()),
    };
    if !is(added, here) {
        return Err(other());
    }
    let Some([a, b]) = before else { return Ok(()) };
    let factor = match (is(a, total), is(b, total)) {
        (true, false) => b,
        (false, true) => a,
        (true, true) | (false, false) => return Err(other()),
    };
    // Every lane that has the row has the same factor: rows of fragments, and what is the same for the whole block.
    let of_row = expressions(kernel, factor).into_iter().all(|kind| match kind {
        ExprKind::Load(access) => {
            let place = kernel.accesses[*access].place;
            let own = [here, total].map(Place::Buffer).contains(&place);
            kernel.scope_of(place) == Some(Scope::Fragment) && is_row(*access) && !own
        }
        ExprKind::Var(var) => match kernel.vars[*var].kind {
            VarKind::Loop | VarKind::Block(_) => true,
            VarKind::Let | VarKind::Mut | VarKind::Thread(_) => false,
        },
        _ => true,
    });
    let name = &kernel.buffers[total].name;
    if of_row {
        Ok(())
    } else {
        Err(format!("the factor of `{name}` is not known to be the same for all lanes of a row"))
    }
}

/// What statements do first with what an array holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meets {
    Nothing,
    /// They write all of it.
    Overwrites,
    /// They may read it, or write a part of it.
    Reads,
}

fn meets(kernel: &Kernel, list: &[StmtId], buffer: BufferId) -> Meets {
    for &stmt in list {
        let kind = &kernel.stmts[stmt].kind;
        let bodies = kind.bodies();
        if bodies.is_empty() || matches!(kind, StmtKind::Parallel { .. }) {
            if overwrites(kernel, stmt, buffer) {
                return Meets::Overwrites;
            }
            if uses::mentions(kernel, stmt, buffer) {
                return Meets::Reads;
            }
            continue;
        }
        if uses::touches(kernel, stmt, buffer) {
            return Meets::Reads;
        }
        let inside: Vec<Meets> = bodies.iter().map(|body| meets(kernel, body, buffer)).collect();
        if inside.contains(&Meets::Reads) {
            return Meets::Reads;
        }
        // A loop may have no iteration.
        if matches!(kind, StmtKind::If { .. }) && inside.iter().all(|meets| *meets == Meets::Overwrites) {
            return Meets::Overwrites;
        }
    }
    Meets::Nothing
}

/// Whether a statement makes nothing of what an array holds, and gives all of it other values or none.
fn overwrites(kernel: &Kernel, stmt: StmtId, buffer: BufferId) -> bool {
    let kind = &kernel.stmts[stmt].kind;
    let is_filled = matches!(kind, StmtKind::Tile(TileOp::Fill { buffer: filled, value })
        if *filled == buffer && !loads(kernel, *value, buffer));
    let is_reduced =
        matches!(kind, StmtKind::Tile(TileOp::ReduceTile { src, dst, .. }) if *dst == buffer && *src != buffer);
    declares(kernel, stmt, buffer) || is_filled || is_reduced
}

fn declares(kernel: &Kernel, stmt: StmtId, buffer: BufferId) -> bool {
    kernel.stmts[stmt].kind.allocates() == Some(buffer)
}

/// Rewrites a loop.
fn keep_parts(kernel: &mut Kernel, sum: &RunningSum) {
    let RunningSum { around, reduction, update, here, total } = *sum;
    let span = kernel.stmts[update].span;
    // What a step's sums are kept in has no other use, or keeps it.
    let uses = statements(kernel, &kernel.body).into_iter().filter(|stmt| uses::touches(kernel, *stmt, here));
    let is_used = uses.filter(|stmt| *stmt != reduction).count() > 1;
    let mut parts_of = |buffer: BufferId| {
        let declared = kernel.buffers[buffer].clone();
        kernel.buffers.push(Buffer { name: format!("{}_parts", declared.name), span, ..declared })
    };
    let fresh: Vec<BufferId> = [total].into_iter().chain(is_used.then_some(here)).map(&mut parts_of).collect();
    let (total_parts, here_parts) = (fresh[0], *fresh.get(1).unwrap_or(&here));
    for buffer in [total_parts, here_parts] {
        let parts = int(kernel, PARTS.into(), span);
        kernel.buffers[buffer].extents.push(parts);
    }
    // The parts are declared with the total.
    let declared = uses::allocation(kernel, total);
    let alloc = |buffer| kernel.stmts.push(Stmt { kind: StmtKind::Alloc { buffer }, span });
    let allocs: Vec<StmtId> = fresh.into_iter().map(alloc).collect();
    let begin = begin(kernel, [total, total_parts], span);
    let combine = TileOp::ReduceTile { op: ReduceOp::Sum, src: total_parts, dst: total, axis: 1 };
    let at = kernel.stmts[reduction].span;
    let combine = kernel.stmts.push(Stmt { kind: StmtKind::Tile(combine), span: at });
    if let StmtKind::Tile(TileOp::ReduceTile { dst, .. }) = &mut kernel.stmts[reduction].kind {
        *dst = here_parts;
    }
    // The update, of every part.
    let (part, extent) = (part_of(kernel, span), int(kernel, PARTS.into(), span));
    for access in accesses(kernel, &[update]) {
        let parts = match kernel.accesses[access].place {
            Place::Buffer(buffer) if buffer == total => total_parts,
            Place::Buffer(buffer) if buffer == here => here_parts,
            Place::Buffer(_) | Place::Tensor(_) => continue,
        };
        let index = kernel.exprs.push(Expr { kind: ExprKind::Var(part), ty: Type::Index, span });
        let access = &mut kernel.accesses[access];
        access.place = Place::Buffer(parts);
        access.indices.push(index);
    }
    if let StmtKind::Parallel { vars, extents, .. } = &mut kernel.stmts[update].kind {
        vars.push(part);
        extents.push(extent);
    }
    uses::put_beside(kernel, around, &[begin], &[combine]);
    if let Some(declared) = declared {
        uses::put_beside(kernel, declared, &[], &allocs);
    }
}

/// `for [r, part] in parallel([ROWS, 4]) { total_parts[[r, part]] = select(part == 0, total[r], 0.0); }`
fn begin(kernel: &mut Kernel, [total, total_parts]: [BufferId; 2], span: SpanId) -> StmtId {
    let row = Var { name: "r".into(), ty: Type::Index, kind: VarKind::Loop, span };
    let vars = vec![kernel.vars.push(row), part_of(kernel, span)];
    let extents = kernel.buffers[total_parts].extents.clone();
    let ty = Type::Value(kernel.buffers[total].dtype);
    let push = |kernel: &mut Kernel, kind, ty| kernel.exprs.push(Expr { kind, ty, span });
    let element = |kernel: &mut Kernel, buffer, vars: &[VarId]| {
        let indices = vars.iter().map(|var| push(kernel, ExprKind::Var(*var), Type::Index)).collect();
        kernel.accesses.push(Access { place: Place::Buffer(buffer), indices, masked: false, span })
    };
    let (part, zero) = (push(kernel, ExprKind::Var(vars[1]), Type::Index), int(kernel, 0, span));
    let is_first = push(kernel, ExprKind::Binary(BinaryOp::Eq, part, zero), Type::BOOL);
    let whole = element(kernel, total, &vars[..1]);
    let (whole, none) = (push(kernel, ExprKind::Load(whole), ty), push(kernel, ExprKind::Float(0.0), ty));
    let value = push(kernel, ExprKind::Select(is_first, whole, none), ty);
    let access = element(kernel, total_parts, &vars);
    let store = kernel.stmts.push(Stmt { kind: StmtKind::Store { access, value }, span });
    kernel.stmts.push(Stmt { kind: StmtKind::Parallel { vars, extents, body: vec![store] }, span })
}

fn part_of(kernel: &mut Kernel, span: SpanId) -> VarId {
    kernel.vars.push(Var { name: "part".into(), ty: Type::Index, kind: VarKind::Loop, span })
}

fn int(kernel: &mut Kernel, value: i64, span: SpanId) -> ExprId {
    kernel.exprs.push(Expr { kind: ExprKind::Int(value), ty: Type::Index, span })
}
