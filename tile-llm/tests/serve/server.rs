//! A server on a free port, for one test.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tile_llm::Limits;
use tile_llm::engine::{Engine, Handle};
use tile_llm::fake::Fake;
use tile_llm::serve::{App, Options, serve};
use tile_llm::text::Tokenizer;
use tokio::sync::oneshot;

pub const LIMITS: Limits = Limits { max_batch: 4, max_tokens: 64, page: 16, pages: 64, max_context: 600, vocab: 259 };

pub struct Server {
    pub address: SocketAddr,
    pub engine: Handle,
    shutdown: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Steps take `delay`; at most `queue` requests wait.
    pub fn start(delay: Duration, queue: usize) -> Server {
        Server::with(move || Fake::new(LIMITS).with_delay(delay), queue, Options::default())
    }

    pub fn with(backend: impl FnOnce() -> Fake + Send + 'static, queue: usize, options: Options) -> Server {
        let engine = Engine::start(|| Ok(backend()), queue).unwrap();
        let handle = engine.handle();
        let app = App {
            model: "fake".to_owned(),
            tokenizer: Arc::new(Tokenizer::Bytes),
            end: vec![257],
            engine: engine.handle(),
            options,
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (shutdown, told) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let told = async { drop(told.await) };
                serve(listener, Arc::new(app), told).await;
            });
            engine.stop();
        });
        Server { address, engine: handle, shutdown: Some(shutdown), thread: Some(thread) }
    }

    /// Waits until nothing runs or waits; then every page must be free.
    pub fn wait_until_idle(&self) {
        self.wait("idle", |status| status.running == 0 && status.waiting == 0);
        assert_eq!(self.engine.status().free_pages, LIMITS.pages);
    }

    /// Waits until the status is as `done` wants it.
    pub fn wait(&self, what: &str, done: impl Fn(&tile_llm::engine::Status) -> bool) {
        let start = Instant::now();
        while !done(&self.engine.status()) {
            assert!(start.elapsed() < Duration::from_secs(20), "never {what}: {:?}", self.engine.status());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Shuts down and waits for it.
    pub fn shut_down(mut self) {
        self.end();
    }

    fn end(&mut self) {
        drop(self.shutdown.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end();
        }
    }
}
