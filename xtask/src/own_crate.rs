//! `cargo xtask own-crate`: does what a page of the book says, "Your own crate" or "Kernels in candle", in an empty folder, with
//! the crates as they would be published.
//!
//! 1. Packages every crate of the workspace that may be published, and unpacks them.
//! 2. Makes an empty folder outside of the workspace, whose cargo configuration puts them in the place of crates.io's. There is
//!    no network: versions are those of this workspace's lock file.
//! 3. Compiles the dependencies that the page names, for a crate without code, and says how long that took.
//! 4. Reads the page up to its first `##` heading: each `console` block is run; each other block that follows a line with "`FILE`:" is written to that file,
//!    or added to its end where the line begins with "Add".
//!
//! What 4 takes is the time from an empty folder to a kernel of one's own that is tested.

use crate::book::expand;
use crate::process::{cargo, output, run as run_command, say};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The longest that the page may take its reader, apart from compiling dependencies.
const MOST: Duration = Duration::from_secs(180);

/// A page that has its reader make a crate.
pub struct Page {
    file: &'static str,
    /// The folders of the workspaces whose crates it uses; the last one's lock file has the versions of all others.
    workspaces: &'static [&'static str],
    /// Where its crate is built, below `target`: beside what has the same dependencies, so that these are compiled once.
    build: &'static str,
}

/// "Your own crate".
pub const OWN: Page = Page { file: "book/src/own-crate.md", workspaces: &["."], build: "candle" };
/// "Kernels in candle".
pub const CANDLE: Page = Page { file: "book/src/candle.md", workspaces: &[".", "tile-candle"], build: "candle" };

/// Follows a page.
pub fn run(root: &Path, page: Page) -> Result<()> {
    let file = root.join(page.file);
    let text = fs::read_to_string(&file).with_context(|| format!("could not read {}", file.display()))?;
    let steps = steps(&expand(&file, text.split("\n## ").next().unwrap_or_default())?)?;
    let place = root.join("target/own-crate");
    let build = root.join("target").join(page.build);
    let (mut packaged, mut lock) = (Vec::new(), root.join("Cargo.lock"));
    for workspace in page.workspaces {
        packaged.extend(packages(&root.join(workspace), &place)?);
        lock = root.join(workspace).join("Cargo.lock");
    }
    let empty = Empty::new(lock, &needed(&packaged, &steps))?;

    let start = Instant::now();
    empty.compile_dependencies(&steps, &build)?;
    say(format!("the dependencies took {:.0} s", start.elapsed().as_secs_f64()));

    let start = Instant::now();
    let mut here = empty.folder.clone();
    let mut tested = false;
    for step in &steps {
        match step {
            Step::Run(line) => tested |= empty.type_in(line, &mut here, &build)?,
            Step::Write { file, text, add } => {
                let file = here.join(file);
                let before = if *add { fs::read_to_string(&file)? } else { String::new() };
                fs::write(&file, before + text).with_context(|| format!("could not write {}", file.display()))?;
            }
        }
    }
    let took = start.elapsed();
    ensure!(tested, "the page's commands ran no test");
    ensure!(took <= MOST, "the page took {} s, more than {} s", took.as_secs(), MOST.as_secs());
    say(format!("from an empty folder to a tested kernel: {:.1} s", took.as_secs_f64()));
    Ok(())
}

/// A crate of the workspace, unpacked.
struct Package {
    name: String,
    folder: PathBuf,
    /// The names of what it depends on.
    needs: Vec<String>,
}

