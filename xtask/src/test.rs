//! `cargo xtask test` and `cargo xtask ci`.

use crate::process::{cargo, output, run as run_command, say};
use crate::{book, setup, variants};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

/// Everything a machine without a GPU can run. `args` go to `cargo test`; with any, only that is run.
pub fn run(root: &Path, args: &[String]) -> Result<()> {
    let start = Instant::now();
    let tools = setup::run(setup::Wanted::Tests, Some(&root.join("target")))?;
    let with_tools = |mut command: Command| {
        command.env("TILE_NVRTC", &tools.nvrtc).env("TILE_NVDISASM", &tools.nvdisasm);
        // Not the user's own cache of kernels.
        command.env("TILE_CACHE_DIR", root.join("target/kernel-cache"));
        command
    };
    run_command(with_tools(cargo(root)).args(["test", "--workspace"]).args(args))?;
    if !args.is_empty() {
        say("ran only what was asked for: neither the examples nor the book were checked");
        return Ok(());
    }
    let built = examples(root)?;
    for example in book::check(root)?.examples {
        let program = built.get(&example).with_context(|| format!("the book's example {example} was not built"))?;
        run_command(with_tools(Command::new(program)).current_dir(root).env("TILE_DEVICE", "sim"))?;
    }
    if let Some(mdbook) = book::installed_mdbook(root) {
        book::build(root, &mdbook)?;
    }

    say(format!("passed in {} s", start.elapsed().as_secs()));
    for skipped in skipped(root) {
        say(format!("skipped: {skipped}"));
    }
    Ok(())
}

/// The programs of the workspace's examples. The tests have built them: `cargo run` would build the crates below them once more, with the
/// features of one package alone.
fn examples(root: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let messages = output(cargo(root).args(["build", "--workspace", "--examples", "--message-format=json"]))?;
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let program = |message: serde_json::Value| {
        let is_example = message["target"]["kind"].as_array()?.iter().any(|kind| kind == "example");
        let name = message["target"]["name"].as_str().filter(|_| is_example)?;
        Some((name.to_owned(), PathBuf::from(message["executable"].as_str()?)))
    };
    Ok(messages.filter_map(program).collect())
}

/// What this machine could not run.
fn skipped(root: &Path) -> Vec<&'static str> {
    let mut skipped = Vec::new();
    if !["/dev/nvidiactl", "/dev/dxg"].iter().any(|node| Path::new(node).exists()) {
        skipped.push("whatever needs a GPU (there is none here: every kernel ran on the simulators instead)");
    }
    if book::installed_mdbook(root).is_none() {
        skipped
            .push("building the book to HTML (`cargo xtask book` does; its listings, links and drawings were checked)");
    }
    skipped
}

/// The commands of [`ci`] that run beside the rest: those that build in folders of their own, and last the one that builds in the
/// workspace's, which would keep clippy and the tests waiting.
const BESIDE: [&[&str]; 5] = [&["candle"], &["own-crate"], &["own-crate", "--candle"], &["editor"], &["builds"]];

/// Formatting, clippy and documentation without warnings, no wildcard arms over what grows, [`run`], and beside these each choice of
/// features, the oldest Rust and other platforms, `tile-candle`, the crates that the book's pages make, and what an editor is told.
///
/// Two at a time, since crates that need one another are built one after another, which leaves one of two cores idle.
pub fn ci(root: &Path) -> Result<()> {
    run_command(cargo(root).args(["fmt", "--all", "--check"]))?;
    // A copy, since `cargo test --workspace` may link this program anew.
    let program = root.join("target/xtask-of-ci");
    fs::copy(std::env::current_exe()?, &program).context("this program could not be copied")?;
    let stopped = AtomicBool::new(false);
    let (own, others) = thread::scope(|scope| {
        let others = scope.spawn(|| beside(root, &program, &stopped));
        let own = in_order(root);
        stopped.store(own.is_err(), Ordering::Relaxed);
        (own, others.join().unwrap_or_else(|_| bail!("the steps beside the tests panicked")))
    });
    own?;
    book::build(root, &others?)?;
    say("not run: `cargo xtask soak` and `cargo xtask bench`");
    Ok(())
}

/// What [`ci`] does in the workspace's own target folder.
fn in_order(root: &Path) -> Result<()> {
    timed("clippy", || variants::clippy(root))?;
    run_command(cargo(root).args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-Dwarnings"))?;
    run(root, &[])
}

/// Builds mdbook where there is none, which is returned, and runs [`BESIDE`], each command's output in one piece when it has ended. All of
/// them run, whichever fails, until `stopped`.
fn beside(root: &Path, program: &Path, stopped: &AtomicBool) -> Result<PathBuf> {
    let mdbook = book::mdbook(root)?;
    let mut failed = vec![];
    for args in BESIDE {
        if stopped.load(Ordering::Relaxed) {
            break;
        }
        let step = args.join(" ");
        timed(&step, || {
            let ended = Command::new(program).args(args).stdin(Stdio::null()).output().context(step.clone())?;
            let said = [&ended.stdout, &ended.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            say(format!("beside the rest, `{step}` said\n{}", said.concat()));
            if !ended.status.success() {
                failed.push(step.clone());
            }
            Ok(())
        })?;
    }
    ensure!(failed.is_empty(), "of the steps beside the tests these failed: {}", failed.join(", "));
    Ok(mdbook)
}

/// Does a step, and says how long it took.
fn timed(step: &str, run: impl FnOnce() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    run()?;
    say(format!("{step}: {} s", start.elapsed().as_secs()));
    Ok(())
}
