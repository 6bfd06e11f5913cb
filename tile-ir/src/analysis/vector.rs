//! Vectorised loops: every access is one aligned transaction, or stands still.
//!
//! The loop is a demand: what cannot be proven is an error that names the `require` or the change that makes it
//! provable. Pitches and base addresses of tensors are left to launch checks ([`LaunchNeed`]); divisibility of the
//! extents is not, so that rows of a dense tensor pass those checks. What depends on a specialised dim is demanded once
//! the dim has its value.

use super::walk::Walk;
use super::{Bound, LaunchNeed, VectorAccess};
use crate::analysis::assignment::Assignment;
use crate::constraint::{Answer, Definition, Monomial, Poly, Sym};
use crate::diag::{Code, Diagnostic};
use crate::ir::parts::roots;
use crate::ir::{
    AccessId, BoundKernel, Dtype, DtypeRef, ExprId, ExprKind, Place, Scope, StmtId, StmtKind, Type, VarId,
};

/// The vectorised loop the walk is in.
pub(super) struct VectorLoop {
    pub stmt: StmtId,
    /// The loop's counter, from 0.
    counter: Sym,
    /// Iterations.
    width: i64,
    met: Vec<Met>,
    /// Statements of the body begun so far.
    statement: usize,
}

/// An access met in the loop.
struct Met {
    access: AccessId,
    write: bool,
    indices: Vec<Poly>,
    /// Which statement of the body.
    statement: usize,
}

impl VectorLoop {
    /// A loop of `width` iterations.
    pub fn new(stmt: StmtId, counter: Sym, width: i64) -> Self {
        VectorLoop { stmt, counter, width, met: Vec::new(), statement: 0 }
    }

    /// A statement of the body begins.
    pub fn next(&mut self) {
        self.statement += 1;
    }
}

/// Whether a polynomial may change from one iteration to the next: it depends on the counter, or on a value that
/// came from memory since the loop began.
fn depends(walk: &Walk<'_>, poly: &Poly, counter: Sym) -> bool {
    let mut leaves = Vec::new();
    walk.leaves(poly, &mut leaves);
    leaves.iter().any(|s| *s >= counter)
}

