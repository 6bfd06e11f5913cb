//! Tile operations: `copy(src, dst)`, `copy(src, dst).width(n)`, `fill(&mut b, v)`, `clear(&mut b)`.
//!
//! An operand of `copy` is `x.at([i, j])` (its extents come from the other side), `x.tile([r0..r1, c0..c1])`, or the
//! whole of an array or tensor: `&s`, `&mut s`, `x`; `acc.t()` is the transpose of a fragment, to be stored. A destination says `at_mut` and `tile_mut`.

use super::access::strip;
use super::range::Range;
use super::{Binding, Facts, Parser};
use syn::{Expr, ExprCall, ExprMethodCall, RangeLimits, Stmt};
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{
    BinaryOp, BufferId, DtypeRef, Evict, Eviction, ExprId, ExprKind, Extent, ParamKind, Place, Scope, SpecialValue,
    StmtKind, TileOp, TileRef, Type,
};

/// What a copy asks for beside moving a tile.
pub(super) struct CopyOptions {
    width: Option<ExprId>,
    tma: bool,
    evict: Option<Eviction>,
}

impl Default for CopyOptions {
    fn default() -> Self {
        CopyOptions { width: None, tma: true, evict: None }
    }
}

/// The functions that this module reads, and how many arguments they take: statements, without a value.
pub(super) const FUNCTIONS: &[(&str, usize)] = &[("copy", 2), ("fill", 2), ("clear", 1), ("clamp", 3)];

/// How many arguments a tile function takes; `None` for what is none.
pub(super) fn arity(name: &str) -> Option<usize> {
    FUNCTIONS.iter().find(|(function, _)| *function == name).map(|(_, arity)| *arity)
}

impl Parser {
    /// One of [`FUNCTIONS`] as a statement. `options`: a copy's, none if they could not be read.
    pub(super) fn tile_operation(&mut self, name: &str, call: &ExprCall, options: Option<CopyOptions>, range: Range) {
        let Some(arity) = arity(name) else { return self.unknown_function(call) };
        if call.args.len() != arity {
            let at = self.mark(call.paren_token.span);
            let message = format!("`{name}` takes {arity} arguments, {} given", call.args.len());
            return self.rustc(Diagnostic::new(Code::CALL, at, message));
        }
        match name {
            "copy" => self.copy(call, options, range),
            "fill" => {
                let value = self.expr(&call.args[1]);
                let buffer = self.filled(name, &call.args[0]);
                let (Some(value), Some(buffer)) = (value, buffer) else { return };
                let dtype = self.kernel.buffers[buffer].dtype;
                if self.demand(value, Type::Value(dtype)).is_some() {
                    let span = self.mark(range);
                    self.emit(StmtKind::Tile(TileOp::Fill { buffer, value }), span);
                }
            }
            "clamp" => self.clamp(call, range),
            _ => {
                let Some(buffer) = self.filled(name, &call.args[0]) else { return };
                let dtype = self.kernel.buffers[buffer].dtype;
                let span = self.mark(range);
                let value = self.zero(dtype, span);
                self.emit(StmtKind::Tile(TileOp::Fill { buffer, value }), span);
            }
        }
    }

    /// `clamp(&mut acc, low, high)`: of a fragment of numbers, with bounds of its dtype.
    fn clamp(&mut self, call: &ExprCall, range: Range) {
        let bounds = [self.expr(&call.args[1]), self.expr(&call.args[2])];
        let (Some(tile), [Some(low), Some(high)]) = (self.filled("clamp", &call.args[0]), bounds) else { return };
        let buffer = &self.kernel.buffers[tile];
        let (ty, scope, name, declared) = (Type::Value(buffer.dtype), buffer.scope, buffer.name.clone(), buffer.span);
        if scope != Scope::Fragment {
            let at = self.mark(&call.args[0]);
            let diagnostic = Diagnostic::new(Code::CALL, at, format!("`clamp` takes a fragment; `{name}` is an array"));
            let help = format!("copy it to a fragment and clamp that: `copy(&{name}, &mut f);`");
            return self.unsupported(diagnostic.label(declared, "declared here").help(help));
        }
        let (Some(low), Some(high)) = (self.demand(low, ty), self.demand(high, ty)) else { return };
        if self.numeric(low, "`clamp`").is_none() {
            return;
        }
        let span = self.mark(range);
        let literal = |p: &Self, e: ExprId| match p.kernel.exprs[e].kind {
            ExprKind::Float(value) => Some(value),
            ExprKind::Int(value) => Some(value as f64),
            _ => None,
        };
        if let (Some(least), Some(most)) = (literal(self, low), literal(self, high))
            && least > most
        {
            let message = format!("`clamp` between {least} and {most}: no value is between them");
            return self.unsupported(Diagnostic::new(Code::CALL, span, message).help("give the smaller bound first"));
        }
        self.emit(StmtKind::Tile(TileOp::Clamp { tile, low, high }), span);
    }

