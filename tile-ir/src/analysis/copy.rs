//! `copy`: shapes agree, coordinates are shared where the operation is, tiles are in bounds or clipped.

use super::regions::Kind;
use super::vector::merge_need;
use super::walk::Walk;
use super::{Bound, CopyFacts, LaunchNeed, TMA_START_BYTES};
use crate::constraint::{Answer, Poly};
use crate::diag::{Code, Diagnostic};
use crate::ir::{BoundKernel, Dtype, DtypeRef, ExprId, ParamKind, Place, Scope, Side, StmtId, TileRef};

/// Meets a `copy`.
pub(super) fn check(walk: &mut Walk<'_>, stmt: StmtId, src: &TileRef, dst: &TileRef, width: Option<ExprId>) {
    let kernel = walk.kernel;
    let own = |walk: &mut Walk<'_>, tile: &TileRef| -> Option<Vec<Poly>> {
        if !tile.extents.is_empty() {
            Some(walk.index_values(&tile.extents))
        } else if tile.start.is_empty() {
            let mut whole = walk.extents(tile.place);
            if tile.transposed {
                whole.reverse();
            }
            Some(whole)
        } else {
            None
        }
    };
    let (src_extents, dst_extents) = (own(walk, src), own(walk, dst));
    let span = kernel.stmts[stmt].span;
    let mut rows: [Vec<u32>; 2] = Default::default();
    let extents = match (&src_extents, &dst_extents) {
        (Some(a), Some(b)) if trimmed(a) == trimmed(b) => {
            if a.len() >= b.len() {
                a.clone()
            } else {
                b.clone()
            }
        }
        (Some(a), Some(b)) => {
            if let (Some(axes), false) = (axes_of_rows(a, b), src.transposed) {
                rows[0] = axes;
                b.clone()
            } else if let (Some(axes), false) = (axes_of_rows(b, a), src.transposed) {
                rows[1] = axes;
                a.clone()
            } else {
                let message = "copy: the tiles differ in shape";
                let at = format!("{} into {}", shape(walk, src.place, a), shape(walk, dst.place, b));
                let help = if a.len().max(b.len()) > 2 {
                    "give both tiles the same extents, or one of them two: as many rows as the other's axes but the last have together, and its columns"
                } else {
                    "give both tiles the same extents"
                };
                walk.analysis.diagnostics.push(Diagnostic::new(Code::TILE_SHAPE, span, message).at(at).help(help));
                return;
            }
        }
        (Some(a), None) | (None, Some(a)) => a.clone(),
        (None, None) => {
            let message = "copy: neither side gives the tile's extents";
            let help = "copy to or from a whole array, or use `.tile([r0..r1, ..])`";
            walk.analysis.diagnostics.push(Diagnostic::new(Code::TILE_SHAPE, span, message).help(help));
            return;
        }
    };
    let constants: Option<Vec<u32>> =
        extents.iter().map(|e| e.as_constant().and_then(|e| u32::try_from(e).ok()).filter(|e| *e > 0)).collect();
    let Some(constants) = constants else {
        let message = "copy: the tile's extents must be positive constants";
        walk.analysis.diagnostics.push(Diagnostic::new(Code::NOT_CONSTANT, span, message));
        return;
    };
    let shared = [src, dst].into_iter().any(|t| match t.place {
        Place::Buffer(b) => kernel.buffers[b].scope != Scope::Local,
        Place::Tensor(_) => false,
    });
    let of_side = |side: usize| match &rows[side][..] {
        [] => constants.clone(),
        axes => axes.iter().chain(constants.last()).copied().collect(),
    };
    let [of_src, of_dst] = [0, 1].map(of_side);
    walk.touch_tile(src, &of_src, Kind::Read);
    walk.touch_tile(dst, &of_dst, Kind::Write);
    let [mut of_src, of_dst] =
        [of_src, of_dst].map(|of| of.into_iter().map(|extent| Poly::constant(extent.into())).collect::<Vec<_>>());
    if src.transposed {
        of_src.reverse();
    }
    let (src_bounds, src_nonnegative) = side(walk, src, &of_src, shared);
    let (dst_bounds, dst_nonnegative) = side(walk, dst, &of_dst, shared);
    let width = width.and_then(|w| demanded(walk, w, src, dst, &constants));
    // Where data is to be there in time, as much at once as the rows are made of.
    let ahead = width.is_none() && walk.loads_ahead.contains(&stmt);
    let (transaction, wider) =
        if ahead { super::asynchronous::transaction(walk, src, dst, &constants) } else { (None, None) };
    transaction.iter().for_each(|elements| note_need(walk, src, *elements, Some(Side::Reads)));
    let transaction = transaction.or_else(|| pairs(walk, src, dst));
    let even = begins_at(walk, dst, 2);
    let tma_start = [src, dst].map(|tile| match kernel.place_dtype(tile.place) {
        DtypeRef::Is(dtype) => begins_at(walk, tile, i64::from(TMA_START_BYTES / dtype.bytes())),
        DtypeRef::Param(_) => false,
    });
    let facts = CopyFacts {
        extents: constants,
        rows,
        src: src_bounds,
        dst: dst_bounds,
        src_nonnegative,
        dst_nonnegative,
        width,
        transaction,
        wider,
        even: even && !src.transposed,
        tma_start,
    };
    match walk.analysis.copies.get_mut(&stmt) {
        Some(known) => {
            known.src.iter_mut().zip(facts.src).for_each(|(a, b)| *a = (*a).max(b));
            known.dst.iter_mut().zip(facts.dst).for_each(|(a, b)| *a = (*a).max(b));
            known.src_nonnegative.iter_mut().zip(facts.src_nonnegative).for_each(|(a, b)| *a &= b);
            known.dst_nonnegative.iter_mut().zip(facts.dst_nonnegative).for_each(|(a, b)| *a &= b);
            known.transaction = known.transaction.min(facts.transaction);
            known.wider = known.wider.filter(|wider| Some(*wider) == facts.wider);
            known.even &= facts.even;
            known.tma_start.iter_mut().zip(facts.tma_start).for_each(|(a, b)| *a &= b);
        }
        None => {
            walk.analysis.copies.insert(stmt, facts);
        }
    }
}

