//! `cargo xtask book`: the book shows nothing that was not compiled.
//!
//! Rules, each with the line it is broken on:
//! - a Rust listing consists of `{{#include path:anchor}}` lines only, and the file is one that cargo or trybuild
//!   compiles: an example, a UI test, a bundled kernel;
//! - what is included exists, and so does its anchor;
//! - every page is in `SUMMARY.md`, and every relative link leads to a file.

use crate::process::{installed, run as run_command};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// Where what is included comes from: folders whose Rust files cargo or trybuild compiles (and, in `tests`, the messages
/// that were compared with the compiler's).
const COMPILED: [&str; 4] = ["examples", "src", "tests", "tile-kernels/src"];

/// What a sound book was found to use.
pub struct Book {
    /// The examples it includes listings from, by name.
    pub examples: BTreeSet<String>,
}

/// Checks the book and builds it where mdbook is installed.
pub fn run(root: &Path) -> Result<()> {
    let book = check(root)?;
    let names: Vec<&str> = book.examples.iter().map(String::as_str).collect();
    crate::process::say(format!("the book is sound; its listings come from {}", names.join(", ")));
    build(root)
}

/// Builds the book to `target/book` where mdbook is installed.
pub fn build(root: &Path) -> Result<()> {
    if installed("mdbook") {
        run_command(Command::new("mdbook").arg("build").arg(root.join("book")))?;
    }
    Ok(())
}

/// Checks every page; fails with all broken rules.
pub fn check(root: &Path) -> Result<Book> {
    let source = root.join("book/src");
    let pages = pages(&source)?;
    let mut problems = Vec::new();
    let mut examples = BTreeSet::new();
    let mut linked = BTreeSet::from([source.join("SUMMARY.md")]);
    for page in &pages {
        let text = fs::read_to_string(page).with_context(|| format!("could not read {}", page.display()))?;
        let shown = page.strip_prefix(root).unwrap_or(page).display().to_string();
        let folder = page.parent().unwrap_or(&source);
        for block in rust_blocks(&text) {
            if let Some(line) = block.iter().find(|line| include(line.1).is_none()) {
                problems.push(format!("{shown}:{}: a Rust listing may only include compiled source", line.0));
            }
        }
        for (number, line) in text.lines().enumerate().map(|(i, line)| (i + 1, line)) {
            if let Some((path, anchor)) = include(line) {
                match included(root, folder, path, anchor) {
                    Ok(example) => examples.extend(example),
                    Err(problem) => problems.push(format!("{shown}:{number}: {problem}")),
                }
            }
            for link in links(line) {
                let target = normal(&folder.join(link));
                if !target.is_file() {
                    problems.push(format!("{shown}:{number}: the link `{link}` leads nowhere"));
                } else if page.ends_with("SUMMARY.md") {
                    linked.insert(target);
                }
            }
        }
    }
    for page in pages.iter().filter(|page| !linked.contains(*page)) {
        problems.push(format!("{} is not in SUMMARY.md", page.strip_prefix(root).unwrap_or(page).display()));
    }
    if !problems.is_empty() {
        bail!("the book is not sound:\n{}", problems.join("\n"));
    }
    Ok(Book { examples })
}

/// A page with what it includes written out, as mdbook shows it.
pub fn expand(page: &Path, text: &str) -> Result<String> {
    let folder = page.parent().unwrap_or(Path::new("."));
    let mut expanded = String::new();
    for line in text.lines() {
        let Some((path, anchor)) = include(line) else {
            expanded += &format!("{line}\n");
            continue;
        };
        let file = normal(&folder.join(path));
        let source = fs::read_to_string(&file).with_context(|| format!("could not read {}", file.display()))?;
        let Some(anchor) = anchor else {
            expanded += &source;
            continue;
        };
        let (start, end) = (format!("ANCHOR: {anchor}"), format!("ANCHOR_END: {anchor}"));
        let from = source.lines().skip_while(|l| !l.trim_end().ends_with(&start)).skip(1);
        from.take_while(|l| !l.trim_end().ends_with(&end)).for_each(|l| expanded += &format!("{l}\n"));
    }
    Ok(expanded)
}

/// Every page below `folder`, in order.
fn pages(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(pages(&path)?);
        } else if path.extension().is_some_and(|e| e == "md") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// A listing: its lines, numbered from 1.
type Block<'a> = Vec<(usize, &'a str)>;

