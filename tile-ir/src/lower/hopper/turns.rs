//! Warpgroups that take turns.
//!
//! Ping-pong: two warpgroups take the tiles in turn. While one stores its tile, the other multiplies.
//!
//! The ring is filled tile after tile, so a warpgroup skips the slots of the other's tiles. A wait on a parity is
//! meaningful within one phase of its barrier only: a warpgroup that ran more than a lap ahead would find the parity it
//! waits for in a phase long past (`docs/hopper.md`, "mbarriers"). So a warpgroup begins a tile only after the other has seen the last
//! slot of the tile before, which a pair of named barriers says.

use super::super::*;
use super::plan::{Ring, WARPGROUP};
use super::roles::{ChannelState, Roles};
use super::shifted::WIDE;

/// The named barriers of ping-pong, one for each warpgroup: it waits on its own, and the other arrives there. Where warpgroups begin
/// in turn, the first one waits on the first, and the second of three on the second.
const TURNS: [u32; 2] = [5, 6];

impl Lowering<'_> {
    /// Waits on the named barrier of a group, or arrives at that of the other group.
    fn turn(&mut self, group: ValueId, arrive: bool) {
        let first = self.binary(BinaryOp::Eq, group, 0);
        let barrier = |id: usize| OpKind::NamedBarrier { id: TURNS[id], threads: 2 * WARPGROUP, arrive };
        let [mine, other] = if arrive { [1, 0] } else { [0, 1] };
        self.either(first, |l| l.op(barrier(mine)), |l| l.op(barrier(other)));
    }

    /// The second group lets the first begin.
    pub(super) fn first_turn(&mut self, roles: &Roles) {
        let Some(group) = roles.group else { return };
        let barrier = OpKind::NamedBarrier { id: TURNS[0], threads: 2 * WARPGROUP, arrive: true };
        self.when(group.equals(1), |l| l.op(barrier));
    }

    /// Warpgroups that compute a tile by two dependent products begin some clocks after each other, the last one first. They stay so from step to step, since
    /// a slot is filled again for all of them at once. Where they begin together, three have up to an eighth less speed and two up to a twentieth; but two whose
    /// second product is narrow are faster together (decision 57).
    pub(super) fn begin_last_first(&mut self, roles: &Roles) {
        let (plan, Some((consumer, _))) = (&roles.plan, roles.consumer) else { return };
        let seconds = plan.rings.iter().filter_map(|ring| plan.products.get(&ring.shift.as_ref()?.second));
        let Some(widest) = seconds.map(|second| second.n).max() else { return };
        let barrier = |id: usize, arrive: bool| OpKind::NamedBarrier { id: TURNS[id], threads: 2 * WARPGROUP, arrive };
        let waits = |id: usize| move |l: &mut Self| l.op(barrier(id, false));
        let lets = |id: usize| move |l: &mut Self| l.op(barrier(id, true));
        let first = self.eval(consumer.equals(0));
        match plan.warpgroups() {
            2 if widest >= WIDE => self.either(first, waits(0), lets(0)),
            3 => self.either(first, waits(0), |l| {
                let second = l.eval(consumer.equals(1));
                let passes_on = |l: &mut Self| {
                    waits(1)(l);
                    lets(0)(l);
                };
                l.either(second, passes_on, lets(1));
            }),
            _ => {}
        }
    }

    /// The loop over the tiles of a group: every second one of the block's.
    pub(super) fn take_turns(&mut self, roles: &Roles, group: ValueId, body: &[StmtId]) {
        let (Some(ring), [channel]) = (roles.plan.only_ring(), &roles.channels[..]) else {
            return self.bug("ping-pong of several loops");
        };
        let trips = self.trips(ring);
        // The second group's first tile comes after the first group's.
        self.skip(channel, group * trips);
        self.persistent_loop(Some(group), |l| {
            l.turn(group, false);
            l.block(body);
            l.skip(channel, trips);
        });
    }

    /// Iterations of the pipelined loop, the same for every tile.
    pub(super) fn trips(&mut self, ring: &Ring) -> ValueId {
        let [start, end, step] = ring.at.range.map(|e| self.value(e));
        let length = Term::binary(BinaryOp::Max, end - start, 0);
        self.once("trips", Term::binary(BinaryOp::CeilDiv, length, step))
    }

    /// Goes `by` slots on.
    fn skip(&mut self, channel: &ChannelState, by: impl Into<Term>) {
        let Some((at, parity_of)) = channel.slots.turn() else { return self.bug("a channel without turns") };
        let stages = channel.slots.count;
        self.set(at, at + by.into());
        self.set(parity_of, parity_of ^ ((at / stages) & 1));
        self.set(at, at % stages);
    }

    /// This group has seen the last slot of its tile: the other may begin the next one, if there is one.
    pub(super) fn give_turn(&mut self, roles: &Roles) {
        let (Some(group), Some(more)) = (roles.group, self.more_tiles) else { return };
        self.when(more, |l| l.turn(group, true));
    }
}