/// Meets an access in the loop: its stride, size, alignment and mask. One report an access.
pub(super) fn access(walk: &mut Walk<'_>, access: AccessId, write: bool, indices: Vec<Poly>, extents: Vec<Poly>) {
    let Some(vector) = &mut walk.vector else { return };
    let (counter, width) = (vector.counter, vector.width);
    let loop_span = walk.kernel.stmts[vector.stmt].span;
    let statement = vector.statement;
    vector.met.push(Met { access, write, indices: indices.clone(), statement });
    let kernel = walk.kernel;
    let data = &kernel.accesses[access];
    let dtype = match kernel.place_dtype(data.place) {
        DtypeRef::Is(dtype) => dtype,
        DtypeRef::Param(_) => Dtype::F32,
    };
    let name = kernel.place_name(data.place);
    let element = i64::from(dtype.bytes());
    // Stride.
    let mut stride = 0;
    for (axis, index) in indices.iter().enumerate() {
        let last = axis + 1 == indices.len();
        let linear = index.linear_in(counter);
        let rest = index.substitute(counter, &Poly::default());
        let deep = rest.is_none_or(|rest| depends(walk, &rest, counter));
        let problem = match linear {
            Some(0) if !deep => continue,
            Some(1) if last && !deep => {
                stride = 1;
                continue;
            }
            Some(c) if last && c != 0 && !deep => {
                format!("neighbouring iterations are {c} elements apart; a transaction needs 0 or 1")
            }
            Some(c) if c != 0 && !deep => {
                "the loop's index moves along an outer axis, whose elements are not neighbours".into()
            }
            _ => "the index is not the loop's index plus something that stands still".into(),
        };
        let span = kernel.exprs[data.indices[axis]].span;
        let diagnostic =
            Diagnostic::new(Code::VECTOR_SHAPE, span, format!("access to `{name}` is not one vector transaction"))
                .at(problem)
                .label(loop_span, "vectorised here")
                .help("use `unroll` or a plain `for` for this loop");
        walk.analysis.diagnostics.push(diagnostic);
        return;
    }
    let scope = match data.place {
        Place::Tensor(_) => None,
        Place::Buffer(b) => Some(kernel.buffers[b].scope),
    };
    if stride == 0 {
        // A register may accumulate over the iterations.
        if write && width > 1 && scope != Some(Scope::Local) {
            let diagnostic = Diagnostic::new(
                Code::VECTOR_SHAPE,
                data.span,
                format!("every iteration of the vectorised loop writes the same element of `{name}`"),
            )
            .label(loop_span, format!("{width} iterations"))
            .help("store once, after the loop");
            walk.analysis.diagnostics.push(diagnostic);
        }
        walk.analysis.vectors.insert(access, VectorAccess { width: 1, bytes: element as u32, aligned: true });
        return;
    }
    let Some(bytes) = width.checked_mul(element) else { return };
    if scope == Some(Scope::Local) {
        // Registers: no transaction. But a transaction may fill or empty them, and is not guarded on their side.
        let waits = indices.last().is_some_and(|index| walk.waits(index));
        if !waits && walk.analysis.bounds.get(&access).and_then(|b| b.last()) == Some(&Bound::Unproven) {
            let span = kernel.exprs[data.indices[data.indices.len() - 1]].span;
            let message = format!("the index of `{name}` in a vectorised loop is not known to be in bounds");
            let diagnostic = Diagnostic::new(Code::VECTOR_SHAPE, span, message)
                .label(loop_span, "vectorised here")
                .help("use `unroll` or a plain `for` for this loop, or an index that is provably in bounds");
            walk.analysis.diagnostics.push(diagnostic);
            return;
        }
        let starts: Option<Vec<Poly>> = indices.iter().map(|p| p.substitute(counter, &Poly::default())).collect();
        let aligned = starts.is_some_and(|starts| {
            let place = Aligned { access, starts: &starts, extents: &extents, width, bytes, element, loop_span };
            place.offset().is_some_and(|(offset, _)| walk.cx.divisible(&offset, width) == Answer::Proven)
        });
        let (width, bytes) = (u32::try_from(width).unwrap_or(u32::MAX), u32::try_from(bytes).unwrap_or(u32::MAX));
        walk.analysis.vectors.insert(access, VectorAccess { width, bytes, aligned });
        return;
    }
    if width != 1 && ![2, 4, 8, 16].contains(&bytes) {
        let fits: Vec<String> =
            [2, 4, 8, 16].iter().filter(|b| **b % element == 0).map(|b| (b / element).to_string()).collect();
        let diagnostic = Diagnostic::new(
            Code::VECTOR_SHAPE,
            data.span,
            format!("vector access to `{name}` is {bytes} bytes: {width} x {dtype}"),
        )
        .at("one transaction is 2, 4, 8 or 16 bytes")
        .label(loop_span, format!("{width} iterations"))
        .help(format!("vectorise by {} elements of {dtype}", fits.join(", ")));
        walk.analysis.diagnostics.push(diagnostic);
        return;
    }
    walk.analysis.vectors.insert(access, VectorAccess { width: width as u32, bytes: bytes as u32, aligned: true });
    if width == 1 {
        return;
    }
    let zero = Poly::default();
    let starts: Option<Vec<Poly>> = indices.iter().map(|p| p.substitute(counter, &zero)).collect();
    let Some(starts) = starts else { return };
    let place = Aligned { access, starts: &starts, extents: &extents, width, bytes, element, loop_span };
    let reported = match data.place {
        Place::Tensor(_) => place.global(walk),
        Place::Buffer(_) => place.shared(walk),
    };
    if !reported {
        place.mask(walk);
    }
}

