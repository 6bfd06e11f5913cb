//! The loops whose loads a producer can issue: what the author marked `pipelined`, and plain loops of copies and products.
//!
//! Whatever else a kernel does is its compute partition's and keeps nothing from being specialised.

use super::super::hopper::Reason;
use super::super::uses::{constant, statements};
use crate::ir::pipeline::split;
use crate::ir::*;

/// A loop whose loads fill slots.
#[derive(Clone, Debug)]
pub(in crate::lower) struct Loop {
    pub(in crate::lower) stmt: StmtId,
    pub(in crate::lower) var: VarId,
    /// Start, end and step.
    pub(in crate::lower) range: [ExprId; 3],
    /// The slots that the author asks for; `None` of a plain loop, which gets what fits.
    pub(in crate::lower) stages: Option<u32>,
    pub(in crate::lower) schedule: Schedule,
    pub(in crate::lower) body: Vec<StmtId>,
    /// The copies that lead its body.
    pub(in crate::lower) loads: Vec<StmtId>,
}

/// The loops of a kernel that fill slots, in the order of the program, or why there are none.
pub(in crate::lower) fn loops(kernel: &BoundKernel) -> Result<Vec<Loop>, Reason> {
    let mut search = Search { kernel, found: Vec::new() };
    search.block(&kernel.body)?;
    if !search.found.is_empty() {
        return Ok(search.found);
    }
    let pipelined = |s: &Stmt| matches!(s.kind, StmtKind::For { kind: LoopKind::Pipelined { .. }, .. });
    let product = kernel.stmts.values().find(|s| matches!(s.kind, StmtKind::Tile(TileOp::Gemm { .. })));
    let text = match kernel.stmts.values().any(pipelined) {
        true => "its pipelined loops load no tiles into shared memory",
        false => {
            "no loop loads the tiles of this `gemm`: write `for k in pipelined(0..n, 4)`, with the copies first in it"
        }
    };
    let span = product.or(kernel.stmts.values().next()).map_or(SpanId::from_u32(0), |s| s.span);
    Err(Reason::new(text, span))
}

struct Search<'k> {
    kernel: &'k BoundKernel,
    found: Vec<Loop>,
}

impl Search<'_> {
    fn block(&mut self, body: &[StmtId]) -> Result<(), Reason> {
        body.iter().try_for_each(|s| self.stmt(*s))
    }

    fn stmt(&mut self, stmt: StmtId) -> Result<(), Reason> {
        let kernel = self.kernel;
        let kind = &kernel.stmts[stmt].kind;
        let before = self.found.len();
        if let StmtKind::For { var, start, end, step, kind: LoopKind::Pipelined { stages, schedule }, body } = kind
            && let Some(loads) = self.loads(stmt, *var, body)?
        {
            if *schedule == Schedule::Rolled {
                let text = "`.schedule(Rolled)`: every warp loads and computes";
                return Err(Reason::new(text, kernel.stmts[stmt].span));
            }
            let stages = constant(kernel, *stages).unwrap_or(1).max(1);
            let (range, schedule) = ([*start, *end, *step], *schedule);
            let all = body.clone();
            self.found.push(Loop { stmt, var: *var, range, stages: Some(stages), schedule, body: all, loads });
            let mut inner = Search { kernel, found: Vec::new() };
            inner.block(body)?;
            return match inner.found.first() {
                Some(inner) if inner.stages.is_some() => {
                    let text = "a pipelined loop that loads tiles stands in another one";
                    Err(Reason::new(text, kernel.stmts[inner.stmt].span))
                }
                _ => self.runs_whole(stmt),
            };
        }
        // What a `parallel` loop does is the compute partition's.
        if !matches!(kind, StmtKind::Parallel { .. }) {
            kind.bodies().into_iter().try_for_each(|body| self.block(body))?;
        }
        if self.found.len() > before {
            return self.runs_whole(stmt);
        }
        if let StmtKind::For { var, start, end, step, kind: LoopKind::Serial { unroll: None }, body } = kind
            && !kernel.is_left_early(stmt)
            && let Ok(Some(loads)) = self.loads(stmt, *var, body)
            && self.multiplies(body, &loads)
        {
            let (range, schedule, body) = ([*start, *end, *step], Schedule::Cooperative, body.clone());
            self.found.push(Loop { stmt, var: *var, range, stages: None, schedule, body, loads });
        }
        Ok(())
    }

    /// The copies into shared memory that lead a loop's body, if any do.
    fn loads(&self, stmt: StmtId, var: VarId, body: &[StmtId]) -> Result<Option<Vec<StmtId>>, Reason> {
        let kernel = self.kernel;
        let split = split(kernel, var, body);
        let filled: Vec<BufferId> = split.shared(kernel).collect();
        if filled.is_empty() {
            return Ok(None);
        }
        let copy = |stmt: &StmtId| {
            let StmtKind::Tile(TileOp::Copy { dst, .. }) = &kernel.stmts[*stmt].kind else { return None };
            let Place::Buffer(buffer) = dst.place else { return None };
            filled.contains(&buffer).then_some((*stmt, buffer))
        };
        let (loads, copied): (Vec<StmtId>, Vec<BufferId>) = body[..split.loads].iter().filter_map(copy).unzip();
        let name = |buffer: BufferId| &kernel.buffers[buffer].name;
        let span = kernel.stmts[stmt].span;
        if let Some(other) = filled.iter().find(|buffer| !copied.contains(buffer)) {
            let text = format!(
                "`{}` is loaded by its elements or under a condition: TMA loads what one `copy` fills",
                name(*other)
            );
            return Err(Reason { text, span });
        }
        if let Some((at, twice)) = copied.iter().enumerate().find(|(at, buffer)| copied[..*at].contains(buffer)) {
            let text = format!("`{}` is filled by two copies", name(*twice));
            return Err(Reason { text, span: kernel.stmts[loads[at]].span });
        }
        Ok(Some(loads))
    }

    /// Whether a product in `body` multiplies what one of the loads brings.
    fn multiplies(&self, body: &[StmtId], loads: &[StmtId]) -> bool {
        let kernel = self.kernel;
        statements(kernel, body).into_iter().any(|stmt| {
            let StmtKind::Tile(TileOp::Gemm { a, b, .. }) = &kernel.stmts[stmt].kind else { return false };
            let multiplied = [a.buffer, b.buffer].map(Place::Buffer);
            loads.iter().any(|load| {
                matches!(&kernel.stmts[*load].kind,
                    StmtKind::Tile(TileOp::Copy { dst, .. }) if multiplied.contains(&dst.place))
            })
        })
    }

    /// An error where a loop that loads, or stands around one, ends early: the producer would have to know when.
    fn runs_whole(&self, stmt: StmtId) -> Result<(), Reason> {
        let text = "a loop that loads tiles, or stands around one, ends early";
        let ends = Reason::new(text, self.kernel.stmts[stmt].span);
        if self.kernel.is_left_early(stmt) { Err(ends) } else { Ok(()) }
    }
}
