//! What is said about a race: who touches what, and where a barrier may stand.

use super::Run;
use super::touch::{Kind, Touch, key};
use crate::advice;
use crate::diag::{Code, Diagnostic};
use crate::ir::{AccessId, BoundKernel, DtypeRef, LoopKind, Place, SpanId, StmtId, StmtKind};

impl Run<'_> {
    /// Reports two accesses of one element, of a shared array or a tensor, with the element's index.
    pub(super) fn report(&mut self, earlier: Touch, earlier_kind: Kind, later: Touch, later_kind: Kind, index: &[i64]) {
        let kernel = self.kernel;
        let place = kernel.accesses[later.access].place;
        self.reported.insert(key(place));
        let name = kernel.place_name(place);
        let scope = if matches!(place, Place::Buffer(_)) { "shared" } else { "global" };
        let index: Vec<String> = index.iter().map(i64::to_string).collect();
        let element = match index.as_slice() {
            [one] => format!("{name}[{one}]"),
            all => format!("{name}[[{}]]", all.join(", ")),
        };
        let verb = |kind: Kind| match kind {
            Kind::Read => "reads",
            Kind::Write => "writes",
            Kind::Atomic => "updates",
        };
        let spans = (kernel.accesses[earlier.access].span, kernel.accesses[later.access].span);
        let message = format!("data race on {scope} `{name}`");
        if earlier.time == later.time {
            // One store, several threads.
            let free = !self.uniform.address(kernel, later.access).threads;
            let (extents, mut stride) = (kernel.thread_extents(), 1);
            let mut axes = Vec::new();
            for (axis, binding) in kernel.threads.iter().enumerate().take(3) {
                let extent = extents[axis].max(1);
                let differ = earlier.thread / stride % extent != later.thread / stride % extent;
                if differ && free & (1 << axis) != 0 {
                    axes.push(format!("{} == 0", kernel.vars[binding.var].name));
                }
                stride *= extent;
            }
            let at = format!("threads {} and {} both write {element}", earlier.thread, later.thread);
            let mut diagnostic = Diagnostic::new(Code::RACE, spans.1, message).at(at);
            diagnostic = if axes.is_empty() {
                diagnostic.help("give each thread its own element, or use an atomic")
            } else {
                let line = line_of(kernel, later.stmt);
                diagnostic
                    .note("writes of the same value by several threads are a race too")
                    .help(format!("let one thread write it: put `if {} {{ .. }}` around{line}", axes.join(" && ")))
            };
            self.found.push(diagnostic);
            return;
        }
        let line = |span| kernel.spans.get(span).map(|s| s.line).filter(|l| *l > 0);
        let on = |span| line(span).map(|l| format!(" (line {l})")).unwrap_or_default();
        let at = format!(
            "thread {} {} {element}{}, thread {} {} {element}{}, no barrier between",
            earlier.thread,
            verb(earlier_kind),
            on(spans.0),
            later.thread,
            verb(later_kind),
            on(spans.1),
        );
        let mut diagnostic = Diagnostic::new(Code::RACE, spans.1, message).at(at);
        if spans.0 != spans.1 {
            diagnostic = diagnostic.label(spans.0, format!("thread {} {} it here", earlier.thread, verb(earlier_kind)));
        }
        let sync = "sync_threads();";
        if let Some(atomic) = self.atomic_form(spans, later.access) {
            self.found.push(diagnostic.help(format!("make the update atomic: `{atomic}`")));
            return;
        }
        diagnostic = match self.gap(earlier) {
            Gap::Before(stmt) => match line(kernel.stmts[stmt].span) {
                Some(line) => diagnostic.help(format!("insert `{sync}` before line {line}")),
                None => diagnostic.help(format!("insert `{sync}` between them")),
            },
            Gap::LoopEnd(stmt) => {
                let line = line(kernel.stmts[stmt].span).map(|l| format!(" of line {l}")).unwrap_or_default();
                diagnostic
                    .note("the second access is in a later iteration of the loop")
                    .help(format!("insert `{sync}` at the end of the loop{line}"))
            }
            Gap::Within => diagnostic.help(match self.split_form(spans, sync) {
                Some(split) => format!("let every thread read before any writes: write `{split}`"),
                None => "read into a variable first, then let all threads meet at a barrier, then write".into(),
            }),
            Gap::Split => diagnostic.help(format!(
                "split what is around them: not every thread runs it, so `{sync}` must stand between two parts"
            )),
        };
        self.found.push(diagnostic);
    }

    /// The atomic form of the update whose own accesses race with those of another thread.
    fn atomic_form(&self, (first, second): (SpanId, SpanId), access: AccessId) -> Option<String> {
        let kernel = self.kernel;
        let DtypeRef::Is(dtype) = kernel.place_dtype(kernel.accesses[access].place) else { return None };
        let (first, second) = (*kernel.spans.get(first)?, *kernel.spans.get(second)?);
        advice::atomic_update(&kernel.source, dtype, first, second)
    }

    /// The statement that reads and writes, with a barrier between the two.
    fn split_form(&self, (first, second): (SpanId, SpanId), sync: &str) -> Option<String> {
        let kernel = self.kernel;
        advice::split(&kernel.source, *kernel.spans.get(first)?, *kernel.spans.get(second)?, sync)
    }

    /// Where a barrier between an earlier access and the current one may stand.
    fn gap(&self, earlier: Touch) -> Gap {
        let kernel = self.kernel;
        // From the outside in, as long as the earlier access is inside too.
        for (depth, &(stmt, begun)) in self.around.iter().enumerate() {
            if !contains(kernel, stmt, earlier.stmt) {
                return Gap::Before(stmt);
            }
            if earlier.time <= begun {
                return self.loop_around(depth); // of an earlier execution of the same statement
            }
            let kind = &kernel.stmts[stmt].kind;
            if !matches!(kind, StmtKind::If { .. } | StmtKind::For { .. }) {
                return Gap::Within;
            }
            let is_vectorized = matches!(kind, StmtKind::For { kind: LoopKind::Vectorized, .. });
            if is_vectorized || !self.block_uniform.contains(&stmt) {
                return Gap::Split;
            }
            if let StmtKind::For { body, .. } = kind {
                let position = |s: StmtId| body.iter().position(|b| contains(kernel, *b, s));
                let next = self.around.get(depth + 1).and_then(|n| position(n.0));
                if position(earlier.stmt) > next {
                    return Gap::LoopEnd(stmt);
                }
            }
        }
        Gap::Within
    }

    /// The innermost loop around that all threads run alike.
    fn loop_around(&self, depth: usize) -> Gap {
        let uniform_loop = |s: &&(StmtId, u32)| {
            matches!(self.kernel.stmts[s.0].kind, StmtKind::For { kind, .. } if kind != LoopKind::Vectorized)
                && self.block_uniform.contains(&s.0)
        };
        match self.around[..depth].iter().rev().find(uniform_loop) {
            Some((stmt, _)) => Gap::LoopEnd(*stmt),
            None => Gap::Split,
        }
    }
}

/// Where a barrier may stand.
enum Gap {
    Before(StmtId),
    LoopEnd(StmtId),
    /// The two accesses are one statement's.
    Within,
    Split,
}

fn line_of(kernel: &BoundKernel, stmt: StmtId) -> String {
    match kernel.spans.get(kernel.stmts[stmt].span).map(|s| s.line).filter(|l| *l > 0) {
        Some(line) => format!(" line {line}"),
        None => " the store".into(),
    }
}

/// Whether `inner` is `stmt` or inside it.
fn contains(kernel: &BoundKernel, stmt: StmtId, inner: StmtId) -> bool {
    stmt == inner || kernel.stmts[stmt].kind.bodies().into_iter().flatten().any(|s| contains(kernel, *s, inner))
}
