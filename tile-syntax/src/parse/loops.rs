//! Loops: `a..b`, `serial`, `unroll`, `vectorized`, `pipelined`, `parallel`, `persistent`, with `.step_by(n)`, `.unroll(n)`
//! and their like.

use super::access::strip;
use super::call::function_name;
use super::leave::is_left;
use super::range::Range;
use super::types::Ty;
use super::{Binding, Facts, Parser};
use syn::{Expr, ExprForLoop, ExprRange, Pat, RangeLimits};
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{ExprId, ExprKind, LoopKind, Schedule, StmtKind, Type, VarId, VarKind};

const FORMS: &str = "loops run over `a..b`, `serial(a..b)`, `unroll(a..b)`, `vectorized(a..b)`, \
                     `pipelined(a..b, stages)`, `parallel([m, n])` or `persistent([x, y])`";

/// A loop's kind as written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Serial,
    Unroll,
    Vectorized,
    Pipelined,
}

/// A loop's head, read.
struct Head {
    start: ExprId,
    end: ExprId,
    step: ExprId,
    kind: LoopKind,
}

impl Parser {
    pub(super) fn for_loop(&mut self, each: &ExprForLoop) {
        self.label(each.label.as_ref());
        if let Expr::Call(call) = strip(&each.expr)
            && let Some(function) = function_name(&call.func)
            && function.name == "parallel"
        {
            return self.parallel(each, call);
        }
        if let Some((call, methods)) = persistent_call(&each.expr) {
            return self.persistent(each, call, &methods);
        }
        let mut head = self.head(&each.expr);
        let is_left = is_left(&each.body);
        if let Some(head) = head.as_mut().filter(|_| is_left) {
            head.end = self.kept_end(head.end);
        }
        // Both bounds have one type, which is checked to be `usize` when everything is inferred.
        let ty = head.as_ref().map_or(Ty::Is(Type::Index), |head| self.ty(head.end));
        let var = match &*each.pat {
            Pat::Slice(_) => {
                let at = self.mark(Range::from(each.for_token.span));
                self.rustc(Diagnostic::new(Code::TYPE, at, "this loop has one index"));
                None
            }
            pattern => self.simple_name(pattern).map(|name| {
                if name.mutable {
                    let diagnostic = Diagnostic::new(Code::SYNTAX, name.span, "a loop's index is not a variable");
                    self.error(diagnostic.help("copy it in the body: `let mut v = i;`"));
                }
                let text = name.name.clone().unwrap_or_else(|| "_".to_owned());
                let var = self.variable(&text, ty, VarKind::Loop, Facts::FIXED, name.span);
                self.indices.push(var);
                (name.name, var)
            }),
        };
        let body = self.nested("a loop", |p| {
            match &var {
                // What is wrong with the range was reported; what the variable then is, is unknown.
                _ if head.is_none() => p.poison_pattern(&each.pat),
                Some((Some(name), var)) => p.bind(name.clone(), Binding::Var(*var)),
                Some((None, _)) => {}
                None => p.poison_pattern(&each.pat),
            }
            let leave = match (&head, &var) {
                (Some(Head { end, kind: LoopKind::Serial { .. }, .. }), Some((_, var))) => {
                    Some(Self::left_at(*var, *end))
                }
                _ => None,
            };
            match leave.filter(|_| is_left) {
                Some(leave) => p.leaving(Some(leave), |p| p.leaving_block(&each.body)),
                None => p.leaving(None, |p| p.block_statements(&each.body)),
            }
        });
        if let (Some(Head { start, end, step, kind }), Some((_, var))) = (head, var) {
            let span = self.mark(each.for_token.span);
            self.emit(StmtKind::For { var, start, end, step, kind, body }, span);
        }
    }

