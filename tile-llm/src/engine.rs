//! A backend and its scheduler on a thread of their own; requests come in and tokens go out by channels.

use crate::backend::{Backend, Limits};
use crate::error::ModelError;
use crate::scheduler::{Event, Finish, Refused, Request, Scheduler, SequenceId};
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use thiserror::Error;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// What becomes of a request, in order: tokens, then one of the others. A channel that closes without one: the engine
/// stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// The next token of the answer.
    Token(u32),
    /// The answer is complete.
    End(Finish),
    /// The step failed; the text says why.
    Failed(String),
}

/// Why a request was not taken.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SubmitError {
    /// The scheduler's reason.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The engine has stopped, or its thread has panicked.
    #[error("the engine has stopped")]
    Stopped,
}

/// How busy the engine is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Requests that wait for a place in the batch.
    pub waiting: usize,
    /// Sequences in the batch.
    pub running: usize,
    /// Pages that no sequence has.
    pub free_pages: usize,
    /// Tokens drawn since the start.
    pub tokens: u64,
    /// Why the last step failed; `None` where it did not.
    pub failure: Option<String>,
}

/// A request's updates, where it was taken.
type Taken = Result<UnboundedReceiver<Update>, Refused>;

enum Command {
    Submit(Request, oneshot::Sender<Taken>),
    Stop,
}

/// Gives requests to an engine; clones give to the same one.
#[derive(Clone)]
pub struct Handle {
    commands: Sender<Command>,
    status: Arc<Mutex<Status>>,
    limits: Limits,
}

impl Handle {
    /// Queues a request. Dropping what is returned cancels it, before the next step begins.
    ///
    /// # Errors
    ///
    /// The scheduler refuses it, or the engine has stopped.
    pub async fn submit(&self, request: Request) -> Result<UnboundedReceiver<Update>, SubmitError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(Command::Submit(request, reply)).map_err(|_| SubmitError::Stopped)?;
        Ok(answer.await.map_err(|_| SubmitError::Stopped)??)
    }

    /// How busy the engine was after its last step.
    pub fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The backend's limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }
}

/// The thread of a backend. Dropping it stops the thread.
pub struct Engine {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// Calls `open` on the new thread, where the backend stays, and waits for it. At most `queue` requests wait for a place
    /// in the batch.
    ///
    /// # Errors
    ///
    /// What `open` reports; the backend's limits have a zero; the thread cannot be started or panics in `open`.
    pub fn start<B: Backend>(
        open: impl FnOnce() -> Result<B, ModelError> + Send + 'static,
        queue: usize,
    ) -> Result<Engine, ModelError> {
        let (commands, inbox) = channel();
        let (opened, result) = channel();
        let status = Arc::new(Mutex::new(Status::default()));
        let shared = status.clone();
        let work = move || {
            let backend = open().and_then(|backend| backend.limits().validate().map(|()| backend));
            let mut backend = match backend {
                Ok(backend) => backend,
                Err(error) => return drop(opened.send(Err(error))),
            };
            let limits = backend.limits();
            let mut run = Run { scheduler: Scheduler::new(limits, queue), clients: HashMap::new(), status: shared };
            run.publish(0, None);
            // Nobody listens any more: then the inbox is closed too, and the loop ends at once.
            let _ = opened.send(Ok(limits));
            run.serve(&mut backend, &inbox);
        };
        let thread = std::thread::Builder::new().name("engine".to_owned()).spawn(work);
        let thread = thread.map_err(ModelError::io("the engine's thread"))?;
        let stopped = |_| ModelError::Capacity("the engine's thread panicked while the model was loaded".to_owned());
        let limits = result.recv().map_err(stopped)??;
        Ok(Engine { handle: Handle { commands, status, limits }, thread: Some(thread) })
    }

    /// For giving it requests.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Ends after the step that runs; what is waiting or running is dropped, its channels close.
    pub fn stop(self) {}
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Either fails only where the thread has ended.
        let _ = self.handle.commands.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the thread works on.
struct Run {
    scheduler: Scheduler,
    clients: HashMap<SequenceId, UnboundedSender<Update>>,
    status: Arc<Mutex<Status>>,
}

impl Run {
    fn serve(&mut self, backend: &mut dyn Backend, inbox: &Receiver<Command>) {
        loop {
            let command = if self.scheduler.is_idle() {
                inbox.recv().map_err(|_| TryRecvError::Disconnected)
            } else {
                inbox.try_recv()
            };
            match command {
                Ok(Command::Submit(request, reply)) => {
                    self.submit(request, reply);
                    // All that have come in take part in the next step.
                    continue;
                }
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => {}
            }
            self.let_go();
            match self.scheduler.step(backend) {
                Ok(events) => {
                    self.publish(self.scheduler.load().new_tokens, None);
                    events.into_iter().for_each(|event| self.tell(event));
                }
                Err(error) => self.fail(&error),
            }
        }
    }

    fn submit(&mut self, request: Request, reply: oneshot::Sender<Taken>) {
        let (sender, receiver) = unbounded_channel();
        let taken = self.scheduler.submit(request).map(|id| {
            self.clients.insert(id, sender);
            receiver
        });
        // A client that has gone meanwhile drops the receiver, which cancels the sequence like any other.
        let _ = reply.send(taken);
        self.publish(0, self.failure());
    }

    /// Cancels the sequences whose clients have gone.
    fn let_go(&mut self) {
        self.clients.retain(|id, sender| {
            let gone = sender.is_closed();
            if gone {
                self.scheduler.cancel(*id);
            }
            !gone
        });
    }

    fn tell(&mut self, event: Event) {
        if let (Some(sender), Some(token)) = (self.clients.get(&event.id), event.token) {
            // Fails where the client has gone: seen before the next step.
            let _ = sender.send(Update::Token(token));
        }
        if let Some(finish) = event.finish
            && let Some(sender) = self.clients.remove(&event.id)
        {
            let _ = sender.send(Update::End(finish));
        }
    }

    /// Ends all that took part in a step that failed; those that wait are tried.
    fn fail(&mut self, error: &ModelError) {
        let running: Vec<SequenceId> = self.scheduler.running().collect();
        for id in running {
            self.scheduler.cancel(id);
            if let Some(sender) = self.clients.remove(&id) {
                let _ = sender.send(Update::Failed(error.to_string()));
            }
        }
        self.publish(0, Some(error.to_string()));
    }

    fn failure(&self) -> Option<String> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).failure.clone()
    }

    fn publish(&self, tokens: usize, failure: Option<String>) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        *status = Status {
            waiting: self.scheduler.waiting(),
            running: self.scheduler.running().count(),
            free_pages: self.scheduler.free_pages(),
            tokens: status.tokens + tokens as u64,
            failure,
        };
    }
}
