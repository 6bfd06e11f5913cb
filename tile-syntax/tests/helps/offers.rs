//! Every help of the compiler that shows code, found in its sources: string literals that reach `Diagnostic::help`.
//!
//! A literal reaches it as an argument, through a variable or a field whose name says so, or as an argument of a function whose
//! parameter is called `help`. Texts that are put together of several literals are several texts here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// Where helps are made.
const SOURCES: [&str; 3] = ["../tile-ir/src", "../tile-runtime/src", "src"];

/// Whether a help that was said is made of a text, with anything in its placeholders.
pub fn is_in(text: &str, help: &str) -> bool {
    let mut rest = help;
    pieces(text).iter().all(|piece| match rest.find(piece.as_str()) {
        Some(at) => {
            rest = &rest[at + piece.len()..];
            true
        }
        None => false,
    })
}

/// What stands between the placeholders of a format string.
fn pieces(text: &str) -> Vec<String> {
    let (mut pieces, mut piece) = (vec![], String::new());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '{' | '}' if chars.peek() == Some(&c) => piece.extend(chars.next()),
            '{' => {
                for inner in chars.by_ref() {
                    if inner == '}' {
                        break;
                    }
                }
                pieces.push(std::mem::take(&mut piece));
            }
            _ => piece.push(c),
        }
    }
    pieces.push(piece);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// What a placeholder is called that stands for code and not for a name.
const CODE: [&str; 6] = ["{sync}", "{atomic}", "{converted}", "{masked}", "{m}", "{split}"];

/// Whether a text shows code between backticks, more than a name.
fn shows_code(text: &str) -> bool {
    if !text.contains('`') {
        // All of it is code, or none.
        return ["([", "(&", "::<", "<f32", ");"].iter().any(|code| text.contains(code));
    }
    let mut code = text.split('`').skip(1).step_by(2);
    code.any(|code| code.contains(|c: char| !c.is_alphanumeric() && !"_.{}".contains(c)) || CODE.contains(&code))
}

/// All texts of helps that show code.
pub fn offers() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![];
    SOURCES.iter().for_each(|folder| list(&root.join(folder), &mut files));
    let parse = |path: &PathBuf| syn::parse_file(&fs::read_to_string(path).expect("a source")).expect("Rust");
    let parsed: Vec<syn::File> = files.iter().map(parse).collect();
    let mut takers = Takers::default();
    parsed.iter().for_each(|file| takers.visit_file(file));
    let mut found = Found { takers: &takers.0, names: BTreeSet::new(), texts: BTreeSet::new() };
    for file in &parsed {
        // Once for the names of variables that are helps, and once for what they hold.
        found.names = BTreeSet::from(["masked".into(), "example".into()]);
        found.visit_file(file);
        found.visit_file(file);
    }
    found.texts.into_iter().filter(|text| shows_code(text)).collect()
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let is_test = path.file_stem().is_some_and(|name| name == "tests" || name == "testing");
        match path.is_dir() {
            _ if is_test => {}
            true => list(&path, files),
            false if path.extension().is_some_and(|e| e == "rs") => files.push(path),
            false => {}
        }
    }
}

fn is_help(name: &str) -> bool {
    name == "help" || name == "HELP" || name.ends_with("_help")
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|a| a.path().is_ident("cfg") && a.parse_args::<syn::Ident>().is_ok_and(|word| word == "test"))
}

/// Functions and closures that take a help, and at which place.
#[derive(Default)]
struct Takers(BTreeMap<String, usize>);

fn names(pat: &syn::Pat) -> Vec<String> {
    match pat {
        syn::Pat::Ident(ident) => vec![ident.ident.to_string()],
        syn::Pat::Type(typed) => names(&typed.pat),
        syn::Pat::Tuple(tuple) => tuple.elems.iter().map(|e| names(e).into_iter().next().unwrap_or_default()).collect(),
        _ => vec![],
    }
}

impl Takers {
    fn function(&mut self, signature: &syn::Signature) {
        let takes = |arg: &syn::FnArg| matches!(arg, syn::FnArg::Typed(a) if names(&a.pat).iter().any(|n| is_help(n)));
        // The receiver is no argument of a method's call.
        let arguments = signature.inputs.iter().filter(|arg| matches!(arg, syn::FnArg::Typed(_)));
        if let Some(at) = arguments.into_iter().position(takes) {
            self.0.insert(signature.ident.to_string(), at);
        }
    }
}