    fn head(&mut self, iterator: &Expr) -> Option<Head> {
        // Methods, innermost last.
        let mut methods = vec![];
        let mut base = unchained(iterator, &mut methods);
        let mut form = Form::Serial;
        let mut stages = None;
        let mut schedule = Schedule::Auto;
        if let Expr::Call(call) = base {
            let (called, inner) = self.loop_call(call)?;
            (form, base) = (called, unchained(inner, &mut methods));
            stages = call.args.get(1);
        }
        let Expr::Range(range) = base else {
            self.syntax(base, "a kernel cannot loop over this", FORMS);
            return None;
        };
        let bounds = self.bounds(range);
        let (mut step, mut unroll, mut sound) = (None, None, true);
        for call in methods.into_iter().rev() {
            let name = call.method.to_string();
            if name == "schedule" && form == Form::Pipelined && call.args.len() == 1 {
                let words = [
                    ("Auto", Schedule::Auto),
                    ("Cooperative", Schedule::Cooperative),
                    ("PingPong", Schedule::PingPong),
                    ("Rolled", Schedule::Rolled),
                ];
                match self.word(&call.args[0], &words, "the schedule of a pipelined loop") {
                    Some(found) => schedule = found,
                    None => sound = false,
                }
                continue;
            }
            let argument = match (name.as_str(), call.args.len()) {
                ("step_by" | "unroll", 1) => self.in_place("a loop's head", |p| p.expr(&call.args[0])),
                ("step_by" | "unroll", found) => {
                    let at = self.mark(call.paren_token.span);
                    self.rustc(Diagnostic::new(Code::CALL, at, format!("`.{name}` takes 1 argument, {found} given")));
                    None
                }
                ("schedule", found) if form == Form::Pipelined => {
                    let at = self.mark(call.paren_token.span);
                    self.rustc(Diagnostic::new(Code::CALL, at, format!("`.schedule` takes 1 argument, {found} given")));
                    None
                }
                ("schedule" | "per_sm" | "contiguous" | "counter", _) => {
                    let of = if name == "schedule" { "pipelined" } else { "persistent" };
                    let message = format!("`.{name}(..)` belongs to a `{of}` loop");
                    self.syntax(call.method.span(), message, "remove it");
                    None
                }
                _ => {
                    let message = format!("`.{name}(..)` of a loop's range is not in the language");
                    self.syntax(call.method.span(), message, "a range has `.step_by(n)` and `.unroll(n)`");
                    None
                }
            };
            let argument = argument.and_then(|argument| self.demand(argument, Type::Index));
            sound &= argument.is_some();
            if name == "unroll" {
                if form != Form::Serial {
                    let message = "only a serial loop is unrolled in part";
                    self.syntax(
                        call.method.span(),
                        message,
                        "write `serial(a..b).unroll(n)`, or `unroll(a..b)` for all of it",
                    );
                    sound = false;
                }
                let help = "use literals, const parameters and `T::BITS`";
                unroll = argument.and_then(|argument| self.constant(argument, "the unrolling factor", help));
                sound &= unroll.is_some();
            } else {
                if form == Form::Vectorized {
                    let message = "a vectorised loop has step 1: it is one access";
                    self.syntax(call.method.span(), message, "scale the index in the body");
                    sound = false;
                }
                if let Some(argument) = argument
                    && matches!(self.kernel.exprs[argument].kind, ExprKind::Int(0))
                {
                    let span = self.kernel.exprs[argument].span;
                    let diagnostic = Diagnostic::new(Code::CALL, span, "a loop's step is at least 1");
                    self.error(diagnostic.help("write `1`, or leave `.step_by(..)` out"));
                }
                step = argument;
            }
        }
        let (start, end) = bounds?;
        let stages = match stages {
            Some(stages) => {
                let stages = self.in_place("a loop's head", |p| p.expr(stages));
                let stages = stages.and_then(|stages| self.demand(stages, Type::Index))?;
                Some(self.constant(stages, "the number of stages", "use literals and const parameters")?)
            }
            None => None,
        };
        if matches!(form, Form::Unroll | Form::Vectorized) && !self.constant_extent(start, end) {
            let word = if form == Form::Unroll { "unrolled" } else { "vectorised" };
            let (what, help) = (
                format!("the extent of {word} loop"),
                "use literals, const parameters and `T::BITS` for both bounds, or a plain `for i in a..b`",
            );
            // The bound to blame is the one that is not constant.
            let blame = if self.facts(end).constant { start } else { end };
            self.constant(blame, &what, help)?;
        }
        if !sound {
            return None;
        }
        let step = match step {
            Some(step) => step,
            None => self.int(1, self.kernel.exprs[end].span),
        };
        let kind = match form {
            Form::Serial => LoopKind::Serial { unroll },
            Form::Unroll => LoopKind::Unroll,
            Form::Vectorized => LoopKind::Vectorized,
            Form::Pipelined => LoopKind::Pipelined { stages: stages?, schedule },
        };
        Some(Head { start, end, step, kind })
    }

