//! What a producer loads: tiles of tensors, and the layouts and boxes by which TMA brings them.

use super::{Load, Planner, Reason, Transport};
use crate::analysis::{CopyFacts, TMA_START_BYTES};
use crate::ir::pipeline::is_read_only;
use crate::ir::*;
use crate::layout::{Operand, Permutation, SharedLayout, TmaPlan};
use crate::lower::channel::{Sharing, holds};
use crate::lower::uses::{depends, depends_on, loaded, statements};
use std::collections::BTreeMap;

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

    /// The layout of a slot whose rows run along M or N, as `wgmma` reads it. Rows that are whole sectors of 32 bytes and no more would be fetched
    /// sector by sector, each in a box of its own; they are padded instead, so that a box has two sectors or more. Rows of at most 128 bytes are not:
    /// the padding would be a third of what is fetched, or more.
    pub(super) fn tile_across(&self, buffer: BufferId) -> Result<SharedLayout, String> {
        let kernel = self.kernel;
        let loaded = self.loops.iter().any(|at| at.loads.iter().any(|stmt| self.fills(*stmt, buffer)));
        match kernel.buffer_extents(buffer)[..] {
            [rows, cols]
                if loaded
                    && kernel.buffers[buffer].swizzle == SwizzleRequest::Auto
                    && cols * kernel.buffer_dtype(buffer).bytes() > Swizzle::B128.span() =>
            {
                let dtype = kernel.buffer_dtype(buffer);
                let swizzle = Swizzle::widest((cols * dtype.bytes()).next_multiple_of(Swizzle::B64.span()));
                SharedLayout::padded(rows, cols, dtype, swizzle).map_err(|e| e.to_string())
            }
            _ => self.tile(buffer),
        }
    }

    /// The layout of an array that a load fills: what multiplies it decides, else the author, else row after row.
    fn slot(&self, buffer: BufferId, operands: &BTreeMap<BufferId, Operand>) -> Result<SharedLayout, String> {
        let kernel = self.kernel;
        if let Some(operand) = operands.get(&buffer) {
            return Ok(operand.tile);
        }
        if kernel.buffers[buffer].swizzle.is_of_rows() {
            return self.tile(buffer);
        }
        let (rows, cols) = match kernel.buffer_extents(buffer)[..] {
            [cols] => (1, cols),
            [rows, cols] => (rows, cols),
            _ => return Err(format!("`{}` has more than two axes", kernel.buffers[buffer].name)),
        };
        SharedLayout::row_major(rows, cols, kernel.buffer_dtype(buffer)).map_err(|e| e.to_string())
    }

    /// A copy from a tensor into a shared array that a producer can make, or why it cannot. `by`: how it makes it.
    pub(super) fn load(
        &self,
        stmt: StmtId,
        by: impl FnOnce(&CopyFacts, [&TileRef; 2], (ParamId, BufferId)) -> Result<Transport, String>,
    ) -> Result<Load, Reason> {
        let kernel = self.kernel;
        let span = kernel.stmts[stmt].span;
        let no = |text: &str| Reason { text: text.to_owned(), span };
        let StmtKind::Tile(TileOp::Copy { src, dst, tma, evict, .. }) = &kernel.stmts[stmt].kind else {
            return Err(no("a load is no copy"));
        };
        let (Place::Tensor(tensor), Place::Buffer(buffer)) = (src.place, dst.place) else {
            return Err(no("a load is no copy from a tensor into an array"));
        };
        let Some(facts) = self.analysis.copies.get(&stmt) else { return Err(no("a load is not analysed")) };
        if !*tma {
            return Err(no("a copy says `.tma(false)`"));
        }
        if !is_read_only(kernel, tensor) {
            let name = &kernel.params[tensor].name;
            return Err(no(&format!(
                "`{name}` is also written by the kernel, and a producer's loads are not ordered with other accesses"
            )));
        }
        if kernel.place_dtype(src.place) != kernel.place_dtype(dst.place) {
            let text = "a load converts its elements, which TMA does not: keep the tensor in the dtype of its tile";
            return Err(no(text));
        }
        if src.start.iter().any(|start| self.analysis.wide.contains(start)) {
            return Err(no("where a tile begins may not fit the 32 bits that a producer's loads take"));
        }
        let transport = by(facts, [src, dst], (tensor, buffer)).map_err(|text| no(&text))?;
        let independent = kernel.attributes.dependent.as_ref().is_some_and(|all| all.independent.contains(&tensor));
        let evict = evict.as_ref().and_then(Eviction::hint);
        let dtype = kernel.buffer_dtype(buffer);
        let elements = match &transport {
            Transport::Boxes { layout, .. } => layout.bytes() / dtype.bytes(),
            Transport::Rows(_) => u32::try_from(kernel.buffer_len(buffer)).unwrap_or(u32::MAX),
        };
        Ok(Load { stmt, tensor, buffer, dtype, elements, src: src.clone(), transport, independent, evict, span })
    }

    /// A copy as TMA makes it. `in_loop`: into a slot of a channel.
    pub(in super::super) fn load_boxes(
        &self,
        stmt: StmtId,
        in_loop: bool,
        operands: &BTreeMap<BufferId, Operand>,
    ) -> Result<Load, Reason> {
        let kernel = self.kernel;
        self.load(stmt, |facts, [src, dst], (tensor, buffer)| {
            if !dst.start.is_empty() {
                return Err(format!("a part of `{}` is loaded", kernel.buffers[buffer].name));
            }
            let layout = self.slot(buffer, operands)?;
            if !facts.tma_start[0] {
                let name = &kernel.params[tensor].name;
                return Err(format!(
                    "a tile of `{name}` is not known to begin at a multiple of {TMA_START_BYTES} bytes in its row, as TMA needs it"
                ));
            }
            let axes = std::array::from_fn(|axis| in_loop && self.is_invariant(&src.start, axis));
            let shared = Sharing::new(self.cluster, axes);
            let parts = shared.map_or(1, |sharing| sharing.blocks());
            let boxes = TmaPlan::new(&facts.of_src(), &layout, parts).map_err(|e| e.to_string())?;
            Ok(Transport::Boxes { layout, boxes, shared })
        })
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
        let mut all = statements(kernel, &kernel.body);
        // How many tiles there are is the launch's.
        all.retain(|stmt| {
            !matches!(kernel.stmts[*stmt].kind, StmtKind::Persistent { .. }) && holds(kernel, &[*stmt], &loops)
        });
        all.into_iter().flat_map(|stmt| kernel.stmts[stmt].kind.values()).collect()
    }

    /// Whether blocks of a cluster that differ in these indices alone find the same value: it is made of none of them, no variable that is assigned,
    /// and of memory only what the kernel does not write.
    fn is_the_clusters(&self, expr: ExprId, indices: &[VarId]) -> bool {
        let kernel = self.kernel;
        if depends_on(kernel, expr, indices) {
            return false;
        }
        let is_constant =
            |access: AccessId| matches!(kernel.accesses[access].place, Place::Tensor(of) if is_read_only(kernel, of));
        let (mut seen, mut left, mut same) = (Vec::new(), vec![expr], true);
        while let Some(expr) = left.pop() {
            same &= loaded(kernel, expr).into_iter().all(is_constant);
            for var in depends(kernel, expr) {
                if !seen.contains(&var) {
                    seen.push(var);
                    same &= kernel.vars[var].kind != VarKind::Mut;
                    left.extend(kernel.declared_as(var));
                }
            }
        }
        same
    }
}
