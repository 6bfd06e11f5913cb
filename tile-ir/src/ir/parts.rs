//! What statements and expressions are made of: one table of the parts of every kind of statement, each with its role, and of the
//! operands of every kind of expression. A walk that treats all kinds alike is a filter over them, so that a new kind of statement
//! is known to it from its row here.

use super::{
    AccessId, BufferId, ExprId, ExprKind, Kernel, LoopKind, Place, ReduceSource, StmtId, StmtKind, TileOp, TileRef,
    VarId,
};

/// A part of a statement, with its role.
#[derive(Clone, Copy, Debug)]
pub enum StmtPart<'a> {
    /// An expression that is evaluated whenever the statement is executed.
    Value(ExprId),
    /// An expression that every instance makes a constant: stages, an unrolling factor, a width.
    Constant(ExprId),
    /// One element of a tensor or array.
    Element(AccessId, AccessMode),
    /// A tile of a tensor or array.
    Tile(&'a TileRef, AccessMode),
    /// A whole array.
    Array(BufferId, AccessMode),
    /// A variable that is new each time: of a `let`, of a loop.
    Binds(VarId),
    /// A variable that gets another value.
    Sets(VarId),
    /// Nested statements.
    Body(&'a [StmtId]),
    /// All threads of the block must reach the statement together.
    BlockCollective,
    /// All threads of the warp must reach the statement together.
    WarpCollective,
    /// Something that the host gets to see: a line that is printed, an assertion that fails.
    Report,
    /// The statement orders the block's earlier accesses before its later ones.
    BlockBarrier,
    /// The statement orders the warp's earlier accesses before its later ones.
    WarpBarrier,
}

/// An index of a loop, which goes from `start` in steps of `step` while it is below `end`.
#[derive(Clone, Copy, Debug)]
pub struct LoopIndex {
    /// The index.
    pub var: VarId,
    /// Its first value; `None` for 0.
    pub start: Option<ExprId>,
    /// What it stays below.
    pub end: ExprId,
    /// What is added from one iteration to the next; `None` for 1.
    pub step: Option<ExprId>,
}

impl LoopIndex {
    /// The expressions of its range.
    pub fn range(&self) -> impl Iterator<Item = ExprId> + use<> {
        self.start.into_iter().chain([self.end]).chain(self.step)
    }
}

/// What a statement does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMode {
    /// It reads.
    Read,
    /// It writes, whatever was there.
    Write,
    /// It reads, and writes what it makes of that.
    Update,
    /// It reads and writes in one step that no other thread's access divides.
    Atomic,
}

impl AccessMode {
    /// Whether what was in memory matters.
    pub const fn reads(self) -> bool {
        match self {
            AccessMode::Read | AccessMode::Update | AccessMode::Atomic => true,
            AccessMode::Write => false,
        }
    }

    /// Whether memory changes.
    pub const fn writes(self) -> bool {
        match self {
            AccessMode::Write | AccessMode::Update | AccessMode::Atomic => true,
            AccessMode::Read => false,
        }
    }
}

