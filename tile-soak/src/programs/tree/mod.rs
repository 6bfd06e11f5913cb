//! A generated program as a tree: what the text is printed from and what the reference evaluates.
//!
//! It is not tile IR: it knows no parser, no analysis and no lowering, so that a mistake there cannot hide in it.
#![expect(
    missing_docs,
    reason = "an operator is its name, and a statement's fields are in the line of source above it"
)]

mod expr;
mod stmt;

pub use expr::{Expr, Fun, Op, Ty};
pub use stmt::{Ask, Combine, Loop, Stmt, Tile};

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

/// A `#[tile_fn]` of a single value.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    pub name: String,
    /// Its parameters, which are all that its value is made of.
    pub params: Vec<(String, Ty)>,
    pub value: Expr,
    /// Whether its body has a statement before the value: `let r = value; r`.
    pub has_statement: bool,
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
    /// Dims that are constants when the kernel is compiled at a launch.
    pub specialized: Vec<String>,
    /// Optional tensors by name, and whether the launch gives them.
    pub optional: Vec<(String, bool)>,
    /// The functions that it calls.
    pub functions: Vec<Function>,
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
            specialized: Vec::new(),
            optional: Vec::new(),
            functions: Vec::new(),
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

    /// Whether the launch gives a tensor: any that is not optional, and those optional ones that it has a value for.
    pub fn is_given(&self, tensor: &str) -> bool {
        self.optional.iter().all(|(name, given)| name != tensor || *given)
    }

    /// Threads of a block.
    pub fn thread_count(&self) -> i64 {
        self.threads.iter().map(|(_, n)| n).product()
    }
}
