//! `tile-llm serve`.

use crate::source::{self, Source};
use anyhow::{Context, Result};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tile_llm::engine::Engine;
use tile_llm::serve::{App, Options, serve};
use tokio::net::TcpListener;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// The address to listen on. Others than 127.0.0.1 and ::1 can be reached from other machines, and nothing asks for a key.
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// The port; 0: any that is free.
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// Most tokens of a sequence, prompt and answer; the model's if not told, at most 8192.
    #[arg(long)]
    context: Option<usize>,
    /// Most sequences in a step. The cache has room for this many of the longest.
    #[arg(long, default_value_t = 16)]
    batch: usize,
    /// Most tokens in a step.
    #[arg(long, default_value_t = 2048)]
    step_tokens: usize,
    /// Most requests that wait for a place in the batch; others are answered with 429.
    #[arg(long, default_value_t = 256)]
    queue: usize,
    /// Most tokens of a prompt.
    #[arg(long)]
    max_prompt: Option<usize>,
    /// Most bytes of a request.
    #[arg(long, default_value_t = Options::default().max_body)]
    max_body: usize,
    /// Most connections at once.
    #[arg(long, default_value_t = Options::default().max_connections)]
    connections: usize,
    /// Seconds that the headers of a request, and then its body, may take to arrive.
    #[arg(long, default_value_t = Options::default().read_timeout.as_secs())]
    read_timeout: u64,
}

pub fn run(args: Args) -> Result<()> {
    let config = args.source.config()?;
    let tokenizer = Arc::new(args.source.tokenizer(&config)?);
    let context = args.context.unwrap_or(config.max_position_embeddings.min(8192));
    let limits = source::limits(&config, args.batch, context, args.step_tokens)?;
    let source = args.source.clone();
    let open = move || {
        let mut backend = source.open(limits)?;
        backend.prepare()?;
        Ok(backend)
    };
    let engine = Engine::start(open, args.queue)?;
    let options = Options {
        max_body: args.max_body,
        max_prompt: args.max_prompt.unwrap_or(usize::MAX),
        max_connections: args.connections,
        read_timeout: Duration::from_secs(args.read_timeout),
        ..Options::default()
    };
    let app = App { model: args.source.name(), tokenizer, end: config.eos_token_ids, engine: engine.handle(), options };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let at = (args.host, args.port);
        let listener =
            TcpListener::bind(at).await.with_context(|| format!("listening on {}:{}", args.host, args.port))?;
        eprintln!("{} on http://{}", app.model, listener.local_addr()?);
        serve(listener, Arc::new(app), interrupted()).await;
        anyhow::Ok(())
    })?;
    engine.stop();
    Ok(())
}

/// Done when the process is asked to end, by SIGINT or SIGTERM. Where neither can be listened for, never: the system's way of
/// ending it holds.
async fn interrupted() {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    };
    #[cfg(unix)]
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => {}
        () = terminate => {}
    }
}
