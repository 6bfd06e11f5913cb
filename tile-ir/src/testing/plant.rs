//! Mistakes planted in lowered programs: what a wrong lowering could have made of the same kernel.
//!
//! A mistake is one operation left out, moved or changed. Which there are is read off the program, so every program has its
//! own; a seed draws among them.

mod always;
mod clusters;
mod leaders;
mod sides;
#[cfg(test)]
mod tests;

use self::clusters::To;
use self::leaders::Who;
use super::alike::is_alike;
use super::commits::commits_nothing;
use super::fences::shows_nothing;
use crate::ir::{AccessMode, BinaryOp, ShuffleKind, SpanId, UnaryOp};
use crate::lowered::visit::{any, count};
use crate::lowered::*;
use std::fmt;

/// What a mistake is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Arrivals at mbarriers and named barriers, and how many there are to be.
    Arrival,
    /// Bytes that an mbarrier is told to expect, and those that come.
    Bytes,
    /// Which phase is waited for.
    Parity,
    /// Which stage of a ring.
    Slot,
    /// Fences.
    Fence,
    /// Commits of groups.
    Commit,
    /// Waits and barriers.
    Wait,
    /// Something released, or used, before its time.
    Early,
    /// How often a producer's or a consumer's loop goes round.
    Loop,
    /// Which thread or warp does what one is to do.
    Leader,
    /// Which block of a cluster.
    Cluster,
    /// Where in a tensor or in an array.
    Coordinate,
    /// Guards.
    Guard,
    /// Which lanes exchange values.
    Lane,
}

impl Family {
    /// Whether the verifier is to find it by itself: it is about the protocol, not about which elements are meant.
    pub fn is_protocol(self) -> bool {
        !matches!(self, Family::Coordinate | Family::Guard | Family::Lane)
    }
}

/// One mistake in one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// What it is about.
    pub family: Family,
    /// What was done.
    pub text: String,
    /// Whether it is in an access with a guard: where that fails, or holds, decides whether it can be noticed.
    pub is_guarded: bool,
    /// The number of the operation, in the order of the text.
    at: usize,
    change: Change,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {} (operation {})", self.family, self.text, self.at)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Left out.
    Drop,
    /// Moved behind the operation that follows it in its list.
    Later,
    /// Moved before the operation that it follows in its list.
    Earlier,
    /// A number of it is another.
    Add(Number, i64),
    /// An access's guard is gone.
    Unguard,
    /// What is added to a tensor replaces what is there.
    Replace,
    /// A loop goes so many steps further.
    Steps(i64),
    /// A part of a condition holds for others.
    Who(usize, Who),
    /// It goes to another block of the cluster.
    Block(To),
}

/// A number of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Arrivals,
    Bytes,
    Parity,
    Barrier,
    Pending,
    Offset,
    Coordinate(usize),
    /// The descriptor of a product's right operand.
    Descriptor,
    /// The number of stages in the condition under which a ring begins again.
    Stages,
    Threads,
    /// The lane that a shuffle reads, or the mask or distance that leads to it.
    Lane,
}

/// Every mistake that can be planted in a program.
pub fn mistakes(program: &Program) -> Vec<Mistake> {
    let mut all = Vec::new();
    let mut number = 0;
    list(program, &program.body, false, &mut number, &mut all);
    all
}

fn list(program: &Program, ops: &[Op], in_loop: bool, number: &mut usize, all: &mut Vec<Mistake>) {
    for (at, op) in ops.iter().enumerate() {
        let here = *number;
        *number += 1;
        // Nobody waits for what is released after the last loop, in this block: without it the program is the same.
        let releases =
            |kind: &OpKind| matches!(kind, OpKind::BarrierArrive { cta: None, .. } | OpKind::WgmmaWait { .. });
        let releases_inside = |kind: &OpKind| {
            let shared = |body| count(body, &|kind| shares(program, kind)) > count(body, &releases);
            matches!(kind, OpKind::If { .. }) && !kind.bodies().into_iter().any(shared)
        };
        let is_last = |kind: &OpKind| !in_loop && (releases(kind) || releases_inside(kind));
        // Outside of loops a ring does not come to its end, or nobody uses it afterwards.
        // A block that does not send its last release to another need not be waited for by that one.
        let once =
            |change: Change| !in_loop && matches!(change, Change::Add(Number::Stages, _) | Change::Block(To::Own));
        let is_guarded = op.kind.memories().iter().any(|memory| memory.guard.is_some());
        let mut plant = |family, change, text: &str| {
            if once(change) {
                return;
            }
            if is_last(&op.kind) && !matches!((&op.kind, change), (OpKind::WgmmaWait { .. }, Change::Drop)) {
                return;
            }
            all.push(Mistake { family, text: text.to_owned(), is_guarded, at: here, change });
        };
        of(program, &op.kind, &mut plant);
        let neighbours = (at.checked_sub(1).map(|at| &ops[at].kind), ops.get(at + 1).map(|op| &op.kind));
        moves(&op.kind, neighbours, &mut plant);
        let in_loop = in_loop || matches!(op.kind, OpKind::For { .. });
        for body in op.kind.bodies() {
            list(program, body, in_loop, number, all);
        }
    }
}

