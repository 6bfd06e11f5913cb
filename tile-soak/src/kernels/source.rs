//! The repository's kernels as text, and a kernel's text as tile IR.

use crate::stamp;
use proc_macro2::TokenStream;
use quote::ToTokens;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use syn::spanned::Spanned;
use tile_syntax::{Checked, Function, check_kernel_with};

/// The files whose kernels and functions the soak takes, from the repository's root: bundled, ladders, cookbook, tutorial, tests.
const FILES: &[&str] = &[
    "tile-kernels/src/reduce.rs",
    "tile-kernels/src/attention/parts.rs",
    "tile-kernels/src/attention/append_kernel.rs",
    "tile-kernels/src/attention/decode_kernel.rs",
    "tile-kernels/src/attention/forward_kernel.rs",
    "tile-kernels/src/attention/causal_kernel.rs",
    "tile-kernels/src/attention/options_kernel.rs",
    "tile-kernels/src/attention/packed_kernel.rs",
    "tile-kernels/src/attention/prefill_kernel.rs",
    "tile-kernels/src/embedding.rs",
    "tile-kernels/src/gemm/activation.rs",
    "tile-kernels/src/gemm/epilogue.rs",
    "tile-kernels/src/gemm/operands.rs",
    "tile-kernels/src/gemm/kernel.rs",
    "tile-kernels/src/gemm/batched/kernel.rs",
    "tile-kernels/src/gemm/batched/split.rs",
    "tile-kernels/src/gemm/pack.rs",
    "tile-kernels/src/gemm/gated.rs",
    "tile-kernels/src/gemm/exchange.rs",
    "tile-kernels/src/gemm/partial.rs",
    "tile-kernels/src/gemm/parts.rs",
    "tile-kernels/src/gemm/split.rs",
    "tile-kernels/src/gemm/tf32.rs",
    "tile-kernels/src/gemv/kernel.rs",
    "tile-kernels/src/gemv/bulk.rs",
    "tile-kernels/src/gemv/columns.rs",
    "tile-kernels/src/gemv/lines.rs",
    "tile-kernels/src/gemv/parts.rs",
    "tile-kernels/src/gemv/ring.rs",
    "tile-kernels/src/gemv/rows.rs",
    "tile-kernels/src/gemv/split.rs",
    "tile-kernels/src/gemv/specialized.rs",
    "tile-kernels/src/gemv/stream.rs",
    "tile-kernels/src/norm/add_rms.rs",
    "tile-kernels/src/norm/layer.rs",
    "tile-kernels/src/norm/rms.rs",
    "tile-kernels/src/rope/kernel.rs",
    "tile-kernels/src/sampling/argmax.rs",
    "tile-kernels/src/sampling/kernel.rs",
    "tile-kernels/src/sampling/random.rs",
    "tile-kernels/src/sampling/select.rs",
    "tile-kernels/src/softmax.rs",
    "tile-kernels/src/swiglu.rs",
    "src/ladder/kernels.rs",
    "src/gemm_ladder/kernels.rs",
    "src/simt.rs",
    "src/cliff/kernels.rs",
    "cookbook/src/argmax.rs",
    "cookbook/src/attention.rs",
    "cookbook/src/dropout.rs",
    "cookbook/src/gather.rs",
    "cookbook/src/histogram.rs",
    "cookbook/src/layer_norm.rs",
    "cookbook/src/rms_norm.rs",
    "cookbook/src/rope.rs",
    "cookbook/src/scan.rs",
    "cookbook/src/segmented_sum.rs",
    "cookbook/src/softmax.rs",
    "cookbook/src/stencil.rs",
    "cookbook/src/swiglu.rs",
    "cookbook/src/top_k.rs",
    "cookbook/src/transpose.rs",
    "examples/first_kernel.rs",
    "examples/break_it.rs",
    "examples/dlpack.rs",
    "tests/attention.rs",
    "tests/split_k.rs",
    "tests/cluster_reduce.rs",
    "tests/reduce.rs",
    "tests/transposed_store.rs",
    "tests/gemm_fragment.rs",
    "tests/grouped_gemm.rs",
    "tests/specialize.rs",
    "tests/gemm.rs",
    "tests/alignment.rs",
    "tests/lanes.rs",
    "tests/leaving.rs",
    "tests/loop_ranges.rs",
    "tests/hopper_registers.rs",
    "tests/grammar/kernels.rs",
];

