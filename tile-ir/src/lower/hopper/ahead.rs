//! Dependent launch of a warp-specialised kernel: which slots the producer fills before it waits for the previous kernel.
//!
//! Contract. In: a kernel with `pdl(independent = [..])`. Out: every role waits before it touches anything else: consumers
//! where they begin (they have nothing to multiply before), the producer before its first dependent load, and the threads
//! that do nothing too. Dependents are launched right after a wait, or at the kernel's start where `trigger = AtStart` says so.
//!
//! Before its wait the producer issues the independent loads of its first slots, and afterwards only the others for these:
//!
//! ```text
//! W0 W1 W2  wait  X0 X1 X2  W3 X3  W4 X4  ..
//! ```
//!
//! A block's loads come back in the order of their issue, so filling ahead delays the first product wherever there is
//! nothing to wait for: how many slots is a parameter of the launch, 0 unless it may begin early
//! ([`ParameterKind::Ahead`]). Of these many the kernel takes all where the independent operand is streamed once (its tile
//! belongs to one tile of the result) through at least [`LONG`] rings, and [`FEW`] elsewhere (`docs/hopper.md`, "TMA and bulk copies").

use super::super::channel::{Load, Slice, assigns};
use super::super::dependent::wait;
use super::super::schedule::listed;
use super::super::uses::{declared, depends_on, loaded};
use super::super::*;
use super::plan::{Ring, Split};
use super::roles::{ChannelState, Roles};

/// Rings' worth of iterations from which on an operand counts as long.
const LONG: u32 = 3;
/// Slots that are filled ahead for an operand that is streamed through few rings, or that several tiles share.
const FEW: i64 = 2;

impl<'a> Lowering<'a> {
    /// Waits for the previous kernel, where this one may begin before it is done.
    pub(super) fn wait_for_previous(&mut self, split: Split) {
        if let (Split::Warpgroups, Some(trigger)) = (split, self.program.launch.dependent) {
            let span = self.span;
            self.ops.extend(wait(span, trigger));
        }
    }

    /// Issues the independent loads of the first tile's first slots. The register that counts them; none where nothing can
    /// be filled ahead: no load is independent, several blocks fill a slot together, what surrounds the ring is more
    /// than a loop over tiles, or which tiles come first is not known before the wait.
    pub(super) fn fill_ahead(&mut self, roles: &Roles) -> Option<RegId> {
        let (Some(ring), [channel]) = (roles.plan.only_ring(), &roles.channels[..]) else { return None };
        let early: Vec<&Load> = ring.loads().filter(|load| load.independent).collect();
        if roles.plan.split != Split::Warpgroups
            || early.is_empty()
            || channel.feeders() > 1
            || self.program.launch.dependent.is_none()
        {
            return None;
        }
        let tiles = self.tiles_around(ring)?;
        let kernel = self.kernel;
        let vars = roles.plan.loads().filter(|load| load.independent).flat_map(|load| load.vars(kernel));
        let needed = &Slice::new(kernel, roles.plan.loops(), vars).vars;
        if !self.is_found_ahead(ring, tiles.as_ref(), needed) {
            return None;
        }
        let names: BTreeSet<String> =
            early.iter().map(|load| format!("`{}`", self.kernel.params[load.tensor].name)).collect();
        let names = listed(names.into_iter());
        let stages = channel.slots.count;
        let text = format!(
            "the previous kernel is waited for by each role: where it may still run, the producer loads {names} into up to \
             {stages} slots before"
        );
        self.out.remark(RemarkKind::Choice, self.kernel.stmts[ring.at.stmt].span, text);
        self.parameter("ahead_most", ValueType::Index, ParameterKind::Ahead(stages));
        let ahead = self.variable("ahead", ValueType::Index, 0);
        self.indices(&kernel.body, needed);
        let fill = |l: &mut Self| l.fill_first((ring, channel), tiles.as_ref(), needed, ahead);
        match &tiles {
            Some(tiles) => self.first_tile(tiles, needed, fill),
            None => fill(self),
        }
        Some(ahead)
    }

