//! The shapes where mistakes show: around what a kernel divides its dims by.

use std::collections::BTreeSet;
use tile_ir::ir::{BinaryOp, DimId, DtypeRef, EntityRef, ExprId, ExprKind, Instance, Kernel};

/// No dim is tried above this.
const LARGEST: i64 = 4096;

/// What an expression of constants is worth in an instance.
pub(super) fn constant(kernel: &Kernel, instance: &Instance, expr: ExprId) -> Option<i64> {
    let of = |expr: ExprId| constant(kernel, instance, expr);
    match &kernel.exprs.get(expr)?.kind {
        ExprKind::Int(value) => Some(*value),
        ExprKind::Bool(value) => Some(i64::from(*value)),
        ExprKind::Const(id) => instance.consts.get(id.index()).copied(),
        ExprKind::Bits(DtypeRef::Is(dtype)) => Some(8 * i64::from(dtype.bytes())),
        ExprKind::Bits(DtypeRef::Param(param)) => Some(8 * i64::from(instance.dtypes.get(param.index())?.bytes())),
        ExprKind::Dim(dim) => instance.dim(*dim),
        ExprKind::Var(var) => of(kernel.declared_as(*var)?),
        ExprKind::Binary(op, a, b) => tile_ir::lowered::fold(*op, of(*a)?, of(*b)?),
        _ => None,
    }
}

/// Whether an expression mentions a dim.
fn mentions(kernel: &Kernel, expr: ExprId, dim: DimId) -> bool {
    match kernel.exprs.get(expr).map(|e| &e.kind) {
        Some(ExprKind::Dim(found)) => *found == dim,
        Some(ExprKind::Var(var)) => kernel.declared_as(*var).is_some_and(|value| mentions(kernel, value, dim)),
        Some(ExprKind::Binary(_, a, b)) => mentions(kernel, *a, dim) || mentions(kernel, *b, dim),
        _ => false,
    }
}

/// The numbers that an instance divides a dim by: tiles, and multiples that it requires.
fn divisors(kernel: &Kernel, instance: &Instance, dim: DimId) -> BTreeSet<i64> {
    let divided = kernel.exprs.values().filter_map(|expr| match expr.kind {
        ExprKind::Binary(BinaryOp::CeilDiv | BinaryOp::Div | BinaryOp::Rem, a, b) if mentions(kernel, a, dim) => {
            constant(kernel, instance, b)
        }
        _ => None,
    });
    divided.filter(|divisor| (2..=LARGEST / 2).contains(divisor)).collect()
}

/// The boundary values of a dim, ascending.
pub(super) fn boundary(kernel: &Kernel, instance: &Instance, dim: DimId) -> Vec<i64> {
    let divisors = divisors(kernel, instance, dim);
    let tiles: Vec<i64> = if divisors.is_empty() { vec![4] } else { divisors.iter().copied().collect() };
    let mut values = BTreeSet::from([1]);
    for tile in &tiles {
        for step in tiles.iter().filter(|step| *step <= tile).chain([&1]) {
            values.extend([tile - step, *tile, tile + step, 2 * tile + step]);
        }
    }
    values.into_iter().filter(|value| (1..=LARGEST).contains(value)).collect()
}

/// Shapes made of each dim's values: all at their first, second, .. value together, then each dim's values with the others at
/// their smallest and largest. Small ones first, none twice.
pub(super) fn shapes(values: &[(String, Vec<i64>)]) -> Vec<Vec<(String, i64)>> {
    let at = |choose: &dyn Fn(usize, &[i64]) -> Option<i64>| -> Option<Vec<(String, i64)>> {
        values.iter().enumerate().map(|(dim, (name, all))| Some((name.clone(), choose(dim, all)?))).collect()
    };
    let longest = values.iter().map(|(_, all)| all.len()).max().unwrap_or(0);
    let mut found = BTreeSet::new();
    for step in 0..longest.max(1) {
        // The lists are of different lengths: the shorter ones are stretched.
        let stretched = |all: &[i64]| all.get(step * all.len() / longest.max(1)).copied();
        found.extend(at(&|_, all| stretched(all)));
        for which in 0..values.len() {
            found.extend(at(&|dim, all| if dim == which { stretched(all) } else { all.first().copied() }));
            found.extend(at(&|dim, all| if dim == which { stretched(all) } else { all.last().copied() }));
        }
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|shape| shape.iter().map(|(_, value)| (*value).max(1)).fold(1i64, i64::saturating_mul));
    found
}

/// At most `most` of them, evenly, the first and the last among them.
pub(super) fn spread<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let (count, most) = (all.len(), most.max(2));
    let kept = |i: usize| count <= most || (i * (most - 1)) % (count - 1) < most - 1 || i == count - 1;
    all.into_iter().enumerate().filter(|(i, _)| kept(*i)).map(|(_, item)| item).collect()
}
