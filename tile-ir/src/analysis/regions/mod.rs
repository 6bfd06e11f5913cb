//! What the walk saw every statement read and write: regions of arrays and tensors, as polynomials over the indices of
//! threads, blocks and loops, with the conditions on the way.
//!
//! The walk records them in program order, each loop once for all of its iterations; what follows from all of them
//! together is decided afterwards:
//!
//! | file | |
//! |---|---|
//! | `points` | the values that indices take at given threads and iterations |
//! | `blocks` | elements of tensors that several blocks store to |
//! | `alike` | of those, stores that no index of blocks tells apart; where that depends on the launch, what it checks |
//! | `launches` | the few launches at which they are looked at |
//! | `initialised` | elements of arrays that are read before anything was written to them |

mod alike;
mod blocks;
mod initialised;
mod launches;
mod points;

use super::BlockNeed;
use super::walk::{Ranged, Walk};
use crate::analysis::assignment::Assignment;
use crate::constraint::{Cond, Poly, Sym, Varies};
use crate::diag::Diagnostic;
use crate::ir::{AccessId, BufferId, Place, SpanId, TileRef};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a statement does with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    /// Reads it, and then writes it.
    Update,
}

/// A part of an array or tensor.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Region {
    Whole,
    Element(Vec<Poly>),
    /// From the first element of each axis, so many.
    Tile(Vec<Poly>, Vec<i64>),
}

/// A region that a statement touches.
#[derive(Clone, Debug)]
pub(super) struct Touch {
    pub place: Place,
    pub kind: Kind,
    pub region: Region,
    pub span: SpanId,
    /// A write of an element that its own statement reads: `h[i] = h[i] + 1`.
    pub reads_itself: bool,
    /// Conditions on the way.
    pub path: Rc<Vec<Cond>>,
    /// The innermost loop around it.
    pub around: Option<usize>,
}

/// A loop of the walk.
#[derive(Clone, Debug)]
pub(super) struct Around {
    pub outer: Option<usize>,
    pub kind: LoopForm,
    pub span: SpanId,
    /// Its counters, where their ranges are known.
    pub ranged: Vec<Ranged>,
    /// Where the number of its iterations may differ.
    pub varies: Varies,
}

/// How the iterations of a loop are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopForm {
    /// One after another.
    Serial,
    /// Spread over the threads of the block.
    Parallel,
    /// A tile after another, spread over blocks.
    Persistent,
}

/// Everything that the walk recorded.
#[derive(Default)]
pub(super) struct Regions {
    pub touches: Vec<Touch>,
    pub loops: Vec<Around>,
    /// The loop around the declaration of each array.
    pub declared: BTreeMap<BufferId, Option<usize>>,
    /// Answers of `last_arriver`: one block has `true` for each counter. Each with the axes of the grid, a bit each, along which blocks
    /// share a counter.
    pub arrivals: BTreeMap<Sym, u8>,
    /// The touches of counters of `last_arriver`, where all blocks await as many arrivals.
    pub counters: Vec<usize>,
    current: Option<usize>,
    /// The first touch of the statement that the walk is at.
    statement: usize,
    path: Rc<Vec<Cond>>,
}

impl Regions {
    /// The walk comes to a statement.
    pub fn begin_statement(&mut self) {
        self.statement = self.touches.len();
    }

    /// The walk comes to the declaration of an array.
    pub fn declare(&mut self, buffer: BufferId) {
        self.declared.insert(buffer, self.current);
    }

    /// The walk enters the body of a loop.
    pub fn enter(&mut self, kind: LoopForm, span: SpanId, ranged: &[Ranged], varies: Varies) {
        self.loops.push(Around { outer: self.current, kind, span, ranged: ranged.to_vec(), varies });
        self.current = Some(self.loops.len() - 1);
    }

    /// The walk leaves the body of a loop.
    pub fn leave(&mut self) {
        self.current = self.current.and_then(|at| self.loops[at].outer);
    }

    /// The access met last is a read and a write in one.
    pub fn last_is_update(&mut self, place: Place) {
        if let Some(last) = self.touches.last_mut().filter(|t| t.place == place) {
            last.kind = Kind::Update;
        }
    }

