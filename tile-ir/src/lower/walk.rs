//! The walk: statements of a bound kernel to operations of a program, expressions to values with addresses, with guards on what was not
//! proven, and barriers where tile operations meet other accesses.
//!
//! One visit of the kernel's statements. What differs between schedules is in `hopper` and `block`, which begin it.

use super::builder::Builder;
use super::schedule::{Layouts, Partitions};
use super::term::Term;
use super::{block, class, cluster, fragment, hopper, lines};
use crate::analysis::{Analysis, IndexRange};
use crate::diag::Diagnostic;
use crate::ir::*;
use crate::layout;
use crate::lowered::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// The program of a kernel, with the launch's grid and checks; not yet placed in shared memory, without what `padding` and `dependent` do.
///
/// # Errors
/// Something that cannot be: a mistake of the compiler.
pub(super) fn walk(
    bound: &BoundKernel,
    facts: &Analysis,
    partitions: Partitions,
    remarks: &[(SpanId, String)],
    target: Target,
) -> Result<Program, Vec<Diagnostic>> {
    let mut lowering = Lowering::new(bound, facts, target);
    lowering.parameters();
    if !bound.class.is_widest() {
        let span = bound.body.first().map_or(SpanId::from_u32(0), |s| bound.stmts[*s].span);
        lowering.remark(RemarkKind::Fallback, span, format!("a lesser alignment class: {}", bound.class));
    }
    for (span, text) in remarks {
        lowering.remark(RemarkKind::Choice, *span, text.clone());
    }
    match partitions {
        Partitions::Specialised(plan) => lowering.specialised(*plan),
        Partitions::Block(block) => lowering.whole_block(*block),
    }
    lowering.checks();
    if bound.attributes.dependent.is_some() && lowering.program.launch.dependent.is_none() {
        let text = format!("{target} has no dependent launch: `pdl` has no effect");
        lowering.remark(RemarkKind::Fallback, SpanId::from_u32(0), text);
    }
    lowering.program.body = std::mem::take(&mut lowering.ops);
    lowering.out.finish()
}

/// The part of a program that a launch needs: parameters, grid and checks. It has no body, and a block a tile.
///
/// # Errors
/// Something that cannot be: a mistake of the compiler.
pub(super) fn interface(bound: &BoundKernel, facts: &Analysis, target: Target) -> Result<Program, Vec<Diagnostic>> {
    let mut lowering = Lowering::new(bound, facts, target);
    lowering.parameters();
    lowering.plain_grid();
    lowering.checks();
    lowering.out.finish()
}

/// What a variable is in the program.
#[derive(Clone, Copy, Debug)]
pub(super) enum Binding {
    /// A register.
    Reg(RegId),
    /// In a vectorised loop: one element an iteration.
    PerElement(LocalId),
    /// An expression, inlined where it is used: indices computed inside vectorised loops.
    Inline(ExprId),
    /// The value of a vectorised loop's index at the element being lowered.
    Value(ValueId),
}

/// The element that is being lowered: of a loop over a fragment, or of a vectorised loop.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Element {
    /// Its position in arrays that have an element for each.
    pub(super) position: Option<ValueId>,
    /// Its register, in this layout.
    pub(super) register: Option<(ValueId, layout::Fragment)>,
    /// Where several threads hold it: whether this one is the first.
    pub(super) first_holder: Option<ValueId>,
}

/// The state of a lowering.
pub(super) struct Lowering<'a> {
    pub(super) kernel: &'a BoundKernel,
    pub(super) analysis: &'a Analysis,
    /// What is written.
    pub(super) out: Builder,
    pub(super) vars: SecondaryMap<VarId, Option<Binding>>,
    pub(super) locals: SecondaryMap<BufferId, Option<LocalId>>,
    pub(super) shared: SecondaryMap<BufferId, Option<SharedId>>,
    /// Layouts of fragments and of operands in shared memory.
    pub(super) layouts: Layouts,
    /// The products of a whole block: of a kernel that is not warp-specialised.
    pub(super) products: BTreeMap<StmtId, block::Product>,
    /// Whether blocks are launched in the clusters that the author asks for.
    pub(super) clusters: bool,
    pub(super) fragments: SecondaryMap<BufferId, Option<fragment::Registers>>,
    /// Where tiles of other blocks of the cluster arrive, by statement.
    pub(super) inboxes: BTreeMap<StmtId, cluster::Inbox>,
    /// Whether all blocks of the cluster are known to have begun.
    pub(super) is_met: bool,
    /// What is being lowered of a loop over a fragment, or of a vectorised one.
    pub(super) element: Element,
    /// The number of this thread among the threads that compute, where it differs from the hardware's.
    pub(super) thread: Option<RegId>,
    /// What a consumer knows of its channels.
    pub(super) roles: Option<Rc<hopper::Roles>>,
    /// The indices of loops that consumers read slots in, in the first iteration.
    pub(super) first: SecondaryMap<VarId, Option<ValueId>>,
    /// With ping-pong: whether the other warpgroup has another tile.
    pub(super) more_tiles: Option<ValueId>,
    /// Whether tiles are found by reciprocals that the launcher passes.
    pub(super) reciprocals: bool,
    /// Of a warp-specialised kernel that counts its tiles: where, and how consumers learn of it.
    pub(super) counted: Option<hopper::Counted>,
    /// Tensors of which so many elements are stored at once, which their rows must allow.
    pub(super) pieces: BTreeMap<ParamId, u32>,
    /// What the launch checks of indices that the lowering makes.
    pub(super) index_ranges: Vec<IndexRange>,
    /// Arrays that a pipelined loop loads, each warp the rows that it alone reads.
    pub(super) own_rows: BTreeSet<BufferId>,
    /// Whether there is the iteration whose loads are being lowered, where its asynchronous copies ask that themselves.
    pub(super) exists: Option<ValueId>,
    /// The number of slots of each array that a pipelined loop loads ahead.
    pub(super) stages: BTreeMap<BufferId, u32>,
    /// Of an array that a pipelined loop loads ahead: the first element of the slot that its name stands for now.
    pub(super) slots: SecondaryMap<BufferId, Option<ValueId>>,
    /// The arrays that vectorised statements have loaded accesses into.
    pub(super) loaded: SecondaryMap<AccessId, Option<LocalId>>,
    /// What threads load for the work on a product while it runs, by the product.
    pub(super) held: BTreeMap<StmtId, Vec<hopper::Held>>,
    /// What the chunk being lowered of a loop over a fragment has loaded of rows and columns.
    pub(super) lines: BTreeMap<AccessId, lines::LoadedLine>,
    /// Quotients that a producer has computed before the loop that it is in.
    pub(super) quotients: BTreeMap<ExprId, ValueId>,
    pub(super) loop_depth: u32,
}

