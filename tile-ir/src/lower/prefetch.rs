//! Prefetch: the first copies of a pipelined loop are issued above the wait for the previous kernel, though the kernel reads that one's results
//! before the loop; and where they read those results themselves, they are issued behind the wait before the kernel stores to shared memory what it has loaded, for which it waits.
//!
//! Contract. In: operations in order, the first of which must stand behind the wait. Out: the same operations in two lists, each in
//! order: those that are issued above the wait, or further up behind it, and the others. Moved are asynchronous copies of tensors, above the wait
//! of independent ones, into shared memory, the commits of their groups, conditions and loops of nothing else, and the registers that they read. Nothing is moved past
//! an operation that it depends on:
//!
//! - what is read of tensors is, above the wait, independent, and written by no operation that was passed; of arrays, shared ones are read that occur in no operation
//!   that was passed;
//! - registers that are read are never assigned twice, and are declared above or moved as well;
//! - the shared arrays that are copied to occur in no operation that was passed;
//! - copies and commits keep their order, and none passes a barrier, another one that stays or a wait for one.

use super::builder::Builder;
use crate::ir::{AccessMode, ParamId};
use crate::lowered::*;
use std::collections::BTreeSet;

/// What the operations do that stay behind the wait, as far as they were looked at.
#[derive(Default)]
struct Passed {
    /// Registers that they set.
    regs: BTreeSet<RegId>,
    /// Shared arrays that they access.
    shared: BTreeSet<SharedId>,
    /// Tensors that they write.
    written: BTreeSet<ParamId>,
    /// Whether the previous kernel has been waited for: all tensors are as the launch found them, but those that are written.
    waited: bool,
}

impl Builder {
    /// `ops`, which stand behind the wait, with copies issued before the thread stores to shared memory what it has loaded from tensors, for which it
    /// waits. The loads stay in front: they come back first. `above` stands before them.
    pub(super) fn copies_first(&self, above: &[Op], mut ops: Vec<Op>) -> Vec<Op> {
        let first = ops.iter().position(copies).unwrap_or(0);
        // Nothing is moved past a barrier: addresses may be read from what was stored before it.
        let met = ops[..first].iter().rposition(|op| op.kind == OpKind::Barrier).map_or(0, |at| at + 1);
        let stored = ops[met..first].iter().position(|op| self.stores_what_was_loaded(op));
        let Some(at) = stored.map(|stored| met + stored) else { return ops };
        let mut accesses = visit::all_accesses(&self.program, &ops[..at]).into_iter();
        if !accesses.any(|(space, access)| matches!(space, Space::Global(_)) && access == AccessMode::Read) {
            return ops;
        }
        let behind = ops.split_off(at);
        let (moved, left) = self.prefetch(&[above, &ops].concat(), behind, true);
        ops.into_iter().chain(moved).chain(left).collect()
    }

    /// Whether an operation stores to shared memory, and loads nothing from a tensor itself.
    fn stores_what_was_loaded(&self, op: &Op) -> bool {
        let accesses = visit::all_accesses(&self.program, std::slice::from_ref(op));
        accesses.iter().any(|access| matches!(access, (Space::Shared(_), AccessMode::Write)))
            && !accesses.iter().any(|(space, _)| matches!(space, Space::Global(_)))
    }

    /// Parts `ops` into what is issued above the wait, or, where it has been `waited` already, further up, and what stays. `above` stands
    /// before them.
    pub(super) fn prefetch(&self, above: &[Op], ops: Vec<Op>, waited: bool) -> (Vec<Op>, Vec<Op>) {
        let mut before = Passed::default();
        let declares = |op: &Op| matches!(op.kind, OpKind::Shared { .. });
        // What stands before a barrier of the block is ordered by it: a cluster's meeting.
        let met = above.iter().rposition(|op| op.kind == OpKind::Barrier).map_or(0, |at| at + 1);
        let above = &above[met..];
        if !above.iter().filter(|op| !declares(op)).all(|op| self.pass(op, &mut before)) {
            return (vec![], ops);
        }
        let mut passed = Passed { shared: before.shared, waited, ..Passed::default() };
        let mut moves = vec![false; ops.len()];
        for (op, moves) in ops.iter().zip(&mut moves) {
            *moves = self.may_move(op, &passed);
            if !*moves && !self.pass(op, &mut passed) {
                break;
            }
        }
        if !ops.iter().zip(&moves).any(|(op, moves)| *moves && copies(op)) {
            return (vec![], ops);
        }
        // A register moves where something that moves reads it.
        let mut read = BTreeSet::new();
        for (op, moves) in ops.iter().zip(&mut moves).rev().filter(|(_, moves)| **moves) {
            if matches!(&op.kind, OpKind::Let { reg, .. } if !read.contains(reg)) {
                *moves = false;
            } else {
                self.reads(op, &mut read);
            }
        }
        let (moved, left): (Vec<_>, Vec<_>) = ops.into_iter().zip(moves).partition(|(_, moves)| *moves);
        let strip = |ops: Vec<(Op, bool)>| ops.into_iter().map(|(op, _)| op).collect();
        (strip(moved), strip(left))
    }

