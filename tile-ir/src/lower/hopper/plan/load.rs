//! What fills a slot of the ring: a tile of a tensor, the layout it gets, the boxes that bring it.

use super::{Planner, Reason};
use crate::analysis::TMA_START_BYTES;
use crate::ir::parts::parts;
use crate::ir::pipeline::is_read_only;
use crate::ir::*;
use crate::layout::{Operand, Permutation, SharedLayout, TmaPlan};
use crate::lower::channel::{Sharing, holds};
use crate::lower::uses::{depends_on, each};
use std::collections::BTreeMap;

/// One copy into a slot of a channel, or into the array of a tile that stays.
#[derive(Clone, Debug)]
pub(in crate::lower) struct Load {
    /// The copy.
    pub(in crate::lower) stmt: StmtId,
    pub(in crate::lower) tensor: ParamId,
    pub(in crate::lower) buffer: BufferId,
    /// The tile's first element in the tensor.
    pub(in crate::lower) start: Vec<ExprId>,
    pub(in crate::lower) layout: SharedLayout,
    pub(in crate::lower) boxes: TmaPlan,
    /// Which blocks of the cluster need the same tile, if any: each fetches a part and sends it to all.
    pub(in crate::lower) shared: Option<Sharing>,
    /// Whether the previous kernel of the stream does not write the tensor (`pdl`).
    pub(in crate::lower) independent: bool,
    pub(in crate::lower) evict: Option<Evict>,
    pub(in crate::lower) span: SpanId,
}

impl Load {
    /// Whether the tile's coordinates name a variable.
    pub(in crate::lower) fn uses(&self, kernel: &BoundKernel, var: VarId) -> bool {
        self.start.iter().any(|e| depends_on(kernel, *e, &[var]))
    }

    /// How coordinates (innermost first) and byte offset change from one part of a shared tile to the next: parts
    /// follow one another in whole atoms of rows, so the same for every box.
    pub(in crate::lower) fn part_step(&self) -> (Vec<u32>, u32) {
        let first = |part: u32| self.boxes.boxes.iter().find(|b| b.part == part);
        match (first(0), first(1)) {
            (Some(a), Some(b)) => {
                let steps = a.coordinates.iter().zip(&b.coordinates).map(|(a, b)| b.saturating_sub(*a)).collect();
                (steps, b.offset.saturating_sub(a.offset))
            }
            _ => (vec![0; self.boxes.rank()], 0),
        }
    }
}

