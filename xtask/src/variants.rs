//! `cargo xtask variants`: what a new kind of statement, operation, element type or target touches.
//!
//! A variant is added to an enum in a copy of the tree, and the compiler asked which `match`es it makes incomplete; each gets an
//! arm, until everything compiles. The files with such a `match`, and the enum's own, are those which whoever adds a real variant
//! has to open. [`WITHOUT_WILDCARDS`] makes the count mean something: a `match` with `_ =>` would take any variant in silence.

use crate::process;
use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// An enum, and in how many files at most a variant of it may be handled.
struct Counted {
    /// What a variant is.
    what: &'static str,
    file: &'static str,
    name: &'static str,
    /// A variant, as it is declared.
    variant: &'static str,
    most: usize,
}

const COUNTED: [Counted; 4] = [
    Counted {
        what: "a tile operation",
        file: "tile-ir/src/ir/stmt.rs",
        name: "TileOp",
        variant: "Dummy(BufferId)",
        most: 10,
    },
    Counted {
        what: "an operation of a program",
        file: "tile-ir/src/lowered/op.rs",
        name: "OpKind",
        variant: "Dummy(ValueId)",
        most: 6,
    },
    Counted { what: "a dtype", file: "tile-ir/src/ir/dtype.rs", name: "Dtype", variant: "Dummy", most: 10 },
    Counted { what: "a target", file: "tile-ir/src/ir/target.rs", name: "Target", variant: "Dummy", most: 6 },
];

/// Enums over which no `match` of the compiler, the simulators and the runtime has a wildcard arm.
const WITHOUT_WILDCARDS: [&str; 5] = ["StmtKind", "TileOp", "OpKind", "Dtype", "Target"];

/// The packages that match over them.
const PACKAGES: [&str; 3] = ["tile-ir", "tile-syntax", "tile-runtime"];

/// Rounds of adding arms: a `match` may stand inside of another, and a package is compiled after those that it uses.
const ROUNDS: usize = 12;

/// Counts, prints a table and writes `bench/variants.json`.
///
/// # Errors
/// A count above what was promised.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let copy = root.join("target/variants");
    copy_tree(root, &copy)?;
    let mut counts = Vec::new();
    let mut above = Vec::new();
    for counted in &COUNTED {
        let files = files_of(&copy, counted)?;
        println!("{}: {} files, at most {}", counted.what, files.len(), counted.most);
        files.iter().for_each(|file| println!("    {file}"));
        if files.len() > counted.most {
            above.push(format!("{}: {} files, at most {}", counted.what, files.len(), counted.most));
        }
        counts.push(json!({ "enum": counted.name, "what": counted.what, "most": counted.most, "files": files }));
    }
    let text = serde_json::to_string_pretty(&Value::Array(counts))? + "\n";
    std::fs::write(root.join("bench/variants.json"), text).context("bench/variants.json cannot be written")?;
    ensure!(above.is_empty(), "{}", above.join("\n"));
    Ok(())
}

/// The tracked files, in a folder of their own.
fn copy_tree(root: &Path, copy: &Path) -> anyhow::Result<()> {
    let listed = std::process::Command::new("git").current_dir(root).args(["ls-files", "-z"]).output()?;
    ensure!(listed.status.success(), "`git ls-files` failed: this command counts in a checkout");
    for file in String::from_utf8(listed.stdout)?.split('\0').filter(|file| !file.is_empty()) {
        let (from, to) = (root.join(file), copy.join(file));
        // A file that is deleted and not yet committed.
        let Ok(text) = std::fs::read(&from) else { continue };
        if std::fs::read(&to).is_ok_and(|old| old == text) {
            continue;
        }
        std::fs::create_dir_all(to.parent().unwrap_or(copy))?;
        std::fs::write(&to, text).with_context(|| format!("{} cannot be written", to.display()))?;
    }
    Ok(())
}

/// The files that a variant touches.
fn files_of(copy: &Path, counted: &Counted) -> anyhow::Result<BTreeSet<String>> {
    let mut changed: Vec<(String, String)> = Vec::new();
    let mut edit = |file: &str, edit: &dyn Fn(&str) -> Option<String>| -> anyhow::Result<()> {
        let path = copy.join(file);
        let old = std::fs::read_to_string(&path).with_context(|| format!("{file} cannot be read"))?;
        let new = edit(&old).with_context(|| format!("{file} has no `enum {}`", counted.name))?;
        std::fs::write(&path, new)?;
        changed.push((file.to_owned(), old));
        Ok(())
    };
    let head = format!("pub enum {} {{\n", counted.name);
    // The last one: tables are in order of declaration.
    edit(counted.file, &|text| {
        let start = text.find(&head)?;
        let end = start + text[start..].find("\n}\n")? + 1;
        Some(format!("{}    /// Counted.\n    {},\n{}", &text[..end], counted.variant, &text[end..]))
    })?;
    let mut files = BTreeSet::from([counted.file.to_owned()]);
    let mut compiles = false;
    for _ in 0..ROUNDS {
        let (open, others) = incomplete(copy)?;
        if open.is_empty() {
            ensure!(others.is_empty(), "with a variant of `{}`: {}", counted.name, others.join("\n"));
            compiles = true;
            break;
        }
        for (file, mut places) in open {
            // From the end, so that places before it stay where they are.
            places.sort_unstable();
            edit(&file, &|text| {
                let mut text = text.to_owned();
                for at in places.iter().rev() {
                    text.is_char_boundary(*at).then(|| text.insert_str(*at, ", _ => todo!()"))?;
                }
                Some(text)
            })?;
            files.insert(file);
        }
    }
    // The first text of each file is what it had.
    for (file, old) in changed.iter().rev() {
        std::fs::write(copy.join(file), old)?;
    }
    if !compiles {
        bail!("a variant of `{}` does not compile after {ROUNDS} rounds", counted.name);
    }
    Ok(files)
}