/// Packages and unpacks every crate that may be published.
fn packages(root: &Path, place: &Path) -> Result<Vec<Package>> {
    let metadata = output(cargo(root).args(["metadata", "--no-deps", "--format-version", "1", "--offline"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let all = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let (kept, published): (Vec<_>, Vec<_>) =
        all.iter().partition(|package| package["publish"].as_array().is_some_and(Vec::is_empty));
    let name = |package: &serde_json::Value| package["name"].as_str().unwrap_or_default().to_owned();

    let mut package = cargo(root);
    // Without a lock file: it would need those of the packages that are in another workspace on crates.io.
    package.args([
        "package",
        "--workspace",
        "--no-verify",
        "--allow-dirty",
        "--offline",
        "--quiet",
        "--exclude-lockfile",
    ]);
    package.arg("--target-dir");
    package.arg(place);
    for kept in &kept {
        package.args(["--exclude", &name(kept)]);
    }
    run_command(&mut package)?;

    let unpacked = place.join("unpacked");
    fs::create_dir_all(&unpacked)?;
    let mut found = Vec::new();
    for package in published {
        let full = format!("{}-{}", name(package), package["version"].as_str().unwrap_or_default());
        let archive = place.join("package").join(format!("{full}.crate"));
        let folder = unpacked.join(&full);
        // Only what has changed is unpacked, so that only that is compiled again.
        let (bytes, seen) = (fs::read(&archive)?, unpacked.join(format!("{full}.crate")));
        if fs::read(&seen).ok().as_ref() != Some(&bytes) || !folder.is_dir() {
            if folder.exists() {
                fs::remove_dir_all(&folder)?;
            }
            // `m`: files are as new as they are here; cargo would take those of an archive for old ones.
            run_command(Command::new("tar").arg("-xzmf").arg(&archive).arg("-C").arg(&unpacked))?;
            fs::write(&seen, &bytes)?;
        }
        for file in ["README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
            ensure!(folder.join(file).is_file(), "the package {full} has no {file}");
        }
        let needs = package["dependencies"].as_array().into_iter().flatten().map(name).collect();
        found.push(Package { name: name(package), folder, needs });
    }
    ensure!(!found.is_empty(), "no crate may be published");
    Ok(found)
}

/// The packages that the page's dependencies need: cargo warns about others.
fn needed<'a>(packages: &'a [Package], steps: &[Step]) -> Vec<&'a Package> {
    let named =
        |package: &&Package| manifest_lines(steps).any(|line| line.split([' ', '=']).next() == Some(&package.name));
    let mut needed: Vec<&Package> = packages.iter().filter(named).collect();
    let mut next = 0;
    while let Some(package) = needed.get(next).copied() {
        let more = packages.iter().filter(|other| package.needs.contains(&other.name));
        let more: Vec<&Package> = more.filter(|other| needed.iter().all(|known| known.name != other.name)).collect();
        needed.extend(more);
        next += 1;
    }
    needed
}

/// What the page adds to the manifest.
fn manifest_lines(steps: &[Step]) -> impl Iterator<Item = &str> {
    let texts = steps.iter().filter_map(|step| match step {
        Step::Write { file, text, .. } if file == "Cargo.toml" => Some(text.as_str()),
        _ => None,
    });
    texts.flat_map(str::lines)
}

/// The empty folder; removed when dropped.
struct Empty {
    folder: PathBuf,
    lock: PathBuf,
}

impl Drop for Empty {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}

impl Empty {
    fn new(lock: PathBuf, packages: &[&Package]) -> Result<Empty> {
        let folder = std::env::temp_dir().join(format!("tile-own-crate-{}", std::process::id()));
        fs::create_dir_all(folder.join(".cargo"))?;
        let empty = Empty { folder, lock };
        let mut config = String::from("[net]\noffline = true\n[patch.crates-io]\n");
        for package in packages {
            config += &format!("{} = {{ path = {:?} }}\n", package.name, package.folder.display().to_string());
        }
        fs::write(empty.folder.join(".cargo/config.toml"), config)?;
        Ok(empty)
    }

    /// Compiles what the page depends on, for a crate without code.
    fn compile_dependencies(&self, steps: &[Step], build: &Path) -> Result<()> {
        let lines = manifest_lines(steps).flat_map(|line| [line, "\n"]);
        let manifest = String::from("[package]\nname = \"warm\"\nedition = \"2024\"\n[dependencies]\n");
        let folder = self.folder.join("warm");
        fs::create_dir_all(folder.join("src"))?;
        fs::write(folder.join("Cargo.toml"), manifest + &lines.collect::<String>())?;
        fs::write(folder.join("src/lib.rs"), "")?;
        fs::copy(&self.lock, folder.join("Cargo.lock"))?;
        run_command(&mut self.command("cargo test --no-run --quiet", &folder, build))?;
        fs::remove_dir_all(&folder)?;
        Ok(())
    }

    fn command(&self, line: &str, here: &Path, build: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(here).env("CARGO_TARGET_DIR", build);
        // Nobody debugs what is built here: debug information would only take time.
        command.env("CARGO_PROFILE_DEV_DEBUG", "false");
        // What cargo tells this program about itself is not the reader's.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") || text.starts_with("TILE_") {
                command.env_remove(&name);
            }
        }
        command
    }

    /// Does what a reader types; says whether a test has passed.
    fn type_in(&self, line: &str, here: &mut PathBuf, build: &Path) -> Result<bool> {
        say(format!("$ {line}"));
        if let Some(folder) = line.strip_prefix("cd ") {
            *here = here.join(folder.trim());
            ensure!(here.is_dir(), "there is no folder {}", here.display());
            // The versions of this workspace: nothing else may be at hand without a network.
            fs::copy(&self.lock, here.join("Cargo.lock"))?;
            return Ok(false);
        }
        let printed = output(&mut self.command(line, here, build))?;
        print!("{printed}");
        let passed = |l: &str| l.strip_prefix("test result: ok. ")?.split(' ').next()?.parse::<u32>().ok();
        Ok(printed.lines().filter_map(passed).any(|passed| passed > 0))
    }
}

/// Something that the page has its reader do.
#[derive(Debug, PartialEq)]
enum Step {
    /// Type this.
    Run(String),
    /// Write this to a file, or add it to its end.
    Write { file: String, text: String, add: bool },
}

/// What a page, whose listings are written out, has its reader do, in order.
fn steps(page: &str) -> Result<Vec<Step>> {
    let (mut steps, mut said) = (Vec::new(), "");
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            if !line.trim().is_empty() {
                said = line.trim();
            }
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
        if language == "console" {
            steps.extend(block.iter().filter_map(|line| line.strip_prefix("$ ")).map(|line| Step::Run(line.into())));
        } else if let Some(file) = said.strip_suffix("`:").and_then(|said| said.rsplit('`').next()) {
            let text = block.iter().flat_map(|line| [line, "\n"]).collect();
            steps.push(Step::Write { file: file.into(), text, add: said.starts_with("Add") });
        } else if language != "text" {
            bail!("nothing says where this goes: ```{language} after `{said}`");
        }
        said = "";
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_what_to_do() {
        let page = "# A page\n\n```console\n$ cargo new x\n     Created\n$ cd x\n```\n\nAdd to `Cargo.toml`:\n\n```toml\na = 1\n```\n\
            Then write to `src/lib.rs`:\n```rust\nfn f() {}\n```\nIt prints\n```text\nok\n```\n";
        let run = |line: &str| Step::Run(line.into());
        let write = |file: &str, text: &str, add| Step::Write { file: file.into(), text: text.into(), add };
        let expected = [
            run("cargo new x"),
            run("cd x"),
            write("Cargo.toml", "a = 1\n", true),
            write("src/lib.rs", "fn f() {}\n", false),
        ];
        assert_eq!(steps(page).unwrap(), expected);
        assert!(steps("Nowhere:\n```rust\nfn f() {}\n```\n").is_err());
    }
}