    fn zero(&mut self, dtype: DtypeRef, span: tile_ir::ir::SpanId) -> ExprId {
        self.push(ExprKind::Special(dtype, SpecialValue::Zero), Type::Value(dtype), Facts::CONSTANT, span)
    }

    /// The array that `fill` or `clear` writes.
    fn filled(&mut self, name: &str, argument: &Expr) -> Option<BufferId> {
        let Some((array, mutable)) = self.borrowed(argument) else {
            let at = self.mark(argument);
            self.rustc(Diagnostic::new(Code::TYPE, at, format!("`{name}` takes an array by `&mut`")));
            return None;
        };
        let place = self.place(array, &format!("`{name}`"))?;
        if !mutable {
            let at = self.mark(argument);
            self.rustc(Diagnostic::new(Code::TYPE, at, format!("`{name}` takes an array by `&mut`")));
            return None;
        }
        match place {
            Place::Buffer(buffer) => {
                self.check_writable(place, array);
                Some(buffer)
            }
            Place::Tensor(param) => {
                let at = self.mark(argument);
                let tensor = self.kernel.params[param].name.clone();
                let message = format!("`{name}` takes a shared or per-thread array; `{tensor}` is a tensor");
                let diagnostic = Diagnostic::new(Code::CALL, at, message);
                self.unsupported(diagnostic.help(format!("store its elements: `{tensor}[i] = ..;`")));
                None
            }
        }
    }

    /// The methods of a `copy`: `.width(n)`, `.tma(false)`, `.evict(First)`.
    pub(super) fn copy_options(&mut self, methods: &[&ExprMethodCall]) -> Option<CopyOptions> {
        let mut options = CopyOptions::default();
        let mut sound = true;
        for call in methods.iter().rev() {
            match (call.method.to_string().as_str(), call.args.len()) {
                ("width", 1) => {
                    let value = self.in_place("`.width(..)`", |p| p.expr(&call.args[0]));
                    let value = value.and_then(|value| self.demand(value, Type::Index)).and_then(|value| {
                        self.constant(value, "the width of a copy", "use literals, const parameters and `T::BITS`")
                    });
                    options.width = value;
                    sound &= value.is_some();
                }
                ("tma", 1) => match strip(&call.args[0]) {
                    Expr::Lit(syn::ExprLit { lit: syn::Lit::Bool(allowed), .. }) => options.tma = allowed.value,
                    other => {
                        let at = self.mark(other);
                        let diagnostic = Diagnostic::new(Code::CALL, at, "`.tma` takes `true` or `false`");
                        self.unsupported(diagnostic.help("write `false`"));
                        sound = false;
                    }
                },
                ("evict", 1) => {
                    options.evict = self.eviction(&call.args[0]);
                    sound &= options.evict.is_some();
                }
                (name @ ("width" | "tma" | "evict"), found) => {
                    let at = self.mark(call.paren_token.span);
                    self.rustc(Diagnostic::new(Code::CALL, at, format!("`.{name}` takes 1 argument, {found} given")));
                    sound = false;
                }
                (other, _) => {
                    let message = format!("`.{other}(..)` of a copy is not in the language");
                    let help = "a copy has `.width(n)`: elements a transaction; `.tma(false)`; `.evict(First)`, `.evict(Last)`";
                    self.syntax(call.method.span(), message, help);
                    sound = false;
                }
            }
        }
        sound.then_some(options)
    }

