//! Operations with those inside them, values with those that they are made of: filters over [`Part`]s and operands.

use super::{Memory, Op, OpKind, Part, PartMut, Program, Space, Value, ValueId, ValueKind};
use crate::ir::AccessMode;

impl ValueKind {
    /// The values that it is made of, in the order of its text.
    pub fn operands(&self) -> Vec<ValueId> {
        match self {
            ValueKind::Int(_)
            | ValueKind::Float(_)
            | ValueKind::Param(_)
            | ValueKind::Thread(_)
            | ValueKind::Block(_)
            | ValueKind::Reg(_)
            | ValueKind::Special(_)
            | ValueKind::Descriptor { .. } => Vec::new(),
            ValueKind::Unary(_, a) | ValueKind::Cast(a) | ValueKind::Divisor(a) | ValueKind::Unpack(_, a, _) => {
                vec![*a]
            }
            ValueKind::Binary(_, a, b) | ValueKind::Pack(_, a, b) => vec![*a, *b],
            ValueKind::Math(_, args) => args.clone(),
            ValueKind::Select(a, b, c) | ValueKind::Choose(a, b, c) | ValueKind::Quotient(a, b, c) => vec![*a, *b, *c],
            ValueKind::Load(memory) => memory.values().collect(),
        }
    }

    /// The number, of an integer constant.
    pub fn as_int(&self) -> Option<i64> {
        if let ValueKind::Int(number) = self { Some(*number) } else { None }
    }
}

impl Memory {
    /// The values that an access evaluates: the offset, and the guard's condition.
    pub fn values(&self) -> impl Iterator<Item = ValueId> + use<> {
        [self.offset].into_iter().chain(self.guard.map(|guard| guard.cond))
    }
}

impl OpKind {
    /// The lists of operations inside: both sides of a conditional, the body of a loop.
    pub fn bodies(&self) -> Vec<&[Op]> {
        let body = |part| if let Part::Body(ops, _) = part { Some(ops.as_slice()) } else { None };
        self.parts().into_iter().filter_map(body).collect()
    }

    /// The lists of operations inside, to change them.
    pub fn bodies_mut(&mut self) -> Vec<&mut Vec<Op>> {
        let body = |part| if let PartMut::Body(ops, _) = part { Some(ops) } else { None };
        self.parts_mut().into_iter().filter_map(body).collect()
    }

    /// The values that the operation itself evaluates, those of operations inside it excepted.
    pub fn values(&self) -> Vec<ValueId> {
        let mut all = Vec::new();
        for part in self.parts() {
            match part {
                Part::Value(value) | Part::Local(_, value, ..) | Part::Shared(_, value, _) => all.push(*value),
                Part::Memory(memory, ..) => all.extend(memory.values()),
                Part::Barrier(barrier) => all.push(barrier.index),
                Part::Map(..) | Part::Message(_) | Part::Declares(_) | Part::Sets(_) => {}
                Part::DeclaresLocal(_) | Part::DeclaresShared(_) | Part::Pins(_) | Part::Body(..) => {}
            }
        }
        all
    }

    /// The accesses to memory that the operation itself makes, but those of its values and of tensor maps.
    pub fn memories(&self) -> Vec<&Memory> {
        let memory = |part| if let Part::Memory(memory, ..) = part { Some(memory) } else { None };
        self.parts().into_iter().filter_map(memory).collect()
    }

    /// The accesses to memory that the operation itself makes, to change them; [`OpKind::memories`] says which these are.
    pub fn memories_mut(&mut self) -> Vec<&mut Memory> {
        let memory = |part| if let PartMut::Memory(memory, ..) = part { Some(memory) } else { None };
        self.parts_mut().into_iter().filter_map(memory).collect()
    }

    /// The tensors and arrays whose elements the operation itself accesses, and what it does to them. Loads in its values, and what
    /// products read by a descriptor, are not among them.
    pub fn accesses(&self, program: &Program) -> Vec<(Space, AccessMode)> {
        let access = |part| match part {
            Part::Memory(memory, access, _) => Some((memory.space, access)),
            Part::Local(local, _, _, access) => Some((Space::Local(*local), access)),
            Part::Shared(shared, _, access) => Some((Space::Shared(*shared), access)),
            Part::Map(map, access) => Some((Space::Global(program.tensor_maps.get(*map)?.tensor), access?)),
            Part::Value(_) | Part::Barrier(_) | Part::Message(_) | Part::Declares(_) | Part::Sets(_) => None,
            Part::DeclaresLocal(_) | Part::DeclaresShared(_) | Part::Pins(_) | Part::Body(..) => None,
        };
        self.parts().into_iter().filter_map(access).collect()
    }

    /// Whether it changes something that outlives the block: a tensor, or what threads say.
    pub fn outlives_block(&self, program: &Program) -> bool {
        let mut accesses = self.accesses(program).into_iter();
        accesses.any(|(space, access)| matches!(space, Space::Global(_)) && access != AccessMode::Read)
            || self.parts().iter().any(|part| matches!(part, Part::Message(_)))
    }
}

/// `f` for every operation, an outer one before those inside it.
pub fn each(ops: &[Op], f: &mut impl FnMut(&Op)) {
    for op in ops {
        f(op);
        op.kind.bodies().into_iter().for_each(|body| each(body, f));
    }
}

/// `f` for every operation, which it may change, an outer one before those inside it.
pub fn each_mut(ops: &mut [Op], f: &mut impl FnMut(&mut Op)) {
    for op in ops {
        f(op);
        op.kind.bodies_mut().into_iter().for_each(|body| each_mut(body, f));
    }
}

/// `f` for every list of operations, an outer one before those inside it: to insert and remove.
pub fn each_list_mut(ops: &mut Vec<Op>, f: &mut impl FnMut(&mut Vec<Op>)) {
    f(ops);
    for op in ops {
        op.kind.bodies_mut().into_iter().for_each(|body| each_list_mut(body, f));
    }
}

/// A value and all that it is made of, from the outside in. Ids that are no value's are passed over.
pub fn values(program: &Program, id: ValueId) -> Vec<&Value> {
    fn add<'p>(program: &'p Program, id: ValueId, all: &mut Vec<&'p Value>) {
        if let Some(value) = program.values.get(id) {
            all.push(value);
            value.kind.operands().into_iter().for_each(|operand| add(program, operand, all));
        }
    }
    let mut all = Vec::new();
    add(program, id, &mut all);
    all
}

/// What a value loads.
pub fn loads(program: &Program, id: ValueId) -> Vec<&Memory> {
    let all = values(program, id).into_iter();
    all.filter_map(|value| if let ValueKind::Load(memory) = &value.kind { Some(memory) } else { None }).collect()
}

/// Every access in operations and in those inside them: their own, and the loads in their values.
pub fn all_accesses(program: &Program, ops: &[Op]) -> Vec<(Space, AccessMode)> {
    let mut all = Vec::new();
    each(ops, &mut |op| {
        all.extend(op.kind.accesses(program));
        let loads = op.kind.values().into_iter().flat_map(|id| loads(program, id));
        all.extend(loads.map(|memory| (memory.space, AccessMode::Read)));
    });
    all
}

/// Whether there is such an operation.
pub fn any(ops: &[Op], is: &impl Fn(&OpKind) -> bool) -> bool {
    ops.iter().any(|op| is(&op.kind) || op.kind.bodies().into_iter().any(|body| any(body, is)))
}

/// How many there are.
pub fn count(ops: &[Op], is: &impl Fn(&OpKind) -> bool) -> usize {
    let mut found = 0;
    each(ops, &mut |op| found += usize::from(is(&op.kind)));
    found
}