/// The extents without leading ones.
fn trimmed(extents: &[Poly]) -> &[Poly] {
    let ones = extents.iter().take_while(|e| e.as_constant() == Some(1)).count();
    &extents[ones.min(extents.len().saturating_sub(1))..]
}

/// The axes of the rows of a tile that has more of them than a matrix, if it is one whose rows, in order, are those of `matrix`.
fn axes_of_rows(tile: &[Poly], matrix: &[Poly]) -> Option<Vec<u32>> {
    let constants = |extents: &[Poly]| -> Option<Vec<u32>> {
        extents.iter().map(|e| e.as_constant().and_then(|e| u32::try_from(e).ok()).filter(|e| *e > 0)).collect()
    };
    let (tile, matrix) = (constants(trimmed(tile))?, constants(trimmed(matrix))?);
    let ([axes @ .., columns], [rows, same]) = (&tile[..], &matrix[..]) else { return None };
    let product = axes.iter().try_fold(1u32, |all, axis| all.checked_mul(*axis))?;
    (axes.len() > 1 && columns == same && product == *rows).then(|| axes.to_vec())
}

fn shape(walk: &Walk<'_>, place: Place, extents: &[Poly]) -> String {
    let dtype = match walk.kernel.place_dtype(place) {
        DtypeRef::Is(d) => d.to_string(),
        DtypeRef::Param(_) => "?".into(),
    };
    let extents: Vec<String> = extents.iter().map(|e| walk.show(e).unwrap_or_else(|| "?".into())).collect();
    format!("{dtype}[{}]", extents.join(", "))
}

