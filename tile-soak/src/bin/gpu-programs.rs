//! Random programs on a GPU: each is built from its text, run, and compared with the fast simulator and the reference.
//!
//! ```sh
//! gpu-programs --seed 0 --count 2000 --out programs.json
//! ```
//!
//! Needs a driver and NVRTC (`TILE_NVRTC`) and nothing else: no Rust. Programs run in child processes, a batch each, so that one
//! that hangs or faults ends its batch only: it is a failure, and the rest goes on in a new process.

use anyhow::{Context, Result};
use clap::Parser;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tile_runtime::Device;
use tile_soak::programs::execute::{self, Failed, Failure, failed};
use tile_soak::programs::{data, device, generate, reference, text};

/// Runs random programs on `Device::auto` and compares.
#[derive(Parser)]
struct Cli {
    /// The first program's seed; the others follow.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many programs.
    #[arg(long, default_value_t = 2000)]
    count: u64,
    /// Only this family.
    #[arg(long)]
    family: Option<String>,
    /// Programs of one process.
    #[arg(long, default_value_t = 100)]
    batch: u64,
    /// Seconds after which a program hangs; it is compiled in them too.
    #[arg(long, default_value_t = 120)]
    timeout: u64,
    /// Processes at once: compiling is the host's work.
    #[arg(long, default_value_t = 4)]
    jobs: u64,
    /// Stop after this many seconds, whatever is left.
    #[arg(long)]
    seconds: Option<f64>,
    /// Where the results go, as JSON.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Run these programs here, a line of JSON each.
    #[arg(long, hide = true)]
    child: bool,
}

/// What became of a program.
#[derive(Clone, Serialize, Deserialize)]
struct Row {
    seed: u64,
    family: String,
    /// `agree`, or the class of the failure.
    end: String,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    detail: String,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    source: String,
    #[serde(default)]
    seconds: f64,
}