struct Aligned<'a> {
    access: AccessId,
    /// Indices of the first element.
    starts: &'a [Poly],
    extents: &'a [Poly],
    width: i64,
    bytes: i64,
    element: i64,
    loop_span: crate::ir::SpanId,
}

impl Aligned<'_> {
    /// A global access: the start is a multiple of the width, and so is every row. True if reported.
    fn global(&self, walk: &mut Walk<'_>) -> bool {
        let kernel = walk.kernel;
        let data = &kernel.accesses[self.access];
        let name = kernel.place_name(data.place);
        let message = format!("{}-byte vector access to `{name}` is not aligned", self.bytes);
        let rank = self.starts.len();
        let mut multiples = vec![1u32; rank];
        // The pitch of an axis is the product of the extents inside it.
        let mut pitch = Poly::constant(1);
        for axis in (0..rank.saturating_sub(1)).rev() {
            pitch = match pitch.times(&self.extents[axis + 1]) {
                Some(p) => p,
                None => return false,
            };
            if self.starts[axis].as_constant() == Some(0) {
                continue;
            }
            multiples[axis] = self.width as u32;
            if walk.cx.divisible(&pitch, self.width) == Answer::Proven || walk.waits(&pitch) {
                continue;
            }
            let pitch_text = walk.show(&pitch).unwrap_or_else(|| "unknown".into());
            let what = if rank == 2 { "row" } else { "slice" };
            let diagnostic = Diagnostic::new(Code::VECTOR_ALIGNMENT, data.span, message)
                .label(self.loop_span, format!("{} elements a transaction", self.width));
            let diagnostic = match pitch.as_constant() {
                Some(constant) => {
                    let byte = constant * self.element;
                    let best = [8, 4, 2].into_iter().find(|w| *w < self.width && constant % w == 0).unwrap_or(1);
                    diagnostic
                        .at(format!(
                            "{what} stride is {constant} elements; {what} 1 starts at byte {byte}; {byte} % {} = {}",
                            self.bytes,
                            byte % self.bytes
                        ))
                        .help(format!("vectorise by {best}"))
                }
                None => {
                    let product = if pitch_text.contains(' ') { format!("({pitch_text})") } else { pitch_text.clone() };
                    let require = self.needed(walk, &pitch, &product);
                    diagnostic
                        .at(format!(
                            "{what} stride is {pitch_text} elements; {what} 1 starts at byte {}*{product}, a multiple \
                             of {} only if {product} % {} == 0",
                            self.element, self.bytes, self.width
                        ))
                        .help(format!("add `require({require})` to #[tile_kernel(..)], or vectorise by 1"))
                }
            };
            walk.analysis.diagnostics.push(diagnostic);
            return true;
        }
        let start = &self.starts[rank - 1];
        if walk.cx.divisible(start, self.width) != Answer::Proven && !walk.waits(start) {
            let (evidence, help) = self.misaligned_start(walk, start);
            let span = kernel.exprs[data.indices[rank - 1]].span;
            let diagnostic = Diagnostic::new(Code::VECTOR_ALIGNMENT, span, message)
                .at(evidence)
                .label(self.loop_span, format!("{} elements a transaction", self.width))
                .help(help);
            walk.analysis.diagnostics.push(diagnostic);
            return true;
        }
        if let Place::Tensor(tensor) = data.place {
            let need = LaunchNeed {
                tensor,
                align_bytes: self.bytes as u32,
                stride_multiple: multiples,
                request: None,
                span: data.span,
            };
            merge_need(&mut walk.analysis.launch_needs, need);
        }
        false
    }

    /// The `require` that makes `poly` a multiple of the width.
    fn needed(&self, walk: &Walk<'_>, poly: &Poly, text: &str) -> String {
        // One factor that is a multiple is enough: of a product of dims, the innermost.
        if let [(m, _)] = poly.terms()
            && let Some(sym) = m.factors().next()
            && let Some(name) = walk.show(&Poly::sym(sym)).filter(|n| !n.contains(' '))
        {
            return format!("{name} % {} == 0", self.width);
        }
        format!("{text} % {} == 0", self.width)
    }

    /// Why the first element is not known to be a multiple of the width, and what to do.
    fn misaligned_start(&self, walk: &Walk<'_>, start: &Poly) -> (String, String) {
        let rest: Vec<_> = start.terms().iter().filter(|t| t.1 % self.width != 0).collect();
        if let [(m, c)] = rest.as_slice()
            && let Some(sym) = m.latest().filter(|_| m.rest() == Monomial::ONE)
        {
            let symbol = walk.cx.symbol(sym);
            let named = !symbol.name.is_empty() && matches!(symbol.definition, Definition::Free(_));
            if walk.hosts.contains_key(&sym) && named && !symbol.name.contains(' ') {
                let modulus = self.width / crate::constraint::gcd(c.unsigned_abs(), self.width as u64) as i64;
                return (
                    format!(
                        "it starts at a multiple of {} elements only if {} % {modulus} == 0",
                        self.width, symbol.name
                    ),
                    format!("add `require({} % {modulus} == 0)` to #[tile_kernel(..)], or vectorise by 1", symbol.name),
                );
            }
            if named && symbol.hi.is_none_or(|hi| hi >= 1) {
                let byte = c * self.element;
                return (
                    format!(
                        "at {} = 1 it starts at byte {byte}; {byte} % {} = {}",
                        symbol.name,
                        self.bytes,
                        byte.rem_euclid(self.bytes)
                    ),
                    format!("let each step of `{}` cover a multiple of {} elements", symbol.name, self.width),
                );
            }
        }
        if let [(Monomial::ONE, c)] = rest.as_slice() {
            let byte = c * self.element;
            return (
                format!("it starts {byte} bytes past a multiple of {}", self.bytes),
                format!("start at a multiple of {} elements, or vectorise by 1", self.width),
            );
        }
        (
            format!("its first element is not known to be a multiple of {}", self.width),
            format!("start at a multiple of {} elements, or vectorise by 1", self.width),
        )
    }

    /// A shared access: the linear offset is a multiple of the width. True if reported.
    fn shared(&self, walk: &mut Walk<'_>) -> bool {
        let kernel = walk.kernel;
        let data = &kernel.accesses[self.access];
        let name = kernel.place_name(data.place);
        let Some((offset, pitch)) = self.offset() else { return false };
        if walk.cx.divisible(&offset, self.width) == Answer::Proven || walk.waits(&offset) {
            return false;
        }
        let mut leaves = Vec::new();
        walk.leaves(&offset, &mut leaves);
        // Uniform symbols at their first value: the threads of the first access.
        let threads: Vec<_> = kernel.threads.iter().map(|a| a.var).collect();
        let all: Vec<_> = walk.ranged.iter().filter(|r| threads.contains(&r.var)).map(|r| r.sym).collect();
        let mut points = walk.points(&all, 1024).unwrap_or_default();
        for point in &mut points {
            for range in walk.ranged.iter().filter(|r| !threads.contains(&r.var)) {
                if let Some(lo) = range.lo.as_constant() {
                    point.set(range.sym, lo);
                }
            }
            if let Some(vector) = &walk.vector {
                point.set(vector.counter, 0);
            }
        }
        let bytes: Vec<Option<i64>> =
            points.iter().map(|p| p.eval(&walk.cx, &offset).map(|o| o * self.element)).collect();
        let bad = |b: &Option<i64>| b.is_some_and(|b| b.rem_euclid(self.bytes) != 0);
        let count = bytes.iter().filter(|b| bad(b)).count();
        let whole = bytes.len();
        let (message, at) = match bytes.iter().enumerate().find(|(_, b)| bad(b)) {
            Some((thread, Some(byte))) => (
                format!("{}-byte vector access is misaligned for {count} of {whole} threads", self.bytes),
                format!(
                    "thread {thread} starts at byte {byte} of `{name}`; {byte} % {} = {}",
                    self.bytes,
                    byte.rem_euclid(self.bytes)
                ),
            ),
            _ => (
                format!("{}-byte vector access to shared `{name}` is not aligned", self.bytes),
                format!("its first element is not known to be a multiple of {}", self.width),
            ),
        };
        let shape: Vec<String> = self.extents.iter().filter_map(|e| e.as_constant()).map(|e| e.to_string()).collect();
        let mut diagnostic = Diagnostic::new(Code::SHARED_ALIGNMENT, data.span, message)
            .at(at)
            .label(self.loop_span, format!("{} elements a transaction", self.width));
        let best = [8, 4, 2].into_iter().find(|w| *w < self.width && pitch % w == 0).unwrap_or(1);
        if self.starts.len() > 1 && pitch % self.width != 0 {
            if let Place::Buffer(b) = data.place {
                let dtype = kernel.buffer_dtype(b);
                let pitch_bytes = pitch * self.element;
                diagnostic = diagnostic.label(
                    kernel.buffers[b].span,
                    format!("`{name}` is {dtype}[{}], row pitch {pitch_bytes} bytes", shape.join(", ")),
                );
            }
            let padded = (pitch / self.width + 1) * self.width;
            diagnostic = diagnostic.help(format!("pad to {padded} columns, or vectorise by {best}"));
        } else {
            diagnostic = diagnostic.help(format!("start at a multiple of {} elements, or vectorise by 1", self.width));
        }
        walk.analysis.diagnostics.push(diagnostic);
        true
    }

    /// The linear offset of the first element in a dense array, and the row pitch.
    fn offset(&self) -> Option<(Poly, i64)> {
        let (mut offset, mut pitch) = (Poly::default(), 1i64);
        let mut row = 1;
        for (axis, start) in self.starts.iter().enumerate().rev() {
            offset = offset.combine(1, start, pitch)?;
            pitch = pitch.checked_mul(self.extents[axis].as_constant()?)?;
            if axis + 1 == self.starts.len() {
                row = pitch;
            }
        }
        Some((offset, row))
    }

    /// An access that is masked or guarded never straddles the edge: all of its elements exist, or none.
    fn mask(&self, walk: &mut Walk<'_>) {
        let rank = self.starts.len();
        let bounds = walk.analysis.bounds.get(&self.access);
        if bounds.and_then(|b| b.last()) == Some(&Bound::Proven) {
            return;
        }
        let (start, extent) = (&self.starts[rank - 1], &self.extents[rank - 1]);
        let whole = walk.cx.divisible(extent, self.width) == Answer::Proven;
        if whole && walk.cx.divisible(start, self.width) == Answer::Proven || walk.waits(start) || walk.waits(extent) {
            return;
        }
        let kernel = walk.kernel;
        let data = &kernel.accesses[self.access];
        let name = kernel.place_name(data.place);
        let message = format!("{}-byte vector access to `{name}` may straddle its edge", self.bytes);
        let diagnostic = Diagnostic::new(Code::VECTOR_STRADDLE, data.span, message)
            .label(self.loop_span, format!("{} elements a transaction", self.width));
        let text = walk.show(extent).unwrap_or_else(|| "the extent".into());
        let diagnostic = if whole {
            let (evidence, help) = self.misaligned_start(walk, start);
            diagnostic.at(evidence).help(help)
        } else if extent.as_constant().is_some() {
            let at = format!("`{name}` has {text} elements on this axis, not a multiple of {}", self.width);
            diagnostic.at(at).help("vectorise by a divisor of the extent, or by 1")
        } else {
            let require = self.needed(walk, extent, &text);
            diagnostic
                .at(format!("it is all or nothing: the {} elements exist together only if {require}", self.width))
                .help(format!("add `require({require})` to #[tile_kernel(..)], or vectorise by 1"))
        };
        walk.analysis.diagnostics.push(diagnostic);
    }
}

