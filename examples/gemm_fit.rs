//! Fits the model that chooses among the instances of the bundled GEMM to what `bench/random_shapes.py` measured, and prints what is left
//! over: how much slower the choice is than the best instance, and how far the model is from each time.
//!
//! ```console
//! $ cargo run --release --example gemm_fit -- shapes-1.json shapes-2.json
//! ```

use anyhow::{Context, Result};
use clap::Parser;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tile_kernel_examples::suites::fit::{Row, fitted};
use tile_kernels::gemm::Choice;
use tile_kernels::gemm::model::Parameters;

#[derive(Parser)]
struct Arguments {
    /// What `bench/random_shapes.py` wrote.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Trials of the fit.
    #[arg(long, default_value_t = 20_000)]
    steps: usize,
    /// Seed of the trials.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Deserialize)]
struct Measured {
    rows: BTreeMap<String, Shape>,
}

/// A shape and the us of each choice, as `ours NAME`.
#[derive(Deserialize)]
struct Shape {
    layout: String,
    m: i64,
    n: i64,
    k: i64,
    screened: BTreeMap<String, f64>,
}

impl Shape {
    fn row(&self, title: &str) -> Option<Row<tile_kernels::gemm::model::Work>> {
        let stored = std::array::from_fn(|at| self.layout.as_bytes().get(at) == Some(&b't'));
        let choices = Choice::candidates(self.m, self.n, self.k, stored);
        let works = choices.map(|choice| (choice.to_string(), choice.work([self.m, self.n, self.k], stored))).collect();
        let measured =
            self.screened.iter().filter_map(|(name, us)| Some((name.strip_prefix("ours ")?.to_owned(), *us)));
        Row::new(title.to_owned(), &works, measured)
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut rows = Vec::new();
    for path in &arguments.files {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let measured: Measured = serde_json::from_str(&text).with_context(|| format!("in {}", path.display()))?;
        rows.extend(measured.rows.iter().filter_map(|(title, shape)| shape.row(title)));
    }
    println!("{}", fitted(&rows, Parameters::H200, Parameters::H200, arguments.steps, arguments.seed));
    Ok(())
}
