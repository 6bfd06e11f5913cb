//! Loop order and tile sizes of a matrix product without shared memory: a sweep after TVM's "tiling and loop
//! reordering", whose finding is that the loop along K belongs innermost.
//!
//! Every instance is checked against f64. On the simulator nothing is timed; what shows there is how often C is read and
//! written, which is what the order changes.
//!
//! ```console
//! $ cargo run --release --example matmul_simt_sweep
//! $ cargo run --release --example matmul_simt_sweep -- --size 1024
//! ```

use anyhow::{Result, ensure};
use clap::Parser;
use tile_bench::problem::Problem;
use tile_bench::race::Options;
use tile_kernel_examples::progress::Steps;
use tile_kernel_examples::simt::{SimtParams, simt};
use tile_kernel_examples::suites::gemm::{Buffers, Dense};
use tile_kernel_examples::timing::time_with;
use tile_runtime::prelude::*;

#[derive(Parser)]
struct Arguments {
    /// Extent of all three axes; 1024 on a GPU and 96 on the simulator otherwise.
    #[arg(long)]
    size: Option<usize>,
    /// Instances to list, fastest first.
    #[arg(long, default_value_t = 10)]
    list: usize,
}

/// One instance's constants, and what it reached in GFLOP/s.
struct Entry {
    params: SimtParams,
    gflops: f64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let device = Device::auto()?;
    println!("{device}");
    let size = arguments.size.unwrap_or(if device.is_simulator() { 96 } else { 1024 });
    let problem = Dense::<f32>::new([size; 3], [false, false]);
    // What differs by factors needs no cold L2 and few rounds.
    let options = Options { rounds: 3, rotate: 0, ..Options::default() };
    let mut entries = Vec::new();
    let instances = &<simt>::definition().kernel()?.instances;
    let steps = Steps::new(instances.len());
    for instance in instances {
        let value = |at: usize| instance.consts[at] as usize;
        let params = SimtParams {
            BM: value(0),
            BN: value(1),
            BK: value(2),
            TM: value(3),
            TN: value(4),
            INNERMOST: instance.consts[5] != 0,
        };
        steps.begin(describe(&params));
        let kernel = <simt>::instance(&device, params)?;
        let mut buffers = problem.buffers(&device)?;
        problem.poison(&mut buffers)?;
        let (a, b, c) = &mut buffers;
        kernel.launch(&*a, &*b, c)?;
        let error = problem.error(&buffers)?;
        ensure!(error <= 1.0, "{}: {error:.1} times its error bound away from f64", describe(&params));
        if !device.is_simulator() {
            let seconds = time_with(&device, &problem, &options, |on, (a, b, c): &mut Buffers<f32>| {
                Ok(kernel.launch_on(on, &*a, &*b, c)?)
            })?;
            entries.push(Entry { params, gflops: problem.flops() as f64 / seconds * 1e-9 });
        }
        steps.end();
    }
    drop(steps);
    if entries.is_empty() {
        let count = <simt>::definition().kernel()?.instances.len();
        println!("{count} instances agree with f64 at {size} x {size} x {size}; times of a GPU cannot be simulated");
        return Ok(());
    }
    report(&mut entries, arguments.list);
    Ok(())
}

/// Tables: by loop order, by tile, by thread tile, and the fastest instances.
fn report(entries: &mut [Entry], list: usize) {
    entries.sort_by(|a, b| b.gflops.total_cmp(&a.gflops));
    table(entries, "loop order", |p| if p.INNERMOST { "k innermost" } else { "k outside" }.to_string());
    table(entries, "block tile", |p| format!("{}x{}x{}", p.BM, p.BN, p.BK));
    table(entries, "thread tile", |p| format!("{}x{}", p.TM, p.TN));
    println!("\nfastest");
    for entry in entries.iter().take(list) {
        println!("  {:<44} {:>8.0} GFLOP/s", describe(&entry.params), entry.gflops);
    }
}

/// Average and best GFLOP/s by one property.
fn table(entries: &[Entry], title: &str, key: impl Fn(&SimtParams) -> String) {
    println!("\n{title:<14} {:>10} {:>10}  GFLOP/s", "average", "best");
    let mut keys: Vec<String> = Vec::new();
    for entry in entries {
        let key = key(&entry.params);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    for name in keys {
        let of: Vec<f64> = entries.iter().filter(|e| key(&e.params) == name).map(|e| e.gflops).collect();
        let best = of.iter().copied().fold(0.0, f64::max);
        println!("{name:<14} {:>10.0} {best:>10.0}", of.iter().sum::<f64>() / of.len() as f64);
    }
}

fn describe(p: &SimtParams) -> String {
    let order = if p.INNERMOST { "k innermost" } else { "k outside" };
    format!("block {}x{}x{}, thread {}x{}, {order}", p.BM, p.BN, p.BK, p.TM, p.TN)
}
