//! `cargo xtask soak`: see the crate's documentation.

use anyhow::{Result, bail};
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use tile_soak::failure::FailureFile;
use tile_soak::summary::{Summary, classes};
use tile_soak::{Part, Verdict, parts, runner, stamp};

/// Runs the parts of the soak, each from where its last run stopped.
#[derive(Parser)]
#[command(name = "cargo xtask soak")]
struct Cli {
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
    /// The folder of progress and failures; `target/soak` without it.
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

/// Whether nothing failed.
fn run(cli: Cli) -> Result<bool> {
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
    let mut options = runner::Options::new(cli.out.unwrap_or_else(|| root.join("target/soak")));
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
