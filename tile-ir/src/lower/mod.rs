//! From a kernel to a lowered program.
//!
//! `lower` is these steps, in this order:
//!
//! 1. [`bind`](bind::bind): instance constants, dtypes, static `if`; contraction of `a * b + c`
//! 2. `analysis`: facts about the bound kernel, and its last errors
//! 3. `infer`: warp specialisation, a bulk pipeline or a whole block, with the layouts of fragments and operands
//! 4. the walk (`Lowering`): statements to operations, with guards on what was not proven, and barriers where tile operations meet
//!    other accesses
//! 5. `launch`: C parameters (before the walk), grid, launch checks (after it)
//! 6. `padding`: tiles that fill up a cluster have no effects
//! 7. `dependent`: where a kernel that starts early waits for the previous one; `prefetch`: what is loaded above that wait
//! 8. `place`: shared-memory offsets
//!
//! | of the walk | what it lowers |
//! |---|---|
//! | `statement`, `value`, `vector`, `tile` | statements; expressions; vectorised loops; `copy`, `fill` and `parallel` |
//! | `reduce`, `reduce_tile` | reductions over threads, and over the axis of a tile |
//! | `fragment`, `elementwise`, `mma` | tiles in registers, loops over their elements, their products by `mma.sync` |
//! | `pipeline`, `token`, `held` | software pipelining: slots, the groups of `cp.async` that fill them, and loads staged in registers |
//! | `hopper` | warp specialisation: a producer with TMA, consumers with `wgmma` |
//! | `bulk` | a bulk pipeline: a producer warp, and threads that read long rows by elements |
//! | `cluster`, `arrive` | what blocks do together |
//! | `raster` | which tile a block works on |
//! | `class` | what differs where rows of tensors are not aligned |

mod arrive;
mod bind;
mod block;
mod bulk;
mod class;
mod cluster;
mod dependent;
mod elementwise;
mod formula;
mod fragment;
mod held;
mod hopper;
mod infer;
mod launch;
mod mma;
mod padding;
mod pipeline;
mod place;
mod prefetch;
mod raster;
mod reduce;
mod reduce_tile;
mod statement;
mod tile;
mod token;
mod uses;
mod value;
mod vector;

pub use bind::bind;
pub(crate) use bind::bind_ahead;
#[cfg(any(test, feature = "testing"))]
pub(crate) use launch::host_expr;

use crate::analysis::{Analysis, IndexRange, analyse};
use crate::diag::{Bug, Diagnostic};
use crate::ir::*;
use crate::lowered::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Lowers one instance of a verified kernel for a target.
///
/// Fails only with diagnostics that name the author's line: what the analysis refutes, and resources.
pub fn lower(kernel: &Kernel, instance: &Instance, target: Target) -> Result<Program, Vec<Diagnostic>> {
    let bound = bind(kernel, instance)?;
    lower_bound(&bound, target)
}

/// Whether a kernel's grid is the lowering's to choose, so that [`interface`] differs from what [`lower_bound`] launches.
pub fn chooses_grid(bound: &BoundKernel) -> bool {
    bound.swizzle.is_some()
        || bound
            .stmts
            .values()
            .any(|s| matches!(s.kind, StmtKind::Tile(TileOp::Gemm { .. }) | StmtKind::Persistent { .. }))
}

/// What a launch needs to know of a bound kernel: parameters, grid, checks. The program has no body, and a block a tile.
///
/// # Errors
/// Those of [`lower_bound`].
pub fn interface(bound: &BoundKernel, target: Target) -> Result<Program, Vec<Diagnostic>> {
    let (analysis, _) = chosen(bound, target)?;
    let mut lowering = Lowering::new(bound, &analysis, target);
    lowering.parameters();
    lowering.plain_grid();
    lowering.checks();
    Ok(lowering.program)
}

