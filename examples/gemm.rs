//! The bundled GEMM on random-normal data, on the GPU or else the simulator, checked against f64.
//!
//! ```console
//! $ cargo run --release --example gemm
//! $ cargo run --release --example gemm -- --m 4096 --n 4096 --k 4096 --dtype bf16 --layout nt
//! $ cargo run --release --example gemm -- --bias --activation gelu --alpha 0.5
//! $ cargo run --release --example gemm -- --tune
//! $ cargo run --release --example gemm -- --show cuda
//! $ cargo run --release --example gemm -- --sweep --out target/bench
//! ```

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, ValueEnum};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tile_bench::blas::Blas;
use tile_bench::ceiling::{self, Ceiling};
use tile_bench::plot;
use tile_bench::problem::Problem;
use tile_bench::race::{OURS, Options};
use tile_bench::report::{Report, SCHEMA};
use tile_ir::explain::Machine;
use tile_ir::ir::Target;
use tile_kernel_examples::data::{Real, normal};
use tile_kernel_examples::export::GEMM_SHAPES;
use tile_kernel_examples::progress::Steps;
use tile_kernel_examples::suites::gemm::{Buffers, Dense, measure, selector_shapes};
use tile_kernel_examples::timing::time;
use tile_kernels::gemm::copied::Operands;
use tile_kernels::gemm::pack::Pack;
use tile_kernels::gemm::policy::Policy;
use tile_kernels::gemm::{Activation, Choice, Gemm, GemmElement, definition, gemm, tf32, tuned};
use tile_runtime::kernel::{Format, explain, show};
use tile_runtime::prelude::*;
use tile_runtime::tuner::TuneOptions;

#[derive(Parser)]
struct Arguments {
    /// Rows of C.
    #[arg(long, default_value_t = 512)]
    m: usize,
    /// Columns of C.
    #[arg(long, default_value_t = 512)]
    n: usize,
    /// The extent that is summed over.
    #[arg(long, default_value_t = 512)]
    k: usize,
    /// f16, bf16, f32, or tf32: f32 multiplied on tensor cores.
    #[arg(long, default_value = "bf16")]
    dtype: String,
    /// How A and B are stored: n as they are, t transposed.
    #[arg(long, default_value = "nt")]
    layout: Layout,
    /// Factor of the product.
    #[arg(long, default_value_t = 1.0)]
    alpha: f32,
    /// Factor of the old C.
    #[arg(long, default_value_t = 0.0)]
    beta: f32,
    /// Add a bias, one value a column.
    #[arg(long)]
    bias: bool,
    /// Applied to the sum.
    #[arg(long, default_value = "none")]
    activation: Function,
    /// auto, cuda:N, sim or sim-checked.
    #[arg(long, default_value = "auto")]
    device: String,
    /// Time every way to make the call, and launch the fastest: the table of trials.
    #[arg(long)]
    tune: bool,
    /// With --tune: time again although the result is remembered.
    #[arg(long, requires = "tune")]
    force: bool,
    /// Print a stage of the compilation of the instance that the shape takes, instead of running it.
    #[arg(long)]
    show: Option<Stage>,
    /// Time the benchmark's shapes beside cuBLAS and cuBLASLt: a table, and with --out a report and a plot.
    #[arg(long)]
    sweep: bool,
    /// In the sweep, time every tile on 60 shapes instead: how much slower the choice is than the best.
    #[arg(long, requires = "sweep")]
    regret: bool,
    /// Folder for gemm.json, gemm.svg and gemm.png.
    #[arg(long, requires = "sweep")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Layout {
    /// C = A B.
    Nn,
    /// C = A B^T.
    Nt,
    /// C = A^T B.
    Tn,
    /// C = A^T B^T.
    Tt,
}