/// Adds a launch need to its tensor's of the same kind.
pub(super) fn merge_need(needs: &mut Vec<LaunchNeed>, need: LaunchNeed) {
    match needs.iter_mut().find(|n| n.tensor == need.tensor && n.request == need.request) {
        Some(known) => {
            known.align_bytes = known.align_bytes.max(need.align_bytes);
            // Powers of two: the greater is a multiple of the lesser.
            known.stride_multiple.iter_mut().zip(need.stride_multiple).for_each(|(a, b)| *a = (*a).max(b));
        }
        None => needs.push(need),
    }
}

/// The loop's body as a whole: straight-line, and free of dependences between iterations through memory.
pub(super) fn finish(walk: &mut Walk<'_>) {
    let Some(vector) = walk.vector.take() else { return };
    straight_line(walk, vector.stmt);
    let kernel = walk.kernel;
    if vector.width < 1 {
        let span = kernel.stmts[vector.stmt].span;
        let message = "a vectorised loop needs at least one iteration";
        walk.analysis.diagnostics.push(Diagnostic::new(Code::VECTOR_SHAPE, span, message));
    }
    for (i, a) in vector.met.iter().enumerate().filter(|(_, m)| m.write) {
        for (j, b) in vector.met.iter().enumerate() {
            let place = kernel.accesses[a.access].place;
            if i == j || (b.write && j < i) || place != kernel.accesses[b.access].place {
                continue;
            }
            // The same element in the same iteration; one that stands still, only within a statement.
            let moves = a.indices.last().is_some_and(|p| p.mentions(vector.counter));
            let same = a.indices == b.indices && (moves || a.statement == b.statement);
            if same || disjoint(walk, &vector, a, b) {
                continue;
            }
            let name = kernel.place_name(place);
            let what = if b.write { "writes" } else { "reads" };
            let diagnostic = Diagnostic::new(
                Code::VECTOR_SHAPE,
                kernel.accesses[a.access].span,
                format!("iterations of the vectorised loop may depend on each other through `{name}`"),
            )
            .at("writes here")
            .label(kernel.accesses[b.access].span, format!("another iteration {what} what may be the same element"))
            .help("use a plain `for` loop, or two arrays");
            walk.analysis.diagnostics.push(diagnostic);
        }
    }
}

