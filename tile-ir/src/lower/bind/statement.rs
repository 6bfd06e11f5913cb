//! Statements in program order: constant `let`s go, and `if`s on constants are resolved.

use super::Binder;
use crate::ir::*;

impl Binder<'_> {
    pub(super) fn access(&mut self, id: AccessId) -> AccessId {
        let access = &self.from.accesses[id];
        let indices = access.indices.iter().map(|&e| self.expr(e)).collect();
        self.to.accesses.push(Access { indices, ..access.clone() })
    }

    fn tile(&mut self, tile: &TileRef) -> TileRef {
        let start = tile.start.iter().map(|&e| self.expr(e)).collect();
        let extents = tile.extents.iter().map(|&e| self.constant(e, "a tile's extent")).collect();
        TileRef { start, extents, ..tile.clone() }
    }

    pub(super) fn block(&mut self, block: &[StmtId]) -> Vec<StmtId> {
        let mut out = Vec::new();
        for &stmt in block {
            self.statement(stmt, &mut out);
        }
        out
    }

    fn statement(&mut self, id: StmtId, out: &mut Vec<StmtId>) {
        let Stmt { kind, span } = &self.from.stmts[id];
        let kind = match kind {
            StmtKind::Let { var, value } => {
                let value = value.map(|e| self.expr(e));
                let constant = value.is_some_and(|e| {
                    matches!(self.to.exprs[e].kind, ExprKind::Int(_) | ExprKind::Bool(_))
                        && matches!(self.to.vars[*var].ty, Type::Index | Type::BOOL)
                });
                if constant && self.from.vars[*var].kind == VarKind::Let {
                    return;
                }
                StmtKind::Let { var: *var, value }
            }
            StmtKind::Assign { var, value } => StmtKind::Assign { var: *var, value: self.expr(*value) },
            StmtKind::Store { access, value } => {
                let value = self.expr(*value);
                StmtKind::Store { access: self.access(*access), value }
            }
            StmtKind::If { cond, then, otherwise } => {
                let cond = self.expr(*cond);
                match self.to.exprs[cond].kind {
                    ExprKind::Bool(value) => {
                        let arm = self.block(if value { then } else { otherwise });
                        out.extend(arm);
                        return;
                    }
                    _ => StmtKind::If { cond, then: self.block(then), otherwise: self.block(otherwise) },
                }
            }
            StmtKind::For { var, start, end, step, kind, body } => {
                if matches!(kind, LoopKind::Unroll | LoopKind::Vectorized) && (self.waits(*start) || self.waits(*end)) {
                    self.open = true;
                }
                let (start, end, step) = (self.expr(*start), self.expr(*end), self.expr(*step));
                let kind = match kind {
                    LoopKind::Serial { unroll: Some(n) } => {
                        LoopKind::Serial { unroll: Some(self.constant(*n, "an unrolling factor")) }
                    }
                    LoopKind::Pipelined { stages, schedule } => {
                        LoopKind::Pipelined { stages: self.stages(*stages), schedule: *schedule }
                    }
                    LoopKind::Serial { unroll: None } | LoopKind::Unroll | LoopKind::Vectorized => *kind,
                };
                StmtKind::For { var: *var, start, end, step, kind, body: self.block(body) }
            }
            StmtKind::Parallel { vars, extents, body } => {
                let extents = extents.iter().map(|&e| self.expr(e)).collect();
                StmtKind::Parallel { vars: vars.clone(), extents, body: self.block(body) }
            }
            StmtKind::Tile(op) => self.tile_op(op, *span, out),
            StmtKind::Persistent { vars, extents, per_sm, contiguous, counter, body } => {
                let extents = extents.iter().map(|&e| self.inlined(e)).collect();
                let per_sm = per_sm.map(|n| self.constant(n, "the number of blocks a multiprocessor"));
                let (vars, contiguous, counter) =
                    (vars.clone(), *contiguous, counter.map(|access| self.access(access)));
                StmtKind::Persistent { vars, extents, per_sm, contiguous, counter, body: self.block(body) }
            }
            StmtKind::Reduce { op, src, dst, axis } => {
                let src = match src {
                    ReduceSource::Value(value) => ReduceSource::Value(self.expr(*value)),
                    ReduceSource::Local(buffer) => ReduceSource::Local(*buffer),
                };
                StmtKind::Reduce { op: *op, src, dst: *dst, axis: *axis }
            }
            StmtKind::Shuffle { kind, value, lane, dst } => {
                let (value, lane) = (self.expr(*value), self.expr(*lane));
                StmtKind::Shuffle { kind: *kind, value, lane, dst: *dst }
            }
            StmtKind::Vote { kind, pred, dst } => StmtKind::Vote { kind: *kind, pred: self.expr(*pred), dst: *dst },
            StmtKind::LastArriver { access, count, dst } => {
                let count = self.expr(*count);
                StmtKind::LastArriver { access: self.access(*access), count, dst: *dst }
            }
            StmtKind::Atomic { op, access, value, dst } => {
                let value = self.expr(*value);
                StmtKind::Atomic { op: *op, access: self.access(*access), value, dst: *dst }
            }
            StmtKind::Print { format, args } => {
                let args = args.iter().map(|&a| self.expr(a)).collect();
                StmtKind::Print { format: format.clone(), args }
            }
            StmtKind::Assert { cond, message } => StmtKind::Assert { cond: self.expr(*cond), message: message.clone() },
            StmtKind::Alloc { .. } | StmtKind::SyncThreads | StmtKind::SyncWarp => kind.clone(),
        };
        out.push(self.to.stmts.push(Stmt { kind, span: *span }));
    }

    fn tile_op(&mut self, op: &TileOp, span: SpanId, out: &mut Vec<StmtId>) -> StmtKind {
        StmtKind::Tile(match op {
            TileOp::Copy { src, dst, width, tma, evict } => {
                let width = width.map(|w| self.constant(w, "a copy's width"));
                let evict = evict.as_ref().map(|eviction| self.eviction(eviction));
                TileOp::Copy { src: self.tile(src), dst: self.tile(dst), width, tma: *tma, evict }
            }
            TileOp::Clamp { tile, low, high } => return self.clamp(*tile, [*low, *high], span, out),
            TileOp::Fill { buffer, value } => TileOp::Fill { buffer: *buffer, value: self.expr(*value) },
            TileOp::Gemm { .. }
            | TileOp::ReduceTile { .. }
            | TileOp::ClusterReduce { .. }
            | TileOp::ClusterExchange { .. } => op.clone(),
        })
    }

    /// `for [i, j] in parallel([..]) { f[[i, j]] = min(max(f[[i, j]], low), high); }`, with the two bounds evaluated before it.
    fn clamp(&mut self, tile: BufferId, bounds: [ExprId; 2], span: SpanId, out: &mut Vec<StmtId>) -> StmtKind {
        let place = Place::Buffer(tile);
        let ty = Type::Value(self.to.buffers[tile].dtype);
        let [low, high] = [("low", bounds[0]), ("high", bounds[1])].map(|(name, bound)| {
            let value = self.expr(bound);
            if matches!(self.to.exprs[value].kind, ExprKind::Int(_) | ExprKind::Float(_)) {
                return value;
            }
            let var = self.to.vars.push(Var { name: name.into(), ty, kind: VarKind::Let, span });
            out.push(self.to.stmts.push(Stmt { kind: StmtKind::Let { var, value: Some(value) }, span }));
            self.push(ExprKind::Var(var), ty, span)
        });
        let extents = self.to.buffers[tile].extents.clone();
        let names = ["i", "j", "k", "l"].into_iter().take(extents.len());
        let vars: Vec<VarId> = names
            .map(|name| self.to.vars.push(Var { name: name.into(), ty: Type::Index, kind: VarKind::Loop, span }))
            .collect();
        let [read, written] = [(); 2].map(|()| {
            let indices = vars.iter().map(|var| self.push(ExprKind::Var(*var), Type::Index, span)).collect();
            self.to.accesses.push(Access { place, indices, masked: false, span })
        });
        let element = self.push(ExprKind::Load(read), ty, span);
        let least = self.push(ExprKind::Binary(BinaryOp::Max, element, low), ty, span);
        let value = self.push(ExprKind::Binary(BinaryOp::Min, least, high), ty, span);
        let store = self.to.stmts.push(Stmt { kind: StmtKind::Store { access: written, value }, span });
        StmtKind::Parallel { vars, extents, body: vec![store] }
    }
}