impl Planner<'_> {
    /// The layout of a slot: the widest swizzle of its rows, unless the author asked for one.
    pub(in super::super) fn tile(&self, buffer: BufferId) -> Result<SharedLayout, String> {
        let kernel = self.kernel;
        let [rows, cols] = kernel.buffer_extents(buffer)[..] else {
            return Err(format!("`{}` is not a matrix", kernel.buffers[buffer].name));
        };
        let dtype = kernel.buffer_dtype(buffer);
        let swizzle = match kernel.buffers[buffer].swizzle {
            SwizzleRequest::Auto => Swizzle::widest(cols * dtype.bytes()),
            SwizzleRequest::Exactly(swizzle) => swizzle,
        };
        SharedLayout::new(rows, cols, dtype, swizzle).map_err(|e| e.to_string())
    }

    /// The layout of an array that a load fills: what multiplies it decides, else the author, else row after row.
    fn slot(&self, buffer: BufferId, operands: &BTreeMap<BufferId, Operand>) -> Result<SharedLayout, String> {
        let kernel = self.kernel;
        if let Some(operand) = operands.get(&buffer) {
            return Ok(operand.tile);
        }
        if matches!(kernel.buffers[buffer].swizzle, SwizzleRequest::Exactly(s) if s != Swizzle::None) {
            return self.tile(buffer);
        }
        let (rows, cols) = match kernel.buffer_extents(buffer)[..] {
            [cols] => (1, cols),
            [rows, cols] => (rows, cols),
            _ => return Err(format!("`{}` has more than two axes", kernel.buffers[buffer].name)),
        };
        SharedLayout::row_major(rows, cols, kernel.buffer_dtype(buffer)).map_err(|e| e.to_string())
    }

    /// A copy from a tensor into a shared array, as TMA makes it, or why it does not. `in_loop`: into a slot of a channel.
    pub(in super::super) fn load(
        &self,
        stmt: StmtId,
        in_loop: bool,
        operands: &BTreeMap<BufferId, Operand>,
    ) -> Result<Load, Reason> {
        let kernel = self.kernel;
        let span = kernel.stmts[stmt].span;
        let no = |text: String| Reason { text, span };
        let StmtKind::Tile(TileOp::Copy { src, dst, tma, evict, .. }) = &kernel.stmts[stmt].kind else {
            return Err(no("a load is no copy".into()));
        };
        let (Place::Tensor(tensor), Place::Buffer(buffer)) = (src.place, dst.place) else {
            return Err(no("a load is no copy from a tensor into an array".into()));
        };
        let evict = evict.as_ref().and_then(Eviction::hint);
        if !*tma {
            return Err(no("a copy says `.tma(false)`".into()));
        }
        if !is_read_only(kernel, tensor) {
            let name = &kernel.params[tensor].name;
            return Err(no(format!(
                "`{name}` is also written by the kernel, and TMA is not ordered with other accesses"
            )));
        }
        if !dst.start.is_empty() {
            return Err(no(format!("a part of `{}` is loaded", kernel.buffers[buffer].name)));
        }
        let layout = self.slot(buffer, operands).map_err(no)?;
        if kernel.place_dtype(src.place) != kernel.place_dtype(Place::Buffer(buffer)) {
            return Err(no(
                "a load converts its elements, which TMA does not: keep the tensor in the dtype of its tile".into(),
            ));
        }
        let Some(facts) = self.analysis.copies.get(&stmt) else {
            return Err(no("a load is not analysed".into()));
        };
        if !facts.tma_start[0] {
            let name = &kernel.params[tensor].name;
            return Err(no(format!(
                "a tile of `{name}` is not known to begin at a multiple of {TMA_START_BYTES} bytes in its row, as TMA needs it"
            )));
        }
        if src.start.iter().any(|start| self.analysis.wide.contains(start)) {
            return Err(no("where a tile begins may not fit the 32 bits that TMA takes".into()));
        }
        let rank = match &kernel.params[tensor].kind {
            ParamKind::Tensor { shape, .. } => shape.len(),
            ParamKind::Scalar { .. } | ParamKind::Absent => 0,
        };
        // The tile has an extent along every axis of the tensor: 1 along leading ones that it does not span.
        let missing = rank.saturating_sub(facts.extents.len());
        let extra = facts.extents.len().saturating_sub(rank);
        let tile: Vec<u32> = std::iter::repeat_n(1, missing).chain(facts.extents[extra..].iter().copied()).collect();
        let start = if src.start.is_empty() { Vec::new() } else { src.start.clone() };
        let axes = std::array::from_fn(|axis| in_loop && self.is_invariant(&start, axis));
        let shared = Sharing::new(self.cluster, axes);
        let parts = shared.map_or(1, |sharing| sharing.blocks());
        let boxes = TmaPlan::new(&tile, &layout, parts).map_err(|e| no(e.to_string()))?;
        let independent = kernel.attributes.dependent.as_ref().is_some_and(|all| all.independent.contains(&tensor));
        Ok(Load { stmt, tensor, buffer, start, layout, boxes, shared, independent, evict, span })
    }

    /// Whether a tile is the same for all blocks of a cluster that differ along `axis` alone, and each of them comes by it equally
    /// often: neither its coordinates nor what decides about the ring mention the grid's index there.
    fn is_invariant(&self, start: &[ExprId], axis: usize) -> bool {
        let kernel = self.kernel;
        if self.cluster[axis] <= 1 {
            return false;
        }
        let mut indices: Vec<VarId> = kernel.grid.get(axis).map(|a| a.var).into_iter().collect();
        for stmt in kernel.stmts.values() {
            if let StmtKind::Persistent { vars, .. } = &stmt.kind {
                indices.extend(vars.get(axis));
            }
        }
        !start.iter().any(|e| depends_on(kernel, *e, &indices))
            && self.deciding().into_iter().all(|e| self.is_the_clusters(e, &indices))
    }

    /// What decides how often the loops that load are executed: their bounds, the bounds of the loops and the conditions around them.
    fn deciding(&self) -> Vec<ExprId> {
        let kernel = self.kernel;
        let loops: Vec<StmtId> = self.loops.iter().map(|l| l.stmt).collect();
        let mut all = Vec::new();
        each(kernel, &kernel.body, &mut |stmt| {
            let kind = &kernel.stmts[stmt].kind;
            // How many tiles there are is the launch's.
            let tiles = matches!(kind, StmtKind::Persistent { .. });
            let around = |body: &[StmtId]| holds(kernel, body, &loops);
            if !tiles && (loops.contains(&stmt) || kind.bodies().into_iter().any(around)) {
                all.extend(kind.values());
            }
        });
        all
    }

    /// Whether blocks of a cluster that differ in these indices alone find the same value: it is made of none of them, no variable that is assigned,
    /// and of memory only what the kernel does not write.
    fn is_the_clusters(&self, expr: ExprId, indices: &[VarId]) -> bool {
        let kernel = self.kernel;
        if depends_on(kernel, expr, indices) {
            return false;
        }
        let (mut seen, mut left, mut same) = (Vec::new(), vec![expr], true);
        while let Some(expr) = left.pop() {
            parts(kernel, expr, &mut |kind| match kind {
                ExprKind::Load(access) => {
                    same &= matches!(kernel.accesses[*access].place, Place::Tensor(param)
                        if matches!(kernel.params[param].kind, ParamKind::Tensor { mutable: false, .. }));
                }
                ExprKind::Var(var) if !seen.contains(var) => {
                    seen.push(*var);
                    same &= kernel.vars[*var].kind != VarKind::Mut;
                    left.extend(kernel.declared_as(*var));
                }
                _ => {}
            });
        }
        same
    }
}
