//! Place: byte offsets of shared arrays.
//!
//! Contract. In: shared arrays without offsets. Out: offsets of arrays, and of barriers behind them, each a multiple of the array's alignment, and
//! the block's total. Every array has bytes of its own where they fit into the target's shared memory. Where they do not, an array may have those of
//! arrays whose last use comes before its first one, and a barrier stands between the two. Uses are told apart by the operations of the program's outermost list, which
//! every thread executes; an array that an mbarrier counts the bytes of, or that TMA or a descriptor reads, is in use all the time.

use super::schedule::listed;
use crate::diag::{Code, Diagnostic};
use crate::ir::{BoundKernel, Scope};
use crate::lowered::visit::{each, values};
use crate::lowered::*;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The program, whose shared arrays and barriers have their places.
pub fn place(mut program: Program) -> Program {
    let mut end = 0u32;
    for array in program.shared.values_mut() {
        array.offset = end.next_multiple_of(array.align);
        end = array.end();
    }
    finish(&mut program);
    if program.shared_bytes > program.target.max_shared_bytes() {
        overlay(&mut program);
        finish(&mut program);
    }
    program
}

/// Places barriers behind the arrays, and adds up.
fn finish(program: &mut Program) {
    let mut end = program.shared.values().map(SharedArray::end).max().unwrap_or(0);
    for array in program.barriers.values_mut() {
        array.offset = end.next_multiple_of(BARRIER_BYTES);
        end = array.offset.saturating_add(array.len.saturating_mul(BARRIER_BYTES));
    }
    let beyond = program.shared.values().map(|array| array.end().saturating_add(array.beyond)).max();
    program.shared_bytes = end.max(beyond.unwrap_or(0));
}

/// When a shared array is in use.
struct Life {
    /// From the first to the last operation of the outermost list that touches it.
    at: RangeInclusive<usize>,
    /// Whether asynchronous copies write it: the last of them may be under way behind that operation.
    is_copied_to: bool,
}

/// Gives each array, in the order of their first uses, the lowest bytes that no array has which is in use at the same time.
fn overlay(program: &mut Program) {
    let lives = lives(program);
    program.shared.iter_mut().filter(|(id, _)| !lives.contains_key(id)).for_each(|(_, array)| array.offset = 0);
    let mut order: Vec<(SharedId, &Life)> = lives.iter().map(|(id, life)| (*id, life)).collect();
    order.sort_by_key(|(_, life)| *life.at.start());
    let mut placed: Vec<(SharedId, &Life)> = Vec::new();
    // The operations that a barrier has to stand before, and whether asynchronous copies are awaited first.
    let mut barriers: BTreeMap<usize, bool> = BTreeMap::new();
    for (id, life) in order {
        let first = *life.at.start();
        let (mut before, mut during): (Vec<_>, Vec<_>) = placed.iter().partition(|(_, other)| *other.at.end() < first);
        during.sort_by_key(|(other, _)| program.shared[*other].offset);
        let (bytes, align) = (program.shared[id].bytes(), program.shared[id].align);
        let mut offset = 0u32;
        for array in during.iter().map(|(other, _)| &program.shared[*other]) {
            if offset.saturating_add(bytes) > array.offset {
                offset = offset.max(array.end()).next_multiple_of(align);
            }
        }
        program.shared[id].offset = offset;
        before.retain(|(other, _)| {
            let other = &program.shared[*other];
            other.offset < offset.saturating_add(bytes) && offset < other.end()
        });
        for (_, other) in &before {
            let last = *other.at.end();
            let is_barrier = |op: &Op| matches!(op.kind, OpKind::Barrier);
            if let Some((_, awaits_copies)) = barriers.range_mut(last + 1..=first).next() {
                *awaits_copies |= other.is_copied_to;
            } else if other.is_copied_to || !program.body[last + 1..first].iter().any(is_barrier) {
                barriers.insert(first, other.is_copied_to);
            }
        }
        if !before.is_empty() {
            let names = listed(before.iter().map(|(other, _)| format!("`{}`", program.shared[*other].name)));
            let name = &program.shared[id].name;
            let text = format!("`{name}` has bytes of {names}, which the block uses no more");
            let span = program.body[first].span;
            program.remarks.push(Remark { kind: RemarkKind::Choice, text, span });
        }
        placed.push((id, life));
    }
    for (position, awaits_copies) in barriers.into_iter().rev() {
        let span = program.body[position].span;
        let wait = awaits_copies.then_some(OpKind::AsyncWait { pending: 0 });
        let ops = wait.into_iter().chain([OpKind::Barrier]).map(|kind| Op { kind, span });
        program.body.splice(position..position, ops);
    }
}

