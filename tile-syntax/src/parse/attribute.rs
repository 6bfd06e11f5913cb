//! The attribute: a list of items, each read on its own, so that a mistake in one leaves the others.

use super::function::Origin;
use super::range::Range;
use super::{AttributeInfo, Binding, Parser, source};
use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};
use syn::Expr;
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{
    BinaryOp, Dtype, ExprId, ExprKind, ParamId, ParamKind, Require, SpanId, Specialize, Target, Trigger, Type,
};

/// What the attribute says, before the signature gives it meaning.
#[derive(Default)]
pub(super) struct Entries {
    pub(super) info: AttributeInfo,
    /// `dtypes(T in [..])`.
    pub(super) dtypes: Vec<(Ident, Vec<Dtype>)>,
    /// The lists of `instances(..)`.
    pub(super) groups: Vec<ValueGroup>,
    /// `where` in `instances(..)`.
    pub(super) filters: Vec<Expr>,
    /// Where `instances` stands.
    pub(super) instances_at: Option<SpanId>,
    /// Whether a part of `instances(..)` could not be read: what it lacks is then not reported.
    pub(super) instances_damaged: bool,
    pub(super) requires: Vec<(Expr, String, SpanId)>,
    /// `stream(..)`, before the signature gives the names meaning.
    streams: Vec<Ident>,
    partial: Vec<Ident>,
    /// `specialize(..)`, before the signature gives the names meaning: the dims, `max`, and where it stands.
    specialize: Option<(Vec<Ident>, u32, SpanId)>,
    /// `pdl(independent = [..])`, likewise.
    pub(super) independent: Option<(Vec<Ident>, Trigger)>,
    pub(super) seen: Vec<String>,
}

/// `(A, B) in [(1, 2), ..]`: names, and one row of values a combination.
pub(super) struct ValueGroup {
    pub(super) names: Vec<Ident>,
    /// Each row as written, with a value for each name.
    pub(super) rows: Vec<Vec<Expr>>,
}

/// `specialize` as it is written, for messages.
const SPECIALIZE: &str = "specialize(K) or specialize(K, max = 32)";

/// The items of the attribute, for messages.
const ITEMS: &str =
    "instances, dtypes, require, uses, targets, min_blocks, stream, partial, specialize, pdl, lints, crate";

impl Parser {
    /// Reads the attribute's tokens.
    pub(super) fn attribute(&mut self, tokens: TokenStream) -> Entries {
        let mut entries = Entries::default();
        for item in self.comma_separated(tokens) {
            self.item(&mut entries, &item);
        }
        entries
    }

    /// The items of a list. An empty one is reported; a trailing comma is not. Commas between the generics of a path, `f::<A, B>`,
    /// separate no items.
    pub(super) fn comma_separated(&mut self, tokens: TokenStream) -> Vec<Vec<TokenTree>> {
        let mut items: Vec<Vec<TokenTree>> = vec![vec![]];
        let mut angles = 0u32;
        for token in tokens {
            match (&token, items.last().map(Vec::as_slice)) {
                (TokenTree::Punct(open), Some([.., first, second])) if open.as_char() == '<' => {
                    let path = [first, second].iter().all(|t| matches!(t, TokenTree::Punct(p) if p.as_char() == ':'));
                    angles += u32::from(path || angles > 0);
                }
                (TokenTree::Punct(close), _) if close.as_char() == '>' => angles = angles.saturating_sub(1),
                _ => {}
            }
            match token {
                TokenTree::Punct(comma) if comma.as_char() == ',' && angles == 0 => {
                    if items.last().is_some_and(Vec::is_empty) {
                        self.attribute_error(comma.span(), "nothing stands before this comma", "remove the comma");
                    } else {
                        items.push(vec![]);
                    }
                }
                token => match items.last_mut() {
                    Some(item) => item.push(token),
                    None => items.push(vec![token]),
                },
            }
        }
        items.retain(|item| !item.is_empty());
        items.into_iter().map(without_group).collect()
    }

    pub(super) fn attribute_error(&mut self, range: impl Into<Range>, message: impl Into<String>, help: &str) {
        let at = self.mark(range);
        self.error(Diagnostic::new(Code::ATTRIBUTE, at, message).help(help));
    }

