//! `cargo xtask lines`: the lines of everything between the bound kernel and the CUDA text, folder by folder.
//!
//! Counted are all lines of Rust, comments and blank ones too, without tests: neither files in or named `tests`, nor what stands behind
//! the last `#[cfg(test)]` of a file when that is a module.

use anyhow::Context as _;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

/// Binding, scheduling, lowering, and the text.
const FOLDERS: [&str; 2] = ["tile-ir/src/lower", "tile-ir/src/emit"];

/// Counts, prints a table and writes `bench/lines.json`.
///
/// # Errors
/// A file that cannot be read or written.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let mut folders: BTreeMap<String, usize> = BTreeMap::new();
    for folder in FOLDERS {
        count(root, &root.join(folder), &mut folders)?;
    }
    let total: usize = folders.values().sum();
    folders.iter().for_each(|(folder, lines)| println!("{lines:6} {folder}"));
    println!("{total:6} in all");
    let text = serde_json::to_string_pretty(&json!({ "folders": folders, "total": total }))? + "\n";
    std::fs::write(root.join("bench/lines.json"), text).context("bench/lines.json cannot be written")
}

fn count(root: &Path, folder: &Path, folders: &mut BTreeMap<String, usize>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = entry?.path();
        if path.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            count(root, &path, folders)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
            let name = folder.strip_prefix(root).unwrap_or(folder).display().to_string();
            *folders.entry(name).or_default() += without_tests(&text);
        }
    }
    Ok(())
}

/// The lines of a file before its module of tests.
fn without_tests(text: &str) -> usize {
    let code = text.find("\n#[cfg(test)]\nmod tests {").map_or(text, |end| &text[..=end]);
    code.lines().count()
}

#[cfg(test)]
mod tests {
    use super::without_tests;

    #[test]
    fn a_module_of_tests_is_not_counted_and_a_mention_of_a_file_of_tests_is() {
        assert_eq!(without_tests("a\nb\n\n#[cfg(test)]\nmod tests {\n    c\n}\n"), 3);
        assert_eq!(without_tests("a\n\n#[cfg(test)]\nmod tests;\n"), 4);
    }
}
