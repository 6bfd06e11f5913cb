//! The program: `tile-llm generate`, `bench`, `serve`, `write-random`, `logits`.

mod bench;
mod generate;
mod serve;
mod source;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use safetensors::tensor::{Dtype, TensorView};
use source::Source;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tile_llm::{ModelConfig, Weights};

/// Qwen3 and Llama 3 on kernels of the tile-kernel language.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Answers prompts: one streams to stdout, several are printed in order.
    Generate(generate::Args),
    /// Times prefill and decode by batch and context.
    Bench(bench::Args),
    /// Serves OpenAI's /v1/completions and /v1/models.
    Serve(serve::Args),
    /// Writes random weights of a shape as a folder that transformers reads.
    WriteRandom {
        /// tiny, tiny-llama, qwen3-0.6b, qwen3-4b, qwen3-8b or llama3-8b.
        shape: String,
        /// The folder; made if it is not there.
        folder: PathBuf,
        /// The seed of the weights.
        #[arg(long, default_value_t = 0)]
        weights_seed: u64,
        /// Fewer layers than the shape has.
        #[arg(long)]
        layers: Option<usize>,
    },
    /// Writes the logits after every token: a file whose name ends in .safetensors gets one tensor `logits`, `[tokens, vocab]`, else JSON, one
    /// array a position.
    Logits {
        #[command(flatten)]
        source: Source,
        /// The tokens, separated by commas.
        #[arg(long, value_delimiter = ',', required = true)]
        tokens: Vec<u32>,
        /// How many of the tokens are run together; the others one at a time, as they are decoded. All if not told.
        #[arg(long)]
        prompt: Option<usize>,
        /// Where to; stdout if not told.
        #[arg(long)]
        out: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Generate(args) => generate::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Serve(args) => serve::run(args),
        Command::WriteRandom { shape, folder, weights_seed, layers } => {
            let mut config = source::named(&shape)?;
            if let Some(layers) = layers {
                source::set_layers(&mut config, layers)?;
            }
            write_random(&config, weights_seed, &folder)
        }
        Command::Logits { source, tokens, prompt, out } => {
            let logits = source.logits(&tokens, prompt.unwrap_or(tokens.len()))?;
            write_logits(&logits, tokens.len(), out.as_deref())
        }
    }
}

fn write_random(config: &ModelConfig, seed: u64, folder: &Path) -> Result<()> {
    let mut weights = Weights::random(config, seed);
    weights.show_progress("writing");
    weights.write(config, folder)?;
    weights.end_progress();
    eprintln!("{} parameters, {} in {}", config.parameters(), config.dtype.name(), folder.display());
    Ok(())
}

fn write_logits(logits: &[f32], rows: usize, out: Option<&Path>) -> Result<()> {
    let columns = logits.len() / rows.max(1);
    if let Some(path) = out.filter(|path| path.extension().is_some_and(|extension| extension == "safetensors")) {
        let bytes: Vec<u8> = logits.iter().flat_map(|value| value.to_le_bytes()).collect();
        let view = TensorView::new(Dtype::F32, vec![rows, columns], &bytes)?;
        return safetensors::serialize_to_file([("logits", view)], None, path)
            .with_context(|| path.display().to_string());
    }
    let text = serde_json::to_string(&logits.chunks(columns.max(1)).collect::<Vec<_>>())?;
    match out {
        Some(path) => std::fs::write(path, text).with_context(|| path.display().to_string()),
        None => {
            println!("{text}");
            Ok(())
        }
    }
}