    /// The loop over tiles that the ring stands in, if it does; `None` where more than that and indices are on the way to it.
    fn tiles_around(&self, ring: &Ring) -> Option<Option<PersistentLoop<'a>>> {
        let kernel = self.kernel;
        let straight = |body: &[StmtId]| {
            let mut before = body.iter().take_while(|s| **s != ring.at.stmt);
            !before.any(|s| matches!(kernel.stmts[*s].kind, StmtKind::Assign { .. }))
        };
        let holds = |body: &[StmtId]| body.contains(&ring.at.stmt);
        if holds(&kernel.body) {
            return straight(&kernel.body).then_some(None);
        }
        let tiles = kernel.persistent().filter(|tiles| kernel.body.contains(&tiles.stmt) && holds(tiles.body))?;
        (straight(&kernel.body) && straight(tiles.body)).then_some(Some(tiles))
    }

    /// Whether the indices that are `needed` are those that bodies declare, none of which is assigned on the way to the ring, and are made of no tensor
    /// that the previous kernel may be writing.
    fn is_found_ahead(&self, ring: &Ring, tiles: Option<&PersistentLoop<'a>>, needed: &BTreeSet<VarId>) -> bool {
        let kernel = self.kernel;
        let bodies = [&kernel.body[..], tiles.map_or(&[], |tiles| tiles.body), &ring.at.body];
        let ends = |stmt: &&StmtId| **stmt != ring.at.stmt && tiles.is_none_or(|tiles| **stmt != tiles.stmt);
        let before: Vec<StmtId> = bodies.iter().flat_map(|body| body.iter().take_while(ends)).copied().collect();
        let indices = before.iter().filter(|stmt| declared(kernel, **stmt).is_some_and(|var| needed.contains(&var)));
        let mut values: Vec<ExprId> = indices.flat_map(|stmt| kernel.stmts[*stmt].kind.values()).collect();
        values.extend(ring.at.range);
        values.extend(ring.loads().filter(|load| load.independent).flat_map(|load| &load.src.start));
        let independent = kernel.attributes.dependent.as_ref().map_or(&[][..], |all| &all.independent);
        let is_there = |access: AccessId| matches!(kernel.accesses[access].place, Place::Tensor(tensor) if independent.contains(&tensor));
        !assigns(kernel, &before, needed) && values.into_iter().flat_map(|value| loaded(kernel, value)).all(is_there)
    }

    /// The indices that a body declares and coordinates are made of.
    fn indices(&mut self, body: &[StmtId], needed: &BTreeSet<VarId>) {
        let mut all = body.to_vec();
        all.retain(|stmt| declared(self.kernel, *stmt).is_some_and(|var| needed.contains(&var)));
        self.block(&all);
    }

    /// Fills the first slots of the first tile.
    fn fill_first(
        &mut self,
        (ring, channel): (&Ring, &ChannelState),
        tiles: Option<&PersistentLoop<'_>>,
        needed: &BTreeSet<VarId>,
        ahead: RegId,
    ) {
        if let Some(tiles) = tiles {
            self.indices(tiles.body, needed);
        }
        let trips = self.trips(ring);
        let (Some((slot, _)), stages) = (channel.slots.turn(), channel.slots.count) else {
            return self.bug("a channel without turns");
        };
        let most = self.param(ParameterKind::Ahead(stages));
        let few = self.binary(BinaryOp::Min, most, FEW);
        let mut long = self.binary(BinaryOp::Ge, trips, LONG * stages);
        for extent in self.sharing_extents(ring, tiles) {
            let extent = self.value(extent);
            long = self.binary(BinaryOp::And, long, extent.at_most(1));
        }
        let chosen = self.push(ValueKind::Select(long, most, few), ValueType::Index);
        self.set(ahead, Term::binary(BinaryOp::Min, chosen, trips));
        let [start, _, step] = ring.at.range;
        let [start, step] = [start, step].map(|e| self.value(e));
        let end = self.binary(BinaryOp::Add, start, ahead * step);
        self.counted_loop(ring.at.var, [start, end, step], Unroll::By(1), |l| {
            l.indices(&ring.at.body, needed);
            let (number, loads) = (l.read(slot), ring.loads().collect::<Vec<_>>());
            l.request(&channel.slots, number, &loads, |load| load.independent);
            l.set(slot, number + 1);
        });
        self.set(slot, 0);
    }

    /// The extents of the grid along which tiles share what is loaded ahead.
    fn sharing_extents(&self, ring: &Ring, tiles: Option<&PersistentLoop<'_>>) -> Vec<ExprId> {
        let kernel = self.kernel;
        let mut axes: Vec<(VarId, ExprId)> = kernel.grid.iter().map(|a| (a.var, a.extent)).collect();
        if let Some(tiles) = tiles {
            axes.extend(tiles.vars.iter().copied().zip(tiles.extents.iter().copied()));
        }
        let early = || ring.loads().filter(|load| load.independent);
        let shares = |(var, _): &(VarId, ExprId)| {
            !early().all(|load| load.src.start.iter().any(|e| depends_on(kernel, *e, &[*var])))
        };
        axes.into_iter().filter(shares).map(|(_, extent)| extent).collect()
    }
}
