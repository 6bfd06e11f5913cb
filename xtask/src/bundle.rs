//! `cargo xtask gpu-bundle`: what to carry to a machine that has a GPU and no Rust.
//!
//! `target/gpu` gets every example and `tile-llm` as `NAME` and each integration test that a GPU can run as `test-NAME` (`test-recipes` is the
//! cookbook's, `test-model` that of `tile-llm`), all built in release and stripped, and `manifest.json`, which lists them with the commit they were built from.
//! Programs look for committed data in the current folder: run them in the repository's root.

use crate::process::{cargo, output, run as run_command, say};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Integration tests that a GPU has something to say about, beside those that [`on_every_device`] finds.
const TESTS: [&str; 3] = ["gpu", "executors", "grammar"];

/// The tests of a folder that run on every device there is: they ask `devices()` for them, or open one themselves.
fn on_every_device(tests: &Path) -> Result<Vec<String>> {
    let mut names = vec![];
    for entry in fs::read_dir(tests).with_context(|| format!("could not read {}", tests.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            if text.contains("devices::devices") || text.contains("Device::cuda(") {
                names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
            }
        }
    }
    names.sort();
    Ok(names)
}

/// Builds the bundle.
pub fn run(root: &Path) -> Result<()> {
    let build = |args: &[&str]| -> Result<BTreeMap<String, PathBuf>> {
        let mut command = cargo(root);
        command.args(args).args(["--release", "--message-format=json-render-diagnostics"]);
        say(format!("$ {}", crate::process::spell(&command)));
        Ok(executables(&output(&mut command)?))
    };
    // `cargo test --examples` would link the examples as tests, so they are built apart.
    let mut programs = build(&["build", "--examples"])?;
    let found = on_every_device(&root.join("tests"))?;
    let tests = TESTS.into_iter().chain(found.iter().map(String::as_str)).flat_map(|name| ["--test", name]);
    programs.extend(build(&["test", "--no-run"].into_iter().chain(tests).collect::<Vec<_>>())?);

    // In builds of their own, since `--test` looks in every package that is named.
    programs.extend(build(&["test", "--no-run", "-p", "tile-cookbook", "--test", "recipes"])?);
    programs.extend(build(&["test", "--no-run", "-p", "tile-llm", "--test", "model"])?);
    programs.extend(build(&["build", "-p", "tile-llm"])?);

    let folder = root.join("target/gpu");
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder).with_context(|| format!("could not create {}", folder.display()))?;
    let mut listed = Vec::new();
    for (name, built) in &programs {
        let copy = folder.join(name);
        fs::copy(built, &copy).with_context(|| format!("could not copy {}", built.display()))?;
        run_command(Command::new("strip").arg(&copy)).context("is binutils installed?")?;
        listed.push(json!({ "name": name, "bytes": fs::metadata(&copy)?.len() }));
    }
    let git =
        |args: &[&str]| output(Command::new("git").current_dir(root).args(args)).map(|text| text.trim().to_owned());
    let manifest = json!({
        "commit": git(&["rev-parse", "HEAD"]).ok(),
        "modified": git(&["status", "--porcelain"]).map(|text| !text.is_empty()).ok(),
        "rustc": output(Command::new("rustc").current_dir(root).arg("--version"))?.trim(),
        "programs": listed,
    });
    fs::write(folder.join("manifest.json"), format!("{manifest:#}\n"))?;
    let bytes: u64 = manifest["programs"].as_array().into_iter().flatten().filter_map(|p| p["bytes"].as_u64()).sum();
    say(format!("{} programs, {} MiB, in {}", programs.len(), bytes.div_ceil(1 << 20), folder.display()));
    Ok(())
}

/// The programs among cargo's messages, by stable name.
fn executables(messages: &str) -> BTreeMap<String, PathBuf> {
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    artifacts.filter_map(|artifact| stable_name(&artifact)).collect()
}

fn stable_name(artifact: &Value) -> Option<(String, PathBuf)> {
    let path = PathBuf::from(artifact["executable"].as_str()?);
    let name = artifact["target"]["name"].as_str()?;
    let kind = artifact["target"]["kind"][0].as_str()?;
    let is_test = artifact["profile"]["test"].as_bool()?;
    let stable = match (kind, is_test) {
        ("example" | "bin", false) => name.to_owned(),
        ("test", true) => format!("test-{name}"),
        _ => return None,
    };
    Some((stable, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_no_hash() {
        let messages = r#"
{"reason":"compiler-artifact","target":{"kind":["example"],"name":"gemv"},"profile":{"test":false},"executable":"/t/gemv"}
{"reason":"compiler-artifact","target":{"kind":["test"],"name":"nvrtc"},"profile":{"test":true},"executable":"/t/nvrtc-0a1b"}
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"tile_ir"},"profile":{"test":true},"executable":"/t/tile_ir-2c"}
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"tile_ir"},"profile":{"test":false},"executable":null}
{"reason":"build-finished","success":true}"#;
        let names: Vec<String> = executables(messages).into_keys().collect();
        assert_eq!(names, ["gemv", "test-nvrtc"]);
    }
}