impl Layout {
    fn transposed(self) -> [bool; 2] {
        match self {
            Layout::Nn => [false, false],
            Layout::Nt => [false, true],
            Layout::Tn => [true, false],
            Layout::Tt => [true, true],
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Function {
    None,
    Relu,
    Gelu,
    Silu,
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
    /// What a launch costs on an H200, and what bounds it.
    Explain,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match (arguments.show, arguments.dtype.as_str()) {
        (Some(stage), _) => print_stage(stage, &arguments),
        (None, "f16") => run::<f16>(&arguments),
        (None, "bf16") => run::<bf16>(&arguments),
        (None, "f32" | "tf32") => run::<f32>(&arguments),
        (None, other) => bail!("--dtype {other}: f16, bf16, f32 or tf32"),
    }
}

fn run<T: GemmElement + Real>(arguments: &Arguments) -> Result<()> {
    let device = match arguments.device.as_str() {
        "auto" => Device::auto()?,
        name => Device::named(name)?,
    };
    println!("{device}");
    let is_tf32 = arguments.dtype == "tf32";
    if arguments.sweep {
        ensure!(T::DTYPE.is_half(), "--sweep is of f16 and bf16; bench/peers.py races tf32");
        return sweep::<T>(&device, arguments);
    }
    let shape @ [m, n, k] = [arguments.m, arguments.n, arguments.k];
    let problem = Dense::<T>::new(shape, arguments.layout.transposed());
    let problem = if is_tf32 { problem.tf32() } else { problem };
    println!("{}", problem.title());

    // ANCHOR: gemm
    let (a, b, mut c) = problem.buffers(&device)?;
    let shift = normal::<T>(4, n);
    let bias = device.tensor(&shift, [n])?;
    let options = Gemm {
        alpha: arguments.alpha,
        beta: arguments.beta,
        bias: arguments.bias.then_some(&bias),
        activation: match arguments.activation {
            Function::None => Activation::None,
            Function::Relu => Activation::Relu,
            Function::Gelu => Activation::Gelu,
            Function::Silu => Activation::Silu,
        },
        ..problem.options()
    };
    let start = Instant::now();
    gemm(&device, &a, &b, &mut c, &options)?;
    // ANCHOR_END: gemm
    let result = c.to_vec()?;
    let first = start.elapsed();

    // The old C is zeros, so beta adds nothing that the reference must know.
    let error = problem.worst_error_after(&result, |sum, column| {
        let shift = if arguments.bias { f64::from(shift[column].to_f32()) } else { 0.0 };
        let x = f64::from(arguments.alpha) * sum + shift;
        match arguments.activation {
            Function::None => x,
            Function::Relu => x.max(0.0),
            Function::Gelu => 0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x)).tanh()),
            Function::Silu => x / (1.0 + (-x).exp()),
        }
    });
    ensure!(error <= 1.0, "the result is {error:.2} times its error bound away from f64");
    println!("checked against f64: the largest error is {error:.3} of its bound");
    if arguments.tune {
        // ANCHOR: tuned
        let tuning = TuneOptions { force: arguments.force, ..TuneOptions::default() };
        let (found, report) = tuned(&device, &a, &b, &mut c, &options, &tuning)?;
        print!("{report}");
        found.launch(&device, &a, &b, &mut c, &options)?;
        // ANCHOR_END: tuned
        return Ok(());
    }
    if device.is_simulator() {
        println!("simulated in {:.2} s; time and throughput of a GPU cannot be simulated", first.as_secs_f64());
        return Ok(());
    }
    println!("first call, with compilation or cache: {:.1} ms", first.as_secs_f64() * 1e3);
    let seconds =
        time(&device, &problem, |on, (a, b, c): &mut Buffers<T>| Ok(gemm(on, &*a, &*b, c, &problem.options())?))?;
    let flops = 2.0 * m as f64 * n as f64 * k as f64;
    println!("{:.2} us a plain call with a cold L2: {:.1} TFLOP/s", seconds * 1e6, flops / seconds * 1e-12);
    Ok(())
}