/// When each array is in use that anything touches.
fn lives(program: &Program) -> BTreeMap<SharedId, Life> {
    let mut lives: BTreeMap<SharedId, Life> = BTreeMap::new();
    for (position, op) in program.body.iter().enumerate() {
        let mut touch = |shared: SharedId, always: bool, is_copied_to: bool| {
            let (start, end) = if always { (0, usize::MAX) } else { (position, position) };
            let life = lives.entry(shared).or_insert(Life { at: start..=end, is_copied_to });
            life.at = start.min(*life.at.start())..=end.max(*life.at.end());
            life.is_copied_to |= is_copied_to;
        };
        each(std::slice::from_ref(op), &mut |op| {
            let parts = op.kind.parts();
            let is_counted = parts.iter().any(|part| matches!(part, Part::Barrier(_)));
            let is_copy = op.kind.protocol().is_some();
            for part in parts {
                match part {
                    Part::Memory(Memory { space: Space::Shared(shared), .. }, ..) => {
                        touch(*shared, is_counted, is_copy)
                    }
                    Part::DeclaresShared(shared) => touch(*shared, false, false),
                    Part::Shared(shared, ..) => touch(*shared, true, false),
                    Part::Memory(..) | Part::Value(_) | Part::Local(..) | Part::Map(..) | Part::Barrier(_) => {}
                    Part::Message(_) | Part::Declares(_) | Part::Sets(_) | Part::DeclaresLocal(_) => {}
                    Part::Pins(_) | Part::Body(..) => {}
                }
            }
            for value in op.kind.values().into_iter().flat_map(|id| values(program, id)) {
                if let ValueKind::Load(Memory { space: Space::Shared(shared), .. }) = value.kind {
                    touch(shared, false, false);
                }
                if let ValueKind::Descriptor { shared, .. } = value.kind {
                    touch(shared, true, false);
                }
            }
        });
    }
    lives
}

/// Refuses a program whose shared memory, with what the compiler added to the author's arrays, is more than the target's.
pub(super) fn fits(kernel: &BoundKernel, program: &Program) -> Result<(), Vec<Diagnostic>> {
    let (needed, most) = (program.shared_bytes, program.target.max_shared_bytes());
    let array = kernel.buffers.values().find(|b| b.scope == Scope::Shared);
    let Some(array) = array.filter(|_| needed > most) else { return Ok(()) };
    let bytes = |array: &SharedArray| u64::from(array.len) * u64::from(array.dtype.bytes());
    let parts = listed(program.shared.values().map(|array| format!("`{}` {}", array.name, bytes(array))));
    let for_reduce =
        |a: &&SharedArray| a.scratch && ["spilled", "reduced", "partial"].iter().any(|n| a.name.starts_with(n));
    let reduces = program.shared.values().filter(for_reduce).max_by_key(|a| a.len);
    let message = format!("{needed} bytes of shared memory, of {most} on {}", program.target);
    let diagnostic = Diagnostic::new(Code::SHARED_BUDGET, array.span, message)
        .at(format!("{parts} bytes"))
        .help(match reduces {
            Some(array) => format!(
                "use smaller tiles or arrays; `{}` is what the compiler adds for a `reduce` whose tile goes through shared memory",
                array.name
            ),
            None => "use fewer stages or smaller tiles; what the compiler adds stages the result on its way to memory".into(),
        });
    Err(vec![diagnostic])
}
