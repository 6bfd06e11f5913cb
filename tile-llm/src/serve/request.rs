//! A request's body: every field is understood, or refused by name. Nothing is ignored that would change the answer.

use super::error::ApiError;
use crate::backend::Sampling;
use axum::http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// OpenAI's bound on `stop`.
const MOST_STOPS: usize = 4;

/// Most bytes of a stop string: all of the answer is searched for it as it grows.
const LONGEST_STOP: usize = 256;

/// A completion that is asked for.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) prompt: Prompt,
    pub(super) max_tokens: usize,
    pub(super) sampling: Sampling,
    pub(super) stop: Vec<String>,
    pub(super) stream: bool,
    /// Whether the stream's last piece counts tokens.
    pub(super) usage: bool,
}

/// A prompt, as text or as tokens.
#[derive(Debug)]
pub(super) enum Prompt {
    Text(String),
    Tokens(Vec<u32>),
}

/// The fields that are left to look at.
struct Fields(Map<String, Value>);

impl Fields {
    /// Takes a field out; `null` is as good as none.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    /// Takes a field of a type; `what` says in an error what it must be.
    fn typed<T: DeserializeOwned>(&mut self, name: &'static str, what: &str) -> Result<Option<T>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let typed = serde_json::from_value(value).map_err(|_| ApiError::field(name, format!("must be {what}")))?;
        Ok(Some(typed))
    }

    /// Takes a number within bounds.
    fn within(&mut self, name: &'static str, low: f64, high: f64, default: f64) -> Result<f64, ApiError> {
        let what = format!("a number of {low} to {high}");
        let value = self.typed(name, &what)?.unwrap_or(default);
        if (low..=high).contains(&value) { Ok(value) } else { Err(ApiError::field(name, format!("must be {what}"))) }
    }

    /// Takes a field that may only have one value, whose absence means the same.
    fn only(&mut self, name: &'static str, allowed: &[Value]) -> Result<(), ApiError> {
        match self.take(name) {
            Some(value) if !allowed.contains(&value) => {
                Err(ApiError::field(name, format!("is not implemented; it may be left out or be {}", allowed[0])))
            }
            _ => Ok(()),
        }
    }
}

impl Completion {
    /// From the body of a request to the model called `model`. `seed` is drawn for a request that names none.
    pub(super) fn parse(body: &[u8], model: &str, seed: u64) -> Result<Completion, ApiError> {
        let json: Value = serde_json::from_slice(body)
            .map_err(|error| ApiError::new(StatusCode::BAD_REQUEST, format!("the body is not JSON: {error}")))?;
        let Value::Object(map) = json else {
            return Err(ApiError::new(StatusCode::BAD_REQUEST, "the body is not a JSON object"));
        };
        let mut fields = Fields(map);
        if let Some(asked) = fields.typed::<String>("model", "a string")?.filter(|asked| asked != model) {
            let why = format!("is {asked:?}; this server has {model:?}");
            let error = ApiError::field("model", why).with_code("model_not_found");
            return Err(error.with_status(StatusCode::NOT_FOUND));
        }
        fields.only("n", &[1.into()])?;
        fields.only("best_of", &[1.into()])?;
        fields.only("echo", &[false.into()])?;
        fields.only("logprobs", &[Value::Null])?;
        fields.only("suffix", &["".into()])?;
        fields.only("logit_bias", &[Value::Object(Map::new())])?;
        fields.only("presence_penalty", &[0.into(), 0.0.into()])?;
        fields.only("frequency_penalty", &[0.into(), 0.0.into()])?;
        // Who asks makes no difference.
        fields.take("user");
        let (temperature, top_p) =
            (fields.within("temperature", 0.0, 2.0, 1.0)?, fields.within("top_p", 0.0, 1.0, 1.0)?);
        let sampling = Sampling {
            temperature: temperature as f32,
            top_k: fields.typed("top_k", "a whole number of 0 (all) or more")?.unwrap_or(0),
            top_p: top_p as f32,
            seed: fields.typed::<i64>("seed", "a whole number of 64 bits")?.map_or(seed, |seed| seed as u64),
        };
        let stream = fields.typed("stream", "true or false")?.unwrap_or(false);
        let completion = Completion {
            prompt: prompt(&mut fields)?,
            max_tokens: fields.typed("max_tokens", "a whole number of 1 or more")?.unwrap_or(16),
            sampling,
            stop: stop(&mut fields)?,
            stream,
            usage: usage(&mut fields, stream)?,
        };
        match fields.0.keys().next() {
            Some(name) => {
                let message = format!("the field {name:?} is not known to this server");
                Err(ApiError::new(StatusCode::BAD_REQUEST, message))
            }
            None => Ok(completion),
        }
    }
}

fn prompt(fields: &mut Fields) -> Result<Prompt, ApiError> {
    const WHAT: &str = "must be a string or an array of tokens, or an array of one such";
    let mut value = fields.take("prompt").ok_or_else(|| ApiError::field("prompt", "is missing"))?;
    // A batch of one.
    if let Value::Array(items) = &mut value
        && let [only @ (Value::String(_) | Value::Array(_))] = items.as_mut_slice()
    {
        value = only.take();
    }
    match value {
        Value::String(text) => Ok(Prompt::Text(text)),
        Value::Array(items) => {
            let token = |item: &Value| item.as_u64().and_then(|token| u32::try_from(token).ok());
            let tokens: Option<Vec<u32>> = items.iter().map(token).collect();
            Ok(Prompt::Tokens(tokens.ok_or_else(|| ApiError::field("prompt", WHAT))?))
        }
        _ => Err(ApiError::field("prompt", WHAT)),
    }
}

fn stop(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    let what = format!("must be a string or at most {MOST_STOPS} strings, each of 1 to {LONGEST_STOP} bytes");
    let wrong = || ApiError::field("stop", &what);
    let strings = match fields.take("stop") {
        None => Vec::new(),
        Some(Value::String(string)) => vec![string],
        Some(other) => serde_json::from_value(other).map_err(|_| wrong())?,
    };
    let fits = strings.len() <= MOST_STOPS && strings.iter().all(|string| (1..=LONGEST_STOP).contains(&string.len()));
    if fits { Ok(strings) } else { Err(wrong()) }
}

fn usage(fields: &mut Fields, stream: bool) -> Result<bool, ApiError> {
    let wrong = |why| ApiError::field("stream_options", why);
    match fields.take("stream_options") {
        None => Ok(false),
        Some(_) if !stream => Err(wrong("needs `stream`: true")),
        Some(Value::Object(mut options)) => {
            let usage = options.remove("include_usage").and_then(|value| value.as_bool());
            let known = options.is_empty();
            usage.filter(|_| known).ok_or_else(|| wrong("may have `include_usage`, true or false, and nothing else"))
        }
        Some(_) => Err(wrong("must be an object")),
    }
}
