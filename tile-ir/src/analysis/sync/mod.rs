//! Where the compiler places block barriers: around tile operations whose accesses meet others'.
//!
//! Between element accesses the author synchronises. An access of a tile operation (`copy`, `fill`, `parallel`) to a
//! shared array is ordered with every other access to it by a barrier of the compiler's; so are accesses on different
//! sides of a `thread_allreduce`. First a barrier is placed before each statement that meets an earlier access ([`pending`]), moved
//! out of every conditional and loop that not all threads run alike. Then every barrier in a loop is moved before the
//! outermost loop that leaves nothing unordered: what was accessed before a loop needs one barrier, not one an iteration.
//! A loop counts as one that runs, and a conditional in it as one that is taken.
//!
//! Within a pipelined loop the arrays that it loads ahead are not looked at: the pipeline synchronises them, with a
//! barrier in every iteration between its loads and the rest, which orders everything else too. To what is around it
//! the loop is one operation, which writes them first and reads them last.

mod pending;
#[cfg(test)]
mod tests;

use crate::ir::{BoundKernel, BufferId, Scope, StmtId, StmtKind};
use pending::{Pending, Walk};
use std::collections::{BTreeMap, BTreeSet};

/// Statements that may be visited to find better places. Each place is right; those beyond stay where they are.
const STEPS: usize = 20_000;
/// How often a loop is thought to run whose number of iterations is not constant.
const ITERATIONS: u64 = 8;

/// The statements before which a barrier must stand.
pub(super) fn place(kernel: &BoundKernel, uniform: &BTreeSet<StmtId>) -> BTreeSet<StmtId> {
    place_among(kernel, uniform, &shared(kernel))
}

/// The shared arrays of a kernel.
fn shared(kernel: &BoundKernel) -> BTreeSet<BufferId> {
    kernel.buffers.iter().filter(|(_, b)| b.scope == Scope::Shared).map(|(buffer, _)| buffer).collect()
}

/// The statements before which a barrier must stand, where accesses to some arrays alone are to be ordered.
pub(super) fn place_among(
    kernel: &BoundKernel,
    uniform: &BTreeSet<StmtId>,
    arrays: &BTreeSet<BufferId>,
) -> BTreeSet<StmtId> {
    if arrays.is_empty() {
        return BTreeSet::new();
    }
    let mut walk = Walk::new(kernel, uniform, arrays);
    walk.insert();
    let nests = Nests::of(kernel);
    walk.steps = 0;
    while nests.improve(&mut walk) && walk.steps < STEPS {}
    walk.barriers
}

/// The loops around every statement of a kernel.
struct Nests<'k> {
    kernel: &'k BoundKernel,
    /// Of each statement: those around it, from the outside in.
    around: BTreeMap<StmtId, Vec<StmtId>>,
    /// Statements in the order of the program.
    order: Vec<StmtId>,
}

impl<'k> Nests<'k> {
    fn of(kernel: &'k BoundKernel) -> Self {
        let mut this = Nests { kernel, around: BTreeMap::new(), order: Vec::new() };
        this.collect(&kernel.body, &mut Vec::new());
        this
    }

    fn collect(&mut self, body: &[StmtId], loops: &mut Vec<StmtId>) {
        for &stmt in body {
            self.order.push(stmt);
            self.around.insert(stmt, loops.clone());
            let kind = &self.kernel.stmts[stmt].kind;
            // Nothing in it has a barrier before it.
            if matches!(kind, StmtKind::Parallel { .. }) {
                continue;
            }
            loops.extend(kind.is_loop().then_some(stmt));
            kind.bodies().into_iter().for_each(|body| self.collect(body, loops));
            loops.truncate(loops.len() - usize::from(kind.is_loop()));
        }
    }

    /// How often a loop is thought to run.
    fn iterations(&self, stmt: StmtId) -> u64 {
        let StmtKind::For { start, end, step, .. } = &self.kernel.stmts[stmt].kind else { return ITERATIONS };
        let [start, end, step] = [start, end, step].map(|e| self.kernel.const_index(*e));
        let count = start.zip(end).zip(step).and_then(|((start, end), step)| {
            let length = u64::try_from(end.checked_sub(start)?).ok()?;
            Some(length.div_ceil(u64::try_from(step).ok().filter(|s| *s > 0)?))
        });
        count.unwrap_or(ITERATIONS).max(1)
    }

    /// How many barriers a thread is thought to wait at.
    fn cost(&self, barriers: &BTreeSet<StmtId>) -> u64 {
        let of = |stmt: &StmtId| {
            let loops = self.around.get(stmt).into_iter().flatten();
            loops.fold(1u64, |count, l| count.saturating_mul(self.iterations(*l)))
        };
        barriers.iter().fold(0, |sum, stmt| sum.saturating_add(of(stmt)))
    }

    /// Takes away each barrier that stands in a loop, or moves it out of as many loops as it can be. Whether that changed
    /// something.
    fn improve(&self, walk: &mut Walk<'_>) -> bool {
        let inside = |stmt: &&StmtId| self.around.get(stmt).is_some_and(|loops| !loops.is_empty());
        let placed: Vec<StmtId> =
            self.order.iter().filter(|s| walk.barriers.contains(s)).filter(inside).copied().collect();
        let mut changed = false;
        for stmt in placed {
            let Some(loops) = self.around.get(&stmt) else { continue };
            let places = std::iter::once(None).chain(loops.iter().copied().map(Some));
            for place in places {
                if walk.steps >= STEPS {
                    return changed;
                }
                if self.moved(walk, stmt, place, loops) {
                    changed = true;
                    break;
                }
            }
        }
        changed
    }

    /// Moves the barrier before `stmt` to before `place`, or takes it away, if nothing is unordered then, or if what has to be
    /// added costs less. Whether it did.
    fn moved(&self, walk: &mut Walk<'_>, stmt: StmtId, place: Option<StmtId>, loops: &[StmtId]) -> bool {
        if place.is_some_and(|place| walk.barriers.contains(&place)) {
            // Then it could have been taken away.
            return false;
        }
        let Some(&outermost) = loops.first() else { return false };
        let entry: Pending = walk.entries.get(&outermost).cloned().unwrap_or_default();
        let before = walk.after(outermost, &entry);
        let kept = walk.barriers.clone();
        walk.barriers.remove(&stmt);
        walk.barriers.extend(place);
        match (before, walk.after(outermost, &entry)) {
            // What follows the loop sees no more than it did.
            (Some(before), Some(after))
                if after.iter().all(|(b, bits)| before.get(b).is_some_and(|old| old & bits == *bits)) =>
            {
                true
            }
            (_, Some(_)) => {
                walk.insert();
                if self.cost(&walk.barriers) < self.cost(&kept) {
                    return true;
                }
                walk.barriers = kept;
                walk.insert();
                false
            }
            (_, None) => {
                walk.barriers = kept;
                false
            }
        }
    }
}