/// Mistakes of place: what frees memory or registers comes earlier, what waits for them later.
fn moves(
    kind: &OpKind,
    (before, after): (Option<&OpKind>, Option<&OpKind>),
    plant: &mut impl FnMut(Family, Change, &str),
) {
    let touches = |kind: &OpKind| {
        matches!(
            kind,
            OpKind::WgmmaWait { .. }
                | OpKind::Wgmma { .. }
                | OpKind::BarrierWait { .. }
                | OpKind::TensorLoad { .. }
                | OpKind::BulkLoad { .. }
                | OpKind::TensorStore { .. }
                | OpKind::VectorLoad { .. }
                | OpKind::VectorStore { .. }
                | OpKind::NamedBarrier { .. }
                | OpKind::Barrier
                | OpKind::AsyncCopy { .. }
                | OpKind::For { .. }
        )
    };
    let frees = |after: &OpKind| matches!(after, OpKind::BarrierArrive { .. } | OpKind::If { .. } | OpKind::For { .. });
    if matches!(kind, OpKind::BarrierArrive { .. }) && before.is_some_and(touches) {
        plant(Family::Early, Change::Earlier, "a stage is released before what uses it is done");
    }
    if matches!(kind, OpKind::AsyncArrive { .. }) && before.is_some_and(touches) {
        plant(Family::Early, Change::Earlier, "copies are issued after their arrival");
    }
    if matches!(kind, OpKind::BarrierWait { .. }) && after.is_some_and(touches) {
        plant(Family::Early, Change::Later, "a stage is used before the wait for it");
    }
    if matches!(kind, OpKind::WgmmaWait { .. }) && after.is_some_and(frees) {
        plant(Family::Early, Change::Later, "what a product uses is released before the wait for it");
    }
    if matches!(kind, OpKind::AsyncWait { .. }) && after == Some(&OpKind::Barrier) {
        plant(Family::Early, Change::Later, "a copy is waited for after the barrier");
    }
}

/// Whether a value is a number that is written down.
fn literal(program: &Program, id: ValueId) -> Option<i64> {
    program.values.get(id)?.kind.as_int()
}