    /// The access met last is a block's arrival at a counter, and all blocks await as many.
    pub fn last_is_arrival(&mut self, place: Place) {
        if self.touches.last().is_some_and(|t| t.place == place) {
            self.counters.push(self.touches.len() - 1);
        }
    }

    /// The loops around a touch, from the outside in, those around `outer` left out.
    pub fn within(&self, around: Option<usize>, outer: Option<usize>) -> Vec<usize> {
        let mut all = Vec::new();
        let mut at = around;
        while let Some(loop_) = at.filter(|_| at != outer) {
            all.push(loop_);
            at = self.loops[loop_].outer;
        }
        all.reverse();
        all
    }

    fn record(&mut self, place: Place, kind: Kind, region: Region, span: SpanId, path: &[Cond]) {
        if *self.path != path {
            self.path = Rc::new(path.to_vec());
        }
        let reads_itself = kind == Kind::Write
            && self.touches[self.statement..]
                .iter()
                .any(|t| t.place == place && t.kind == Kind::Read && t.region == region && t.path == self.path);
        let (path, around) = (Rc::clone(&self.path), self.current);
        self.touches.push(Touch { place, kind, region, span, reads_itself, path, around });
    }
}

impl Walk<'_> {
    /// Records an element access.
    pub(super) fn touch_element(&mut self, access: AccessId, write: bool, indices: &[Poly]) {
        let data = &self.kernel.accesses[access];
        if self.is_untouchable(data.place) {
            return;
        }
        let kind = if write { Kind::Write } else { Kind::Read };
        self.regions.record(data.place, kind, Region::Element(indices.to_vec()), data.span, &self.path);
    }

    /// Records one side of a `copy` of so many elements an axis.
    pub(super) fn touch_tile(&mut self, tile: &TileRef, extents: &[u32], kind: Kind) {
        if self.is_untouchable(tile.place) {
            return;
        }
        let region = if tile.start.is_empty() {
            Region::Whole
        } else {
            let start = self.index_values(&tile.start);
            // Leading extents of 1 may be left out, or be there for the other side's sake.
            let missing = start.len().saturating_sub(extents.len());
            let extra = extents.len().saturating_sub(start.len());
            let own = std::iter::repeat_n(1, missing).chain(extents[extra..].iter().map(|e| i64::from(*e)));
            Region::Tile(start, own.collect())
        };
        self.regions.record(tile.place, kind, region, tile.span, &self.path);
    }

    /// Records an operation on a whole array.
    pub(super) fn touch_array(&mut self, buffer: BufferId, kind: Kind, span: SpanId) {
        self.regions.record(Place::Buffer(buffer), kind, Region::Whole, span, &self.path);
    }

    /// Tensors that are only read: nothing is decided about them.
    fn is_untouchable(&self, place: Place) -> bool {
        match place {
            Place::Buffer(_) => false,
            Place::Tensor(param) => {
                !matches!(self.kernel.params[param].kind, crate::ir::ParamKind::Tensor { mutable: true, .. })
            }
        }
    }
}

/// What is certainly wrong about the regions of a kernel.
pub(super) fn check(walk: &Walk<'_>) -> Vec<Diagnostic> {
    let mut wrong = initialised::check(walk);
    wrong.extend(blocks::check(walk));
    wrong
}

/// What the launch has to check of the regions of a kernel.
pub(super) fn needs(walk: &mut Walk<'_>) -> Vec<BlockNeed> {
    alike::needs(walk)
}

/// The linear index of the thread at a point; axes that do not matter count as 0.
fn thread_at(walk: &Walk<'_>, point: &points::Values) -> Option<u32> {
    let extents = walk.kernel.thread_extents();
    let (mut linear, mut stride) = (0i64, 1i64);
    for (axis, binding) in walk.kernel.threads.iter().enumerate().take(3) {
        let range = walk.ranged.iter().find(|r| r.var == binding.var)?;
        linear += point.eval(&walk.cx, &Poly::sym(range.sym)).unwrap_or(0) * stride;
        stride *= i64::from(extents[axis]);
    }
    u32::try_from(linear).ok()
}
