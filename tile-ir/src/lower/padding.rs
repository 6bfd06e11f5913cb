//! Tiles that fill up a cluster, beyond the edge of the author's grid: they have no effects.
//!
//! Contract. In: a grid whose extents need not be multiples of the cluster's. Out: the indices of a tile are bound, a block
//! whose tile is padding takes part in everything that the cluster does together (multicast loads, barriers, registers),
//! and changes nothing that outlives it. What the analysis proved, it proved for indices within the grid; so a padding tile
//! has those of the last tile on the axes that it leaves, does that tile's work, and every effect of its own is predicated
//! away: stores, atomic operations, TMA's stores, prints and assertions. What it would read of tensors that
//! the kernel writes is 0, since the block that has the tile may be writing it.
//!
//! Where nothing a padding tile does can be seen anyway (its tiles lie outside of the tensors they are copied to, and what
//! it reads is clipped), it keeps its own indices, and nothing is predicated: that is what a plain GEMM needs.

use super::builder::Builder;
use super::uses::{accesses, depends_on, statements};
use super::*;
use crate::analysis::Bound;

impl Lowering<'_> {
    /// Binds the author's grid indices to a tile; those that are `None` are not wanted.
    pub(super) fn bind_tile(&mut self, vars: &[Option<VarId>], extents: &[ExprId], tile: [ValueId; 3]) {
        let axes = self.padded_axes(extents);
        let harmless = axes.iter().all(|axis| *axis < vars.len()) && self.padding_is_harmless(extents, &axes);
        let mut inside = None;
        let first = self.program.tiles.len();
        for (axis, value) in tile.into_iter().enumerate() {
            let (var, pads) = (vars.get(axis).copied().flatten(), axes.contains(&axis) && !harmless);
            if var.is_none() && !pads {
                continue;
            }
            let name = var.map_or_else(|| "tile_index".to_owned(), |var| self.kernel.vars[var].name.clone());
            let index = self.reg(&if pads { format!("{name}_padded") } else { name.clone() }, ValueType::Index, false);
            self.define(index, value);
            let extent = extents.get(axis);
            if let Some(extent) = extent.map_or(Some(HostExpr::Int(1)), |extent| HostExpr::of(self.kernel, *extent)) {
                self.program.tiles.push(TileIndex { index, extent, inside: None });
            }
            let mut bound = index;
            if pads {
                let extent = match extent {
                    Some(extent) => self.value(*extent),
                    None => self.int(1),
                };
                inside = Some(self.joined(BinaryOp::And, inside, index.below(extent)));
                let nearest = self.binary(BinaryOp::Min, index, extent - 1);
                bound = self.reg(&name, ValueType::Index, false);
                self.define(bound, nearest);
            }
            if let Some(var) = var {
                self.vars[var] = Some(Binding::Reg(bound));
            }
        }
        if let Some(inside) = inside {
            let reg = self.reg("inside", ValueType::BOOL, false);
            self.define(reg, inside);
            for tile in &mut self.program.tiles[first..] {
                tile.inside = Some(reg);
            }
        }
    }

    /// The axes on which a cluster may reach beyond the grid.
    fn padded_axes(&self, extents: &[ExprId]) -> Vec<usize> {
        let cluster = self.cluster();
        let pads = |axis: &usize| {
            let (by, extent) = (i64::from(cluster[*axis]), extents.get(*axis));
            by > 1 && extent.is_none_or(|e| self.kernel.const_index(*e).is_none_or(|tiles| tiles % by != 0))
        };
        (0..3).filter(pads).collect()
    }

    /// Whether nothing of what a padding tile does can be seen, and nothing it does leaves a tensor.
    fn padding_is_harmless(&self, extents: &[ExprId], axes: &[usize]) -> bool {
        let kernel = self.kernel;
        let grid = || kernel.grid.iter().map(|a| a.var).collect();
        let vars: Vec<VarId> = kernel.persistent().map_or_else(grid, |tiles| tiles.vars.to_vec());
        let padded: Vec<(VarId, ExprId)> =
            axes.iter().filter_map(|axis| Some((*vars.get(*axis)?, *extents.get(*axis)?))).collect();
        let of: Vec<VarId> = padded.iter().map(|(var, _)| *var).collect();
        let is_tensor = |access: AccessId| matches!(kernel.accesses[access].place, Place::Tensor(_));
        let changes_nothing = |part: StmtPart<'_>| match part {
            StmtPart::Element(access, touch) => !touch.writes() || !is_tensor(access),
            StmtPart::Tile(tile, touch) => match tile.place {
                Place::Tensor(tensor) if touch.writes() => {
                    padded.iter().all(|(var, extent)| self.lies_beyond(tensor, tile, *var, *extent))
                }
                Place::Tensor(_) | Place::Buffer(_) => true,
            },
            StmtPart::Report => false,
            StmtPart::Value(_) | StmtPart::Constant(_) | StmtPart::Array(..) | StmtPart::Body(_) => true,
            StmtPart::Binds(_) | StmtPart::Sets(_) | StmtPart::BlockCollective | StmtPart::WarpCollective => true,
            StmtPart::BlockBarrier | StmtPart::WarpBarrier => true,
        };
        let stays_inside = |stmt: StmtId| {
            let StmtKind::Tile(TileOp::Copy { src, dst, .. }) = &kernel.stmts[stmt].kind else { return true };
            // TMA clips what it loads into slots.
            if matches!(src.place, Place::Buffer(_)) || matches!(kernel.scope_of(dst.place), None | Some(Scope::Shared))
            {
                return true;
            }
            let facts = self.analysis.copies.get(&stmt);
            src.start.iter().enumerate().all(|(axis, start)| {
                !depends_on(kernel, *start, &of)
                    || facts.is_some_and(|f| f.src.get(axis).is_some_and(|bound| *bound != Bound::Proven))
            })
        };
        let harmless =
            |stmt: StmtId| kernel.stmts[stmt].kind.parts().into_iter().all(changes_nothing) && stays_inside(stmt);
        statements(kernel, &kernel.body).into_iter().all(harmless)
            && accesses(kernel, &kernel.body).into_iter().filter(|access| is_tensor(*access)).all(|access| {
                let indices = kernel.accesses[access].indices.iter().enumerate();
                let mut moved = indices.filter(|(_, index)| depends_on(kernel, **index, &of));
                moved.all(|(axis, _)| kernel.accesses[access].masked && !self.analysis.axis_in_bounds(access, axis))
            })
    }

    /// Whether a tile of a tensor whose index on a grid axis is at least the axis's extent begins beyond the tensor: it
    /// begins at `var * c`, and `extent` is the tensor's, divided by at most `c`.
    fn lies_beyond(&self, tensor: ParamId, dst: &TileRef, var: VarId, extent: ExprId) -> bool {
        let kernel = self.kernel;
        dst.start.iter().enumerate().any(|(axis, start)| {
            let Some(scale) = self.multiple_of(*start, var) else { return false };
            let (covered, by) = match &kernel.exprs[extent].kind {
                ExprKind::Binary(BinaryOp::CeilDiv, covered, by) => match kernel.const_index(*by) {
                    Some(by) if by >= 1 => (*covered, by),
                    _ => return false,
                },
                _ => (extent, 1),
            };
            let reaches = match self.tensor_extent(tensor, axis) {
                Some(Extent::Dim(dim)) => kernel.exprs[covered].kind == ExprKind::Dim(dim),
                Some(Extent::Fixed(fixed)) => match (kernel.const_index(fixed), kernel.const_index(covered)) {
                    (Some(fixed), Some(covered)) => covered >= fixed,
                    _ => false,
                },
                None => false,
            };
            reaches && scale >= by
        })
    }

    /// `c` where an expression is `var * c`.
    fn multiple_of(&self, expr: ExprId, var: VarId) -> Option<i64> {
        let kernel = self.kernel;
        match &kernel.exprs[expr].kind {
            ExprKind::Var(v) if *v == var => Some(1),
            ExprKind::Var(v) if kernel.vars[*v].kind == VarKind::Let => self.multiple_of(kernel.declared_as(*v)?, var),
            ExprKind::Binary(BinaryOp::Mul, a, b) => match (kernel.const_index(*a), kernel.const_index(*b)) {
                (_, Some(by)) => self.multiple_of(*a, var)?.checked_mul(by),
                (Some(by), _) => self.multiple_of(*b, var)?.checked_mul(by),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The program without the effects of padding tiles.
///
/// In: a program whose [`TileIndex`]es say in which registers it stands that a tile is the author's. Out: what outlives the block
/// happens where that register holds.
///
/// # Errors
/// A mistake of the compiler.
pub fn padding(program: Program) -> Result<Program, Vec<Diagnostic>> {
    let insides: BTreeSet<RegId> = program.tiles.iter().filter_map(|tile| tile.inside).collect();
    if insides.is_empty() {
        return Ok(program);
    }
    Builder::rewrite(program, |builder, ops| builder.predicated(ops, &insides, None))
}

impl Builder {
    /// `ops` whose effects happen where `inside` holds, or what it is replaced by on the way.
    fn predicated(&mut self, ops: Vec<Op>, insides: &BTreeSet<RegId>, mut inside: Option<RegId>) -> Vec<Op> {
        let mut all = Vec::with_capacity(ops.len());
        for Op { mut kind, span } in ops {
            self.span = span;
            if let OpKind::Let { reg, .. } = &kind
                && insides.contains(reg)
            {
                inside = Some(*reg);
                all.push(Op { kind, span });
                continue;
            }
            for body in kind.bodies_mut() {
                *body = self.predicated(std::mem::take(body), insides, inside);
            }
            let Some(inside) = inside else {
                all.push(Op { kind, span });
                continue;
            };
            for value in kind.values() {
                self.unread(value, inside);
            }
            let ops = self.nested(|l| l.op_inside(kind, inside));
            all.extend(ops);
        }
        all
    }

    /// One operation, whose effect happens inside of the grid alone.
    fn op_inside(&mut self, kind: OpKind, inside: RegId) {
        let span = self.span;
        let one = |kind| vec![Op { kind, span }];
        if let OpKind::VectorLoad { local, start, memory, width } = kind
            && self.is_written(&memory)
        {
            let cond = self.read(inside);
            let ty = ValueType::Element(self.program.locals[local].dtype);
            let otherwise = self.nested(|l| {
                for element in 0..width {
                    let value = l.zero(ty);
                    l.put(local, start + element, value);
                }
            });
            return self.op(OpKind::If { cond, then: one(kind), otherwise });
        }
        if !kind.outlives_block(&self.program) {
            return self.op(kind);
        }
        let cond = self.read(inside);
        let OpKind::Atomic { op, memory, value, old: Some(old), ordered } = kind else {
            return self.guarded(cond, one(kind));
        };
        // Its old value is 0 where it does not happen.
        let Reg { name, ty, .. } = self.program.regs[old].clone();
        let found = self.reg(&name, ty, false);
        let zero = self.zero(ty);
        self.program.regs[old].mutable = true;
        self.define(old, zero);
        let then = self.nested(|l| {
            l.op(OpKind::Atomic { op, memory, value, old: Some(found), ordered });
            l.set(old, found);
        });
        self.guarded(cond, then);
    }

    /// Makes the loads in a value from tensors that the kernel writes 0 outside of the grid.
    fn unread(&mut self, value: ValueId, inside: RegId) {
        let kind = self.program.values[value].kind.clone();
        // One that is done already.
        if matches!(kind, ValueKind::Choose(cond, ..) if self.program.values[cond].kind == ValueKind::Reg(inside)) {
            return;
        }
        kind.operands().into_iter().for_each(|operand| self.unread(operand, inside));
        if let ValueKind::Load(memory) = kind
            && self.is_written(&memory)
        {
            let ty = self.program.values[value].ty;
            let load = self.push(ValueKind::Load(memory), ty);
            let (cond, zero) = (self.read(inside), self.zero(ty));
            self.program.values[value].kind = ValueKind::Choose(cond, load, zero);
        }
    }

    fn is_written(&self, memory: &Memory) -> bool {
        self.program.tensor(memory.space).is_some_and(|tensor| tensor.mutable)
    }
}
