//! Every edit of a kernel: a walk over its syntax tree that says where which mistake could be made.

use super::edit::{Class, Edit};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::ops::Range;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, ItemFn, Lit, Pat, Stmt, Token};

/// The edits of a kernel's text: those of its attribute, its signature and its body. None where it is no function.
pub fn edits(text: &str) -> Vec<Edit> {
    let Ok(function) = syn::parse_str::<ItemFn>(text) else { return vec![] };
    let mut walk = Walk { text, edits: vec![], blocks: vec![], threads: vec![], taken: vec![] };
    walk.names(&function.block);
    walk.attribute(&function);
    walk.signature(&function);
    walk.visit_block(&function.block);
    proc_macro2::extra::invalidate_current_thread_spans();
    walk.edits
}

/// Calls that declare, rather than do: their statements stay where they are.
const DECLARATIONS: [&str; 9] = [
    "blocks",
    "threads",
    "cluster",
    "use_swizzle",
    "persistent",
    "alloc_shared",
    "alloc_local",
    "alloc_fragment",
    "device_assert",
];

struct Walk<'a> {
    text: &'a str,
    edits: Vec<Edit>,
    /// The names of block indices.
    blocks: Vec<String>,
    /// Of thread indices.
    threads: Vec<String>,
    /// Literals that an edit of another class has.
    taken: Vec<Range<usize>>,
}

fn at(node: &impl Spanned) -> Range<usize> {
    node.span().byte_range()
}

/// The function's name, of a call by a path.
fn called(expr: &Expr) -> Option<(String, &syn::ExprCall)> {
    match expr {
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => path.path.segments.last().map(|s| (s.ident.to_string(), call)),
            _ => None,
        },
        _ => None,
    }
}

fn elements(expr: &Expr) -> Option<&Punctuated<Expr, Token![,]>> {
    match expr {
        Expr::Array(array) => Some(&array.elems),
        _ => None,
    }
}