/// The shapes of the benchmark beside cuBLAS and cuBLASLt, or those of the selector alone.
fn sweep<T: GemmElement + Real>(device: &Device, arguments: &Arguments) -> Result<()> {
    ensure!(!device.is_simulator(), "there is no GPU, so there is nothing to measure");
    let (shapes, blas, options): (Vec<[usize; 3]>, _, _) = if arguments.regret {
        (selector_shapes().collect(), None, Options { rounds: 7, ..Options::default() })
    } else {
        let blas = Blas::open(device).map_err(|error| println!("without cuBLAS: {error}")).ok();
        let shapes = GEMM_SHAPES.iter().map(|&(m, n, k)| [m, n, k].map(|extent| extent as usize));
        (shapes.collect(), blas, Options::default())
    };
    // The data sheet's dense figure for 16-bit elements (`docs/hopper.md`, "Rates that constants were fitted to").
    let ceiling = Ceiling { peak_tflops: Some(989.4), ..ceiling::measure(device, &options)? };
    let mut report = Report {
        schema: SCHEMA,
        device: device.to_string(),
        versions: Vec::new(),
        ceiling: Some(ceiling),
        rows: Vec::new(),
    };
    report.versions.extend(blas.as_ref().map(|blas| ("cublas".to_string(), blas.version())));
    let steps = Steps::new(shapes.len());
    for shape in shapes {
        steps.begin(shape.map(|extent| extent.to_string()).join(", "));
        let row = measure::<T>(device, blas.as_ref(), shape, arguments.layout.transposed(), &options)?;
        steps.end();
        steps.print(row.to_string());
        report.rows.push(row);
        if let Some(folder) = &arguments.out {
            std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
            report.write(&folder.join("gemm.json"))?;
        }
    }
    drop(steps);
    println!("{:<34} {:>10} {:>12}", "C = op(A) op(B), M x N x K", "TFLOP/s", "of baseline");
    for row in &report.rows {
        let (Some(own), Some(baseline)) = (row.best(OURS), row.baseline_us()) else { continue };
        let us = own.burst_us.median;
        println!("{:<34} {:>10.1} {:>12.3}  {}", row.title.to_string(), row.tflops(us), baseline / us, own.name);
    }
    print_regret(&report);
    arguments.out.as_deref().map_or(Ok(()), |folder| write_plots(&report, folder))
}

/// How much slower the tile that `gemm` chose was than the best one: in geometric mean, and at most.
fn print_regret(report: &Report) {
    let regrets = report.rows.iter().filter_map(|row| {
        let chosen = row.entries.iter().find(|entry| entry.group == OURS && entry.name == "gemm")?;
        Some((chosen.burst_us.median / row.best(OURS)?.burst_us.median, row.title.to_string()))
    });
    let regrets: Vec<(f64, String)> = regrets.collect();
    let mean = (regrets.iter().map(|(ratio, _)| ratio.ln()).sum::<f64>() / regrets.len() as f64).exp();
    let Some((worst, shape)) = regrets.iter().max_by(|a, b| a.0.total_cmp(&b.0)) else { return };
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    println!(
        "the choice is {:.1}% slower than the best tile in geometric mean over {} shapes, at most {:.1}% ({shape})",
        percent(mean),
        regrets.len(),
        percent(*worst)
    );
}

fn write_plots(report: &Report, folder: &Path) -> Result<()> {
    let op = report.rows.first().map_or("gemm", |row| &row.title.op);
    for name in ["gemm.svg", "gemm.png"] {
        plot::write(report, op, &folder.join(name))?;
    }
    println!("wrote gemm.json, gemm.svg and gemm.png in {}", folder.display());
    Ok(())
}

