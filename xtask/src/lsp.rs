//! A client of a language server on its standard input and output: requests, answers, and the diagnostics it publishes.

use anyhow::{Context, Result, bail, ensure};
use lsp_server::{Message, Notification, Request, RequestId, Response};
use serde_json::{Value, json};
use std::io::BufReader;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// A running language server; killed when dropped.
pub struct Server {
    process: Child,
    stdin: ChildStdin,
    /// What the server sends. Ends with the server.
    received: Receiver<Message>,
    requests: i32,
    /// Whether the server said last that it has nothing more to do.
    idle: bool,
    /// The diagnostics published last, for the one file that is open.
    diagnostics: Vec<Value>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Server {
    /// Starts a server for the crate in `folder`, with `options` as its settings.
    pub fn start(command: &mut Command, folder: &Path, options: &Value) -> Result<Server> {
        let command = command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().context("could not start the language server")?;
        let stdin = process.stdin.take().context("the language server has no standard input")?;
        let stdout = process.stdout.take().context("the language server has no standard output")?;
        let (sender, received) = channel();
        thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            while let Ok(Some(message)) = Message::read(&mut stdout) {
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut server = Server { process, stdin, received, requests: 0, idle: false, diagnostics: vec![] };
        let root = uri(folder);
        let parameters = json!({
            "processId": std::process::id(),
            "rootUri": root,
            "workspaceFolders": [{ "uri": root, "name": "crate" }],
            "initializationOptions": options,
            "capabilities": {
                "experimental": { "serverStatusNotification": true },
                "textDocument": {
                    "completion": { "completionItem": { "snippetSupport": false } },
                    "hover": { "contentFormat": ["markdown"] },
                    "definition": { "linkSupport": false },
                },
            },
        });
        server.request("initialize", parameters)?;
        server.notify("initialized", json!({}))?;
        Ok(server)
    }

    /// Tells the server something.
    pub fn notify(&mut self, method: &str, parameters: Value) -> Result<()> {
        self.send(Message::Notification(Notification::new(method.to_owned(), parameters)))
    }

    /// Asks the server something and waits for the answer, asking again where the server says that its data changed meanwhile.
    pub fn request(&mut self, method: &str, parameters: Value) -> Result<Value> {
        // `ContentModified` of the protocol.
        const CHANGED: i32 = -32801;
        loop {
            self.requests += 1;
            let id = RequestId::from(self.requests);
            let request = Request { id: id.clone(), method: method.to_owned(), params: parameters.clone() };
            self.send(Message::Request(request))?;
            let most = Instant::now() + Duration::from_secs(120);
            let answer = loop {
                match self.next(most)? {
                    Some(Message::Response(answer)) if answer.id == id => break answer,
                    Some(_) => {}
                    None => bail!("no answer to {method} within two minutes"),
                }
            };
            match answer.response_result {
                Ok(result) => return Ok(result),
                Err(error) if error.code == CHANGED => {}
                Err(error) => bail!("{method}: {}", error.message),
            }
        }
    }

    /// Waits until the server has read and built the crate.
    pub fn wait_until_idle(&mut self, most: Duration) -> Result<()> {
        let end = Instant::now() + most;
        while !self.idle {
            ensure!(self.next(end)?.is_some(), "the server was not ready within {} s", most.as_secs());
        }
        Ok(())
    }

    /// Waits until the diagnostics of the open file satisfy `wanted`; what they are, where that is not within `most`.
    pub fn wait_for(&mut self, most: Duration, wanted: impl Fn(&[Value]) -> bool) -> Result<Duration> {
        let start = Instant::now();
        while !wanted(&self.diagnostics) {
            if self.next(start + most)?.is_none() {
                bail!("after {} s the diagnostics are still {:#}", most.as_secs(), json!(self.diagnostics));
            }
        }
        Ok(start.elapsed())
    }

    /// The next message, after what this client does by itself; none where there is none until `end`.
    fn next(&mut self, end: Instant) -> Result<Option<Message>> {
        let message = match self.received.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("the language server ended"),
        };
        match &message {
            // Registrations and progress: agreed to.
            Message::Request(request) => {
                let response = Response::new_ok(request.id.clone(), Value::Null);
                self.send(Message::Response(response))?;
            }
            Message::Notification(told) if told.method == "experimental/serverStatus" => {
                self.idle = told.params["quiescent"] == true;
                ensure!(told.params["health"] != "error", "the language server says: {}", told.params["message"]);
            }
            Message::Notification(told) if told.method == "textDocument/publishDiagnostics" => {
                self.diagnostics = told.params["diagnostics"].as_array().cloned().unwrap_or_default();
            }
            _ => {}
        }
        Ok(Some(message))
    }

    fn send(&mut self, message: Message) -> Result<()> {
        message.write(&mut self.stdin).context("the language server takes no more input")
    }
}

/// A file as the protocol names it. For paths without characters that need escapes.
pub fn uri(file: &Path) -> String {
    format!("file://{}", file.display())
}
