//! Statements, and the tiles, loops and reductions that they name.

use super::{Expr, Op};

/// A side of a `copy`.
#[derive(Clone, Debug, PartialEq)]
pub enum Tile {
    /// `&s`, `&mut s`.
    Whole(String),
    /// `x.at([..])`, `y.at_mut([..])`.
    At(String, Vec<Expr>),
    /// `x.tile([a..b, ..])`, `y.tile_mut([..])`.
    Span(String, Vec<(Expr, Expr)>),
    /// `f.t()`, of a fragment.
    Transposed(String),
}

/// The kind of a `for`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loop {
    /// `a..b`.
    Plain,
    /// `serial(a..b).unroll(n)`.
    Partly(u32),
    /// `unroll(a..b)`.
    Unroll,
    /// `vectorized(a..b)`.
    Vectorized,
    /// `pipelined(a..b, stages)`, with a schedule by name.
    Pipelined { stages: u32, schedule: Option<&'static str> },
}

/// How a reduction or an atomic combines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    Sum,
    Max,
    Min,
}

impl Combine {
    /// As written in a reduction.
    pub const fn name(self) -> &'static str {
        match self {
            Combine::Sum => "Sum",
            Combine::Max => "Max",
            Combine::Min => "Min",
        }
    }

    /// The operator.
    pub const fn op(self) -> Op {
        match self {
            Combine::Sum => Op::Add,
            Combine::Max => Op::Max,
            Combine::Min => Op::Min,
        }
    }
}

/// What a shuffle or vote asks of the warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// `shfl_xor(v, n)`.
    Xor(u32),
    /// `shfl_down(v, n)`.
    Down(u32),
    /// `shfl_up(v, n)`.
    Up(u32),
    /// `shfl(v, n)`.
    Lane(u32),
    /// `ballot(p)`.
    Ballot,
    /// `any(p)`.
    Any,
    /// `all(p)`.
    All,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// `let x = e;`
    Let { name: String, mutable: bool, value: Expr },
    /// `x = e;`, `x += e;`
    Assign { name: String, op: Option<Op>, value: Expr },
    /// `y[i] = e;`, `y[i] += e;`, `*y.masked_mut([i]) = e;`
    Store { array: String, at: Vec<Expr>, op: Option<Op>, value: Expr, masked: bool },
    /// `if c { .. } else { .. }`
    If { cond: Expr, then: Vec<Stmt>, els: Vec<Stmt> },
    /// `if let Some(x) = x { .. } else { .. }`, of an optional tensor.
    IfGiven { tensor: String, then: Vec<Stmt>, els: Vec<Stmt> },
    /// `for i in ..`
    For { var: String, from: Expr, to: Expr, step: i64, kind: Loop, body: Vec<Stmt> },
    /// `for [i, j] in parallel([m, n])`
    Parallel { vars: Vec<String>, extents: Vec<i64>, body: Vec<Stmt> },
    /// `for [x, y] in persistent([e, f])`, with the rest of the call as written.
    Persistent { vars: Vec<String>, extents: Vec<Expr>, call: &'static str, body: Vec<Stmt> },
    /// `copy(a, b);` with what is written after it.
    Copy { from: Tile, to: Tile, call: String },
    /// `fill(&mut a, v);`, `clear(&mut a);`
    Fill { array: String, value: Option<Expr> },
    /// `gemm(&a, b.t(), &mut f);` with what is written after it.
    Gemm { a: (String, bool), b: (String, bool), acc: String, policy: Option<&'static str>, clear: bool, tf32: bool },
    /// `reduce(Sum, &f, &mut r, 1);`
    Reduce { how: Combine, from: String, to: String, axis: usize },
    /// `sync_threads();`
    Sync,
    /// `sync_warp();`
    SyncWarp,
    /// `let x = thread_allreduce(Sum, v, t);`
    AllReduce { name: String, how: Combine, value: Expr, axis: String },
    /// `thread_allreduce(Sum, &mut l, t);`
    AllReduceLocal { how: Combine, array: String, axis: String },
    /// `let x = warp_reduce(Sum, v);`
    WarpReduce { name: String, how: Combine, value: Expr },
    /// `let x = shfl_xor(v, 3);` and the votes.
    Warp { name: String, ask: Ask, value: Expr },
    /// `atomic_add(&mut y[i], v);`, whose old value may be kept.
    Atomic { old: Option<String>, how: Combine, array: String, at: Vec<Expr>, value: Expr },
    /// `if last_arriver(&mut c[i], n) { .. }`
    LastArriver { counter: String, at: Vec<Expr>, count: Expr, body: Vec<Stmt> },
    /// `g0(&mut f, y, i);`: statements that are a `#[tile_fn]`'s. Its parameters are the names that they are made of, by
    /// these names.
    Outlined { name: String, body: Vec<Stmt> },
    /// `cluster_reduce(Sum, &mut f);`
    ClusterReduce { how: Combine, array: String },
    /// `cluster_exchange(&a, &mut b);`
    ClusterExchange { from: String, to: String },
}

impl Stmt {
    /// Whether the blocks of a cluster do it together.
    pub fn joins_cluster(&self) -> bool {
        matches!(self, Stmt::ClusterReduce { .. } | Stmt::ClusterExchange { .. })
    }

    /// The statements inside.
    pub fn bodies(&self) -> Vec<&Vec<Stmt>> {
        match self {
            Stmt::If { then, els, .. } | Stmt::IfGiven { then, els, .. } => vec![then, els],
            Stmt::For { body, .. }
            | Stmt::Parallel { body, .. }
            | Stmt::Persistent { body, .. }
            | Stmt::Outlined { body, .. }
            | Stmt::LastArriver { body, .. } => vec![body],
            _ => Vec::new(),
        }
    }

    /// The statements inside.
    pub fn bodies_mut(&mut self) -> Vec<&mut Vec<Stmt>> {
        match self {
            Stmt::If { then, els, .. } | Stmt::IfGiven { then, els, .. } => vec![then, els],
            Stmt::For { body, .. }
            | Stmt::Parallel { body, .. }
            | Stmt::Persistent { body, .. }
            | Stmt::Outlined { body, .. }
            | Stmt::LastArriver { body, .. } => vec![body],
            _ => Vec::new(),
        }
    }
}
