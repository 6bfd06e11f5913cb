//! HTTP by hand, so that a test can also do what a client should not.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
    /// Null where the body is not JSON.
    pub json: Value,
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

pub fn request(content_type: &str, body: &str) -> String {
    format!(
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: {content_type}\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Reads an answer up to the end of the connection.
pub fn reply(mut stream: TcpStream) -> Reply {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no end of the headers in {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body =
        if head.to_lowercase().contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
    Reply { status, head: head.to_lowercase(), json: serde_json::from_str(&body).unwrap_or_default(), body }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole.push_str(&rest[..size]);
        body = &rest[size + 2..];
    }
    whole
}

pub fn post(address: SocketAddr, content_type: &str, body: &str) -> Reply {
    let mut stream = connect(address);
    stream.write_all(request(content_type, body).as_bytes()).unwrap();
    reply(stream)
}

pub fn get(address: SocketAddr, path: &str) -> Reply {
    let mut stream = connect(address);
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    reply(stream)
}

pub fn completion(address: SocketAddr, body: &Value) -> Reply {
    post(address, "application/json", &body.to_string())
}

/// A streamed answer: its text, its `finish_reason`, its usage.
pub fn completion_text(address: SocketAddr, body: &Value) -> (String, String, Option<Value>) {
    let reply = completion(address, body);
    assert!(reply.status == 200 && reply.head.contains("content-type: text/event-stream"), "{}", reply.head);
    let events: Vec<&str> = reply.body.split_terminator("\n\n").collect();
    assert_eq!(events.last(), Some(&"data: [DONE]"), "{events:?}");
    let (mut text, mut finish, mut usage) = (String::new(), String::new(), None);
    for event in &events[..events.len() - 1] {
        let json: Value = serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
        assert!(finish.is_empty() || json["choices"].as_array().unwrap().is_empty(), "text after the end");
        text.push_str(json["choices"][0]["text"].as_str().unwrap_or_default());
        finish.push_str(json["choices"][0]["finish_reason"].as_str().unwrap_or_default());
        usage = json.get("usage").cloned().or(usage);
    }
    (text, finish, usage)
}

/// Sends a request and reads its answer up to the first event.
pub fn begin_stream(address: SocketAddr, body: &Value) -> TcpStream {
    let mut stream = connect(address);
    stream.write_all(request("application/json", &body.to_string()).as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while !line.starts_with("data: ") {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the connection closed before an event");
    }
    reader.into_inner()
}
