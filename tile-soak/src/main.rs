//! `cargo xtask soak`: see the crate's documentation.

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tile_soak::failure::FailureFile;
use tile_soak::parts::mutants;
use tile_soak::summary::{Summary, classes};
use tile_soak::{Case, Part, Verdict, parts, runner, stamp};

/// Runs the parts of the soak, each from where its last run stopped.
#[derive(Parser)]
#[command(name = "cargo xtask soak", args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// The parts to run, all without it; may be given several times.
    #[arg(long = "part", value_name = "NAME")]
    parts: Vec<String>,
    /// Cases of each part, in place of its own size.
    #[arg(long)]
    cases: Option<u64>,
    /// Seconds for each part, after which it stops.
    #[arg(long)]
    seconds: Option<f64>,
    /// What cases are drawn from.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Threads; as many as there are cores without it.
    #[arg(long)]
    jobs: Option<usize>,
    /// The folder of progress and failures; `target/soak-runs` without it.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Begin anew where there is progress.
    #[arg(long)]
    fresh: bool,
    /// Write what was run to `bench/soak.json` and the book's table.
    #[arg(long)]
    record: bool,
    /// Run one failing case again, from its file.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Write the book's table anew from `bench/soak.json`, and run nothing.
    #[arg(long)]
    table: bool,
    /// List the parts.
    #[arg(long)]
    list: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Show what becomes of mutants, and who said what.
    Mutants {
        /// One, `7`, or several, `0..50`.
        cases: String,
        /// What cases are drawn from.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Show what becomes of random programs, those that fail made small.
    Programs {
        /// Their seeds: one, `7`, or several, `0..50`.
        seeds: String,
        /// Only this family.
        #[arg(long)]
        family: Option<String>,
        /// Leave those that fail as they are.
        #[arg(long)]
        whole: bool,
        /// Print each one's text and CUDA C, and run none.
        #[arg(long)]
        cuda: bool,
    },
    /// Of what an earlier run found at the launch or in the simulator, how much is found while typing now. Set
    /// `SOAK_SOURCES` to the earlier checkout.
    Compare {
        /// The earlier run's `mutants.tsv`.
        log: PathBuf,
        /// What its cases were drawn from.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Draw mutants that nobody caught, and write each as a file: original, edit, mutant, and what it was run on.
    Survivors {
        /// The folder.
        folder: PathBuf,
        /// How many.
        #[arg(long, default_value_t = 200)]
        count: usize,
        /// The cases that they are drawn from are those below this number.
        #[arg(long, default_value_t = 4388)]
        cases: u64,
        /// What cases are drawn from.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Write every kernel of the repository, and every neighbour of `tests/ui/valid`, as files for `gpu-mutants`.
    Clean {
        /// The folder.
        folder: PathBuf,
    },
    /// Run the survivors of a folder on the device, each in a process of its own, and compare with the fast simulator.
    GpuMutants {
        /// The folder.
        folder: PathBuf,
        /// A command to run each under, for example `compute-sanitizer --error-exitcode 77`.
        #[arg(long, default_value = "")]
        wrap: String,
        /// Seconds for each.
        #[arg(long, default_value_t = 120)]
        timeout: u64,
        /// Processes at once.
        #[arg(long, default_value_t = 8)]
        jobs: usize,
    },
    /// Show the CUDA C of a survivor's first run, for sm_90a.
    Cuda {
        /// The file.
        file: PathBuf,
        /// Which of its runs.
        #[arg(long, default_value_t = 0)]
        run: usize,
    },
    /// One of them, in this process.
    #[command(hide = true)]
    GpuMutant {
        /// The file.
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    // Part `cache-kills` starts this program to use a cache until it is killed.
    parts::cache::child();
    match run(Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// One number, or those of `a..b`.
fn span(text: &str) -> Result<std::ops::Range<u64>> {
    Ok(match text.split_once("..") {
        Some((first, last)) => first.parse()?..last.parse()?,
        None => text.parse()?..text.parse::<u64>()? + 1,
    })
}

/// Runs a subcommand; whether nothing failed.
fn command(command: Command) -> Result<bool> {
    match command {
        Command::Mutants { cases, seed } => {
            span(&cases)?.for_each(|number| println!("{}", mutants::explained(Case { number, seed })));
            Ok(true)
        }
        Command::Programs { seeds, family, whole, cuda } => {
            let seeds = span(&seeds)?;
            let run = move || match cuda {
                true => parts::programs::emitted(family.as_deref(), seeds),
                false => parts::programs::explained(family.as_deref(), seeds, !whole),
            };
            let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(run)?;
            thread.join().map_err(|_| anyhow::anyhow!("it panicked"))
        }
        Command::Compare { log, seed } => {
            let (classes, left) = mutants::compare::compare(&log, seed)?;
            println!("{}\nnot while typing: {left:?}", mutants::compare::table(&classes));
            Ok(true)
        }
        Command::Survivors { folder, count, cases, seed } => {
            let drawn = mutants::survivors::draw(count, cases, seed, &folder)?;
            println!("{drawn} survivors in {}", folder.display());
            Ok(drawn == count)
        }
        Command::Clean { folder } => {
            let (written, refused) = mutants::survivors::clean(&folder)?;
            println!("{written} kernels in {}", folder.display());
            refused.iter().for_each(|reason| println!("without a launch: {reason}"));
            Ok(true)
        }
        Command::GpuMutants { folder, wrap, timeout, jobs } => {
            let summary = mutants::gpu::all(&folder, &wrap, Duration::from_secs(timeout), jobs)?;
            println!("on {}: {:?}", summary.device, summary.ends);
            summary.said.iter().for_each(|(file, said)| println!("{file}:\n{said}"));
            Ok(summary.said.is_empty())
        }
        Command::Cuda { file, run } => {
            println!("{}", mutants::gpu::cuda(&file, run)?);
            Ok(true)
        }
        Command::GpuMutant { file } => {
            println!("{}", mutants::gpu::one(&file, &tile_runtime::Device::auto()?)?);
            Ok(true)
        }
    }
}

/// Whether nothing failed.
fn run(cli: Cli) -> Result<bool> {
    if let Some(chosen) = cli.command {
        return command(chosen);
    }
    if cli.list {
        parts::all().iter().for_each(|part| println!("{:16} {:>9} {}", part.name(), part.size(), part.about()));
        return Ok(true);
    }
    if cli.table {
        let root = stamp::root();
        return Summary::load(&root)?.save(&root, parts::all()).map(|()| true);
    }
    if let Some(path) = &cli.replay {
        let outcome = FailureFile::load(path)?.replay()?;
        return Ok(match outcome.verdict {
            Verdict::Passed(end) => {
                println!("passes now: {} ({end})", outcome.class);
                true
            }
            Verdict::Failed(failure) => {
                println!("fails: {}\n{}", outcome.class, failure.message);
                false
            }
        });
    }
    let chosen: Vec<&dyn Part> = match cli.parts.as_slice() {
        [] => parts::all().to_vec(),
        names => names.iter().map(|name| named(name)).collect::<Result<_>>()?,
    };
    let root = stamp::root();
    let mut options = runner::Options::new(cli.out.unwrap_or_else(|| root.join("target/soak-runs")));
    options = runner::Options {
        seed: cli.seed,
        cases: cli.cases,
        seconds: cli.seconds,
        jobs: cli.jobs.unwrap_or(options.jobs),
        fresh: cli.fresh,
        ..options
    };
    let mut failed = 0;
    for part in chosen {
        let progress = runner::run(part, &options)?;
        let (cases, seconds, slowest) = (progress.cases, progress.seconds, progress.slowest);
        println!(
            "{}: {cases} cases, {} failed, {seconds:.0} s; the slowest was {} with {:.1} s\n",
            part.name(),
            progress.failed,
            slowest.case,
            slowest.seconds
        );
        println!("{}", classes(&progress));
        failed += progress.failed;
        if cli.record {
            let mut summary = Summary::load(&root)?;
            summary.parts.insert(part.name().into(), progress);
            summary.save(&root, parts::all())?;
        }
    }
    Ok(failed == 0)
}

fn named(name: &str) -> Result<&'static dyn Part> {
    let Some(part) = parts::named(name) else {
        let names: Vec<&str> = parts::all().iter().map(|part| part.name()).collect();
        bail!("no part is called `{name}`; there are {}", names.join(", "));
    };
    Ok(part)
}
