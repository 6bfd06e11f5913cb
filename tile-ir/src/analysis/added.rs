//! Tiles that are added to tensors: `parallel` loops over a whole fragment whose body adds every element to the tensor's element at the
//! same place of a tile. TMA does that for a tile at once, and leaves out what is beyond the tensor's edges, as the loop's own condition does.

use super::walk::Walk;
use super::{AddedTile, TMA_START_BYTES};
use crate::constraint::{Answer, Poly};
use crate::ir::parts::{alike, mentions};
use crate::ir::{
    AtomicOp, BinaryOp, BoundKernel, Dtype, DtypeRef, ExprId, ExprKind, Extent, ParamKind, Place, Scope, StmtId,
    StmtKind, VarId,
};

/// Meets a `parallel` loop: it is noted where it adds a tile that TMA can add, but for what its own element access is known to be in bounds.
pub(super) fn check(walk: &mut Walk<'_>, stmt: StmtId) {
    let Some(tile) = added(walk.kernel, stmt) else { return };
    for (axis, start) in tile.start.iter().enumerate() {
        let value = match start {
            Some(start) => walk.index_values(&[*start]),
            None => vec![Poly::default()],
        };
        let is_last = axis + 1 == tile.start.len();
        let elements = i64::from(TMA_START_BYTES / Dtype::F32.bytes());
        let fits = |walk: &mut Walk<'_>, p: &Poly| {
            let alike = walk.cx.varies(p).threads == 0 && walk.cx.proves(p);
            alike && (!is_last || walk.cx.divisible(p, elements) == Answer::Proven)
        };
        if value.len() != 1 || !value.iter().all(|p| fits(walk, p)) {
            return;
        }
    }
    walk.analysis.added_tiles.insert(stmt, tile);
}

/// The tile that a loop adds to a tensor, if that is all it does.
fn added(kernel: &BoundKernel, stmt: StmtId) -> Option<AddedTile> {
    let StmtKind::Parallel { vars, extents, body } = &kernel.stmts[stmt].kind else { return None };
    let (&[row, col], &[body]) = (&vars[..], &body[..]) else { return None };
    let (cond, body) = if let StmtKind::If { cond, then, otherwise } = &kernel.stmts[body].kind {
        let (&[then], []) = (&then[..], &otherwise[..]) else { return None };
        (Some(*cond), then)
    } else {
        (None, body)
    };
    let StmtKind::Atomic { op: AtomicOp::Add, access, value, dst: None } = kernel.stmts[body].kind else { return None };
    let ExprKind::Load(element) = kernel.exprs[value].kind else { return None };
    let is = |expr: ExprId, var: VarId| matches!(kernel.exprs[expr].kind, ExprKind::Var(v) if v == var);
    let element = &kernel.accesses[element];
    let (Place::Buffer(fragment), &[i, j]) = (element.place, &element.indices[..]) else { return None };
    let whole = kernel.buffer_extents(fragment).iter().map(|extent| Some(i64::from(*extent)));
    if kernel.buffers[fragment].scope != Scope::Fragment
        || kernel.buffer_dtype(fragment) != Dtype::F32
        || !is(i, row)
        || !is(j, col)
        || !whole.eq(extents.iter().map(|extent| kernel.const_index(*extent)))
    {
        return None;
    }
    let target = &kernel.accesses[access];
    let Place::Tensor(tensor) = target.place else { return None };
    let ParamKind::Tensor { dtype: DtypeRef::Is(Dtype::F32), shape, .. } = &kernel.params[tensor].kind else {
        return None;
    };
    let (leading, &[down, across]) = target.indices.split_last_chunk::<2>()?;
    let vars = [row, col];
    let apart = |expr: ExprId| !mentions(kernel, expr, &vars);
    if !leading.iter().all(|index| apart(*index)) {
        return None;
    }
    let start_of = |index: ExprId, var: VarId| match kernel.exprs[index].kind {
        ExprKind::Var(v) if v == var => Some(None),
        ExprKind::Binary(BinaryOp::Add, a, b) if is(b, var) && apart(a) => Some(Some(a)),
        ExprKind::Binary(BinaryOp::Add, a, b) if is(a, var) && apart(b) => Some(Some(b)),
        _ => None,
    };
    let mut start: Vec<Option<ExprId>> = leading.iter().map(|index| Some(*index)).collect();
    start.extend([start_of(down, row)?, start_of(across, col)?]);
    // All that the condition leaves out is beyond an edge of the tensor.
    let mut left: Vec<ExprId> = cond.into_iter().collect();
    while let Some(cond) = left.pop() {
        let edge = |index: &ExprId, extent: &Extent, a: ExprId, b: ExprId| {
            let is_extent = match *extent {
                Extent::Dim(dim) => matches!(kernel.exprs[b].kind, ExprKind::Dim(d) if d == dim),
                Extent::Fixed(extent) => alike(kernel, extent, b),
            };
            is_extent && alike(kernel, *index, a)
        };
        match kernel.exprs[cond].kind {
            ExprKind::Binary(BinaryOp::And, a, b) => left.extend([a, b]),
            ExprKind::Binary(BinaryOp::Lt, a, b)
                if target.indices.iter().zip(shape).any(|(index, extent)| edge(index, extent, a, b)) => {}
            _ => return None,
        }
    }
    Some(AddedTile { fragment, tensor, access, start })
}
