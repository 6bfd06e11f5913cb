//! The bundled GEMV on random-normal data, on the GPU or else the simulator, checked against f64.
//!
//! ```console
//! $ cargo run --release --example gemv
//! $ cargo run --release --example gemv -- --n 28672 --k 8192 --dtype bf16
//! $ cargo run --release --example gemv -- --show cuda
//! ```

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, ValueEnum};
use std::time::Instant;
use tile_kernel_examples::data::{Real, normal};
use tile_kernel_examples::gemv::{reference, worst_error};
use tile_kernel_examples::timing::time_rotating;
use tile_kernels::gemv::{Gemv, GemvElement};
use tile_runtime::prelude::*;

#[derive(Parser)]
struct Arguments {
    /// Rows of W.
    #[arg(long, default_value_t = 4096)]
    n: usize,
    /// Columns of W.
    #[arg(long, default_value_t = 4096)]
    k: usize,
    /// f16, bf16 or f32.
    #[arg(long, default_value = "f16")]
    dtype: String,
    /// auto, cuda:N, sim or sim-checked.
    #[arg(long, default_value = "auto")]
    device: String,
    /// Print a stage of the kernel's compilation instead of running it.
    #[arg(long)]
    show: Option<Stage>,
    /// Write every instance as a cubin, and a launch record for each of the benchmark's shapes, into this folder.
    #[arg(long)]
    export: Option<std::path::PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Stage {
    /// The tile IR.
    Tile,
    /// The lowered program.
    Lowered,
    /// CUDA C.
    Cuda,
    /// PTX.
    Ptx,
    /// Machine code.
    Sass,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match arguments.dtype.as_str() {
        "f16" => run::<f16>(&arguments),
        "bf16" => run::<bf16>(&arguments),
        "f32" => run::<f32>(&arguments),
        other => bail!("--dtype {other}: f16, bf16 or f32"),
    }
}

fn run<T: GemvElement + Real>(arguments: &Arguments) -> Result<()> {
    todo!()
}
