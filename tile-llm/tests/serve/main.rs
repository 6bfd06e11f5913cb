//! The server over loopback sockets, on a backend without a model.

mod client;
mod limits;
mod server;

use client::{completion, completion_text, get, post};
use serde_json::json;
use server::{LIMITS, Server};
use std::time::Duration;
use tile_llm::fake::Fake;

/// The text of the tokens that a prompt is answered with when it is alone.
fn alone(prompt: &str, max_tokens: usize) -> (String, bool) {
    let prompt: Vec<u32> = prompt.bytes().map(u32::from).collect();
    let tokens = Fake::answer(&LIMITS, &prompt, max_tokens, &[257]);
    let bytes: Vec<u8> = tokens.iter().filter_map(|&token| u8::try_from(token).ok()).collect();
    (String::from_utf8_lossy(&bytes).into_owned(), tokens.len() == max_tokens)
}

#[test]
fn a_prompt_is_answered_whole_and_as_a_stream() {
    let server = Server::start(Duration::ZERO, 8);
    let (text, all) = alone("Hello", 30);
    let finish = if all { "length" } else { "stop" };
    let whole = completion(server.address, &json!({ "model": "fake", "prompt": "Hello", "max_tokens": 30 }));
    assert_eq!((whole.status, whole.json["choices"][0]["text"].as_str()), (200, Some(text.as_str())));
    assert_eq!(whole.json["choices"][0]["finish_reason"], finish);
    assert_eq!(whole.json["usage"]["prompt_tokens"], 5);
    let tokens: Vec<u32> = "Hello".bytes().map(u32::from).collect();
    let by_tokens = completion(server.address, &json!({ "prompt": [tokens], "max_tokens": 30 }));
    assert_eq!(by_tokens.json["choices"][0]["text"], text.as_str());
    let body =
        json!({ "prompt": "Hello", "max_tokens": 30, "stream": true, "stream_options": { "include_usage": true } });
    let (streamed, finish_streamed, usage) = completion_text(server.address, &body);
    assert_eq!((streamed, finish_streamed.as_str()), (text, finish));
    assert_eq!(usage.unwrap(), whole.json["usage"]);
}

#[test]
fn a_stop_string_ends_the_answer_and_the_sequence() {
    let server = Server::start(Duration::from_millis(1), 8);
    let (text, _) = alone("stop me", 60);
    let stop: String = text.chars().skip(5).take(2).collect();
    let expected = &text[..text.find(&stop).unwrap()];
    let body = json!({ "prompt": "stop me", "max_tokens": 60, "stop": [stop] });
    let whole = completion(server.address, &body);
    assert_eq!(whole.json["choices"][0]["text"], expected);
    assert_eq!(whole.json["choices"][0]["finish_reason"], "stop");
    server.wait_until_idle();
}

#[test]
fn sixteen_clients_get_their_own_answers() {
    let server = Server::start(Duration::from_micros(200), 64);
    let address = server.address;
    std::thread::scope(|scope| {
        for client in 0..16 {
            scope.spawn(move || {
                for round in 0..4 {
                    let prompt = format!("client {client} asks {}", "x".repeat(client * 3 + round));
                    let max_tokens = 5 + client + round;
                    let body = json!({ "prompt": prompt, "max_tokens": max_tokens, "stream": round % 2 == 0 });
                    let expected = alone(&prompt, max_tokens).0;
                    if round % 2 == 0 {
                        assert_eq!(completion_text(address, &body).0, expected, "client {client}, round {round}");
                    } else {
                        let whole = completion(address, &body);
                        assert_eq!(whole.json["choices"][0]["text"], expected.as_str(), "{client}, {round}");
                    }
                }
            });
        }
    });
    server.wait_until_idle();
}

