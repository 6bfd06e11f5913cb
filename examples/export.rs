//! Kernels for other harnesses: every instance as a cubin, and a launch record a shape. `cargo xtask export` runs it.
//!
//! ```console
//! $ cargo xtask export gemv target/gpu-export
//! ```

use anyhow::Result;
use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use tile_kernel_examples::export;

#[derive(Parser)]
#[command(name = "cargo xtask export", about = "Writes a kernel's cubins and launch records (needs NVRTC, no GPU)")]
struct Arguments {
    /// Which kernel.
    kernel: Kernel,
    /// Where to.
    folder: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kernel {
    /// y = W x.
    Gemv,
}

fn main() -> Result<()> {
    let Arguments { kernel, folder } = Arguments::parse();
    match kernel {
        Kernel::Gemv => export::gemv(&folder),
    }
}