/// The mistakes that an operation has by itself.
fn of(program: &Program, kind: &OpKind, plant: &mut impl FnMut(Family, Change, &str)) {
    use Change::{Add, Drop, Replace, Unguard};
    let (name, parts) = (kind.name(), kind.parts());
    let barrier = parts.iter().find_map(|part| if let Part::Barrier(barrier) = part { Some(*barrier) } else { None });
    // The next of one stage is the same. A ring whose stages are released, or waited for before they are filled, one further is as right
    // as the ring is, and one stage shorter: stages are filled in their order. Of two stages the one before is the one further.
    let stages = barrier.and_then(|barrier| program.barriers.get(barrier.array)).map_or(1, |array| array.len);
    let array = barrier.map(|barrier| barrier.array);
    let is_release = |op: &OpKind| matches!(op, OpKind::BarrierArrive { barrier, .. } | OpKind::AsyncArrive { barrier } if Some(barrier.array) == array);
    if stages > 1 {
        if matches!(kind, OpKind::BarrierWait { .. }) {
            if stages > 2 || !any(&program.body, &is_release) {
                plant(Family::Slot, Add(Number::Barrier, -1), "the stage before is waited for");
            }
        } else if !matches!(
            kind,
            OpKind::BarrierInit { .. }
                | OpKind::BarrierArrive { .. }
                | OpKind::AsyncArrive { .. }
                | OpKind::ClusterStore { .. }
        ) {
            plant(Family::Slot, Add(Number::Barrier, 1), &format!("`{name}` is counted by the next stage"));
        }
    }
    if kind.memories().iter().any(|m| m.guard.is_some()) {
        plant(Family::Guard, Unguard, "a guard is dropped");
    }
    if matches!(kind, OpKind::BarrierInit { .. }) {
        plant(Family::Arrival, Add(Number::Arrivals, 1), "an mbarrier counts one arrival too many");
        plant(Family::Arrival, Add(Number::Arrivals, -1), "an mbarrier counts one arrival too few");
    }
    if matches!(kind, OpKind::BarrierExpect { .. }) {
        plant(Family::Bytes, Add(Number::Bytes, 16), "16 bytes too many are expected");
        plant(Family::Bytes, Add(Number::Bytes, -16), "16 bytes too few are expected");
    }
    if matches!(kind, OpKind::TensorLoad { .. }) {
        plant(Family::Coordinate, Add(Number::Offset, 64), "a TMA load goes 64 elements further");
    }
    if let OpKind::TensorLoad { coordinates, .. } | OpKind::TensorStore { coordinates, .. } = kind {
        for axis in 0..coordinates.len() {
            let text = format!("`{name}` is of the next row or column");
            plant(Family::Coordinate, Add(Number::Coordinate(axis), 1), &text);
        }
    }
    if matches!(kind, OpKind::TensorStore { adds: true, .. }) {
        plant(Family::Coordinate, Replace, "what is added to a tensor replaces what is there");
    }
    if let Some(family) = dropped(kind, barrier.is_some()) {
        plant(family, Drop, &format!("`{name}` is left out"));
    }
    if let OpKind::Shuffle { kind: ShuffleKind::Xor, lane, .. } = kind
        && let Some(mask) = literal(program, *lane)
    {
        plant(Family::Lane, Add(Number::Lane, -mask), "lanes that combine their values get their own instead");
    }
    if matches!(kind, OpKind::BarrierWait { .. }) {
        plant(Family::Parity, Add(Number::Parity, 1), "the other phase is waited for");
    }
    if matches!(kind, OpKind::BulkLoad { .. }) {
        plant(Family::Bytes, Add(Number::Bytes, -16), "a bulk load brings 16 bytes fewer");
    }
    if matches!(kind, OpKind::BulkWait { .. } | OpKind::AsyncWait { .. } | OpKind::WgmmaWait { .. }) {
        plant(Family::Wait, Add(Number::Pending, 1), &format!("`{name}` is for one group too few"));
    }
    if matches!(kind, OpKind::AsyncCopy { .. }) {
        plant(Family::Coordinate, Add(Number::Offset, 8), "a copy goes 8 elements further");
    }
    if matches!(kind, OpKind::NamedBarrier { .. }) {
        plant(Family::Arrival, Add(Number::Threads, 32), "a named barrier is for a warp too many");
    }
    if matches!(kind, OpKind::Wgmma { .. }) {
        plant(Family::Coordinate, Add(Number::Descriptor, 2), "a product reads 32 bytes further");
    }
    if let OpKind::If { cond, then, .. } = kind {
        let zero = |id| literal(program, id) == Some(0);
        let resets = then.iter().any(|op| matches!(op.kind, OpKind::Set { value, .. } if zero(value)));
        if let Some(ValueKind::Binary(BinaryOp::Eq, a, b)) = program.values.get(*cond).map(|v| &v.kind)
            && resets
            && matches!(program.values.get(*a).map(|v| &v.kind), Some(ValueKind::Reg(_)))
            && literal(program, *b).is_some_and(|stages| stages > 1)
        {
            plant(Family::Slot, Add(Number::Stages, 1), "a ring begins again a stage late");
            plant(Family::Slot, Add(Number::Stages, -1), "a ring begins again a stage early");
        }
    }
    if let OpKind::For { body, .. } = kind
        && sides::is_of_one_side(program, body)
    {
        plant(Family::Loop, Change::Steps(1), "a loop of one side goes a step too far");
        plant(Family::Loop, Change::Steps(-1), "a loop of one side ends a step early");
    }
    for (family, (part, who), text) in leaders::leaders(program, kind) {
        plant(family, Change::Who(part, who), text);
    }
    for (family, to, text) in clusters::blocks(program, kind) {
        plant(family, Change::Block(to), text);
    }
    if let OpKind::Store { memory, .. } | OpKind::VectorStore { memory, .. } = kind
        && matches!(memory.space, Space::Global(_))
    {
        plant(Family::Coordinate, Add(Number::Offset, 1), "a store goes an element further");
    }
}

