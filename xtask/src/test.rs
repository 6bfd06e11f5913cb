//! `cargo xtask test` and `cargo xtask ci`.

use crate::process::{cargo, run as run_command, say};
use crate::{book, builds, candle, editor, setup};
use anyhow::Result;
use std::path::Path;
use std::time::Instant;

/// Everything a machine without a GPU can run. `args` go to `cargo test`; with any, only that is run.
pub fn run(root: &Path, args: &[String]) -> Result<()> {
    let start = Instant::now();
    let tools = setup::run(setup::Wanted::Tests, Some(&root.join("target")))?;
    let with_tools = |mut command: std::process::Command| {
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
    for example in book::check(root)?.examples {
        let mut command = with_tools(cargo(root));
        run_command(command.args(["run", "--quiet", "--example", &example]).env("TILE_DEVICE", "sim"))?;
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

/// Formatting, clippy and documentation without warnings, each choice of features, candle with ours, then [`run`].
pub fn ci(root: &Path) -> Result<()> {
    run_command(cargo(root).args(["fmt", "--all", "--check"]))?;
    run_command(cargo(root).args(["clippy", "--workspace", "--all-targets", "--", "-Dwarnings"]))?;
    run_command(cargo(root).args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-Dwarnings"))?;
    builds::features(root)?;
    candle::check(root)?;
    editor::run(root)?;
    // Before the tests, so that they build the book with it.
    book::mdbook(root)?;
    run(root, &[])?;
    say(
        "not run: `cargo xtask builds` (oldest Rust, other platforms), `cargo xtask own-crate` and `cargo xtask candle` (the tests of tile-candle), which no run has shown to pass whole",
    );
    Ok(())
}
