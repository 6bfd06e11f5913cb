//! The item's tokens as a function.

use super::Parser;
use super::attribute::tokens_range;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
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
                let mut literals = vec![];
                let fixed = fix_literal_dims(item, &mut literals);
                for literal in &literals {
                    let text = literal.to_string();
                    let at = self.mark(literal.span());
                    let diagnostic = Diagnostic::new(Code::DIM, at, format!("`{text}` is not a dim"));
                    self.unsupported(diagnostic.help(format!("a constant extent is written `Fixed<{text}>`")));
                }
                match syn::parse2::<ItemFn>(fixed) {
                    Ok(function) if !literals.is_empty() => Some(function),
                    _ => {
                        if literals.is_empty() {
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
        let (mut run, mut after_block) = (0, false);
        for token in tokens {
            // A block ends a statement, and with it a run, unless an `else` follows.
            if std::mem::take(&mut after_block) && !matches!(&token, TokenTree::Ident(word) if word == "else") {
                run = 0;
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
                    group.stream().into_iter().flat_map(|t| fixed_literal(t, literals)).collect()
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

fn fixed_literal(token: TokenTree, literals: &mut Vec<proc_macro2::Literal>) -> Vec<TokenTree> {
    let TokenTree::Literal(literal) = token else { return vec![token] };
    literals.push(literal.clone());
    let span = literal.span();
    let mut tokens: Vec<TokenTree> = quote::quote_spanned!(span => Fixed<#literal>).into_iter().collect();
    tokens.iter_mut().for_each(|t| t.set_span(span));
    tokens
}