/// The bounds of one side's axes, and whether each starts at 0 or above.
fn side(walk: &mut Walk<'_>, tile: &TileRef, extents: &[Poly], shared: bool) -> (Vec<Bound>, Vec<bool>) {
    let whole = walk.extents(tile.place);
    let starts =
        if tile.start.is_empty() { vec![Poly::default(); whole.len()] } else { walk.index_values(&tile.start) };
    if shared
        && let Some(at) = starts.iter().position(|p| walk.cx.varies(p).threads != 0)
        && let Some(index) = tile.start.get(at)
    {
        let diagnostic = Diagnostic::new(
            Code::PLACEMENT,
            walk.kernel.exprs[*index].span,
            "copy: the tile's coordinates differ between threads",
        )
        .at("a copy to or from a shared array is one operation of the whole block")
        .help("use coordinates made of block indices, dims and constants, or copy into a local array");
        walk.analysis.diagnostics.push(diagnostic);
    }
    let (place, rank) = (tile.place, whole.len());
    let nonnegative = starts.iter().map(|p| walk.cx.proves(p)).collect();
    let mut bounds = Vec::with_capacity(rank);
    for (axis, (start, extent)) in starts.iter().zip(&whole).enumerate() {
        // The tile's axes are the last ones; leading ones have extent 1.
        let size = (axis + extents.len()).checked_sub(rank).map_or(Poly::constant(1), |a| extents[a].clone());
        let end = start.plus(&size);
        // Where the tile ends may not fit, its coordinates are formed in 64 bits.
        if !end.as_ref().is_some_and(|end| walk.fits(end, tile.span))
            && let Some(&start) = tile.start.get(axis)
        {
            walk.analysis.wide.insert(start);
        }
        let room = end.and_then(|end| extent.minus(&end));
        let inside = room.as_ref().is_some_and(|r| walk.cx.proves(r)) && walk.cx.proves(start);
        bounds.push(if inside { Bound::Proven } else { Bound::Unproven });
        // Arrays of the kernel are not clipped: there is no ragged edge.
        let is_buffer = matches!(place, Place::Buffer(_));
        if !inside && is_buffer && room.is_some_and(|r| walk.cx.nonneg(&r) == Answer::Refuted) {
            let name = walk.kernel.place_name(place).to_owned();
            let (size, extent) = (walk.show(&size).unwrap_or_default(), walk.show(extent).unwrap_or_default());
            let message = format!("copy: the tile does not fit into `{name}`");
            let diagnostic = Diagnostic::new(Code::OUT_OF_BOUNDS, tile.span, message)
                .at(format!("{size} elements on axis {axis}; `{name}` has {extent}"));
            walk.analysis.diagnostics.push(diagnostic);
        }
    }
    (bounds, nonnegative)
}

/// `.width(n)`: a demand, so it must be provable.
fn demanded(walk: &mut Walk<'_>, width: ExprId, src: &TileRef, dst: &TileRef, extents: &[u32]) -> Option<u32> {
    let kernel = walk.kernel;
    let span = kernel.exprs[width].span;
    let value = walk.eval_int(width)?.as_constant();
    let Some(value) = value.filter(|v| *v > 0) else {
        let message = "`.width(n)` needs a positive constant";
        walk.analysis.diagnostics.push(Diagnostic::new(Code::NOT_CONSTANT, span, message));
        return None;
    };
    let inner = extents.last().copied().map_or(1, i64::from);
    if inner % value != 0 {
        let message = format!("copy: rows of {inner} elements are not a multiple of the width {value}");
        walk.analysis.diagnostics.push(Diagnostic::new(Code::VECTOR_SHAPE, span, message));
        return None;
    }
    for tile in [src, dst] {
        let DtypeRef::Is(dtype) = kernel.place_dtype(tile.place) else { continue };
        let bytes = value * i64::from(Dtype::bytes(dtype));
        if matches!(tile.place, Place::Buffer(b) if kernel.buffers[b].scope == Scope::Local) {
            continue;
        }
        if value != 1 && ![2, 4, 8, 16].contains(&bytes) {
            let message = format!("copy: a width of {value} x {dtype} is {bytes} bytes");
            let diagnostic =
                Diagnostic::new(Code::VECTOR_SHAPE, span, message).at("one transaction is 2, 4, 8 or 16 bytes");
            walk.analysis.diagnostics.push(diagnostic);
            return None;
        }
        let name = kernel.place_name(tile.place);
        let culprit = misaligned(walk, tile, value);
        if let Some(culprit) = culprit {
            let text = walk.show(&culprit).filter(|t| !t.contains(' '));
            let mut diagnostic =
                Diagnostic::new(Code::VECTOR_ALIGNMENT, span, format!("{bytes}-byte copy of `{name}` is not aligned"));
            diagnostic = match text.filter(|_| culprit.as_constant().is_none()) {
                Some(text) => diagnostic.at(format!("aligned only if {text} % {value} == 0")).help(format!(
                    "add `require({text} % {value} == 0)` to #[tile_kernel(..)], or drop `.width({value})`"
                )),
                None => diagnostic
                    .at(format!("tiles and rows must start at multiples of {value} elements"))
                    .help(format!("drop `.width({value})`")),
            };
            walk.analysis.diagnostics.push(diagnostic);
            return None;
        }
        note_need(walk, tile, value as u32, None);
    }
    u32::try_from(value).ok()
}