impl StmtKind {
    /// Every part of a statement, in the order in which they are executed.
    pub fn parts(&self) -> Vec<StmtPart<'_>> {
        let mut all = Vec::new();
        self.each_part(&mut |part| all.push(part));
        all
    }

    /// The table: `visit` for every part of a statement, in the order in which they are executed.
    ///
    /// The barriers of a `pipelined` loop with loads into shared memory are not among its parts: they depend on its body
    /// ([`super::effects`]).
    pub fn each_part<'a>(&'a self, visit: &mut impl FnMut(StmtPart<'a>)) {
        match self {
            StmtKind::Let { var, value } => {
                value.iter().for_each(|e| visit(StmtPart::Value(*e)));
                visit(StmtPart::Binds(*var));
            }
            StmtKind::Alloc { buffer: _ } => {}
            StmtKind::Assign { var, value } => {
                visit(StmtPart::Value(*value));
                visit(StmtPart::Sets(*var));
            }
            StmtKind::Store { access, value } => {
                visit(StmtPart::Value(*value));
                visit(StmtPart::Element(*access, AccessMode::Write));
            }
            StmtKind::If { cond, then, otherwise } => {
                visit(StmtPart::Value(*cond));
                visit(StmtPart::Body(then));
                visit(StmtPart::Body(otherwise));
            }
            StmtKind::For { var, start, end, step, kind, body } => {
                [start, end, step].into_iter().for_each(|e| visit(StmtPart::Value(*e)));
                match kind {
                    LoopKind::Serial { unroll: Some(n) } | LoopKind::Pipelined { stages: n, schedule: _ } => {
                        visit(StmtPart::Constant(*n));
                    }
                    LoopKind::Serial { unroll: None } | LoopKind::Unroll | LoopKind::Vectorized => {}
                }
                visit(StmtPart::Binds(*var));
                visit(StmtPart::Body(body));
            }
            StmtKind::Parallel { vars, extents, body } => {
                extents.iter().for_each(|e| visit(StmtPart::Value(*e)));
                visit(StmtPart::BlockCollective);
                vars.iter().for_each(|v| visit(StmtPart::Binds(*v)));
                visit(StmtPart::Body(body));
            }
            StmtKind::Persistent { vars, extents, per_sm, contiguous: _, counter, body } => {
                extents.iter().for_each(|e| visit(StmtPart::Value(*e)));
                per_sm.iter().for_each(|e| visit(StmtPart::Constant(*e)));
                counter.iter().for_each(|access| visit(StmtPart::Element(*access, AccessMode::Atomic)));
                vars.iter().for_each(|v| visit(StmtPart::Binds(*v)));
                visit(StmtPart::Body(body));
            }
            StmtKind::Tile(op) => op.each_part(visit),
            StmtKind::Reduce { op: _, src, dst, axis } => {
                match src {
                    ReduceSource::Value(value) => visit(StmtPart::Value(*value)),
                    ReduceSource::Local(buffer) => visit(StmtPart::Array(*buffer, AccessMode::Update)),
                }
                visit(if axis.is_some() { StmtPart::BlockCollective } else { StmtPart::WarpCollective });
                dst.iter().for_each(|v| visit(StmtPart::Sets(*v)));
            }
            StmtKind::Shuffle { kind: _, value, lane, dst } => {
                visit(StmtPart::Value(*value));
                visit(StmtPart::Value(*lane));
                visit(StmtPart::WarpCollective);
                visit(StmtPart::Sets(*dst));
            }
            StmtKind::Vote { kind: _, pred, dst } => {
                visit(StmtPart::Value(*pred));
                visit(StmtPart::WarpCollective);
                visit(StmtPart::Sets(*dst));
            }
            StmtKind::Atomic { op: _, access, value, dst } => {
                visit(StmtPart::Value(*value));
                visit(StmtPart::Element(*access, AccessMode::Atomic));
                dst.iter().for_each(|v| visit(StmtPart::Sets(*v)));
            }
            StmtKind::LastArriver { access, count, dst } => {
                visit(StmtPart::Value(*count));
                visit(StmtPart::Element(*access, AccessMode::Atomic));
                visit(StmtPart::BlockCollective);
                visit(StmtPart::BlockBarrier);
                visit(StmtPart::Sets(*dst));
            }
            StmtKind::SyncThreads => {
                visit(StmtPart::BlockCollective);
                visit(StmtPart::BlockBarrier);
            }
            StmtKind::SyncWarp => {
                visit(StmtPart::WarpCollective);
                visit(StmtPart::WarpBarrier);
            }
            StmtKind::Print { format: _, args } => {
                args.iter().for_each(|e| visit(StmtPart::Value(*e)));
                visit(StmtPart::Report);
            }
            StmtKind::Assert { cond, message: _ } => {
                visit(StmtPart::Value(*cond));
                visit(StmtPart::Report);
            }
        }
    }

    /// What a message calls the statement, without an article.
    pub const fn name(&self) -> &'static str {
        match self {
            StmtKind::Let { .. } => "`let`",
            StmtKind::Alloc { .. } => "allocation",
            StmtKind::Assign { .. } => "assignment",
            StmtKind::Store { .. } => "store",
            StmtKind::If { .. } => "`if`",
            StmtKind::For { kind: LoopKind::Pipelined { .. }, .. } => "`pipelined` loop",
            StmtKind::For { .. } => "loop",
            StmtKind::Parallel { .. } => "`parallel` loop",
            StmtKind::Persistent { .. } => "`persistent` loop",
            StmtKind::Tile(op) => op.name(),
            StmtKind::Reduce { axis: Some(_), .. } => "`thread_allreduce`",
            StmtKind::Reduce { axis: None, .. } => "`warp_reduce`",
            StmtKind::Shuffle { .. } => "shuffle",
            StmtKind::Vote { .. } => "vote",
            StmtKind::Atomic { .. } => "atomic",
            StmtKind::LastArriver { .. } => "`last_arriver`",
            StmtKind::SyncThreads => "barrier",
            StmtKind::SyncWarp => "`sync_warp`",
            StmtKind::Print { .. } => "`device_print`",
            StmtKind::Assert { .. } => "`device_assert`",
        }
    }

    /// What a message calls the statement, with its article.
    pub fn a_name(&self) -> String {
        let name = self.name();
        let vowel = name.trim_start_matches('`').starts_with(['a', 'e', 'i', 'o', 'u']);
        format!("{} {name}", if vowel { "an" } else { "a" })
    }

    /// The indices of a loop with their ranges; none of a statement that is no loop.
    pub fn indices(&self) -> Vec<LoopIndex> {
        let of_extents = |vars: &[VarId], extents: &[ExprId]| {
            let all = vars.iter().zip(extents);
            all.map(|(var, end)| LoopIndex { var: *var, start: None, end: *end, step: None }).collect()
        };
        match self {
            StmtKind::For { var, start, end, step, .. } => {
                vec![LoopIndex { var: *var, start: Some(*start), end: *end, step: Some(*step) }]
            }
            StmtKind::Parallel { vars, extents, .. } | StmtKind::Persistent { vars, extents, .. } => {
                of_extents(vars, extents)
            }
            StmtKind::If { .. } | StmtKind::Let { .. } | StmtKind::Alloc { .. } | StmtKind::Assign { .. } => vec![],
            StmtKind::Store { .. } | StmtKind::Tile(_) | StmtKind::Reduce { .. } | StmtKind::Shuffle { .. } => vec![],
            StmtKind::Vote { .. } | StmtKind::Atomic { .. } | StmtKind::LastArriver { .. } => vec![],
            StmtKind::SyncThreads | StmtKind::SyncWarp | StmtKind::Print { .. } | StmtKind::Assert { .. } => vec![],
        }
    }

    /// Whether the statement has a body that may be executed more than once.
    pub const fn is_loop(&self) -> bool {
        matches!(self, StmtKind::For { .. } | StmtKind::Parallel { .. } | StmtKind::Persistent { .. })
    }

    /// The bodies of a loop or of a conditional.
    pub fn bodies(&self) -> Vec<&[StmtId]> {
        let of = |part| if let StmtPart::Body(body) = part { Some(body) } else { None };
        self.parts().into_iter().filter_map(of).collect()
    }

    /// The bodies of a loop or of a conditional, to change them.
    pub fn bodies_mut(&mut self) -> Vec<&mut Vec<StmtId>> {
        match self {
            StmtKind::If { then, otherwise, .. } => vec![then, otherwise],
            StmtKind::For { body, .. } | StmtKind::Parallel { body, .. } | StmtKind::Persistent { body, .. } => {
                vec![body]
            }
            StmtKind::Let { .. } | StmtKind::Alloc { .. } | StmtKind::Assign { .. } | StmtKind::Store { .. } => vec![],
            StmtKind::Tile(_) | StmtKind::Reduce { .. } | StmtKind::Shuffle { .. } | StmtKind::Vote { .. } => vec![],
            StmtKind::Atomic { .. } | StmtKind::LastArriver { .. } | StmtKind::SyncThreads => vec![],
            StmtKind::SyncWarp | StmtKind::Print { .. } | StmtKind::Assert { .. } => vec![],
        }
    }

    /// The expressions that are evaluated whenever the statement is executed, those in indices of accesses excepted.
    pub fn values(&self) -> Vec<ExprId> {
        let of = |part| if let StmtPart::Value(value) = part { Some(value) } else { None };
        self.parts().into_iter().filter_map(of).collect()
    }

    /// The array that the statement declares.
    pub const fn allocates(&self) -> Option<BufferId> {
        if let StmtKind::Alloc { buffer } = self { Some(*buffer) } else { None }
    }

    /// The variables that the statement declares.
    pub fn binds(&self) -> Vec<VarId> {
        let of = |part| if let StmtPart::Binds(var) = part { Some(var) } else { None };
        self.parts().into_iter().filter_map(of).collect()
    }

    /// The variables, declared before, that the statement gives a value.
    pub fn sets(&self) -> Vec<VarId> {
        let of = |part| if let StmtPart::Sets(var) = part { Some(var) } else { None };
        self.parts().into_iter().filter_map(of).collect()
    }
}

