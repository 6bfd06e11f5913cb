//! `pdl(independent = [w])`: dependent launch.

use super::attribute::{Entries, tokens_range};
use super::{Parser, range::Range};
use proc_macro2::{Delimiter, Group, Ident, TokenTree};
use tile_ir::ir::{Dependent, ParamKind, Trigger};

const FORM: &str = "pdl(independent = [w]), or pdl(independent = [w], trigger = AtStart)";

impl Parser {
    /// Reads the item's list.
    pub(super) fn pdl(&mut self, entries: &mut Entries, name: &Ident, list: &Group) {
        let tokens: Vec<TokenTree> = list.stream().into_iter().collect();
        let found = match tokens.as_slice() {
            [TokenTree::Ident(word), TokenTree::Punct(eq), TokenTree::Group(tensors), rest @ ..]
                if word == "independent" && eq.as_char() == '=' && tensors.delimiter() == Delimiter::Bracket =>
            {
                trigger(rest).map(|trigger| (tensors, trigger))
            }
            _ => None,
        };
        let (tensors, trigger) = match found {
            Some(found) => found,
            None => {
                let range = Range { first: name.span(), last: list.span_close() };
                let message = "`pdl` names the tensors that the previous kernel does not write";
                return self.attribute_error(range, message, FORM);
            }
        };
        let mut names = Vec::new();
        for item in self.comma_separated(tensors.stream()) {
            match item.as_slice() {
                [TokenTree::Ident(tensor)] => names.push(tensor.clone()),
                _ => self.attribute_error(tokens_range(&item), "`independent` takes the names of tensors", FORM),
            }
        }
        entries.independent = Some((names, trigger));
    }

    /// Gives the names meaning, once the parameters are known.
    pub(super) fn independent(&mut self, entries: &mut Entries) {
        let Some((names, trigger)) = entries.independent.take() else { return };
        let mut independent = Vec::new();
        for name in names {
            let Some((param, kind)) = self.listed_parameter(&name, "independent") else { continue };
            match kind {
                ParamKind::Tensor { .. } if independent.contains(&param) => {
                    self.attribute_error(name.span(), format!("`{name}` is listed twice"), "remove one");
                }
                ParamKind::Tensor { .. } => independent.push(param),
                ParamKind::Scalar { .. } | ParamKind::Absent => {
                    let message = format!("`{name}` is a scalar: only tensors are independent");
                    self.attribute_error(name.span(), message, "remove it");
                }
            }
        }
        self.kernel.attributes.dependent = Some(Dependent { independent, trigger });
    }
}

/// What stands behind the list of tensors: nothing, or `, trigger = AtStart`.
fn trigger(tokens: &[TokenTree]) -> Option<Trigger> {
    let words: String = tokens.iter().map(TokenTree::to_string).collect();
    match words.trim_end_matches(',') {
        "" | ",trigger=AfterWait" => Some(Trigger::AfterWait),
        ",trigger=AtStart" => Some(Trigger::AtStart),
        _ => None,
    }
}
