//! The symbolic walk: every statement once, in order, with what is known on the way to it.
//!
//! Integer values become polynomials over symbols and conditions become [`Cond`]s, each with the values its variables
//! have where it stands. Loops are walked once with a symbol for the index; variables assigned in a loop become
//! symbols of their own. The rules themselves are in the sibling modules, called where their subject is met.
//!
//! | file | |
//! |---|---|
//! | `launch` | what is known before the first statement: dims, parameters, `require`, the indices of blocks and threads |
//! | `statement` | a statement, and what the arms of a conditional leave behind |
//! | `loops` | a loop once for all its iterations |
//! | `expression` | the value of an expression |
//! | `arithmetic` | integer operations on polynomials, and where they may wrap |

mod arithmetic;
mod expression;
mod launch;
mod loops;
pub(super) mod statement;

use super::guards::Use;
use super::induction::Induction;
use super::parallel::PerThread;
use super::ranges::Counted;
use super::regions::Regions;
use super::uniform::Uniformity;
use super::{Analysis, Bound, bounds, guards, lints, ranges, tiles, vector};
use crate::constraint::{Cond, Context, Interval, Mark, Poly, Sym, Varies};
use crate::diag::Code;
use crate::ir::pipeline::shared_loads;
use crate::ir::{
    AccessId, BoundKernel, Dtype, DtypeRef, ExprId, Extent, ParamKind, Place, SecondaryMap, SpanId, StmtId, Type,
    VarId, VarKind,
};
use crate::lowered::HostExpr;
use std::collections::{BTreeSet, HashMap};
use vector::VectorLoop;

/// The state of the walk.
pub(super) struct Walk<'k> {
    pub kernel: &'k BoundKernel,
    pub cx: Context,
    pub analysis: Analysis,
    pub uniform: Uniformity,
    /// Dims, as multiples of what `require` says they are multiples of.
    dims: Vec<Poly>,
    /// Integer scalar parameters, likewise.
    scalars: HashMap<u32, Poly>,
    vars: SecondaryMap<VarId, Value>,
    /// What the launcher knows symbols as.
    pub hosts: HashMap<Sym, HostExpr>,
    /// Symbols that run over a range: thread and block indices, loop counters, from the outside in.
    pub ranged: Vec<Ranged>,
    /// Conditions on the way here.
    pub path: Vec<Cond>,
    /// Control around here, for collectives.
    pub control: Vec<Control>,
    /// The vectorised loop around here.
    pub vector: Option<VectorLoop>,
    /// The `parallel` loop around here.
    pub parallel: Option<StmtId>,
    /// What every statement so far reads and writes.
    pub regions: Regions,
    /// How many conditions stand around that loop: those of [`Walk::path`] beyond are inside it.
    pub parallel_path: usize,
    /// What differs from thread to thread.
    pub per_thread: PerThread,
    /// Where values are, beyond what their symbols say: what the launch checks, and what operations make of operands.
    pub known: HashMap<Poly, Interval>,
    /// What `known` had before, so that what is learned on a path is forgotten after it.
    learned: Vec<(Poly, Option<Interval>)>,
    /// Indices of the loops around here.
    pub counted: Vec<Counted>,
    /// Assigned variables.
    pub induction: Induction<'k>,
    /// Largest values of index expressions so far.
    pub ranges: BTreeSet<(Poly, u32)>,
    /// Statements of pipelined loops that load shared arrays ahead.
    pub loads_ahead: BTreeSet<StmtId>,
    /// Whether expressions are evaluated by the kernel, not by the launcher.
    pub in_kernel: bool,
    /// Whether to look for bank conflicts.
    lint_banks: bool,
}

/// The value of an expression.
#[derive(Clone, Debug, Default)]
pub(super) enum Value {
    /// An integer.
    Int(Poly),
    /// A condition.
    Bool(Cond),
    /// A floating-point value, or nothing yet.
    #[default]
    Other,
}

/// A symbol that takes every value of `lo..=hi`.
#[derive(Clone, Debug)]
pub(super) struct Ranged {
    pub sym: Sym,
    pub lo: Poly,
    pub hi: Poly,
    /// The author's variable, and its value as a polynomial in `sym`.
    pub var: VarId,
    pub value: Poly,
}

/// A conditional or loop around a statement.
#[derive(Clone, Debug)]
pub(super) struct Control {
    pub span: SpanId,
    /// Where the decision to enter, or to go round again, differs.
    pub varies: Varies,
    /// The condition; none for a loop.
    pub cond: Option<Cond>,
}

impl<'k> Walk<'k> {
    /// Walks a bound kernel.
    pub fn new(kernel: &'k BoundKernel) -> Self {
        let mut walk = Walk {
            kernel,
            cx: Context::default(),
            analysis: Analysis::default(),
            uniform: Uniformity::of(kernel),
            dims: Vec::new(),
            scalars: HashMap::new(),
            vars: SecondaryMap::new(),
            hosts: HashMap::new(),
            ranged: Vec::new(),
            path: Vec::new(),
            known: HashMap::new(),
            learned: Vec::new(),
            counted: Vec::new(),
            induction: Induction::of(kernel),
            control: Vec::new(),
            vector: None,
            parallel: None,
            regions: Regions::default(),
            parallel_path: 0,
            per_thread: PerThread::of(kernel),
            ranges: BTreeSet::new(),
            loads_ahead: shared_loads(kernel).into_iter().flat_map(|l| l.loads).collect(),
            in_kernel: false,
            lint_banks: lints::enabled(kernel, Code::BANK_CONFLICT),
        };
        let assigned = kernel.vars.iter().filter(|(_, v)| v.kind == VarKind::Mut && v.ty == Type::Index);
        let wide = assigned.map(|(var, _)| var).filter(|var| !walk.induction.var(*var).fits(ranges::INT));
        walk.analysis.wide_vars = wide.collect();
        walk.launch_symbols();
        walk.bindings();
        walk
    }