/// What it is about where an operation is left out, if that can be noticed.
fn dropped(kind: &OpKind, has_mbarrier: bool) -> Option<Family> {
    // The first two change when something happens, not whether. Without a copy or product the protocol is as it was.
    let unnoticed = matches!(kind, OpKind::LaunchDependents | OpKind::SetRegisters { .. })
        || matches!(kind, OpKind::AsyncCopy { .. } | OpKind::Wgmma { .. });
    match kind.protocol().filter(|_| !unnoticed)? {
        Protocol::Commits => Some(Family::Commit),
        Protocol::Fences => Some(Family::Fence),
        Protocol::Arrives if has_mbarrier => Some(Family::Arrival),
        Protocol::Arrives | Protocol::Waits | Protocol::Meets => Some(Family::Wait),
        Protocol::Starts if has_mbarrier => Some(Family::Bytes),
        Protocol::Starts => Some(Family::Coordinate),
        Protocol::MeetsWarp => None,
    }
}

/// The program with a mistake in it.
pub fn planted(program: &Program, mistake: &Mistake) -> Program {
    let mut program = program.clone();
    let mut body = std::mem::take(&mut program.body);
    let mut number = 0;
    apply(&mut program, &mut body, mistake, &mut number);
    program.body = body;
    program
}

/// A program with assertions that do not hold, which change nothing else: an execution that comes to number 3 finds
/// [`Code::ASSERT`](crate::diag::Code::ASSERT) with the message `mark 3;`.
pub struct Marked {
    /// The program.
    pub program: Program,
    /// How many assertions.
    pub count: usize,
}

/// A program with two marks for each mistake, in their order. The first is before the operation that the mistake is in. The second is where the
/// mistake can be noticed: where the mistake is in an access with a guard, before it in threads whose guard fails, if the guard is left out, and else in those
/// whose guard holds; for all other mistakes before the operation that follows in the order of the text, which is the first one inside where there is one.
pub fn marked(program: &Program, mistakes: &[&Mistake]) -> Marked {
    fn list(marked: &mut Program, ops: &mut Vec<Op>, places: &[(usize, Option<Change>)], number: &mut usize) {
        for mut op in std::mem::take(ops) {
            for which in (0..places.len()).filter(|which| places[*which].0 == *number) {
                let cond = places[which].1.and_then(|change| guards(marked, &op.kind, change));
                ops.push(mark(marked, which, cond));
            }
            *number += 1;
            op.kind.bodies_mut().into_iter().for_each(|body| list(marked, body, places, number));
            ops.push(op);
        }
    }
    let mut program = program.clone();
    let second = |mistake: &Mistake| {
        if mistake.is_guarded { (mistake.at, Some(mistake.change)) } else { (mistake.at + 1, None) }
    };
    let places: Vec<_> = mistakes.iter().flat_map(|mistake| [(mistake.at, None), second(mistake)]).collect();
    let mut body = std::mem::take(&mut program.body);
    list(&mut program, &mut body, &places, &mut 0);
    program.body = body;
    Marked { program, count: places.len() }
}

/// What does not hold where a mistake in an access can be noticed: all of its guards, if they are left out; else that one of them fails.
fn guards(program: &mut Program, kind: &OpKind, change: Change) -> Option<ValueId> {
    let guards: Vec<ValueId> = kind.memories().iter().filter_map(|memory| Some(memory.guard?.cond)).collect();
    let (first, rest) = guards.split_first()?;
    let all = rest.iter().fold(*first, |all, guard| binary(program, BinaryOp::And, all, *guard));
    let Value { ty, span, .. } = program.values[all];
    let fails = Value { kind: ValueKind::Unary(UnaryOp::Not, all), ty, span };
    Some(if change == Change::Unguard { all } else { program.values.push(fails) })
}

/// A program with a mark in every list of operations that accesses memory of several threads or synchronises, but for those that no launch
/// comes to: what is done where a condition does not hold that always holds.
pub fn marked_everywhere(program: &Program) -> Marked {
    fn list(program: &Program, marked: &mut Program, ops: &mut Vec<Op>, count: &mut usize) {
        let is_shared = ops.iter().any(|op| shares(program, &op.kind));
        for op in ops.iter_mut() {
            let is_one_way = matches!(op.kind, OpKind::If { cond, .. } if always::holds(program, cond));
            let ways = if is_one_way { 1 } else { usize::MAX };
            op.kind.bodies_mut().into_iter().take(ways).for_each(|body| list(program, marked, body, count));
        }
        if is_shared {
            ops.insert(0, mark(marked, *count, None));
            *count += 1;
        }
    }
    let mut marked = program.clone();
    let (mut body, mut count) = (std::mem::take(&mut marked.body), 0);
    list(program, &mut marked, &mut body, &mut count);
    marked.body = body;
    Marked { program: marked, count }
}

