//! `cargo tile` on a small crate in an empty folder outside the workspace: every command, and what it says to bad input.
//!
//! The crate is `tests/crate`, which the book shows. What needs NVRTC skips, aloud, where there is none.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A crate in a folder of its own; removed when dropped.
struct Crate {
    folder: PathBuf,
}

impl Drop for Crate {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}

impl Crate {
    /// The crate of the book, without the program that embeds kernels.
    fn new(name: &str) -> Crate {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = std::env::temp_dir().join(format!("cargo-tile-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("src")).unwrap();
        let runtime = package.join("../tile-runtime").canonicalize().unwrap();
        let manifest = format!(
            "[package]\nname = \"my-kernels\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\n\
             tile-runtime = {{ path = {runtime:?} }}\n"
        );
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        // The versions of the workspace: there may be no network.
        fs::copy(package.join("../Cargo.lock"), folder.join("Cargo.lock")).unwrap();
        let made = Crate { folder };
        made.write("src/lib.rs", include_str!("../crate/src/lib.rs"));
        made
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Replaces text of the library.
    fn edit(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.folder.join("src/lib.rs")).unwrap();
        assert!(text.contains(from), "{from}");
        self.write("src/lib.rs", &text.replace(from, to));
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.folder);
        // What cargo tells this test about itself is not the user's.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let of_cargo = text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_");
            if of_cargo || text == "TILE_DEVICE" || text == "TILE_LINEINFO" {
                command.env_remove(&name);
            }
        }
        command
            .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("whole"))
            // Nobody debugs what this test builds.
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .env("CARGO_NET_OFFLINE", "true");
        command
    }

    fn run(&self, arguments: &str) -> Output {
        let arguments: Vec<&str> = std::iter::once("tile").chain(arguments.split_whitespace()).collect();
        self.command(env!("CARGO_BIN_EXE_cargo-tile"), &arguments).output().unwrap()
    }

    /// Runs `cargo tile ARGUMENTS`, which must succeed; what it prints.
    fn tile(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "cargo tile {arguments}:\n{out}\n{err}");
        out.into_owned()
    }

    /// Runs `cargo tile ARGUMENTS`, which must fail without a panic; all that it says.
    fn fails(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "cargo tile {arguments} succeeded:\n{said}");
        assert!(!said.contains("panicked at cargo-tile") && !said.contains("RUST_BACKTRACE=1"), "{said}");
        said
    }
}

/// Whether NVRTC is found.
fn has_nvrtc() -> bool {
    let found = tile_runtime::nvrtc::Nvrtc::get();
    if let Err(error) = &found {
        eprintln!("SKIPPED: {error}");
    }
    found.is_ok()
}

#[test]
fn kernels_are_listed_and_shown() {
    let here = Crate::new("look");
    let list = here.tile("list");
    for part in
        ["scaled_add ", "src/lib.rs:8, library, 6 instances", "row_max ", "specialised by K", "requires K % 8 == 0"]
    {
        assert!(list.contains(part), "{part}\n{list}");
    }
    let list = here.tile("list --instances");
    assert!(list.contains("#1    <f16> THREADS = 128"), "{list}");

    // The instance that is asked for, and no other.
    let shown = here.tile("show scaled_add --instance f16,128");
    assert!(shown.contains("kernel scaled_add_f16_128(") && shown.contains("threads([128])"), "{shown}");
    assert!(!shown.contains("instances("), "{shown}");
    assert_eq!(shown, here.tile("show scaled_add -i T=f16,THREADS=128"));
    assert_eq!(shown, here.tile("show scaled_add -i #1"));
    assert_eq!(shown, here.tile("show src/lib.rs:8 -i f16,128"));
    assert!(here.tile("show row_max K=64 --format lowered").contains("row_max"));
    let cuda = here.tile("show row_max K=64 --format cuda --target sm_80");
    assert!(cuda.contains("extern \"C\" __global__") && cuda.contains("for sm_80"), "{cuda}");

    let said = here.fails("show scaled_ad");
    assert!(said.contains("no kernel `scaled_ad`. Did you mean `scaled_add`?"), "{said}");
    let said = here.fails("show scaled_add --instance f16,77");
    assert!(said.contains("[TK0706]") && said.contains("<bf16> THREADS = 64"), "{said}");
    assert!(here.fails("show scaled_add --instance Q=3").contains("it has T, THREADS"));
    assert!(here.fails("show scaled_add --instance #9").contains("#0 to #5"));
    assert!(here.fails("show row_max").contains("specialised by K; given: none"));
    assert!(here.fails("show row_max K=7").contains("`require(K % 8 == 0)` does not hold for K = 7"));
    assert!(here.fails("show row_max K=64 --without x").contains("cannot be without `x`; optional: no tensor"));
    assert!(
        here.fails("show row_max K=64 --format wasm").contains("not one of tile, lowered, cuda, ptx, sass, resources")
    );
    assert!(here.fails("show row_max K=64 --target sm_70").contains("the targets are sm_80, sm_90a"));
    assert!(here.fails("show row_max K=64 --example nothing").contains("there is no example nothing"));
    assert!(here.fails("list -p other").contains("there is no package `other`"));

    if has_nvrtc() {
        assert!(here.tile("show scaled_add -i f16,128 --format ptx").contains(".target sm_90a"));
        assert!(here.tile("show scaled_add -i f16,128 --format resources").contains("registers"));
    }
}

