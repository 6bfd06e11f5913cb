//! `cargo xtask builds`: that the crates build for whoever uses them, and not only as this repository does.
//!
//! | what | how |
//! |---|---|
//! | each choice of features | `cargo check` without CUDA, with a version of CUDA that the program chooses, and by default |
//! | the oldest Rust supported | `cargo check` with that toolchain, which `rustup` installs where it can |
//! | other platforms | `cargo check --target`, with the standard library that `rustup` installs where it can |
//!
//! A toolchain, a standard library or crates that cannot be had here, as without a network, are no mistake of this repository: what
//! needs them is skipped, and that is said with the reason. Nothing is linked or run.

use crate::process::{cargo, output, run as run_command, say, spell};
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

/// `cargo check` in the workspace's own folder. All platforms and choices of features share the macros there, which `cargo test` needs too:
/// they are optimised, since they expand a few dozen kernels each time.
fn check(root: &Path) -> Command {
    let mut command = cargo(root);
    command.args(["check", "--locked", "--quiet"]);
    command
}

/// Checks each choice of features.
fn features(root: &Path) -> Result<()> {
    run_command(check(root).args(LIBRARIES).arg("--no-default-features"))?;
    // Another version than ours, by the variable that stands for what a build system finds.
    let mut own = check(root);
    own.args(LIBRARIES).args(["--no-default-features", "--features", "cudarc"]).env("CUDARC_CUDA_VERSION", "12080");
    run_command(&mut own)?;
    run_command(check(root).args(LIBRARIES))
}

/// Another Rust needs macros of its own. They expand the kernels once, which takes less than optimising them.
const UNOPTIMISED: [&str; 4] =
    ["--config", "profile.dev.build-override.opt-level=0", "--config", "profile.dev.package.tile-ir.opt-level=0"];

/// Checks with the oldest Rust supported; what is skipped if it cannot be had.
fn oldest(root: &Path) -> Result<Option<String>> {
    let metadata = output(cargo(root).args(["metadata", "--no-deps", "--format-version", "1", "--offline"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let version = metadata["packages"][0]["rust_version"].as_str().context("no package says its `rust-version`")?;
    let toolchain = format!("{version}.0");
    // The toolchain of this program is not the one to check with.
    let with_oldest = |command: &str| {
        let mut cargo = Command::new("rustup");
        cargo.current_dir(root).args(["run", &toolchain, "cargo", command, "--locked", "--quiet"]);
        cargo.env_remove("RUSTC").env_remove("RUSTDOC");
        cargo
    };
    let what = format!("checking with Rust {version}");
    if had(Command::new("rustup").args(["run", &toolchain, "cargo", "--version"])).is_err() {
        let install = ["toolchain", "install", &toolchain, "--profile", "minimal", "--no-self-update"];
        if let Err(why) = had(Command::new("rustup").args(install)) {
            return Ok(Some(format!("{what}: {why}")));
        }
    }
    if let Err(why) = had(&mut with_oldest("fetch")) {
        return Ok(Some(format!("{what}: {why}")));
    }
    let mut check = with_oldest("check");
    check.args(UNOPTIMISED).arg("--target-dir").arg(root.join("target/builds"));
    check.args(LIBRARIES).args(["-p", "cargo-tile"]);
    run_command(&mut check)?;
    Ok(None)
}

/// Checks for a platform; what is skipped if its standard library or its crates cannot be had.
fn platform(root: &Path, target: &str, checks: &[&[&str]]) -> Result<Option<String>> {
    let standard_library = had(Command::new("rustup").current_dir(root).args(["target", "add", target]));
    // The choices of features were checked before, so a lock file that is out of date has been an error already.
    let crates = || had(cargo(root).args(["fetch", "--locked", "--quiet", "--target", target]));
    if let Err(why) = standard_library.and_then(|()| crates()) {
        return Ok(Some(format!("checking for {target}: {why}")));
    }
    for what in checks {
        run_command(check(root).args(["--target", target]).args(*what))?;
    }
    Ok(None)
}

/// Runs a command that gets something from elsewhere, without showing what it prints; why it failed, if it did.
fn had(command: &mut Command) -> Result<(), String> {
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => return Err(format!("`{}` could not be started: {error}", spell(command))),
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it did not say why");
    Err(format!("`{}` failed: {why}", spell(command)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_says_why() {
        assert_eq!(had(Command::new("cargo").arg("--version")), Ok(()));
        let why = had(Command::new("cargo").arg("no-such-command-of-cargo")).unwrap_err();
        assert!(why.starts_with("`cargo no-such-command-of-cargo` failed: "), "{why}");
        let why = had(&mut Command::new("/nonexistent/rustup")).unwrap_err();
        assert!(why.contains("`rustup` could not be started"), "{why}");
    }

    #[test]
    fn a_platform_without_a_standard_library_is_skipped() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let skipped = platform(root, "no-such-platform", &[&["--no-such-flag"]]).unwrap().unwrap();
        assert!(skipped.starts_with("checking for no-such-platform: "), "{skipped}");
    }
}