/// Whether no element of one access is an element of the other, over all iterations.
fn disjoint(walk: &Walk<'_>, vector: &VectorLoop, a: &Met, b: &Met) -> bool {
    a.indices.iter().zip(&b.indices).any(|(x, y)| {
        let span = |p: &Poly| {
            let first = p.substitute(vector.counter, &Poly::default())?;
            let last = p.substitute(vector.counter, &Poly::constant(vector.width - 1))?;
            Some((first, last))
        };
        let (Some(x), Some(y)) = (span(x), span(y)) else { return false };
        walk.cx.less(&x.1, &y.0) == Answer::Proven || walk.cx.less(&y.1, &x.0) == Answer::Proven
    })
}

fn straight_line(walk: &mut Walk<'_>, stmt: StmtId) {
    let kernel = walk.kernel;
    let StmtKind::For { body, .. } = &kernel.stmts[stmt].kind else { return };
    // Where each variable is assigned: what one iteration leaves for the next, only its own statement may see.
    let assigned: Vec<(usize, VarId)> = body
        .iter()
        .enumerate()
        .filter_map(|(at, s)| {
            let StmtKind::Assign { var, .. } = kernel.stmts[*s].kind else { return None };
            Some((at, var))
        })
        .collect();
    for (at, &inner) in body.iter().enumerate() {
        let kind = &kernel.stmts[inner].kind;
        if let StmtKind::Store { .. } | StmtKind::Assign { .. } | StmtKind::Let { value: Some(_), .. } = kind {
            shared_variable(walk, stmt, at, inner, &assigned);
            continue;
        }
        let without_value = matches!(kind, StmtKind::Let { .. });
        let what = if without_value { "a variable without a value".to_owned() } else { kind.a_name() };
        let diagnostic = Diagnostic::new(
            Code::PLACEMENT,
            kernel.stmts[inner].span,
            format!("{what} cannot stand in a vectorised loop"),
        )
        .at("the body must be straight-line: `let`, assignments, loads and stores")
        .label(kernel.stmts[stmt].span, "vectorised here")
        .help("use `unroll` or a plain `for` for this loop");
        walk.analysis.diagnostics.push(diagnostic);
    }
}