#[test]
fn what_is_shown_names_lines_of_rust_if_wanted() {
    let here = Crate::new("lines");
    let shown = |format: &str, line_info: &str| {
        let arguments = ["tile", "show", "scaled_add", "-i", "f16,128", "--format", format];
        let output =
            here.command(env!("CARGO_BIN_EXE_cargo-tile"), &arguments).env("TILE_LINEINFO", line_info).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{format}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // Two lines of the kernel.
    let lines: Vec<String> = ["let i = block", "y[i] = (a"].map(line_of).into();
    let cuda = shown("cuda", "1");
    for line in &lines {
        let directive = format!("#line {line} \"");
        let found = cuda.lines().find(|l| l.starts_with(&directive));
        assert!(found.is_some_and(|l| l.ends_with("src/lib.rs\"")), "{directive}\n{cuda}");
    }
    assert!(!shown("cuda", "0").contains("#line"));
    if has_nvrtc() {
        let ptx = shown("ptx", "1");
        let file = ptx.lines().find_map(|l| l.trim().strip_prefix(".file")?.strip_suffix("src/lib.rs\""));
        let file = file.and_then(|file| file.split_whitespace().next()).unwrap_or_else(|| panic!("no file\n{ptx}"));
        let location = format!(".loc\t{file} {} ", lines[1]);
        assert!(ptx.contains(&location), "{location}\n{ptx}");
        assert!(!shown("ptx", "0").contains(".loc"));
    }
}

/// The number of the line of the crate's library with this text.
fn line_of(text: &str) -> String {
    let line = include_str!("../crate/src/lib.rs").lines().position(|line| line.contains(text));
    (line.unwrap_or_else(|| panic!("no line with `{text}`")) + 1).to_string()
}

#[test]
fn kernels_come_and_go_with_their_source() {
    let here = Crate::new("edits");
    here.write(
        "examples/one.rs",
        "use tile_runtime::prelude::*;\nfn main() {\n    /// A kernel inside of a function.\n    #[tile_kernel]\n    \
         fn only_here(y: &mut Tensor<u32, (N,)>) {\n        let [b] = blocks([N]);\n        let [_t] = threads([1]);\n        \
         y[b] = 7;\n    }\n}\n",
    );
    assert!(!here.tile("list").contains("only_here"));
    let list = here.tile("list --all-targets");
    assert!(list.contains("only_here") && list.contains("example one") && list.contains("row_max"), "{list}");
    assert!(here.tile("list --example one").contains("only_here"));

    here.edit("THREADS in [64, 128]", "THREADS in [32, 64, 128]");
    assert!(here.tile("list").contains("9 instances"));
    // What is checked by its author in between, without being written down, is not taken for what was written before.
    here.edit("THREADS in [32, 64, 128]", "THREADS in [128]");
    assert!(here.command("cargo", &["check", "--quiet"]).status().unwrap().success());
    assert!(here.tile("list").contains("3 instances"));

    here.edit("row_max(x", "row_max(broken");
    assert!(here.fails("list").contains("library of my-kernels does not compile"));
    here.write("src/lib.rs", "//! No kernels any more.\n");
    assert_eq!(here.tile("list --lib"), "");
    assert!(here.fails("show row_max --lib").contains("none of the checked targets has kernels"));
    assert!(here.fails("list --bin ship").contains("there is no binary ship; there is none"));
}

#[test]
fn launches_are_explained() {
    let here = Crate::new("explain");
    let explained = here.tile("explain scaled_add N=4096 --instance f16,128 --machine H100");
    assert!(explained.contains("on H100") && explained.contains("32 blocks of 128 threads"), "{explained}");
    assert!(here.tile("explain row_max M=4 K=64").contains("row_max"));
    assert!(here.fails("explain scaled_add").contains("needs a value for the dim N"));
    assert!(here.fails("explain scaled_add N=4096 Q=1").contains("no dim and no scalar `Q`"));
    assert!(here.fails("explain row_max M=4 K=7").contains("does not hold for K = 7"));
    assert!(here.fails("explain row_max M=4 K=1.5").contains("dims are whole numbers"));
    assert!(here.fails("explain row_max M=4 K=-8").contains("dims are whole numbers"));
    assert!(here.fails("explain row_max M=4 K").contains("`K` is not NAME=VALUE"));
    assert!(here.fails("explain row_max M=4 K=64 --machine B200").contains("known are"));
}

#[test]
fn kernels_are_checked_beside_their_reference() {
    let here = Crate::new("check");
    let tests = here.command("cargo", &["test", "--quiet", "--lib"]).output().unwrap();
    let out = String::from_utf8_lossy(&tests.stdout);
    assert!(tests.status.success() && out.contains("3 passed"), "{out}{}", String::from_utf8_lossy(&tests.stderr));
    let passed = here.tile("check scaled_add");
    assert!(passed.contains("`scaled_add` passed: 6 instances") && passed.contains("beside the reference"), "{passed}");
    let passed = here.tile("check row_max K=64,72 M=1,5");
    assert!(passed.contains("4 launches") && passed.contains("beside the reference"), "{passed}");
    assert!(here.fails("check row_max Q=1").contains("no dim or scalar `Q`; it has `M`, `K`"));
    assert!(here.fails("check row_max K=7").contains("does not hold for K = 7"));

    // Wrong results are found at a shape where they show, by the reference alone.
    here.edit("ceil_div(K, 32) {", "K / 32 {");
    let said = here.fails("check row_max");
    assert!(
        said.contains("kernel `row_max` the only one at") && said.contains("`y` is not the reference's: element"),
        "{said}"
    );
    // Mistakes that the checked simulator finds are shown with the author's line.
    here.edit("if i < N {", "if i <= N {");
    let said = here.fails("check scaled_add --instance f32,64");
    assert!(said.contains("TK0302") && said.contains("y[i] = "), "{said}");

    // Without a reference the simulators run all the same.
    let text = fs::read_to_string(here.folder.join("src/lib.rs")).unwrap();
    here.write(
        "src/lib.rs",
        &text
            .replace("row_max == row_max_reference,", "")
            .replace("#[cfg(test)]\nfn row_max", "#[allow(dead_code)]\n#[cfg(test)]\nfn row_max"),
    );
    let output = here.run("check row_max");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && out.contains("without a reference") && err.contains("has no reference"),
        "{out}{err}"
    );
}

