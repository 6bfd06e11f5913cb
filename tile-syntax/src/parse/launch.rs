//! What fixes the launch: `blocks(..)`, `threads(..)`, `cluster(..)`, `use_swizzle(..)`, and the arrays: `alloc_shared`,
//! `alloc_local`, `alloc_fragment`.

use super::access::strip;
use super::call::Function;
use super::range::{Range, generic_types};
use super::stmt::Name;
use super::{Binding, Facts, Parser};
use syn::{Expr, ExprCall, ExprMethodCall, Pat};
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{
    Axis, Buffer, ExprId, ExprKind, MOST_ARRAY_AXES, Scope, SpanId, StmtKind, Swizzle, SwizzleRequest, Type, VarKind,
};

const CONSTANTS: &str = "use literals, const parameters and `T::BITS`";

impl Parser {
    /// `let [bx, by] = blocks([m, n]);`
    pub(super) fn blocks(&mut self, call: &ExprCall, pattern: Option<&Pat>) {
        let at = self.mark(Range { first: Range::from(&*call.func).first, last: call.paren_token.span.close() });
        let first = self.blocks_at.replace(at).or(self.persistent_at);
        let grid = self.axes(call, pattern, "blocks", VarKind::Block, first);
        if first.is_none() {
            self.kernel.grid = grid.unwrap_or_default();
        }
    }

    /// `let [tx, ty] = threads([32, 8]);`
    pub(super) fn threads(&mut self, call: &ExprCall, pattern: Option<&Pat>) {
        let at = self.mark(Range { first: Range::from(&*call.func).first, last: call.paren_token.span.close() });
        let first = self.threads_at.replace(at);
        let threads = self.axes(call, pattern, "threads", VarKind::Thread, first);
        if first.is_none() {
            self.kernel.threads = threads.unwrap_or_default();
        }
    }

    /// `cluster([2, 1]);`
    pub(super) fn cluster(&mut self, call: &ExprCall) {
        let Some(at) = self.launch_option(call, "cluster", self.cluster_at) else { return };
        self.cluster_at = Some(at);
        let array = match call.args.first().map(strip) {
            Some(Expr::Array(array)) if call.args.len() == 1 && (1..=3).contains(&array.elems.len()) => array,
            _ => {
                let at = self.mark(call.paren_token.span);
                let diagnostic = Diagnostic::new(Code::CALL, at, "`cluster` takes 1 to 3 extents in brackets");
                return self.unsupported(diagnostic.help("write `cluster([2, 1]);`"));
            }
        };
        let elements: Vec<&Expr> = array.elems.iter().collect();
        let Some(extents) = self.in_place("the extents of `cluster`", |p| p.indices(&elements)) else { return };
        let extents = extents.into_iter().map(|e| self.constant(e, "the extent of `cluster`", CONSTANTS));
        if let Some(extents) = extents.collect::<Option<Vec<_>>>() {
            self.kernel.cluster = extents;
        }
    }

    /// `use_swizzle(8);`
    pub(super) fn use_swizzle(&mut self, call: &ExprCall) {
        let Some(at) = self.launch_option(call, "use_swizzle", self.swizzle_at) else { return };
        self.swizzle_at = Some(at);
        if call.args.len() != 1 {
            let at = self.mark(call.paren_token.span);
            let message = format!("`use_swizzle` takes 1 argument, {} given", call.args.len());
            return self.rustc(Diagnostic::new(Code::CALL, at, message).help("use_swizzle(8);"));
        }
        let panel = self.in_place("the panel of `use_swizzle`", |p| p.expr(&call.args[0]));
        let panel = panel.and_then(|panel| self.demand(panel, Type::Index));
        let panel = panel.and_then(|panel| self.known_at_launch(panel, "the panel of `use_swizzle`"));
        self.kernel.swizzle = panel;
    }

    /// Where a call that says something about the whole launch stands, if it may stand there.
    fn launch_option(&mut self, call: &ExprCall, what: &str, first: Option<SpanId>) -> Option<SpanId> {
        let at = self.mark(Range { first: Range::from(&*call.func).first, last: call.paren_token.span.close() });
        if let Some(&place) = self.nesting.last() {
            let diagnostic = Diagnostic::new(Code::PLACEMENT, at, format!("`{what}(..)` stands inside {place}"));
            self.error(diagnostic.help("move it to the beginning of the kernel"));
            return None;
        }
        if let Some(first) = first {
            let diagnostic = Diagnostic::new(Code::PLACEMENT, at, format!("`{what}(..)` is given twice"));
            self.error(diagnostic.label(first, "first given here").help("keep one of the two"));
            return None;
        }
        Some(at)
    }