impl Deref for Lowering<'_> {
    type Target = Builder;

    fn deref(&self) -> &Builder {
        &self.out
    }
}

impl DerefMut for Lowering<'_> {
    fn deref_mut(&mut self) -> &mut Builder {
        &mut self.out
    }
}

impl<'a> Lowering<'a> {
    fn new(kernel: &'a BoundKernel, analysis: &'a Analysis, target: Target) -> Self {
        let mut program = Program::empty(&kernel.name, target);
        program.dims = kernel.dims.values().map(|d| d.name.clone()).collect();
        program.launch.threads = kernel.thread_extents();
        program.launch.min_blocks = kernel.attributes.min_blocks;
        program.launch.class = kernel.class;
        program.launch.dependent = match &kernel.attributes.dependent {
            Some(dependent) if target.has_dependent_launch() => Some(dependent.trigger),
            _ => None,
        };
        program.spans = kernel.spans.clone();
        program.source = kernel.source.clone();
        Lowering {
            kernel,
            analysis,
            out: Builder::new(program),
            vars: SecondaryMap::new(),
            locals: SecondaryMap::new(),
            shared: SecondaryMap::new(),
            layouts: Layouts::default(),
            products: BTreeMap::new(),
            clusters: true,
            fragments: SecondaryMap::new(),
            inboxes: BTreeMap::new(),
            element: Element::default(),
            thread: None,
            roles: None,
            first: SecondaryMap::new(),
            more_tiles: None,
            reciprocals: false,
            counted: None,
            pieces: BTreeMap::new(),
            own_rows: BTreeSet::new(),
            exists: None,
            is_met: true,
            index_ranges: Vec::new(),
            stages: class::stages(kernel),
            slots: SecondaryMap::new(),
            loaded: SecondaryMap::new(),
            held: BTreeMap::new(),
            lines: BTreeMap::new(),
            quotients: BTreeMap::new(),
            loop_depth: 0,
        }
    }

    /// Lowers with `f` into a list of operations of its own.
    pub(super) fn nested(&mut self, f: impl FnOnce(&mut Self)) -> Vec<Op> {
        let outer = std::mem::take(&mut self.ops);
        f(self);
        std::mem::replace(&mut self.ops, outer)
    }

    /// Lowers with `f` what is executed where a condition holds.
    pub(super) fn when(&mut self, cond: impl Into<Term>, f: impl FnOnce(&mut Self)) {
        let then = self.nested(f);
        self.guarded(cond, then);
    }

    /// Lowers with `f` what is executed where a condition holds, and with `g` what is where it does not.
    pub(super) fn either(&mut self, cond: ValueId, f: impl FnOnce(&mut Self), g: impl FnOnce(&mut Self)) {
        let span = self.span;
        let (then, otherwise) = (self.nested(f), self.nested(g));
        self.span = span;
        self.op(OpKind::If { cond, then, otherwise });
    }

    /// Lowers an element with `f`.
    pub(super) fn at_element<R>(&mut self, element: Element, f: impl FnOnce(&mut Self) -> R) -> R {
        let outer = std::mem::replace(&mut self.element, element);
        let result = f(self);
        self.element = outer;
        result
    }

    pub(super) fn value_type(&self, ty: Type) -> ValueType {
        match ty {
            Type::Index => ValueType::Index,
            Type::Value(DtypeRef::Is(dtype)) => ValueType::Element(dtype),
            // Absent from bound kernels.
            Type::Value(DtypeRef::Param(_)) => ValueType::Element(Dtype::F32),
        }
    }
}