impl Walk<'_> {
    fn source(&self, node: &impl Spanned) -> &str {
        self.text.get(at(node)).unwrap_or_default()
    }

    fn push(&mut self, class: Class, what: &'static str, replaced: Vec<(Range<usize>, String)>) {
        let edit = Edit { class, what, replaced };
        // What changes nothing is no edit.
        if edit.apply(self.text) != self.text {
            self.edits.push(edit);
        }
    }

    fn replace(&mut self, class: Class, what: &'static str, node: &impl Spanned, new: impl Into<String>) {
        self.push(class, what, vec![(at(node), new.into())]);
    }

    fn swap(&mut self, class: Class, what: &'static str, a: &impl Spanned, b: &impl Spanned) {
        let (left, right) = (self.source(a).to_owned(), self.source(b).to_owned());
        self.push(class, what, vec![(at(a), right), (at(b), left)]);
    }

    /// The names that `let [..] = blocks(..)`, `threads(..)` and `for [..] in persistent(..)` bind.
    fn names(&mut self, block: &Block) {
        struct Names(Vec<String>, Vec<String>);
        impl<'ast> Visit<'ast> for Names {
            fn visit_local(&mut self, local: &'ast syn::Local) {
                let name = local.init.as_ref().and_then(|init| called(&init.expr)).map(|(name, _)| name);
                match name.as_deref() {
                    Some("blocks") => self.0.extend(pattern(&local.pat)),
                    Some("threads") => self.1.extend(pattern(&local.pat)),
                    _ => {}
                }
            }
            fn visit_expr_for_loop(&mut self, node: &'ast syn::ExprForLoop) {
                if called(&node.expr).is_some_and(|(name, _)| name == "persistent") {
                    self.0.extend(pattern(&node.pat));
                }
                visit::visit_expr_for_loop(self, node);
            }
        }
        fn pattern(pat: &Pat) -> Vec<String> {
            match pat {
                Pat::Slice(slice) => slice.elems.iter().flat_map(pattern).collect(),
                Pat::Ident(name) => vec![name.ident.to_string()],
                _ => vec![],
            }
        }
        let mut names = Names(vec![], vec![]);
        names.visit_block(block);
        (self.blocks, self.threads) = (names.0, names.1);
    }

    /// Constants of instances, contracts, `pdl`, targets and streams.
    fn attribute(&mut self, function: &ItemFn) {
        let Some(attribute) = function.attrs.iter().find(|a| a.path().is_ident("tile_kernel")) else { return };
        let syn::Meta::List(list) = &attribute.meta else { return };
        let tokens: Vec<TokenTree> = list.tokens.clone().into_iter().collect();
        let mut items = tokens.split(|t| matches!(t, TokenTree::Punct(comma) if comma.as_char() == ',')).peekable();
        while let Some(item) = items.next() {
            let (Some(first), Some(last)) = (item.first(), item.last()) else { continue };
            let word = first.to_string();
            let mut range = at(first).start..at(last).end;
            if let Some(next) = items.peek().and_then(|next| next.first()) {
                range.end = at(next).start;
            }
            if ["require", "pdl", "stream", "specialize", "targets", "min_blocks"].contains(&word.as_str()) {
                self.push(Class::Attributes, "drop an item of the attribute", vec![(range, String::new())]);
            }
            if word == "instances"
                && let Some(TokenTree::Group(group)) = item.get(1)
            {
                self.constants(group.stream());
            }
        }
        if list.tokens.to_string().contains("pdl") {
            let names = self.text.match_indices("independent = [").map(|(i, s)| i + s.len()).collect::<Vec<_>>();
            for name in ["a, ", "x, "] {
                for at in &names {
                    self.push(Class::Attributes, "another tensor is independent", vec![(*at..*at, name.into())]);
                }
            }
        }
    }

    /// `&mut` and the order of dims.
    fn signature(&mut self, function: &ItemFn) {
        for input in &function.sig.inputs {
            let syn::FnArg::Typed(input) = input else { continue };
            if let syn::Type::Reference(reference) = &*input.ty {
                match &reference.mutability {
                    Some(token) => self.replace(Class::Attributes, "drop `mut` of a tensor", token, ""),
                    None => {
                        let start = at(&reference.and_token).end;
                        self.push(Class::Attributes, "a tensor that is written", vec![(start..start, "mut ".into())]);
                    }
                }
            }
            struct Dims(Vec<proc_macro2::Span>);
            impl<'ast> Visit<'ast> for Dims {
                fn visit_type_tuple(&mut self, node: &'ast syn::TypeTuple) {
                    self.0.extend(node.elems.iter().map(Spanned::span));
                }
            }
            let mut dims = Dims(vec![]);
            dims.visit_type(&input.ty);
            for pair in dims.0.windows(2) {
                self.swap(Class::Attributes, "swap dims of a tensor", &pair[0], &pair[1]);
            }
        }
    }

    /// What may be done with a statement as a whole.
    fn statements(&mut self, block: &Block) {
        let spans: Vec<Range<usize>> = block.stmts.iter().map(at).collect();
        for (i, stmt) in block.stmts.iter().enumerate() {
            let here = spans[i].clone();
            let text = self.source(stmt).to_owned();
            let call = match stmt {
                Stmt::Expr(expr, _) => called(expr).map(|(name, _)| name),
                _ => None,
            };
            let barrier = call.as_deref().filter(|name| ["sync_threads", "sync_warp"].contains(name));
            let moved = |to: usize| vec![(here.clone(), String::new()), (to..to, format!("\n{text}"))];
            let around = |condition: String| vec![(here.clone(), format!("if {condition} {{ {text} }}"))];
            if let Some(name) = barrier {
                let class = Class::Barriers;
                self.push(class, "drop a barrier", vec![(here.clone(), String::new())]);
                self.push(class, "a barrier twice", vec![(here.end..here.end, format!(" {text}"))]);
                for later in spans.iter().skip(i + 1).take(2) {
                    self.push(class, "move a barrier down", moved(later.end));
                }
                for earlier in spans.iter().take(i).rev().take(2) {
                    self.push(class, "move a barrier up", moved(earlier.start));
                }
                for thread in self.threads.clone() {
                    self.push(class, "a barrier in a thread's if", around(format!("{thread} == 0")));
                }
                let other = if name == "sync_threads" { "sync_warp();" } else { "sync_threads();" };
                self.push(class, "another barrier", vec![(here.clone(), other.into())]);
                continue;
            }
            if matches!(stmt, Stmt::Local(_)) || call.is_some_and(|name| DECLARATIONS.contains(&name.as_str())) {
                continue;
            }
            let class = Class::Statements;
            self.push(class, "drop a statement", vec![(here.clone(), String::new())]);
            self.push(class, "a statement twice", vec![(here.end..here.end, format!(" {text}"))]);
            if let Some(next) = block.stmts.get(i + 1).filter(|next| !matches!(next, Stmt::Local(_))) {
                self.swap(class, "swap statements", stmt, next);
            }
            if let Some(thread) = self.threads.first().filter(|_| matches!(stmt, Stmt::Expr(..))) {
                let replaced = around(format!("{thread} == 0"));
                self.push(class, "a statement in a thread's if", replaced);
            }
            if matches!(stmt, Stmt::Expr(Expr::ForLoop(_), _)) {
                self.push(
                    Class::Barriers,
                    "a barrier before a loop",
                    vec![(here.start..here.start, "sync_threads(); ".into())],
                );
            }
            if matches!(stmt, Stmt::Expr(Expr::Assign(_), _)) {
                let replaced = vec![(here.end..here.end, " sync_threads();".into())];
                self.push(Class::Barriers, "a barrier after an assignment", replaced);
            }
        }
    }

    /// The components of an index, of something that is read or written.
    fn components(&mut self, list: &[&Expr], written: bool) {
        for (i, component) in list.iter().enumerate() {
            let text = self.source(*component).to_owned();
            self.replace(Class::Indices, "an index one more", *component, format!("{text} + 1"));
            self.replace(Class::Indices, "an index one less", *component, format!("{text} - 1"));
            self.replace(Class::Indices, "an index is 0", *component, "0");
            if let Some(next) = list.get(i + 1) {
                self.swap(Class::Indices, "swap indices", *component, *next);
            }
            self.coordinates(component);
            if written {
                self.replace(Class::Stores, "two indices meet in one element", *component, format!("({text}) / 2"));
                self.replace(Class::Stores, "indices meet every 16 elements", *component, format!("({text}) % 16"));
            }
        }
    }

    /// Of an index: factors left out, block and thread indices taken for each other.
    fn coordinates(&mut self, index: &Expr) {
        struct Parts<'ast>(Vec<&'ast syn::ExprBinary>, Vec<&'ast syn::Ident>);
        impl<'ast> Visit<'ast> for Parts<'ast> {
            fn visit_expr_binary(&mut self, node: &'ast syn::ExprBinary) {
                self.0.push(node);
                visit::visit_expr_binary(self, node);
            }
            fn visit_expr_path(&mut self, node: &'ast syn::ExprPath) {
                self.1.extend(node.path.get_ident());
            }
        }
        let mut parts = Parts(vec![], vec![]);
        parts.visit_expr(index);
        for binary in parts.0 {
            let (left, right) = (self.source(&*binary.left).to_owned(), self.source(&*binary.right).to_owned());
            match binary.op {
                BinOp::Mul(_) => self.replace(Class::Indices, "a factor left out", binary, left),
                BinOp::Add(_) => {
                    self.replace(Class::Indices, "a term left out", binary, left.clone());
                    self.replace(Class::Indices, "a term left out", binary, right.clone());
                    self.replace(Class::Benign, "terms the other way around", binary, format!("{right} + {left}"));
                }
                BinOp::Rem(_) => self.replace(Class::Indices, "a remainder left out", binary, left),
                BinOp::Div(_) => self.replace(Class::Indices, "a quotient left out", binary, left),
                _ => {}
            }
        }
        let kinds = [self.blocks.clone(), self.threads.clone()];
        for ident in parts.1 {
            for kind in &kinds {
                if kind.contains(&ident.to_string()) {
                    for other in kind.iter().filter(|other| *ident != **other) {
                        self.replace(Class::Indices, "another block's or thread's index", ident, other.clone());
                    }
                }
            }
        }
    }

    /// An extent of an array, a grid or a loop.
    fn extent(&mut self, class: Class, extent: &Expr) {
        let text = self.source(extent).to_owned();
        for (what, new) in [
            ("an extent one more", format!("{text} + 1")),
            ("an extent one less", format!("{text} - 1")),
            ("an extent doubled", format!("({text}) * 2")),
            ("an extent halved", format!("({text}) / 2")),
        ] {
            self.replace(class, what, extent, new);
        }
        if let Some((name, call)) = called(extent)
            && name == "ceil_div"
            && let [a, b] = call.args.iter().collect::<Vec<_>>()[..]
        {
            let new = format!("({}) / ({})", self.source(a), self.source(b));
            self.replace(class, "rounded down", extent, new);
        }
        if let Expr::Lit(literal) = extent {
            self.taken.push(at(literal));
        }
    }

    fn extents(&mut self, class: Class, list: &Expr) {
        let Some(list) = elements(list) else { return self.extent(class, list) };
        let list: Vec<&Expr> = list.iter().collect();
        list.iter().for_each(|extent| self.extent(class, extent));
        for pair in list.windows(2) {
            self.swap(class, "swap extents", pair[0], pair[1]);
        }
    }

    /// `a..b`.
    fn range(&mut self, range: &syn::ExprRange) {
        if let Some(start) = &range.start {
            let new = format!("{} + 1", self.source(&**start));
            self.replace(Class::Loops, "a loop begins one later", &**start, new);
        }
        if let Some(end) = &range.end {
            self.extent(Class::Loops, end);
        }
    }
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_block(&mut self, block: &'ast Block) {
        self.statements(block);
        visit::visit_block(self, block);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if let Pat::Slice(slice) = &local.pat {
            let names: Vec<&Pat> = slice.elems.iter().collect();
            for pair in names.windows(2) {
                self.swap(Class::Grid, "swap the axes' names", pair[0], pair[1]);
            }
        }
        visit::visit_local(self, local);
    }

    fn visit_expr_if(&mut self, node: &'ast syn::ExprIf) {
        let class = Class::Guards;
        if !matches!(*node.cond, Expr::Let(_)) {
            self.replace(class, "a condition is true", &*node.cond, "true");
            if let (Some(thread), None) = (self.threads.first().cloned(), &node.else_branch) {
                let new = format!("{thread} < 7 && ({})", self.source(&*node.cond));
                self.replace(class, "a condition of a thread", &*node.cond, new);
            }
        }
        visit::visit_expr_if(self, node);
    }

    fn visit_expr_binary(&mut self, node: &'ast syn::ExprBinary) {
        let (left, right) = (self.source(&*node.left).to_owned(), self.source(&*node.right).to_owned());
        let new = |op: &str| format!("{left} {op} {right}");
        match node.op {
            BinOp::Lt(_) => self.replace(Class::Guards, "`<` is `<=`", node, new("<=")),
            BinOp::Le(_) => self.replace(Class::Guards, "`<=` is `<`", node, new("<")),
            BinOp::Ge(_) => self.replace(Class::Guards, "`>=` is `>`", node, new(">")),
            BinOp::Gt(_) => self.replace(Class::Guards, "`>` is `>=`", node, new(">=")),
            BinOp::Eq(_) => self.replace(Class::Guards, "`==` is `!=`", node, new("!=")),
            BinOp::And(_) => {
                self.replace(Class::Guards, "half of a condition", node, left.clone());
                self.replace(Class::Guards, "half of a condition", node, right.clone());
                self.replace(Class::Guards, "`&&` is `||`", node, new("||"));
            }
            BinOp::AddAssign(_) => self.replace(Class::Statements, "`+=` is `=`", node, new("=")),
            _ => {}
        }
        visit::visit_expr_binary(self, node);
    }

    fn visit_expr_assign(&mut self, node: &'ast syn::ExprAssign) {
        self.written(&node.left);
        self.visit_expr(&node.right);
    }

    fn visit_expr_index(&mut self, node: &'ast syn::ExprIndex) {
        self.index(node, false);
        visit::visit_expr(self, &node.index);
    }

    fn visit_expr_call(&mut self, node: &'ast syn::ExprCall) {
        let Expr::Path(path) = &*node.func else { return visit::visit_expr_call(self, node) };
        let Some(ident) = path.path.segments.last().map(|s| &s.ident) else { return };
        let name = ident.to_string();
        let args: Vec<&Expr> = node.args.iter().collect();
        match name.as_str() {
            "alloc_shared" | "alloc_local" | "alloc_fragment" => {
                for other in ["alloc_shared", "alloc_local", "alloc_fragment"] {
                    self.replace(Class::Arrays, "another memory space", ident, other);
                }
                args.iter().for_each(|list| self.extents(Class::Arrays, list));
                return;
            }
            "blocks" | "threads" | "cluster" | "persistent" | "use_swizzle" => {
                args.iter().for_each(|list| self.extents(Class::Grid, list));
                return;
            }
            "parallel" => {
                args.iter().for_each(|list| self.extents(Class::Loops, list));
                return;
            }
            "pipelined" => {
                let range = args.first().map(|range| self.source(*range).to_owned()).unwrap_or_default();
                self.replace(Class::Benign, "a plain loop", node, range);
            }
            "vectorized" => {
                let new = self.source(&node.args).to_owned();
                self.replace(Class::Forms, "unrolled, not vectorised", ident, "unroll");
                self.replace(Class::Forms, "a plain loop, not vectorised", node, new);
            }
            "unroll" => {
                let new = self.source(&node.args).to_owned();
                self.replace(Class::Forms, "vectorised, not unrolled", ident, "vectorized");
                self.replace(Class::Benign, "not unrolled", node, new);
            }
            "shfl_xor" | "shfl_down" | "shfl_up" => {
                for other in ["shfl_xor", "shfl_down"] {
                    self.replace(Class::Forms, "another shuffle", ident, other);
                }
                if let Some(lane) = args.get(1) {
                    let text = self.source(*lane).to_owned();
                    self.replace(Class::Forms, "another lane", *lane, format!("({text}) * 2"));
                    self.replace(Class::Forms, "another lane", *lane, format!("{text} + 1"));
                    self.replace(Class::Forms, "another lane", *lane, format!("{text} + 32"));
                }
            }
            "gemm" | "copy" => {
                if let [a, b, ..] = args[..] {
                    self.swap(Class::Forms, "swap operands", a, b);
                }
                if name == "gemm" {
                    for operand in args.iter().take(2).filter(|a| !matches!(a, Expr::MethodCall(_))) {
                        let text = self.source(*operand).trim_start_matches('&').to_owned();
                        self.replace(Class::Forms, "an operand transposed", *operand, format!("{text}.t()"));
                    }
                }
            }
            "reduce" => {
                if let Some(Expr::Lit(axis)) = args.get(3) {
                    let other = if self.source(axis) == "0" { "1" } else { "0" };
                    self.replace(Class::Forms, "another axis", axis, other);
                }
            }
            "fill" => {
                if let Some(value) = args.get(1) {
                    self.replace(Class::Forms, "filled with something else", *value, "1.0");
                }
            }
            "last_arriver" => {
                if let Some(count) = args.get(1) {
                    let text = self.source(*count).to_owned();
                    self.replace(Class::Attributes, "one more arriver", *count, format!("{text} + 1"));
                    self.replace(Class::Attributes, "one arriver less", *count, format!("{text} - 1"));
                }
            }
            "atomic_add" | "atomic_max" | "atomic_min" => {
                if let [Expr::Reference(place), value] = args[..] {
                    let (place, value) = (self.source(&*place.expr).to_owned(), self.source(value).to_owned());
                    let plain = if name == "atomic_add" { "+=" } else { "=" };
                    self.replace(Class::Stores, "atomic to plain", node, format!("{place} {plain} {value}"));
                }
            }
            _ => {}
        }
        for arg in args {
            match arg {
                // What is passed by `&mut` is written.
                Expr::Reference(reference) if reference.mutability.is_some() && name.starts_with("atomic") => {
                    self.written(&reference.expr);
                }
                Expr::Path(path) if path.path.is_ident("Sum") || path.path.is_ident("Max") => {
                    let other = if path.path.is_ident("Sum") { "Max" } else { "Sum" };
                    self.replace(Class::Forms, "another reduction", path, other);
                }
                other => self.visit_expr(other),
            }
        }
    }

    fn visit_expr_method_call(&mut self, node: &'ast syn::ExprMethodCall) {
        let name = node.method.to_string();
        let receiver = self.source(&*node.receiver).to_owned();
        match (name.as_str(), node.args.first()) {
            ("masked" | "masked_mut" | "at" | "at_mut", Some(list)) => {
                if let Some(list) = elements(list) {
                    let components: Vec<&Expr> = list.iter().collect();
                    self.components(&components, name.ends_with("mut"));
                    if name == "masked" {
                        let plain = match components[..] {
                            [one] => format!("{receiver}[{}]", self.source(one)),
                            _ => format!("{receiver}[{}]", self.source(&node.args)),
                        };
                        self.replace(Class::Guards, "a mask left out", node, plain);
                    }
                }
            }
            ("width", Some(width)) => {
                let text = self.source(width).to_owned();
                for new in [format!("({text}) * 2"), format!("({text}) / 2")] {
                    self.replace(Class::Forms, "another width", width, new);
                }
                self.replace(Class::Benign, "no width", node, receiver);
            }
            ("step_by", Some(step)) => self.extent(Class::Loops, step),
            ("t" | "clear" | "tf32" | "policy" | "swizzle", _) => {
                self.replace(Class::Forms, "a method left out", node, receiver);
            }
            ("tma" | "evict" | "unroll", _) => self.replace(Class::Benign, "a hint left out", node, receiver),
            ("cast", _) => self.replace(Class::Attributes, "a cast left out", node, receiver),
            _ => {}
        }
        visit::visit_expr_method_call(self, node);
    }

    fn visit_expr_for_loop(&mut self, node: &'ast syn::ExprForLoop) {
        if let Pat::Slice(slice) = &*node.pat {
            let class = if called(&node.expr).is_some_and(|(name, _)| name == "persistent") {
                Class::Grid
            } else {
                Class::Loops
            };
            let names: Vec<&Pat> = slice.elems.iter().collect();
            for pair in names.windows(2) {
                self.swap(class, "swap the axes' names", pair[0], pair[1]);
            }
        }
        visit::visit_expr_for_loop(self, node);
    }

    fn visit_expr_range(&mut self, node: &'ast syn::ExprRange) {
        self.range(node);
        visit::visit_expr_range(self, node);
    }

    fn visit_expr_unary(&mut self, node: &'ast syn::ExprUnary) {
        // `*y.masked_mut([i])` is written where it is assigned.
        visit::visit_expr_unary(self, node);
    }

    fn visit_expr_lit(&mut self, node: &'ast syn::ExprLit) {
        if self.taken.contains(&at(node)) {
            return;
        }
        match &node.lit {
            Lit::Int(value) => {
                if let Ok(value) = value.base10_parse::<i64>() {
                    self.replace(Class::Attributes, "a literal one more", node, (value + 1).to_string());
                    if value > 0 {
                        self.replace(Class::Attributes, "a literal one less", node, (value - 1).to_string());
                    }
                }
            }
            Lit::Float(value) => {
                let new = if value.base10_parse::<f64>().is_ok_and(|v| v == 0.0) { "1.0" } else { "0.0" };
                self.replace(Class::Attributes, "another literal", node, format!("{new}{}", value.suffix()));
            }
            _ => {}
        }
    }
}

