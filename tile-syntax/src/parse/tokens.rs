//! The item's tokens as a function.

use super::attribute::tokens_range;
use super::range::Range;
use super::{Parser, source};
use proc_macro2::{Delimiter, Group, Punct, Spacing, TokenStream, TokenTree};
use syn::ItemFn;
use tile_ir::diag::{Code, Diagnostic};

impl Parser {
    /// Parses the item. A literal dim such as `(M, 128)` is no Rust, so it is replaced, with an error, and the rest
    /// is read.
    pub(super) fn function(&mut self, item: TokenStream) -> Option<ItemFn> {
        if !shallow(&item) {
            let at: Vec<TokenTree> = item.into_iter().collect();
            self.syntax(tokens_range(&at), "this kernel is nested too deeply", "split it up");
            return None;
        }
        match syn::parse2::<ItemFn>(item.clone()) {
            Ok(function) => Some(function),
            Err(error) => {
                let (mut literals, mut lists) = (vec![], vec![]);
                let fixed = fix_index_lists(fix_literal_dims(item, &mut literals), &mut lists);
                for (name, group) in &lists {
                    let at = self.mark(Range { first: name.span(), last: group.span_close() });
                    let message = format!("the indices of `{name}` stand in one bracket");
                    let help = format!("write `{name}[[{}]]`", source::text(&group.stream()));
                    self.unsupported(Diagnostic::new(Code::SYNTAX, at, message).help(help));
                }
                for literal in &literals {
                    let text = literal.to_string();
                    let at = self.mark(literal.span());
                    let diagnostic = Diagnostic::new(Code::DIM, at, format!("`{text}` is not a dim"));
                    self.unsupported(diagnostic.help(format!("a constant extent is written `Fixed<{text}>`")));
                }
                match syn::parse2::<ItemFn>(fixed) {
                    Ok(function) if !literals.is_empty() || !lists.is_empty() => Some(function),
                    _ => {
                        if literals.is_empty() && lists.is_empty() {
                            self.syntax(error.span(), format!("this cannot be read as a function: {error}"), "");
                        }
                        None
                    }
                }
            }
        }
    }
}

/// Whether tokens are nested little enough for a recursive parser's stack.
pub(super) fn shallow(tokens: &TokenStream) -> bool {
    /// Groups in groups.
    const DEEPEST: u32 = 80;
    /// Prefix operators, `else`s and the like in a row: every one is a call of the parser inside the last.
    const LONGEST_RUN: u32 = 200;
    fn within(tokens: TokenStream, depth: u32) -> bool {
        let (mut run, mut after_block, mut after_operand) = (0, false, false);
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            // A block ends a statement, and with it a run, unless an `else` follows.
            if std::mem::take(&mut after_block) && !matches!(&token, TokenTree::Ident(word) if word == "else") {
                run = 0;
            }
            // Operators between operands are read in a loop: they are no calls inside each other.
            if std::mem::replace(&mut after_operand, !matches!(token, TokenTree::Punct(_)))
                && let TokenTree::Punct(first) = &token
                && let Some(length) = joins(first, tokens.peek())
            {
                (1..length).for_each(|_| drop(tokens.next()));
                continue;
            }
            match &token {
                TokenTree::Group(group) => {
                    if depth == 0 || !within(group.stream(), depth - 1) {
                        return false;
                    }
                    after_block = group.delimiter() == Delimiter::Brace;
                }
                TokenTree::Punct(punct) if matches!(punct.as_char(), ';' | ',') => run = 0,
                TokenTree::Punct(_) => run += 1,
                TokenTree::Ident(word) if word == "let" || word == "for" => run = 0,
                TokenTree::Ident(word) if word == "else" || word == "return" || word == "break" => run += 1,
                _ => {}
            }
            if run > LONGEST_RUN {
                return false;
            }
        }
        true
    }
    within(tokens.clone(), DEEPEST)
}

