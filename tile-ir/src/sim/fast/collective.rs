//! What threads do together: reductions in the language's order, lane exchanges, votes.
//!
//! Where a warp is not full (a block whose threads are not a multiple of 32), an absent lane gives its partner's own
//! value to an exchange and takes no part in a reduction or vote.

use super::block::{Machine, value_at};
use super::code::{Kind, Loc, MaskId, ReducePlan, Repr, TileReduction};
use super::state::{File, Registers, Shared, State};
use crate::ir::reduction::{PARTS, WARP, axis_parts, combine_axis};
use crate::ir::{ReduceOp, ReduceStep, ShuffleKind, SpanId, VoteKind};
use crate::sim::{Fault, ScalarValue, numeric};
use std::mem;

impl Machine<'_> {
    /// Reduces a register in place, for all threads.
    pub(super) fn reduce(
        &self,
        s: &mut State,
        plan: &ReducePlan,
        register: u32,
        mask: MaskId,
    ) -> Result<(), Box<Fault>> {
        self.check_convergence(s, plan.warp, mask, plan.span)?;
        let operator = numeric::reduce_operator(plan.op);
        let row = register as usize;
        let r = &mut s.registers;
        match plan.repr {
            Repr::Index => combine(&mut r.indices.lanes[row], plan, |a, b| {
                numeric::index_binary(operator, a, b).unwrap_or(i64::MAX)
            }),
            Repr::Element(dtype) => match plan.repr.kind() {
                Kind::Float => combine(&mut r.floats.lanes[row], plan, |a, b| {
                    numeric::float_binary(operator, dtype, a, b).unwrap_or(a)
                }),
                Kind::Bool => combine(&mut r.bools.lanes[row], plan, |a, b| {
                    numeric::reduce(plan.op, dtype, u32::from(a), u32::from(b)) != 0
                }),
                Kind::Int | Kind::Index => {
                    combine(&mut r.ints.lanes[row], plan, |a, b| numeric::reduce(plan.op, dtype, a, b))
                }
            },
        }
        Ok(())
    }

    /// Reduces an axis of a tile, whole tiles at once.
    pub(super) fn reduce_tile(&self, s: &mut State, plan: &TileReduction, mask: MaskId) -> Result<(), Box<Fault>> {
        self.check_convergence(s, false, mask, plan.span)?;
        let info = &self.code.shared[plan.src as usize];
        let [rows, columns] = info.extents[..] else { return Ok(()) };
        let (rows, columns) = (rows.max(0) as usize, columns.max(0) as usize);
        let (stays, extent) = if plan.axis == 0 { (columns, rows) } else { (rows, columns) };
        let at = |kept: usize, index: u32| match plan.axis {
            0 => index as usize * columns + kept,
            _ => kept * columns + index as usize,
        };
        let (dtype, operator) = (info.dtype, numeric::reduce_operator(plan.op));
        let mut dst = std::mem::replace(&mut s.shared[plan.dst as usize], Shared::Floats(Vec::new()));
        match (&s.shared[plan.src as usize], &mut dst) {
            // The parts of every row, which are not combined.
            (Shared::Floats(src), Shared::Floats(dst))
                if src.len() == rows * columns && dst.len() == stays * PARTS as usize =>
            {
                let f = |a, b| numeric::float_binary(operator, dtype, a, b).unwrap_or(a);
                for (kept, slots) in dst.chunks_exact_mut(PARTS as usize).enumerate() {
                    let parts = axis_parts(extent as u32, |i| src[at(kept, i)], f);
                    slots.iter_mut().zip(parts).for_each(|(slot, part)| *slot = part.unwrap_or(*slot));
                }
            }
            (Shared::Floats(src), Shared::Floats(dst)) if src.len() == rows * columns && dst.len() == stays => {
                let f = |a, b| numeric::float_binary(operator, dtype, a, b).unwrap_or(a);
                for (kept, slot) in dst.iter_mut().enumerate() {
                    *slot = combine_axis(extent as u32, |i| src[at(kept, i)], f).unwrap_or(*slot);
                }
            }
            (Shared::Ints(src), Shared::Ints(dst)) if src.len() == rows * columns && dst.len() == stays => {
                let f = |a, b| numeric::reduce(plan.op, dtype, a, b);
                for (kept, slot) in dst.iter_mut().enumerate() {
                    *slot = combine_axis(extent as u32, |i| src[at(kept, i)], f).unwrap_or(*slot);
                }
            }
            _ => {}
        }
        s.shared[plan.dst as usize] = dst;
        Ok(())
    }

    /// Combines the tiles of a cluster's other blocks into the first's, in the order of ranks.
    pub(super) fn cluster_reduce(&self, first: &mut State, others: &[State], op: ReduceOp, tile: u32) {
        let (dtype, operator) = (self.code.shared[tile as usize].dtype, numeric::reduce_operator(op));
        for other in others {
            match (&mut first.shared[tile as usize], &other.shared[tile as usize]) {
                (Shared::Floats(sum), Shared::Floats(part)) => {
                    let f = |a, b| numeric::float_binary(operator, dtype, a, b).unwrap_or(a);
                    sum.iter_mut().zip(part).for_each(|(a, b)| *a = f(*a, *b));
                }
                (Shared::Ints(sum), Shared::Ints(part)) => {
                    sum.iter_mut().zip(part).for_each(|(a, b)| *a = numeric::reduce(op, dtype, *a, *b));
                }
                _ => {}
            }
        }
    }

    /// A lane exchange; only the low five bits of the lane operand count, as in PTX.
    #[expect(clippy::too_many_arguments, reason = "the step's fields")]
    pub(super) fn shuffle(
        &self,
        s: &mut State,
        shuffle: ShuffleKind,
        value: Repr,
        (dst, src): (u32, Loc),
        (lane, lane_repr): (Loc, Repr),
        mask: MaskId,
        span: SpanId,
    ) -> Result<(), Box<Fault>> {
        self.check_convergence(s, true, mask, span)?;
        for thread in 0..s.lanes {
            let operand = match value_at(s, lane_repr, lane, thread) {
                ScalarValue::Index(value) => value as u32,
                ScalarValue::Element(_, bits) => bits,
            };
            let own = thread as u32 % WARP;
            let partner = shuffle.source(own, operand).map(|other| thread - own as usize + other as usize);
            let from = partner.filter(|partner| *partner < s.lanes).unwrap_or(thread);
            s.scratch.offsets[thread] = from as i64;
        }
        let (from, r) = (&s.scratch.offsets, &mut s.registers);
        match value.kind() {
            Kind::Float => exchange(&mut r.floats, dst, src, from),
            Kind::Int => exchange(&mut r.ints, dst, src, from),
            Kind::Index => exchange(&mut r.indices, dst, src, from),
            Kind::Bool => exchange(&mut r.bools, dst, src, from),
        }
        Ok(())
    }

    pub(super) fn vote(
        &self,
        s: &mut State,
        vote: VoteKind,
        pred: Loc,
        dst: u32,
        mask: MaskId,
        span: SpanId,
    ) -> Result<(), Box<Fault>> {
        self.check_convergence(s, true, mask, span)?;
        let Registers { bools, ints, .. } = &mut s.registers;
        for first in (0..s.lanes).step_by(WARP as usize) {
            let warp = first..(first + WARP as usize).min(s.lanes);
            let votes = bools.operand(pred);
            let ballot = warp.clone().fold(0u32, |all, t| all | u32::from(votes.at(t)) << (t - first));
            let everyone = u32::MAX >> (WARP as usize - warp.len());
            match vote {
                VoteKind::Ballot => ints.lanes[dst as usize][warp].fill(ballot),
                VoteKind::Any => bools.lanes[dst as usize][warp].fill(ballot != 0),
                VoteKind::All => bools.lanes[dst as usize][warp].fill(ballot == everyone),
            }
        }
        Ok(())
    }
}

