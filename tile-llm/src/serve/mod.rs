//! An HTTP server for one model: OpenAI's `/v1/completions` and `/v1/models`, and `/health`.
//!
//! What a client can make it hold is bounded: connections, headers and bodies in bytes and in time, tokens of a prompt,
//! requests that wait ([`Options`]). A client that hangs up cancels its sequence.

mod answer;
mod completions;
mod error;
mod request;

use crate::engine::Handle;
use crate::text::Tokenizer;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use error::ApiError;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// What a client may ask of the server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Most bytes of a request's body; more is answered with 413.
    pub max_body: usize,
    /// Most tokens of a prompt, if less than the model's context.
    pub max_prompt: usize,
    /// Most connections at once; others wait to be accepted.
    pub max_connections: usize,
    /// How long the headers of a request, and then its body, may take to arrive, and how long a connection may idle.
    pub read_timeout: Duration,
    /// How long answers that are being given may take to end once the server shuts down.
    pub shutdown_timeout: Duration,
}

impl Default for Options {
    /// Bodies of 4 MiB, prompts as long as the context, 256 connections, 10 s to send headers or a body, 5 s to shut down.
    fn default() -> Options {
        Options {
            max_body: 4 << 20,
            max_prompt: usize::MAX,
            max_connections: 256,
            read_timeout: Duration::from_secs(10),
            shutdown_timeout: Duration::from_secs(5),
        }
    }
}

/// What is served.
pub struct App {
    /// The model's name, as `/v1/models` lists it.
    pub model: String,
    /// Its text.
    pub tokenizer: Arc<Tokenizer>,
    /// The tokens that end an answer.
    pub end: Vec<u32>,
    /// Its engine.
    pub engine: Handle,
    /// The bounds.
    pub options: Options,
}

/// The server's routes.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/completions", post(completions::complete))
        .route("/v1/models", get(models))
        .route("/health", get(health))
        .method_not_allowed_fallback(|| async {
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not take this method")
        })
        .fallback(|| async {
            ApiError::new(StatusCode::NOT_FOUND, "there are /v1/completions, /v1/models and /health")
        })
        .with_state(app)
}

/// Serves `app` on `listener` until `shutdown` is done; then connections that are answering get
/// [`Options::shutdown_timeout`] to end.
pub async fn serve(listener: TcpListener, app: Arc<App>, shutdown: impl Future<Output = ()>) {
    let options = app.options.clone();
    let service = TowerToHyperService::new(router(app));
    let places = Arc::new(Semaphore::new(options.max_connections));
    let graceful = GracefulShutdown::new();
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(options.read_timeout);
    tokio::pin!(shutdown);
    loop {
        let accept = async {
            // Never closed.
            let place = places.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            accepted = accept => accepted,
            () = &mut shutdown => break,
        };
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors, mostly: they come back when connections end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Tokens are small and each is waited for.
        let _ = stream.set_nodelay(true);
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service.clone()));
        tokio::spawn(async move {
            // A connection that breaks is the client's affair: its request is cancelled with it.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(options.shutdown_timeout, graceful.shutdown()).await;
}

async fn models(State(app): State<Arc<App>>) -> Response {
    let model = json!({ "id": app.model, "object": "model", "created": 0, "owned_by": "tile-llm" });
    json_response(StatusCode::OK, &json!({ "object": "list", "data": [model] }))
}

/// 200 while steps succeed, 503 after one that failed.
async fn health(State(app): State<Arc<App>>) -> Response {
    let status = app.engine.status();
    let code = if status.failure.is_some() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    let body = json!({
        "status": if status.failure.is_some() { "failing" } else { "ok" },
        "failure": status.failure,
        "waiting": status.waiting,
        "running": status.running,
        "free_pages": status.free_pages,
        "pages": app.engine.limits().pages,
        "tokens": status.tokens,
    });
    json_response(code, &body)
}

fn json_response(code: StatusCode, body: &Value) -> Response {
    (code, [("content-type", "application/json")], body.to_string()).into_response()
}
