//! Statements in order: what each does to the values of variables, and the rules that it meets.

use super::{Control, Value, Walk};
use crate::analysis::guards::Use;
use crate::analysis::regions::Kind;
use crate::analysis::{collective, copy, parallel, tiles};
use crate::constraint::{Answer, Cond, Interval, Poly, Varies};
use crate::ir::parts::set_within;
use crate::ir::{AccessMode, ExprId, ReduceSource, StmtId, StmtKind, StmtPart, TileOp, VarId};
use std::collections::HashMap;

impl<'k> Walk<'k> {
    pub(super) fn block(&mut self, body: &[StmtId]) {
        for &stmt in body {
            if let Some(vector) = &mut self.vector {
                vector.next();
            }
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: StmtId) {
        let kernel = self.kernel;
        let span = kernel.stmts[stmt].span;
        self.regions.begin_statement();
        collective::check(self, stmt);
        match &kernel.stmts[stmt].kind {
            StmtKind::Let { var, value } => {
                self.vars[*var] = match value {
                    Some(value) => self.eval(*value),
                    None => Value::Other,
                };
            }
            StmtKind::Assign { var, value } => self.vars[*var] = self.eval(*value),
            StmtKind::Alloc { buffer } => self.regions.declare(*buffer),
            StmtKind::SyncThreads | StmtKind::SyncWarp => {}
            StmtKind::Store { access, value } => {
                self.eval(*value);
                self.access(*access, Use::Store);
                parallel::store(self, *access, *value);
            }
            StmtKind::If { cond, then, otherwise } => self.conditional(stmt, *cond, then, otherwise),
            StmtKind::For { .. } => self.for_loop(stmt),
            StmtKind::Parallel { vars, extents, body } => self.parallel(stmt, vars, extents, body),
            StmtKind::Tile(op) => self.tile(stmt, op),
            StmtKind::Persistent { vars, extents, counter, body, .. } => {
                if let Some(counter) = counter {
                    collective::counter_of_tiles(self, *counter);
                    self.access(*counter, Use::Update);
                    self.regions.last_is_update(kernel.accesses[*counter].place);
                }
                self.persistent(stmt, vars, extents, body);
            }
            StmtKind::Reduce { src, dst, .. } => {
                match src {
                    ReduceSource::Value(value) => {
                        self.eval(*value);
                    }
                    ReduceSource::Local(array) => self.touch_array(*array, Kind::Update, span),
                }
                dst.iter().for_each(|v| self.forget(*v));
            }
            StmtKind::Shuffle { value, lane, dst, .. } => {
                self.eval(*value);
                collective::lane(self, stmt, *lane);
                self.forget(*dst);
            }
            StmtKind::Vote { pred, dst, .. } => {
                self.eval(*pred);
                self.forget(*dst);
            }
            StmtKind::LastArriver { access, count, dst } => {
                self.eval(*count);
                collective::agreed(self, *access, *count);
                collective::awaited(self, stmt, *access, *count);
                self.access(*access, Use::Update);
                self.regions.last_is_update(kernel.accesses[*access].place);
                if self.uniform.expr(kernel, *count).blocks == 0 {
                    self.regions.last_is_arrival(kernel.accesses[*access].place);
                }
                let varies = self.uniform.var(*dst);
                let last = self.cx.fresh_data(Some(0), Some(1), varies);
                let counters = self.uniform.address(kernel, *access).blocks;
                self.regions.arrivals.insert(last, varies.blocks & !counters);
                self.vars[*dst] = Value::Bool(Cond::NonZero(Poly::sym(last)));
            }
            StmtKind::Atomic { access, value, dst, .. } => {
                self.eval(*value);
                self.access(*access, Use::Update);
                self.regions.last_is_update(kernel.accesses[*access].place);
                dst.iter().for_each(|v| self.forget(*v));
            }
            StmtKind::Print { args, .. } => args.iter().for_each(|a| {
                self.eval(*a);
            }),
            StmtKind::Assert { cond, .. } => {
                // What is asserted is not assumed: the GPU does not evaluate it.
                self.eval(*cond);
            }
        }
    }

    fn tile(&mut self, stmt: StmtId, op: &'k TileOp) {
        if let TileOp::Copy { src, dst, width, .. } = op {
            return copy::check(self, stmt, src, dst, *width);
        }
        let span = self.kernel.stmts[stmt].span;
        if let TileOp::Gemm { a, b, acc, clear, .. } = op {
            tiles::gemm(self, stmt, a, b, *acc);
            self.touch_array(a.buffer, Kind::Read, a.span);
            self.touch_array(b.buffer, Kind::Read, b.span);
            return self.touch_array(*acc, if *clear { Kind::Write } else { Kind::Update }, span);
        }
        if let TileOp::ReduceTile { src, dst, axis, .. } = op {
            tiles::reduce(self, stmt, *src, *dst, *axis);
        } else if let TileOp::ClusterReduce { tile, .. } = op {
            tiles::in_cluster(self, stmt, *tile);
        } else if let TileOp::ClusterExchange { src, dst } = op {
            tiles::in_cluster(self, stmt, *src);
            tiles::cluster_exchange(self, stmt, [*src, *dst]);
        }
        op.each_part(&mut |part| {
            if let StmtPart::Value(value) = part {
                self.eval(value);
            } else if let StmtPart::Array(array, touch) = part {
                let kind = match touch {
                    AccessMode::Read => Kind::Read,
                    AccessMode::Write => Kind::Write,
                    AccessMode::Update | AccessMode::Atomic => Kind::Update,
                };
                self.touch_array(array, kind, span);
            }
        });
    }

    fn conditional(&mut self, stmt: StmtId, cond: ExprId, then: &'k [StmtId], otherwise: &'k [StmtId]) {
        let cond = match self.eval(cond) {
            Value::Bool(cond) => cond,
            _ => Cond::Unknown(Varies::ALL),
        };
        let decided = self.cx.decide(&cond);
        let varies = if decided == Answer::Unknown { cond.varies(&self.cx) } else { Varies::default() };
        self.record_uniform(stmt, varies, Some(&cond));
        let span = self.kernel.stmts[stmt].span;
        let before = self.vars.clone();
        let assigned = set_within(self.kernel, stmt);
        let mut after = Vec::new();
        let mut located = HashMap::new();
        for (arm, cond, skip) in [(then, cond.clone(), Answer::Refuted), (otherwise, cond.negated(), Answer::Proven)] {
            if decided == skip {
                continue;
            }
            self.vars = before.clone();
            let mark = self.mark();
            self.cx.assume(&cond);
            self.path.push(cond.clone());
            self.control.push(Control { span, varies, cond: Some(cond) });
            self.block(arm);
            self.control.pop();
            self.path.pop();
            for &var in &assigned {
                if let Value::Int(value) = &self.vars[var] {
                    let interval = self.interval(value);
                    located.entry(var).and_modify(|all: &mut Interval| *all = all.join(interval)).or_insert(interval);
                }
            }
            self.reset(mark);
            after.push(self.vars.clone());
        }
        let [a, b] = after.as_slice() else {
            self.learn_assigned(&located);
            return;
        };
        self.vars = before;
        for var in assigned {
            let differs = self.uniform.var(var).or(varies);
            self.vars[var] = match (&a[var], &b[var]) {
                (Value::Int(x), Value::Int(y)) if x == y => Value::Int(x.clone()),
                (Value::Int(x), Value::Int(y)) => {
                    Value::Int(Poly::sym(self.cx.one_of(vec![x.clone(), y.clone()], differs)))
                }
                (Value::Bool(x), Value::Bool(y)) if x == y => Value::Bool(x.clone()),
                (Value::Bool(_), Value::Bool(_)) => Value::Bool(Cond::Unknown(differs)),
                _ => self.some_value(var, differs),
            };
        }
        self.learn_assigned(&located);
    }

    /// What was known of variables at the ends of the arms that assigned them.
    fn learn_assigned(&mut self, located: &HashMap<VarId, Interval>) {
        for (&var, &interval) in located {
            if let Value::Int(value) = self.vars[var].clone() {
                self.learn(&value, interval);
            }
        }
    }

    pub(super) fn record_uniform(&mut self, stmt: StmtId, varies: Varies, cond: Option<&Cond>) {
        if varies.threads == 0 {
            self.analysis.block_uniform.insert(stmt);
        }
        let warp = !varies.warp || varies.threads == 0 || cond.is_some_and(|c| collective::warp_uniform(self, c));
        if warp {
            self.analysis.warp_uniform.insert(stmt);
        }
    }
}