    /// The extents of a grid in an expression that the launch evaluates.
    pub(super) fn grid_extents(&mut self, extents: Vec<ExprId>, what: &str) -> Option<Vec<ExprId>> {
        let what = format!("the extent of `{what}`");
        let known = extents.into_iter().map(|extent| self.known_at_launch(extent, &what));
        known.collect()
    }

    /// An expression of what is known before the launch, written out.
    fn known_at_launch(&mut self, expr: ExprId, what: &str) -> Option<ExprId> {
        if self.facts(expr).launch {
            return Some(self.inline(expr));
        }
        let span = self.kernel.exprs[expr].span;
        let message = format!("{what} is not known before the launch");
        let help = "use dims, const parameters and scalar parameters";
        self.error(Diagnostic::new(Code::NOT_CONSTANT, span, message).help(help));
        None
    }

    fn axes(
        &mut self,
        call: &ExprCall,
        pattern: Option<&Pat>,
        what: &'static str,
        kind: fn(u8) -> VarKind,
        first: Option<tile_ir::ir::SpanId>,
    ) -> Option<Vec<Axis>> {
        let extents = self.axis_extents(call, what, first);
        let names = match pattern {
            None => Some(vec![]),
            Some(Pat::Wild(_)) => Some(vec![]),
            Some(pattern @ Pat::Ident(_)) => {
                let help =
                    format!("take it apart: `let [{}] = {what}(..);`", if what == "blocks" { "bx" } else { "tx" });
                self.syntax(
                    call.paren_token.span,
                    format!("the indices of `{what}` are taken apart where they are bound"),
                    &help,
                );
                self.poison_pattern(pattern);
                None
            }
            Some(pattern) => {
                let names = self.axis_names(pattern, extents.as_ref().map(Vec::len));
                if names.is_none() {
                    self.poison_pattern(pattern);
                }
                names
            }
        };
        let mut names = names.into_iter().flatten();
        let mut axes = vec![];
        for (index, extent) in extents.unwrap_or_default().into_iter().enumerate() {
            let span = self.kernel.exprs[extent].span;
            let Name { name, span: bound, .. } = names.next().unwrap_or(Name { name: None, mutable: false, span });
            let axis = index as u8;
            let made_up =
                || format!("{}_{}", if what == "blocks" { "block" } else { "thread" }, ["x", "y", "z"][index.min(2)]);
            let text = name.clone().unwrap_or_else(made_up);
            let var = self.variable(&text, Type::Index, kind(axis), Facts::FIXED, bound);
            if let Some(name) = name {
                self.bind(name, Binding::Var(var));
            }
            axes.push(Axis { var, extent, span });
        }
        // Where the extents could not be read, the names are known to be bound, to nothing.
        for name in names.filter_map(|name| name.name) {
            self.bind(name, Binding::Poison);
        }
        Some(axes)
    }