    /// Walks the body.
    pub fn run(&mut self) {
        let kernel = self.kernel;
        self.in_kernel = true;
        self.block(&kernel.body);
    }

    /// The extents of a place, outermost first.
    pub fn extents(&mut self, place: Place) -> Vec<Poly> {
        let kernel = self.kernel;
        match place {
            Place::Tensor(param) => match &kernel.params[param].kind {
                ParamKind::Tensor { shape, .. } => shape
                    .iter()
                    .map(|extent| match extent {
                        Extent::Dim(dim) => self.dims[dim.as_u32() as usize].clone(),
                        Extent::Fixed(e) => match self.eval(*e) {
                            Value::Int(p) => p,
                            _ => Poly::default(),
                        },
                    })
                    .collect(),
                ParamKind::Scalar { .. } | ParamKind::Absent => vec![],
            },
            Place::Buffer(buffer) => {
                kernel.buffer_extents(buffer).iter().map(|e| Poly::constant(i64::from(*e))).collect()
            }
        }
    }

    /// An index list's values.
    pub fn index_values(&mut self, indices: &[ExprId]) -> Vec<Poly> {
        indices
            .iter()
            .map(|e| match self.eval(*e) {
                Value::Int(p) => p,
                _ => Poly::sym(self.cx.fresh_data(None, None, Varies::ALL)),
            })
            .collect()
    }

    /// Meets an element access: bounds, and the rules of vectorised loops.
    pub(super) fn access(&mut self, access: AccessId, used: Use) {
        let write = used != Use::Load;
        let data = &self.kernel.accesses[access];
        if !tiles::element(self, access) {
            return;
        }
        let indices = self.index_values(&data.indices);
        let extents = self.extents(data.place);
        let mut bounds = Vec::with_capacity(indices.len());
        for (axis, (index, extent)) in indices.iter().zip(&extents).enumerate() {
            bounds.push(bounds::axis(self, access, axis, index, extent));
        }
        if bounds.contains(&Bound::Unproven) {
            let axes: Vec<(Poly, Poly)> = indices.iter().cloned().zip(extents.iter().cloned()).collect();
            guards::access(self, access, used, &bounds, &axes);
        }
        let nonnegative: Vec<bool> = indices.iter().map(|p| self.cx.proves(p)).collect();
        match self.analysis.nonnegative.get_mut(&access) {
            Some(known) => known.iter_mut().zip(nonnegative).for_each(|(a, b)| *a &= b),
            None => {
                self.analysis.nonnegative.insert(access, nonnegative);
            }
        }
        match self.analysis.bounds.get_mut(&access) {
            // Met on several paths: what holds on all of them.
            Some(known) => known.iter_mut().zip(bounds).for_each(|(a, b)| *a = (*a).max(b)),
            None => {
                self.analysis.bounds.insert(access, bounds);
            }
        }
        self.touch_element(access, write, &indices);
        if self.lint_banks {
            lints::banks(self, access, &indices, &extents);
        }
        if self.vector.is_some() {
            vector::access(self, access, write, indices, extents);
        }
    }

    /// Where the walk is: what is assumed and learned from here on is forgotten by `reset`.
    pub fn mark(&self) -> (Mark, usize) {
        (self.cx.mark(), self.learned.len())
    }

    /// Forgets what was assumed and learned since `mark`.
    pub fn reset(&mut self, (mark, learned): (Mark, usize)) {
        self.cx.reset(mark);
        while self.learned.len() > learned {
            match self.learned.pop() {
                Some((poly, Some(before))) => self.known.insert(poly, before),
                Some((poly, None)) => self.known.remove(&poly),
                None => break,
            };
        }
    }

    /// Remembers where a value is.
    pub fn learn(&mut self, poly: &Poly, interval: Interval) {
        if poly.as_constant().is_some() {
            return;
        }
        let before = self.known.get(poly).copied();
        let now = before.map_or(interval, |before| before.meet(interval));
        if before != Some(now) {
            self.known.insert(poly.clone(), now);
            self.learned.push((poly.clone(), before));
        }
    }

    /// The variable holds some value of its type.
    pub(super) fn forget(&mut self, var: VarId) {
        let varies = self.uniform.var(var);
        self.vars[var] = self.some_value(var, varies);
    }

    /// Some value of a variable.
    pub(super) fn some_value(&mut self, var: VarId, varies: Varies) -> Value {
        match self.kernel.vars[var].ty {
            Type::Index => {
                let interval = self.induction.var(var);
                self.index_within(interval, varies)
            }
            ty => self.unknown(ty, varies),
        }
    }

    /// Some index of an interval.
    pub(super) fn index_within(&mut self, interval: Interval, varies: Varies) -> Value {
        let (lo, hi) = interval.bounds();
        Value::Int(Poly::sym(self.cx.fresh_data(lo, hi, varies)))
    }

    /// Some value of a type, from memory.
    pub(super) fn unknown(&mut self, ty: Type, varies: Varies) -> Value {
        match ty {
            Type::Index => self.index_within(Interval::ALL, varies),
            Type::Value(DtypeRef::Is(Dtype::Bool)) => Value::Bool(Cond::Unknown(varies)),
            Type::Value(DtypeRef::Is(dtype)) => match dtype.range() {
                Some((lo, hi)) => Value::Int(Poly::sym(self.cx.fresh_data(Some(lo), Some(hi), varies))),
                None => Value::Other,
            },
            Type::Value(DtypeRef::Param(_)) => Value::Other,
        }
    }
}