    /// `serial(a..b)` and its like: the form and what it is of.
    fn loop_call<'a>(&mut self, call: &'a syn::ExprCall) -> Option<(Form, &'a Expr)> {
        let name = function_name(&call.func).map(|f| f.name).unwrap_or_default();
        let form = match name.as_str() {
            "serial" => Form::Serial,
            "unroll" => Form::Unroll,
            "vectorized" => Form::Vectorized,
            "pipelined" => Form::Pipelined,
            "parallel" => {
                self.syntax(&*call.func, "`parallel(..)` takes no methods", "for [i, j] in parallel([m, n])");
                return None;
            }
            _ => {
                self.syntax(&*call.func, "a kernel cannot loop over this", FORMS);
                return None;
            }
        };
        let arguments = if form == Form::Pipelined { 2 } else { 1 };
        match call.args.first().map(strip) {
            Some(range @ (Expr::Range(_) | Expr::MethodCall(_))) if call.args.len() == arguments => Some((form, range)),
            _ if form == Form::Pipelined => {
                let message = "`pipelined` takes a range and the number of stages";
                self.syntax(call.paren_token.span, message, "pipelined(0..n, 2)");
                None
            }
            _ => {
                self.syntax(call.paren_token.span, format!("`{name}` takes a range"), &format!("{name}(0..n)"));
                None
            }
        }
    }

    fn bounds(&mut self, range: &ExprRange) -> Option<(ExprId, ExprId)> {
        let (Some(start), Some(end)) = (&range.start, &range.end) else {
            let at = &Expr::Range(range.clone());
            self.syntax(at, "a loop's range has both bounds", "write `0..n`");
            return None;
        };
        if let RangeLimits::Closed(limits) = &range.limits {
            let range = Range { first: limits.spans[0], last: limits.spans[2] };
            self.syntax(range, "a loop's range excludes its end", "write `a..b + 1`");
        }
        let values = self.operands(&[start, end])?;
        let (start, end) = (values[0], values[1]);
        self.same_type(self.ty(end), self.ty(start), self.kernel.exprs[end].span)?;
        Some((start, end))
    }

    /// Whether `end - start` is constant: both are, or the end is the start and a constant.
    fn constant_extent(&self, start: ExprId, end: ExprId) -> bool {
        (self.facts(start).constant && self.facts(end).constant) || self.constant_distance(start, end).is_some()
    }

    /// The constant `c` of `end = start + c`.
    pub(super) fn constant_distance(&self, start: ExprId, end: ExprId) -> Option<ExprId> {
        use tile_ir::ir::BinaryOp;
        match self.kernel.exprs[end].kind {
            ExprKind::Binary(BinaryOp::Add, a, b) if self.facts(b).constant && self.same_expr(start, a) => Some(b),
            ExprKind::Binary(BinaryOp::Add, a, b) if self.facts(a).constant && self.same_expr(start, b) => Some(a),
            _ => None,
        }
    }

    /// Whether two expressions are written alike and read nothing that varies.
    pub(super) fn same_expr(&self, a: ExprId, b: ExprId) -> bool {
        if self.facts(a).loads || self.facts(a).varies {
            return false;
        }
        match (&self.kernel.exprs[a].kind, &self.kernel.exprs[b].kind) {
            (ExprKind::Binary(x, a, b), ExprKind::Binary(y, c, d)) => {
                x == y && self.same_expr(*a, *c) && self.same_expr(*b, *d)
            }
            (ExprKind::Cast(x, a), ExprKind::Cast(y, b)) => x == y && self.same_expr(*a, *b),
            (ExprKind::Unary(x, a), ExprKind::Unary(y, b)) => x == y && self.same_expr(*a, *b),
            (
                x @ (ExprKind::Int(_)
                | ExprKind::Dim(_)
                | ExprKind::Const(_)
                | ExprKind::Bits(_)
                | ExprKind::Scalar(_)
                | ExprKind::Var(_)),
                y,
            ) => x == y,
            _ => false,
        }
    }

    /// `for [i, j] in parallel([m, n])`.
    fn parallel(&mut self, each: &ExprForLoop, call: &syn::ExprCall) {
        let extents = match call.args.first().map(strip) {
            Some(Expr::Array(array)) if call.args.len() == 1 => {
                let elements: Vec<&Expr> = array.elems.iter().collect();
                if elements.is_empty() || elements.len() > tile_ir::ir::MOST_ARRAY_AXES {
                    let at = self.mark(array.bracket_token.span);
                    let message = format!("`parallel` has {} axes; it takes 1 to 3", elements.len());
                    self.error(Diagnostic::new(Code::SHAPE, at, message).help("for [i, j] in parallel([m, n])"));
                    None
                } else {
                    self.indices(&elements)
                }
            }
            _ => {
                let help = "for [i, j] in parallel([m, n])";
                self.syntax(call.paren_token.span, "`parallel` takes its extents in brackets", help);
                None
            }
        };
        let (vars, body) = self.tuple_loop(each, extents.as_ref().map(Vec::len), "a `parallel` loop");
        if let (Some(extents), Some(vars)) = (extents, vars) {
            let span = self.mark(each.for_token.span);
            self.emit(StmtKind::Parallel { vars, extents, body }, span);
        }
    }
}

