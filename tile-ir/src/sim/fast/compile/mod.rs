//! A bound kernel to bytecode, for one launch: dims and scalars are constants here.
//!
//! `expr` compiles expressions, this file statements. Temporaries are freed as soon as they are read, so that a
//! kernel's registers stay in the host's cache.

mod declare;
mod expr;
mod pool;

use super::code::{
    ArrayInfo, Code, CopyPlan, GemmOperand, GemmPlan, Kind, Loc, MaskId, ReducePlan, Repr, Step, Target, TileReduction,
    TileSide,
};
use super::launch::Launch;
use super::uniform::Uniformity;
use crate::ir::{
    BoundKernel, BufferId, ExprId, MatrixRef, ReduceOp, ReduceSource, Reduction, SecondaryMap, SpanId, StmtId,
    StmtKind, TileOp, TileRef, VarId, VarKind, reduction::WARP,
};
use crate::sim::SimError;
use pool::Pools;

/// Compiles `kernel` for a launch.
pub(super) fn compile(kernel: &BoundKernel, launch: &Launch<'_>) -> Result<Code, SimError> {
    let mut c = Compiler {
        kernel,
        launch,
        uniform: Uniformity::new(kernel, launch.threads),
        pools: Pools::default(),
        vars: SecondaryMap::new(),
        arrays: SecondaryMap::new(),
        shared: Vec::new(),
        locals: Vec::new(),
        block_vars: Vec::new(),
        thread_vars: Vec::new(),
    };
    let mut body = Vec::new();
    c.statements(&kernel.body, MaskId::ALL, &mut body)?;
    Ok(Code {
        body,
        floats: c.pools.floats.size(),
        ints: c.pools.ints.size(),
        indices: c.pools.indices.size(),
        bools: c.pools.bools.size(),
        masks: c.pools.masks(),
        shared: c.shared,
        locals: c.locals,
        block_vars: c.block_vars,
        thread_vars: c.thread_vars,
    })
}

struct Compiler<'k, 'a> {
    kernel: &'k BoundKernel,
    launch: &'k Launch<'a>,
    uniform: Uniformity<'k>,
    pools: Pools,
    vars: SecondaryMap<VarId, Option<Loc>>,
    arrays: SecondaryMap<BufferId, Option<Target>>,
    shared: Vec<ArrayInfo>,
    locals: Vec<ArrayInfo>,
    block_vars: Vec<(u8, u32)>,
    thread_vars: Vec<(u8, u32)>,
}

/// An expression's value.
#[derive(Clone, Copy, Debug)]
struct Value {
    repr: Repr,
    loc: Loc,
    /// A temporary: the reader frees it. Otherwise a variable or a constant.
    temp: bool,
}

fn malformed<T>(what: impl Into<String>) -> Result<T, SimError> {
    Err(SimError::Malformed(what.into()))
}

impl Compiler<'_, '_> {
    fn statements(&mut self, stmts: &[StmtId], mask: MaskId, out: &mut Vec<Step>) -> Result<(), SimError> {
        stmts.iter().try_for_each(|stmt| self.statement(*stmt, mask, out))
    }

