//! The consumers' side of a loop that is software-pipelined across two dependent products ([`super::plan::Shift`]).
//!
//! ```text
//! S(0)  work(0) pack(0)  [ S(j)  rest(j-1)  O(j-1)  wait S(j)  work(j)  tiles of S(j+1)?  wait O(j-1)  pack(j) ] j = 1..n  rest(n-1)  O(n-1)
//! ```
//!
//! ptxas moves the wait for a product up across whatever does not depend on it, so that `work(j)` begins when `O(j-1)` is done; it moves nothing across
//! the branch of an mbarrier's wait. So an iteration may end with the wait for the next one's tiles, before it waits for `O(j-1)`. That pays where the work
//! has a branch of its own, and where `O` has at most [`NARROW`] columns and three warpgroups share the tensor cores; elsewhere the work is better one block of instructions, in
//! which ptxas packs some elements while it computes others (decisions 44 and 56). Where `O` is that narrow, exponentials take as long as products: then what ptxas is
//! to interleave of such a block stands together (decision 51). The rest of an iteration's work, such as rescaling `O`, is done while the next scores
//! are computed. Where a block has one tile of fewer columns than [`WIDE`], neither pays (`docs/hopper.md`): all work is done before the next products.
//! The left operand of `O(j)` is packed into words in `pack(j)`, which are all of it that lives until the next iteration.
//! `S(j)` and `O(j-1)` are in flight together, and `O(j-1)` goes on while threads work on `S(j)`: until the first statement that touches its
//! accumulator or the fragment that is its next left operand.

use super::super::channel::{Load, Slots};
use super::super::uses::{declared, depends_on, mentions};
use super::super::*;
use super::consume::Consumed;
use super::plan::{Product, Shift};
use super::resident::is_in_loop;
use super::roles::{ChannelState, Roles};

/// Columns of the second accumulator from which on its products take longer than the work between them.
pub(super) const WIDE: u32 = 128;
/// Columns up to which they take less time than that work.
const NARROW: u32 = 64;

/// The parts of a shifted loop's body.
struct Parts<'p> {
    at: &'p Consumed<'p>,
    /// Indices.
    lets: &'p [StmtId],
    first: &'p Product,
    second: &'p Product,
    /// The words of the second product's left operand.
    words: LocalId,
    /// Work that the second product of the iteration before may be in flight during.
    work: &'p [StmtId],
    /// What comes behind that wait, up to the last statement that touches the next left operand.
    operand: &'p [StmtId],
    /// The rest: work on the second product's accumulator.
    rest: &'p [StmtId],
    /// Whether an iteration waits for the next one's tiles before it waits for its second product.
    holds: bool,
    /// Whether the work is written so that ptxas interleaves what it is made of.
    interleaves: bool,
    /// Whether the rest is done once the first product of the next iteration is issued.
    defers: bool,
    /// Channels of the first product's operands, and of the second one's.
    early: Vec<&'p ChannelState>,
    late: Vec<&'p ChannelState>,
    /// The slot of tiles that stay, which the last iteration's first product is the last to read; none where it is given back after the loop.
    resident: Option<Slots>,
}

