//! A generated program as a tree: what the text is printed from and what the reference evaluates.
//!
//! It is not tile IR: it knows no parser, no analysis and no lowering, so that a mistake there cannot hide in it.
#![expect(
    missing_docs,
    reason = "an operator is its name, and a statement's fields are in the line of source above it"
)]

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    /// `usize`: a mathematical integer.
    Index,
    /// `bool`.
    Bool,
    /// `i32`, wrapping.
    I32,
    /// `u32`, wrapping.
    U32,
    /// binary16, computed in f32 and rounded.
    F16,
    /// bfloat16, computed in f32 and rounded.
    Bf16,
    /// binary32.
    F32,
}

impl Ty {
    /// The name an author writes.
    pub const fn name(self) -> &'static str {
        match self {
            Ty::Index => "usize",
            Ty::Bool => "bool",
            Ty::I32 => "i32",
            Ty::U32 => "u32",
            Ty::F16 => "f16",
            Ty::Bf16 => "bf16",
            Ty::F32 => "f32",
        }
    }

    /// Bytes of an element in memory.
    pub const fn bytes(self) -> usize {
        match self {
            Ty::Bool => 1,
            Ty::F16 | Ty::Bf16 => 2,
            Ty::Index | Ty::I32 | Ty::U32 | Ty::F32 => 4,
        }
    }

    /// Whether it is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Ty::F16 | Ty::Bf16 | Ty::F32)
    }

    /// Whether it is f16 or bf16.
    pub const fn is_half(self) -> bool {
        matches!(self, Ty::F16 | Ty::Bf16)
    }

    /// The largest integer up to which all integers are exact in it.
    pub const fn exact(self) -> f64 {
        match self {
            Ty::F16 => 2048.0,
            Ty::Bf16 => 256.0,
            Ty::F32 => 16_777_216.0,
            Ty::Index | Ty::Bool | Ty::I32 | Ty::U32 => 1_000_000_000.0,
        }
    }
}

/// An operator of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    BitAnd,
    BitOr,
    BitXor,
    Shl,
    Shr,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    And,
    Or,
    Min,
    Max,
    CeilDiv,
}

impl Op {
    /// As written between its operands, or before them for the last three.
    pub const fn symbol(self) -> &'static str {
        match self {
            Op::Add => "+",
            Op::Sub => "-",
            Op::Mul => "*",
            Op::Div => "/",
            Op::Rem => "%",
            Op::BitAnd => "&",
            Op::BitOr => "|",
            Op::BitXor => "^",
            Op::Shl => "<<",
            Op::Shr => ">>",
            Op::Lt => "<",
            Op::Le => "<=",
            Op::Gt => ">",
            Op::Ge => ">=",
            Op::Eq => "==",
            Op::Ne => "!=",
            Op::And => "&&",
            Op::Or => "||",
            Op::Min => "min",
            Op::Max => "max",
            Op::CeilDiv => "ceil_div",
        }
    }

    /// Whether its result is a bool.
    pub const fn is_condition(self) -> bool {
        matches!(self, Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne | Op::And | Op::Or)
    }
}

/// An elementwise function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fun {
    Abs,
    Sqrt,
    Fma,
    Exp,
    Exp2,
    Log,
    Rsqrt,
    Tanh,
    FastExp,
    FastExp2,
    FastTanh,
    FastRecip,
}

impl Fun {
    /// As written.
    pub const fn name(self) -> &'static str {
        match self {
            Fun::Abs => "abs",
            Fun::Sqrt => "sqrt",
            Fun::Fma => "fma",
            Fun::Exp => "exp",
            Fun::Exp2 => "exp2",
            Fun::Log => "log",
            Fun::Rsqrt => "rsqrt",
            Fun::Tanh => "tanh",
            Fun::FastExp => "fast::exp",
            Fun::FastExp2 => "fast::exp2",
            Fun::FastTanh => "fast::tanh",
            Fun::FastRecip => "fast::recip",
        }
    }
}

/// A value without effects.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A `usize` literal.
    Int(i64),
    /// A literal of an element type; of `bool`, whether it is not 0.
    Lit(Ty, f64),
    /// A variable, an index, a dim, a constant parameter or a scalar parameter.
    Name(String, Ty),
    /// An element.
    Load { array: String, ty: Ty, at: Vec<Expr>, masked: bool },
    /// Two operands of one type.
    Bin(Op, Box<Expr>, Box<Expr>),
    /// `-x`.
    Neg(Box<Expr>),
    /// `!x`.
    Not(Box<Expr>),
    /// A function.
    Call(Fun, Vec<Expr>),
    /// `if c { a } else { b }` where `lazy`, else `select(c, a, b)`.
    Choose { lazy: bool, c: Box<Expr>, a: Box<Expr>, b: Box<Expr> },
    /// `x.cast::<T>()`.
    Cast(Ty, Box<Expr>),
}

