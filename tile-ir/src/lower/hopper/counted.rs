//! Tiles as they are counted: a block's first tile has the block's own number, and whenever it is about to be done with one, its producer
//! takes the next number from a counter in global memory. So blocks whose tiles take long take fewer of them.
//!
//! ```text
//! producer   loads of this tile  count  loads of its last step  -> number     loads of the next tile
//! consumers          this tile                                 number ->     the next tile
//! ```
//!
//! The number goes to the consumers through a word of shared memory, which is a slot of a ring of one: `full` completes when it is
//! written, `empty` when every consumer warpgroup has read it. It is asked for before the last step's loads and written behind them, so that nobody
//! waits for the counter. Not earlier: a number that a block asks for while it has a long tile before it is a tile that no other block can take
//! (decision 59).
//!
//! Every tile but the blocks' first ones is counted once, and so is one beyond the last for each block that has a tile: as many numbers
//! as there are tiles. Who gets the last of them sets the counter back to 0, for the next launch.

use super::super::channel::Slots;
use super::super::*;

/// A number that no tile has: none was counted yet.
const NONE: i64 = u32::MAX as i64;

/// The counter and the way of its numbers to the consumers.
#[derive(Clone, Debug)]
pub(in crate::lower) struct Counted {
    counter: AccessId,
    /// The word.
    number: SharedId,
    pub(super) slots: Slots,
}

impl<'a> Lowering<'a> {
    /// The word and the barriers of a kernel that counts its tiles.
    pub(super) fn declare_counted(&mut self, cluster: u32) -> Option<Counted> {
        let tiles = self.kernel.persistent()?;
        let counter = tiles.counter?;
        let span = self.kernel.stmts[tiles.stmt].span;
        if cluster > 1 {
            let text = "the blocks of a cluster take tiles a grid apart: `.counter(..)` has no effect".to_owned();
            self.remark(RemarkKind::Fallback, span, text);
            return None;
        }
        self.remark(RemarkKind::Choice, span, "each block takes the next tile that is counted".to_owned());
        let number = self.shared_array("next_tile", Dtype::U32, 1, false);
        Some(Counted { counter, number, slots: self.only_slot("next_tile", true) })
    }

    /// A tile's operations, which `f` writes. The producer asks for the number of the next one beside them; consumers, who are told, have none yet.
    pub(in crate::lower) fn count_beside(&mut self, counted: &Counted, f: impl FnOnce(&mut Self)) -> Option<RegId> {
        if self.roles.is_some() {
            f(self);
            return None;
        }
        let word = ValueType::Element(Dtype::U32);
        let none = self.push(ValueKind::Int(NONE), word);
        let number = self.variable("counted", word, none);
        let mut ops = self.nested(f);
        let loads = ops.iter().rposition(|op| {
            matches!(&op.kind, OpKind::For { step, body, .. } if self.program.values[*step].kind.as_int() == Some(1) && is_of_protocol(body))
        });
        let behind = loads.map(|at| ops.split_off(at));
        self.ops.extend(ops);
        let mut behind = behind.unwrap_or_default().into_iter();
        if let Some(Op { kind: OpKind::For { reg, start, end, step, unroll, mut body }, span }) = behind.next() {
            self.span = span;
            let last = self.once("last_step", Term::from(end) - 1);
            let count = self.nested(|l| l.count_where(Term::from(reg).equals(last), counted, number));
            body.splice(0..0, count);
            self.op(OpKind::For { reg, start, end, step, unroll, body });
        }
        // No step, or none that was the last one.
        self.count_where(Term::from(number).equals(none), counted, number);
        self.ops.extend(behind);
        Some(number)
    }

    /// Counts a tile where `cond` holds.
    fn count_where(&mut self, cond: Term, counted: &Counted, number: RegId) {
        let word = ValueType::Element(Dtype::U32);
        self.when(cond, |l| {
            let (memory, one) = (l.memory(counted.counter), l.push(ValueKind::Int(1), word));
            let old = l.reg("taken", word, false);
            l.op(OpKind::Atomic { op: AtomicOp::Add, memory, value: one, old: Some(old), ordered: false });
            l.set(number, old);
        });
    }

    /// Where a tile ends: `tile`, which goes on by the number of blocks, becomes the number that was counted. There are `total` tiles.
    pub(in crate::lower) fn next_tile(
        &mut self,
        counted: &Counted,
        number: Option<RegId>,
        tile: RegId,
        total: ValueId,
    ) {
        let (word, zero) = (ValueType::Element(Dtype::U32), self.int(0));
        let memory = self.at(counted.number, zero);
        let next = match (number, self.roles.clone()) {
            (Some(number), _) => {
                self.await_empty(&counted.slots, zero);
                let value = self.read(number);
                self.store(memory, value);
                self.op(OpKind::BarrierArrive { barrier: counted.slots.full(zero), cta: None });
                self.advance(&counted.slots);
                let next = self.push(ValueKind::Cast(value), ValueType::Index);
                self.when(next.equals(total - 1), |l| {
                    let (memory, zero) = (l.memory(counted.counter), l.push(ValueKind::Int(0), word));
                    l.op(OpKind::Atomic { op: AtomicOp::Min, memory, value: zero, old: None, ordered: false });
                });
                next
            }
            (None, Some(roles)) => {
                self.await_full(&counted.slots, zero);
                let value = self.fetch(memory);
                let value = self.push(ValueKind::Cast(value), ValueType::Index);
                let next = self.once("counted", value);
                self.give_back_once(&roles, &counted.slots, true);
                next
            }
            (None, None) => return self.bug("a tile that nobody counted"),
        };
        self.set(tile, next);
    }
}

/// Whether operations wait, load or arrive.
fn is_of_protocol(ops: &[Op]) -> bool {
    visit::any(ops, &|kind| kind.protocol().is_some())
}
