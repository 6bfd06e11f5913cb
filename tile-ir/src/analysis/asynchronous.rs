//! How each load of a pipelined loop reaches shared memory: as asynchronous copies, or, where those do not exist for
//! it, through a register. The second is a lesser form, and is said aloud (TK0603, and a remark of the program).

use super::walk::Walk;
use super::{Analysis, Wider, lints};
use crate::diag::{Code, Diagnostic};
use crate::ir::pipeline::shared_loads;
use crate::ir::{
    BoundKernel, Dtype, DtypeRef, ExprKind, Extent, ParamKind, Place, Scope, StmtId, StmtKind, TileOp, TileRef,
};

/// Bytes that one asynchronous copy moves, widest first.
/// Source: PTX ISA, `cp.async`.
const BYTES: [u32; 3] = [16, 8, 4];

/// How a load of a pipelined loop fills a shared array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharedLoad {
    /// By asynchronous copies of this many elements.
    Asynchronous {
        /// Elements a copy.
        width: u32,
    },
    /// Through a register, when it is issued.
    Synchronous {
        /// Why, as a clause.
        why: String,
    },
}

/// Decides the form of every load, once the accesses and tiles are known.
pub(super) fn decide(kernel: &BoundKernel, analysis: &mut Analysis) {
    for pipelined in shared_loads(kernel) {
        for &stmt in &pipelined.loads {
            let Some(form) = form(kernel, analysis, stmt) else { continue };
            // What its launch decides, its launch says.
            let open = analysis.copies.get(&stmt).is_some_and(|facts| facts.wider.is_some());
            if let SharedLoad::Synchronous { why } = &form
                && !open
                && lints::enabled(kernel, Code::FALLBACK)
            {
                let message = "this load is not asynchronous: it waits for its data when it is issued";
                let diagnostic = Diagnostic::new(Code::FALLBACK, kernel.stmts[stmt].span, message)
                    .at(why.clone())
                    .label(kernel.stmts[pipelined.stmt].span, "the pipelined loop")
                    .help("copy 4, 8 or 16 bytes at a time, of one type: in `vectorized`, or with `.width(n)`");
                analysis.lints.push(diagnostic);
            }
            analysis.shared_loads.insert(stmt, form);
        }
    }
}

fn form(kernel: &BoundKernel, analysis: &Analysis, stmt: StmtId) -> Option<SharedLoad> {
    let kind = &kernel.stmts[stmt].kind;
    if let StmtKind::Store { access, value } = kind {
        let to = kernel.accesses[*access].place;
        if !is_shared(kernel, to) {
            return None;
        }
        let ExprKind::Load(source) = kernel.exprs[*value].kind else {
            let from = kernel.exprs[*value].ty.dtype().map_or_else(|| "?".into(), |d| d.to_string());
            return Some(synchronous(format!("its elements are converted to {from} on the way")));
        };
        let dtype = dtype(kernel, to)?;
        let width = |access| analysis.vectors.get(&access).map_or(1, |v| v.width);
        let (read, written) = (width(source), width(*access));
        if read != written {
            let why = format!("it reads {read} neighbouring elements a thread and writes {written}");
            return Some(synchronous(why));
        }
        return Some(of_width(dtype, written));
    }
    let StmtKind::Tile(TileOp::Copy { src, dst, .. }) = kind else { return None };
    if !is_shared(kernel, dst.place) {
        return None;
    }
    let (from, to) = (dtype(kernel, src.place)?, dtype(kernel, dst.place)?);
    if from != to {
        return Some(synchronous(format!("its elements are converted from {from} to {to} on the way")));
    }
    let facts = analysis.copies.get(&stmt)?;
    Some(of_width(to, facts.width.or(facts.transaction).unwrap_or(1)))
}

fn of_width(dtype: Dtype, width: u32) -> SharedLoad {
    let bytes = width.saturating_mul(dtype.bytes());
    if BYTES.contains(&bytes) {
        return SharedLoad::Asynchronous { width };
    }
    let elements = if width == 1 { "an element".into() } else { format!("{width} elements") };
    synchronous(format!(
        "it copies {elements} of {dtype} at a time, {bytes} bytes; an asynchronous copy has 4, 8 or 16"
    ))
}

fn synchronous(why: String) -> SharedLoad {
    SharedLoad::Synchronous { why }
}

fn is_shared(kernel: &BoundKernel, place: Place) -> bool {
    matches!(place, Place::Buffer(b) if kernel.buffers[b].scope == Scope::Shared)
}

fn dtype(kernel: &BoundKernel, place: Place) -> Option<Dtype> {
    match kernel.place_dtype(place) {
        DtypeRef::Is(dtype) => Some(dtype),
        DtypeRef::Param(_) => None,
    }
}

/// The widest transaction that a tile's rows are made of, in elements, and no wider than the class; `None` if no
/// asynchronous copy is. Then a wider one that only the length of the tensor's rows stands against, which the launch knows.
pub(super) fn transaction(
    walk: &mut Walk<'_>,
    src: &TileRef,
    dst: &TileRef,
    extents: &[u32],
) -> (Option<u32>, Option<Wider>) {
    let Some(element) = dtype(walk.kernel, dst.place).map(Dtype::bytes) else { return (None, None) };
    let inner = extents.last().copied().unwrap_or(1);
    let most = walk.kernel.class.reads.bytes();
    let row = match src.place {
        Place::Tensor(tensor) => match &walk.kernel.params[tensor].kind {
            ParamKind::Tensor { shape, .. } => shape.last().copied(),
            ParamKind::Scalar { .. } | ParamKind::Absent => None,
        },
        Place::Buffer(_) => None,
    };
    let mut wider = None;
    for width in BYTES.iter().filter(|bytes| **bytes <= most).map(|bytes| bytes / element).filter(|width| *width > 0) {
        if !inner.is_multiple_of(width) || super::copy::misaligned(walk, dst, i64::from(width)).is_some() {
            continue;
        }
        if super::copy::misaligned(walk, src, i64::from(width)).is_none() {
            return (Some(width), wider);
        }
        // The tile begins at a multiple: what is not known is where the tensor's rows end.
        if let (None, Some(Extent::Dim(dim))) = (wider, row)
            && walk.kernel.dims[dim].value.is_none()
            && dtype(walk.kernel, src.place) == dtype(walk.kernel, dst.place)
            && super::copy::begins_at(walk, src, i64::from(width))
        {
            wider = Some(Wider { elements: width, dim });
        }
    }
    (None, wider)
}
