//! Along which axes values may differ: block-uniform, warp-uniform, or not.
//!
//! Flow-insensitive: a variable may differ wherever any of its assignments may, or wherever the control around an
//! assignment may. A least fixed point over the kernel.

use crate::constraint::Varies;
use crate::ir::{
    AccessId, BoundKernel, ExprId, ExprKind, ParamKind, Place, ReduceSource, Scope, SecondaryMap, ShuffleKind, StmtId,
    StmtKind, VarId, VarKind,
};

/// Where each variable of a bound kernel may differ.
#[derive(Clone, Debug)]
pub struct Uniformity {
    vars: SecondaryMap<VarId, Varies>,
}

impl Uniformity {
    /// Computes the fixed point.
    pub fn of(kernel: &BoundKernel) -> Self {
        let mut this = Uniformity { vars: SecondaryMap::new() };
        let extents = kernel.thread_extents();
        for (axis, binding) in kernel.threads.iter().enumerate().take(3) {
            this.vars[binding.var] = thread_axis(&extents, axis);
        }
        for (axis, binding) in kernel.grid.iter().enumerate().take(3) {
            this.vars[binding.var] = Varies { blocks: 1 << axis, ..Varies::default() };
        }
        // Every round but the last adds at least one of the seven bits of one variable; in practice two rounds do.
        for _ in 0..=7 * kernel.vars.len() {
            let mut changed = false;
            this.block(kernel, &kernel.body, Varies::default(), &mut changed);
            if !changed {
                break;
            }
        }
        this
    }

    /// Where a variable may differ.
    pub fn var(&self, var: VarId) -> Varies {
        self.vars[var]
    }

