//! The repository's own commands: `cargo xtask <command>`.
//!
//! | command | what it does |
//! |---|---|
//! | `setup` | fetches NVRTC (two versions) and the disassembler into `target/` |
//! | `test` | `setup`, then everything a machine without a GPU can run |
//! | `ci` | formatting, clippy, documentation, `test` |
//! | `gpu-bundle` | release tests and examples, stripped, in `target/gpu` |
//! | `book` | checks the book's listings; builds it where mdbook is installed |

mod book;
mod bundle;
mod process;
mod setup;
mod test;
mod wheel;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The repository's own commands")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Fetch NVRTC (two versions) and the disassembler into target/; offline once they are there.
    Setup,
    /// Set up, then run everything a machine without a GPU can run: tests, examples, the book's check.
    Test {
        /// Passed on to `cargo test`, for example a test's name.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// What continuous integration runs: formatting, clippy and documentation without warnings, then `test`.
    Ci,
    /// Build tests and examples in release, strip them and copy them to target/gpu under stable names.
    GpuBundle,
    /// Check that every listing of the book is an include of compiled source; build it if mdbook is installed.
    Book,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            process::say(format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    let root = root();
    match command {
        Command::Setup => setup::run(&root).map(|_| ()),
        Command::Test { args } => test::run(&root, &args),
        Command::Ci => test::ci(&root),
        Command::GpuBundle => bundle::run(&root),
        Command::Book => book::run(&root),
    }
}

/// The repository's root: the parent of this package. Cargo sets the variable for `cargo run`; the path recorded when
/// this was compiled serves when the program is started by hand.
fn root() -> PathBuf {
    let package = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    Path::new(&package).parent().unwrap_or(Path::new(".")).to_owned()
}