    fn item(&mut self, entries: &mut Entries, item: &[TokenTree]) {
        let Some(TokenTree::Ident(name)) = item.first() else {
            return self.attribute_error(tokens_range(item), "this is not an item of #[tile_kernel]", ITEMS);
        };
        let (word, rest) = (name.to_string(), &item[1..]);
        if word != "require" && word != "dtypes" {
            if entries.seen.contains(&word) {
                let message = format!("`{word}` is given twice");
                return self.attribute_error(name.span(), message, "merge the two");
            }
            entries.seen.push(word.clone());
        }
        match (word.as_str(), rest) {
            ("crate", [TokenTree::Punct(eq), path @ ..]) if eq.as_char() == '=' => {
                match syn::parse2(path.iter().cloned().collect()) {
                    Ok(path) => entries.info.crate_path = Some(path),
                    Err(_) => {
                        self.attribute_error(tokens_range(item), "`crate` takes a path", "crate = ::tile_runtime")
                    }
                }
            }
            ("min_blocks", [TokenTree::Punct(eq), value]) if eq.as_char() == '=' => self.min_blocks(name, Some(value)),
            (_, [TokenTree::Group(list)]) if list.delimiter() == Delimiter::Parenthesis => {
                self.list_item(entries, name, &word, list);
            }
            _ => self.unknown_item(name, &word),
        }
    }

    fn unknown_item(&mut self, name: &Ident, word: &str) {
        let help = match word {
            "instances" => "instances(BM in [64, 128])",
            "dtypes" => "dtypes(T in [f16, f32])",
            "require" => "require(K % 8 == 0)",
            "uses" => "uses(activation)",
            "targets" => "targets(sm_80, sm_90a)",
            "min_blocks" => "min_blocks(2)",
            "stream" => "stream(w)",
            "partial" => "partial(y)",
            "specialize" => SPECIALIZE,
            "pdl" => "pdl(independent = [w])",
            "lints" => "lints(TK0601 = \"deny\")",
            "crate" => "crate = ::tile_runtime",
            _ => {
                let message = format!("#[tile_kernel] has no item `{word}`");
                let items = format!("it has {ITEMS}");
                return self.attribute_error(name.span(), message, &items);
            }
        };
        self.attribute_error(name.span(), format!("`{word}` is written otherwise"), help);
    }

    fn list_item(&mut self, entries: &mut Entries, name: &Ident, word: &str, list: &Group) {
        match word {
            "instances" => {
                entries.instances_at = Some(self.mark(Range { first: name.span(), last: list.span_close() }));
                self.instance_lists(entries, list.stream());
            }
            "dtypes" => {
                for item in self.comma_separated(list.stream()) {
                    self.dtype_list(entries, &item);
                }
            }
            "require" => {
                for item in self.comma_separated(list.stream()) {
                    self.require(entries, &item);
                }
            }
            "uses" => {
                for item in self.comma_separated(list.stream()) {
                    self.used_function(&item);
                }
            }
            "targets" => {
                for item in self.comma_separated(list.stream()) {
                    self.target(&item);
                }
            }
            "min_blocks" => match without_group(list.stream().into_iter().collect()).as_slice() {
                [value] => self.min_blocks(name, Some(value)),
                _ => self.min_blocks(name, None),
            },
            "lints" => {
                for item in self.comma_separated(list.stream()) {
                    self.lint(&item);
                }
            }
            "stream" => {
                for item in self.comma_separated(list.stream()) {
                    match item.as_slice() {
                        [TokenTree::Ident(tensor)] => entries.streams.push(tensor.clone()),
                        _ => {
                            let message = "`stream` takes the names of tensors";
                            self.attribute_error(tokens_range(&item), message, "stream(w)");
                        }
                    }
                }
            }
            "partial" => {
                for item in self.comma_separated(list.stream()) {
                    match item.as_slice() {
                        [TokenTree::Ident(tensor)] => entries.partial.push(tensor.clone()),
                        _ => {
                            let message = "`partial` takes the names of tensors";
                            self.attribute_error(tokens_range(&item), message, "partial(y)");
                        }
                    }
                }
            }
            "specialize" => {
                let at = self.mark(Range { first: name.span(), last: list.span_close() });
                self.specialize_list(entries, list, at);
            }
            "pdl" => self.pdl(entries, name, list),
            _ => self.unknown_item(name, word),
        }
    }

