//! The table of environment variables is whole: what the sources read is in it, and the book shows it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tile_runtime::settings::{SETTINGS, table};

/// The repository's root, also where this program was built somewhere else and is run there.
fn root() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR"));
    if built.join("tests/settings.rs").is_file() { built.to_owned() } else { PathBuf::from(".") }
}

/// Rust files of the repository, without those that are built.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            sources(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

const MARK: &str =
    "<!-- the table is made of tile_runtime::settings: UPDATE_EXPECT=1 cargo test --test settings -->\n\n";

#[test]
fn the_book_shows_the_table() {
    let path = root().join("book/src/environment.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, shown) = page.split_once(MARK).expect("the mark");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        return std::fs::write(&path, format!("{head}{MARK}{}", table())).unwrap();
    }
    assert_eq!(shown, table(), "UPDATE_EXPECT=1 cargo test --test settings");
}

/// A variable that is read without being in the table would have values that are ignored in silence.
#[test]
fn every_variable_that_the_sources_read_is_in_the_table() {
    let mut files = Vec::new();
    sources(&root(), &mut files);
    assert!(files.len() > 100, "{} files", files.len());
    let known: BTreeSet<&str> = SETTINGS.iter().map(|s| s.name).collect();
    let mut read = BTreeSet::new();
    let mut problems = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let own = file.ends_with("tile-runtime/src/settings.rs");
        for (at, _) in text.match_indices("\"TILE_") {
            let name = text[at + 1..].split('"').next().unwrap_or_default();
            if name.len() < 6 || !name.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
                continue;
            }
            let line = text[..at].matches('\n').count() + 1;
            if !known.contains(name) && !own && name != MACRO {
                problems
                    .push(format!("{}:{line}: {name} is not in the table of tile_runtime::settings", file.display()));
            }
            // In the runtime it is the table's module that reads.
            let before = &text[text[..at].rfind('\n').map_or(0, |i| i + 1)..at];
            let library = file.starts_with(root().join("tile-runtime/src")) && !file.ends_with("tests.rs");
            if library && !own && before.contains("env::var") {
                problems.push(format!("{}:{line}: {name} is read past tile_runtime::settings", file.display()));
            }
            if !own {
                read.insert(name.to_owned());
            }
        }
    }
    for name in &known {
        if !read.contains(*name) {
            problems.push(format!("{name} is in the table, and nothing reads it"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// A macro of the emitted CUDA C.
const MACRO: &str = "TILE_INLINE";