#[test]
fn tuning_without_a_gpu_says_so() {
    let here = Crate::new("tune");
    let output = here.run("tune scaled_add N=1024 --instance f16 --device sim");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && err.contains("nothing is measured") && out.contains("THREADS = 64"),
        "{out}{err}"
    );
    assert!(here.fails("tune scaled_add N=1024").contains("choose the dtypes by --instance: f16; bf16; f32"));
    assert!(here.fails("tune scaled_add --instance f16 --device sim").contains("the dim `N` has no value"));
    assert!(here.fails("tune row_max M=2 K=64 --device tpu").contains("tpu"));
}

#[test]
fn kernels_are_exported_and_embedded() {
    let here = Crate::new("export");
    // The program embeds a file that is not there yet.
    here.write("src/main.rs", include_str!("../crate/src/main.rs"));
    assert!(here.fails("export --check").contains("could not read kernels.tkb"));
    if !has_nvrtc() {
        return;
    }
    assert!(here.fails("export nothing").contains("there is no kernel `nothing`"));
    assert!(!here.folder.join("kernels.tkb").exists(), "what a failed export has made is removed");
    assert!(
        here.tile("export scaled_add --instance f16,128")
            .contains("scaled_add <f16> THREADS = 128 for sm_90a: version ")
    );
    assert!(here.tile("export row_max --dim K=256").contains("row_max K = 256 for sm_90a: version "));
    assert_eq!(here.tile("export --check").lines().count(), 2);
    let first = fs::read(here.folder.join("kernels.tkb")).unwrap();
    here.tile("export --refresh");
    assert_eq!(fs::read(here.folder.join("kernels.tkb")).unwrap(), first, "nothing has changed");

    let ran = here.command("cargo", &["run", "--quiet"]).env("TILE_DEVICE", "sim").output().unwrap();
    let out = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && out.contains("2 kernels are embedded"),
        "{out}{}",
        String::from_utf8_lossy(&ran.stderr)
    );

    // An edit makes a kernel stale; the other stays.
    here.edit("a * x[i].cast::<f32>()", "2.0 * a * x[i].cast::<f32>()");
    let said = here.fails("export --check");
    assert!(
        said.contains(", but the kernel is version ") && said.contains("1 of 2 kernels in kernels.tkb are stale"),
        "{said}"
    );
    assert!(here.tile("export --refresh").contains("row_max K = 256"));
    here.tile("export --check");
    here.edit("THREADS in [64, 128]", "THREADS in [64]");
    here.edit("::<f16, 128>", "::<f16, 64>");
    here.write("src/main.rs", "fn main() {}\n");
    assert!(here.fails("export --check").contains("has no instance <f16> THREADS = 128"));
    here.write("kernels.tkb", "no bundle");
    assert!(here.fails("export --check").contains("this is no bundle of kernels"));
}

#[test]
fn doctor_ends_with_what_to_do_next() {
    let here = Crate::new("doctor");
    let told = here.tile("doctor");
    assert!(told.lines().last().is_some_and(|line| line.starts_with("Next: ")), "{told}");
    let hidden =
        here.command(env!("CARGO_BIN_EXE_cargo-tile"), &["tile", "doctor"]).env("TILE_NVRTC", "/nonexistent").output();
    let told = String::from_utf8_lossy(&hidden.unwrap().stdout).into_owned();
    assert!(told.lines().last().is_some_and(|line| line.contains("cargo tile setup")), "{told}");
}