    /// A path in `uses(..)`: the functions themselves come with the expansion (`crate::link`).
    fn used_function(&mut self, item: &[TokenTree]) {
        const HELP: &str = "uses(activation, epilogue::scale)";
        let Some(path) = crate::link::path(item) else {
            return self.attribute_error(tokens_range(item), "`uses` takes the names of `#[tile_fn]`s", HELP);
        };
        if super::outside::is_function(&path) {
            let message = format!("`{path}` is a function of the language");
            self.attribute_error(tokens_range(item), message, "give yours another name");
        }
        if self.functions.iter().any(|f| f.path == path && f.origin == Origin::AnotherVersion) {
            let message = format!("the crate of `{path}` was compiled with another version of the language");
            self.attribute_error(tokens_range(item), message, "let both crates depend on one version of tile-runtime");
        }
    }

    /// `specialize(K, max = 32)`.
    fn specialize_list(&mut self, entries: &mut Entries, list: &Group, at: SpanId) {
        let (mut dims, mut max, mut damaged) = (vec![], None, false);
        for item in self.comma_separated(list.stream()) {
            match item.as_slice() {
                [TokenTree::Ident(dim)] => dims.push(dim.clone()),
                [TokenTree::Ident(word), TokenTree::Punct(eq), value] if word == "max" && eq.as_char() == '=' => {
                    if max.is_some() {
                        self.attribute_error(word.span(), "`max` is given twice", "remove one");
                    }
                    let number = match value {
                        TokenTree::Literal(literal) => integer(literal).and_then(|n| u32::try_from(n).ok()),
                        _ => None,
                    };
                    max = Some(number.filter(|n| *n > 0).unwrap_or_else(|| {
                        let message = "`max` is how many variants are kept: at least 1";
                        self.attribute_error(value.span(), message, SPECIALIZE);
                        Specialize::MAX
                    }));
                }
                _ => {
                    damaged = true;
                    self.attribute_error(tokens_range(&item), "`specialize` takes the names of dims", SPECIALIZE);
                }
            }
        }
        if dims.is_empty() {
            if !damaged {
                self.attribute_error(list.delim_span(), "`specialize` names no dim", SPECIALIZE);
            }
            return;
        }
        if let Some(beyond) = dims.get(Specialize::MOST_DIMS) {
            let message = format!("`specialize` takes at most {} dims", Specialize::MOST_DIMS);
            self.attribute_error(beyond.span(), message, "name the dims that loops and extents are made of");
        }
        entries.specialize = Some((dims, max.unwrap_or(Specialize::MAX), at));
    }

    /// `(A, B) in [(..), ..]`, `C in [..]`, `D = value`, `where condition`; the comma before `where` may be absent.
    fn instance_lists(&mut self, entries: &mut Entries, tokens: TokenStream) {
        for item in self.comma_separated(tokens) {
            let split = item.iter().position(|t| is_word(t, "where")).unwrap_or(item.len());
            let (list, filter) = item.split_at(split);
            if !list.is_empty() && self.instance_list(entries, list).is_none() {
                entries.instances_damaged = true;
            }
            if let [keyword, condition @ ..] = filter {
                match parse_expr(condition) {
                    Some(condition) => entries.filters.push(condition),
                    None => {
                        entries.instances_damaged = true;
                        self.attribute_error(keyword.span(), "`where` takes a condition", "where BM * BN <= 16384");
                    }
                }
            }
        }
    }