    /// `First`, `Last`, `Normal`, or a choice of these by constants: `if wide { First } else { Normal }`.
    fn eviction(&mut self, argument: &Expr) -> Option<Eviction> {
        if let Expr::Block(block) = strip(argument)
            && let [Stmt::Expr(only, None)] = &block.block.stmts[..]
        {
            return self.eviction(only);
        }
        let Expr::If(choice) = strip(argument) else {
            let words = [("First", Evict::First), ("Last", Evict::Last), ("Normal", Evict::Normal)];
            let otherwise = self.word(argument, &words, "the eviction of a copy")?;
            return Some(Eviction { cases: Vec::new(), otherwise });
        };
        let cond = self.in_place("`.evict(..)`", |p| p.expr(&choice.cond));
        let cond = cond.and_then(|cond| self.demand(cond, Type::BOOL));
        let cond = cond.and_then(|cond| {
            self.constant(cond, "what an eviction depends on", "use literals, const parameters and `T::BITS`")
        });
        let arms = match (&choice.then_branch.stmts[..], &choice.else_branch) {
            ([Stmt::Expr(then, None)], Some((_, otherwise))) => Some((then, otherwise)),
            _ => None,
        };
        let Some((then, otherwise)) = arms else {
            let at = self.mark(argument);
            let diagnostic =
                Diagnostic::new(Code::CALL, at, "an eviction is chosen by `if` and `else`, a word in each");
            self.unsupported(diagnostic.help("write `.evict(if wide { First } else { Normal })`"));
            return None;
        };
        let (then, otherwise) = (self.eviction(then), self.eviction(otherwise));
        let (cond, then, otherwise) = (cond?, then?, otherwise?);
        if !then.cases.is_empty() {
            let at = self.mark(argument);
            let diagnostic = Diagnostic::new(Code::CALL, at, "an eviction is chosen by `if` within `else` only");
            self.unsupported(diagnostic.help("write `if a { First } else if b { Last } else { Normal }`"));
            return None;
        }
        let cases = std::iter::once((cond, then.otherwise)).chain(otherwise.cases).collect();
        Some(Eviction { cases, otherwise: otherwise.otherwise })
    }

    fn copy(&mut self, call: &ExprCall, options: Option<CopyOptions>, range: Range) {
        let src = self.tile(&call.args[0], false);
        let dst = self.tile(&call.args[1], true);
        let (Some(src), Some(dst)) = (src, dst) else { return };
        let Some(CopyOptions { width, tma, evict }) = options else { return };
        let open = |tile: &TileRef| tile.extents.is_empty() && !tile.start.is_empty();
        if open(&src) && open(&dst) {
            let diagnostic = Diagnostic::new(Code::TILE_SHAPE, src.span, "neither side of this copy gives its extents");
            let diagnostic = diagnostic.label(dst.span, "`.at` takes its extents from the other side");
            return self.error(diagnostic.help("give them on one side: `.tile([r..r + 64, c..c + 64])`"));
        }
        let tensor = |tile: &TileRef| matches!(tile.place, Place::Tensor(_));
        if tensor(&src) && tensor(&dst) {
            let at = self.mark(range);
            let diagnostic = Diagnostic::new(Code::TILE_SHAPE, at, "a copy between two tensors is not in the language");
            return self.error(diagnostic.help("copy into a shared or per-thread array, and from there"));
        }
        let span = self.mark(range);
        self.emit(StmtKind::Tile(TileOp::Copy { src, dst, width, tma, evict }), span);
    }