#[test]
fn other_paths_say_what_there_is() {
    let server = Server::start(Duration::ZERO, 8);
    let models = get(server.address, "/v1/models");
    assert_eq!((models.status, models.json["data"][0]["id"].as_str()), (200, Some("fake")));
    let health = get(server.address, "/health");
    assert_eq!((health.status, health.json["status"].as_str()), (200, Some("ok")));
    let missing = get(server.address, "/v1/chat/completions");
    assert_eq!((missing.status, missing.json["error"]["type"].as_str()), (404, Some("invalid_request_error")));
    let method = get(server.address, "/v1/completions");
    assert_eq!((method.status, method.json["error"]["type"].as_str()), (405, Some("invalid_request_error")));
}

#[test]
fn what_is_not_understood_is_refused_by_name() {
    let server = Server::start(Duration::ZERO, 8);
    let cases = [
        (json!({ "max_tokens": 3 }), "prompt"),
        (json!({ "prompt": 7 }), "prompt"),
        (json!({ "prompt": ["a", "b"] }), "prompt"),
        (json!({ "prompt": [1, -2] }), "prompt"),
        (json!({ "prompt": "a", "max_tokens": -1 }), "max_tokens"),
        (json!({ "prompt": "a", "max_tokens": "3" }), "max_tokens"),
        (json!({ "prompt": "a", "temperature": 3 }), "temperature"),
        (json!({ "prompt": "a", "top_p": 1.5 }), "top_p"),
        (json!({ "prompt": "a", "top_k": -1 }), "top_k"),
        (json!({ "prompt": "a", "n": 2 }), "n"),
        (json!({ "prompt": "a", "echo": true }), "echo"),
        (json!({ "prompt": "a", "logprobs": 1 }), "logprobs"),
        (json!({ "prompt": "a", "stop": ["1", "2", "3", "4", "5"] }), "stop"),
        (json!({ "prompt": "a", "stop": "" }), "stop"),
        (json!({ "prompt": "a", "logit_bias": { "1": 5 } }), "logit_bias"),
        (json!({ "prompt": "a", "presence_penalty": 1 }), "presence_penalty"),
        (json!({ "prompt": "a", "stream": 1 }), "stream"),
        (json!({ "prompt": "a", "stream_options": {} }), "stream_options"),
    ];
    for (body, param) in cases {
        let reply = completion(server.address, &body);
        assert_eq!((reply.status, reply.json["error"]["param"].as_str()), (400, Some(param)), "{body}: {}", reply.json);
    }
    let model = completion(server.address, &json!({ "model": "gpt-4", "prompt": "a" }));
    assert_eq!((model.status, model.json["error"]["code"].as_str()), (404, Some("model_not_found")));
    let unknown = completion(server.address, &json!({ "prompt": "a", "min_tokens": 4 }));
    assert!(unknown.status == 400 && unknown.json["error"]["message"].as_str().unwrap().contains("min_tokens"));
    let harmless = json!({
        "prompt": "a", "n": 1, "echo": false, "logprobs": null, "user": "me", "logit_bias": {}, "presence_penalty": 0,
        "frequency_penalty": 0.0, "suffix": null, "best_of": 1, "max_tokens": 2, "seed": -5
    });
    assert_eq!(completion(server.address, &harmless).status, 200);
    for malformed in ["", "{", "[]", "{\"prompt\": \"a\"} x", "nul\0", &"[".repeat(100_000)] {
        let reply = post(server.address, "application/json", malformed);
        let kind = reply.json["error"]["type"].as_str();
        assert_eq!((reply.status, kind), (400, Some("invalid_request_error")), "{:.40}", malformed);
    }
    assert_eq!(post(server.address, "text/plain", "{\"prompt\": \"a\"}").status, 415);
    let long = completion(server.address, &json!({ "prompt": "a", "max_tokens": 5000 }));
    assert_eq!((long.status, long.json["error"]["code"].as_str()), (400, Some("context_length_exceeded")));
    let token = completion(server.address, &json!({ "prompt": [1, 259] }));
    assert!(token.status == 400 && token.json["error"]["message"].as_str().unwrap().contains("259"));
}
