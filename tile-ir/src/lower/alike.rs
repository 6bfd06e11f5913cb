//! Values that all threads of a block hold alike where they are together: what is made of constants, parameters, `blockIdx`, `gridDim`, elements of
//! shared memory and of tensors that the program does not write, and registers that only such values are ever put into.
//!
//! A register that is changed under a condition, or in a loop, is as alike as what decides how often that happens: conditions and bounds
//! between its declaration and the change. Those around both decide who is there at all, as the roles of warps do, and change nothing.

use crate::lowered::*;
use std::collections::{HashMap, HashSet};

/// What is known of a program's registers.
pub(super) struct Alike {
    /// Registers that may hold another value in another thread.
    varying: HashSet<RegId>,
}

/// A place where a register gets a value.
struct Definition {
    reg: RegId,
    /// What the value is made of, and what decides whether and how often it is put there; none where it is nothing that is known.
    made_of: Option<Vec<ValueId>>,
}

impl Alike {
    pub(super) fn of(program: &Program) -> Alike {
        let mut definitions = Vec::new();
        collect(&program.body, &mut Vec::new(), &mut HashMap::new(), &mut definitions);
        let mut alike = Alike { varying: HashSet::new() };
        loop {
            let varies = |definition: &&Definition| {
                definition
                    .made_of
                    .as_ref()
                    .is_none_or(|values| values.iter().any(|value| !alike.is_alike(program, *value)))
            };
            let found: HashSet<RegId> = definitions.iter().filter(varies).map(|definition| definition.reg).collect();
            if found.len() == alike.varying.len() {
                return alike;
            }
            alike.varying = found;
        }
    }

    /// Whether all threads of a block that are together hold the value alike.
    pub(super) fn is_alike(&self, program: &Program, value: ValueId) -> bool {
        visit::values(program, value).into_iter().all(|value| match &value.kind {
            ValueKind::Thread(_) | ValueKind::Special(Special::Warp | Special::Lane | Special::Elected) => false,
            ValueKind::Reg(reg) => !self.varying.contains(reg),
            ValueKind::Load(memory) => match memory.space {
                Space::Shared(_) => true,
                Space::Global(_) => !program.tensor(memory.space).is_some_and(|tensor| tensor.mutable),
                Space::Local(_) => false,
            },
            ValueKind::Int(_)
            | ValueKind::Float(_)
            | ValueKind::Param(_)
            | ValueKind::Block(_)
            | ValueKind::Special(Special::ClusterRank | Special::Grid(_))
            | ValueKind::Unary(..)
            | ValueKind::Binary(..)
            | ValueKind::Math(..)
            | ValueKind::Select(..)
            | ValueKind::Choose(..)
            | ValueKind::Cast(_)
            | ValueKind::Divisor(_)
            | ValueKind::Quotient(..)
            | ValueKind::Pack(..)
            | ValueKind::Unpack(..)
            | ValueKind::Descriptor { .. } => true,
        })
    }
}

/// Every definition in `ops`, inside of operations whose conditions and bounds are `around`. `declared` has how many of them are around each register's
/// declaration.
fn collect(
    ops: &[Op],
    around: &mut Vec<ValueId>,
    declared: &mut HashMap<RegId, usize>,
    definitions: &mut Vec<Definition>,
) {
    for op in ops {
        let values = op.kind.values();
        let is_known = matches!(op.kind, OpKind::Let { .. } | OpKind::Set { .. } | OpKind::For { .. });
        for part in op.kind.parts() {
            let reg = match part {
                Part::Declares(reg) | Part::Body(_, Some(reg)) => {
                    declared.insert(*reg, around.len());
                    *reg
                }
                Part::Sets(reg) => *reg,
                _ => continue,
            };
            let since = &around[declared.get(&reg).copied().unwrap_or(0)..];
            let made_of = is_known.then(|| values.iter().chain(since).copied().collect());
            definitions.push(Definition { reg, made_of });
        }
        let outside = around.len();
        around.extend(&values);
        op.kind.bodies().into_iter().for_each(|body| collect(body, around, declared, definitions));
        around.truncate(outside);
    }
}