impl<'a> Lowering<'a> {
    /// Lowers the consumers' loop.
    pub(super) fn consume_shifted(&mut self, at: &Consumed<'_>, shift: &Shift) {
        let Consumed { roles, ring, ref body, range: [start, end, step], .. } = *at;
        let kernel = self.kernel;
        let products = &roles.plan.products;
        let position = |stmt: StmtId| body.iter().position(|s| *s == stmt);
        let (Some(one), Some(two), Some(first), Some(second)) =
            (position(shift.first), position(shift.second), products.get(&shift.first), products.get(&shift.second))
        else {
            return self.bug("a shifted loop without its products");
        };
        let between = &body[one + 1..two];
        let touches = |stmt: &StmtId| mentions(kernel, *stmt, second.acc) || mentions(kernel, *stmt, second.a.0);
        let free = between.iter().position(touches).unwrap_or(between.len());
        let is_late = |fill: &&(usize, Vec<Load>)| fill.1.iter().any(|load| shift.late.contains(&load.buffer));
        let (late, early): (Vec<_>, Vec<_>) = ring.fills.iter().partition(is_late);
        let [early, late] =
            [early, late].map(|fills| fills.iter().map(|(number, _)| &roles.channels[*number]).collect());
        let Some(words) = self.declare_left_words(second) else {
            return self.bug("the second product of a shifted loop has no left operand in registers");
        };
        // Words are packed right behind the conversion: a branch between them, such as one around the rescaling, would keep ptxas from
        // converting two elements at once.
        let (work, rest) = between.split_at(free);
        let (is_wide, is_narrow) = (second.n >= WIDE, second.n <= NARROW);
        let is_in_loop = is_in_loop(kernel, &kernel.body, ring.at.stmt);
        let branches = work.iter().any(|stmt| self.branches(at, *stmt));
        let is_crowded = is_narrow && roles.plan.warpgroups() > 2;
        let holds = (branches || is_crowded) && (is_wide || is_in_loop);
        let interleaves = !branches && is_narrow && is_in_loop;
        let made = rest.iter().rposition(|stmt| mentions(kernel, *stmt, second.a.0)).map_or(0, |last| last + 1);
        let (operand, rest) = rest.split_at(made);
        // Indices have changed by then, and the first accumulator is being written.
        let indices = super::super::uses::variables(kernel, rest);
        let declares = |stmt: &StmtId| declared(kernel, *stmt).is_some_and(|var| indices.contains(&var));
        let defers = (is_wide || is_in_loop)
            && !indices.contains(&ring.at.var)
            && !body[..two].iter().any(declares)
            && !rest.iter().any(|stmt| mentions(kernel, *stmt, first.acc));
        let (lets, resident) = (&body[..one], roles.left_early(ring.at.stmt));
        let parts = Parts {
            at,
            lets,
            first,
            second,
            words,
            work,
            operand,
            rest,
            holds,
            interleaves,
            defers,
            early,
            late,
            resident,
        };
        let cond = self.eval(start.below(end));
        let loops = |l: &mut Self| {
            let reg = l.variable_reg(ring.at.var);
            l.begin_iteration(&parts, Some((reg, start)));
            l.await_slots(ring, &parts.early);
            l.multiply_at_once(roles, parts.first, None, &[]);
            l.leave_and_advance(roles, &parts.early);
            let next = l.eval(start + step);
            l.leave_resident(&parts, Some(next));
            l.block(work);
            l.finish_iteration(&parts);
            l.await_next(&parts, next);
            l.counted_loop(ring.at.var, [next, end, step], Unroll::By(1), |l| l.shifted_iteration(&parts));
            if parts.defers {
                l.block(parts.rest);
            }
            l.await_slots(ring, &parts.late);
            l.multiply_at_once(roles, second, Some(words), &[]);
            l.leave_and_advance(roles, &parts.late);
        };
        self.either(cond, loops, |l| {
            if parts.resident.is_some() {
                // No product says that all of the warpgroup have seen the tiles' phase.
                l.warpgroup_barrier(roles);
            }
            l.leave_resident(&parts, None);
        });
        if let Some(slots) = &parts.resident {
            self.advance(slots);
        }
    }

    /// Whether a statement is an `if` that stays one. The steps in which an index is above a bound are a loop of their own where the steps are counted in 32
    /// bits ([`peel`](super::super::peel)), and so are those of a condition of the step alone.
    fn branches(&self, at: &Consumed<'_>, stmt: StmtId) -> bool {
        let StmtKind::If { cond, .. } = self.kernel.stmts[stmt].kind else { return false };
        let is_narrow = at.range.iter().all(|bound| self.program.values[*bound].ty == ValueType::Index);
        let is_above = matches!(
            self.kernel.exprs[cond].kind,
            ExprKind::Binary(BinaryOp::Gt | BinaryOp::Ge | BinaryOp::Lt | BinaryOp::Le, ..)
        );
        let others = self.kernel.vars.iter().filter(|(id, var)| var.kind != VarKind::Let && *id != at.ring.at.var);
        let others: Vec<_> = others.map(|(id, _)| id).collect();
        self.loads(cond) || !(is_above && is_narrow) && depends_on(self.kernel, cond, &others)
    }

    /// Gives back the tiles that stay, where the iteration `next` is none.
    fn leave_resident(&mut self, parts: &Parts<'_>, next: Option<ValueId>) {
        let Some(slots) = &parts.resident else { return };
        let leader = self.is_leader(parts.at.roles);
        let last = next.map_or(leader.into(), |next| leader.and(next.at_least(parts.at.range[1])));
        self.give_back(slots, 0, last, None);
    }