    fn statement(&mut self, stmt: StmtId, mask: MaskId, out: &mut Vec<Step>) -> Result<(), SimError> {
        let Some(stmt) = self.kernel.stmts.get(stmt) else { return malformed("a statement is missing") };
        let span = stmt.span;
        match &stmt.kind {
            StmtKind::Let { var, value: Some(value) } | StmtKind::Assign { var, value } => {
                let value = self.expr(*value, mask, out)?;
                self.assign(*var, value, mask, out)
            }
            StmtKind::Let { var, value: None } => {
                // Reading it before it is assigned is an error of the kernel; 0 makes it the same error every time.
                let (kind, loc) = (self.var_repr(*var)?.kind(), self.var(*var)?);
                match loc {
                    Loc::Lanes(first) => out.push(Step::Clear { kind, first, count: 1, mask }),
                    Loc::Scalar(_) => {
                        let src = self.pools.zero(kind);
                        out.push(Step::Set { kind, dst: loc, src, mask, owned: false });
                    }
                }
                Ok(())
            }
            StmtKind::Alloc { buffer } => {
                match self.array(*buffer)? {
                    Target::Shared(shared) => out.push(Step::ClearShared { shared }),
                    Target::Local(local) => {
                        let ArrayInfo { dtype, first, len, .. } = self.locals[local as usize];
                        out.push(Step::Clear { kind: Kind::of_dtype(dtype), first, count: len, mask });
                    }
                    Target::Tensor(_) => {}
                }
                Ok(())
            }
            StmtKind::Store { access, value } => {
                let value = self.expr(*value, mask, out)?;
                let to = self.element(*access, mask, out)?;
                self.free_element(&to);
                self.free(value);
                out.push(Step::Store { to, value: value.loc, mask });
                Ok(())
            }
            StmtKind::If { cond, then, otherwise } => self.conditional(*cond, then, otherwise, mask, out),
            StmtKind::For { var, start, end, step, body, .. } => {
                self.for_loop(*var, [*start, *end, *step], body, mask, span, out)
            }
            StmtKind::Parallel { vars, extents, body } => {
                let extents = self.uniform_indices(extents, mask, out)?;
                let mut registers = Vec::new();
                for var in vars {
                    match self.var(*var)? {
                        Loc::Lanes(register) => registers.push(register),
                        Loc::Scalar(_) => return malformed("a parallel index is uniform"),
                    }
                }
                let inner = self.pools.mask();
                let mut steps = Vec::new();
                self.statements(body, inner, &mut steps)?;
                self.pools.free_mask(inner);
                let locs = extents.iter().map(|e| e.loc).collect();
                extents.into_iter().for_each(|e| self.free(e));
                out.push(Step::Parallel { vars: registers, extents: locs, mask, inner, span, body: steps });
                Ok(())
            }
            StmtKind::Tile(TileOp::Copy { src, dst, .. }) => self.copy(src, dst, mask, span, out),
            StmtKind::Tile(TileOp::Gemm { a, b, acc, clear, precision, grouped, .. }) => {
                let array = |c: &mut Self, buffer: BufferId| match c.array(buffer)? {
                    Target::Shared(array) => Ok(array),
                    Target::Local(_) | Target::Tensor(_) => malformed("a `gemm` of what the block has not one of"),
                };
                let operand = |c: &mut Self, m: &MatrixRef| {
                    Ok(GemmOperand { array: array(c, m.buffer)?, transposed: m.transposed })
                };
                let (a, b) = (operand(self, a)?, operand(self, b)?);
                let (acc, grouped) = (array(self, *acc)?, *grouped);
                let plan = GemmPlan { a, b, acc, clear: *clear, precision: *precision, grouped, span };
                out.push(Step::Gemm { plan: Box::new(plan), mask });
                Ok(())
            }
            StmtKind::Tile(TileOp::Clamp { .. }) => malformed("a `clamp` in a bound kernel"),
            StmtKind::Tile(TileOp::ReduceTile { op, src, dst, axis }) => {
                let array = |c: &mut Self, buffer: BufferId| match c.array(buffer)? {
                    Target::Shared(array) => Ok(array),
                    Target::Local(_) | Target::Tensor(_) => malformed("a `reduce` of what the block has not one of"),
                };
                let (src, dst) = (array(self, *src)?, array(self, *dst)?);
                let plan = TileReduction { op: *op, src, dst, axis: *axis, span };
                out.push(Step::ReduceTile { plan: Box::new(plan), mask });
                Ok(())
            }
            StmtKind::Tile(TileOp::ClusterReduce { op, tile }) => {
                let Target::Shared(tile) = self.array(*tile)? else {
                    return malformed("a `cluster_reduce` of what the block has not one of");
                };
                out.push(Step::ClusterReduce { op: *op, tile, mask, span });
                Ok(())
            }
            StmtKind::Tile(TileOp::ClusterExchange { src, dst }) => {
                let (Target::Shared(src), Target::Shared(dst)) = (self.array(*src)?, self.array(*dst)?) else {
                    return malformed("a `cluster_exchange` of what the block has not one of");
                };
                out.push(Step::ClusterExchange { src, dst, mask, span });
                Ok(())
            }
            // A block a tile: the launch's grid is the loop's.
            StmtKind::Persistent { vars, body, .. } => {
                for (axis, var) in vars.iter().enumerate() {
                    match self.var(*var)? {
                        Loc::Scalar(scalar) => self.block_vars.push((axis as u8, scalar)),
                        Loc::Lanes(_) => return malformed("a persistent index differs between threads"),
                    }
                }
                self.statements(body, mask, out)
            }
            StmtKind::Tile(TileOp::Fill { buffer, value }) => {
                let value = self.expr(*value, mask, out)?;
                match self.array(*buffer)? {
                    Target::Shared(shared) => out.push(Step::FillShared { shared, value: value.loc, mask, span }),
                    Target::Local(local) => {
                        let ArrayInfo { dtype, first, len, .. } = self.locals[local as usize];
                        let kind = Kind::of_dtype(dtype);
                        for register in first..first + len {
                            let dst = Loc::Lanes(register);
                            out.push(Step::Set { kind, dst, src: value.loc, mask, owned: false });
                        }
                    }
                    Target::Tensor(_) => return malformed("a fill of a tensor"),
                }
                self.free(value);
                Ok(())
            }
            StmtKind::Reduce { op, src, dst, axis } => self.reduce(*op, *src, *dst, *axis, mask, span, out),
            StmtKind::Shuffle { kind, value, lane, dst } => {
                let value = self.expr(*value, mask, out)?;
                let lane = self.expr(*lane, mask, out)?;
                let result = self.pools.lanes(value.repr.kind());
                out.push(Step::Shuffle {
                    shuffle: *kind,
                    value: value.repr,
                    dst: result,
                    src: value.loc,
                    lane: lane.loc,
                    lane_repr: lane.repr,
                    mask,
                    span,
                });
                self.free(lane);
                self.free(value);
                let result = Value { repr: value.repr, loc: Loc::Lanes(result), temp: true };
                self.assign(*dst, result, mask, out)
            }
            StmtKind::Vote { kind, pred, dst } => {
                let pred = self.expr(*pred, mask, out)?;
                let repr = self.var_repr(*dst)?;
                let register = self.pools.lanes(repr.kind());
                out.push(Step::Vote { vote: *kind, pred: pred.loc, dst: register, mask, span });
                self.free(pred);
                self.assign(*dst, Value { repr, loc: Loc::Lanes(register), temp: true }, mask, out)
            }
            StmtKind::LastArriver { access, count, dst } => {
                let count = self.expr(*count, mask, out)?;
                let to = self.element(*access, mask, out)?;
                let repr = self.var_repr(*dst)?;
                let register = self.pools.lanes(repr.kind());
                self.free_element(&to);
                out.push(Step::LastArriver { to, count: count.loc, dst: register, mask, span });
                self.free(count);
                self.assign(*dst, Value { repr, loc: Loc::Lanes(register), temp: true }, mask, out)
            }
            StmtKind::Atomic { op, access, value, dst } => {
                let value = self.expr(*value, mask, out)?;
                let to = self.element(*access, mask, out)?;
                let old = dst.map(|var| self.var(var)).transpose()?;
                self.free_element(&to);
                self.free(value);
                out.push(Step::Atomic { op: *op, to, value: value.loc, old, mask });
                Ok(())
            }
            StmtKind::SyncThreads => {
                out.push(Step::Barrier { warp: false, mask, span });
                Ok(())
            }
            StmtKind::SyncWarp => {
                out.push(Step::Barrier { warp: true, mask, span });
                Ok(())
            }
            StmtKind::Print { format, args } => {
                let values = args.iter().map(|a| self.expr(*a, mask, out)).collect::<Result<Vec<_>, _>>()?;
                let args = values.iter().map(|v| (v.repr, v.loc)).collect();
                out.push(Step::Print { format: format.clone(), args, mask });
                values.into_iter().for_each(|v| self.free(v));
                Ok(())
            }
            StmtKind::Assert { cond, message } => {
                let cond = self.expr(*cond, mask, out)?;
                out.push(Step::Assert { cond: cond.loc, message: message.clone(), mask, span });
                self.free(cond);
                Ok(())
            }
        }
    }

