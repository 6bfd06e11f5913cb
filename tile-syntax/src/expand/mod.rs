//! A parsed kernel to Rust tokens.
//!
//! | module | makes |
//! |---|---|
//! | [`signature`] | what the host needs of the author's signature |
//! | [`place`] | where what is generated stands, so that an editor does not take it for what the author wrote there |
//! | [`kernel`] | the struct, the instances and the IR's bytes |
//! | [`function`] | a `#[tile_fn]`: its shadow, and the macro that carries its tokens |
//! | [`launch`] | `launch`, `instance` and the handle it returns |
//! | [`doc`] | a kernel's documentation |
//! | [`look`] | `show` and `explain` of an instance |
//! | [`named`] | `launch_named` and its like, which take the arguments by their names |
//! | [`shadow`] | the function that rustc type-checks in place of the kernel |
//! | [`errors`] | `compile_error!` and warnings at the author's tokens |

mod doc;
pub(crate) mod errors;
mod function;
mod kernel;
mod launch;
mod look;
mod named;
mod place;
mod shadow;
mod signature;
#[cfg(test)]
mod tests;

use crate::parse::{self, TileFunction};
use proc_macro2::TokenStream;
use quote::quote;
use shadow::Shown;
use signature::Signature;
use std::rc::Rc;

pub use function::function;

/// The expansion of `#[tile_kernel(attribute)] item`, with the functions that the attribute names. Takes any tokens.
pub fn kernel(attribute: TokenStream, item: TokenStream, functions: Rc<[Rc<TileFunction>]>) -> TokenStream {
    let mut parsed = parse::kernel(attribute, item.clone(), functions);
    let complete = parsed.diagnostics.is_empty() && parsed.deferred.is_empty();
    let found = match complete {
        true => tile_ir::analysis::check(&parsed.kernel),
        false => std::mem::take(&mut parsed.diagnostics),
    };
    let errors = errors::emit(&parsed, &found);
    let failed = !complete || errors.any;
    let errors = errors.tokens;

    let Some(function) = &parsed.item else { return not_a_function(errors, item) };
    let Some(signature) = Signature::new(&parsed, function) else { return errors };
    // Where the body was not understood and the author has been told, rustc would only tell it again.
    let shown = if parsed.body_resolved || found.is_empty() { Shown::ToAll } else { Shown::ToEditors };
    let shadow = shadow::function(&signature, &parsed, shown);
    let beside = place::signature_beside(function);
    let Some(signature) = Signature::new(&parsed, &beside) else { return errors };
    let host = if failed {
        kernel::stub(
            &signature,
            &function.sig.ident,
            &parsed,
            parsed.deferred.first().map(|d| d.compiler_text(&parsed.kernel)),
        )
    } else {
        crate::record::kernel(&parsed.kernel);
        kernel::host(&signature, &function.sig.ident, &parsed)
    };
    // rust-analyzer completes in an expansion of the text with a name put in at the cursor, and takes the types from the
    // expansion of the text as it is, at the same offset: before the author's tokens the two have to be equally long.
    quote!(#shadow #errors #host)
}

/// An item of another kind is given back, so that what names it still finds it.
fn not_a_function(errors: TokenStream, item: TokenStream) -> TokenStream {
    match syn::parse2::<syn::Item>(item) {
        Ok(item) if !matches!(item, syn::Item::Fn(_) | syn::Item::Verbatim(_)) => quote!(#errors #item),
        _ => errors,
    }
}
