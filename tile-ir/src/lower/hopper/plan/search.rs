//! What qualifies for warp specialisation: one pipelined loop, and nothing around or in it that a producer and consumers cannot do.

use super::Reason;
use crate::ir::*;
use crate::lower::uses::accesses;

/// The pipelined loop of a kernel that can be specialised, or why it cannot be.
pub(super) fn ring(kernel: &BoundKernel) -> Result<StmtId, Reason> {
    let mut search = Search { kernel, ring: None, in_ring: false, nested: 0 };
    search.block(&kernel.body)?;
    let Some(ring) = search.ring else {
        let span = kernel.body.first().map_or(SpanId::from_u32(0), |s| kernel.stmts[*s].span);
        return Err(Reason { text: "it has no pipelined loop of copies".into(), span });
    };
    search.accesses()?;
    Ok(ring)
}

/// Whether the kernel has a pipelined loop at all.
fn pipelined(kernel: &BoundKernel) -> bool {
    kernel.stmts.values().any(|s| matches!(s.kind, StmtKind::For { kind: LoopKind::Pipelined { .. }, .. }))
}

/// Walks the kernel for its one pipelined loop, and for what keeps it from being specialised.
struct Search<'k> {
    kernel: &'k BoundKernel,
    ring: Option<StmtId>,
    in_ring: bool,
    /// Loops and conditionals around, within the ring.
    nested: u32,
}

impl Search<'_> {
    fn block(&mut self, body: &[StmtId]) -> Result<(), Reason> {
        body.iter().try_for_each(|s| self.stmt(*s))
    }

    fn inner(&mut self, bodies: &[&[StmtId]]) -> Result<(), Reason> {
        self.nested += u32::from(self.in_ring);
        bodies.iter().try_for_each(|body| self.block(body))?;
        self.nested -= u32::from(self.in_ring);
        Ok(())
    }

    fn stmt(&mut self, stmt: StmtId) -> Result<(), Reason> {
        let kernel = self.kernel;
        let span = kernel.stmts[stmt].span;
        let no = |text: &str| Err(Reason { text: text.to_owned(), span });
        let scope = |place| match place {
            Place::Buffer(buffer) => Some(kernel.buffers[buffer].scope),
            Place::Tensor(_) => None,
        };
        match &kernel.stmts[stmt].kind {
            // The producer would have to know when.
            StmtKind::For { .. } if kernel.is_left_early(stmt) => no("it has a loop that ends early"),
            StmtKind::For { kind: LoopKind::Pipelined { .. }, body, .. } => {
                if self.ring.is_some() {
                    return no("it has two pipelined loops");
                }
                self.ring = Some(stmt);
                self.in_ring = true;
                self.block(body)?;
                self.in_ring = false;
                Ok(())
            }
            StmtKind::For { body, .. } | StmtKind::Persistent { body, .. } => self.inner(&[body]),
            StmtKind::If { then, otherwise, .. } => self.inner(&[then, otherwise]),
            StmtKind::Parallel { body, .. } => {
                let fragment = |a: &AccessId| scope(kernel.accesses[*a].place) == Some(Scope::Fragment);
                if !accesses(kernel, body).iter().any(fragment) {
                    return no("it has a `parallel` loop that is over no fragment");
                }
                Ok(())
            }
            StmtKind::Tile(TileOp::Copy { src, dst, .. }) => match (scope(src.place), scope(dst.place)) {
                (None, Some(Scope::Shared)) => Ok(()),
                (Some(Scope::Fragment), None) | (None | Some(Scope::Shared), Some(Scope::Fragment)) => Ok(()),
                (Some(Scope::Local), _) | (_, Some(Scope::Local)) => Ok(()),
                _ => no("it copies from registers or shared memory to shared memory, or between tensors"),
            },
            StmtKind::Tile(TileOp::Gemm { .. }) if !self.in_ring => match pipelined(kernel) {
                true => no("it has a `gemm` outside of the pipelined loop"),
                false => no(
                    "no loop around this `gemm` is `pipelined`: write `for k in pipelined(0..n, 4)` for the loop that loads its tiles",
                ),
            },
            StmtKind::Tile(TileOp::Gemm { .. }) if self.nested > 0 => {
                no("it has a `gemm` in a loop or conditional of the pipelined loop")
            }
            StmtKind::SyncThreads => no("its author places a barrier"),
            StmtKind::Reduce { axis: Some(_), .. } => no("it reduces over the block's threads"),
            StmtKind::Tile(TileOp::Gemm { .. }) => Ok(()),
            // Whatever is of fragments alone is the consumers'.
            StmtKind::Tile(op) => {
                let mut shared = false;
                op.parts(&mut |part| {
                    shared |=
                        matches!(part, StmtPart::Array(buffer, _) if kernel.buffers[buffer].scope == Scope::Shared);
                });
                if shared { no(&format!("it has a {} of a shared array", op.name())) } else { Ok(()) }
            }
            StmtKind::Atomic { .. } => no("it has atomic operations"),
            StmtKind::LastArriver { .. } if self.in_ring => no("its pipelined loop has a `last_arriver`"),
            StmtKind::Let { .. }
            | StmtKind::Alloc { .. }
            | StmtKind::Assign { .. }
            | StmtKind::Store { .. }
            | StmtKind::LastArriver { .. }
            | StmtKind::Reduce { .. }
            | StmtKind::Shuffle { .. }
            | StmtKind::Vote { .. }
            | StmtKind::SyncWarp
            | StmtKind::Print { .. }
            | StmtKind::Assert { .. } => Ok(()),
        }
    }

    /// Shared arrays are the ring's: nothing accesses their elements.
    fn accesses(&self) -> Result<(), Reason> {
        for access in accesses(self.kernel, &self.kernel.body) {
            let access = &self.kernel.accesses[access];
            if let Place::Buffer(buffer) = access.place
                && self.kernel.buffers[buffer].scope == Scope::Shared
            {
                let text = format!("it accesses elements of the shared array `{}`", self.kernel.buffers[buffer].name);
                return Err(Reason { text, span: access.span });
            }
        }
        Ok(())
    }
}