    fn tile(&mut self, argument: &Expr, destination: bool) -> Option<TileRef> {
        let argument = strip(argument);
        let span = self.mark(argument);
        match argument {
            Expr::MethodCall(call) => self.part(call, destination, span),
            Expr::Reference(reference) => {
                let place = self.place(&reference.expr, "`copy`")?;
                if destination && reference.mutability.is_none() {
                    self.rustc(Diagnostic::new(Code::TYPE, span, "a copy writes its second operand: pass `&mut`"));
                    return None;
                }
                if destination {
                    self.check_writable(place, &reference.expr);
                }
                self.is_no_row(&reference.expr)?;
                Some(TileRef { place, start: vec![], extents: vec![], transposed: false, span })
            }
            Expr::Path(_) => {
                let place = self.place(argument, "`copy`")?;
                if let Place::Buffer(buffer) = place
                    && self.borrowed(argument).is_none()
                {
                    let name = self.kernel.buffers[buffer].name.clone();
                    let message = format!("`copy` takes `{name}` by reference");
                    let help = format!("write `{}{name}`", if destination { "&mut " } else { "&" });
                    self.rustc(Diagnostic::new(Code::TYPE, span, message).help(help));
                    return None;
                }
                if destination {
                    self.check_writable(place, argument);
                }
                self.is_no_row(argument)?;
                Some(TileRef { place, start: vec![], extents: vec![], transposed: false, span })
            }
            other => {
                let side = if destination { "destination" } else { "source" };
                let help = "write `x.at([i, j])`, `x.tile([r0..r1, c0..c1])`, or an array `&s`";
                self.syntax(other, format!("this is not the {side} of a copy"), help);
                None
            }
        }
    }

    /// A row of a tensor of the caller's is no tensor to be copied as a whole.
    fn is_no_row(&mut self, expr: &Expr) -> Option<()> {
        if self.leading(expr).is_empty() {
            return Some(());
        }
        let help = "give the part: `x.at([0])`, or `x.at([0, 0])` of a matrix";
        self.syntax(expr, "the caller gives a row of a tensor, which is not copied as a whole", help);
        None
    }

    /// `x.at([i, j])`, `x.tile([r0..r1, c0..c1])`.
    fn part(&mut self, call: &ExprMethodCall, destination: bool, span: tile_ir::ir::SpanId) -> Option<TileRef> {
        let method = call.method.to_string();
        match method.as_str() {
            "at" | "tile" | "at_mut" | "tile_mut" => {}
            "t" if !destination && call.args.is_empty() && self.is_fragment(&call.receiver) => {
                let place = self.place(&call.receiver, "`.t()`")?;
                return Some(TileRef { place, start: vec![], extents: vec![], transposed: true, span });
            }
            "t" => {
                let message = "a copy transposes only a fragment that it stores: `copy(acc.t(), c.at_mut([i, j]));`";
                let help = "copy the tile as it is stored, and multiply its transpose: `gemm(&a_s, b_s.t(), &mut acc)`";
                self.syntax(call.method.span(), message, help);
                return None;
            }
            _ => {
                let help = "write `.at([i, j])` or `.tile([r0..r1, c0..c1])`";
                self.syntax(call.method.span(), format!("`.{method}(..)` is not a part of a tensor"), help);
                return None;
            }
        }
        let place = self.place(&call.receiver, &format!("`.{method}(..)`"))?;
        if method.ends_with("_mut") != destination {
            let at = self.mark(call.method.span());
            let message =
                if destination { "a copy writes its second operand" } else { "a copy reads its first operand" };
            let help =
                format!("write `.{}{}(..)`", method.trim_end_matches("_mut"), if destination { "_mut" } else { "" });
            self.rustc(Diagnostic::new(Code::TYPE, at, message).help(help));
            return None;
        }
        if destination {
            self.check_writable(place, &call.receiver);
        }
        let array = match call.args.first().map(strip) {
            Some(Expr::Array(array)) if call.args.len() == 1 => array,
            _ => {
                let help = format!("write `.{method}([..])`");
                self.syntax(call.paren_token.span, format!("`.{method}` takes its indices in brackets"), &help);
                return None;
            }
        };
        let elements: Vec<&Expr> = array.elems.iter().collect();
        let leading = self.leading(&call.receiver);
        let rank = self.check_rank(place, leading.len(), elements.len(), array.bracket_token.span.into());
        if method.starts_with("at") {
            let start = self.indices(&elements)?;
            rank?;
            let start = self.behind(&leading, start, span);
            return Some(TileRef { place, start, extents: vec![], transposed: false, span });
        }
        let axes: Vec<Option<(ExprId, ExprId)>> =
            elements.iter().enumerate().map(|(n, axis)| self.tile_axis(axis, (place, leading.len() + n))).collect();
        let (start, extents): (Vec<_>, Vec<_>) = axes.into_iter().collect::<Option<Vec<_>>>()?.into_iter().unzip();
        rank?;
        let start = self.behind(&leading, start, span);
        let one = leading.iter().map(|_| self.push(ExprKind::Int(1), Type::Index, Facts::CONSTANT, span));
        let extents = one.collect::<Vec<_>>().into_iter().chain(extents).collect();
        Some(TileRef { place, start, extents, transposed: false, span })
    }