impl Expr {
    /// The type.
    pub fn ty(&self) -> Ty {
        match self {
            Expr::Int(_) => Ty::Index,
            Expr::Lit(ty, _) | Expr::Name(_, ty) | Expr::Load { ty, .. } | Expr::Cast(ty, _) => *ty,
            Expr::Bin(op, ..) if op.is_condition() => Ty::Bool,
            Expr::Bin(_, a, _) | Expr::Neg(a) | Expr::Not(a) | Expr::Choose { a, .. } => a.ty(),
            Expr::Call(_, args) => args.first().map_or(Ty::F32, Expr::ty),
        }
    }

    /// A `usize` variable or constant.
    pub fn index(name: &str) -> Expr {
        Expr::Name(name.into(), Ty::Index)
    }

    /// `op(a, b)`.
    pub fn bin(op: Op, a: Expr, b: Expr) -> Expr {
        Expr::Bin(op, Box::new(a), Box::new(b))
    }

    /// `a + b`; `a` where `b` is 0.
    pub fn plus(self, b: Expr) -> Expr {
        if b == Expr::Int(0) { self } else { Expr::bin(Op::Add, self, b) }
    }

    /// `a * n`.
    pub fn times(self, n: i64) -> Expr {
        if n == 1 { self } else { Expr::bin(Op::Mul, self, Expr::Int(n)) }
    }

    /// `a < b`.
    pub fn below(self, b: Expr) -> Expr {
        Expr::bin(Op::Lt, self, b)
    }

    /// `a && b`.
    pub fn and(self, b: Expr) -> Expr {
        Expr::bin(Op::And, self, b)
    }

    /// `a.cast::<ty>()`; `a` where it has this type.
    pub fn cast(self, ty: Ty) -> Expr {
        if self.ty() == ty { self } else { Expr::Cast(ty, Box::new(self)) }
    }

    /// `array[at]`.
    pub fn load(array: &Array, at: Vec<Expr>) -> Expr {
        Expr::Load { array: array.name.clone(), ty: array.ty, at, masked: false }
    }

    /// `array.masked(at)`.
    pub fn masked(array: &Array, at: Vec<Expr>) -> Expr {
        Expr::Load { array: array.name.clone(), ty: array.ty, at, masked: true }
    }

    /// `ceil_div(a, n)`.
    pub fn ceil_div(a: Expr, n: i64) -> Expr {
        Expr::bin(Op::CeilDiv, a, Expr::Int(n))
    }
}

/// An extent of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A dim of [`Program::dims`].
    Dim(String),
    /// `Fixed<n>`, or the extent of an array.
    Fixed(i64),
}

/// Where an array lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A parameter.
    Tensor { mutable: bool },
    /// A parameter that the launcher allocates.
    Workspace,
    /// `alloc_shared`, with a swizzle by name.
    Shared { swizzle: Option<&'static str> },
    /// `alloc_local`.
    Local,
    /// `alloc_fragment`.
    Fragment,
}

/// A tensor or array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    pub name: String,
    pub kind: Kind,
    pub ty: Ty,
    pub extents: Vec<Extent>,
}

impl Array {
    /// An array of constant extents.
    pub fn new(name: &str, kind: Kind, ty: Ty, extents: &[i64]) -> Array {
        Array { name: name.into(), kind, ty, extents: extents.iter().map(|e| Extent::Fixed(*e)).collect() }
    }
}

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
    LastArriver { counter: String, at: Expr, count: Expr, body: Vec<Stmt> },
    /// `cluster_reduce(Sum, &mut f);`
    ClusterReduce { how: Combine, array: String },
}

impl Stmt {
    /// The statements inside.
    pub fn bodies(&self) -> Vec<&Vec<Stmt>> {
        match self {
            Stmt::If { then, els, .. } => vec![then, els],
            Stmt::For { body, .. }
            | Stmt::Parallel { body, .. }
            | Stmt::Persistent { body, .. }
            | Stmt::LastArriver { body, .. } => vec![body],
            _ => Vec::new(),
        }
    }

    /// The statements inside.
    pub fn bodies_mut(&mut self) -> Vec<&mut Vec<Stmt>> {
        match self {
            Stmt::If { then, els, .. } => vec![then, els],
            Stmt::For { body, .. }
            | Stmt::Parallel { body, .. }
            | Stmt::Persistent { body, .. }
            | Stmt::LastArriver { body, .. } => vec![body],
            _ => Vec::new(),
        }
    }
}

