//! Rust tokens to tile IR, with errors on the author's own lines.
//!
//! ```text
//!  tokens ── parse ──▶ Kernel + mistakes ── tile_ir::analysis::check ──▶ more mistakes
//!                         │
//!                         └─ expand ──▶ errors | struct, launch, instances, IR bytes, shadow function
//! ```
//!
//! `tile-macros` wraps these functions as `#[tile_kernel]` and `#[tile_fn]`: a proc-macro crate can export nothing else. They
//! are a library of their own so that programs without rustc, such as the soak harness, can parse and check kernels from
//! source text.
#![deny(missing_docs)]

extern crate proc_macro;

mod expand;
mod link;
mod parse;
mod record;
#[cfg(test)]
mod repository;

pub use link::{function as expand_function, kernel as expand_kernel, step as expand_step};

use parse::{Origin, TileFunction};
use proc_macro2::TokenStream;
use std::rc::Rc;
use tile_ir::diag::Diagnostic;
use tile_ir::ir::Kernel;

/// A kernel read from tokens, with everything that is wrong with it as far as this crate can tell.
pub struct Checked {
    /// The kernel. Complete only where `diagnostics` and `deferred` are empty.
    pub kernel: Kernel,
    /// What the author is shown while typing: errors of the parser, or of the analysis where there are none of the parser.
    /// Warnings (lints) are among them, those that are off are not.
    pub diagnostics: Vec<Diagnostic>,
    /// Mistakes that rustc reports when it type-checks the kernel's body, such as mismatched types.
    pub deferred: Vec<Diagnostic>,
}

/// A `#[tile_fn]` that a kernel names in `uses(..)`.
#[derive(Clone)]
pub struct Function {
    /// Its path as the caller writes it: `scale`, `epilogue::scale`.
    pub path: String,
    /// The tokens inside `#[tile_fn(..)]`.
    pub attribute: TokenStream,
    /// The function.
    pub item: TokenStream,
    /// The functions that it calls itself.
    pub uses: Vec<Function>,
}

impl Function {
    /// The mistakes that its author is shown where it is defined, as text.
    pub fn mistakes(&self) -> Vec<String> {
        let uses: Rc<[_]> = self.uses.iter().map(Function::parse).collect();
        let parsed = parse::function(self.attribute.clone(), self.item.clone(), uses).parsed;
        let kernel = &parsed.kernel;
        parsed.diagnostics.iter().map(|d| d.render(&kernel.source, &kernel.spans)).collect()
    }

    fn parse(&self) -> Rc<TileFunction> {
        let uses: Rc<[_]> = self.uses.iter().map(Function::parse).collect();
        let (attribute, item) = (self.attribute.clone(), self.item.clone());
        let sound = parse::function(attribute.clone(), item.clone(), uses.clone()).sound;
        Rc::new(TileFunction::new(self.path.clone(), Origin::ThisPackage, sound, attribute, item, uses))
    }
}

/// Parses and checks one kernel: the tokens inside `#[tile_kernel(..)]`, and the function. Takes any tokens; calls of
/// `#[tile_fn]`s are reported as unknown: see [`check_kernel_with`].
pub fn check_kernel(attribute: TokenStream, item: TokenStream) -> Checked {
    check_kernel_with(attribute, item, &[])
}

/// As [`check_kernel`], with the `#[tile_fn]`s that the attribute names in `uses(..)`.
pub fn check_kernel_with(attribute: TokenStream, item: TokenStream, functions: &[Function]) -> Checked {
    let mut parsed = parse::kernel(attribute, item, functions.iter().map(Function::parse).collect());
    let complete = parsed.diagnostics.is_empty() && parsed.deferred.is_empty();
    let diagnostics = match complete {
        true => tile_ir::analysis::check(&parsed.kernel),
        false => std::mem::take(&mut parsed.diagnostics),
    };
    let diagnostics = diagnostics.into_iter().filter(|d| expand::errors::is_shown(&parsed, d)).collect();
    Checked { kernel: parsed.kernel, diagnostics, deferred: parsed.deferred }
}
