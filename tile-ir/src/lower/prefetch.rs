//! Prefetch: the first copies of a pipelined loop are issued above the wait for the previous kernel, though the kernel reads that one's results
//! before the loop.
//!
//! Contract. In: operations in order, the first of which must stand behind the wait. Out: the same operations in two lists, each in
//! order: those that are issued above the wait, and the others. Moved are asynchronous copies of independent tensors into shared
//! memory, the commits of their groups, conditions and loops of nothing else, and the registers that they read. Nothing is moved past
//! an operation that it depends on:
//!
//! - what is read of tensors is independent and written by no operation that was passed, and no array is read;
//! - registers that are read are never assigned twice, and are declared above or moved as well;
//! - the shared arrays that are copied to occur in no operation that was passed;
//! - copies and commits keep their order, and none passes a barrier, another one that stays or a wait for one.

use super::*;

/// What the operations do that stay behind the wait, as far as they were looked at.
#[derive(Default)]
struct Passed {
    /// Registers that they set.
    regs: BTreeSet<RegId>,
    /// Shared arrays that they access.
    shared: BTreeSet<SharedId>,
    /// Tensors that they write.
    written: BTreeSet<ParamId>,
}

impl Lowering<'_> {
    /// Parts `ops` into what is issued above the wait and what stays behind it. `above` stands before them.
    pub(super) fn prefetch(&self, above: &[Op], ops: Vec<Op>) -> (Vec<Op>, Vec<Op>) {
        let mut before = Passed::default();
        let declares = |op: &Op| matches!(op.kind, OpKind::Shared { .. });
        if !above.iter().filter(|op| !declares(op)).all(|op| self.pass(op, &mut before)) {
            return (vec![], ops);
        }
        let mut passed = Passed { shared: before.shared, ..Passed::default() };
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
            match &op.kind {
                OpKind::Let { reg, .. } if !read.contains(reg) => *moves = false,
                _ => self.reads(op, &mut read),
            }
        }
        let (moved, left): (Vec<_>, Vec<_>) = ops.into_iter().zip(moves).partition(|(_, moves)| *moves);
        let strip = |ops: Vec<(Op, bool)>| ops.into_iter().map(|(op, _)| op).collect();
        (strip(moved), strip(left))
    }

    fn may_move(&self, op: &Op, passed: &Passed) -> bool {
        let values = |ids: &[ValueId]| ids.iter().all(|id| self.value_may_move(*id, passed));
        let memory = |m: &Memory| values(&[m.offset]) && m.guard.is_none_or(|guard| values(&[guard.cond]));
        let all = |ops: &[Op]| ops.iter().all(|op| self.may_move(op, passed));
        match &op.kind {
            OpKind::Let { reg, value: Some(value) } => !self.program.regs[*reg].mutable && values(&[*value]),
            OpKind::AsyncCopy { to, from, .. } => {
                let is_free = matches!(to.space, Space::Shared(shared) if !passed.shared.contains(&shared));
                is_free && self.reads_early(from, passed) && memory(to) && memory(from)
            }
            OpKind::AsyncCommit => true,
            OpKind::If { cond, then, otherwise } => values(&[*cond]) && all(then) && all(otherwise),
            OpKind::For { start, end, step, body, .. } => values(&[*start, *end, *step]) && all(body),
            _ => false,
        }
    }

    /// Whether it is memory of an independent tensor, as the launch found it.
    fn reads_early(&self, memory: &Memory, passed: &Passed) -> bool {
        let Space::Global(param) = memory.space else { return false };
        let is_independent = self.program.tensors.iter().any(|t| t.param == param && t.independent);
        is_independent && !passed.written.contains(&param)
    }

    fn value_may_move(&self, id: ValueId, passed: &Passed) -> bool {
        let mut may = true;
        self.each_value(id, &mut |kind| {
            may &= match kind {
                ValueKind::Reg(reg) => !self.program.regs[*reg].mutable && !passed.regs.contains(reg),
                ValueKind::Load(memory) => self.reads_early(memory, passed),
                _ => true,
            };
        });
        may
    }

    /// The registers that an operation reads.
    fn reads(&self, op: &Op, regs: &mut BTreeSet<RegId>) {
        self.each_operand(op, &mut |id| {
            self.each_value(id, &mut |kind| {
                if let ValueKind::Reg(reg) = kind {
                    regs.insert(*reg);
                }
            });
        });
    }

    /// Adds what an operation does that stays behind the wait. False where nothing is moved past it.
    fn pass(&self, op: &Op, passed: &mut Passed) -> bool {
        let mut memories = Vec::new();
        match &op.kind {
            OpKind::Let { reg, .. } | OpKind::Set { reg, .. } => passed.regs.extend([*reg]),
            OpKind::Shuffle { reg, .. } | OpKind::Vote { reg, .. } => passed.regs.extend([*reg]),
            OpKind::Store { memory, .. }
            | OpKind::VectorLoad { memory, .. }
            | OpKind::VectorStore { memory, .. }
            | OpKind::LoadMatrix { memory, .. }
            | OpKind::StoreMatrix { memory, .. } => memories.push(*memory),
            OpKind::If { then, otherwise, .. } => {
                if !then.iter().chain(otherwise).all(|op| self.pass(op, passed)) {
                    return false;
                }
            }
            OpKind::For { reg, body, .. } => {
                passed.regs.insert(*reg);
                if !body.iter().all(|op| self.pass(op, passed)) {
                    return false;
                }
            }
            // What is copied before it is there would be uninitialised.
            OpKind::Shared { shared } => {
                passed.shared.insert(*shared);
            }
            OpKind::Local { .. } | OpKind::Elements(_) | OpKind::Order | OpKind::Mma { .. } => {}
            _ => return false,
        }
        if let OpKind::Store { memory, .. } | OpKind::VectorStore { memory, .. } | OpKind::StoreMatrix { memory, .. } =
            &op.kind
            && let Space::Global(param) = memory.space
        {
            passed.written.insert(param);
        }
        self.each_operand(op, &mut |id| {
            self.each_value(id, &mut |kind| {
                if let ValueKind::Load(memory) = kind {
                    memories.push(*memory);
                }
            });
        });
        passed.shared.extend(memories.iter().filter_map(|memory| match memory.space {
            Space::Shared(shared) => Some(shared),
            Space::Global(_) | Space::Local(_) => None,
        }));
        true
    }

    /// The values that an operation evaluates, of those that [`Self::pass`] and [`Self::may_move`] know.
    fn each_operand(&self, op: &Op, f: &mut impl FnMut(ValueId)) {
        let memory = |m: &Memory, f: &mut dyn FnMut(ValueId)| {
            f(m.offset);
            m.guard.iter().for_each(|guard| f(guard.cond));
        };
        match &op.kind {
            OpKind::Let { value, .. } => value.iter().for_each(|value| f(*value)),
            OpKind::Set { value, .. } => f(*value),
            OpKind::Store { memory: m, value } => {
                memory(m, f);
                f(*value);
            }
            OpKind::VectorLoad { memory: m, start, .. }
            | OpKind::VectorStore { memory: m, start, .. }
            | OpKind::LoadMatrix { memory: m, start, .. }
            | OpKind::StoreMatrix { memory: m, start, .. } => {
                memory(m, f);
                f(*start);
            }
            OpKind::AsyncCopy { to, from, .. } => {
                memory(to, f);
                memory(from, f);
            }
            OpKind::If { cond, then, otherwise } => {
                f(*cond);
                then.iter().chain(otherwise).for_each(|op| self.each_operand(op, f));
            }
            OpKind::For { start, end, step, body, .. } => {
                [start, end, step].into_iter().for_each(|value| f(*value));
                body.iter().for_each(|op| self.each_operand(op, f));
            }
            OpKind::Shuffle { value, lane, .. } => {
                f(*value);
                f(*lane);
            }
            OpKind::Vote { pred, .. } => f(*pred),
            _ => {}
        }
    }

    /// A value's kinds, from the outside in.
    fn each_value(&self, id: ValueId, f: &mut impl FnMut(&ValueKind)) {
        let kind = &self.program.values[id].kind;
        f(kind);
        match kind {
            ValueKind::Int(_) | ValueKind::Float(_) | ValueKind::Param(_) | ValueKind::Thread(_) => {}
            ValueKind::Block(_) | ValueKind::Reg(_) | ValueKind::Special(_) | ValueKind::Descriptor { .. } => {}
            ValueKind::Unary(_, a) | ValueKind::Cast(a) | ValueKind::Divisor(a) | ValueKind::Unpack(_, a, _) => {
                self.each_value(*a, f);
            }
            ValueKind::Binary(_, a, b) | ValueKind::Pack(_, a, b) => {
                [a, b].into_iter().for_each(|v| self.each_value(*v, f));
            }
            ValueKind::Select(a, b, c) | ValueKind::Choose(a, b, c) => {
                [a, b, c].into_iter().for_each(|v| self.each_value(*v, f));
            }
            ValueKind::Math(_, args) => args.iter().for_each(|v| self.each_value(*v, f)),
            ValueKind::Load(memory) => {
                self.each_value(memory.offset, f);
                memory.guard.iter().for_each(|guard| self.each_value(guard.cond, f));
            }
        }
    }
}

/// Whether there is an asynchronous copy in it.
fn copies(op: &Op) -> bool {
    match &op.kind {
        OpKind::AsyncCopy { .. } => true,
        OpKind::If { then, otherwise, .. } => then.iter().chain(otherwise).any(copies),
        OpKind::For { body, .. } => body.iter().any(copies),
        _ => false,
    }
}