fn exchange<T: Copy + Default>(file: &mut File<T>, dst: u32, src: Loc, from: &[i64]) {
    let mut out = std::mem::take(&mut file.lanes[dst as usize]);
    let values = file.operand(src);
    out.iter_mut().zip(from).for_each(|(out, from)| *out = values.at(*from as usize));
    file.lanes[dst as usize] = out;
}

/// The reduction's steps, each over all threads.
fn combine<T: Copy>(values: &mut [T], plan: &ReducePlan, f: impl Fn(T, T) -> T) {
    for step in &plan.plan.steps {
        match *step {
            ReduceStep::Butterfly { mask } => {
                // The two threads of a pair combine the same two values, each its own first.
                for own in 0..values.len() {
                    let other = own ^ mask as usize;
                    if own < other && other < values.len() {
                        (values[own], values[other]) = (f(values[own], values[other]), f(values[other], values[own]));
                    }
                }
            }
            ReduceStep::Ascending { parts, part_extent } => {
                let (extent, stride) = (plan.extent.max(1) as usize, plan.stride.max(1) as usize);
                for base in (0..values.len()).filter(|thread| thread / stride % extent == 0) {
                    let member = |index: usize| base + index * stride;
                    let mut total = values[base];
                    for part in 1..parts as usize {
                        total = f(total, values[member(part * part_extent as usize)]);
                    }
                    (0..extent).for_each(|index| values[member(index)] = total);
                }
            }
        }
    }
}

/// Gives block `r` of a cluster part `r` of every block's array `src`, in the order of ranks; or why the arrays are not ones that
/// analysis lets through.
pub(super) fn cluster_exchange(blocks: &mut [&mut State], src: u32, dst: u32) -> Result<(), &'static str> {
    let (src, dst, count) = (src as usize, dst as usize, blocks.len());
    for from in 0..count {
        let sent = mem::replace(&mut blocks[from].shared[src], Shared::Bools(Vec::new()));
        let each = blocks.iter_mut().enumerate().try_for_each(|(rank, to)| match (&sent, &mut to.shared[dst]) {
            (Shared::Floats(sent), Shared::Floats(received)) => exchange_part(sent, rank, received, from, count),
            (Shared::Ints(sent), Shared::Ints(received)) => exchange_part(sent, rank, received, from, count),
            (Shared::Bools(sent), Shared::Bools(received)) => exchange_part(sent, rank, received, from, count),
            (Shared::Floats(_) | Shared::Ints(_) | Shared::Bools(_), _) => {
                Err("`cluster_exchange` of arrays of two kinds")
            }
        });
        blocks[from].shared[src] = sent;
        each?;
    }
    Ok(())
}

/// Part `to` of `received`, of `count`, becomes part `from` of `sent`.
fn exchange_part<E: Copy>(
    sent: &[E],
    from: usize,
    received: &mut [E],
    to: usize,
    count: usize,
) -> Result<(), &'static str> {
    if sent.len() != received.len() || !sent.len().is_multiple_of(count) {
        return Err("`cluster_exchange` of arrays without equal parts");
    }
    let len = sent.len() / count;
    received[to * len..(to + 1) * len].copy_from_slice(&sent[from * len..(from + 1) * len]);
    Ok(())
}
