//! Converting loads: a copy into an operand of a product that converts on the way, as TMA cannot do it.
//!
//! Contract. In: a bound kernel whose loops load operands of products from tensors of other element types. Out: kernels that do
//! the same in two steps: the load brings the tile as it is in memory into an array of its own, and a copy behind the loop's loads converts
//! it into the operand. The tiles of the first step fill slots, as any load's do; those of the second are the threads'. What is loaded may
//! be larger than what is multiplied, so there is a kernel for each number of slots, from what the author asks for down to 2.

use super::uses;
use crate::ir::*;
use std::collections::BTreeMap;

/// A kernel whose loads convert in a second step.
pub(super) struct Converting {
    pub(super) kernel: BoundKernel,
    /// What was done, and where.
    pub(super) remarks: Vec<(SpanId, String)>,
}

/// The kernels that a kernel with converting loads may be lowered as, best first, each made when it is asked for; none where no load
/// converts. What fits beside the slots is known only when a kernel has been planned, so the number of slots is not computed.
pub(super) fn converting(kernel: &BoundKernel) -> impl Iterator<Item = Converting> {
    let loads = loads(kernel);
    let most = loads.values().filter_map(|loads| loads.stages).max().unwrap_or(1);
    let least = if loads.is_empty() { most + 1 } else { most.min(2) };
    (least..=most).rev().filter_map(move |stages| rewritten(kernel, &loads, stages))
}

/// The loads of a loop that convert.
struct Loads {
    /// Slots that the author asks for; `None` of a plain loop, which gets what fits.
    stages: Option<u32>,
    /// Statements that lead the body.
    leading: usize,
    copies: Vec<StmtId>,
}

/// The loops with converting loads of operands.
fn loads(kernel: &BoundKernel) -> BTreeMap<StmtId, Loads> {
    let mut operands = Vec::new();
    for stmt in kernel.stmts.values() {
        if let StmtKind::Tile(TileOp::Gemm { a, b, .. }) = &stmt.kind {
            operands.extend([a.buffer, b.buffer]);
        }
    }
    let mut found = BTreeMap::new();
    for stmt in uses::statements(kernel, &kernel.body) {
        let StmtKind::For { var, kind, body, .. } = &kernel.stmts[stmt].kind else { continue };
        let stages = match kind {
            LoopKind::Pipelined { stages, .. } => Some(uses::constant(kernel, *stages).unwrap_or(1)),
            LoopKind::Serial { .. } => None,
            LoopKind::Unroll | LoopKind::Vectorized => continue,
        };
        let leading = pipeline::split(kernel, *var, body).loads;
        let converts = |stmt: &StmtId| {
            let StmtKind::Tile(TileOp::Copy { src, dst, width: None, tma: true, .. }) = &kernel.stmts[*stmt].kind
            else {
                return false;
            };
            let (Place::Tensor(_), Place::Buffer(buffer)) = (src.place, dst.place) else { return false };
            let whole = dst.start.is_empty() && dst.extents.is_empty() && !dst.transposed;
            whole && operands.contains(&buffer) && kernel.place_dtype(src.place) != kernel.place_dtype(dst.place)
        };
        let copies: Vec<StmtId> = body[..leading].iter().copied().filter(converts).collect();
        if !copies.is_empty() {
            found.insert(stmt, Loads { stages, leading, copies });
        }
    }
    found
}

/// The kernel with its loads in two steps, at most `most` slots a loop.
fn rewritten(bound: &BoundKernel, loads: &BTreeMap<StmtId, Loads>, most: u32) -> Option<Converting> {
    let mut kernel: Kernel = (**bound).clone();
    let mut remarks = Vec::new();
    // Behind which declarations others are put.
    let mut declared: BTreeMap<BufferId, StmtId> = BTreeMap::new();
    for (at, Loads { stages, leading, copies }) in loads {
        let slots = stages.map(|asked| (asked.min(most), asked));
        let mut converted = Vec::new();
        for copy in copies {
            let span = kernel.stmts[*copy].span;
            let StmtKind::Tile(TileOp::Copy { src, dst, .. }) = &kernel.stmts[*copy].kind else { return None };
            let (Place::Buffer(operand), from) = (dst.place, src.place) else { return None };
            let (DtypeRef::Is(dtype), tensor) = (kernel.place_dtype(from), kernel.place_name(from).to_string()) else {
                return None;
            };
            let Buffer { name, extents, .. } = &kernel.buffers[operand];
            let fewer = match slots {
                Some((slots, asked)) if slots < asked => {
                    format!(" into {slots} slots, as the {asked} asked for do not fit,")
                }
                _ => String::new(),
            };
            let text = format!(
                "`{tensor}` is loaded as it is in memory, {dtype},{fewer} and converted into `{name}` by the threads that multiply"
            );
            remarks.push((span, text));
            let loaded = Buffer {
                name: format!("{name}_{dtype}"),
                scope: Scope::Shared,
                dtype: DtypeRef::Is(dtype),
                extents: extents.clone(),
                swizzle: SwizzleRequest::Auto,
                span: kernel.buffers[operand].span,
            };
            let loaded = kernel.buffers.push(loaded);
            let alloc = kernel.stmts.push(Stmt { kind: StmtKind::Alloc { buffer: loaded }, span });
            declared.insert(operand, alloc);
            let tile = |buffer: BufferId| TileRef {
                place: Place::Buffer(buffer),
                start: vec![],
                extents: vec![],
                transposed: false,
                span,
            };
            let (from, to) = (tile(loaded), tile(operand));
            if let StmtKind::Tile(TileOp::Copy { dst, .. }) = &mut kernel.stmts[*copy].kind {
                dst.place = Place::Buffer(loaded);
            }
            let convert = TileOp::Copy { src: from, dst: to, width: None, tma: false, evict: None };
            converted.push(kernel.stmts.push(Stmt { kind: StmtKind::Tile(convert), span }));
        }
        let span = kernel.stmts[*at].span;
        let number =
            Expr { kind: ExprKind::Int(i64::from(slots.map_or(1, |(slots, _)| slots))), ty: Type::Index, span };
        let number = kernel.exprs.push(number);
        if let StmtKind::For { kind, body, .. } = &mut kernel.stmts[*at].kind {
            if let LoopKind::Pipelined { stages, .. } = kind {
                *stages = number;
            }
            body.splice(*leading..*leading, converted);
        }
    }
    for (operand, alloc) in declared {
        let at = uses::allocation(&kernel, operand)?;
        uses::put_beside(&mut kernel, at, &[], &[alloc]);
    }
    Some(Converting { kernel: BoundKernel::new(kernel).ok()?, remarks })
}
