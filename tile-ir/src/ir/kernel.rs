//! The kernel: parameters, instances, launch shape, and the tables of everything in its body.

use super::{
    Access, AccessId, BufferId, Class, ConstId, DimId, Dtype, DtypeRef, Expr, ExprId, ParamId, PrimaryMap, Source,
    Span, SpanId, Stmt, StmtId, SwizzleRequest, Target, Type, TypeParamId, VarId,
};
use serde::{Deserialize, Serialize};

/// One kernel as its author wrote it. After `lower::bind` the same structure, with `type_params` and `consts` empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// The function's name.
    pub name: String,
    /// Dtype parameters.
    pub type_params: PrimaryMap<TypeParamId, TypeParam>,
    /// Const parameters.
    pub consts: PrimaryMap<ConstId, ConstParam>,
    /// Dynamic dimensions, in order of first appearance.
    pub dims: PrimaryMap<DimId, Dim>,
    /// Parameters, in order.
    pub params: PrimaryMap<ParamId, Param>,
    /// The declared instances, in order: dtypes vary slowest. Never empty once verified; one empty instance where
    /// nothing is generic.
    pub instances: Vec<Instance>,
    /// `require(..)`.
    pub requires: Vec<Require>,
    /// `targets(..)`.
    pub targets: Vec<Target>,
    /// Further attributes.
    pub attributes: Attributes,
    /// Grid axes, x first. Extents are expressions of dims, constants and scalar parameters only.
    pub grid: Vec<Axis>,
    /// Thread axes, x first. Extents are constants.
    pub threads: Vec<Axis>,
    /// `cluster([x, y])`: blocks a cluster on each grid axis, constants; empty for blocks on their own.
    pub cluster: Vec<ExprId>,
    /// The alignment class it is bound for; the widest before it is bound.
    pub class: Class,
    /// `use_swizzle(panel)`: blocks take the tiles in groups of `panel` along y, of what is known before the launch.
    pub swizzle: Option<ExprId>,
    /// Variables.
    pub vars: PrimaryMap<VarId, Var>,
    /// Arrays.
    pub buffers: PrimaryMap<BufferId, Buffer>,
    /// Expressions.
    pub exprs: PrimaryMap<ExprId, Expr>,
    /// Element accesses.
    pub accesses: PrimaryMap<AccessId, Access>,
    /// Statements.
    pub stmts: PrimaryMap<StmtId, Stmt>,
    /// The body. Constant `let`s before `blocks(..)` are part of it.
    pub body: Vec<StmtId>,
    /// Source ranges.
    pub spans: PrimaryMap<SpanId, Span>,
    /// Source text.
    pub source: Source,
}

/// A dtype parameter `T`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypeParam {
    /// Its name.
    pub name: String,
    /// The dtypes it ranges over.
    pub allowed: Vec<Dtype>,
    /// Where it is declared.
    pub span: SpanId,
}

/// A const parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConstParam {
    /// Its name.
    pub name: String,
    /// `usize` or `bool`.
    pub kind: ConstKind,
    /// Where it is declared.
    pub span: SpanId,
}

/// The type of a const parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ConstKind {
    Usize,
    Bool,
}

/// A dynamic dimension.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dim {
    /// Its name.
    pub name: String,
    /// Where it first appears.
    pub span: SpanId,
    /// Its value, in a bound kernel whose instance gives it one (`specialize`); the launch must agree.
    pub value: Option<i64>,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: ParamKind,
    /// Where it is declared.
    pub span: SpanId,
}

/// Most axes of a tensor.
pub const MOST_TENSOR_AXES: usize = 4;
/// Most axes of an array of the kernel.
pub const MOST_ARRAY_AXES: usize = 3;

/// What a parameter is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ParamKind {
    /// A row-major global tensor, rank 1 to [`MOST_TENSOR_AXES`]. The innermost stride is 1; every other axis has a dynamic stride of
    /// at least the extents inside it.
    Tensor {
        /// Element type.
        dtype: DtypeRef,
        /// Extents, outermost first.
        shape: Vec<Extent>,
        /// `&mut`.
        mutable: bool,
        /// `Option<&Tensor<..>>`: a launch may leave it out, and then its uses are not compiled. Not once bound.
        optional: bool,
    },
    /// An optional tensor that the bound launch leaves out: nothing mentions it. Only once bound.
    Absent,
    /// A value: `usize`, or an element type.
    Scalar {
        /// Its type.
        ty: Type,
    },
}

/// A tensor's extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Extent {
    /// A dynamic dimension.
    Dim(DimId),
    /// A constant expression: a const parameter or `Fixed<..>`.
    Fixed(ExprId),
}