    /// Gives a variable a value.
    fn assign(&mut self, var: VarId, value: Value, mask: MaskId, out: &mut Vec<Step>) -> Result<(), SimError> {
        let (expected, found) = (self.var_repr(var)?, value.repr);
        if expected != found {
            return malformed(format!("`{}` of type {expected:?} is assigned a {found:?}", self.kernel.vars[var].name));
        }
        let dst = self.var(var)?;
        if matches!((dst, value.loc), (Loc::Scalar(_), Loc::Lanes(_))) {
            return malformed(format!("`{}` is uniform and gets a varying value", self.kernel.vars[var].name));
        }
        out.push(Step::Set { kind: found.kind(), dst, src: value.loc, mask, owned: value.temp });
        self.free(value);
        Ok(())
    }

    fn conditional(
        &mut self,
        cond: ExprId,
        then: &[StmtId],
        otherwise: &[StmtId],
        mask: MaskId,
        out: &mut Vec<Step>,
    ) -> Result<(), SimError> {
        let cond = self.expr(cond, mask, out)?;
        let (mut yes, mut no) = (Vec::new(), Vec::new());
        // The condition is read before either arm runs.
        self.free(cond);
        if let Loc::Scalar(_) = cond.loc {
            self.statements(then, mask, &mut yes)?;
            self.statements(otherwise, mask, &mut no)?;
            out.push(Step::IfUniform { cond: cond.loc, then: yes, otherwise: no });
            return Ok(());
        }
        let (then_mask, else_mask) = (self.pools.mask(), self.pools.mask());
        self.statements(then, then_mask, &mut yes)?;
        self.statements(otherwise, else_mask, &mut no)?;
        self.pools.free_mask(then_mask);
        self.pools.free_mask(else_mask);
        out.push(Step::If { cond: cond.loc, mask, then_mask, else_mask, then: yes, otherwise: no });
        Ok(())
    }

