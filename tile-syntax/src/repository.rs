//! Every kernel of this repository, as tokens and with the functions that it calls: what tests of the whole expansion read.

use crate::expand;
use crate::parse::{self, Origin, Parsed, TileFunction};
use proc_macro2::TokenStream;
use quote::quote;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use syn::{Item, ItemFn, Meta};

/// A kernel's source.
pub struct Source {
    /// Where it is written: `src/ladder/kernels.rs: naive`.
    pub name: String,
    pub attribute: TokenStream,
    pub item: TokenStream,
    pub functions: Rc<[Rc<TileFunction>]>,
}

impl Source {
    /// The kernel of a source text, which may hold the `#[tile_fn]`s that it calls.
    pub fn of_text(name: &str, text: &str) -> Source {
        let found = Items::of_text(name, text);
        let mut kernels = found.kernels(&BTreeMap::new());
        assert_eq!(kernels.len(), 1, "{name} holds one kernel");
        kernels.remove(0)
    }

    /// What a keystroke in an editor costs: everything that the macro does.
    pub fn expand(&self) -> TokenStream {
        expand::kernel(self.attribute.clone(), self.item.clone(), self.functions.clone())
    }

    pub fn parse(&self) -> Parsed {
        parse::kernel(self.attribute.clone(), self.item.clone(), self.functions.clone())
    }
}

/// The kernels of the crates, examples and tests, but for those whose text is the argument of another macro.
pub fn kernels() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths = vec![];
    const FOLDERS: [&str; 10] = [
        "src",
        "examples",
        "tests",
        "cookbook/src",
        "tile-bench/src",
        "tile-candle/src",
        "tile-candle/tests",
        "tile-kernels/src",
        "tile-runtime/src",
        "tile-runtime/tests",
    ];
    for folder in FOLDERS {
        files(&root.join(folder), &mut paths);
    }
    paths.sort();
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let name = path.strip_prefix(&root).unwrap_or(path).display().to_string();
        Items::of_text(&name, &text)
    };
    let files: Vec<Items> = paths.iter().map(read).collect();
    // Of functions that share a name, the bundled kernels' are those that others use.
    let mut all: BTreeMap<String, &ItemFn> = BTreeMap::new();
    for file in &files {
        for (name, function) in &file.functions {
            if file.name.starts_with("tile-kernels") || !all.contains_key(name) {
                all.insert(name.clone(), function);
            }
        }
    }
    files.iter().flat_map(|file| file.kernels(&all)).collect()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for path in entries.flatten().map(|entry| entry.path()) {
        match path {
            // Kernels that are wrong on purpose.
            path if path.is_dir() && path.ends_with("tests/ui") => files(&path.join("valid"), found),
            path if path.is_dir() => files(&path, found),
            path if path.extension().is_some_and(|e| e == "rs") => found.push(path),
            _ => {}
        }
    }
}

/// The kernels and functions of one file.
struct Items {
    name: String,
    kernels: Vec<ItemFn>,
    functions: BTreeMap<String, ItemFn>,
}

impl Items {
    fn of_text(name: &str, text: &str) -> Items {
        let file = syn::parse_file(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut items = Items { name: name.to_owned(), kernels: vec![], functions: BTreeMap::new() };
        items.collect(file.items);
        items
    }

    fn collect(&mut self, items: Vec<Item>) {
        for item in items {
            match item {
                Item::Fn(mut function) => {
                    self.collect(function.block.stmts.iter().filter_map(inner).collect());
                    let has = |name: &str| function.attrs.iter().any(|a| last(a.path()) == name);
                    let (kernel, tile_fn) = (has("tile_kernel"), has("tile_fn"));
                    if kernel {
                        self.kernels.push(function);
                    } else if tile_fn {
                        function.attrs.retain(|a| !a.path().is_ident("doc"));
                        self.functions.insert(function.sig.ident.to_string(), function);
                    }
                }
                Item::Mod(module) => self.collect(module.content.map(|c| c.1).unwrap_or_default()),
                _ => {}
            }
        }
    }

    fn kernels(&self, elsewhere: &BTreeMap<String, &ItemFn>) -> Vec<Source> {
        let source = |function: &ItemFn| {
            let (attribute, item) = split(function, "tile_kernel");
            let functions = self.called(&attribute, elsewhere);
            Source { name: format!("{}: {}", self.name, function.sig.ident), attribute, item, functions }
        };
        self.kernels.iter().map(source).collect()
    }

    /// The functions that an attribute names in `uses(..)`.
    fn called(&self, attribute: &TokenStream, elsewhere: &BTreeMap<String, &ItemFn>) -> Rc<[Rc<TileFunction>]> {
        let function = |path: String| {
            let name = path.rsplit("::").next().unwrap_or(&path);
            let Some(function) = self.functions.get(name).or(elsewhere.get(name).copied()) else {
                return Rc::new(TileFunction::of_another_version(path));
            };
            let (attribute, item) = split(function, "tile_fn");
            let uses = self.called(&attribute, elsewhere);
            Rc::new(TileFunction::new(path, Origin::ThisPackage, true, attribute, item, uses))
        };
        crate::link::used(attribute).into_iter().map(function).collect()
    }
}

/// An item inside a function's body.
fn inner(stmt: &syn::Stmt) -> Option<Item> {
    if let syn::Stmt::Item(item) = stmt { Some(item.clone()) } else { None }
}

fn last(path: &syn::Path) -> String {
    path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default()
}

/// The tokens inside an attribute, and the function without it.
fn split(function: &ItemFn, attribute: &str) -> (TokenStream, TokenStream) {
    let mut function = function.clone();
    let at = function.attrs.iter().position(|a| last(a.path()) == attribute);
    let tokens = match at.map(|at| function.attrs.remove(at).meta) {
        Some(Meta::List(list)) => list.tokens,
        _ => TokenStream::new(),
    };
    (tokens, quote!(#function))
}

/// How long this thread has been on a processor. Where the system does not say, how long it has been since the first call.
pub fn cpu() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    match text.split_whitespace().next().and_then(|nanoseconds| nanoseconds.parse().ok()) {
        Some(nanoseconds) => Duration::from_nanos(nanoseconds),
        None => START.get_or_init(Instant::now).elapsed(),
    }
}
