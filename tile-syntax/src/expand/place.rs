//! Where generated tokens stand.
//!
//! rustc shows generated items where their tokens stand, so they stand at what they were made of: the kernel's name, a
//! parameter. rust-analyzer goes the other way: for a token under the cursor it looks at *every* token of the expansion that
//! has the same range, and shows the documentation of all of them. So only the struct and the shadow's own tokens have the
//! author's ranges. All others stand at the empty range before.

use proc_macro2::{Ident, Span};
use syn::visit_mut::{self, VisitMut};
use syn::{Block, ItemFn};

/// The empty range before a token: rustc names its line and column, and no token under a cursor has it. Outside of a
/// compiler, where nobody is shown anything, the token's own.
pub(super) fn before(span: Span) -> Span {
    match proc_macro::is_available() {
        true => span.unwrap().start().into(),
        false => span,
    }
}

/// The function without its body, the names of its signature standing beside the author's.
pub(super) fn signature_beside(function: &ItemFn) -> ItemFn {
    let block = Box::new(Block { brace_token: function.block.brace_token, stmts: vec![] });
    let (attrs, vis) = (function.attrs.clone(), function.vis.clone());
    let mut beside = ItemFn { attrs, vis, modifiers: function.modifiers.clone(), sig: function.sig.clone(), block };
    Beside.visit_signature_mut(&mut beside.sig);
    beside
}

struct Beside;

impl VisitMut for Beside {
    fn visit_ident_mut(&mut self, name: &mut Ident) {
        name.set_span(before(name.span()));
        visit_mut::visit_ident_mut(self, name);
    }
}