/// The Rust listings of a page.
fn rust_blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    // Whether the fence that is open, if one is, is Rust.
    let mut open = None;
    for (number, line) in text.lines().enumerate().map(|(i, line)| (i + 1, line)) {
        match (line.trim_start().strip_prefix("```"), open) {
            (Some(language), None) => {
                let is_rust = language.split([',', ' ']).next() == Some("rust");
                open = Some(is_rust);
                if is_rust {
                    blocks.push(Vec::new());
                }
            }
            (Some(_), Some(_)) => open = None,
            (None, Some(true)) => blocks.last_mut().into_iter().for_each(|block| block.push((number, line))),
            (None, _) => {}
        }
    }
    blocks
}

/// The path and anchor of an include line.
fn include(line: &str) -> Option<(&str, Option<&str>)> {
    let inner = line.trim().strip_prefix("{{#include ")?.strip_suffix("}}")?.trim();
    Some(match inner.split_once(':') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (inner, None),
    })
}

/// Checks one include, and returns the example it is from if it is from one.
fn included(root: &Path, folder: &Path, path: &str, anchor: Option<&str>) -> Result<Option<String>, String> {
    let file = normal(&folder.join(path));
    let text = fs::read_to_string(&file).map_err(|error| format!("cannot include `{path}`: {error}"))?;
    let relative = file.strip_prefix(root).map_err(|_| format!("`{path}` is outside the repository"))?;
    if let Some(anchor) = anchor {
        // mdbook also takes line ranges after the colon; they break silently when the file changes.
        for mark in ["ANCHOR", "ANCHOR_END"] {
            let mark = format!("{mark}: {anchor}");
            if !text.lines().any(|line| line.trim_end().ends_with(&mark)) {
                return Err(format!("`{}` has no `{mark}`", relative.display()));
            }
        }
    }
    if !COMPILED.iter().any(|folder| relative.starts_with(folder)) {
        return Err(format!("`{}` is not compiled: listings come from {}", relative.display(), COMPILED.join(", ")));
    }
    let is_example = relative.parent() == Some(Path::new("examples"));
    Ok(is_example.then(|| file.file_stem().unwrap_or_default().to_string_lossy().into_owned()))
}

/// The relative links of a line: `](target)` without scheme, its `#fragment` dropped.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?.split('#').next()?;
        (!target.is_empty() && !target.contains("://") && target.contains('.')).then_some(target)
    })
}

/// The path with `.` and `..` resolved by name.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::CurDir => {}
            other => parts.push(other),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The invariant itself: this repository's book shows nothing that was not compiled.
    #[test]
    fn every_listing_is_included_from_a_compiled_file() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let book = check(root).unwrap_or_else(|problems| panic!("{problems}"));
        assert!(book.examples.contains("first_kernel"), "{:?}", book.examples);
    }

    fn problems(page: &str) -> String {
        static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("xtask-book-{}-{count}", std::process::id()));
        fs::create_dir_all(root.join("book/src")).unwrap();
        fs::create_dir_all(root.join("examples")).unwrap();
        fs::write(root.join("examples/a.rs"), "// ANCHOR: all\nfn main() {}\n// ANCHOR_END: all\n").unwrap();
        fs::write(root.join("book/src/SUMMARY.md"), "- [Page](page.md)\n").unwrap();
        fs::write(root.join("book/src/page.md"), page).unwrap();
        let result = check(&root).map(|book| book.examples);
        fs::remove_dir_all(&root).unwrap();
        match result {
            Ok(examples) => format!("sound {examples:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_listing_from_an_example_is_sound() {
        assert_eq!(problems("```rust\n{{#include ../../examples/a.rs:all}}\n```\n"), r#"sound {"a"}"#);
        assert_eq!(problems("```text\nanything\n```\n"), "sound {}");
    }

    #[test]
    fn typed_in_listings_missing_anchors_and_dead_links_are_not() {
        assert!(problems("```rust\nfn f() {}\n```\n").contains("page.md:2: a Rust listing may only include"));
        assert!(problems("{{#include ../../examples/a.rs:part}}\n").contains("has no `ANCHOR: part`"));
        assert!(problems("{{#include ../../examples/b.rs}}\n").contains("cannot include `../../examples/b.rs`"));
        assert!(problems("[x](missing.md)\n").contains("the link `missing.md` leads nowhere"));
    }
}