/// The `match`es that lack an arm, by file, as the offsets at which one is inserted, and other errors.
type Incomplete = (Vec<(String, Vec<usize>)>, Vec<String>);

fn incomplete(copy: &Path) -> anyhow::Result<Incomplete> {
    let mut command = process::cargo(copy);
    command.args(["check", "--quiet", "--message-format=json", "--features", "tile-ir/testing,tile-ir/parallel"]);
    PACKAGES.iter().for_each(|package| {
        command.args(["--package", package]);
    });
    command.env("CARGO_TARGET_DIR", copy.join("target")).stderr(std::process::Stdio::null());
    let output = command.output().context("cargo cannot be started")?;
    let (mut open, mut others): Incomplete = Default::default();
    for message in messages(&output.stdout) {
        if message["code"]["code"] != "E0004" {
            if message["level"] == "error" && message["code"].is_object() {
                others.push(message["rendered"].as_str().unwrap_or_default().to_owned());
            }
            continue;
        }
        let children = message["children"].as_array().into_iter().flatten();
        let spans = children.flat_map(|child| child["spans"].as_array().into_iter().flatten());
        let Some(span) = spans.into_iter().find(|span| span["suggested_replacement"].is_string()) else {
            bail!("the compiler does not say where an arm goes: {}", message["rendered"]);
        };
        let (Some(file), Some(at)) = (span["file_name"].as_str(), span["byte_start"].as_u64()) else {
            bail!("the compiler gives no place: {span}");
        };
        let at = usize::try_from(at)?;
        match open.iter_mut().find(|(known, _)| known == file) {
            Some((_, places)) if places.contains(&at) => {}
            Some((_, places)) => places.push(at),
            None => open.push((file.to_owned(), vec![at])),
        }
    }
    Ok((open, others))
}

/// The compiler's messages in what cargo printed.
fn messages(output: &[u8]) -> Vec<Value> {
    let lines = output.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    lines.filter(|line| line["reason"] == "compiler-message").map(|line| line["message"].clone()).collect()
}

/// The lint that finds wildcard arms, over whatever enum.
const WILDCARD: &str = "clippy::wildcard_enum_match_arm";

/// Runs clippy over the workspace. Fails on any warning, and where a `match` over one of [`WITHOUT_WILDCARDS`] has a wildcard arm.
///
/// # Errors
/// The warnings are printed; the wildcard arms are the error's text.
pub(crate) fn clippy(root: &Path) -> anyhow::Result<()> {
    let mut command = process::cargo(root);
    command.args(["clippy", "--workspace", "--all-targets", "--message-format=json", "--", "--warn", WILDCARD]);
    process::say("$ cargo clippy --workspace --all-targets");
    let output = command.stderr(std::process::Stdio::inherit()).output().context("cargo cannot be started")?;
    let (mut wildcards, mut warnings) = (BTreeSet::new(), BTreeSet::new());
    for message in messages(&output.stdout) {
        if message["code"]["code"] == WILDCARD {
            wildcards.extend(wildcard(&message));
        } else if message["spans"].as_array().is_some_and(|spans| !spans.is_empty()) || message["level"] == "error" {
            // What has no place is the compiler's count of the others.
            warnings.extend(message["rendered"].as_str().map(str::to_owned));
        }
    }
    warnings.iter().for_each(|warning| eprintln!("{warning}"));
    ensure!(output.status.success() && warnings.is_empty(), "clippy has {} warnings", warnings.len());
    ensure!(
        wildcards.is_empty(),
        "these arms would take a new variant in silence; name the variants, or use what they have in common:\n{}",
        wildcards.into_iter().collect::<Vec<_>>().join("\n")
    );
    Ok(())
}

/// Where a wildcard arm stands for variants of an enum that may have none.
fn wildcard(message: &Value) -> Option<String> {
    let children = message["children"].as_array().into_iter().flatten();
    let spans = children.flat_map(|child| child["spans"].as_array().into_iter().flatten());
    let pattern = spans.into_iter().find_map(|span| span["suggested_replacement"].as_str())?;
    // `StmtKind::Let { .. } | ..`, perhaps with a path before it.
    let first = pattern.split('|').next()?.trim().trim_start_matches('&');
    let path: Vec<&str> = first.split(['{', '(']).next()?.trim().split("::").collect();
    let owner = path.len().checked_sub(2).and_then(|at| path.get(at))?;
    let span = &message["spans"][0];
    let file = span["file_name"].as_str()?;
    // Tests may look for what they expect, and take the rest together.
    let is_held =
        PACKAGES.iter().any(|package| file.starts_with(&format!("{package}/src/"))) && !file.contains("tests");
    (is_held && WITHOUT_WILDCARDS.contains(owner))
        .then(|| format!("{file}:{}: a wildcard arm over `{owner}`", span["line_start"]))
}
