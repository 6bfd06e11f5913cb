//! Kernels for other harnesses: every instance as a cubin, and a launch record a shape. `cargo xtask export` runs it.
//!
//! ```console
//! $ cargo xtask export gemv target/gpu-export
//! ```

use anyhow::Result;
use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use tile_kernel_examples::export;
use tile_kernels::gemm::policy::Policy;

#[derive(Parser)]
#[command(name = "cargo xtask export", about = "Writes a kernel's cubins and launch records (needs NVRTC, no GPU)")]
struct Arguments {
    /// Which kernel.
    kernel: Kernel,
    /// Where to.
    folder: PathBuf,
    /// The device, h100 or h200, by whose parameters a GEMM of 16 bits is the chosen one.
    #[arg(long, default_value = "h200")]
    device: Policy,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kernel {
    /// y = W x.
    Gemv,
    /// C = A B, every layout.
    Gemm,
    /// C = A B^T of f32 as tf32.
    GemmTf32,
}

fn main() -> Result<()> {
    let Arguments { kernel, folder, device } = Arguments::parse();
    match kernel {
        Kernel::Gemv => export::gemv(&folder),
        Kernel::Gemm => export::gemm(&folder, device),
        Kernel::GemmTf32 => export::gemm_tf32(&folder),
    }
}
