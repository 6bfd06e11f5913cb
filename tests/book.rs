//! The messages that the book shows are the ones that are given.
//!
//! The mistakes that do not compile are cases of `tests/ui.rs`. Those that show when a program runs are in
//! `examples/break_it.rs`; what is said about them is compared here with `tests/book/*.txt`, which the book includes
//! (`UPDATE_MESSAGES=1 cargo test --test book` rewrites them).

#[path = "../examples/break_it.rs"]
mod break_it;
#[path = "book/reports.rs"]
mod reports;

use std::path::{Path, PathBuf};
use std::process::Command;
use tile_runtime::prelude::*;

/// Compares a message with `tests/book/NAME.txt`.
fn compare(name: &str, message: &str) {
    let path = Path::new("tests/book").join(format!("{name}.txt"));
    // As a module of this file the example has a roundabout path; addresses depend on what else the process allocated.
    let message = format!("{}\n", same_address(message.trim_end()).replace("tests/../examples", "examples"));
    if std::env::var_os("UPDATE_MESSAGES").is_some() {
        std::fs::write(&path, &message).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(message, expected, "{} differs; UPDATE_MESSAGES=1 rewrites it", path.display());
}

/// The text with the same made-up address, 4 past a multiple of 16, for each that stands in it.
fn same_address(text: &str) -> String {
    let mut parts = text.split("0x");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "0x7f04" + part.trim_start_matches(|c: char| c.is_ascii_hexdigit()))
}

/// The error of a program that has to fail.
fn message(outcome: Result<(), Error>) -> String {
    outcome.expect_err("this mistake was not noticed").to_string()
}

#[test]
fn a_missing_guard() {
    compare("unguarded", &message(break_it::run_unguarded(&Device::checked_simulator())));
}

#[test]
fn a_race_that_depends_on_data() {
    compare("scattered", &message(break_it::run_scattered(&Device::checked_simulator())));
}

#[test]
fn a_wrong_launch() {
    compare("wrong_launch", &message(break_it::run_wrong_launch(&Device::checked_simulator())));
}

#[test]
fn reports_of_the_other_codes() {
    let all = [
        ("TK0303", reports::tk0303()),
        ("TK0304", reports::tk0304()),
        ("TK0307", reports::tk0307()),
        ("TK0702", reports::tk0702()),
        ("TK0703", reports::tk0703()),
        ("TK0704", reports::tk0704()),
        ("TK0705", reports::tk0705()),
        ("TK0706", reports::tk0706()),
        ("TK0901", reports::tk0901()),
    ];
    for (code, message) in all {
        assert!(message.contains(code), "expected {code}, found: {message}");
        compare(code, &message);
    }
}

/// The report of the bundled GEMV. NVRTC's part is given, because its versions differ in registers.
#[test]
fn an_explained_launch() {
    use tile_ir::explain::{Machine, Resources, Shape, explain};
    use tile_ir::ir::{Dtype, Target};
    let definition = tile_kernels::gemv::definition();
    let consts = [("WARPS", 4), ("ROWS", 1), ("GROUPS", 1), ("UNROLL", 4), ("STAGES", 1), ("VEC", 8)];
    let instance = tile_runtime::kernel::instance_index(definition, &[Dtype::Bf16], &consts).unwrap();
    let kernel = definition.kernel().unwrap();
    let program = tile_ir::lower::lower(kernel, &kernel.instances[instance], Target::Sm90a).unwrap();
    let values = [("N", 28672.0), ("K", 8192.0), ("alpha", 1.0), ("beta", 0.0)];
    let shape = Shape::dense(&program, &values).unwrap();
    let resources = Resources { registers: 34, ..Resources::default() };
    let report = explain(&program, &shape, &Machine::H200, Some(resources)).unwrap();
    let loads: Vec<f64> = report.accesses.iter().filter(|a| a.global && a.width == 16).map(|a| a.found).collect();
    assert_eq!(loads, [16.0, 16.0], "a request of 32 lanes of 16 bytes is 16 sectors\n{report}");
    compare("explain", &report.to_string());
}

#[test]
fn a_missing_nvrtc() {
    let mut worker = Command::new(std::env::current_exe().unwrap());
    worker.args(["--exact", "without_nvrtc", "--ignored", "--nocapture"]).env("TILE_NVRTC", "/nowhere/libnvrtc.so.13");
    let output = worker.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let shown = text.split("message:\n").nth(1).and_then(|rest| rest.split("\nend of message").next());
    compare("missing_nvrtc", shown.unwrap_or_else(|| panic!("{text}")));
}

#[test]
#[ignore = "started by a_missing_nvrtc, with TILE_NVRTC set"]
fn without_nvrtc() {
    assert_eq!(std::env::var_os("TILE_NVRTC").map(PathBuf::from), Some(PathBuf::from("/nowhere/libnvrtc.so.13")));
    let error = tile_runtime::nvrtc::Nvrtc::get().expect_err("there is no such library");
    println!("message:\n{error}\nend of message");
}