    fn may_move(&self, op: &Op, passed: &Passed) -> bool {
        let moves = matches!(
            op.kind,
            OpKind::Let { value: Some(_), .. }
                | OpKind::AsyncCopy { .. }
                | OpKind::AsyncCommit
                | OpKind::If { .. }
                | OpKind::For { .. }
        );
        moves
            && op.kind.values().into_iter().all(|id| self.value_may_move(id, passed))
            && op.kind.parts().into_iter().all(|part| match part {
                Part::Declares(reg) => !self.program.regs[*reg].mutable,
                Part::Memory(memory, AccessMode::Read, _) => self.reads_early(memory, passed),
                Part::Memory(memory, ..) => matches!(memory.space, Space::Shared(to) if !passed.shared.contains(&to)),
                Part::Body(ops, _) => ops.iter().all(|op| self.may_move(op, passed)),
                Part::Value(_) => true,
                Part::Local(..) | Part::Shared(..) | Part::Map(..) | Part::Barrier(_) | Part::Message(_) => false,
                Part::Sets(_) | Part::DeclaresLocal(_) | Part::DeclaresShared(_) | Part::Pins(_) => false,
            })
    }

    /// Whether it is memory of a tensor as the launch found it, or of a shared array that no passed operation touches.
    fn reads_early(&self, memory: &Memory, passed: &Passed) -> bool {
        let is_there = |tensor: &TensorInfo| tensor.independent || passed.waited;
        match memory.space {
            Space::Global(param) => {
                self.program.tensor(memory.space).is_some_and(is_there) && !passed.written.contains(&param)
            }
            Space::Shared(shared) => !passed.shared.contains(&shared),
            Space::Local(_) => false,
        }
    }

    fn value_may_move(&self, id: ValueId, passed: &Passed) -> bool {
        visit::values(&self.program, id).into_iter().all(|value| match &value.kind {
            ValueKind::Reg(reg) => !self.program.regs[*reg].mutable && !passed.regs.contains(reg),
            ValueKind::Load(memory) => self.reads_early(memory, passed),
            _ => true,
        })
    }

    /// The registers that an operation and those inside it read.
    fn reads(&self, op: &Op, regs: &mut BTreeSet<RegId>) {
        visit::each(std::slice::from_ref(op), &mut |op| {
            let values = op.kind.values().into_iter().flat_map(|id| visit::values(&self.program, id));
            regs.extend(values.filter_map(|value| if let ValueKind::Reg(reg) = value.kind { Some(reg) } else { None }));
        });
    }

    /// Adds what an operation does that stays behind the wait. False where nothing is moved past it: it synchronises, is atomic, or
    /// says something.
    fn pass(&self, op: &Op, passed: &mut Passed) -> bool {
        let ops = std::slice::from_ref(op);
        let mut may = true;
        visit::each(ops, &mut |op| {
            may &= op.kind.protocol().is_none();
            for part in op.kind.parts() {
                match part {
                    Part::Declares(reg) | Part::Sets(reg) | Part::Body(_, Some(reg)) => _ = passed.regs.insert(*reg),
                    // What is copied before it is there would be uninitialised.
                    Part::DeclaresShared(shared) => _ = passed.shared.insert(*shared),
                    Part::Memory(_, AccessMode::Atomic, _) | Part::Message(_) => may = false,
                    Part::Value(_) | Part::Memory(..) | Part::Local(..) | Part::Shared(..) | Part::Map(..) => {}
                    Part::Barrier(_) | Part::DeclaresLocal(_) | Part::Pins(_) | Part::Body(_, None) => {}
                }
            }
        });
        for (space, access) in visit::all_accesses(&self.program, ops) {
            match space {
                Space::Shared(shared) => _ = passed.shared.insert(shared),
                Space::Global(param) if access != AccessMode::Read => _ = passed.written.insert(param),
                Space::Global(_) | Space::Local(_) => {}
            }
        }
        may
    }
}

/// Whether there is an asynchronous copy in it.
fn copies(op: &Op) -> bool {
    visit::any(std::slice::from_ref(op), &|kind| matches!(kind, OpKind::AsyncCopy { .. }))
}
