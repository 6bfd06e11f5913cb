//! `cargo xtask builds`: that the crates build for whoever uses them, and not only as this repository does.
//!
//! | what | how |
//! |---|---|
//! | each choice of features | `cargo check` without CUDA, with a version of CUDA that the program chooses, and by default |
//! | the oldest Rust supported | `cargo check` with that toolchain, which `rustup` installs where it can |
//! | other platforms | `cargo check --target`, with the standard library that `rustup` installs where it can |
//!
//! What cannot be installed is skipped, and said. Nothing is linked or run.

use crate::process::{cargo, output, run as run_command, say};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::{Command, Stdio};

/// Crates that users depend on; they bring the others.
const LIBRARIES: [&str; 4] = ["-p", "tile-runtime", "-p", "tile-kernels"];

/// A platform beside this one, and what is checked for it: arguments of `cargo check`, a run each.
const PLATFORMS: [(&str, &[&[&str]]); 4] = [
    (
        "x86_64-pc-windows-gnu",
        &[
            &["-p", "tile-runtime", "-p", "tile-kernels"],
            // The tests of the simulators, of tensors and launches.
            &["-p", "tile-ir", "--features", "parallel", "--lib", "--profile", "test"],
            &["-p", "tile-runtime", "--no-default-features", "--lib", "--profile", "test"],
        ],
    ),
    ("aarch64-apple-darwin", &[&["-p", "tile-runtime", "-p", "tile-kernels"]]),
    ("aarch64-unknown-linux-gnu", &[&["-p", "tile-runtime", "-p", "tile-kernels"]]),
    ("wasm32-unknown-unknown", &[&["-p", "tile-ir", "--features", "sim"], &["-p", "tile-syntax"]]),
];

/// Checks everything, and says what was skipped.
pub fn run(root: &Path) -> Result<()> {
    features(root)?;
    let mut skipped: Vec<String> = oldest(root)?.into_iter().collect();
    for (target, checks) in PLATFORMS {
        skipped.extend(platform(root, target, checks)?);
    }
    for skipped in &skipped {
        say(format!("skipped: {skipped}"));
    }
    Ok(())
}

/// `cargo check` with a folder of its own, so that the features of one do not build those of another anew.
fn check(root: &Path, folder: &str) -> Command {
    let mut command = cargo(root);
    command.args(["check", "--locked", "--quiet", "--target-dir"]).arg(root.join("target/builds").join(folder));
    command
}

/// Checks each choice of features.
pub fn features(root: &Path) -> Result<()> {
    run_command(check(root, "here").args(LIBRARIES).arg("--no-default-features"))?;
    // Another version than ours, by the variable that stands for what a build system finds.
    let mut own = check(root, "here");
    own.args(LIBRARIES).args(["--no-default-features", "--features", "cudarc"]).env("CUDARC_CUDA_VERSION", "12080");
    run_command(&mut own)?;
    run_command(check(root, "here").args(LIBRARIES))
}

/// Checks with the oldest Rust supported; what is skipped if it cannot be had.
fn oldest(root: &Path) -> Result<Option<String>> {
    let metadata = output(cargo(root).args(["metadata", "--no-deps", "--format-version", "1", "--offline"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let version = metadata["packages"][0]["rust_version"].as_str().context("no package says its `rust-version`")?;
    let toolchain = format!("{version}.0");
    if !answers(Command::new("rustup").args(["run", &toolchain, "cargo", "--version"])) {
        let install = ["toolchain", "install", &toolchain, "--profile", "minimal", "--no-self-update"];
        if !answers(Command::new("rustup").args(install)) {
            return Ok(Some(format!("checking with Rust {version}, which could not be installed")));
        }
    }
    let mut command = Command::new("rustup");
    command.current_dir(root).args(["run", &toolchain, "cargo", "check", "--locked", "--quiet", "--target-dir"]);
    // The toolchain of this program is not the one to check with.
    command.arg(root.join("target/builds/oldest")).args(LIBRARIES).env_remove("RUSTC").env_remove("RUSTDOC");
    run_command(&mut command)?;
    Ok(None)
}

/// Checks for a platform; what is skipped if its standard library cannot be had.
fn platform(root: &Path, target: &str, checks: &[&[&str]]) -> Result<Option<String>> {
    if !answers(Command::new("rustup").current_dir(root).args(["target", "add", target])) {
        return Ok(Some(format!("checking for {target}, whose standard library could not be installed")));
    }
    for what in checks {
        run_command(check(root, "elsewhere").args(["--target", target]).args(*what))?;
    }
    Ok(None)
}

/// Whether a command succeeds; what it prints is not shown.
fn answers(command: &mut Command) -> bool {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .stdin(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