impl Walk<'_> {
    /// What stands left of `=`, or is passed to an atomic.
    fn written(&mut self, place: &Expr) {
        match place {
            Expr::Index(index) => {
                self.index(index, true);
                self.visit_expr(&index.index);
            }
            Expr::Unary(unary) => {
                if let Expr::MethodCall(call) = &*unary.expr
                    && call.method == "masked_mut"
                    && let Some(list) = call.args.first().and_then(elements)
                {
                    let receiver = self.source(&*call.receiver);
                    let plain = match list.len() {
                        1 => format!("{receiver}[{}]", self.source(list)),
                        _ => format!("{receiver}[{}]", self.source(&call.args)),
                    };
                    self.replace(Class::Guards, "a mask left out", unary, plain);
                }
                self.visit_expr(&unary.expr);
            }
            other => self.visit_expr(other),
        }
    }

    fn index(&mut self, node: &syn::ExprIndex, written: bool) {
        match &*node.index {
            Expr::Array(list) => {
                let components: Vec<&Expr> = list.elems.iter().collect();
                self.components(&components, written);
            }
            one => self.components(&[one], written),
        }
    }
}

/// The constants of `instances(..)`.
impl Walk<'_> {
    fn constants(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for item in tokens.split(|t| matches!(t, TokenTree::Punct(comma) if comma.as_char() == ',')) {
            let names: Vec<String> = match item.first() {
                Some(TokenTree::Ident(name)) if name == "where" => continue,
                Some(TokenTree::Ident(name)) => vec![name.to_string()],
                Some(TokenTree::Group(group)) => group
                    .stream()
                    .into_iter()
                    .filter(|t| matches!(t, TokenTree::Ident(_)))
                    .map(|t| t.to_string())
                    .collect(),
                _ => continue,
            };
            for token in item.iter().skip(1) {
                match token {
                    TokenTree::Group(list) if list.delimiter() == Delimiter::Bracket => {
                        self.values(&names, list.stream());
                    }
                    TokenTree::Literal(literal) => self.constant(&names[0], literal),
                    _ => {}
                }
            }
        }
    }

    fn values(&mut self, names: &[String], tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Literal(literal) if names.len() == 1 => self.constant(&names[0], &literal),
                TokenTree::Group(tuple) => {
                    let literals = tuple.stream().into_iter().filter(|t| !matches!(t, TokenTree::Punct(_))).zip(names);
                    for (literal, name) in literals.collect::<Vec<_>>() {
                        if let TokenTree::Literal(literal) = literal {
                            self.constant(name, &literal);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn constant(&mut self, name: &str, literal: &proc_macro2::Literal) {
        let Ok(value) = literal.to_string().parse::<i64>() else { return };
        let class = if is_benign(name) { Class::Benign } else { Class::Attributes };
        let new = match class {
            Class::Benign => vec![value + 1, (value - 1).max(1), 1],
            _ => vec![value * 2, value / 2, value + 1],
        };
        for new in new {
            let range = literal.span().byte_range();
            self.push(class, "another constant of an instance", vec![(range, new.to_string())]);
        }
    }
}

/// Whether a list's name has to do with stages or unrolling.
fn is_benign(name: &str) -> bool {
    ["STAGES", "UNROLL"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const KERNEL: &str = "#[tile_kernel(instances(BM = 64), require(N % 4 == 0))]
pub fn k<const BM: usize>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let [bx, by] = blocks([ceil_div(N, BM), M]);
    let [t] = threads([BM]);
    let mut s = alloc_shared::<f32>([BM]);
    s[t] = x.masked([by, bx * BM + t]);
    sync_threads();
    let v = shfl_xor(s[t], 1);
    for i in 0..4 {
        if t < N - 1 {
            atomic_add(&mut y[[by, bx]], s[i] + v);
        }
    }
}";

    #[test]
    fn every_class_has_edits_and_every_edit_parses() {
        let mut classes = BTreeMap::<Class, usize>::new();
        for edit in edits(KERNEL) {
            let text = edit.apply(KERNEL);
            assert_ne!(text, KERNEL, "{edit:?}");
            assert!(syn::parse_str::<ItemFn>(&text).is_ok(), "{edit:?}\n{text}");
            *classes.entry(edit.class).or_default() += 1;
        }
        assert_eq!(classes.len(), Class::ALL.len(), "{classes:?}");
    }
}