/// How many tokens the operator is that `first` begins after an operand, if it is one that is read in a loop. Assignments are
/// not, nor is `<`, which may begin the arguments of a type.
fn joins(first: &Punct, next: Option<&TokenTree>) -> Option<usize> {
    let next = match next {
        Some(TokenTree::Punct(next)) if first.spacing() == Spacing::Joint => Some(next.as_char()),
        _ => None,
    };
    match (first.as_char(), next) {
        ('&', Some('&')) | ('|', Some('|')) | ('=' | '!' | '>', Some('=')) => Some(2),
        ('+' | '-' | '*' | '/' | '%' | '^' | '&' | '|', Some('=' | '>')) => None,
        ('+' | '-' | '*' | '/' | '%' | '^' | '&' | '|', _) => Some(1),
        _ => None,
    }
}

/// Replaces literals in the dims of tensors by `Fixed<..>` and lists them.
fn fix_literal_dims(tokens: TokenStream, literals: &mut Vec<proc_macro2::Literal>) -> TokenStream {
    let mut after_tensor = 0_u32;
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Ident(ident) => {
                if ident == "Tensor" {
                    // `Tensor < T , (dims)`: the dims are at most a few tokens on.
                    after_tensor = 8;
                }
                TokenTree::Ident(ident)
            }
            TokenTree::Group(group) => {
                let dims = after_tensor > 0 && group.delimiter() == Delimiter::Parenthesis;
                after_tensor = 0;
                let inner = if dims {
                    // The literal of `Fixed<128>` is in its place.
                    let mut within = false;
                    let fix = |token| match &token {
                        _ if std::mem::take(&mut within) => vec![token],
                        TokenTree::Punct(punct) => {
                            within = punct.as_char() == '<';
                            vec![token]
                        }
                        _ => fixed_literal(token, literals),
                    };
                    group.stream().into_iter().flat_map(fix).collect()
                } else {
                    fix_literal_dims(group.stream(), literals)
                };
                let mut replaced = Group::new(group.delimiter(), inner);
                replaced.set_span(group.span());
                TokenTree::Group(replaced)
            }
            other => {
                after_tensor = after_tensor.saturating_sub(1);
                other
            }
        })
        .collect()
}

/// Replaces `y[row, t]`, which is no Rust, by `y[[row, t]]`, and lists what is indexed with the bracket.
fn fix_index_lists(tokens: TokenStream, lists: &mut Vec<(proc_macro2::Ident, Group)>) -> TokenStream {
    let mut before: Option<proc_macro2::Ident> = None;
    let mut fixed = TokenStream::new();
    for token in tokens {
        let indexed = before.take();
        match token {
            TokenTree::Group(group) => {
                let inner = fix_index_lists(group.stream(), lists);
                let is_list = group.delimiter() == Delimiter::Bracket && has_comma(&group.stream());
                let inner = match indexed {
                    Some(name) if is_list => {
                        lists.push((name, group.clone()));
                        let mut list = Group::new(Delimiter::Bracket, inner);
                        list.set_span(group.span());
                        TokenTree::Group(list).into()
                    }
                    _ => inner,
                };
                let mut replaced = Group::new(group.delimiter(), inner);
                replaced.set_span(group.span());
                fixed.extend([TokenTree::Group(replaced)]);
            }
            TokenTree::Ident(ident) => {
                before = (!KEYWORDS.contains(&ident.to_string().as_str())).then(|| ident.clone());
                fixed.extend([TokenTree::Ident(ident)]);
            }
            other => fixed.extend([other]),
        }
    }
    fixed
}

/// Words that a bracket may follow which is no index.
const KEYWORDS: [&str; 8] = ["let", "for", "in", "return", "if", "else", "mut", "ref"];

fn has_comma(tokens: &TokenStream) -> bool {
    tokens.clone().into_iter().any(|t| matches!(t, TokenTree::Punct(p) if p.as_char() == ','))
}

fn fixed_literal(token: TokenTree, literals: &mut Vec<proc_macro2::Literal>) -> Vec<TokenTree> {
    let TokenTree::Literal(literal) = token else { return vec![token] };
    literals.push(literal.clone());
    let span = literal.span();
    let mut tokens: Vec<TokenTree> = quote::quote_spanned!(span => Fixed<#literal>).into_iter().collect();
    tokens.iter_mut().for_each(|t| t.set_span(span));
    tokens
}