/// A statement of a vectorised body is executed for every iteration before the next one begins: a variable that one
/// of them assigns is its own, and indices are what they were at the first.
fn shared_variable(walk: &mut Walk<'_>, stmt: StmtId, at: usize, inner: StmtId, assigned: &[(usize, VarId)]) {
    let kernel = walk.kernel;
    let mut read = Vec::new();
    let mut loads = false;
    let mut visit = |e: ExprId| visit_expr(kernel, e, &mut read, &mut loads);
    roots(kernel, inner).into_iter().for_each(&mut visit);
    let kind = &kernel.stmts[inner].kind;
    if let StmtKind::Let { var, value: Some(value) } = kind
        && kernel.vars[*var].ty == Type::Index
        && loads
    {
        let message = "an index read from memory cannot be used in a vectorised loop";
        let diagnostic = Diagnostic::new(Code::VECTOR_SHAPE, kernel.exprs[*value].span, message)
            .label(kernel.stmts[stmt].span, "vectorised here")
            .help("use `unroll` or a plain `for` for this loop");
        walk.analysis.diagnostics.push(diagnostic);
    }
    let own = kind.binds().into_iter().chain(kind.sets()).next();
    let clash = assigned.iter().find(|(other, var)| *other != at && (read.contains(var) || own == Some(*var)));
    if let Some((other, var)) = clash {
        let name = &kernel.vars[*var].name;
        let message = format!("`{name}` is assigned in one statement of the vectorised loop and used in another");
        let diagnostic = Diagnostic::new(Code::VECTOR_SHAPE, kernel.stmts[inner].span, message)
            .at("each statement runs for all iterations at once")
            .label(kernel.stmts[body_stmt(kernel, stmt, *other)].span, format!("`{name}` is assigned here"))
            .help("use `unroll` or a plain `for` for this loop, or a `let` of its own for each value");
        walk.analysis.diagnostics.push(diagnostic);
    }
}

fn body_stmt(kernel: &BoundKernel, stmt: StmtId, at: usize) -> StmtId {
    kernel.stmts[stmt].kind.bodies().first().and_then(|body| body.get(at)).copied().unwrap_or(stmt)
}

fn visit_expr(kernel: &BoundKernel, expr: ExprId, read: &mut Vec<VarId>, loads: &mut bool) {
    match &kernel.exprs[expr].kind {
        ExprKind::Var(var) => read.push(*var),
        ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => visit_expr(kernel, *a, read, loads),
        ExprKind::Binary(_, a, b) => [a, b].into_iter().for_each(|e| visit_expr(kernel, *e, read, loads)),
        ExprKind::Math(_, args) => args.iter().for_each(|e| visit_expr(kernel, *e, read, loads)),
        ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => {
            [a, b, c].into_iter().for_each(|e| visit_expr(kernel, *e, read, loads));
        }
        ExprKind::Load(access) => {
            *loads = true;
            kernel.accesses[*access].indices.iter().for_each(|e| visit_expr(kernel, *e, read, loads));
        }
        _ => {}
    }
}