impl TileOp {
    /// The table of tile operations: every part, in the order of [`StmtKind::parts`].
    pub fn each_part<'a>(&'a self, visit: &mut impl FnMut(StmtPart<'a>)) {
        match self {
            TileOp::Copy { src, dst, width, tma: _, evict } => {
                let cases = evict.iter().flat_map(|eviction| eviction.cases.iter().map(|(cond, _)| cond));
                width.iter().chain(cases).for_each(|e| visit(StmtPart::Constant(*e)));
                visit(StmtPart::Tile(src, AccessMode::Read));
                visit(StmtPart::Tile(dst, AccessMode::Write));
            }
            TileOp::Gemm { a, b, acc, policy: _, clear: _, precision: _, grouped: _ } => {
                visit(StmtPart::Array(a.buffer, AccessMode::Read));
                visit(StmtPart::Array(b.buffer, AccessMode::Read));
                visit(StmtPart::Array(*acc, AccessMode::Update));
                visit(StmtPart::BlockCollective);
            }
            TileOp::Fill { buffer, value } => {
                visit(StmtPart::Value(*value));
                visit(StmtPart::Array(*buffer, AccessMode::Write));
            }
            TileOp::Clamp { tile, low, high } => {
                visit(StmtPart::Value(*low));
                visit(StmtPart::Value(*high));
                visit(StmtPart::Array(*tile, AccessMode::Update));
            }
            TileOp::ReduceTile { op: _, src, dst, axis: _ } => {
                visit(StmtPart::Array(*src, AccessMode::Read));
                visit(StmtPart::Array(*dst, AccessMode::Write));
                visit(StmtPart::BlockCollective);
            }
            TileOp::ClusterReduce { op: _, tile } => {
                visit(StmtPart::Array(*tile, AccessMode::Update));
                visit(StmtPart::BlockCollective);
            }
            TileOp::ClusterExchange { src, dst } => {
                visit(StmtPart::Array(*src, AccessMode::Read));
                visit(StmtPart::Array(*dst, AccessMode::Write));
                visit(StmtPart::BlockCollective);
            }
        }
    }

