//! `POST /v1/completions`.

use super::answer::{Answer, Piece};
use super::error::ApiError;
use super::request::{Completion, Prompt};
use super::{App, json_response};
use crate::scheduler::Request;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) async fn complete(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    // A page in a browser may send other types to any address without asking.
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the content type must be application/json"));
    }
    let body = read(&app, &headers, body).await?;
    // Seeded by the system once a process, counted from there.
    let seed = RandomState::new().hash_one(body.len());
    let completion = Completion::parse(&body, &app.model, seed)?;
    drop(body);
    let prompt = tokens(&app, completion.prompt).await?;
    if prompt.len() > app.options.max_prompt {
        let why = format!("has {} tokens; at most {} are accepted", prompt.len(), app.options.max_prompt);
        return Err(ApiError::field("prompt", why).with_code("context_length_exceeded"));
    }
    let prompt_tokens = prompt.len();
    let (max_new, sampling) = (completion.max_tokens, completion.sampling);
    let updates = app.engine.submit(Request { prompt, max_new, sampling, end: app.end.clone() }).await?;
    let reply = Reply {
        answer: Answer::new(updates, app.tokenizer.clone(), completion.stop),
        id: format!("cmpl-{:016x}", RandomState::new().hash_one(seed)),
        created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        model: app.model.clone(),
        prompt_tokens,
        usage: completion.usage,
        over: false,
    };
    if completion.stream { Ok(reply.stream()) } else { reply.whole().await }
}

/// The body, within its bounds.
async fn read(app: &App, headers: &HeaderMap, body: Body) -> Result<Bytes, ApiError> {
    let most = app.options.max_body;
    let large = || ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {most} bytes"));
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > most as u64) {
        return Err(large());
    }
    match tokio::time::timeout(app.options.read_timeout, to_bytes(body, most)).await {
        Err(_) => Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body took too long to arrive")),
        // Either too long, or the connection broke and nobody reads the answer.
        Ok(Err(_)) => Err(large()),
        Ok(Ok(bytes)) => Ok(bytes),
    }
}

async fn tokens(app: &App, prompt: Prompt) -> Result<Vec<u32>, ApiError> {
    let text = match prompt {
        Prompt::Tokens(tokens) => return Ok(tokens),
        Prompt::Text(text) => text,
    };
    let tokenizer = app.tokenizer.clone();
    // A long text keeps a thread busy, which others wait for.
    let encoded = tokio::task::spawn_blocking(move || tokenizer.encode(&text)).await;
    encoded.map_err(|_| ApiError::failed("the tokenizer panicked"))?.map_err(ApiError::failed)
}

/// An answer on its way to a client.
struct Reply {
    answer: Answer,
    id: String,
    created: u64,
    model: String,
    prompt_tokens: usize,
    usage: bool,
    /// Whether the stream has had its last piece.
    over: bool,
}

impl Reply {
    fn json(&self, choices: Value) -> Value {
        let Reply { id, created, model, .. } = self;
        json!({ "id": id, "object": "text_completion", "created": created, "model": model, "choices": choices })
    }

    fn choice(&self, text: &str, finish: Option<&str>) -> Value {
        self.json(json!([{ "text": text, "index": 0, "logprobs": null, "finish_reason": finish }]))
    }

    fn counts(&self) -> Value {
        let (prompt, completion) = (self.prompt_tokens, self.answer.tokens);
        json!({ "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion })
    }

    async fn whole(mut self) -> Result<Response, ApiError> {
        let mut text = String::new();
        loop {
            match self.answer.next().await {
                Piece::Text(piece) => text.push_str(&piece),
                Piece::Failed(why) => return Err(ApiError::failed(why)),
                Piece::Last(piece, finish) => {
                    text.push_str(&piece);
                    let mut body = self.choice(&text, Some(finish));
                    body["usage"] = self.counts();
                    return Ok(json_response(StatusCode::OK, &body));
                }
            }
        }
    }

    /// Server-sent events: a piece each, then `[DONE]`. An error ends the stream without it.
    fn stream(self) -> Response {
        let events = stream::unfold(self, |mut reply| async move {
            if reply.over {
                return None;
            }
            let bytes = Bytes::from(reply.event().await);
            Some((Ok::<_, Infallible>(bytes), reply))
        });
        let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
        (headers, Body::from_stream(events)).into_response()
    }

    async fn event(&mut self) -> String {
        match self.answer.next().await {
            Piece::Text(text) => format!("data: {}\n\n", self.choice(&text, None)),
            Piece::Failed(why) => {
                self.over = true;
                format!("data: {}\n\n", ApiError::failed(why).body())
            }
            Piece::Last(text, finish) => {
                self.over = true;
                let mut events = format!("data: {}\n\n", self.choice(&text, Some(finish)));
                if self.usage {
                    let mut usage = self.json(json!([]));
                    usage["usage"] = self.counts();
                    events.push_str(&format!("data: {usage}\n\n"));
                }
                events + "data: [DONE]\n\n"
            }
        }
    }
}
