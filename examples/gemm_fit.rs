//! Fits the model that chooses among the instances of the bundled GEMM to what `bench/random_shapes.py` measured, and prints what is left
//! over: how much slower the choice is than the best instance, and how far the model is from each time.
//!
//! ```console
//! $ cargo run --release --example gemm_fit -- --device h100 shapes-1.json shapes-2.json
//! ```

use anyhow::{Context, Result};
use clap::Parser;
use std::path::PathBuf;
use tile_kernel_examples::suites::{fit::fitted, gemm_measured};
use tile_kernels::gemm::policy::Policy;

#[derive(Parser)]
struct Arguments {
    /// What `bench/random_shapes.py` wrote.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The device that they were measured on: h100 or h200. The fit goes on from its parameters.
    #[arg(long, default_value = "h200")]
    device: Policy,
    /// Trials of the fit.
    #[arg(long, default_value_t = 20_000)]
    steps: usize,
    /// Seed of the trials.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut rows = Vec::new();
    for path in &arguments.files {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        rows.extend(gemm_measured::rows(&text).with_context(|| format!("in {}", path.display()))?);
    }
    let now = *arguments.device.parameters();
    let text = fitted(&rows, now, now, arguments.steps, arguments.seed);
    Ok(tile_kernel_examples::output::print(&text)?)
}