/// Whether an operation synchronises, or accesses more than registers by itself.
fn shares(program: &Program, kind: &OpKind) -> bool {
    let accesses = kind.accesses(program);
    let loads = kind.values().into_iter().flat_map(|value| visit::loads(program, value));
    let mut spaces = accesses.iter().map(|access| access.0).chain(loads.map(|memory| memory.space));
    kind.protocol().is_some() || spaces.any(|space| !matches!(space, Space::Local(_)))
}

/// The operation that a mistake is in, and the one that follows it in its list.
fn found(ops: &[Op], at: usize) -> Option<(&OpKind, Option<&OpKind>)> {
    fn find<'o>(ops: &'o [Op], at: usize, number: &mut usize) -> Option<(&'o OpKind, Option<&'o OpKind>)> {
        for (place, op) in ops.iter().enumerate() {
            if *number == at {
                return Some((&op.kind, ops.get(place + 1).map(|op| &op.kind)));
            }
            *number += 1;
            let inside = op.kind.bodies().into_iter().find_map(|body| find(body, at, number));
            if inside.is_some() {
                return inside;
            }
        }
        None
    }
    find(ops, at, &mut 0)
}

/// Whether the mistake moves a wait for an mbarrier behind an operation that touches nothing but a thread's registers.
pub fn moves_over_registers(program: &Program, mistake: &Mistake) -> bool {
    let Some((OpKind::BarrierWait { .. }, Some(after))) = found(&program.body, mistake.at) else { return false };
    let inside = |body| any(body, &|kind| shares(program, kind));
    mistake.change == Change::Later && !shares(program, after) && !after.bodies().into_iter().any(inside)
}

/// Whether the mistake is in an exchange of a value that all lanes of the warp hold alike.
pub fn exchanges_alike(program: &Program, mistake: &Mistake) -> bool {
    let shuffle = found(&program.body, mistake.at).map(|(kind, _)| kind);
    shuffle.is_some_and(|kind| matches!(kind, OpKind::Shuffle { .. }) && is_alike(program, kind))
}

/// Whether the mistake is in a commit that is executed only where the program makes no asynchronous copy.
pub fn commits_without_copies(program: &Program, mistake: &Mistake) -> bool {
    let commit = found(&program.body, mistake.at).map(|(kind, _)| kind);
    commit.is_some_and(|kind| *kind == OpKind::AsyncCommit && commits_nothing(program, kind))
}

/// Whether the mistake is in a proxy fence before which the thread has stored nothing since another one.
pub fn fences_nothing(program: &Program, mistake: &Mistake) -> bool {
    let fence = found(&program.body, mistake.at).map(|(kind, _)| kind);
    fence.is_some_and(|kind| *kind == OpKind::FenceProxyAsync && shows_nothing(program, kind))
}

/// An assertion that never holds, or only where `cond` does, at a place of its own: the simulator says one thing a place.
fn mark(program: &mut Program, number: usize, cond: Option<ValueId>) -> Op {
    let (ty, span) = (ValueType::BOOL, SpanId::from_u32(number as u32));
    let cond = cond.unwrap_or_else(|| program.values.push(Value { kind: ValueKind::Int(0), ty, span }));
    let text = format!("mark {number};");
    let message = program.messages.push(Message { kind: MessageKind::Assert, text, args: Vec::new(), span });
    Op { kind: OpKind::Assert { cond, message }, span }
}

