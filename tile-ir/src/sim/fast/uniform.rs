//! Which variables have one value for the whole block: those are computed once, not once a thread.
//!
//! A variable is uniform when every value it gets is uniform and every assignment happens in the same region as its
//! declaration: a region is a stretch of statements that the same threads execute. Conditionals and loops whose
//! condition or bounds differ between threads open a region of their own.

use crate::ir::{BoundKernel, ExprId, ExprKind, SecondaryMap, StmtId, StmtKind, VarId, VarKind};

/// The answer, by variable and so by expression.
pub(super) struct Uniformity<'k> {
    kernel: &'k BoundKernel,
    varying: SecondaryMap<VarId, bool>,
    threads: [u32; 3],
}

struct Walk {
    declared: SecondaryMap<VarId, u32>,
    regions: u32,
    changed: bool,
}

impl<'k> Uniformity<'k> {
    pub(super) fn new(kernel: &'k BoundKernel, threads: [u32; 3]) -> Self {
        let mut all = Uniformity { kernel, varying: SecondaryMap::new(), threads };
        for (id, var) in kernel.vars.iter() {
            // An axis of one thread does not vary.
            all.varying[id] = matches!(var.kind, VarKind::Thread(axis) if threads.get(axis as usize) != Some(&1));
        }
        // Marking one variable may make others vary; each round marks at least one, so this ends.
        loop {
            let mut walk = Walk { declared: SecondaryMap::new(), regions: 0, changed: false };
            all.statements(&kernel.body, 0, &mut walk);
            if !walk.changed {
                return all;
            }
        }
    }

    /// Whether the threads of a block may see different values of `var`.
    pub(super) fn var_varies(&self, var: VarId) -> bool {
        self.varying[var]
    }

    /// Whether the threads of a block may see different values of an expression. Loads count as varying.
    pub(super) fn varies(&self, expr: ExprId) -> bool {
        match &self.kernel.exprs[expr].kind {
            ExprKind::Var(var) => self.varying[*var],
            ExprKind::Load(_) => true,
            ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => self.varies(*a),
            ExprKind::Binary(_, a, b) => self.varies(*a) || self.varies(*b),
            ExprKind::Math(_, args) => args.iter().any(|a| self.varies(*a)),
            ExprKind::Select(c, a, b) | ExprKind::If(c, a, b) => [c, a, b].into_iter().any(|e| self.varies(*e)),
            _ => false,
        }
    }

    /// Whether an axis of the block has one thread.
    pub(super) fn thread_axis_is_one(&self, axis: u8) -> bool {
        self.threads.get(axis as usize) == Some(&1)
    }

    fn mark_if(&mut self, varies: bool, var: VarId, walk: &mut Walk) {
        if varies {
            self.mark(var, walk);
        }
    }

    /// What a statement finds out together with other threads, or from memory, differs between threads.
    fn results(&mut self, stmt: StmtId, walk: &mut Walk) {
        self.kernel.stmts[stmt].kind.sets().into_iter().for_each(|var| self.mark(var, walk));
    }

    fn mark(&mut self, var: VarId, walk: &mut Walk) {
        walk.changed |= !self.varying[var];
        self.varying[var] = true;
    }

    fn statements(&mut self, stmts: &[StmtId], region: u32, walk: &mut Walk) {
        for &stmt in stmts {
            match &self.kernel.stmts[stmt].kind {
                StmtKind::Let { var, value } => {
                    walk.declared[*var] = region;
                    self.mark_if(value.is_some_and(|v| self.varies(v)), *var, walk);
                }
                StmtKind::Assign { var, value } => {
                    let here = walk.declared[*var] == region;
                    self.mark_if(!here || self.varies(*value), *var, walk);
                }
                StmtKind::If { cond, then, otherwise } => {
                    let varies = self.varies(*cond);
                    let inner = walk.region(region, varies);
                    self.statements(then, inner, walk);
                    let inner = walk.region(region, varies);
                    self.statements(otherwise, inner, walk);
                }
                StmtKind::For { var, start, end, step, body, .. } => {
                    let own = self.varies(*start) || self.varies(*step);
                    self.mark_if(own, *var, walk);
                    // Threads that leave it early differ in its index.
                    let left = self.kernel.is_left_early(stmt) && self.varying[*var];
                    let inner = walk.region(region, own || left || self.varies(*end));
                    walk.declared[*var] = inner;
                    self.statements(body, inner, walk);
                }
                StmtKind::Persistent { body, .. } => self.statements(body, region, walk),
                StmtKind::Parallel { vars, body, .. } => {
                    for var in vars {
                        self.mark(*var, walk);
                    }
                    let inner = walk.region(region, true);
                    self.statements(body, inner, walk);
                }
                // What threads find out together, or from memory.
                StmtKind::Reduce { .. } | StmtKind::Shuffle { .. } | StmtKind::Vote { .. } => self.results(stmt, walk),
                StmtKind::LastArriver { .. } | StmtKind::Atomic { .. } => self.results(stmt, walk),
                StmtKind::Alloc { .. } | StmtKind::Store { .. } | StmtKind::Tile(_) => {}
                StmtKind::SyncThreads | StmtKind::SyncWarp | StmtKind::Print { .. } | StmtKind::Assert { .. } => {}
            }
        }
    }
}

impl Walk {
    fn region(&mut self, outer: u32, varies: bool) -> u32 {
        self.regions += u32::from(varies);
        if varies { self.regions } else { outer }
    }
}
