//! Loads into shared memory that go on while the block computes, and how the block learns that they are done.
//!
//! `pipeline` speaks of *tokens*: the loads of an iteration produce one, the iteration awaits it before it computes, and
//! what it read from a slot it releases before the slot is filled again. This file says what that is on the target. Here a
//! token is a group of each thread's own asynchronous copies, awaited by the thread and then, by a barrier, by the block;
//! on a ring of mbarriers it would be a phase, and a release an arrival.

use super::value::OpenAxis;
use super::*;
use crate::analysis::SharedLoad;

/// How the loads of one pipelined loop into shared memory are awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Groups of asynchronous copies, and barriers.
    Groups,
    /// Barriers alone: nothing is asynchronous.
    Barriers,
}

impl Lowering<'_> {
    /// The loads of an iteration have been issued, by every thread its own. Produced once an iteration, whether or not
    /// there is such an iteration, so that tokens can be counted.
    pub(super) fn produce_token(&mut self, protocol: Protocol) {
        if protocol == Protocol::Groups {
            self.op(OpKind::AsyncCommit);
        }
    }

    /// The data of a token is there, for the whole block. `newer` tokens were produced after it.
    ///
    /// The barrier also tells that every thread has left what it did before: slots that were read need no other release.
    pub(super) fn await_token(&mut self, protocol: Protocol, newer: u32) {
        if protocol == Protocol::Groups {
            self.op(OpKind::AsyncWait { pending: newer });
        }
        self.op(OpKind::Barrier);
    }

    /// Every thread has left a slot that no later await speaks for.
    pub(super) fn release_slot(&mut self) {
        self.op(OpKind::Barrier);
    }

    /// The elements of one asynchronous copy, if a load is made of such; else that is remarked. `None` also for what is
    /// no load of a pipelined loop.
    pub(super) fn asynchronous_width(&mut self, stmt: StmtId) -> Option<u32> {
        match self.analysis.shared_loads.get(&stmt)? {
            SharedLoad::Asynchronous { width } => Some(*width),
            SharedLoad::Synchronous { why } => {
                let text = format!("this load is not asynchronous, it waits for its data when it is issued: {why}");
                self.remark(RemarkKind::Fallback, self.kernel.stmts[stmt].span, text);
                None
            }
        }
    }

    /// A store of one loaded element.
    pub(super) fn asynchronous_element(&mut self, stmt: StmtId, access: AccessId, value: ExprId) -> bool {
        let ExprKind::Load(source) = self.kernel.exprs[value].kind else {
            return self.asynchronous_width(stmt).is_some();
        };
        let Some(width) = self.asynchronous_width(stmt) else { return false };
        let (from, to) = (self.memory(source), self.memory(access));
        self.op(OpKind::AsyncCopy { to, from, width });
        true
    }

    /// The same of a vectorised loop.
    pub(super) fn asynchronous_vector(
        &mut self,
        stmt: StmtId,
        access: AccessId,
        value: ExprId,
        var: VarId,
        first: i64,
    ) -> bool {
        let ExprKind::Load(source) = self.kernel.exprs[value].kind else {
            return self.asynchronous_width(stmt).is_some();
        };
        let Some(width) = self.asynchronous_width(stmt) else { return false };
        let from = self.at_first(var, first, |l| l.memory(source));
        let to = self.at_first(var, first, |l| l.memory(access));
        self.op(OpKind::AsyncCopy { to, from, width });
        true
    }

    /// A tile copy by transactions of `width` elements, which its rows are made of.
    pub(super) fn asynchronous_tile(
        &mut self,
        src: &TileRef,
        dst: &TileRef,
        [src_open, dst_open]: [&[OpenAxis]; 2],
        extents: &[u32],
        width: u32,
    ) {
        let mut counts: Vec<ValueId> = Vec::with_capacity(extents.len());
        for (axis, &extent) in extents.iter().enumerate() {
            let is_inner = axis + 1 == extents.len();
            counts.push(self.int(i64::from(if is_inner { extent / width } else { extent })));
        }
        self.spread("part", &counts, |l, mut indices| {
            let scale = l.int(i64::from(width));
            if let Some(last) = indices.last_mut() {
                *last = l.binary(BinaryOp::Mul, *last, scale);
            }
            let from = l.tile_memory(src, &indices, src_open);
            let to = l.tile_memory(dst, &indices, dst_open);
            l.op(OpKind::AsyncCopy { to, from, width });
        });
    }
}