/// Kernels of those files that are wrong on purpose, or that no launch serves.
const LEFT_OUT: [&str; 5] = ["unguarded", "scattered", "too_early", "refused", "endless"];

/// A kernel as it stands in the repository.
#[derive(Clone, Debug)]
pub struct Source {
    /// `file::name`.
    pub id: String,
    /// From `#[tile_kernel` to the body's end.
    pub text: String,
}

/// Every kernel and function of the files.
#[derive(Default)]
pub struct Library {
    /// In order of the files.
    pub kernels: Vec<Source>,
    /// The `#[tile_fn]`s by name; files may have functions of one name.
    functions: BTreeMap<String, Vec<Callee>>,
}

/// A `#[tile_fn]` as it stands in the repository.
struct Callee {
    file: String,
    text: String,
}

/// What the repository has. `SOAK_SOURCES` is another checkout, whose kernels are taken instead.
pub fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let root = std::env::var_os("SOAK_SOURCES").map_or_else(stamp::root, PathBuf::from);
        let mut library = Library::default();
        for file in FILES {
            library.add(&root, file);
        }
        library
    })
}

/// The nearest valid neighbours of the kernels that must not compile (`tests/ui/valid`), a library a file, since each may have
/// functions of its own.
pub fn neighbours() -> &'static [Library] {
    static NEIGHBOURS: OnceLock<Vec<Library>> = OnceLock::new();
    NEIGHBOURS.get_or_init(|| {
        let root = stamp::root();
        let folder = std::fs::read_dir(root.join("tests/ui/valid")).into_iter().flatten();
        let mut files: Vec<PathBuf> = folder.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.sort();
        let read = |path: &PathBuf| {
            let file = path.strip_prefix(&root).unwrap_or(path).display().to_string();
            let mut library = Library::default();
            library.add(&root, &file);
            library
        };
        files.iter().map(read).collect()
    })
}

impl Library {
    /// No kernels, and these functions, each the text of a `#[tile_fn]`.
    pub fn of_functions(texts: &[String]) -> Library {
        let named = |text: &String| {
            let name = syn::parse_str::<syn::ItemFn>(text).ok()?.sig.ident.to_string();
            Some((name, vec![Callee { file: String::new(), text: text.clone() }]))
        };
        Library { kernels: vec![], functions: texts.iter().filter_map(named).collect() }
    }

    /// The texts of the functions that a kernel of this id may call, one of each name.
    pub fn functions(&self, id: &str) -> Vec<String> {
        self.functions.keys().filter_map(|name| self.function(id, name)).map(str::to_owned).collect()
    }

    /// The function of this name that stands nearest to a file or what is in it: in the file, else in its folder or crate.
    fn function(&self, id: &str, name: &str) -> Option<&str> {
        let file = id.split("::").next().unwrap_or_default();
        let shared = |callee: &&Callee| callee.file.split('/').zip(file.split('/')).take_while(|(a, b)| a == b).count();
        self.functions.get(name)?.iter().max_by_key(shared).map(|callee| callee.text.as_str())
    }

    /// Adds what a file has; a file that cannot be read is a mistake of this program's.
    fn add(&mut self, root: &Path, file: &str) {
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
        self.read(file, &text, &parsed.items);
    }

    fn read(&mut self, file: &str, text: &str, items: &[syn::Item]) {
        for item in items {
            match item {
                syn::Item::Mod(module) => {
                    self.read(file, text, module.content.as_ref().map_or(&[], |(_, items)| items));
                }
                syn::Item::Fn(function) => {
                    let name = function.sig.ident.to_string();
                    let start = |macros: &str| {
                        let found = function.attrs.iter().find(|a| a.path().is_ident(macros));
                        found.map(|a| a.span().byte_range().start)
                    };
                    let end = function.block.span().byte_range().end;
                    if let Some(start) = start("tile_kernel").filter(|_| !LEFT_OUT.contains(&name.as_str())) {
                        let id = format!("{file}::{name}");
                        self.kernels.push(Source { id, text: text[start..end].to_owned() });
                    } else if let Some(start) = start("tile_fn") {
                        let callee = Callee { file: file.to_owned(), text: text[start..end].to_owned() };
                        self.functions.entry(name).or_default().push(callee);
                    }
                }
                _ => {}
            }
        }
    }

    /// The kernel of this id.
    pub fn kernel(&self, id: &str) -> Option<&Source> {
        self.kernels.iter().find(|kernel| kernel.id == id)
    }