impl<'a> Visit<'a> for Takers {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.function(&item.sig);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.function(&item.sig);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_local(&mut self, local: &'a syn::Local) {
        if let Some(init) = &local.init
            && let syn::Expr::Closure(closure) = &*init.expr
            && let Some(at) = closure.inputs.iter().position(|input| names(input).iter().any(|n| is_help(n)))
            && let Some(name) = names(&local.pat).first()
        {
            self.0.insert(name.clone(), at);
        }
        visit::visit_local(self, local);
    }
}

/// The literals that reach a help, of one file.
struct Found<'t> {
    takers: &'t BTreeMap<String, usize>,
    /// The file's variables that reach a help.
    names: BTreeSet<String>,
    texts: BTreeSet<String>,
}

impl Found<'_> {
    /// Every literal in an expression, and in macros such as `format!`.
    fn take(&mut self, expr: &syn::Expr) {
        let mut literals = Literals(vec![]);
        literals.visit_expr(expr);
        self.texts.extend(literals.0);
        let expr = if let syn::Expr::Reference(reference) = expr { &*reference.expr } else { expr };
        if let syn::Expr::Path(path) = expr
            && let Some(name) = path.path.get_ident()
        {
            self.names.insert(name.to_string());
        }
    }

    /// The literals of a tuple's part, whichever branch makes the tuple.
    fn take_part(&mut self, expr: &syn::Expr, part: usize, of: usize) {
        let mut parts = Parts { part, of, found: vec![] };
        parts.visit_expr(expr);
        parts.found.into_iter().for_each(|expr| self.take(&expr));
    }
}

impl<'a> Visit<'a> for Found<'_> {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        let name = call.method.to_string();
        let at = if name == "help" { Some(0) } else { self.takers.get(&name).copied() };
        if let Some(argument) = at.and_then(|at| call.args.get(at)) {
            self.take(argument);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'a syn::ExprCall) {
        if let syn::Expr::Path(path) = &*call.func
            && let Some(name) = path.path.segments.last()
            && let Some(argument) = self.takers.get(&name.ident.to_string()).and_then(|at| call.args.get(*at))
        {
            self.take(argument);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_local(&mut self, local: &'a syn::Local) {
        if let Some(init) = &local.init {
            let names = names(&local.pat);
            let named = |name: &String| is_help(name) || self.names.contains(name);
            match (names.iter().position(named), &local.pat) {
                (Some(part), syn::Pat::Tuple(tuple)) => self.take_part(&init.expr, part, tuple.elems.len()),
                (Some(part), syn::Pat::Type(typed)) => match &*typed.pat {
                    syn::Pat::Tuple(tuple) => self.take_part(&init.expr, part, tuple.elems.len()),
                    _ => self.take(&init.expr),
                },
                (Some(_), _) => self.take(&init.expr),
                (None, _) => {}
            }
        }
        visit::visit_local(self, local);
    }

    fn visit_expr_assign(&mut self, assign: &'a syn::ExprAssign) {
        if let syn::Expr::Path(path) = &*assign.left
            && path.path.get_ident().is_some_and(|name| is_help(&name.to_string()))
        {
            self.take(&assign.right);
        }
        visit::visit_expr_assign(self, assign);
    }

    fn visit_expr_for_loop(&mut self, each: &'a syn::ExprForLoop) {
        let names = names(&each.pat);
        if let Some(part) = names.iter().position(|name| is_help(name)) {
            self.take_part(&each.expr, part, names.len());
        }
        visit::visit_expr_for_loop(self, each);
    }

    fn visit_item_const(&mut self, item: &'a syn::ItemConst) {
        if is_help(&item.ident.to_string()) || item.ident == "LATER" {
            self.take(&item.expr);
        }
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.body(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.body(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }
}

impl Found<'_> {
    /// A function that makes helps.
    fn body(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let name = signature.ident.to_string();
        if is_help(&name) || name == "conversion" {
            let mut literals = Literals(vec![]);
            literals.visit_block(block);
            self.texts.extend(literals.0);
        }
    }
}

struct Literals(Vec<String>);

impl<'a> Visit<'a> for Literals {
    fn visit_lit_str(&mut self, literal: &'a syn::LitStr) {
        self.0.push(literal.value());
    }

    fn visit_macro(&mut self, mac: &'a syn::Macro) {
        let parser = syn::punctuated::Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated;
        if let Ok(arguments) = mac.parse_body_with(parser) {
            arguments.iter().for_each(|argument| self.visit_expr(argument));
        }
    }
}

/// The parts at one place of all tuples of a size.
struct Parts {
    part: usize,
    of: usize,
    found: Vec<syn::Expr>,
}

impl<'a> Visit<'a> for Parts {
    fn visit_expr_tuple(&mut self, tuple: &'a syn::ExprTuple) {
        if tuple.elems.len() == self.of {
            self.found.extend(tuple.elems.get(self.part).cloned());
        }
    }
}
