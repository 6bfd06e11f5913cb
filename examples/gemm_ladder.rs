//! The GEMM ladder: from a thread an element to persistent clusters on tensor cores, each rung checked against f64.
//!
//! On a GPU each rung is timed (cold L2). On the simulator the checked executor counts what each rung reads of A and B,
//! beside the memory-traffic model: M K ceil(N / tile) + K N ceil(M / tile) elements.
//!
//! ```console
//! $ cargo run --release --example gemm_ladder -- --m 37 --n 23 --k 19
//! $ cargo run --release --example gemm_ladder -- --m 8192 --n 8192 --k 8192 --dtype bf16
//! ```

use anyhow::{Result, bail, ensure};
use clap::Parser;
use tile_bench::problem::Problem;
use tile_ir::analysis::traffic::Gemm;
use tile_kernel_examples::gemm_ladder::{LadderElement, reads};
use tile_kernel_examples::progress::Steps;
use tile_kernel_examples::suites::gemm::{Buffers, Dense};
use tile_kernel_examples::timing::time;
use tile_runtime::kernel::Target;
use tile_runtime::prelude::*;

#[derive(Parser)]
struct Arguments {
    /// Rows of A and C.
    #[arg(long, default_value_t = 256)]
    m: usize,
    /// Columns of B and C.
    #[arg(long, default_value_t = 256)]
    n: usize,
    /// Columns of A, rows of B.
    #[arg(long, default_value_t = 128)]
    k: usize,
    /// f16 or bf16.
    #[arg(long, default_value = "f16")]
    dtype: String,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let device = Device::auto()?;
    println!("{device}");
    match arguments.dtype.as_str() {
        "f16" => climb::<f16>(&device, &arguments),
        "bf16" => climb::<bf16>(&device, &arguments),
        other => bail!("--dtype {other}: f16 or bf16"),
    }
}

fn climb<T: LadderElement>(device: &Device, arguments: &Arguments) -> Result<()> {
    let shape @ [m, n, k] = [arguments.m, arguments.n, arguments.k];
    let traffic = Gemm { m: m as u64, n: n as u64, k: k as u64 };
    let problem = Dense::<T>::new(shape, [false, false]);
    println!("C = A B, M = {m}, N = {n}, K = {k}, {}\n", T::DTYPE);
    let simulated = device.is_simulator();
    let columns = if simulated { ["elements read", "the model's"] } else { ["us", "TFLOP/s"] };
    println!("{:<12} {:>14} {:>14} {:>7}  what it adds", "rung", columns[0], columns[1], "error");
    let rungs = T::rungs();
    let steps = Steps::new(rungs.len());
    for rung in rungs {
        steps.begin(rung.name);
        if !n.is_multiple_of(rung.multiple) || !k.is_multiple_of(rung.multiple) {
            steps.print(format!("{:<12} needs N and K to be multiples of {}", rung.name, rung.multiple));
            steps.end();
            continue;
        }
        if !simulated && rung.hopper && !device.supports(Target::Sm90a) {
            steps.print(format!("{:<12} needs a Hopper GPU", rung.name));
            steps.end();
            continue;
        }
        let launch = rung.launch;
        let stream = device.stream()?;
        let mut buffers = problem.buffers(device)?;
        problem.poison(&mut buffers)?;
        let (a, b, c) = &mut buffers;
        launch(&stream, a, b, c)?;
        let error = problem.error(&buffers)?;
        ensure!(error <= 1.0, "{}: the result is {error:.1} times its error bound away from f64", rung.name);
        let cells = if simulated {
            let model = traffic.tiled_traffic(rung.tile);
            [reads(&rung, shape)?.map_or("-".into(), |n| n.to_string()), model.to_string()]
        } else {
            let time = time(device, &problem, |on, (a, b, c): &mut Buffers<T>| Ok(launch(on, a, b, c)?))?;
            [format!("{:.2}", time * 1e6), format!("{:.1}", traffic.flops() as f64 / time * 1e-12)]
        };
        steps.end();
        steps.print(format!("{:<12} {:>14} {:>14} {error:>7.3}  {}", rung.name, cells[0], cells[1], rung.idea));
    }
    drop(steps);
    println!(
        "\nerror: largest distance from the result in f64, divided by the error bound (1 and more would be wrong)"
    );
    Ok(())
}