impl Parser {
    /// `for [x, y] in persistent([tx, ty])`, with `.per_sm(n)`, and `.contiguous()` or `.counter(&mut next[0])`.
    fn persistent(&mut self, each: &ExprForLoop, call: &syn::ExprCall, methods: &[&syn::ExprMethodCall]) {
        let at = self.mark(Range { first: Range::from(&*call.func).first, last: call.paren_token.span.close() });
        let mut placed = true;
        if let Some(&place) = self.nesting.last() {
            let diagnostic = Diagnostic::new(Code::PLACEMENT, at, format!("`persistent(..)` stands inside {place}"));
            self.error(diagnostic.help("it stands for the grid: make it the last statement of the kernel"));
            placed = false;
        } else if let Some(first) = self.persistent_at.or(self.blocks_at) {
            let what = if self.persistent_at.is_some() {
                "a second `persistent(..)`"
            } else {
                "`persistent(..)` beside `blocks(..)`"
            };
            let diagnostic = Diagnostic::new(Code::PLACEMENT, at, format!("{what}: each gives the grid"));
            self.error(diagnostic.label(first, "the grid is given here").help("keep one of the two"));
            placed = false;
        }
        self.persistent_at = Some(at);
        let extents = match call.args.first().map(strip) {
            Some(Expr::Array(array)) if call.args.len() == 1 && (1..=3).contains(&array.elems.len()) => {
                let elements: Vec<&Expr> = array.elems.iter().collect();
                self.in_place("the extents of `persistent`", |p| p.indices(&elements))
            }
            _ => {
                let help = "for [bx, by] in persistent([ceil_div(N, 128), ceil_div(M, 128)])";
                self.syntax(call.paren_token.span, "`persistent` takes 1 to 3 extents in brackets", help);
                None
            }
        };
        let extents = extents.and_then(|extents| self.grid_extents(extents, "persistent"));
        let (mut per_sm, mut contiguous, mut counter, mut sound) = (None, false, None, placed);
        for method in methods.iter().rev() {
            let name = method.method.to_string();
            match (name.as_str(), method.args.len()) {
                ("contiguous", 0) => contiguous = true,
                ("per_sm", 1) => {
                    let value = self.in_place("a loop's head", |p| p.expr(&method.args[0]));
                    let value = value.and_then(|value| self.demand(value, Type::Index));
                    let help = "use literals and const parameters";
                    per_sm = value.and_then(|v| self.constant(v, "the number of blocks a multiprocessor", help));
                    sound &= per_sm.is_some();
                }
                ("counter", 1) => {
                    counter = self.in_place("a loop's head", |p| {
                        let help = "for [x, y] in persistent([m, n]).counter(&mut next[0]) { .. }";
                        p.counter(&method.args[0], "`.counter(..)`", "tiles", help)
                    });
                    sound &= counter.is_some();
                }
                ("contiguous" | "per_sm" | "counter", found) => {
                    let wanted = if name == "contiguous" { "no arguments" } else { "1 argument" };
                    let at = self.mark(method.paren_token.span);
                    let message = format!("`.{name}` takes {wanted}, {found} given");
                    self.rustc(Diagnostic::new(Code::CALL, at, message));
                    sound = false;
                }
                _ => {
                    let message = format!("`.{name}(..)` of a `persistent` loop is not in the language");
                    self.syntax(
                        method.method.span(),
                        message,
                        "it has `.per_sm(n)`, `.contiguous()` and `.counter(&mut next[0])`",
                    );
                    sound = false;
                }
            }
        }
        if contiguous && counter.is_some() {
            let message = "tiles that are counted do not follow each other";
            self.error(Diagnostic::new(Code::CALL, at, message).help("keep `.contiguous()` or `.counter(..)`"));
            sound = false;
        }
        let (vars, body) = self.tuple_loop(each, extents.as_ref().map(Vec::len), "a `persistent` loop");
        if let (Some(extents), Some(vars), true) = (extents, vars, sound) {
            let span = self.mark(each.for_token.span);
            self.emit(StmtKind::Persistent { vars, extents, per_sm, contiguous, counter, body }, span);
        }
    }

