//! `tile-llm bench`: prefill and decode by batch and context.

use crate::source::{self, Source};
use anyhow::{Result, anyhow};
use std::time::{Duration, Instant};
use tile_llm::model::{Profile, Share};
use tile_llm::{Backend, Limits, Part, Sampling};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// Sequences in a step.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    batch: Vec<usize>,
    /// Tokens of each sequence before the first step that is timed.
    #[arg(long, value_delimiter = ',', default_value = "1024")]
    context: Vec<usize>,
    /// Times that the prompts are run and timed; the table has the median.
    #[arg(long, default_value_t = 5)]
    prompts: usize,
    /// Steps that are timed.
    #[arg(long, default_value_t = 64)]
    steps: usize,
    /// Steps before those.
    #[arg(long, default_value_t = 4)]
    warm_up: usize,
    /// Most tokens of prompts in one step.
    #[arg(long, default_value_t = 4096)]
    step_tokens: usize,
    /// Say where the time of a step goes.
    #[arg(long)]
    profile: bool,
}

pub fn run(args: Args) -> Result<()> {
    let config = args.source.config()?;
    let most = |values: &[usize], what| values.iter().copied().max().ok_or_else(|| anyhow!("--{what} is empty"));
    let (batch, context) = (most(&args.batch, "batch")?, most(&args.context, "context")?);
    let room = context.saturating_add(args.steps).saturating_add(args.warm_up);
    let mut backend = args.source.open(source::limits(&config, batch, room, args.step_tokens)?)?;
    println!("{}", args.source.name());
    println!("| batch | context | prefill ms | prefill tokens/s | step ms (median) | step ms (best) | tokens/s |");
    println!("|---:|---:|---:|---:|---:|---:|---:|");
    for &context in &args.context {
        for &batch in &args.batch {
            let mut run = Run::new(backend.limits(), batch, context + args.steps + args.warm_up);
            // The first step of its size compiles kernels; the others have the same tokens and pages.
            run.prefill(&mut *backend, context)?;
            let prefills = (0..args.prompts).map(|_| run.prefill(&mut *backend, context));
            let mut prefills = prefills.collect::<Result<Vec<_>>>()?;
            let mut times = Vec::new();
            for step in 0..args.warm_up + args.steps {
                let time = run.decode(&mut *backend)?;
                if step >= args.warm_up {
                    times.push(time);
                }
            }
            let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
            let [prefill, median] = [&mut prefills, &mut times].map(|times| {
                times.sort_unstable();
                times.get(times.len() / 2).copied().unwrap_or_default()
            });
            let best = times.first().copied().unwrap_or_default();
            println!(
                "| {batch} | {context} | {:.2} | {:.0} | {:.3} | {:.3} | {:.1} |",
                milliseconds(prefill),
                (batch * context) as f64 / prefill.as_secs_f64(),
                milliseconds(median),
                milliseconds(best),
                batch as f64 / median.as_secs_f64(),
            );
            if args.profile {
                report(&backend.profile(args.steps)?.ok_or_else(|| anyhow!("this backend has no profile"))?);
            }
        }
    }
    Ok(())
}

/// What launches take, as a table of its own.
fn report(profile: &Profile) {
    let micro = |time: Duration| time.as_secs_f64() * 1e6;
    println!("\n| launches for | alone us | gained without us | share |\n|---|---:|---:|---:|");
    for Share { op, alone, gained } in profile.shares.iter().filter(|share| !share.gained.is_zero()) {
        let share = 100.0 * gained.as_secs_f64() / profile.whole.as_secs_f64();
        println!("| {op:?} | {:.1} | {:.1} | {share:.1}% |", micro(*alone), micro(*gained));
    }
    println!("| all | {:.1} | | |\n", micro(profile.whole));
}

/// Sequences of equal length, each with its own pages.
struct Run {
    limits: Limits,
    pages: Vec<Vec<u32>>,
    tokens: Vec<u32>,
    position: usize,
}

impl Run {
    fn new(limits: Limits, batch: usize, room: usize) -> Run {
        let each = room.div_ceil(limits.page) as u32;
        let pages = (0..batch as u32).map(|sequence| (sequence * each..(sequence + 1) * each).collect()).collect();
        Run { limits, pages, tokens: vec![0; batch], position: 0 }
    }

    /// Runs prompts of `context` tokens, a sequence after the other, in steps as large as the backend takes.
    fn prefill(&mut self, backend: &mut dyn Backend, context: usize) -> Result<Duration> {
        let start = Instant::now();
        let most = self.limits.max_tokens;
        for (sequence, pages) in self.pages.iter().enumerate() {
            let token = |at: usize| ((sequence * 7919 + at * 104_729) % self.limits.vocab) as u32;
            let prompt: Vec<u32> = (0..context).map(token).collect();
            for (piece, tokens) in prompt.chunks(most).enumerate() {
                let position = piece * most;
                let sample = position + tokens.len() == context;
                let part = Part { tokens, position, pages, sampling: Sampling::GREEDY, sample };
                if let [Some(token)] = backend.step(&[part])?[..] {
                    self.tokens[sequence] = token;
                }
            }
        }
        self.position = context;
        Ok(start.elapsed())
    }

    /// One token more for each.
    fn decode(&mut self, backend: &mut dyn Backend) -> Result<Duration> {
        let start = Instant::now();
        let (position, sampling) = (self.position, Sampling::GREEDY);
        let part =
            |(token, pages)| Part { tokens: std::slice::from_ref(token), position, pages, sampling, sample: true };
        let parts: Vec<Part<'_>> = self.tokens.iter().zip(self.pages.iter().map(Vec::as_slice)).map(part).collect();
        let drawn = backend.step(&parts)?;
        self.position += 1;
        self.tokens = drawn.into_iter().flatten().collect();
        Ok(start.elapsed())
    }
}