/// The file.
#[derive(Serialize)]
struct Report {
    device: String,
    seed: u64,
    programs: usize,
    agree: usize,
    failed: usize,
    seconds: f64,
    families: BTreeMap<String, BTreeMap<String, usize>>,
    failures: Vec<Row>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = if cli.child { child(&cli).map(|()| true) } else { parent(&cli) };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn program(cli: &Cli, seed: u64) -> Result<tile_soak::programs::tree::Program> {
    match &cli.family {
        None => Ok(generate::program(seed)),
        Some(family) => generate::of_family(family, seed).with_context(|| format!("no family is called `{family}`")),
    }
}

/// Runs the programs one after the other, in this process.
fn child(cli: &Cli) -> Result<()> {
    let on = Device::auto()?;
    let mut out = std::io::stdout();
    for seed in cli.seed..cli.seed + cli.count {
        let program = program(cli, seed)?;
        let start = Instant::now();
        let result = execute::guarded(|| compare(&program, seed, &on));
        let mut row = Row {
            seed,
            family: program.family.into(),
            end: "agree".into(),
            detail: String::new(),
            source: String::new(),
            seconds: start.elapsed().as_secs_f64(),
        };
        let is_broken = on.synchronize().is_err();
        if let Err(failure) = result {
            row.end = failure.class.to_string();
            row.detail = failure.detail;
            row.source = text::print(&program).file();
        }
        writeln!(out, "{}", serde_json::to_string(&row)?)?;
        out.flush()?;
        // A device that has failed runs nothing more in this process.
        if is_broken {
            break;
        }
    }
    Ok(())
}

/// One program: the device's results against the fast simulator's, and those against the reference's.
fn compare(program: &tile_soak::programs::tree::Program, seed: u64, on: &Device) -> Result<(), Failed> {
    let inputs = data::inputs(program, seed);
    let kernel = execute::parse(&text::print(program))?;
    let fast = execute::run_fast(program, &kernel, &inputs)?;
    let found = device::run(program, &kernel, &inputs, on)?;
    if let Some(text) = data::difference(program, &found, &fast, program.agreement) {
        return Err(failed(Failure::Gpu, format!("device and fast: {text}")));
    }
    let expected =
        reference::run(program, data::storages(program, &inputs)).map_err(|t| failed(Failure::Generator, t))?;
    match data::difference(program, &found, &data::of_storages(program, &expected), program.agreement) {
        Some(text) => Err(failed(Failure::Gpu, format!("device and reference: {text}"))),
        None => Ok(()),
    }
}

/// A child and what it says.
struct Batch {
    child: Child,
    lines: Receiver<String>,
}

impl Batch {
    fn start(cli: &Cli, seed: u64, count: u64) -> Result<Batch> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--child", "--seed", &seed.to_string(), "--count", &count.to_string()]);
        if let Some(family) = &cli.family {
            command.args(["--family", family]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().context("could not start a child")?;
        let (sender, lines) = channel();
        let stdout = child.stdout.take().context("the child has no output")?;
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(|line| line.ok()) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Batch { child, lines })
    }
}

/// Runs one range of seeds in as many processes as it takes.
fn range(cli: &Cli, first: u64, end: u64, until: Option<Instant>, say: &(dyn Fn(Row) + Sync)) -> Result<()> {
    let mut next = first;
    while next < end {
        let mut batch = Batch::start(cli, next, end - next)?;
        let broken = loop {
            if until.is_some_and(|until| Instant::now() > until) {
                batch.child.kill().ok();
                batch.child.wait().ok();
                return Ok(());
            }
            match batch.lines.recv_timeout(Duration::from_secs(cli.timeout)) {
                Ok(line) => {
                    let row: Row = serde_json::from_str(&line).with_context(|| format!("a child says `{line}`"))?;
                    next = row.seed + 1;
                    say(row);
                }
                Err(RecvTimeoutError::Disconnected) => break (next < end).then_some("Ended"),
                Err(RecvTimeoutError::Timeout) => break Some("Hang"),
            }
        };
        batch.child.kill().ok();
        let status = batch.child.wait()?;
        let Some(end) = broken else { break };
        // A child that ended well gave up its device, and has said why.
        if end == "Hang" || !status.success() {
            let program = program(cli, next)?;
            let detail = format!("nothing was heard for {} s; the process ended with {status}", cli.timeout);
            let source = text::print(&program).file();
            say(Row { seed: next, family: program.family.into(), end: end.into(), detail, source, seconds: 0.0 });
            next += 1;
        }
    }
    Ok(())
}

fn parent(cli: &Cli) -> Result<bool> {
    let on = Device::auto()?;
    let name = format!("{on}, {}", on.why());
    println!("{} programs from seed {} on {name}", cli.count, cli.seed);
    drop(on);
    let start = Instant::now();
    let until = cli.seconds.map(|seconds| start + Duration::from_secs_f64(seconds));
    let rows = std::sync::Mutex::new(Vec::new());
    let say = |row: Row| {
        if row.end != "agree" {
            println!("== {} {} {}: {}\n{}", row.seed, row.family, row.end, row.detail, row.source);
        }
        let mut rows = rows.lock().unwrap_or_else(|e| e.into_inner());
        rows.push(row);
        if rows.len() % 200 == 0 {
            println!("{} done, {:.0} s", rows.len(), start.elapsed().as_secs_f64());
        }
    };
    let next = std::sync::atomic::AtomicU64::new(cli.seed);
    let end = cli.seed + cli.count;
    let batch = cli.batch.clamp(1, cli.count.div_ceil(cli.jobs.max(1)).max(1));
    let take = || {
        let first = next.fetch_add(batch, std::sync::atomic::Ordering::Relaxed);
        (first < end).then_some(first)
    };
    std::thread::scope(|scope| -> Result<()> {
        let work = || {
            while let Some(first) = take() {
                range(cli, first, end.min(first + batch), until, &say)?;
            }
            Ok(())
        };
        let workers: Vec<_> = (0..cli.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| anyhow::bail!("a worker panicked")))
    })?;
    let mut rows = rows.into_inner().unwrap_or_else(|e| e.into_inner());
    rows.sort_by_key(|row| row.seed);
    let mut families: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for row in &rows {
        *families.entry(row.family.clone()).or_default().entry(row.end.clone()).or_default() += 1;
    }
    println!("| family | programs | agree | failed |\n|---|---|---|---|");
    for (family, ends) in &families {
        let all: usize = ends.values().sum();
        let agree = ends.get("agree").copied().unwrap_or(0);
        println!("| {family} | {all} | {agree} | {} |", all - agree);
    }
    let agree = rows.iter().filter(|row| row.end == "agree").count();
    let report = Report {
        device: name,
        seed: cli.seed,
        programs: rows.len(),
        agree,
        failed: rows.len() - agree,
        seconds: start.elapsed().as_secs_f64(),
        families,
        failures: rows.into_iter().filter(|row| row.end != "agree").collect(),
    };
    println!("{} programs, {agree} agree, {} failed, {:.0} s", report.programs, report.failed, report.seconds);
    if let Some(path) = &cli.out {
        std::fs::write(path, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    Ok(report.failed == 0)
}