    fn for_loop(
        &mut self,
        var: VarId,
        bounds: [ExprId; 3],
        body: &[StmtId],
        mask: MaskId,
        span: SpanId,
        out: &mut Vec<Step>,
    ) -> Result<(), SimError> {
        if self.var_repr(var)? != Repr::Index {
            return malformed("a loop index that is not usize");
        }
        let mut held = Vec::new();
        for bound in bounds {
            let value = self.expr(bound, mask, out)?;
            if value.repr != Repr::Index {
                return malformed("a loop bound that is not usize");
            }
            // A bound is evaluated once, though the body may assign the variable it comes from.
            held.push(self.hold(value, mask, out));
        }
        let [start, end, step] = [held[0].loc, held[1].loc, held[2].loc];
        let loc = self.var(var)?;
        let mut steps = Vec::new();
        match (loc, start, end, step) {
            (Loc::Scalar(var), Loc::Scalar(_), Loc::Scalar(_), Loc::Scalar(_)) => {
                self.statements(body, mask, &mut steps)?;
                out.push(Step::Loop { var, start, end, step, mask, span, body: steps });
            }
            _ => {
                let inner = self.pools.mask();
                self.statements(body, inner, &mut steps)?;
                self.pools.free_mask(inner);
                out.push(Step::LoopLanes { var: loc, start, end, step, mask, inner, span, body: steps });
            }
        }
        held.into_iter().for_each(|v| self.free(v));
        Ok(())
    }

    /// The value in a register of its own.
    fn hold(&mut self, value: Value, mask: MaskId, out: &mut Vec<Step>) -> Value {
        if value.temp || self.pools.is_constant(value) {
            return value;
        }
        let kind = value.repr.kind();
        let dst = match value.loc {
            Loc::Lanes(_) => Loc::Lanes(self.pools.lanes(kind)),
            Loc::Scalar(_) => self.pools.scalar(kind),
        };
        out.push(Step::Set { kind, dst, src: value.loc, mask, owned: false });
        Value { repr: value.repr, loc: dst, temp: true }
    }