    /// What a message calls the operation, without an article.
    pub const fn name(&self) -> &'static str {
        match self {
            TileOp::Copy { .. } => "`copy`",
            TileOp::Gemm { .. } => "`gemm`",
            TileOp::Fill { .. } => "`fill`",
            TileOp::Clamp { .. } => "`clamp`",
            TileOp::ReduceTile { .. } => "`reduce`",
            TileOp::ClusterReduce { .. } => "`cluster_reduce`",
            TileOp::ClusterExchange { .. } => "`cluster_exchange`",
        }
    }
}

impl ExprKind {
    /// The table of operands: each expression that this one is computed from; of a load, the access, whose indices are.
    pub fn operands(&self, kernel: &Kernel, visit: &mut impl FnMut(ExprId)) {
        match self {
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) | ExprKind::Bits(_) | ExprKind::Special(..) => {}
            ExprKind::Dim(_) | ExprKind::Const(_) | ExprKind::Scalar(_) | ExprKind::Present(_) | ExprKind::Var(_) => {}
            ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => visit(*a),
            ExprKind::Binary(_, a, b) => [a, b].into_iter().for_each(|e| visit(*e)),
            ExprKind::Math(_, args) => args.iter().for_each(|e| visit(*e)),
            ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => [a, b, c].into_iter().for_each(|e| visit(*e)),
            ExprKind::Load(access) => kernel.accesses[*access].indices.iter().for_each(|e| visit(*e)),
        }
    }
}

/// Every statement, nested ones included.
pub(crate) fn each(kernel: &Kernel, body: &[StmtId], f: &mut impl FnMut(StmtId)) {
    for &stmt in body {
        f(stmt);
        for body in kernel.stmts[stmt].kind.bodies() {
            each(kernel, body, f);
        }
    }
}

/// The statements of a body, nested ones included, an outer one before those inside it.
pub(crate) fn statements(kernel: &Kernel, body: &[StmtId]) -> Vec<StmtId> {
    let mut all = Vec::new();
    each(kernel, body, &mut |stmt| all.push(stmt));
    all
}

