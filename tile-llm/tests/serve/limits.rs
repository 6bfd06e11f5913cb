//! Clients that ask too much, too slowly, or go away.

use crate::alone;
use crate::client::{begin_stream, completion, connect, get, post, reply, request};
use crate::server::{LIMITS, Server};
use serde_json::json;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};
use tile_llm::fake::Fake;
use tile_llm::serve::Options;

/// A prompt whose answer has no end within `tokens`.
fn endless(tokens: usize) -> String {
    (0..).map(|n| format!("endless {n}")).find(|prompt| alone(prompt, tokens).1).unwrap()
}

#[test]
fn a_client_that_hangs_up_frees_its_pages() {
    let server = Server::start(Duration::from_millis(10), 8);
    let prompt = endless(520);
    let body = json!({ "prompt": prompt, "max_tokens": 520, "stream": true });
    let stream = begin_stream(server.address, &body);
    server.wait("running", |status| status.running == 1);
    drop(stream);
    server.wait_until_idle();
    let drawn = server.engine.status().tokens;
    assert!(drawn < 400, "{drawn} tokens were drawn for nobody");
    // One that never wanted a stream, and one that still waits for its place.
    let body = json!({ "prompt": prompt, "max_tokens": 520 });
    let mut clients = Vec::new();
    for _ in 0..LIMITS.max_batch + 1 {
        let mut stream = connect(server.address);
        stream.write_all(request("application/json", &body.to_string()).as_bytes()).unwrap();
        clients.push(stream);
    }
    // Each needs 34 of 64 pages.
    server.wait("busy", |status| (status.running, status.waiting) == (1, 4));
    clients.iter().for_each(|stream| stream.shutdown(Shutdown::Both).unwrap());
    server.wait_until_idle();
    assert_eq!(completion(server.address, &json!({ "prompt": "a", "max_tokens": 2 })).status, 200);
}

#[test]
fn a_full_queue_is_said_at_once() {
    let server = Server::start(Duration::from_millis(10), 1);
    let body = json!({ "prompt": endless(520), "max_tokens": 520, "stream": true });
    let first = begin_stream(server.address, &body);
    let mut second = connect(server.address);
    second.write_all(request("application/json", &body.to_string()).as_bytes()).unwrap();
    server.wait("full", |status| (status.running, status.waiting) == (1, 1));
    let third = completion(server.address, &body);
    assert_eq!((third.status, third.json["error"]["type"].as_str()), (429, Some("rate_limit_error")));
    assert!(third.head.contains("retry-after: 1"), "{}", third.head);
    drop((first, second));
    server.wait_until_idle();
}

#[test]
fn large_and_slow_bodies_are_refused() {
    let options =
        Options { max_body: 1000, max_prompt: 100, read_timeout: Duration::from_millis(300), ..Options::default() };
    let server = Server::with(|| Fake::new(LIMITS), 8, options);
    let announced = post(server.address, "application/json", &json!({ "prompt": "a".repeat(2000) }).to_string());
    assert_eq!((announced.status, announced.json["error"]["type"].as_str()), (413, Some("invalid_request_error")));
    // Without its length, in chunks.
    let mut stream = connect(server.address);
    let head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n\
                transfer-encoding: chunked\r\n\r\n";
    write!(stream, "{head}5dc\r\n{}\r\n0\r\n\r\n", "a".repeat(1500)).unwrap();
    assert_eq!(reply(stream).status, 413);
    let mut slow = connect(server.address);
    write!(
        slow,
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n\
                  content-length: 100\r\n\r\n{{"
    )
    .unwrap();
    assert_eq!(reply(slow).status, 408);
    // Headers that never end.
    let start = Instant::now();
    let mut silent = connect(server.address);
    write!(silent, "POST /v1/comp").unwrap();
    let mut rest = Vec::new();
    // Closed, with 408 or with nothing.
    let _ = silent.read_to_end(&mut rest);
    assert!(start.elapsed() < Duration::from_secs(5), "the connection was kept open");
    let long = completion(server.address, &json!({ "prompt": "a".repeat(101) }));
    assert_eq!((long.status, long.json["error"]["code"].as_str()), (400, Some("context_length_exceeded")));
}

#[test]
fn connections_past_the_bound_wait() {
    let options = Options { max_connections: 2, read_timeout: Duration::from_secs(2), ..Options::default() };
    let server = Server::with(|| Fake::new(LIMITS), 8, options);
    let idle = [connect(server.address), connect(server.address)];
    let start = Instant::now();
    let address = server.address;
    let third = std::thread::spawn(move || get(address, "/health").status);
    std::thread::sleep(Duration::from_millis(200));
    assert!(!third.is_finished(), "a third connection was served");
    drop(idle);
    assert_eq!(third.join().unwrap(), 200);
    assert!(start.elapsed() < Duration::from_secs(2), "it waited for a timeout, not for a place");
}

#[test]
fn a_failed_step_is_an_error_and_the_next_one_is_not() {
    let server = Server::with(|| Fake::new(LIMITS).failing_at(1), 8, Options::default());
    let body = json!({ "prompt": endless(20), "max_tokens": 20 });
    let failed = completion(server.address, &body);
    assert_eq!((failed.status, failed.json["error"]["type"].as_str()), (500, Some("server_error")));
    assert_eq!(get(server.address, "/health").status, 503);
    assert_eq!(completion(server.address, &body).status, 200);
    assert_eq!(get(server.address, "/health").status, 200);
    server.wait_until_idle();
}

#[test]
fn a_shutdown_ends_answers_and_refuses_new_connections() {
    let options = Options { shutdown_timeout: Duration::from_millis(200), ..Options::default() };
    let server = Server::with(|| Fake::new(LIMITS).with_delay(Duration::from_millis(20)), 8, options);
    let address = server.address;
    let mut stream = begin_stream(address, &json!({ "prompt": endless(520), "max_tokens": 520, "stream": true }));
    let start = Instant::now();
    server.shut_down();
    assert!(start.elapsed() < Duration::from_secs(5), "the shutdown waited for the answer");
    let mut rest = String::new();
    // The connection ends, whole or broken; its stream has no `[DONE]`.
    let _ = stream.read_to_string(&mut rest);
    assert!(!rest.contains("[DONE]"), "{rest}");
    assert!(std::net::TcpStream::connect(address).is_err(), "the port is still listened on");
}
