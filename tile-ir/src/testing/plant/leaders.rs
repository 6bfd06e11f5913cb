//! Who does what one thread, warp or block is to do: mistakes in the conditions around mbarrier operations and bulk copies.
//!
//! A condition is made of parts that `&&` joins, and a mistake is in one part: the one that asks which thread, warp or block of the cluster
//! this is.

use super::{Family, binary, int};
use crate::ir::{BinaryOp, UnaryOp};
use crate::lowered::visit::{any, count};
use crate::lowered::*;

/// What becomes of a part of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// It always holds.
    Everyone,
    /// It holds where it did not, and does not hold where it did.
    Others,
    /// The number that it compares with is so much more.
    Another(i64),
}

/// The mistakes of a conditional: which part of the condition, what becomes of it, and in words.
pub(super) fn leaders(program: &Program, kind: &OpKind) -> Vec<(Family, (usize, Who), &'static str)> {
    let OpKind::If { cond, .. } = kind else { return Vec::new() };
    let inside = |is: &dyn Fn(&OpKind) -> bool| kind.bodies().into_iter().any(|body| any(body, &|kind| is(kind)));
    let mut all = Vec::new();
    for (part, id) in parts(program, *cond).into_iter().enumerate() {
        let Asks { thread, rank } = asks(program, id);
        let compared = compared(program, id);
        let mut plant = |family, who, text| all.push((family, (part, who), text));
        if thread && inside(&is_of_one_thread) {
            // Who has started nothing has nothing to wait for.
            if inside(&|kind| is_of_one_thread(kind) && !matches!(kind, OpKind::BulkWait { .. })) {
                plant(Family::Leader, Who::Everyone, "every thread does what one is to do");
            }
            plant(Family::Leader, Who::Others, "all but one thread do what it is to do");
            match compared {
                // Whoever makes mbarriers, all meet before they use them.
                Some((BinaryOp::Eq, number)) if !rank && inside(&|kind| is_of_one_thread(kind) && !makes(kind)) => {
                    let next = if is_thread_of_block(program, number) { 32 } else { 1 };
                    plant(Family::Leader, Who::Another(next), "another warp does what one is to do");
                }
                Some((BinaryOp::Lt, _)) => {
                    plant(Family::Leader, Who::Another(1), "a thread too many does something");
                    plant(Family::Leader, Who::Another(-1), "a thread too few does something");
                }
                _ => {}
            }
        } else if rank && inside(&is_of_mbarrier) {
            plant(Family::Cluster, Who::Everyone, "every block does what one is to do");
            plant(Family::Cluster, Who::Others, "all but one block do what it is to do");
            if let Some((BinaryOp::Eq, _)) = compared {
                plant(Family::Cluster, Who::Another(1), "another block does what one is to do");
            }
        }
    }
    all
}

/// The condition with a mistake in one of its parts.
pub(super) fn changed(program: &mut Program, cond: ValueId, (part, who): (usize, Who)) -> ValueId {
    let mut all = parts(program, cond);
    let Value { kind, ty, span } = program.values[all[part]].clone();
    all[part] = match (who, kind) {
        (Who::Everyone, _) => int(program, all[part], 1),
        (Who::Another(more), ValueKind::Binary(op, a, b)) => {
            let more = int(program, b, more);
            let b = binary(program, BinaryOp::Add, b, more);
            program.values.push(Value { kind: ValueKind::Binary(op, a, b), ty, span })
        }
        (Who::Others | Who::Another(_), _) => {
            program.values.push(Value { kind: ValueKind::Unary(UnaryOp::Not, all[part]), ty, span })
        }
    };
    let (first, rest) = all.split_first().expect("a condition has a part");
    rest.iter().fold(*first, |all, part| binary(program, BinaryOp::And, all, *part))
}

/// What one thread of a warp or block does, or one for each of some.
fn is_of_one_thread(kind: &OpKind) -> bool {
    is_of_mbarrier(kind) && !matches!(kind, OpKind::BarrierWait { .. })
        || makes(kind)
        || matches!(kind, OpKind::TensorStore { .. } | OpKind::BulkCommit | OpKind::BulkWait { .. })
}

/// What makes mbarriers.
fn makes(kind: &OpKind) -> bool {
    matches!(kind, OpKind::BarrierInit { .. } | OpKind::FenceBarrierInit)
}

/// What uses an mbarrier.
fn is_of_mbarrier(kind: &OpKind) -> bool {
    !makes(kind) && kind.parts().iter().any(|part| matches!(part, Part::Barrier(_)))
}

/// What `&&` joins.
fn parts(program: &Program, cond: ValueId) -> Vec<ValueId> {
    match program.values.get(cond).map(|value| &value.kind) {
        Some(ValueKind::Binary(BinaryOp::And, a, b)) => [parts(program, *a), parts(program, *b)].concat(),
        _ => vec![cond],
    }
}

/// A comparison with a number, and what is compared.
fn compared(program: &Program, id: ValueId) -> Option<(BinaryOp, ValueId)> {
    let ValueKind::Binary(op, a, b) = program.values.get(id)?.kind else { return None };
    program.values.get(b)?.kind.as_int().map(|_| (op, a))
}

/// Which threads and blocks a value is another one in.
#[derive(Clone, Copy, Default)]
struct Asks {
    thread: bool,
    rank: bool,
}

/// What a value asks, also by registers that are assigned once.
fn asks(program: &Program, id: ValueId) -> Asks {
    let is = |is: &dyn Fn(&ValueKind) -> bool| made_of(program, id).iter().any(is);
    Asks {
        thread: is(&|kind| {
            let special = |special: &Special| matches!(special, Special::Warp | Special::Lane | Special::Elected);
            matches!(kind, ValueKind::Thread(_)) || matches!(kind, ValueKind::Special(s) if special(s))
        }),
        rank: is(&|kind| matches!(kind, ValueKind::Special(Special::ClusterRank))),
    }
}

/// Whether a value counts the threads of a block, or of some of its warpgroups, and not lanes or warps.
fn is_thread_of_block(program: &Program, id: ValueId) -> bool {
    let all = made_of(program, id);
    let counts_lanes = |kind: &ValueKind| {
        let narrows = |of: &ValueId| program.values.get(*of).and_then(|of| of.kind.as_int()).is_some_and(|of| of <= 32);
        matches!(kind, ValueKind::Special(_))
            || matches!(kind, ValueKind::Binary(BinaryOp::Rem | BinaryOp::BitAnd | BinaryOp::Div | BinaryOp::Shr, _, of) if narrows(of))
    };
    !all.iter().any(counts_lanes)
}

/// What a value is made of, and what registers are made of that are assigned once.
fn made_of(program: &Program, id: ValueId) -> Vec<ValueKind> {
    let mut all = Vec::new();
    for value in visit::values(program, id) {
        if let ValueKind::Reg(reg) = value.kind
            && !program.regs[reg].mutable
            && let Some(first) = first_value(&program.body, reg)
        {
            all.extend(made_of(program, first));
        }
        all.push(value.kind.clone());
    }
    all
}

/// The value that a register is declared with, if it is declared once.
pub(super) fn first_value(ops: &[Op], reg: RegId) -> Option<ValueId> {
    let declares = |kind: &OpKind| matches!(kind, OpKind::Let { reg: r, value: Some(_) } if *r == reg);
    if count(ops, &declares) != 1 {
        return None;
    }
    let mut found = None;
    visit::each(ops, &mut |op| {
        if let OpKind::Let { reg: r, value } = op.kind
            && r == reg
        {
            found = value;
        }
    });
    found
}