    /// The indices of `for [i, j] in ..`, and the body.
    fn tuple_loop(
        &mut self,
        each: &ExprForLoop,
        axes: Option<usize>,
        what: &'static str,
    ) -> (Option<Vec<VarId>>, Vec<tile_ir::ir::StmtId>) {
        let vars = self.axis_names(&each.pat, axes).map(|names| {
            let mut vars: Vec<(Option<String>, VarId)> = vec![];
            for name in names {
                let text = name.name.clone().unwrap_or_else(|| "_".to_owned());
                let var = self.variable(&text, Type::Index, VarKind::Loop, Facts::FIXED, name.span);
                vars.push((name.name, var));
            }
            vars
        });
        let body = self.nested(what, |p| {
            match &vars {
                Some(vars) => {
                    for (name, var) in vars {
                        if let Some(name) = name {
                            p.bind(name.clone(), Binding::Var(*var));
                        }
                    }
                }
                None => p.poison_pattern(&each.pat),
            }
            p.block_statements(&each.body);
        });
        (vars.map(|vars| vars.into_iter().map(|(_, var)| var).collect()), body)
    }
}

/// `persistent(..)` and its methods, outermost first.
fn persistent_call(iterator: &Expr) -> Option<(&syn::ExprCall, Vec<&syn::ExprMethodCall>)> {
    let mut methods = vec![];
    match unchained(iterator, &mut methods) {
        Expr::Call(call) if function_name(&call.func).is_some_and(|f| f.name == "persistent") => Some((call, methods)),
        _ => None,
    }
}

/// What methods are called on, and the methods, outermost first.
fn unchained<'a>(expr: &'a Expr, methods: &mut Vec<&'a syn::ExprMethodCall>) -> &'a Expr {
    let mut base = strip(expr);
    while let Expr::MethodCall(call) = base {
        methods.push(call);
        base = strip(&call.receiver);
    }
    base
}