/// One declared combination of dtypes and constants, which optional tensors are left out, and the alignment class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Instance {
    /// One dtype a type parameter.
    pub dtypes: Vec<Dtype>,
    /// One value a const parameter; a bool is 0 or 1.
    pub consts: Vec<i64>,
    /// Values of specialised dims, known when the kernel is compiled at run time: empty in a declared instance, and
    /// all of `Attributes::specialize` in one that is lowered.
    pub dims: Vec<(DimId, i64)>,
    /// Optional tensors this launch leaves out, ascending. Declared instances leave out none: which are absent is
    /// chosen by a launch.
    pub absent: Vec<ParamId>,
    /// The alignment class, chosen by a launch: the widest in a declared instance.
    pub class: Class,
}

impl Instance {
    /// This instance with its specialised dims bound.
    pub fn with_dims(&self, dims: Vec<(DimId, i64)>) -> Instance {
        Instance { dims, ..self.clone() }
    }

    /// The value of a dim, where the instance binds it.
    pub fn dim(&self, dim: DimId) -> Option<i64> {
        self.dims.iter().find(|(bound, _)| *bound == dim).map(|(_, value)| *value)
    }
}

/// A launch contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Require {
    /// What must hold: an expression of dims, constants, scalar parameters.
    pub cond: ExprId,
    /// The text as written.
    pub text: String,
    /// Where.
    pub span: SpanId,
}

/// Attributes that steer code generation and lints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Attributes {
    /// `min_blocks(n)`: blocks a multiprocessor should hold.
    pub min_blocks: Option<u32>,
    /// `stream(w)`: tensors whose data are used once: loads of what is only read leave no copy in L1, stores are the first to leave L2.
    pub stream: Vec<ParamId>,
    /// `partial(y)`: tensors of which a launch may leave elements as they are. None of them is only read.
    pub partial: Vec<ParamId>,
    /// `&mut Workspace<..>` parameters: tensors that the launcher allocates, after all other parameters.
    pub workspaces: Vec<ParamId>,
    /// `specialize(K, max = n)`: dims that are constants of the compiled kernel.
    pub specialize: Option<Specialize>,
    /// `pdl(..)`: the kernel may start before the previous one of its stream is done. `None`: it starts when that one is done.
    pub dependent: Option<Dependent>,
    /// `lints(CODE = "..")`: code and level (`warn`, `deny` or `off`).
    pub lints: Vec<(String, String)>,
}

/// `pdl(independent = [w], trigger = AtStart)`: programmatic dependent launch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Dependent {
    /// What the kernel may read before the previous one is done: tensors that none of the kernels that may still run then writes. The
    /// kernel itself may write them, after its wait: a cache that it reads and appends to.
    pub independent: Vec<ParamId>,
    /// When it lets the next kernel start.
    pub trigger: Trigger,
}

/// When a kernel that may start early lets the next one of its stream start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trigger {
    /// Once all of its blocks have waited for the previous kernel: what runs beside the next one is this kernel alone.
    #[default]
    AfterWait,
    /// Once all of its blocks have started: the kernels before it may still run beside the next one.
    AtStart,
}

/// Dims that become constants when the kernel is compiled at run time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Specialize {
    /// The dims, each an extent of a tensor: at least one, at most [`Specialize::MOST_DIMS`].
    pub dims: Vec<DimId>,
    /// How many variants of an instance a device keeps: beyond that, the one launched least recently is dropped.
    pub max: u32,
    /// Where it stands.
    pub span: SpanId,
}

impl Specialize {
    /// Most dims a kernel specialises: their values are the key of a launch.
    pub const MOST_DIMS: usize = 4;
    /// How many variants are kept where the author does not say.
    pub const MAX: u32 = 32;
}

/// A grid or thread axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// The binding, one of `vars`, made up where the author wrote none.
    pub var: VarId,
    /// How many.
    pub extent: ExprId,
    /// Where the extent stands.
    pub span: SpanId,
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Var {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// What binds it.
    pub kind: VarKind,
    /// Where it is bound.
    pub span: SpanId,
}

/// What binds a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VarKind {
    /// `let`, assigned once.
    Let,
    /// `let mut`, per thread.
    Mut,
    /// A loop's index.
    Loop,
    /// The block index on this grid axis.
    Block(u8),
    /// The thread index on this thread axis.
    Thread(u8),
}

/// An array of the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Buffer {
    /// Its name.
    pub name: String,
    /// Where it lives.
    pub scope: Scope,
    /// Element type.
    pub dtype: DtypeRef,
    /// Extents, constants, outermost first.
    pub extents: Vec<ExprId>,
    /// `alloc_shared(..).swizzle(..)`: the layout asked for.
    pub swizzle: SwizzleRequest,
    /// Where it is declared.
    pub span: SpanId,
}