/// Lowers a bound kernel.
pub fn lower_bound(bound: &BoundKernel, target: Target) -> Result<Program, Vec<Diagnostic>> {
    let (analysis, choice) = chosen(bound, target)?;
    let mut lowering = Lowering::new(bound, &analysis, target);
    lowering.parameters();
    if !bound.class.is_widest() {
        let span = bound.body.first().map_or(SpanId::from_u32(0), |s| bound.stmts[*s].span);
        lowering.remark(RemarkKind::Fallback, span, format!("a lesser alignment class: {}", bound.class));
    }
    match choice {
        infer::Choice::Roles(plan) => lowering.specialised(*plan),
        infer::Choice::Ring(plan) => lowering.ring_of_rows(*plan),
        infer::Choice::Block(block) => lowering.whole_block(*block),
    }
    lowering.checks();
    let body = std::mem::take(&mut lowering.ops);
    let body = lowering.without_effects_of_padding(body);
    lowering.program.body = lowering.dependent(body);
    place::place(&mut lowering.program, &lowering.windows);
    place::fits(bound, &lowering.program)?;
    if let Some(bug) = lowering.bugs.borrow().first() {
        return Err(vec![bug.diagnostic()]);
    }
    // What is compiled is verified as a whole by whoever compiles it.
    #[cfg(any(test, feature = "sim"))]
    if cfg!(debug_assertions) {
        crate::verify::program::structure(&lowering.program).map_err(|bug| vec![bug.diagnostic()])?;
    }
    Ok(lowering.program)
}

/// What is wrong with an analysed kernel on a target beyond what its analysis says: layouts of tiles that nothing divides or
/// that disagree, swizzles that do not fit, and shared memory that only lowering adds.
///
/// Layouts are inferred alone, which is quick; the whole kernel is lowered only where what is added may be too much.
pub(crate) fn refusals(bound: &BoundKernel, analysis: &Analysis, target: Target) -> Vec<Diagnostic> {
    let lies = |buffer: &Buffer| {
        buffer.scope == Scope::Fragment
            || buffer.scope == Scope::Shared
                && matches!(buffer.swizzle, SwizzleRequest::Exactly(s) if s != Swizzle::None)
    };
    let is_deep = |stmt: &Stmt| {
        matches!(stmt.kind, StmtKind::For { kind: LoopKind::Pipelined { stages, .. }, .. }
            if i64::from(class::depth(bound, stages)) > bind::MOST_STAGES)
    };
    if !bound.buffers.values().any(lies) && !bound.stmts.values().any(is_deep) {
        return vec![];
    }
    // At most what a tile that is reduced goes through shared memory in, and what its result does; what the other blocks of a
    // cluster send, and a tile's way to its tensor.
    let blocks = bound.cluster.iter().filter_map(|extent| bound.const_index(*extent)).product::<i64>().unsigned_abs();
    let added = |stmt: &Stmt| {
        if let StmtKind::Tile(TileOp::ReduceTile { src, .. }) = stmt.kind {
            return bound.buffer_len(src).saturating_mul(8);
        }
        let StmtKind::Tile(TileOp::ClusterReduce { tile, .. }) = stmt.kind else { return 0 };
        bound.buffer_len(tile).saturating_mul(4).saturating_mul(blocks.saturating_add(1))
    };
    match infer::infer(bound, analysis, target) {
        Err(diagnostics) => diagnostics,
        Ok(infer::Choice::Block(_) | infer::Choice::Roles(_)) => {
            let added = bound.stmts.values().map(added).fold(0, u64::saturating_add);
            let most = crate::analysis::shared_bytes(bound).saturating_add(added);
            match added > 0 && most > u64::from(target.max_shared_bytes()) {
                true => lower_bound(bound, target).err().unwrap_or_default(),
                false => vec![],
            }
        }
        Ok(infer::Choice::Ring(_)) => vec![],
    }
}

/// The facts of a bound kernel and how it is lowered.
fn chosen(bound: &BoundKernel, target: Target) -> Result<(Analysis, infer::Choice), Vec<Diagnostic>> {
    let analysis = analyse(bound, target);
    if !analysis.diagnostics.is_empty() {
        return Err(bind::for_values(bound, analysis.diagnostics));
    }
    let choice = infer::infer(bound, &analysis, target)?;
    let analysis = match choice {
        // TMA clips rows of any length.
        infer::Choice::Roles(_) | infer::Choice::Ring(_) => analysis,
        infer::Choice::Block(_) => analysis.widened(bound),
    };
    Ok((analysis, choice))
}

