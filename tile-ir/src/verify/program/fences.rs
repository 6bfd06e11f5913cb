//! Registers that a thread accesses by itself have a fence before the next product of its warpgroup that takes them (PTX ISA,
//! `wgmma.fence`), on every path through the program, whether or not a small launch takes it: accumulators may be scaled only where rows
//! outgrow those before.

use super::Bug;
use crate::lowered::*;
use std::collections::HashSet;

/// What no fence has followed yet, on some path.
#[derive(Clone, Default, PartialEq)]
struct Open {
    accessed: HashSet<LocalId>,
    /// There has been no fence at all.
    is_first: bool,
}

impl Open {
    fn join(&mut self, other: Open) {
        self.accessed.extend(other.accessed);
        self.is_first |= other.is_first;
    }
}

/// Follows every path.
///
/// # Errors
/// A product that has no fence before it.
pub(super) fn check(program: &Program) -> Result<(), Bug> {
    list(program, &program.body, &mut Open { is_first: true, ..Open::default() })
}

fn list(program: &Program, ops: &[Op], open: &mut Open) -> Result<(), Bug> {
    for op in ops {
        let loads = op.kind.values().into_iter().flat_map(|value| visit::loads(program, value));
        let mut spaces: Vec<Space> = loads.map(|memory| memory.space).collect();
        if matches!(op.kind, OpKind::Wgmma { .. }) {
            let local = |part| if let Part::Local(local, ..) = part { Some(*local) } else { None };
            let mut taken = op.kind.parts().into_iter().filter_map(local);
            if let Some(local) = taken.find(|local| open.is_first || open.accessed.contains(local)) {
                let name = &program.locals[local].name;
                let text = format!(
                    "a path comes to a product that takes the registers of `{name}`, without a `wgmma` fence since"
                );
                return Err(Bug::new(op.span, format!("{text} the thread's own accesses to them")));
            }
        } else {
            spaces.extend(op.kind.accesses(program).into_iter().map(|(space, _)| space));
        }
        for space in spaces {
            if let Space::Local(local) = space {
                open.accessed.insert(local);
            }
        }
        if op.kind == OpKind::WgmmaFence {
            *open = Open::default();
        }
        if let OpKind::If { then, otherwise, .. } = &op.kind {
            let mut other = open.clone();
            list(program, then, open)?;
            list(program, otherwise, &mut other)?;
            open.join(other);
        } else if let OpKind::For { body, .. } = &op.kind {
            // Its first iteration comes after its last one too, or after nothing of it.
            for _ in 0..2 {
                let before = open.clone();
                list(program, body, open)?;
                open.join(before);
            }
        }
    }
    Ok(())
}