/// What the elements of an argument are drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Data {
    /// Integers from `-most` (0 for unsigned types) to `most`.
    Integers(i64),
    /// Quarters from `-most` to `most`, among them zeros of both signs; for f16 and f32 also large ones.
    Any,
    /// Zeros: counters and sums.
    Zeros,
    /// A value that no result is: outputs, which the kernel writes completely.
    Poison,
}

/// How results of different executors agree: the classes of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Agreement {
    /// Bit for bit, all NaNs one value (classes E, O and A).
    Bits,
    /// Bit for bit but for the sign of zero (class T).
    Sign,
    /// The simulators bit for bit; the reference and the GPU within this many units in the last place of f32, as `f32`
    /// outputs (class M).
    Ulps(u32),
}

/// A program: its launch shape, its arrays, its body, and the arguments it is run with.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The kernel's name.
    pub name: String,
    /// The family it was drawn from.
    pub family: &'static str,
    /// Tensors in the order of parameters; workspaces come after scalars.
    pub tensors: Vec<Array>,
    /// What the tensors hold, by position.
    pub data: Vec<Data>,
    /// Extra elements a row of each tensor of two axes.
    pub pitch: Vec<i64>,
    /// Scalar parameters and their values.
    pub scalars: Vec<(String, Ty, f64)>,
    /// Dims and their values.
    pub dims: Vec<(String, i64)>,
    /// Constant parameters and their values.
    pub consts: Vec<(String, i64)>,
    /// The dtype that is written as `T`.
    pub generic: Option<Ty>,
    /// Further options of the attribute.
    pub options: Vec<String>,
    /// Grid: index and extent of each axis; no index where nobody needs it.
    pub blocks: Vec<(String, Expr)>,
    /// Threads: index and extent of each axis.
    pub threads: Vec<(String, i64)>,
    /// Blocks of a cluster.
    pub cluster: Vec<i64>,
    /// `use_swizzle`.
    pub panel: Option<i64>,
    /// Shared, local and fragment arrays.
    pub arrays: Vec<Array>,
    /// The statements.
    pub body: Vec<Stmt>,
    /// How results agree.
    pub agreement: Agreement,
    /// Whether only sm_90a is declared.
    pub hopper: bool,
    /// Programs of other tiles, threads or stages that must give what this one gives.
    pub variants: Vec<Program>,
}

impl Program {
    /// A program that does nothing.
    pub fn new(name: &str, family: &'static str) -> Program {
        Program {
            name: name.into(),
            family,
            tensors: Vec::new(),
            data: Vec::new(),
            pitch: Vec::new(),
            scalars: Vec::new(),
            dims: Vec::new(),
            consts: Vec::new(),
            generic: None,
            options: Vec::new(),
            blocks: Vec::new(),
            threads: Vec::new(),
            cluster: Vec::new(),
            panel: None,
            arrays: Vec::new(),
            body: Vec::new(),
            agreement: Agreement::Bits,
            hopper: false,
            variants: Vec::new(),
        }
    }

    /// Adds a tensor parameter.
    pub fn tensor(&mut self, name: &str, mutable: bool, ty: Ty, extents: &[&str], data: Data) -> Array {
        let extents = extents.iter().map(|e| e.parse().map_or_else(|_| Extent::Dim((*e).into()), Extent::Fixed));
        let array = Array { name: name.into(), kind: Kind::Tensor { mutable }, ty, extents: extents.collect() };
        self.tensors.push(array.clone());
        self.data.push(data);
        self.pitch.push(0);
        array
    }

    /// Adds a workspace.
    pub fn workspace(&mut self, name: &str, ty: Ty, extents: &[&str]) -> Array {
        let mut array = self.tensor(name, true, ty, extents, Data::Zeros);
        array.kind = Kind::Workspace;
        if let Some(last) = self.tensors.last_mut() {
            last.kind = Kind::Workspace;
        }
        array
    }

    /// Adds an array.
    pub fn array(&mut self, name: &str, kind: Kind, ty: Ty, extents: &[i64]) -> Array {
        let array = Array::new(name, kind, ty, extents);
        self.arrays.push(array.clone());
        array
    }

    /// The value of a dim.
    pub fn dim(&self, name: &str) -> i64 {
        self.dims.iter().find(|(n, _)| n == name).map_or(0, |(_, value)| *value)
    }

    /// The extents of a tensor or array, with the dims' values.
    pub fn shape(&self, array: &Array) -> Vec<i64> {
        let extent = |e: &Extent| match e {
            Extent::Dim(name) => self.dim(name),
            Extent::Fixed(value) => *value,
        };
        array.extents.iter().map(extent).collect()
    }

    /// Threads of a block.
    pub fn thread_count(&self) -> i64 {
        self.threads.iter().map(|(_, n)| n).product()
    }
}