/// Whether the mistake's operation was in the list.
fn apply(program: &mut Program, ops: &mut Vec<Op>, mistake: &Mistake, number: &mut usize) -> bool {
    for at in 0..ops.len() {
        let here = *number;
        *number += 1;
        if here == mistake.at {
            match mistake.change {
                Change::Drop => drop(ops.remove(at)),
                Change::Later if at + 1 < ops.len() => ops.swap(at, at + 1),
                Change::Earlier if at > 0 => ops.swap(at, at - 1),
                Change::Later | Change::Earlier => {}
                Change::Replace => {
                    if let OpKind::TensorStore { adds, .. } = &mut ops[at].kind {
                        *adds = false;
                    }
                }
                Change::Unguard => ops[at].kind.memories_mut().into_iter().for_each(|memory| memory.guard = None),
                Change::Add(which, more) => add(program, &mut ops[at].kind, which, more),
                Change::Steps(steps) => {
                    if let OpKind::For { end, step, .. } = &mut ops[at].kind {
                        let steps = int(program, *step, steps);
                        let further = binary(program, BinaryOp::Mul, *step, steps);
                        *end = binary(program, BinaryOp::Add, *end, further);
                    }
                }
                Change::Who(part, who) => {
                    if let OpKind::If { cond, .. } = &mut ops[at].kind {
                        *cond = leaders::changed(program, *cond, (part, who));
                    }
                }
                Change::Block(to) => clusters::change(program, &mut ops[at].kind, to),
            }
            return true;
        }
        for body in ops[at].kind.bodies_mut() {
            if apply(program, body, mistake, number) {
                return true;
            }
        }
    }
    false
}

/// A number of another value's type, where that one is.
fn int(program: &mut Program, like: ValueId, number: i64) -> ValueId {
    let Value { ty, span, .. } = program.values[like];
    program.values.push(Value { kind: ValueKind::Int(number), ty, span })
}

/// A value of two others of the first one's type.
fn binary(program: &mut Program, op: BinaryOp, a: ValueId, b: ValueId) -> ValueId {
    let Value { ty, span, .. } = program.values[a];
    program.values.push(Value { kind: ValueKind::Binary(op, a, b), ty, span })
}

/// A value and so much more.
fn more(program: &mut Program, id: ValueId, more: i64) -> ValueId {
    let more = int(program, id, more);
    binary(program, BinaryOp::Add, id, more)
}

/// The next or another of a ring's mbarriers, or the other parity.
fn next(program: &mut Program, id: ValueId, by: i64, of: u32) -> ValueId {
    let sum = more(program, id, by.rem_euclid(i64::from(of)));
    let of = int(program, id, of.into());
    binary(program, BinaryOp::Rem, sum, of)
}

fn add(program: &mut Program, kind: &mut OpKind, which: Number, by: i64) {
    let moved = |number: u32| (i64::from(number) + by).max(0) as u32;
    match (which, kind) {
        (Number::Arrivals, OpKind::BarrierInit { arrivals, .. }) => *arrivals = moved(*arrivals),
        (Number::Bytes, OpKind::BarrierExpect { bytes, .. } | OpKind::BulkLoad { bytes, .. }) => {
            *bytes = more(program, *bytes, by);
        }
        (Number::Parity, OpKind::BarrierWait { parity, .. }) => *parity = next(program, *parity, by, 2),
        (Number::Barrier, kind) => {
            let barrier = |part| if let PartMut::Barrier(barrier) = part { Some(barrier) } else { None };
            for barrier in kind.parts_mut().into_iter().filter_map(barrier) {
                let len = program.barriers[barrier.array].len;
                barrier.index = next(program, barrier.index, by, len);
            }
        }
        (
            Number::Pending,
            OpKind::BulkWait { pending, .. } | OpKind::AsyncWait { pending } | OpKind::WgmmaWait { pending },
        ) => *pending = moved(*pending),
        (Number::Offset, kind) => {
            for part in kind.parts_mut() {
                if let PartMut::Memory(Memory { offset, .. }, AccessMode::Write, _)
                | PartMut::Shared(_, offset, AccessMode::Write) = part
                {
                    *offset = more(program, *offset, by);
                }
            }
        }
        (
            Number::Coordinate(axis),
            OpKind::TensorLoad { coordinates, .. } | OpKind::TensorStore { coordinates, .. },
        ) => {
            coordinates[axis] = more(program, coordinates[axis], by);
        }
        (Number::Descriptor, OpKind::Wgmma { b, .. }) => *b = more(program, *b, by),
        (Number::Lane, OpKind::Shuffle { lane, .. }) => *lane = more(program, *lane, by),
        (Number::Threads, OpKind::NamedBarrier { threads, .. }) => *threads = moved(*threads),
        (Number::Stages, OpKind::If { cond, .. }) => {
            if let ValueKind::Binary(op, a, b) = program.values[*cond].kind {
                let Value { ty, span, .. } = program.values[*cond];
                let b = more(program, b, by);
                *cond = program.values.push(Value { kind: ValueKind::Binary(op, a, b), ty, span });
            }
        }
        _ => {}
    }
}