    /// Where an expression's value may differ.
    pub fn expr(&self, kernel: &BoundKernel, expr: ExprId) -> Varies {
        match &kernel.exprs[expr].kind {
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) | ExprKind::Dim(_) | ExprKind::Const(_) => {
                Varies::default()
            }
            ExprKind::Bits(_) | ExprKind::Special(..) | ExprKind::Scalar(_) | ExprKind::Present(_) => Varies::default(),
            ExprKind::Var(var) => self.vars[*var],
            ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => self.expr(kernel, *a),
            ExprKind::Binary(_, a, b) => self.expr(kernel, *a).or(self.expr(kernel, *b)),
            ExprKind::Math(_, args) => args.iter().fold(Varies::default(), |v, a| v.or(self.expr(kernel, *a))),
            ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => {
                self.expr(kernel, *a).or(self.expr(kernel, *b)).or(self.expr(kernel, *c))
            }
            ExprKind::Load(access) => self.load(kernel, *access),
        }
    }

    /// Where an access's address may differ.
    pub fn address(&self, kernel: &BoundKernel, access: AccessId) -> Varies {
        let indices = &kernel.accesses[access].indices;
        indices.iter().fold(Varies::default(), |v, e| v.or(self.expr(kernel, *e)))
    }

    /// Where a loaded value may differ: as its address, where all read the same unchanging memory.
    pub fn load(&self, kernel: &BoundKernel, access: AccessId) -> Varies {
        let address = self.address(kernel, access);
        match kernel.accesses[access].place {
            Place::Tensor(param) => match kernel.params[param].kind {
                ParamKind::Tensor { mutable: false, .. } => address,
                // Another block may write it between two threads' reads.
                _ => Varies::ALL,
            },
            Place::Buffer(buffer) => match kernel.buffers[buffer].scope {
                Scope::Shared => Varies { blocks: 7, ..address },
                _ => Varies::ALL,
            },
        }
    }

    fn set(&mut self, var: VarId, varies: Varies, changed: &mut bool) {
        let joined = self.vars[var].or(varies);
        if joined != self.vars[var] {
            self.vars[var] = joined;
            *changed = true;
        }
    }

    fn block(&mut self, kernel: &BoundKernel, body: &[StmtId], control: Varies, changed: &mut bool) {
        for &stmt in body {
            self.stmt(kernel, stmt, control, changed);
        }
    }

    fn stmt(&mut self, kernel: &BoundKernel, stmt: StmtId, control: Varies, changed: &mut bool) {
        match &kernel.stmts[stmt].kind {
            // A `let` is a new variable each time: the control around it does not make threads differ in it.
            StmtKind::Let { var, value: Some(value) } if kernel.vars[*var].kind != VarKind::Mut => {
                let varies = self.expr(kernel, *value);
                self.set(*var, varies, changed);
            }
            StmtKind::Let { var, value: Some(value) } | StmtKind::Assign { var, value } => {
                let varies = self.expr(kernel, *value).or(control);
                self.set(*var, varies, changed);
            }
            StmtKind::If { cond, then, otherwise } => {
                let control = control.or(self.expr(kernel, *cond));
                self.block(kernel, then, control, changed);
                self.block(kernel, otherwise, control, changed);
            }
            StmtKind::For { var, start, end, step, body, .. } => {
                let origin = self.expr(kernel, *start).or(self.expr(kernel, *step));
                self.set(*var, origin, changed);
                // Threads that leave the loop early differ in its index from those that do not.
                let control = control.or(origin).or(self.expr(kernel, *end));
                let control = if kernel.is_left_early(stmt) { control.or(self.vars[*var]) } else { control };
                self.block(kernel, body, control, changed);
            }
            StmtKind::Persistent { vars, body, .. } => {
                for (axis, var) in vars.iter().enumerate().take(3) {
                    self.set(*var, Varies { blocks: 1 << axis, ..Varies::default() }, changed);
                }
                self.block(kernel, body, control.or(Varies { blocks: 1, ..Varies::default() }), changed);
            }
            StmtKind::Parallel { vars, body, .. } => {
                let varies = Varies { threads: 7, blocks: 0, warp: true };
                vars.iter().for_each(|v| self.set(*v, varies, changed));
                self.block(kernel, body, control.or(varies), changed);
            }
            StmtKind::Reduce { src, dst: Some(dst), axis, .. } => {
                let value = match src {
                    ReduceSource::Value(e) => self.expr(kernel, *e),
                    ReduceSource::Local(_) => Varies::ALL,
                };
                let varies = reduced(kernel, value, *axis).or(control);
                self.set(*dst, varies, changed);
            }
            StmtKind::Shuffle { kind, value, lane, dst } => {
                let value = self.expr(kernel, *value);
                let from = self.expr(kernel, *lane);
                // A lane that the warp agrees on is read by all of it.
                if *kind == ShuffleKind::Lane && value.warp && !from.warp {
                    let varies = Varies { threads: 7, warp: false, blocks: value.blocks | from.blocks };
                    return self.set(*dst, varies.or(control), changed);
                }
                // A value all lanes share is unchanged by an exchange.
                let varies = if value.warp { Varies::ALL.or(from) } else { value };
                self.set(*dst, varies.or(control), changed);
            }
            StmtKind::Vote { pred, dst, .. } => {
                let pred = self.expr(kernel, *pred);
                let threads = if pred.threads == 0 { 0 } else { 7 };
                self.set(*dst, Varies { threads, warp: false, ..pred }.or(control), changed);
            }
            StmtKind::LastArriver { dst, .. } => {
                self.set(*dst, Varies { blocks: 7, ..Varies::default() }.or(control), changed);
            }
            StmtKind::Atomic { dst: Some(dst), .. } => self.set(*dst, Varies::ALL, changed),
            StmtKind::Let { value: None, .. } | StmtKind::Reduce { dst: None, .. } => {}
            StmtKind::Alloc { .. } | StmtKind::Store { .. } | StmtKind::Tile(_) => {}
            StmtKind::Atomic { .. } | StmtKind::SyncThreads | StmtKind::SyncWarp => {}
            StmtKind::Print { .. } | StmtKind::Assert { .. } => {}
        }
    }
}

/// Where the index on a thread axis differs.
fn thread_axis(extents: &[u32; 3], axis: usize) -> Varies {
    let extent = extents[axis];
    let below: u64 = extents[..axis].iter().map(|e| u64::from(*e)).product();
    if extent == 1 {
        return Varies::default();
    }
    // Lanes of a warp agree on an axis whose lower axes fill whole warps.
    Varies { threads: 1 << axis, blocks: 0, warp: below == 0 || !below.is_multiple_of(32) }
}

/// Where the result of a reduction differs: not along the axis it reduces.
fn reduced(kernel: &BoundKernel, value: Varies, axis: Option<VarId>) -> Varies {
    let Some(axis) = axis.and_then(|v| kernel.threads.iter().position(|a| a.var == v)) else {
        let threads = if value.threads == 0 { 0 } else { 7 };
        return Varies { threads, warp: false, ..value };
    };
    let extents = kernel.thread_extents();
    let mut result = Varies { blocks: value.blocks, ..Varies::default() };
    for other in (0..3).filter(|o| *o != axis && value.threads & (1 << o) != 0) {
        result = result.or(thread_axis(&extents, other));
    }
    result
}
