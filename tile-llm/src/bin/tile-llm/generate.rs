//! `tile-llm generate`.

use crate::source::{self, Source};
use anyhow::Result;
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tile_llm::Sampling;
use tile_llm::scheduler::{Request, Scheduler, SequenceId};
use tile_llm::text::Decoder;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// The prompts.
    #[arg(default_value = "Hello")]
    prompts: Vec<String>,
    /// Most tokens of an answer.
    #[arg(long, default_value_t = 64)]
    max_tokens: usize,
    /// 0: always the likeliest token.
    #[arg(long, default_value_t = 0.0)]
    temperature: f32,
    /// Draws from this many of the likeliest tokens; 0: all.
    #[arg(long, default_value_t = 0)]
    top_k: u32,
    /// Draws from the likeliest tokens that have this much probability.
    #[arg(long, default_value_t = 1.0)]
    top_p: f32,
    /// The seed of the draws.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Most tokens of prompts in one step.
    #[arg(long, default_value_t = 2048)]
    step_tokens: usize,
}

/// Time and tokens of steps with prompts in them, and of those without.
#[derive(Default)]
struct Tally {
    time: Duration,
    tokens: usize,
}

impl Tally {
    fn rate(&self) -> f64 {
        if self.time.is_zero() { 0.0 } else { self.tokens as f64 / self.time.as_secs_f64() }
    }
}

pub fn run(args: Args) -> Result<()> {
    let begun = Instant::now();
    let config = args.source.config()?;
    let tokenizer = Arc::new(args.source.tokenizer(&config)?);
    let prompts = args.prompts.iter().map(|prompt| tokenizer.encode(prompt)).collect::<Result<Vec<_>, _>>()?;
    let longest = prompts.iter().map(Vec::len).max().unwrap_or(0).saturating_add(args.max_tokens);
    let limits = source::limits(&config, prompts.len(), longest, args.step_tokens)?;
    let read = begun.elapsed();
    let device = args.source.device()?;
    let opened = begun.elapsed();
    let mut backend = args.source.open_on(device, limits)?;
    let loaded = begun.elapsed();
    let mut first = None;
    let mut scheduler = Scheduler::new(backend.limits(), prompts.len());
    let mut order = Vec::new();
    let mut texts: HashMap<SequenceId, (Decoder, String)> = HashMap::new();
    let streams = prompts.len() == 1;
    for prompt in prompts {
        let sampling =
            Sampling { temperature: args.temperature, top_k: args.top_k, top_p: args.top_p, seed: args.seed };
        let request = Request { prompt, max_new: args.max_tokens, sampling, end: config.eos_token_ids.clone() };
        let id = scheduler.submit(request)?;
        order.push(id);
        texts.insert(id, (Decoder::new(tokenizer.clone()), String::new()));
    }
    let (mut prefill, mut decode) = (Tally::default(), Tally::default());
    let mut stdout = std::io::stdout().lock();
    while !scheduler.is_idle() {
        let start = Instant::now();
        let events = scheduler.step(&mut *backend)?;
        if events.iter().any(|event| event.token.is_some()) {
            first.get_or_insert_with(|| begun.elapsed());
        }
        let load = scheduler.load();
        let (tally, tokens) = match load.prompt_tokens {
            0 => (&mut decode, load.new_tokens),
            prompt => (&mut prefill, prompt),
        };
        tally.time += start.elapsed();
        tally.tokens += tokens;
        for event in events {
            let Some((decoder, text)) = texts.get_mut(&event.id) else { continue };
            let mut piece = event.token.map_or(Ok(String::new()), |token| decoder.push(token))?;
            if event.finish.is_some() {
                piece.push_str(&decoder.finish()?);
            }
            if streams {
                stdout.write_all(piece.as_bytes())?;
                stdout.flush()?;
            } else {
                text.push_str(&piece);
            }
        }
    }
    if streams {
        writeln!(stdout)?;
    }
    for (id, prompt) in order.iter().zip(&args.prompts).filter(|_| !streams) {
        writeln!(stdout, "--- {prompt}\n{}", texts[id].1)?;
    }
    let seconds = |time: Duration| time.as_secs_f64();
    if let Some(first) = first {
        eprintln!(
            "first token after {:.2} s: configuration and tokenizer {:.2}, device {:.2}, weights {:.2}, steps with their kernels {:.2}",
            seconds(first),
            seconds(read),
            seconds(opened - read),
            seconds(loaded - opened),
            seconds(first - loaded),
        );
    }
    eprintln!(
        "prompts: {} tokens, {:.1} tokens/s; answers: {} tokens in steps of their own, {:.1} tokens/s",
        prefill.tokens,
        prefill.rate(),
        decode.tokens,
        decode.rate(),
    );
    Ok(())
}
