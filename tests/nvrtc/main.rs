//! The kernels of the repository, in their instances, for every target they declare, through NVRTC to machine code, and an eighteenth of
//! these programs, drawn by their names, through a newer version too. Of instances in f16, which differ from those in bf16 by their
//! conversions, of lesser alignment classes and of programs for `sm_80` a sixth is drawn. No GPU is needed.
//!
//! - nothing spills, and NVRTC has nothing to say about lost performance;
//! - registers, in the units of 8 that a device gives out, stack and shared memory stay within the committed `budgets.json`;
//! - where the lowered program has a 16-byte load from global memory, the machine code has one of 128 bits;
//! - the bundled GEMM's loop along K has the products of its tile, one HGMMA each, and nothing that waits for the device.
//!
//! `budgets.json` has a hash of what each budget was measured on: the version of NVRTC, its options, the CUDA C. A program that is still
//! that is not compiled again, but for a sample: the first of every kernel and target, and an eighth of the others. Whoever changes what is
//! looked for here has all of them compiled.
//!
//! | `cargo test --test nvrtc` with | compiles | and |
//! |---|---|---|
//! | nothing | what has changed, and the sample | compares with the budgets |
//! | `UPDATE_BUDGETS=changed` | what has changed, by both versions | rewrites its budgets: read their diff |
//! | `UPDATE_BUDGETS=all` | everything, by both versions | rewrites the budgets |
//!
//! A process can use one NVRTC, so the test starts itself once a version; `compile.rs` is what those runs do.

mod budgets;
mod compile;
mod kernels;
mod products;

use budgets::Budgets;
use compile::{Report, Which};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that the project is measured with; the others that `setup` has fetched are tested beside it.
const DEFAULT_VERSION: &str = "13.0.88";

/// How many times a program over its budget is compiled again: of six times that ptxas 13.0 compiled one of `gemm_batch` of f32 it gave it 115 registers once, and 111
/// five times.
const AGAIN: usize = 3;

/// The repository's root, also where this program was built somewhere else and is run there.
fn root() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR"));
    if built.join("tests/nvrtc").is_dir() { built.to_owned() } else { PathBuf::from(".") }
}

/// The NVRTC versions that `cargo xtask setup` has fetched, as (version, folder), by version.
fn versions() -> Vec<(String, PathBuf)> {
    let own = tile_runtime::library::own_folder().map(|own| own.join("nvrtc"));
    // Where there is no such folder, `setup` leaves them in `target`.
    let entries = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(String, PathBuf)> = own
        .into_iter()
        .chain([root().join("target/nvrtc")])
        .flat_map(entries)
        .filter(|entry| entry.path().join("nvidia/cu13/lib").is_dir())
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found.dedup_by(|a, b| a.0 == b.0);
    assert!(
        found.len() >= 2 && found.iter().any(|(version, _)| version == DEFAULT_VERSION),
        "this test needs NVRTC {DEFAULT_VERSION} and a newer one, and found {:?}: \
         run `cargo xtask setup`, which fetches them",
        found.iter().map(|(version, _)| version).collect::<Vec<_>>()
    );
    found
}

/// What one version of NVRTC makes of the programs whose name contains `only`, which is empty for all that are drawn: this program again,
/// with `TILE_NVRTC` set.
fn measure(version: &str, folder: &Path, only: &str) -> Report {
    let report = std::env::temp_dir().join(format!("tile-nvrtc-{version}-{}.json", std::process::id()));
    let mut worker = Command::new(std::env::current_exe().unwrap());
    worker.args(["--exact", "compile::everything", "--ignored", "--nocapture"]);
    worker.env("TILE_NVRTC", folder).env(compile::REPORT, &report).env(compile::ONLY, only);
    let output = worker.output().unwrap();
    assert!(
        output.status.success(),
        "NVRTC {version}:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let text = std::fs::read_to_string(&report).unwrap();
    std::fs::remove_file(&report).ok();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn every_kernel_compiles_within_its_budget() {
    let which = Which::asked();
    let is_update = which != Which::ChangedAndSample;
    let budgets = Budgets::committed();
    let (mut problems, mut measured, mut programs) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (version, folder) in versions() {
        let Report { programs: drawn, measured: mut found } = measure(&version, &folder, "");
        // ptxas gives some programs sometimes one number of registers and sometimes another: what is over its budget is compiled again by itself.
        for one in found.iter_mut().filter(|_| !is_update) {
            for _ in 0..AGAIN {
                if !budgets.is_exceeded_by(one) {
                    break;
                }
                println!("NVRTC {version}: {} uses {:?}, again by itself", one.program, one.uses);
                let alone = measure(&version, &folder, &one.program).measured;
                *one = alone.into_iter().find(|again| again.program == one.program).unwrap();
            }
        }
        let changed = found.iter().filter(|one| budgets.text(&one.program) != Some(&one.text)).count();
        println!(
            "NVRTC {version}: {} programs, of which {changed} are not what the budgets were measured on",
            found.len()
        );
        problems.extend(found.iter().flat_map(|one| one.problems()).map(|text| format!("NVRTC {version}: {text}")));
        measured.extend(found);
        programs.extend(drawn);
    }
    if is_update {
        budgets.updated(&measured, &programs).commit();
    } else {
        assert!(!measured.is_empty(), "there are no kernels");
        assert!(measured.iter().any(|one| one.wide_loads > 0), "no kernel has a 16-byte load: that check is vacuous");
        problems.extend(budgets.exceeded_by(&Budgets::of(&measured), &programs));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