/// Where an array lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// Shared by a block.
    Shared,
    /// Private to a thread, in registers.
    Local,
    /// One tile for the block, spread over its threads' registers by a layout that the compiler chooses.
    Fragment,
}

/// A `persistent` loop: its index takes the place of the block's in the grid.
#[derive(Clone, Copy, Debug)]
pub struct PersistentLoop<'a> {
    /// The loop.
    pub stmt: super::StmtId,
    /// Its indices, x first.
    pub vars: &'a [super::VarId],
    /// How many tiles there are along each.
    pub extents: &'a [ExprId],
    /// Whether a block takes consecutive tiles.
    pub contiguous: bool,
    /// Where the blocks count the tiles that they have taken, if they do.
    pub counter: Option<super::AccessId>,
    /// What is done for a tile.
    pub body: &'a [super::StmtId],
}

impl ParamKind {
    /// Whether its dtype is one that an instance chooses.
    pub(crate) const fn is_generic(&self) -> bool {
        match self {
            ParamKind::Tensor { dtype: DtypeRef::Param(_), .. } => true,
            ParamKind::Scalar { ty: super::Type::Value(DtypeRef::Param(_)) } => true,
            ParamKind::Tensor { .. } | ParamKind::Scalar { .. } | ParamKind::Absent => false,
        }
    }
}

impl Kernel {
    /// The `persistent` loop that stands for the grid, if there is one.
    pub fn persistent(&self) -> Option<PersistentLoop<'_>> {
        self.stmts.iter().find_map(|(stmt, s)| {
            let super::StmtKind::Persistent { vars, extents, contiguous, counter, body, .. } = &s.kind else {
                return None;
            };
            Some(PersistentLoop { stmt, vars, extents, contiguous: *contiguous, counter: *counter, body })
        })
    }

    /// The value that the `let` of a variable gives it; `None` for one without, and for an index of a loop, block or thread.
    pub fn declared_as(&self, var: super::VarId) -> Option<ExprId> {
        self.stmts.values().find_map(|s| {
            let super::StmtKind::Let { var: declared, value } = s.kind else { return None };
            value.filter(|_| declared == var)
        })
    }

    /// The value of an integer literal; `None` for anything else. Once bound, every constant is a literal.
    pub fn const_index(&self, expr: ExprId) -> Option<i64> {
        match self.exprs[expr].kind {
            super::ExprKind::Int(value) => Some(value),
            _ => None,
        }
    }

    /// Whether a loop may be left before its range ends: its body assigns its index.
    pub fn is_left_early(&self, stmt: super::StmtId) -> bool {
        let super::StmtKind::For { var, body, .. } = &self.stmts[stmt].kind else { return false };
        let mut open: Vec<super::StmtId> = body.clone();
        while let Some(stmt) = open.pop() {
            let kind = &self.stmts[stmt].kind;
            if kind.sets().contains(var) {
                return true;
            }
            // An inner loop's statements leave the inner loop.
            if let super::StmtKind::If { then, otherwise, .. } = kind {
                open.extend(then.iter().chain(otherwise));
            }
        }
        false
    }

    /// The dims that `specialize` names.
    pub fn specialized(&self) -> &[DimId] {
        self.attributes.specialize.as_ref().map_or(&[], |s| &s.dims)
    }

    /// The first tensor with this dim that a launch may not leave out, and the axis that has it: where a launch finds its value.
    pub fn place_of(&self, dim: DimId) -> Option<(ParamId, usize)> {
        self.params.iter().find_map(|(id, param)| match &param.kind {
            ParamKind::Tensor { shape, optional: false, .. } => {
                Some((id, shape.iter().position(|e| *e == Extent::Dim(dim))?))
            }
            ParamKind::Tensor { optional: true, .. } | ParamKind::Scalar { .. } | ParamKind::Absent => None,
        })
    }

    /// What has a place; `None` of a tensor.
    pub fn scope_of(&self, place: super::Place) -> Option<super::Scope> {
        place.buffer().map(|buffer| self.buffers[buffer].scope)
    }

    /// The name of what is accessed.
    pub fn place_name(&self, place: super::Place) -> &str {
        match place {
            super::Place::Tensor(param) => &self.params[param].name,
            super::Place::Buffer(buffer) => &self.buffers[buffer].name,
        }
    }

    /// The dtype of what is accessed.
    pub fn place_dtype(&self, place: super::Place) -> DtypeRef {
        match place {
            super::Place::Tensor(param) => match self.params[param].kind {
                ParamKind::Tensor { dtype, .. } => dtype,
                ParamKind::Scalar { .. } | ParamKind::Absent => DtypeRef::Is(Dtype::F32),
            },
            super::Place::Buffer(buffer) => self.buffers[buffer].dtype,
        }
    }
}