/// What a variable is in the program.
#[derive(Clone, Copy, Debug)]
enum Binding {
    /// A register.
    Reg(RegId),
    /// In a vectorised loop: one element an iteration.
    PerElement(LocalId),
    /// An expression, inlined where it is used: indices computed inside vectorised loops.
    Inline(ExprId),
    /// The value of a vectorised loop's index at the element being lowered.
    Value(ValueId),
}

/// The state of a lowering.
struct Lowering<'a> {
    kernel: &'a BoundKernel,
    analysis: &'a Analysis,
    program: Program,
    vars: SecondaryMap<VarId, Option<Binding>>,
    locals: SecondaryMap<BufferId, Option<LocalId>>,
    shared: SecondaryMap<BufferId, Option<SharedId>>,
    /// Layouts of fragments and of operands in shared memory.
    layouts: infer::Layouts,
    /// The products of a whole block: of a kernel that is not warp-specialised.
    products: BTreeMap<StmtId, block::Product>,
    /// Whether blocks are launched in the clusters that the author asks for.
    clusters: bool,
    fragments: SecondaryMap<BufferId, Option<fragment::Registers>>,
    /// Where tiles of other blocks of the cluster arrive, by statement.
    inboxes: BTreeMap<StmtId, cluster::Inbox>,
    /// In a loop over a fragment, the register that is the element being lowered.
    register: Option<ValueId>,
    /// In a loop over a fragment, the fragment's layout.
    tile_layout: Option<crate::layout::Fragment>,
    /// In a loop over a fragment of one axis, whose elements several threads hold: whether this one is the first.
    first_holder: Option<ValueId>,
    /// The number of this thread among the threads that compute, where it differs from the hardware's.
    thread: Option<RegId>,
    /// What a consumer knows of its ring.
    roles: Option<Rc<hopper::Roles>>,
    /// Of a warp-specialised kernel: the loop whose products are being lowered.
    accumulates: Option<hopper::Accumulates>,
    /// What the author's threads know of a ring of bulk copies.
    ring: Option<Rc<bulk::Ring>>,
    /// Registers that say whether a tile is one of the author's, where blocks may have others.
    insides: BTreeSet<RegId>,
    /// With ping-pong: whether the other warpgroup has another tile.
    more_tiles: Option<ValueId>,
    /// Sub-tiles on their way from fragments to tensors.
    staging_array: Option<SharedId>,
    /// Arrays that tensor cores read beyond, and by how many bytes: what lies there does not matter, but it must exist.
    windows: Vec<(SharedId, u32)>,
    /// Whether producer and consumers have placed their waits for the previous kernel.
    roles_wait: bool,
    /// Tensors whose elements are stored two by two, which their rows must allow.
    paired: BTreeSet<ParamId>,
    /// What the launch checks of indices that the lowering makes.
    index_ranges: Vec<IndexRange>,
    /// Sums of indices that are computed before they are added to something.
    signed_sums: BTreeSet<ValueId>,
    /// The number of slots of each array that a pipelined loop loads ahead.
    stages: BTreeMap<BufferId, u32>,
    /// Of an array that a pipelined loop loads ahead: the first element of the slot that its name stands for now.
    slots: SecondaryMap<BufferId, Option<ValueId>>,
    /// Accesses already loaded into a temporary by the vectorised statement being lowered.
    loaded: Vec<(AccessId, LocalId)>,
    /// In a vectorised statement: the position of the element being lowered.
    element: Option<ValueId>,
    /// Operations of the block being lowered.
    ops: Vec<Op>,
    names: BTreeSet<String>,
    /// What the lowering came upon and cannot be: it ends with the first of these.
    bugs: RefCell<Vec<Bug>>,
    loop_depth: u32,
    /// Where the statement being lowered stands.
    span: SpanId,
}

