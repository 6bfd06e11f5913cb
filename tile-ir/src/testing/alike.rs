//! Values that all threads of a block hold alike: what is made of constants, parameters, `blockIdx`, tensors that the program does not
//! write, and registers and per-thread arrays that hold such values where they are read.

use crate::ir::AccessMode;
use crate::lowered::*;
use std::collections::HashSet;

/// Whether what a shuffle exchanges is alike in all threads, whenever it is executed.
pub(super) fn is_alike(program: &Program, shuffle: &OpKind) -> bool {
    let mut walk = Walk { program, shuffle, varies: false };
    walk.ops(&program.body, &mut Held::default(), false);
    !walk.varies
}

/// What may hold another value in another thread.
#[derive(Clone, Default, PartialEq)]
struct Held {
    regs: HashSet<RegId>,
    locals: HashSet<LocalId>,
}

impl Held {
    fn add(&mut self, other: &Held) {
        self.regs.extend(&other.regs);
        self.locals.extend(&other.locals);
    }
}

struct Walk<'p> {
    program: &'p Program,
    /// By its address, so that another one that is equal is not it.
    shuffle: &'p OpKind,
    varies: bool,
}

impl Walk<'_> {
    /// Operations in their order; `apart`: only some of the threads may be here.
    fn ops(&mut self, ops: &[Op], held: &mut Held, apart: bool) {
        ops.iter().for_each(|op| self.op(&op.kind, held, apart));
    }

    fn op(&mut self, kind: &OpKind, held: &mut Held, apart: bool) {
        let varies = apart || kind.values().into_iter().any(|value| self.value(value, held));
        self.varies |= std::ptr::eq(kind, self.shuffle) && varies;
        if let OpKind::If { then, otherwise, .. } = kind {
            let mut other = held.clone();
            self.ops(then, held, varies);
            self.ops(otherwise, &mut other, varies);
            held.add(&other);
            return;
        }
        if let OpKind::For { reg, body, .. } = kind {
            if varies {
                held.regs.insert(*reg);
            }
            loop {
                let before = held.clone();
                self.ops(body, held, varies);
                held.add(&before);
                if *held == before {
                    return;
                }
            }
        }
        let is_plain = matches!(
            kind,
            OpKind::Let { .. }
                | OpKind::Set { .. }
                | OpKind::Local { .. }
                | OpKind::Store { .. }
                | OpKind::VectorLoad { .. }
                | OpKind::Shuffle { .. }
        );
        let accesses = kind.accesses(self.program);
        let reads = |(space, access): &(Space, AccessMode)| *access != AccessMode::Write && self.space(*space, held);
        let varies = varies || !is_plain || accesses.iter().any(reads);
        for (space, access) in accesses {
            if let Space::Local(local) = space
                && varies
                && access != AccessMode::Read
            {
                held.locals.insert(local);
            }
        }
        for part in kind.parts() {
            if let Part::Declares(reg) | Part::Sets(reg) = part {
                let _ = if varies { held.regs.insert(*reg) } else { held.regs.remove(reg) };
            }
        }
    }

    fn space(&self, space: Space, held: &Held) -> bool {
        match space {
            Space::Global(_) => self.program.tensor(space).is_some_and(|tensor| tensor.mutable),
            Space::Shared(_) => true,
            Space::Local(local) => held.locals.contains(&local),
        }
    }

    fn value(&self, id: ValueId, held: &Held) -> bool {
        let value = &self.program.values[id];
        let is_thread = matches!(value.kind, ValueKind::Thread(_) | ValueKind::Special(_));
        let is_held = matches!(value.kind, ValueKind::Reg(reg) if held.regs.contains(&reg));
        let is_read = matches!(value.kind, ValueKind::Load(memory) if self.space(memory.space, held));
        let by_itself = is_thread || is_held || is_read;
        by_itself || value.kind.operands().into_iter().any(|operand| self.value(operand, held))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::plant::{Family, exchanges_alike, mistakes};

    /// Of two exchanges, the first of what every thread holds alike, the second of what it holds alone.
    #[test]
    fn a_value_is_alike_until_it_is_made_of_the_thread() {
        let text = "program exchange for sm_80
dims N
parameters
    x: wide = address of x
    y: wide = address of y
tensors
    x: f32 (N,) of argument 0
    y: mut f32 (N,) of argument 1
launch
    blocks [1, 1, 1]
    threads [32, 1, 1]
shared: 0 bytes
body
    let mut sum: f32 = 0.0f32
    for i: index in 0..4 step 1 {
        sum = sum + x[i]
    }
    let other: f32 = shfl_xor(sum, 16)
    sum = sum + x[thread.x]
    let other_1: f32 = shfl_xor(sum, 8)
    y[thread.x] = other + other_1
";
        let program = crate::text::parse_program(text).unwrap_or_else(|error| panic!("{error}"));
        let lanes: Vec<_> = mistakes(&program).into_iter().filter(|m| m.family == Family::Lane).collect();
        let alike: Vec<bool> = lanes.iter().map(|mistake| exchanges_alike(&program, mistake)).collect();
        assert_eq!(alike, [true, false]);
    }
}