    /// Whether a path names a fragment.
    fn is_fragment(&self, receiver: &Expr) -> bool {
        let Expr::Path(path) = strip(receiver) else { return false };
        let binding = path.path.get_ident().and_then(|name| self.lookup(&name.to_string()));
        let Some(Binding::Buffer(buffer) | Binding::Borrowed(buffer, _)) = binding else { return false };
        self.kernel.buffers[buffer].scope == Scope::Fragment
    }

    /// `r0..r1` of an axis of an array: the first index and the extent, a constant.
    fn tile_axis(&mut self, axis: &Expr, of: (Place, usize)) -> Option<(ExprId, ExprId)> {
        let (start, end) = match strip(axis) {
            Expr::Range(range) if matches!(range.limits, RangeLimits::HalfOpen(_)) => {
                match (&range.start, &range.end) {
                    (Some(start), Some(end)) => (start, end),
                    _ => {
                        self.syntax(axis, "a tile's range has both bounds", "write `r..r + 64`");
                        return None;
                    }
                }
            }
            other => {
                self.syntax(other, "a tile has a range for each axis", "write `.tile([r..r + 64, c..c + 64])`");
                return None;
            }
        };
        let bounds = self.indices(&[start, end])?;
        let (start, end) = (bounds[0], bounds[1]);
        if let Some(extent) = self.constant_distance(start, end) {
            return Some((start, extent));
        }
        if matches!(self.kernel.exprs[start].kind, ExprKind::Int(0)) {
            let help = self.tile_help(start, end, of);
            return Some((start, self.constant(end, "the extent of a tile", &help)?));
        }
        let span = self.mark(axis);
        let facts = self.facts(end).and(self.facts(start));
        let extent = self.push(ExprKind::Binary(BinaryOp::Sub, end, start), Type::Index, facts, span);
        let help = self.tile_help(start, end, of);
        Some((start, self.constant(extent, "the extent of a tile", &help)?))
    }

    /// What to write in place of a range that is not a constant long. Where it ends at the array's edge, a `min` is left out: a copy
    /// does that itself.
    fn tile_help(&self, start: ExprId, end: ExprId, (place, axis): (Place, usize)) -> String {
        let exprs = &self.kernel.exprs;
        let is_edge = |expr: ExprId| match (place, &exprs[expr].kind) {
            (Place::Tensor(param), ExprKind::Dim(dim)) => match &self.kernel.params[param].kind {
                ParamKind::Tensor { shape, .. } => shape.get(axis) == Some(&Extent::Dim(*dim)),
                ParamKind::Scalar { .. } | ParamKind::Absent => false,
            },
            _ => false,
        };
        let text = |expr: ExprId| self.kernel.source.text_at(*self.kernel.spans.get(exprs[expr].span)?);
        let whole = match exprs[end].kind {
            ExprKind::Binary(BinaryOp::Min, a, b) if is_edge(b) => Some(a),
            ExprKind::Binary(BinaryOp::Min, a, b) if is_edge(a) => Some(b),
            _ => None,
        };
        let code = whole.and_then(|end| match exprs[start].kind {
            ExprKind::Int(0) => self.facts(end).constant.then(|| text(end))?,
            _ => self.constant_distance(start, end).and(Some(format!("{}..{}", text(start)?, text(end)?))),
        });
        match code {
            Some(code) => format!("write `{code}`: a copy leaves out what is beyond the edge of a tensor"),
            None => "write it `r..r + 64`, the extent of literals, const parameters and `T::BITS`".to_owned(),
        }
    }
}
