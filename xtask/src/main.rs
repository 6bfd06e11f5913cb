//! The repository's own commands: `cargo xtask <command>`.
//!
//! | command | what it does |
//! |---|---|
//! | `setup` | fetches NVRTC (two versions) and the disassembler into the user's own folder |
//! | `test` | `setup`, then everything a machine without a GPU can run |
//! | `ci` | formatting, clippy, documentation, wildcard arms, `test`, and beside them `builds`, `candle`, `own-crate`, `editor` |
//! | `gpu-bundle` | release tests and examples, stripped, in `target/gpu` |
//! | `bench` | times the bundled kernels beside cuBLAS on this machine's GPU; fails without one |
//! | `export` | a kernel's cubins and launch records, for `bench/peers.py` |
//! | `opt` | runs passes on a kernel's text and prints what the last one makes of it |
//! | `soak` | mutants, random programs and faults by seed, resumable; its summary is `bench/soak.json` |
//! | `builds` | checks each choice of features, the oldest Rust supported and other platforms |
//! | `own-crate` | does what the book's page "Your own crate" says, in an empty folder, with packaged crates; `--candle`: "Kernels in candle" |
//! | `editor` | asks rust-analyzer for completions, hovers, definitions and errors in a kernel |
//! | `candle` | checks and tests `tile-candle`, which is a workspace of its own |
//! | `variants` | counts the files that a new kind of statement, operation, dtype or target touches |
//! | `lines` | counts the lines between the bound kernel and the CUDA text, without tests |
//! | `book` | makes the book's drawings, checks its listings and links, builds it to HTML |

mod book;
mod builds;
mod bundle;
mod candle;
mod editor;
mod lines;
mod lsp;
mod own_crate;
// `cargo tile setup` is the same for a user: one source.
#[path = "../../cargo-tile/src/process.rs"]
mod process;
#[path = "../../cargo-tile/src/setup.rs"]
mod setup;
mod test;
mod variants;
// What the runtime trusts is what is made here; `xtask` does without the runtime, to be built quickly.
#[path = "../../tile-runtime/src/trust.rs"]
#[allow(dead_code)]
mod trust;
#[path = "../../cargo-tile/src/wheel.rs"]
mod wheel;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What lines about a run begin with.
const NAME: &str = "xtask";

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The repository's own commands")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Fetch NVRTC (two versions) and the disassembler into ~/.local/share/tile-kernels; offline once they are there.
    Setup,
    /// Set up, then run everything a machine without a GPU can run: tests, examples, the book's check.
    Test {
        /// Passed on to `cargo test`, for example a test's name.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// What continuous integration runs: formatting, clippy and documentation without warnings, `test`, and beside them `builds`, `candle`, `own-crate`, `editor`.
    Ci,
    /// Build tests and examples in release, strip them and copy them to target/gpu under stable names.
    GpuBundle,
    /// Time the bundled kernels beside cuBLAS and cuBLASLt: table, JSON, plot. Without a GPU it says so and fails.
    Bench {
        /// What to measure and how: `gemv [--dtype f16,bf16] [--shapes NxK,..] [--rounds N] [--sustained] [--out DIR]`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Write a kernel's cubins and launch records, for other harnesses.
    Export {
        /// The kernel: `gemv`, `gemm` or `gemm-tf32`.
        kernel: String,
        /// The folder.
        folder: PathBuf,
        /// The device whose choice of a GEMM is marked: `h100` or `h200`.
        #[arg(long, default_value = "h200")]
        device: String,
    },
    /// Run passes on a kernel's text, a test of tile-ir/tests/ir or a failing case of the soak, and print what the last one makes of it.
    #[command(disable_help_flag = true)]
    Opt {
        /// `[--passes bind,check,lower,emit] [--target sm_90a] [--instance "T = f16, ROWS = 8"] FILE`; else as the file says.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run the soak's parts, each from where its last run stopped; `soak --help` for its options.
    #[command(disable_help_flag = true)]
    Soak {
        /// `[--part NAME] [--cases N] [--seconds S] [--seed S] [--out DIR] [--record] [--replay FILE]`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Check each choice of features, the oldest Rust supported and other platforms: what they need is installed if it can be.
    Builds,
    /// Do what the book's page "Your own crate" says, in an empty folder, with packaged crates.
    OwnCrate {
        /// The page "Kernels in candle" instead.
        #[arg(long)]
        candle: bool,
    },
    /// Ask rust-analyzer for completions, hovers, definitions and errors in the README's kernel.
    Editor,
    /// Check and test tile-candle, with candle's CUDA backend as far as that goes without a toolkit.
    Candle,
    /// Count the files that a new kind of statement, operation, dtype or target touches, into bench/variants.json.
    Variants {
        /// Count nothing: look for wildcard arms, as `ci` does.
        #[arg(long)]
        wildcards: bool,
    },
    /// Count the lines of everything between the bound kernel and the CUDA text, without tests, into bench/lines.json.
    Lines,
    /// Make the book's drawings, check that every listing is an include of compiled source, build it to target/book.
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
        Command::Setup => setup::run(setup::Wanted::Tests, Some(&root.join("target"))).map(|_| ()),
        Command::Test { args } => test::run(&root, &args),
        Command::Ci => test::ci(&root),
        Command::GpuBundle => bundle::run(&root),
        Command::Bench { args } => example(&root, "bench", &args),
        Command::Export { kernel, folder, device } => {
            // Relative to where the command was given, not to the repository.
            let folder = std::path::absolute(&folder)?;
            example(&root, "export", &[kernel, folder.display().to_string(), "--device".to_owned(), device])
        }
        Command::Opt { args } => {
            let program = ["run", "--quiet", "--package", "tile-ir", "--features", "sim", "--example", "opt", "--"];
            // Paths are relative to where the command was given.
            process::run(process::cargo(&root).current_dir(std::env::current_dir()?).args(program).args(args))
        }
        Command::Soak { args } => {
            let program = ["run", "--profile", "soak", "--quiet", "--package", "tile-soak", "--"];
            process::run(process::cargo(&root).args(program).args(args))
        }
        Command::Builds => builds::run(&root),
        Command::OwnCrate { candle: false } => own_crate::run(&root, own_crate::OWN),
        Command::OwnCrate { candle: true } => own_crate::run(&root, own_crate::CANDLE),
        Command::Editor => editor::run(&root),
        Command::Candle => candle::run(&root),
        Command::Variants { wildcards: false } => variants::run(&root),
        Command::Variants { wildcards: true } => variants::clippy(&root),
        Command::Lines => lines::run(&root),
        Command::Book => book::run(&root),
    }
}

/// Builds and runs an example in release.
fn example(root: &Path, name: &str, args: &[String]) -> anyhow::Result<()> {
    process::run(process::cargo(root).args(["run", "--release", "--quiet", "--example", name, "--"]).args(args))
}

/// The repository's root: the parent of this package. Cargo sets the variable for `cargo run`; the path recorded when
/// this was compiled serves when the program is started by hand.
fn root() -> PathBuf {
    let package = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    Path::new(&package).parent().unwrap_or(Path::new(".")).to_owned()
}
