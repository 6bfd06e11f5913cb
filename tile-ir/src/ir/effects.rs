//! What each statement reads, writes and synchronises: what verification, race analysis and barrier
//! insertion read, made from the statement's parts.

use super::parts::{AccessMode, StmtPart, each, loads, roots};
use super::{BufferId, Kernel, LoopKind, Place, StmtId, StmtKind, TileRef, pipeline};

/// One effect of a statement itself; bodies of loops and conditionals have their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Reads elements of a place, by the element access rules (loads inside expressions are listed by the expression).
    Read(Place),
    /// Writes elements of a place.
    Write(Place),
    /// Reads and writes elements atomically.
    Atomic(Place),
    /// A tile operation: the compiler places the barriers around it.
    Cooperative(Place),
    /// All threads of the block must reach it together.
    BlockCollective,
    /// All threads of the warp must reach it together.
    WarpCollective,
    /// Orders the block's earlier accesses before its later ones.
    BlockBarrier,
    /// Orders the warp's earlier accesses before its later ones.
    WarpBarrier,
}

/// The effects of statement `stmt`.
pub fn effects(kernel: &Kernel, stmt: StmtId) -> Vec<Effect> {
    let kind = &kernel.stmts[stmt].kind;
    let mut all = Vec::new();
    let touch = |all: &mut Vec<Effect>, place, touch: AccessMode| {
        if touch == AccessMode::Atomic {
            return all.push(Effect::Atomic(place));
        }
        all.extend(touch.reads().then_some(Effect::Read(place)));
        all.extend(touch.writes().then_some(Effect::Write(place)));
    };
    kind.each_part(&mut |part| match part {
        StmtPart::Element(access, how) => touch(&mut all, kernel.accesses[access].place, how),
        StmtPart::Tile(TileRef { place, .. }, how) => {
            touch(&mut all, *place, how);
            if is_the_blocks(kernel, *place) {
                all.extend([Effect::Cooperative(*place), Effect::BlockCollective]);
            }
        }
        StmtPart::Array(buffer, how) => {
            let place = Place::Buffer(buffer);
            touch(&mut all, place, how);
            if is_the_blocks(kernel, place) {
                all.extend([Effect::Cooperative(place), Effect::BlockCollective]);
            }
        }
        StmtPart::BlockCollective => all.push(Effect::BlockCollective),
        StmtPart::WarpCollective => all.push(Effect::WarpCollective),
        StmtPart::BlockBarrier => all.push(Effect::BlockBarrier),
        StmtPart::WarpBarrier => all.push(Effect::WarpBarrier),
        StmtPart::Value(_)
        | StmtPart::Constant(_)
        | StmtPart::Binds(_)
        | StmtPart::Sets(_)
        | StmtPart::Body(_)
        | StmtPart::Report => {}
    });
    // The waits and barriers of arrays that are loaded ahead are the loop's.
    if let StmtKind::For { var, kind: LoopKind::Pipelined { .. }, body, .. } = kind {
        let split = pipeline::split(kernel, *var, body);
        let before = all.len();
        all.extend(split.shared(kernel).map(|b| Effect::Cooperative(Place::Buffer(b))));
        if all.len() > before {
            all.push(Effect::BlockCollective);
        }
    }
    all
}

/// Whether a statement reads or writes an array, those nested in it aside.
pub(crate) fn touches(kernel: &Kernel, stmt: StmtId, buffer: BufferId) -> bool {
    let place = Place::Buffer(buffer);
    let touched = effects(kernel, stmt);
    let mut found =
        touched.iter().any(|e| matches!(e, Effect::Read(at) | Effect::Write(at) | Effect::Atomic(at) if *at == place));
    found |= roots(kernel, stmt).into_iter().any(|root| loads(kernel, root, buffer));
    found
}

/// Whether a statement, or one in it, reads or writes an array.
pub(crate) fn mentions(kernel: &Kernel, stmt: StmtId, buffer: BufferId) -> bool {
    let mut found = false;
    each(kernel, &[stmt], &mut |inner| found |= touches(kernel, inner, buffer));
    found
}

/// Whether the block has one of it: a shared array or a fragment.
fn is_the_blocks(kernel: &Kernel, place: Place) -> bool {
    matches!(place, Place::Buffer(b) if kernel.buffers[b].scope != super::Scope::Local)
}