    fn axis_extents(
        &mut self,
        call: &ExprCall,
        what: &'static str,
        first: Option<tile_ir::ir::SpanId>,
    ) -> Option<Vec<ExprId>> {
        let range = Range { first: Range::from(&*call.func).first, last: call.paren_token.span.close() };
        if let Some(&place) = self.nesting.last() {
            let at = self.mark(range);
            let message = format!("`{what}(..)` stands inside {place}");
            self.error(Diagnostic::new(Code::PLACEMENT, at, message).help("move it to the beginning of the kernel"));
            return None;
        }
        if let Some(first) = first {
            let at = self.mark(range);
            let diagnostic = Diagnostic::new(Code::PLACEMENT, at, format!("`{what}(..)` is given twice"));
            self.error(diagnostic.label(first, "first given here").help("keep one of the two"));
            return None;
        }
        let example = if what == "blocks" { "blocks([ceil_div(N, 128)])" } else { "threads([32, 4])" };
        let array = match call.args.first().map(strip) {
            Some(Expr::Array(array)) if call.args.len() == 1 => array,
            _ => {
                let message = format!("`{what}` takes its extents in brackets");
                let at = self.mark(call.paren_token.span);
                self.unsupported(Diagnostic::new(Code::CALL, at, message).help(format!("write `{example}`")));
                return None;
            }
        };
        let elements: Vec<&Expr> = array.elems.iter().collect();
        if elements.is_empty() || elements.len() > 3 {
            let at = self.mark(array.bracket_token.span);
            let message = format!("`{what}` has {} axes; there are 1 to 3", elements.len());
            self.error(Diagnostic::new(Code::SHAPE, at, message).help(format!("write `{example}`")));
            return None;
        }
        let place = if what == "blocks" { "the extents of `blocks`" } else { "the extents of `threads`" };
        let extents = self.in_place(place, |p| p.indices(&elements))?;
        let mut known = vec![];
        for extent in extents {
            known.push(match what {
                "threads" => self.constant(extent, "the extent of `threads`", CONSTANTS),
                _ if self.facts(extent).launch => Some(self.inline(extent)),
                _ => {
                    let span = self.kernel.exprs[extent].span;
                    let message = "the extent of `blocks` is not known before the launch";
                    let help = "use dims, const parameters and scalar parameters";
                    self.error(Diagnostic::new(Code::NOT_CONSTANT, span, message).help(help));
                    None
                }
            });
        }
        known.into_iter().collect()
    }

    /// An expression with the values of immutable `let`s in their place.
    fn inline(&mut self, expr: ExprId) -> ExprId {
        let kind = match self.kernel.exprs[expr].kind.clone() {
            ExprKind::Var(var) => {
                return match self.vars[var.as_u32() as usize].value {
                    Some(value) => {
                        let value = self.inline(value);
                        // Inlined once: the next use finds it done.
                        self.vars[var.as_u32() as usize].value = Some(value);
                        value
                    }
                    None => expr,
                };
            }
            ExprKind::Unary(op, a) => ExprKind::Unary(op, self.inline(a)),
            ExprKind::Binary(op, a, b) => ExprKind::Binary(op, self.inline(a), self.inline(b)),
            ExprKind::Select(a, b, c) => ExprKind::Select(self.inline(a), self.inline(b), self.inline(c)),
            ExprKind::If(a, b, c) => ExprKind::If(self.inline(a), self.inline(b), self.inline(c)),
            ExprKind::Cast(ty, a) => ExprKind::Cast(ty, self.inline(a)),
            _ => return expr,
        };
        if kind == self.kernel.exprs[expr].kind {
            return expr;
        }
        self.push(kind, self.ty(expr), self.facts(expr), self.kernel.exprs[expr].span)
    }

    /// The names in `[i, j]`; their number is rustc's to check.
    pub(super) fn axis_names(&mut self, pattern: &Pat, axes: Option<usize>) -> Option<Vec<Name>> {
        let Pat::Slice(slice) = pattern else {
            use syn::spanned::Spanned;
            self.syntax(pattern.span(), "this pattern is not in the language", "take the axes apart: `[i, j]`");
            return None;
        };
        if axes.is_some_and(|axes| axes != slice.elems.len()) {
            let at = self.mark(slice.bracket_token.span);
            self.rustc(Diagnostic::new(
                Code::SHAPE,
                at,
                format!("{} names for {} axes", slice.elems.len(), axes.unwrap_or(0)),
            ));
            return None;
        }
        let names: Vec<Option<Name>> = slice
            .elems
            .iter()
            .map(|pattern| {
                let name = self.simple_name(pattern)?;
                if name.mutable {
                    let diagnostic = Diagnostic::new(Code::SYNTAX, name.span, "an index is not a variable");
                    self.error(diagnostic.help("remove `mut`"));
                }
                Some(name)
            })
            .collect();
        names.into_iter().collect()
    }

    /// `let mut s = alloc_shared::<f32>([128, 64]);`
    pub(super) fn alloc(
        &mut self,
        call: &ExprCall,
        function: &Function<'_>,
        pattern: &Pat,
        methods: &[&ExprMethodCall],
        range: Range,
    ) {
        let name = self.simple_name(pattern);
        let swizzle = self.array_options(&function.name, methods);
        let buffer = self.allocate(call, function, name.as_ref(), range);
        if let (Some(buffer), Some(swizzle)) = (buffer, swizzle) {
            self.kernel.buffers[buffer].swizzle = swizzle;
        }
        let Some(Name { name: Some(text), mutable, .. }) = name else { return self.poison_pattern(pattern) };
        if let (Some(buffer), true) = (buffer, mutable) {
            self.mutable_buffers.push(buffer);
        }
        self.bind(text, buffer.map_or(Binding::Poison, Binding::Buffer));
    }

