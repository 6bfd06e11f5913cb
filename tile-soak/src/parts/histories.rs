//! Random histories of threads, streams, captures, graphs and prepared launches, against a driver that writes down what it is
//! asked; what it was asked is read for uses that nothing orders (R19).
//!
//! The histories are those of `tile-runtime/tests/fake_driver`: a case runs that test with numbers of its own. Its process
//! needs a C compiler and NVRTC; without them a case ends as `skipped`, and says why.

use crate::part::{Case, Outcome, Part};
use crate::stamp;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The test, and how many processes of six histories it makes a case.
const TEST: &str = "histories::any_history_of_several_threads_is_ordered";
const PROCESSES: u64 = 2;
const CLASS: &str = "12 histories of 4 threads";

/// The part.
pub struct Histories;

impl Part for Histories {
    fn name(&self) -> &'static str {
        "histories"
    }

    fn about(&self) -> &'static str {
        "Four threads launch, capture, replay, copy and drop over shared tensors and streams, writers through `&self` among \
         them; a failure is a use that no event orders, or memory or a kernel used after it was freed"
    }

    fn size(&self) -> u64 {
        400
    }

    /// None: `cargo test` runs the same test of tile-runtime by itself.
    fn sample(&self) -> u64 {
        0
    }

    fn is_parallel(&self) -> bool {
        false
    }

    fn run(&self, case: Case) -> Outcome {
        static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let program = match PROGRAM.get_or_init(build) {
            Ok(program) => program,
            Err(problem) => return Outcome::failed(CLASS, problem.clone()),
        };
        let from = case.seed.wrapping_mul(1 << 20).wrapping_add(case.number.wrapping_mul(PROCESSES)) % (1 << 40);
        let output = Command::new(program)
            .args(["--exact", TEST, "--nocapture"])
            .env("HISTORY_FROM", from.to_string())
            .env_remove("TILE_SOAK")
            .current_dir(stamp::root())
            .output();
        let output = match output {
            Ok(output) => output,
            Err(error) => return Outcome::failed(CLASS, format!("{}: {error}", program.display())),
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        match text.lines().find(|line| line.contains("SKIPPED")) {
            Some(line) if output.status.success() => {
                eprintln!("{line}");
                Outcome::passed(CLASS, "skipped")
            }
            _ if output.status.success() && text.contains("1 passed") => Outcome::passed(CLASS, "ordered"),
            _ => Outcome::failed(CLASS, text),
        }
    }
}

/// Builds the test program; where it is.
fn build() -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "-p", "tile-runtime", "--test", "fake_driver", "--no-run", "--message-format=json"]);
    let output = command.current_dir(stamp::root()).output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let executable = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let wanted = message["target"]["name"] == "fake_driver";
        message["executable"].as_str().filter(|_| wanted).map(PathBuf::from)
    };
    messages.lines().find_map(executable).ok_or_else(|| "cargo names no program of the test fake_driver".to_owned())
}
