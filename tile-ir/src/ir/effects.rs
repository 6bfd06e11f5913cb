//! What each statement reads, writes and synchronises: the one table that verification, race analysis and barrier
//! insertion read. The match is exhaustive, so a statement without an entry does not compile.

use super::{Kernel, LoopKind, Place, ReduceSource, StmtId, StmtKind, pipeline};

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
    match &kernel.stmts[stmt].kind {
        StmtKind::Let { .. } | StmtKind::Alloc { .. } | StmtKind::Assign { .. } => vec![],
        StmtKind::If { .. } | StmtKind::Persistent { .. } => vec![],
        // The waits and barriers of arrays that are loaded ahead are the loop's.
        StmtKind::For { var, kind: LoopKind::Pipelined { .. }, body, .. } => {
            let split = pipeline::split(kernel, *var, body);
            let mut all: Vec<_> = split.shared(kernel).map(|b| Effect::Cooperative(Place::Buffer(b))).collect();
            if !all.is_empty() {
                all.push(Effect::BlockCollective);
            }
            all
        }
        StmtKind::For { kind: LoopKind::Serial { .. } | LoopKind::Unroll | LoopKind::Vectorized, .. } => vec![],
        StmtKind::Parallel { .. } => vec![Effect::BlockCollective],
        StmtKind::Store { access, .. } => vec![Effect::Write(kernel.accesses[*access].place)],
        StmtKind::Copy { src, dst, .. } => {
            let mut all = vec![Effect::Read(src.place), Effect::Write(dst.place)];
            for place in [src.place, dst.place] {
                if is_the_blocks(kernel, place) {
                    all.extend([Effect::Cooperative(place), Effect::BlockCollective]);
                }
            }
            all
        }
        StmtKind::Fill { buffer, .. } => {
            let place = Place::Buffer(*buffer);
            let mut all = vec![Effect::Write(place)];
            if is_the_blocks(kernel, place) {
                all.extend([Effect::Cooperative(place), Effect::BlockCollective]);
            }
            all
        }
        StmtKind::Gemm { a, b, acc, .. } => {
            let (a, b, acc) = (Place::Buffer(a.buffer), Place::Buffer(b.buffer), Place::Buffer(*acc));
            let mut all = vec![Effect::Read(a), Effect::Read(b), Effect::Read(acc), Effect::Write(acc)];
            all.extend([a, b, acc].map(Effect::Cooperative));
            all.push(Effect::BlockCollective);
            all
        }
        StmtKind::Reduce { src, axis, .. } => {
            let mut all = match src {
                ReduceSource::Value(_) => vec![],
                ReduceSource::Local(b) => vec![Effect::Read(Place::Buffer(*b)), Effect::Write(Place::Buffer(*b))],
            };
            all.push(if axis.is_some() { Effect::BlockCollective } else { Effect::WarpCollective });
            all
        }
        StmtKind::ReduceTile { src, dst, .. } => {
            let (src, dst) = (Place::Buffer(*src), Place::Buffer(*dst));
            let mut all = vec![Effect::Read(src), Effect::Write(dst)];
            all.extend([src, dst].map(Effect::Cooperative));
            all.push(Effect::BlockCollective);
            all
        }
        // Fragments are a block's own: what crosses blocks is the compiler's.
        StmtKind::ClusterReduce { tile, .. } => {
            let tile = Place::Buffer(*tile);
            vec![Effect::Read(tile), Effect::Write(tile), Effect::Cooperative(tile), Effect::BlockCollective]
        }
        StmtKind::Shuffle { .. } | StmtKind::Vote { .. } => vec![Effect::WarpCollective],
        StmtKind::Atomic { access, .. } => vec![Effect::Atomic(kernel.accesses[*access].place)],
        StmtKind::LastArriver { access, .. } => {
            vec![Effect::Atomic(kernel.accesses[*access].place), Effect::BlockCollective, Effect::BlockBarrier]
        }
        StmtKind::SyncThreads => vec![Effect::BlockCollective, Effect::BlockBarrier],
        StmtKind::SyncWarp => vec![Effect::WarpCollective, Effect::WarpBarrier],
        StmtKind::Print { .. } | StmtKind::Assert { .. } => vec![],
    }
}

/// Whether the block has one of it: a shared array or a fragment.
fn is_the_blocks(kernel: &Kernel, place: Place) -> bool {
    matches!(place, Place::Buffer(b) if kernel.buffers[b].scope != super::Scope::Local)
}