    #[expect(clippy::too_many_arguments, reason = "the statement's fields")]
    fn reduce(
        &mut self,
        op: ReduceOp,
        src: ReduceSource,
        dst: Option<VarId>,
        axis: Option<VarId>,
        mask: MaskId,
        span: SpanId,
        out: &mut Vec<Step>,
    ) -> Result<(), SimError> {
        let (extent, stride) = match axis {
            None => (WARP, 1),
            Some(var) => match self.kernel.vars.get(var).map(|v| v.kind) {
                Some(VarKind::Thread(axis)) if axis < 3 => {
                    let threads = self.launch.threads;
                    (threads[axis as usize], threads[..axis as usize].iter().product())
                }
                _ => return malformed("a reduction over something that is not a thread axis"),
            },
        };
        let plan = |repr| {
            let plan = Reduction { op, extent, stride }.plan();
            Box::new(ReducePlan { op, repr, plan, extent, stride, warp: axis.is_none(), span })
        };
        match (src, dst) {
            (ReduceSource::Value(value), Some(dst)) => {
                let value = self.expr(value, mask, out)?;
                // In a register of its own, since it is reduced in place, threads outside the mask included.
                let kind = value.repr.kind();
                let register = match value.loc {
                    Loc::Lanes(register) if value.temp => register,
                    _ => {
                        let register = self.pools.lanes(kind);
                        let dst = Loc::Lanes(register);
                        out.push(Step::Set { kind, dst, src: value.loc, mask: MaskId::ALL, owned: false });
                        self.free(value);
                        register
                    }
                };
                out.push(Step::Reduce { plan: plan(value.repr), register, mask });
                let result = Value { repr: value.repr, loc: Loc::Lanes(register), temp: true };
                self.assign(dst, result, mask, out)
            }
            (ReduceSource::Value(_), None) => malformed("a reduction of a value without a result"),
            (ReduceSource::Local(buffer), _) => {
                let Target::Local(local) = self.array(buffer)? else {
                    return malformed("a reduction of an array that is not local");
                };
                let ArrayInfo { dtype, first, len, .. } = self.locals[local as usize];
                for register in first..first + len {
                    out.push(Step::Reduce { plan: plan(Repr::Element(dtype)), register, mask });
                }
                Ok(())
            }
        }
    }

    fn copy(
        &mut self,
        src: &TileRef,
        dst: &TileRef,
        mask: MaskId,
        span: SpanId,
        out: &mut Vec<Step>,
    ) -> Result<(), SimError> {
        // Each side's extents: as written, or of what is taken whole, else the other side's.
        let mut values = Vec::new();
        let mut own = |c: &mut Self, tile: &TileRef| -> Result<Option<Vec<Loc>>, SimError> {
            let extents = if !tile.extents.is_empty() {
                c.uniform_indices(&tile.extents, mask, out)?
            } else if tile.start.is_empty() {
                let mut shape = c.place_shape(tile.place)?;
                if tile.transposed {
                    shape.reverse();
                }
                shape.into_iter().map(|extent| c.constant_index(extent)).collect()
            } else {
                return Ok(None);
            };
            let locs = extents.iter().map(|e| e.loc).collect();
            values.extend(extents);
            Ok(Some(locs))
        };
        let extents = match (own(self, src)?, own(self, dst)?) {
            (Some(src), Some(dst)) => [src, dst],
            (Some(one), None) | (None, Some(one)) => [one.clone(), one],
            (None, None) => return malformed("a copy whose operands both lack extents"),
        };
        let mut side = |c: &mut Self, tile: &TileRef| -> Result<TileSide, SimError> {
            let target = c.place(tile.place)?;
            let start = tile.start.iter().map(|e| c.index(*e, mask, out)).collect::<Result<Vec<_>, _>>()?;
            let locs = start.iter().map(|v| v.loc).collect();
            values.extend(start);
            Ok(TileSide { target, start: locs, transposed: tile.transposed, span: tile.span })
        };
        let (src, dst) = (side(self, src)?, side(self, dst)?);
        // The block copies into and out of shared memory, but each thread its own arrays.
        let has = |wanted: fn(&Target) -> bool| wanted(&src.target) || wanted(&dst.target);
        let per_thread = !has(|t| matches!(t, Target::Shared(_))) || has(|t| matches!(t, Target::Local(_)));
        values.into_iter().for_each(|v| self.free(v));
        out.push(Step::Copy { plan: Box::new(CopyPlan { src, dst, extents, per_thread, span }), mask });
        Ok(())
    }
}