impl<'a> Lowering<'a> {
    fn new(kernel: &'a BoundKernel, analysis: &'a Analysis, target: Target) -> Self {
        let none = HostExpr::Int(1);
        let program = Program {
            name: kernel.name.clone(),
            target,
            params: Vec::new(),
            tensors: Vec::new(),
            dims: kernel.dims.values().map(|d| d.name.clone()).collect(),
            launch: Launch {
                grid: [none.clone(), none.clone(), none],
                threads: kernel.thread_extents(),
                min_blocks: kernel.attributes.min_blocks,
                cluster: [1, 1, 1],
                registers: None,
                class: kernel.class,
                dependent: match &kernel.attributes.dependent {
                    Some(dependent) if target.has_dependent_launch() => Some(dependent.trigger),
                    _ => None,
                },
                checks: Vec::new(),
            },
            tensor_maps: PrimaryMap::new(),
            shared: PrimaryMap::new(),
            barriers: PrimaryMap::new(),
            shared_bytes: 0,
            locals: PrimaryMap::new(),
            regs: PrimaryMap::new(),
            values: PrimaryMap::new(),
            body: Vec::new(),
            messages: PrimaryMap::new(),
            arrivals: Vec::new(),
            tiles: Vec::new(),
            remarks: Vec::new(),
            spans: kernel.spans.clone(),
            source: kernel.source.clone(),
        };
        Lowering {
            kernel,
            analysis,
            program,
            vars: SecondaryMap::new(),
            locals: SecondaryMap::new(),
            shared: SecondaryMap::new(),
            layouts: infer::Layouts::default(),
            products: BTreeMap::new(),
            clusters: true,
            fragments: SecondaryMap::new(),
            inboxes: BTreeMap::new(),
            register: None,
            tile_layout: None,
            first_holder: None,
            thread: None,
            roles: None,
            accumulates: None,
            ring: None,
            insides: BTreeSet::new(),
            more_tiles: None,
            staging_array: None,
            windows: Vec::new(),
            roles_wait: false,
            paired: BTreeSet::new(),
            index_ranges: Vec::new(),
            signed_sums: BTreeSet::new(),
            stages: class::stages(kernel),
            slots: SecondaryMap::new(),
            loaded: Vec::new(),
            element: None,
            ops: Vec::new(),
            names: BTreeSet::new(),
            bugs: RefCell::default(),
            loop_depth: 0,
            span: SpanId::from_u32(0),
        }
    }

    /// A name for `wanted` that nothing in the program has. What C makes of it is the emitter's matter.
    fn name(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut suffix = 1;
        while !self.names.insert(name.clone()) {
            name = format!("{wanted}_{suffix}");
            suffix += 1;
        }
        name
    }

    fn reg(&mut self, name: &str, ty: ValueType, mutable: bool) -> RegId {
        let name = self.name(name);
        self.program.regs.push(Reg { name, ty, mutable })
    }

    fn local(&mut self, name: &str, dtype: Dtype, len: u32) -> LocalId {
        let name = self.name(name);
        self.program.locals.push(LocalArray { name, dtype, len })
    }

    fn op(&mut self, mut kind: OpKind) {
        // An index is held in what its register has. A loop's end may be one that the index is never at: it is compared as it is.
        if let OpKind::Let { reg, value: Some(value) }
        | OpKind::Set { reg, value }
        | OpKind::For { reg, start: value, .. } = &mut kind
        {
            *value = self.fit(*value, self.program.regs[*reg].ty);
        }
        self.ops.push(Op { kind, span: self.span });
    }

    /// Lowers with `f` into a list of operations of its own.
    fn nested(&mut self, f: impl FnOnce(&mut Self)) -> Vec<Op> {
        let outer = std::mem::take(&mut self.ops);
        f(self);
        std::mem::replace(&mut self.ops, outer)
    }

    /// Something that cannot be, at the statement being lowered: the lowering ends with an error that says so.
    fn bug(&self, text: &str) {
        self.bugs.borrow_mut().push(Bug::new(self.span, text));
    }

    fn remark(&mut self, kind: RemarkKind, span: SpanId, text: String) {
        let remark = Remark { kind, text, span };
        // A statement may be lowered several times.
        if !self.program.remarks.contains(&remark) {
            self.program.remarks.push(remark);
        }
    }

    fn value_type(&self, ty: Type) -> ValueType {
        match ty {
            Type::Index => ValueType::Index,
            Type::Value(DtypeRef::Is(dtype)) => ValueType::Element(dtype),
            // Absent from bound kernels.
            Type::Value(DtypeRef::Param(_)) => ValueType::Element(Dtype::F32),
        }
    }
}