/// A fragment stores neighbours of a row two by two where they are aligned, and the class has it so.
fn pairs(walk: &mut Walk<'_>, src: &TileRef, dst: &TileRef) -> Option<u32> {
    // They lie below one another in the transpose.
    if src.transposed {
        return None;
    }
    let (Place::Buffer(fragment), Place::Tensor(_)) = (src.place, dst.place) else { return None };
    let DtypeRef::Is(dtype) = walk.kernel.place_dtype(dst.place) else { return None };
    let fits = 2 * dtype.bytes() <= walk.kernel.class.writes.bytes();
    if walk.kernel.buffers[fragment].scope != Scope::Fragment || !fits || misaligned(walk, dst, 2).is_some() {
        return None;
    }
    note_need(walk, dst, 2, Some(Side::Writes));
    Some(2)
}

/// Whether a tile's first column is a multiple of `width`.
pub(super) fn begins_at(walk: &mut Walk<'_>, tile: &TileRef, width: i64) -> bool {
    let last = tile.start.last().copied();
    last.is_none_or(|last| {
        let start = walk.index_values(&[last]);
        start.iter().all(|p| walk.cx.divisible(p, width) == Answer::Proven)
    })
}

/// What keeps a tile's rows from starting at multiples of `width` elements, if anything does.
pub(super) fn misaligned(walk: &mut Walk<'_>, tile: &TileRef, width: i64) -> Option<Poly> {
    let whole = walk.extents(tile.place);
    let starts =
        if tile.start.is_empty() { vec![Poly::default(); whole.len()] } else { walk.index_values(&tile.start) };
    let aligned = |p: &&Poly| walk.cx.divisible(p, width) != Answer::Proven;
    [starts.last(), whole.last()].into_iter().flatten().find(aligned).cloned()
}

/// What transactions of `width` elements assume of a tile's tensor, if anything; `request`: that no author demands them.
pub(super) fn need(kernel: &BoundKernel, tile: &TileRef, width: u32, request: Option<Side>) -> Option<LaunchNeed> {
    let (Place::Tensor(tensor), DtypeRef::Is(dtype)) = (tile.place, kernel.place_dtype(tile.place)) else {
        return None;
    };
    if width < 2 {
        return None;
    }
    let rank = match &kernel.params[tensor].kind {
        ParamKind::Tensor { shape, .. } => shape.len(),
        ParamKind::Scalar { .. } | ParamKind::Absent => 0,
    };
    let mut stride_multiple = vec![width; rank];
    if let Some(last) = stride_multiple.last_mut() {
        *last = 1;
    }
    Some(LaunchNeed { tensor, align_bytes: width * dtype.bytes(), stride_multiple, request, span: tile.span })
}

/// Adds what transactions assume to what the launch checks.
fn note_need(walk: &mut Walk<'_>, tile: &TileRef, width: u32, request: Option<Side>) {
    if let Some(need) = need(walk.kernel, tile, width, request) {
        merge_need(&mut walk.analysis.launch_needs, need);
    }
}