    /// Waits for the tiles of the first product of the iteration `next`, if there is one and it does not wait itself.
    fn await_next(&mut self, parts: &Parts<'_>, next: ValueId) {
        if parts.holds {
            self.when(next.below(parts.at.range[1]), |l| l.await_slots(parts.at.ring, &parts.early));
        }
    }

    /// An iteration's index and what the body makes of it. Every iteration is a barrier of the consumers where they read arrays that they fill
    /// themselves.
    fn begin_iteration(&mut self, parts: &Parts<'_>, index: Option<(RegId, ValueId)>) {
        if parts.at.ring.meets {
            self.block_barrier();
        }
        if let Some((reg, value)) = index {
            self.define(reg, value);
        }
        self.block(parts.lets);
    }

    /// An iteration but the first.
    fn shifted_iteration(&mut self, parts: &Parts<'_>) {
        let Parts { at: &Consumed { roles, ring, range: [_, _, step], .. }, first, second, words, .. } = *parts;
        self.begin_iteration(parts, None);
        let [Some(score), Some(sum)] = [first, second].map(|product| self.held_in(product.acc)) else { return };
        let (score, late) = ([score.local], [sum.local, words]);
        if !parts.holds {
            self.await_slots(ring, &parts.early);
        }
        self.pin(&score);
        self.start_product(roles, first, None, &late);
        if parts.defers {
            self.block(parts.rest);
            self.pin(&late);
        }
        self.await_slots(ring, &parts.late);
        if parts.defers {
            // Its operands are in registers, which are ordered before it once more: ptxas puts a fence here otherwise, and says so.
            self.op(OpKind::WgmmaFence);
        }
        self.multiply(roles, second, Some(words));
        self.op(OpKind::WgmmaCommit);
        self.await_products(1, &score);
        self.leave_and_advance(roles, &parts.early);
        let index = self.variable_value(ring.at.var, ValueType::Index);
        let next = self.eval(index + step);
        self.leave_resident(parts, Some(next));
        if parts.interleaves {
            self.interleaved(parts.work)
        } else {
            self.block(parts.work)
        }
        if parts.holds {
            // What threads have made of the scores is made before the branch.
            self.pin(&score);
        }
        self.await_next(parts, next);
        self.await_products(0, &late);
        self.leave_and_advance(roles, &parts.late);
        self.finish_iteration(parts);
    }

    /// Work with the rows of its reductions side by side, and a reduction beside the elements that it combines.
    fn interleaved(&mut self, mut work: &[StmtId]) {
        let kernel = self.kernel;
        let reduction = |l: &Self, stmt: Option<&StmtId>| {
            let StmtKind::Tile(TileOp::ReduceTile { op, src, dst, axis: 1 }) = kernel.stmts[*stmt?].kind else {
                return None;
            };
            Some((op, dst, l.two_rows_of(src, dst)?, src))
        };
        while let [stmt, rest @ ..] = work {
            let StmtKind::Parallel { vars, body, .. } = &kernel.stmts[*stmt].kind else {
                match reduction(self, Some(stmt)) {
                    Some((op, dst, src, _)) => self.reduce_side_by_side(op, src, dst, |_, _| {}),
                    None => self.block(&[*stmt]),
                }
                work = rest;
                continue;
            };
            let next = reduction(self, rest.first());
            if let Some((op, dst, held, _)) = next.filter(|(.., src)| self.only_stores_to(body, *src)) {
                self.reduce_side_by_side(op, held, dst, |l, atom| l.four_elements(held.layout, vars, body, atom * 4));
                work = &rest[1..];
            } else {
                self.block(&[*stmt]);
                work = rest;
            }
        }
    }

    /// What threads do once the second product of the iteration before is done.
    fn finish_iteration(&mut self, parts: &Parts<'_>) {
        self.block(parts.operand);
        self.pack_left_words(parts.second, parts.words);
        if !parts.defers {
            self.block(parts.rest);
        }
    }

    /// Gives back the slots that this partition is at, and goes on to the next.
    fn leave_and_advance(&mut self, roles: &Roles, channels: &[&ChannelState]) {
        for channel in channels {
            let slot = self.slot(&channel.slots, None);
            self.release(roles, channel, slot);
            self.advance(&channel.slots);
        }
    }
}