    /// The methods of an allocation: `.swizzle(B128)`.
    fn array_options(&mut self, what: &str, methods: &[&ExprMethodCall]) -> Option<SwizzleRequest> {
        let mut swizzle = SwizzleRequest::Auto;
        for call in methods {
            let words = [
                ("Auto", SwizzleRequest::Auto),
                ("None", SwizzleRequest::Exactly(Swizzle::None)),
                ("B32", SwizzleRequest::Exactly(Swizzle::B32)),
                ("B64", SwizzleRequest::Exactly(Swizzle::B64)),
                ("B128", SwizzleRequest::Exactly(Swizzle::B128)),
            ];
            let name = call.method.to_string();
            if what != "alloc_shared" || name != "swizzle" {
                let message = format!("`.{name}(..)` of `{what}` is not in the language");
                let help = "a shared array has `.swizzle(B128)`";
                self.syntax(call.method.span(), message, help);
                return None;
            }
            if call.args.len() != 1 {
                let at = self.mark(call.paren_token.span);
                let message = format!("`.swizzle` takes 1 argument, {} given", call.args.len());
                self.rustc(Diagnostic::new(Code::CALL, at, message));
                return None;
            }
            swizzle = self.word(&call.args[0], &words, "the layout of a shared array")?;
        }
        Some(swizzle)
    }

    fn allocate(
        &mut self,
        call: &ExprCall,
        function: &Function<'_>,
        name: Option<&Name>,
        range: Range,
    ) -> Option<tile_ir::ir::BufferId> {
        let what = function.name.as_str();
        let dtype = match generic_types(function.arguments).as_slice() {
            [ty] => self.dtype_type(ty),
            _ => {
                let at = self.mark(function.range);
                let help = format!("write `{what}::<f32>([..])`");
                self.unsupported(
                    Diagnostic::new(Code::CALL, at, format!("`{what}` needs its element type")).help(help),
                );
                None
            }
        };
        let array = match call.args.first().map(strip) {
            Some(Expr::Array(array)) if call.args.len() == 1 => array,
            _ => {
                let at = self.mark(call.paren_token.span);
                let help = format!("write `{what}::<f32>([128])`");
                let message = format!("`{what}` takes its extents in brackets");
                self.unsupported(Diagnostic::new(Code::CALL, at, message).help(help));
                return None;
            }
        };
        let elements: Vec<&Expr> = array.elems.iter().collect();
        if elements.is_empty() || elements.len() > MOST_ARRAY_AXES {
            let at = self.mark(array.bracket_token.span);
            let message = format!("an array has 1 to {MOST_ARRAY_AXES} axes, this has {}", elements.len());
            self.error(Diagnostic::new(Code::SHAPE, at, message).help("merge axes: `[a * b, c]`"));
            return None;
        }
        let extents = self.in_place("the extents of an array", |p| p.indices(&elements))?;
        let extents: Vec<Option<ExprId>> =
            extents.into_iter().map(|extent| self.constant(extent, "the extent of an array", CONSTANTS)).collect();
        let extents = extents.into_iter().collect::<Option<Vec<_>>>()?;
        let (dtype, name) = (dtype?, name?);
        let scope = match what {
            "alloc_shared" => Scope::Shared,
            "alloc_fragment" => Scope::Fragment,
            _ => Scope::Local,
        };
        if scope == Scope::Fragment && elements.len() > 2 {
            // The shadow's `alloc_fragment` takes one or two extents.
            let at = self.mark(array.bracket_token.span);
            let message = format!("a fragment has 1 or 2 axes, this has {}", elements.len());
            self.rustc(Diagnostic::new(Code::SHAPE, at, message).help("alloc_fragment::<f32>([128, 128])"));
            return None;
        }
        let text = name.name.clone().unwrap_or_else(|| "_".to_owned());
        let buffer = self.kernel.buffers.push(Buffer {
            name: text,
            scope,
            dtype,
            extents,
            swizzle: SwizzleRequest::Auto,
            span: name.span,
        });
        let span = self.mark(range);
        self.emit(StmtKind::Alloc { buffer }, span);
        Some(buffer)
    }
}
