//! Fits the model that chooses among the instances of the bundled GEMM to what `bench/random_shapes.py` measured, and prints what is left
//! over: how much slower the choice is than the best instance, and how far the model is from each time; the same for shapes that a fit was
//! not told of; and the parameters, which go to `tile-kernels/src/gemm/policy.rs`.
//!
//! ```console
//! $ cargo run --release --example gemm_fit -- --device h100 shapes-1.json shapes-2.json --less older.json
//! ```

use anyhow::{Context, Result};
use clap::Parser;
use std::path::PathBuf;
use tile_kernel_examples::suites::{
    fit::{fitted, report},
    gemm_measured,
};
use tile_kernels::gemm::{policy::Policy, residual::FEATURES};

#[derive(Parser)]
struct Arguments {
    /// What `bench/random_shapes.py` wrote.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Files of which a shape counts a quarter: of older kernels, or of fewer instances.
    #[arg(long, num_args = 1..)]
    less: Vec<PathBuf>,
    /// The device that they were measured on: h100 or h200. The fit begins at its parameters.
    #[arg(long, default_value = "h200")]
    device: Policy,
    /// Steps of the fit; none prints what the parameters as they are leave over.
    #[arg(long, default_value_t = 400)]
    steps: usize,
    /// Writes what trees are fitted to, for `bench/fit_residual.py`, instead of fitting parameters.
    #[arg(long)]
    features: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut rows = Vec::new();
    for (files, weight) in [(&arguments.files, 1.0), (&arguments.less, 0.25)] {
        for path in files {
            let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
            let found = gemm_measured::rows(&text).with_context(|| format!("in {}", path.display()))?;
            rows.extend(found.into_iter().map(|row| row.weighing(weight)));
        }
    }
    let now = *arguments.device.parameters();
    if let Some(path) = arguments.features {
        let head = ["title", "best", "measured", "expected"].into_iter().chain(FEATURES);
        let head = head.collect::<Vec<_>>().join("\t");
        let lines: String = rows.iter().map(|row| row.table(&now)).collect();
        return std::fs::write(&path, format!("{head}\n{lines}"))
            .with_context(|| format!("writing {}", path.display()));
    }
    let called = report(&rows.iter().collect::<Vec<_>>(), &arguments.device);
    tile_kernel_examples::output::print(&format!(
        "what a call expects, with what was learned of the model's errors:\n{called}\n"
    ))?;
    let text = fitted(&rows, now, now, arguments.steps);
    Ok(tile_kernel_examples::output::print(&text)?)
}