    fn instance_list(&mut self, entries: &mut Entries, item: &[TokenTree]) -> Option<()> {
        const HELP: &str = "BM in [64, 128], (BM, BN) in [(64, 128), (128, 64)], or BK = 64";
        let (names, tuple) = match item.first() {
            Some(TokenTree::Ident(name)) => (vec![name.clone()], false),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
                let mut names = vec![];
                for part in self.comma_separated(group.stream()) {
                    let [TokenTree::Ident(name)] = part.as_slice() else {
                        self.attribute_error(tokens_range(&part), "this is not the name of a const parameter", HELP);
                        return None;
                    };
                    names.push(name.clone());
                }
                (names, true)
            }
            _ => {
                self.attribute_error(tokens_range(item), "this is not a list of values", HELP);
                return None;
            }
        };
        let rows = match item.get(1..) {
            Some([TokenTree::Punct(eq), value @ ..]) if eq.as_char() == '=' && !value.is_empty() => {
                vec![value.to_vec()]
            }
            Some([word, TokenTree::Group(list)]) if is_word(word, "in") && list.delimiter() == Delimiter::Bracket => {
                self.comma_separated(list.stream())
            }
            _ => {
                self.attribute_error(tokens_range(item), "this is not a list of values", HELP);
                return None;
            }
        };
        let mut group = ValueGroup { names, rows: vec![] };
        for row in &rows {
            let values = if tuple { self.tuple_row(&group.names, row)? } else { vec![self.value_expr(row)?] };
            group.rows.push(values);
        }
        if group.rows.is_empty() {
            self.attribute_error(tokens_range(item), "the list of values is empty", HELP);
            return None;
        }
        entries.groups.push(group);
        Some(())
    }

    fn tuple_row(&mut self, names: &[Ident], row: &[TokenTree]) -> Option<Vec<Expr>> {
        let [TokenTree::Group(group)] = row else {
            let help = format!("write one value for each of {}", names.len());
            self.attribute_error(tokens_range(row), "this is not a tuple of values", &help);
            return None;
        };
        let parts = self.comma_separated(group.stream());
        if parts.len() != names.len() || group.delimiter() != Delimiter::Parenthesis {
            let names: Vec<String> = names.iter().map(Ident::to_string).collect();
            let message = format!("this tuple has {} values for {} names", parts.len(), names.len());
            let help = format!("write one value each for {}", names.join(", "));
            self.attribute_error(group.delim_span(), message, &help);
            return None;
        }
        parts.iter().map(|part| self.value_expr(part)).collect()
    }

    fn value_expr(&mut self, tokens: &[TokenTree]) -> Option<Expr> {
        let value = parse_expr(tokens);
        if value.is_none() {
            self.attribute_error(tokens_range(tokens), "this is not a value", "write an integer, `true` or `false`");
        }
        value
    }

    fn dtype_list(&mut self, entries: &mut Entries, item: &[TokenTree]) {
        const HELP: &str = "dtypes(T in [f16, f32])";
        let [TokenTree::Ident(name), word, TokenTree::Group(list)] = item else {
            return self.attribute_error(tokens_range(item), "this is not a list of dtypes", HELP);
        };
        if !is_word(word, "in") || list.delimiter() != Delimiter::Bracket {
            return self.attribute_error(tokens_range(item), "this is not a list of dtypes", HELP);
        }
        if entries.dtypes.iter().any(|(other, _)| other == name) {
            return self.attribute_error(
                name.span(),
                format!("the dtypes of `{name}` are given twice"),
                "merge the two",
            );
        }
        let mut dtypes = vec![];
        for part in self.comma_separated(list.stream()) {
            let found = match part.as_slice() {
                [TokenTree::Ident(dtype)] => Dtype::from_name(&dtype.to_string()),
                _ => None,
            };
            match found {
                Some(dtype) if dtypes.contains(&dtype) => {
                    let message = format!("`{dtype}` is listed twice");
                    self.attribute_error(tokens_range(&part), message, "remove one");
                }
                Some(dtype) => dtypes.push(dtype),
                None => {
                    let text = source::text(&part.iter().cloned().collect());
                    let at = self.mark(tokens_range(&part));
                    let message = format!("`{text}` is not a dtype of this version of the language");
                    self.error(
                        Diagnostic::new(Code::DTYPE, at, message)
                            .help(format!("use {}", super::types::element_types())),
                    );
                }
            }
        }
        entries.dtypes.push((name.clone(), dtypes));
    }

    fn require(&mut self, entries: &mut Entries, item: &[TokenTree]) {
        let range = tokens_range(item);
        match parse_expr(item) {
            Some(condition) => {
                let at = self.mark(range);
                let text = source::text(&item.iter().cloned().collect());
                entries.requires.push((condition, text, at));
            }
            None => self.attribute_error(range, "`require` takes a condition", "require(K % 8 == 0)"),
        }
    }

    /// Gives `require(..)` its meaning, once dims and parameters are known.
    pub(super) fn requires(&mut self, entries: &mut Entries) {
        for (condition, text, span) in std::mem::take(&mut entries.requires) {
            let place = "`require(..)`, which is checked before the launch";
            let read = self.in_place(place, |p| p.expr(&condition).and_then(|cond| p.demand(cond, Type::BOOL)));
            let conditions = read.map(|cond| self.conjuncts(cond)).unwrap_or_default();
            for &cond in &conditions {
                // A condition of several is known by its own text, wherever it is written.
                let own = || self.kernel.source.text_at(self.kernel.spans[self.kernel.exprs[cond].span]);
                let text = if conditions.len() == 1 { None } else { own() }.unwrap_or_else(|| text.clone());
                self.kernel.requires.push(Require { cond, text, span });
            }
            entries.info.requires.push(condition);
        }
    }

    /// The conditions that `cond` joins by `&&`: a launch says which of them does not hold.
    fn conjuncts(&self, cond: ExprId) -> Vec<ExprId> {
        match self.kernel.exprs[cond].kind {
            ExprKind::Binary(BinaryOp::And, left, right) => [left, right].map(|side| self.conjuncts(side)).concat(),
            _ => vec![cond],
        }
    }

    /// The parameter that an option lists. `None` where there is none, or where it has a mistake that is reported where it stands.
    pub(super) fn listed_parameter(&mut self, name: &Ident, option: &str) -> Option<(ParamId, ParamKind)> {
        let found = self.kernel.params.iter().find(|(_, p)| name == &p.name);
        if let Some((id, param)) = found {
            return Some((id, param.kind.clone()));
        }
        if !matches!(self.lookup(&name.to_string()), Some(Binding::Poison)) {
            let message = format!("the kernel has no parameter `{name}`");
            self.attribute_error(name.span(), message, &format!("`{option}` takes the names of tensors"));
        }
        None
    }

    /// Gives `stream(..)` its meaning, once the parameters are known.
    pub(super) fn streams(&mut self, entries: &mut Entries) {
        for name in std::mem::take(&mut entries.streams) {
            let Some((param, kind)) = self.listed_parameter(&name, "stream") else { continue };
            match kind {
                ParamKind::Tensor { .. } if self.kernel.attributes.stream.contains(&param) => {
                    self.attribute_error(name.span(), format!("`{name}` is listed twice"), "remove one");
                }
                ParamKind::Tensor { .. } => self.kernel.attributes.stream.push(param),
                ParamKind::Scalar { .. } | ParamKind::Absent => {
                    let message = format!("`{name}` is a scalar: only tensors are streamed");
                    self.attribute_error(name.span(), message, "remove it");
                }
            }
        }
    }

    /// Gives `partial(..)` its meaning, once the parameters are known.
    pub(super) fn partial(&mut self, entries: &mut Entries) {
        for name in std::mem::take(&mut entries.partial) {
            let Some((param, kind)) = self.listed_parameter(&name, "partial") else { continue };
            match kind {
                ParamKind::Tensor { mutable: true, .. } if self.kernel.attributes.partial.contains(&param) => {
                    self.attribute_error(name.span(), format!("`{name}` is listed twice"), "remove one");
                }
                ParamKind::Tensor { mutable: true, .. } => self.kernel.attributes.partial.push(param),
                ParamKind::Tensor { .. } | ParamKind::Scalar { .. } | ParamKind::Absent => {
                    let message = format!("`{name}` is not written by the kernel: there is nothing to leave out");
                    self.attribute_error(name.span(), message, "`partial` takes `&mut` tensors: remove it");
                }
            }
        }
    }

    /// Gives `specialize(..)` its meaning, once the dims are known.
    pub(super) fn specialize(&mut self, entries: &mut Entries) {
        let Some((names, max, span)) = entries.specialize.take() else { return };
        let mut dims = vec![];
        for name in names {
            let text = name.to_string();
            match self.kernel.dims.iter().find(|(_, dim)| dim.name == text).map(|(id, _)| id) {
                Some(dim) if dims.contains(&dim) => {
                    self.attribute_error(name.span(), format!("`{name}` is listed twice"), "remove one");
                }
                Some(dim) => dims.push(dim),
                None => self.no_dim(&name, &text),
            }
        }
        dims.truncate(Specialize::MOST_DIMS);
        if !dims.is_empty() {
            self.kernel.attributes.specialize = Some(Specialize { dims, max, span });
        }
    }

    /// A name in `specialize(..)` that is no dim.
    fn no_dim(&mut self, name: &Ident, text: &str) {
        let at = self.mark(name.span());
        let kernel = &self.kernel;
        let constant = kernel.consts.values().find(|c| c.name == text);
        let param = kernel.params.values().find(|p| p.name == text);
        let diagnostic = if let Some(constant) = constant {
            let message = format!("`{text}` is a const parameter: every instance has its value already");
            Diagnostic::new(Code::ATTRIBUTE, at, message).label(constant.span, "declared here").help("remove it")
        } else if let Some(param) = param {
            let message = format!("`{text}` is a parameter: only dims are specialised");
            let help = "name the dims of its shape";
            Diagnostic::new(Code::ATTRIBUTE, at, message).label(param.span, "declared here").help(help)
        } else {
            let dims: Vec<String> = kernel.dims.values().map(|d| format!("`{}`", d.name)).collect();
            let help = match dims.as_slice() {
                [] => "a dim is a name in a tensor's shape: `x: &Tensor<f32, (K,)>`".to_owned(),
                dims => format!("its dims are {}", dims.join(", ")),
            };
            Diagnostic::new(Code::ATTRIBUTE, at, format!("`{text}` is no dim of a tensor of this kernel")).help(help)
        };
        self.error(diagnostic);
    }

    fn target(&mut self, item: &[TokenTree]) {
        let text = source::text(&item.iter().cloned().collect());
        match Target::ALL.into_iter().find(|t| t.name() == text) {
            Some(target) if self.kernel.targets.contains(&target) => {
                self.attribute_error(tokens_range(item), format!("`{target}` is listed twice"), "remove one");
            }
            Some(target) => self.kernel.targets.push(target),
            None => {
                let message = format!("`{text}` is not a target");
                self.attribute_error(tokens_range(item), message, "targets(sm_80, sm_90a)");
            }
        }
    }

    fn min_blocks(&mut self, name: &Ident, value: Option<&TokenTree>) {
        let blocks = match value {
            Some(TokenTree::Literal(literal)) => integer(literal).filter(|&n| (1..=32).contains(&n)),
            _ => None,
        };
        match blocks {
            Some(blocks) => self.kernel.attributes.min_blocks = Some(blocks as u32),
            None => {
                let span = value.map_or(name.span(), TokenTree::span);
                self.attribute_error(span, "`min_blocks` takes a number of blocks from 1 to 32", "min_blocks(2)");
            }
        }
    }

    fn lint(&mut self, item: &[TokenTree]) {
        const HELP: &str = "lints(TK0601 = \"deny\")";
        let (code, level) = match item {
            [TokenTree::Ident(code), TokenTree::Punct(eq), TokenTree::Literal(level)] if eq.as_char() == '=' => {
                (code, level)
            }
            _ => return self.attribute_error(tokens_range(item), "this is not a lint and its level", HELP),
        };
        let (name, text) = (code.to_string(), level.to_string());
        let mut lints = Code::ALL.iter().filter(|(c, _)| c.is_lint()).map(|(c, _)| c.to_string());
        if !lints.any(|lint| lint == name) {
            return self.attribute_error(code.span(), format!("`{name}` is not a lint"), HELP);
        }
        match text.trim_matches('"') {
            level @ ("warn" | "deny" | "off") => self.kernel.attributes.lints.push((name, level.to_owned())),
            _ => {
                let message = format!("{text} is not a lint level");
                self.attribute_error(level.span(), message, "\"warn\", \"deny\" or \"off\"");
            }
        }
    }
}

/// What a macro passed on as one piece, piece by piece.
fn without_group(item: Vec<TokenTree>) -> Vec<TokenTree> {
    match item.as_slice() {
        [TokenTree::Group(group)] if group.delimiter() == Delimiter::None => {
            without_group(group.stream().into_iter().collect())
        }
        _ => item,
    }
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

fn integer(literal: &Literal) -> Option<u64> {
    let literal: syn::LitInt = syn::parse2(TokenTree::from(literal.clone()).into()).ok()?;
    literal.base10_parse().ok()
}

/// An expression made of all these tokens.
fn parse_expr(tokens: &[TokenTree]) -> Option<Expr> {
    let tokens: TokenStream = tokens.iter().cloned().collect();
    super::tokens::shallow(&tokens).then(|| syn::parse2(tokens).ok())?
}

/// First and last token of some tokens.
pub(super) fn tokens_range(tokens: &[TokenTree]) -> Range {
    let first = match tokens.first() {
        Some(TokenTree::Group(group)) => group.span_open(),
        Some(token) => token.span(),
        None => Span::call_site(),
    };
    let last = match tokens.last() {
        Some(TokenTree::Group(group)) => group.span_close(),
        Some(token) => token.span(),
        None => first,
    };
    Range { first, last }
}
