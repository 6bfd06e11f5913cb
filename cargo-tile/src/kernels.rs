//! The kernels of a package: recorded while cargo checks it, read back, and kept for the life of the process.
//!
//! `target/tile/PACKAGE-NUMBER` holds the records; the number is of the package's path, because packages may share a target folder. Cargo checks a target again only where its source has changed, so what an earlier
//! check has written is kept until then. A number in that folder is part of the command line of the checks: where the folder is
//! gone, they are other checks, which cargo has not made yet.

use crate::project::{Kind, Project, Target};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tile_ir::record::{self, Role, Unreadable};
use tile_runtime::kernel::Definition;

/// A kernel of the package.
pub struct Found {
    /// The kernel.
    pub definition: &'static Definition,
    /// Its file.
    pub file: String,
    /// The line where it begins.
    pub line: u32,
    /// What it is part of.
    pub target: Target,
}

impl Found {
    /// `src/lib.rs:12`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

/// All kernels of the project's targets, in the order of their source.
pub fn all(project: &Project) -> Result<Vec<Found>> {
    let folder = project.target_folder.join("tile").join(project.id());
    fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
    let mark = mark(&folder)?;
    let mut found = Vec::new();
    for target in &project.targets {
        let started = touch(&folder)?;
        let compiled = project.record(target, &folder, &mark)?;
        let Some(path) = latest(&folder, target, compiled.then_some(started))? else { continue };
        let bytes = fs::read(&path).with_context(|| format!("could not read {}", path.display()))?;
        let kernels = record::read(&bytes).map_err(|problem| match problem {
            Unreadable::Version(version) => anyhow::anyhow!(
                "the kernels of {} were made by tile-runtime {version}, this is cargo-tile {}: \
                 `cargo install cargo-tile --version {version}`",
                project.name,
                record::VERSION
            ),
            Unreadable::Damaged => anyhow::anyhow!("{} is damaged: remove it and try again", path.display()),
        })?;
        for kernel in kernels {
            found.push(read(kernel, project, target)?);
        }
    }
    Ok(found)
}

fn read(bytes: &[u8], project: &Project, target: &Target) -> Result<Found> {
    let kernel = tile_ir::codec::decode(bytes)?;
    // A kernel is there for the life of a program; this one ends with its command.
    let (name, bytes): (&'static str, &'static [u8]) = (kernel.name.clone().leak(), bytes.to_vec().leak());
    let definition: &'static Definition = Box::leak(Box::new(Definition::new(name, bytes)));
    let file = Path::new(&kernel.source.file);
    let file = file.strip_prefix(project.folder()).unwrap_or(file).display().to_string();
    Ok(Found { definition, file, line: kernel.source.first_line, target: target.clone() })
}

/// What tells the checks of this folder from others.
fn mark(folder: &Path) -> Result<String> {
    let path = folder.join("mark");
    if let Ok(mark) = fs::read_to_string(&path)
        && !mark.is_empty()
        && mark.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Ok(mark);
    }
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let mark = format!("{time}{}", std::process::id());
    fs::write(&path, &mark).with_context(|| format!("could not write {}", path.display()))?;
    Ok(mark)
}

/// The time, as the file system has it.
fn touch(folder: &Path) -> Result<SystemTime> {
    let path = folder.join("started");
    let touched = fs::write(&path, "").and_then(|()| fs::metadata(&path)?.modified());
    touched.with_context(|| format!("could not write {}", path.display()))
}

/// The record of a target: the latest of its crate, the older ones being removed. One from before `started`, when rustc last began to
/// check it, is removed too: that check has written none, because the crate has no kernels any more.
fn latest(folder: &Path, target: &Target, started: Option<SystemTime>) -> Result<Option<PathBuf>> {
    let role = match target.kind {
        Kind::Lib => Role::Library,
        Kind::Bin | Kind::Example => Role::Binary(&target.name),
        Kind::Test => Role::Test,
    };
    let prefix = record::prefix(&target.crate_name(), role);
    let mut files: Vec<(SystemTime, PathBuf)> = fs::read_dir(folder)?
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    files.sort();
    let last = files.pop().filter(|(written, path)| {
        let current = started.is_none_or(|started| *written >= started);
        if !current {
            fs::remove_file(path).ok();
        }
        current
    });
    for (_, old) in files {
        fs::remove_file(&old).ok();
    }
    Ok(last.map(|(_, path)| path))
}