/// Whether two expressions without loads are written alike.
pub(crate) fn alike(kernel: &Kernel, a: ExprId, b: ExprId) -> bool {
    let (left, right) = (&kernel.exprs[a], &kernel.exprs[b]);
    let all = |x: &[ExprId], y: &[ExprId]| x.len() == y.len() && x.iter().zip(y).all(|(x, y)| alike(kernel, *x, *y));
    a == b
        || left.ty == right.ty
            && match (&left.kind, &right.kind) {
                (ExprKind::Load(_), _) => false,
                (ExprKind::Unary(f, x), ExprKind::Unary(g, y)) => f == g && alike(kernel, *x, *y),
                (ExprKind::Binary(f, x, y), ExprKind::Binary(g, z, w)) => f == g && all(&[*x, *y], &[*z, *w]),
                (ExprKind::Math(f, x), ExprKind::Math(g, y)) => f == g && all(x, y),
                (ExprKind::Select(x, y, z), ExprKind::Select(u, v, w))
                | (ExprKind::If(x, y, z), ExprKind::If(u, v, w)) => all(&[*x, *y, *z], &[*u, *v, *w]),
                (ExprKind::Cast(f, x), ExprKind::Cast(g, y)) => f == g && alike(kernel, *x, *y),
                (x, y) => x == y,
            }
}

/// The expressions of a statement, those of nested statements and what is constant excepted.
pub(crate) fn roots(kernel: &Kernel, stmt: StmtId) -> Vec<ExprId> {
    let mut all = Vec::new();
    kernel.stmts[stmt].kind.each_part(&mut |part| match part {
        StmtPart::Value(value) => all.push(value),
        StmtPart::Element(access, _) => all.extend(&kernel.accesses[access].indices),
        StmtPart::Tile(tile, _) => all.extend(tile.start.iter().chain(&tile.extents)),
        StmtPart::Constant(_)
        | StmtPart::Array(..)
        | StmtPart::Binds(_)
        | StmtPart::Sets(_)
        | StmtPart::Body(_)
        | StmtPart::Report => {}
        StmtPart::BlockCollective | StmtPart::WarpCollective | StmtPart::BlockBarrier | StmtPart::WarpBarrier => {}
    });
    all
}

/// An expression and every part of it.
pub(crate) fn parts<'k>(kernel: &'k Kernel, expr: ExprId, f: &mut impl FnMut(&'k ExprKind)) {
    let kind = &kernel.exprs[expr].kind;
    f(kind);
    kind.operands(kernel, &mut |operand| parts(kernel, operand, f));
}

/// An expression and every part of it, as a list.
pub(crate) fn expressions(kernel: &Kernel, expr: ExprId) -> Vec<&ExprKind> {
    let mut all = Vec::new();
    parts(kernel, expr, &mut |kind| all.push(kind));
    all
}

/// Whether an expression mentions one of these variables.
pub(crate) fn mentions(kernel: &Kernel, expr: ExprId, vars: &[VarId]) -> bool {
    let mut found = false;
    parts(kernel, expr, &mut |kind| found |= matches!(kind, ExprKind::Var(var) if vars.contains(var)));
    found
}

/// The variables, declared before, that a statement gives other values, with all that it contains.
pub(crate) fn set_within(kernel: &Kernel, stmt: StmtId) -> Vec<VarId> {
    let mut all = Vec::new();
    each(kernel, &[stmt], &mut |inner| all.extend(kernel.stmts[inner].kind.sets()));
    all.sort_unstable();
    all.dedup();
    all
}

/// Whether an expression reads an element of the array.
pub(crate) fn loads(kernel: &Kernel, expr: ExprId, buffer: BufferId) -> bool {
    let mut found = false;
    parts(kernel, expr, &mut |kind| {
        found |= matches!(kind, ExprKind::Load(access) if kernel.accesses[*access].place == Place::Buffer(buffer));
    });
    found
}

/// Variables that statements read.
pub(crate) fn variables(kernel: &Kernel, body: &[StmtId]) -> Vec<VarId> {
    let mut all = Vec::new();
    each(kernel, body, &mut |stmt| {
        for root in roots(kernel, stmt) {
            parts(kernel, root, &mut |kind| {
                if let ExprKind::Var(var) = kind {
                    all.push(*var);
                }
            });
        }
    });
    all
}

/// Every element access of statements, loads in expressions included.
pub(crate) fn accesses(kernel: &Kernel, body: &[StmtId]) -> Vec<AccessId> {
    let mut all = Vec::new();
    each(kernel, body, &mut |stmt| {
        kernel.stmts[stmt].kind.each_part(&mut |part| {
            if let StmtPart::Element(access, _) = part {
                all.push(access);
            }
        });
        for root in roots(kernel, stmt) {
            parts(kernel, root, &mut |kind| {
                if let ExprKind::Load(access) = kind {
                    all.push(*access);
                }
            });
        }
    });
    all
}
