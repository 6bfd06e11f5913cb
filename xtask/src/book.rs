//! `cargo xtask book`: the book shows nothing that was not compiled.
//!
//! Rules, each with the line it is broken on:
//! - a Rust listing consists of `{{#include path:anchor}}` lines only, and the file is one that cargo or trybuild
//!   compiles: an example, a UI test, a bundled kernel;
//! - what is included exists, and so does its anchor;
//! - every page is in `SUMMARY.md`, and every relative link of a page, of README and of CONTRIBUTING leads to a file, and
//!   where it names a place in a page, to a heading or an `id` there.
//!
//! The drawings are made anew first (`book/drawings`; a test there holds the committed ones to their code), and the pages are
//! built to HTML in `target/book` last.

use crate::process::{cargo, installed, output, run as run_command, say};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// Where what is included comes from: folders whose Rust files cargo or trybuild compiles (and, in `tests`, the messages
/// that were compared with the compiler's).
const COMPILED: [&str; 8] = [
    "examples",
    "src",
    "tests",
    "tile-kernels/src",
    "cookbook/src",
    "tile-candle/src",
    "tile-candle/tests",
    "cargo-tile/tests",
];

/// What a sound book was found to use.
pub struct Book {
    /// The examples it includes listings from, by name.
    pub examples: BTreeSet<String>,
}

/// The mdbook that builds the book where none is installed.
const MDBOOK: &str = "0.5.4";

/// Draws, checks and builds the book.
pub fn run(root: &Path) -> Result<()> {
    run_command(cargo(root).args(["run", "--quiet", "--package", "book-drawings"]))?;
    let book = check(root)?;
    let names: Vec<&str> = book.examples.iter().map(String::as_str).collect();
    say(format!("the book is sound; its listings come from {}", names.join(", ")));
    build(root, &mdbook(root)?)
}

/// Builds the book to `target/book`. What mdbook warns of is an error.
pub fn build(root: &Path, mdbook: &Path) -> Result<()> {
    let mut command = Command::new(mdbook);
    command.arg("build").arg(root.join("book"));
    let output = command.output().with_context(|| format!("could not start {}", mdbook.display()))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    let is_clean = !said.lines().any(|line| ["WARN", "ERROR"].iter().any(|level| line.contains(level)));
    if !(output.status.success() && is_clean) {
        bail!("mdbook does not build the book ({}):\n{}", output.status, said.trim_end());
    }
    say(format!("built: {}", root.join("target/book/index.html").display()));
    Ok(())
}

/// The mdbook that is installed, if one is.
pub fn installed_mdbook(root: &Path) -> Option<PathBuf> {
    let own = own_mdbook(root);
    [PathBuf::from("mdbook"), own.join("bin/mdbook")].into_iter().find(|path| installed(&path.to_string_lossy()))
}

/// The mdbook that is installed, or one that is compiled from crates.io, once, into `target`: without search and
/// preview, about 80 seconds of CPU.
pub fn mdbook(root: &Path) -> Result<PathBuf> {
    if let Some(found) = installed_mdbook(root) {
        return Ok(found);
    }
    let own = own_mdbook(root);
    say(format!("compiling mdbook {MDBOOK} (once; `cargo install mdbook` has search, too)"));
    let mut install = cargo(root);
    install.args(["install", "mdbook", "--version", MDBOOK, "--locked", "--debug", "--no-default-features"]);
    run_command(install.arg("--root").arg(&own).env("CARGO_TARGET_DIR", own.join("build")))?;
    std::fs::remove_dir_all(own.join("build")).ok();
    let program = own.join("bin/mdbook");
    say(output(Command::new(&program).arg("--version"))?.trim_end());
    Ok(program)
}

fn own_mdbook(root: &Path) -> PathBuf {
    root.join("target/mdbook").join(MDBOOK)
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
            for (link, place) in links(line) {
                let target = if link.is_empty() { page.clone() } else { normal(&folder.join(link)) };
                if !leads_somewhere(&target, place) {
                    problems.push(format!("{shown}:{number}: the link `{link}{}` leads nowhere", hash(place)));
                } else if page.ends_with("SUMMARY.md") {
                    linked.insert(target);
                }
            }
        }
    }
    for name in ["README.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(root.join(name)).unwrap_or_default();
        for (number, line) in text.lines().enumerate() {
            for (link, place) in links(line).filter(|(link, place)| !leads_somewhere(&root.join(link), *place)) {
                problems.push(format!("{name}:{}: the link `{link}{}` leads nowhere", number + 1, hash(place)));
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

/// The relative links of a line: the file of `](file#place)`, empty for a place in the page itself, and the place.
fn links(line: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    line.split("](").skip(1).filter_map(|rest| {
        let (file, place) = match rest.split(')').next()?.split_once('#') {
            Some((file, place)) => (file, Some(place)),
            None => (rest.split(')').next()?, None),
        };
        let is_file = !file.contains("://") && file.contains('.');
        (is_file || (file.is_empty() && place.is_some())).then_some((file, place))
    })
}

fn hash(place: Option<&str>) -> String {
    place.map(|place| format!("#{place}")).unwrap_or_default()
}

/// Whether there is such a file and, in a page, such a place.
fn leads_somewhere(file: &Path, place: Option<&str>) -> bool {
    match place.filter(|_| file.extension().is_some_and(|e| e == "md")) {
        None => file.is_file(),
        Some(place) => fs::read_to_string(file).is_ok_and(|text| {
            let is_it = |line: &str| line.strip_prefix('#').is_some_and(|heading| slug(heading) == place);
            text.contains(&format!("id=\"{place}\"")) || text.lines().any(is_it)
        }),
    }
}

/// What mdbook makes of a heading as an `id`.
fn slug(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().chars().filter_map(|ch| match ch {
        ch if ch.is_alphanumeric() || ch == '_' || ch == '-' => Some(ch.to_ascii_lowercase()),
        ch if ch.is_whitespace() => Some('-'),
        _ => None,
    });
    kept.collect()
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
        assert!(problems("## One: two\n[x](#one)\n").contains("page.md:2: the link `#one` leads nowhere"));
        assert!(problems("[x](page.md#two)\n").contains("the link `page.md#two` leads nowhere"));
    }

    #[test]
    fn places_in_pages_are_headings_and_ids() {
        assert_eq!(problems("## 10. A `last_arriver`\n[x](#10-a-last_arriver)\n"), "sound {}");
        assert_eq!(problems("<a id=\"two\"></a>two\n[x](page.md#two)\n"), "sound {}");
    }
}
