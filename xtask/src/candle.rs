//! `cargo xtask candle`: `tile-candle`, which is a workspace of its own.
//!
//! | what | how |
//! |---|---|
//! | candle alone decides which CUDA it is | `cargo tree`: no version feature of cudarc is asked for |
//! | it builds with candle's CUDA backend | `cargo check`, a version of CUDA as a build system finds it; no toolkit is needed, since candle's own kernels are left out |
//! | it gives candle's results on the CPU | `cargo test`, clippy and documentation without warnings |
//! | the book's page "Kernels in candle" | `cargo xtask own-crate --candle` |
//!
//! What needs a GPU is its example `gpu`.

use crate::process::{cargo, output, run as run_command};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Everything that needs no GPU, but the page.
pub fn run(root: &Path) -> Result<()> {
    check(root)?;
    let folder = root.join("tile-candle");
    run_command(cargo(&folder).args(["fmt", "--check"]))?;
    let clippy = ["clippy", "--locked", "--all-targets", "--quiet", "--target-dir"];
    run_command(building(&folder).args(clippy).arg(root.join(TARGET)).args(["--", "-Dwarnings"]))?;
    let doc = ["doc", "--locked", "--no-deps", "--quiet", "--target-dir"];
    run_command(building(&folder).args(doc).arg(root.join(TARGET)).env("RUSTDOCFLAGS", "-Dwarnings"))?;
    run_command(building(&folder).args(["test", "--locked", "--quiet", "--target-dir"]).arg(root.join(TARGET)))
}

/// Where everything here is built.
const TARGET: &str = "target/candle";

/// A `cargo` that builds without debug information, which would only take time: nobody debugs what is built here.
fn building(folder: &Path) -> Command {
    let mut command = cargo(folder);
    command.env("CARGO_PROFILE_DEV_DEBUG", "false");
    command
}

/// That it builds, with candle's CUDA backend too.
fn check(root: &Path) -> Result<()> {
    let folder = root.join("tile-candle");
    let tree = ["tree", "--locked", "--features", "cuda", "--edges", "normal,build,features", "--invert", "cudarc"];
    let tree = output(cargo(&folder).args(tree))?;
    // Those are of candle's manifest: a version that is found, not chosen.
    ensure!(tree.contains("cudarc feature \"cuda-version-from-build-system\""), "candle chooses a version of CUDA now");
    let chosen: Vec<&str> = tree.lines().filter(|line| line.contains("cudarc feature \"cuda-1")).collect();
    ensure!(chosen.is_empty(), "a version of CUDA is chosen for the whole program:\n{}", chosen.join("\n"));

    let without_kernels = without_kernels(&folder, &root.join("target/candle-check"))?;
    let mut command = building(&without_kernels);
    command.args(["check", "--quiet", "--all-targets", "--features", "cuda", "--target-dir"]).arg(root.join(TARGET));
    // Another version than ours, by the variable that stands for what a build system finds.
    run_command(command.env("CUDARC_CUDA_VERSION", "12080"))
}

/// A folder with the package, of the same sources, whose candle has no kernels: these alone need NVIDIA's compiler.
fn without_kernels(package: &Path, place: &Path) -> Result<std::path::PathBuf> {
    let metadata = ["metadata", "--locked", "--all-features", "--format-version", "1"];
    let metadata: serde_json::Value = serde_json::from_str(&output(cargo(package).args(metadata))?)?;
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    let kernels =
        packages.find(|package| package["name"] == "candle-kernels").context("candle has no candle-kernels")?;
    let text = |field: &str| kernels[field].as_str().with_context(|| format!("candle-kernels has no {field}"));
    let source = Path::new(text("manifest_path")?).with_file_name("src");

    let stub = place.join("candle-kernels");
    fs::create_dir_all(stub.join("src"))?;
    let mut manifest = format!(
        "[package]\nname = \"candle-kernels\"\nversion = \"{}\"\nedition = \"{}\"\n[features]\n",
        text("version")?,
        text("edition")?
    );
    for feature in kernels["features"].as_object().into_iter().flat_map(|features| features.keys()) {
        manifest += &format!("{feature} = []\n");
    }
    write(&stub.join("Cargo.toml"), &manifest)?;
    let library = fs::read_to_string(source.join("lib.rs"))?;
    let included = "include!(concat!(env!(\"OUT_DIR\"), \"/ptx.rs\"));";
    ensure!(library.contains(included), "candle-kernels includes its kernels otherwise than by {included}");
    let names = library.lines().filter_map(|line| line.strip_prefix("mdl!(")?.split(',').next());
    let empty: String = names.map(|name| format!("pub const {name}: &str = \"\";\n")).collect();
    write(&stub.join("src/lib.rs"), &library.replace(included, &empty))?;
    write(&stub.join("src/ffi.rs"), &fs::read_to_string(source.join("ffi.rs"))?)?;

    // The package's own manifest, with its sources where they are.
    let manifest = fs::read_to_string(package.join("Cargo.toml"))?;
    let parent = package.parent().unwrap_or(package).display().to_string();
    let here = package.display();
    let manifest = manifest
        .replace("\"../", &format!("\"{parent}/"))
        .replace("readme = \"README.md\"\n", "autotests = false\n")
        .replace("name = \"gpu\"\n", &format!("name = \"gpu\"\npath = \"{here}/examples/gpu/main.rs\"\n"));
    let manifest = format!(
        "{manifest}\n[lib]\npath = \"{here}/src/lib.rs\"\n[patch.crates-io]\ncandle-kernels = {{ path = \"candle-kernels\" }}\n"
    );
    write(&place.join("Cargo.toml"), &manifest)?;
    if !place.join("Cargo.lock").exists() {
        fs::copy(package.join("Cargo.lock"), place.join("Cargo.lock"))?;
    }
    Ok(place.to_owned())
}

/// Writes a file unless it is so already: cargo builds anew what is newer.
fn write(file: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(file).is_ok_and(|there| there == text) {
        return Ok(());
    }
    fs::write(file, text).with_context(|| format!("could not write {}", file.display()))
}