/// Prints a stage of the instance that the shape takes.
fn print_stage(stage: Stage, arguments: &Arguments) -> Result<()> {
    let [m, n, k] = [arguments.m, arguments.n, arguments.k].map(|extent| extent as i64);
    let transposed = arguments.layout.transposed();
    let plain = arguments.alpha == 1.0 && arguments.beta == 0.0 && !arguments.bias;
    let epilogue = !plain || !matches!(arguments.activation, Function::None);
    let operands = match arguments.dtype.as_str() {
        "tf32" => Operands::Tf32 { fetched: tf32::takes(transposed) && k % 4 == 0 },
        "f32" => Operands::Full,
        // Rows of both operands are whole 16 bytes.
        _ if [if transposed[0] { m } else { k }, if transposed[1] { k } else { n }].iter().all(|row| row % 8 == 0) => {
            Operands::Fetched
        }
        _ => Operands::Copied { width: 2 },
    };
    let device = Policy::default();
    let ranked = Choice::ranked(device, operands, [m, n, k], transposed);
    let choice = ranked.first().map_or(Choice::default(), |(choice, _)| *choice);
    // The product of copies of the operands is that of operands which TMA fetches.
    let turned = |at: usize| transposed[at] ^ (choice.packs[at] == Some(Pack::Transposed));
    let (operands, transposed) = match (choice.packs == [None; 2], operands) {
        (true, _) => (operands, transposed),
        (false, Operands::Tf32 { .. }) => (Operands::Tf32 { fetched: true }, [turned(0), turned(1)]),
        (false, _) => (Operands::Fetched, [turned(0), turned(1)]),
    };
    let (bm, bn, _, stages, threads, cx, cy) = choice.tile;
    let tf32_consts = |last: &[i64]| -> Vec<i64> {
        [bm, bn, stages as i64, threads as i64].into_iter().chain(last.iter().copied()).collect()
    };
    let (definition, consts) = match (choice.parts, choice.split, operands) {
        (Some(parts), ..) => (parts.definition(), parts.consts(transposed)),
        (None, Some(split), _) => (split.definition(), split.consts(transposed, epilogue)),
        (None, None, Operands::Tf32 { fetched: true }) => (
            tf32::gemm_tf32::<128, 256, 4, 256, 1, 1, false, true, false>::definition(),
            tf32_consts(&[
                cx as i64,
                cy as i64,
                i64::from(transposed[0]),
                i64::from(transposed[1]),
                i64::from(epilogue),
            ]),
        ),
        (None, None, Operands::Tf32 { fetched: false }) => {
            let definition = tf32::gemm_any_tf32::<64, 64, 4, 128, false, true>::definition();
            (definition, tf32_consts(&transposed.map(i64::from)))
        }
        (None, None, Operands::Fetched | Operands::Copied { .. } | Operands::Full) => {
            (definition(), choice.consts(transposed, epilogue))
        }
    };
    let kernel = definition.kernel()?;
    let wanted = |i: &tile_ir::ir::Instance| {
        i.consts == consts && i.dtypes.iter().all(|dtype| dtype.name() == arguments.dtype.trim_start_matches('t'))
    };
    let Some(index) = kernel.instances.iter().position(wanted) else {
        bail!("--dtype {}: f16, bf16, f32 or tf32", arguments.dtype)
    };
    let text = match stage {
        Stage::Tile => show(definition, index, Target::Sm90a, Format::Tile)?,
        Stage::Lowered => match tile_ir::lower::lower(kernel, &kernel.instances[index], Target::Sm90a) {
            Ok(program) => program.to_string(),
            Err(mistakes) => bail!("{}", mistakes.iter().map(|d| d.message.clone()).collect::<Vec<_>>().join("\n")),
        },
        Stage::Cuda => show(definition, index, Target::Sm90a, Format::Cuda)?,
        Stage::Ptx => show(definition, index, Target::Sm90a, Format::Ptx)?,
        Stage::Sass => show(definition, index, Target::Sm90a, Format::Sass)?,
        Stage::Explain => {
            let stored = |t: bool, rows: i64, cols: i64| if t { [cols, rows] } else { [rows, cols] };
            let ([a0, a1], [b0, b1]) = (stored(transposed[0], m, k), stored(transposed[1], k, n));
            let mut extents = vec![("M", m), ("N", n), ("activation", 0)];
            match kernel.dims.values().any(|dim| dim.name == "K") {
                true => extents.push(("K", k)),
                false => extents.extend([("A0", a0), ("A1", a1), ("B0", b0), ("B1", b1)]),
            }
            let slots = choice.parts.map(|parts| parts.slots).or(choice.split.map(|split| split.slots));
            let name = if kernel.name.starts_with("gemm_partial") { "S" } else { "slots" };
            extents.extend(
                slots
                    .filter(|_| !["gemm_cluster", "gemm_exchange"].contains(&&*kernel.name))
                    .map(|slots| (name, slots as i64)),
            );
            let mut values: Vec<(&str, f64)> = extents.iter().map(|(name, value)| (*name, *value as f64)).collect();
            values.extend([("alpha", f64::from(arguments.alpha)), ("beta", f64::from(arguments.beta))]);
            let report = explain(definition, index, Target::Sm90a, &Machine::H200, &values)?;
            let expected = ranked.iter().map(|(choice, us)| format!("{us:9.1} us  {choice}")).collect::<Vec<_>>();
            format!(
                "{report}\nwhat the model expects of each choice on an {device:?}; the first is taken\n{}",
                expected.join("\n")
            )
        }
    };
    tile_kernel_examples::output::print(&text)?;
    Ok(())
}