    /// Parses and checks a kernel of the repository.
    pub fn check(&self, source: &Source) -> Option<Checked> {
        self.check_as(&source.id, &source.text)
    }

    /// Parses and checks a text in the place of the kernel of this id, whose functions it may call; `None` where it is not a
    /// function with `#[tile_kernel]`. What this thread knows of the text's places is forgotten.
    pub fn check_as(&self, id: &str, text: &str) -> Option<Checked> {
        let checked = split(text, "tile_kernel").map(|(attribute, item)| {
            let functions = self.used(id, &attribute);
            check_kernel_with(attribute, item, &functions)
        });
        proc_macro2::extra::invalidate_current_thread_spans();
        checked
    }

    /// The functions that an attribute names in `uses(..)`, with those that they call. Ones that are not there are left out.
    fn used(&self, id: &str, attribute: &TokenStream) -> Vec<Function> {
        let paths = uses(attribute);
        let function = |path: &syn::Path| {
            let name = path.segments.last()?.ident.to_string();
            let (attribute, item) = split(self.function(id, &name)?, "tile_fn")?;
            let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
            let uses = self.used(id, &attribute);
            Some(Function { path: segments.join("::"), attribute, item, uses })
        };
        paths.iter().filter_map(function).collect()
    }
}

/// The tokens inside of a macro's attribute and the function without its attributes.
fn split(text: &str, name: &str) -> Option<(TokenStream, TokenStream)> {
    let mut item: syn::ItemFn = syn::parse_str(text).ok()?;
    let attribute = item.attrs.iter().find(|a| a.path().is_ident(name))?;
    let tokens = match &attribute.meta {
        syn::Meta::List(list) => list.tokens.clone(),
        _ => TokenStream::new(),
    };
    item.attrs.clear();
    Some((tokens, item.to_token_stream()))
}

/// The paths of `uses(..)`.
fn uses(attribute: &TokenStream) -> Vec<syn::Path> {
    use proc_macro2::TokenTree;
    use syn::parse::Parser;
    let tokens: Vec<TokenTree> = attribute.clone().into_iter().collect();
    let list = tokens.windows(2).find_map(|pair| match pair {
        [TokenTree::Ident(word), TokenTree::Group(list)] if word == "uses" => Some(list.stream()),
        _ => None,
    });
    let paths = syn::punctuated::Punctuated::<syn::Path, syn::Token![,]>::parse_terminated;
    list.and_then(|list| paths.parse2(list).ok()).map(|paths| paths.into_iter().collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files below a folder that have kernels.
    fn with_kernels(folder: &Path) -> Vec<PathBuf> {
        let has_kernel = |path: &Path| {
            let text = std::fs::read_to_string(path).unwrap();
            text.lines().any(|line| line.trim_start().starts_with("#[tile_kernel"))
        };
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = entries.flat_map(|path| match path.is_dir() {
            true => with_kernels(&path),
            false => {
                Some(path).filter(|p| p.extension().is_some_and(|e| e == "rs") && has_kernel(p)).into_iter().collect()
            }
        });
        files.collect()
    }

    #[test]
    fn no_file_with_kernels_is_forgotten() {
        let root = stamp::root();
        for folder in ["tile-kernels/src", "cookbook/src", "src", "examples"] {
            let files = with_kernels(&root.join(folder));
            assert!(!files.is_empty(), "{folder} has no kernels");
            for file in files {
                let name = file.strip_prefix(&root).unwrap().to_str().unwrap();
                assert!(FILES.contains(&name), "{name} has a kernel and is not among the files that the soak takes");
            }
        }
    }

    #[test]
    fn the_nearest_function_of_a_name_is_called() {
        let silu = |id| library().function(id, "silu").unwrap();
        assert!(silu("tile-kernels/src/swiglu.rs::swiglu_rows").contains("recip"));
        assert!(silu("tile-kernels/src/gemv/stream.rs::gemv_norm_stream").contains("recip"));
        assert!(!silu("cookbook/src/swiglu.rs::swiglu_rows").contains("recip"));
    }

    #[test]
    fn the_repositorys_kernels_are_read_and_clean() {
        let library = library();
        assert!(library.kernels.len() >= 100, "{}", library.kernels.len());
        for kernel in &library.kernels {
            let checked = library.check(kernel).expect("a kernel");
            let said: Vec<_> = checked.diagnostics.iter().chain(&checked.deferred).map(|d| &d.message).collect();
            assert!(said.is_empty(), "{}: {said:?}", kernel.id);
        }
    }
}
