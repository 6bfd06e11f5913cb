//! One queue with continuous batching: sequences join and leave the batch between steps.
//!
//! - **Admission** is first come, first served: the head of the queue waits until there is a place in the batch and pages for
//!   its whole prompt and longest answer, and nobody overtakes it. A sequence that was admitted is never stopped for want of
//!   pages and nothing is computed twice; the price is that pages of answers that end early lie unused until then.
//! - **A step** holds the last token of every sequence that is answering, and fills the rest of `Limits::max_tokens` with
//!   pieces of prompts, oldest first.
//! - **An end**: a token of `Request::end`, the longest answer, [`Scheduler::cancel`].
//!
//! Nothing here knows of threads, sockets or text.

#[cfg(test)]
mod tests;

use crate::backend::{Backend, Limits, Part, Sampling};
use crate::error::ModelError;
use crate::pages::Pages;
use std::collections::VecDeque;
use thiserror::Error;

/// Names a sequence of one [`Scheduler`]; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(u64);

/// A prompt to be answered.
#[derive(Clone, Debug)]
pub struct Request {
    /// At least one token.
    pub prompt: Vec<u32>,
    /// Most tokens of the answer, at least one.
    pub max_new: usize,
    /// How its tokens are chosen.
    pub sampling: Sampling,
    /// Tokens that end the answer and do not belong to it.
    pub end: Vec<u32>,
}

/// Why a request was not queued.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// No tokens.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// An answer of no tokens.
    #[error("max_tokens is 0; it must be at least 1")]
    NoAnswer,
    /// Not a token of the model.
    #[error("the prompt has token {token}; the vocabulary has {vocab}")]
    UnknownToken {
        /// The token.
        token: u32,
        /// Tokens are below this.
        vocab: usize,
    },
    /// Not a way to choose tokens.
    #[error("the temperature is {temperature} and top_p is {top_p}; they must be 0 or more, and 0 to 1")]
    Sampling {
        /// [`Sampling::temperature`].
        temperature: f32,
        /// [`Sampling::top_p`].
        top_p: f32,
    },
    /// More than the model's context.
    #[error(
        "the prompt has {prompt} tokens and max_tokens is {max_new}; together at most {max_context} fit the context"
    )]
    Context {
        /// Tokens of the prompt.
        prompt: usize,
        /// Most tokens of the answer.
        max_new: usize,
        /// [`Limits::max_context`].
        max_context: usize,
    },
    /// More than the whole cache.
    #[error("the prompt and its answer need {needed} pages of the cache, which has {pages}")]
    Cache {
        /// Pages for the prompt and the longest answer.
        needed: usize,
        /// [`Limits::pages`].
        pages: usize,
    },
    /// Too many wait already; later there may be room.
    #[error("{queue} requests are waiting already; try again later")]
    QueueFull {
        /// The bound on the queue.
        queue: usize,
    },
}

/// Why an answer is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// A token of [`Request::end`] was drawn.
    End,
    /// [`Request::max_new`] tokens have been drawn.
    Length,
}

/// What a step did for one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whose.
    pub id: SequenceId,
    /// The next token of its answer; `None`: the token drawn ends it.
    pub token: Option<u32>,
    /// Set with the last event of a sequence.
    pub finish: Option<Finish>,
}

/// What a step ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Sequences in it.
    pub sequences: usize,
    /// Tokens of prompts.
    pub prompt_tokens: usize,
    /// Tokens drawn.
    pub new_tokens: usize,
}

#[derive(Debug)]
struct Sequence {
    id: SequenceId,
    request: Request,
    /// The tokens that are in the cache, or will be with the next step: the prompt and what was drawn.
    tokens: Vec<u32>,
    /// How many of `tokens` are in the cache.
    cached: usize,
    pages: Vec<u32>,
}

impl Sequence {
    fn waiting_tokens(&self) -> usize {
        self.tokens.len() - self.cached
    }
}

/// The queue, the batch and the pages.
#[derive(Debug)]
pub struct Scheduler {
    limits: Limits,
    queue: usize,
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    pages: Pages,
    next: u64,
    load: Load,
}

impl Scheduler {
    /// For a backend with these limits. At most `queue` requests wait for a place in the batch.
    pub fn new(limits: Limits, queue: usize) -> Scheduler {
        let pages = Pages::new(limits.pages);
        let (waiting, running) = (VecDeque::new(), Vec::new());
        Scheduler { limits, queue, waiting, running, pages, next: 0, load: Load::default() }
    }

    /// Queues `request`.
    ///
    /// # Errors
    ///
    /// It can never be run, or the queue is full ([`Refused::QueueFull`]).
    pub fn submit(&mut self, request: Request) -> Result<SequenceId, Refused> {
        self.check(&request)?;
        if self.waiting.len() >= self.queue {
            return Err(Refused::QueueFull { queue: self.queue });
        }
        let id = SequenceId(self.next);
        self.next += 1;
        let tokens = request.prompt.clone();
        self.waiting.push_back(Sequence { id, request, tokens, cached: 0, pages: Vec::new() });
        Ok(id)
    }

    fn check(&self, request: &Request) -> Result<(), Refused> {
        let Limits { max_context, vocab, pages, .. } = self.limits;
        if request.prompt.is_empty() {
            return Err(Refused::EmptyPrompt);
        }
        if request.max_new == 0 {
            return Err(Refused::NoAnswer);
        }
        if let Some(&token) = request.prompt.iter().find(|&&token| token as usize >= vocab) {
            return Err(Refused::UnknownToken { token, vocab });
        }
        let Sampling { temperature, top_p, .. } = request.sampling;
        if !(temperature.is_finite() && temperature >= 0.0 && (0.0..=1.0).contains(&top_p)) {
            return Err(Refused::Sampling { temperature, top_p });
        }
        let (prompt, max_new) = (request.prompt.len(), request.max_new);
        if prompt.saturating_add(max_new) > max_context {
            return Err(Refused::Context { prompt, max_new, max_context });
        }
        let needed = self.pages_of(request);
        if needed > pages { Err(Refused::Cache { needed, pages }) } else { Ok(()) }
    }

    /// The pages of the prompt and the longest answer, whose last token is never run through the model.
    fn pages_of(&self, request: &Request) -> usize {
        (request.prompt.len() + request.max_new - 1).div_ceil(self.limits.page)
    }

    /// Takes a sequence out, wherever it is; its pages are free at once. No event follows. Whether it was there.
    pub fn cancel(&mut self, id: SequenceId) -> bool {
        if let Some(at) = self.waiting.iter().position(|sequence| sequence.id == id) {
            self.waiting.remove(at);
            return true;
        }
        let Some(at) = self.running.iter().position(|sequence| sequence.id == id) else { return false };
        let sequence = self.running.remove(at);
        self.pages.give_back(sequence.pages);
        true
    }

    /// Whether nothing waits and nothing runs.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// How many wait for a place in the batch.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The sequences in the batch, oldest first.
    pub fn running(&self) -> impl Iterator<Item = SequenceId> {
        self.running.iter().map(|sequence| sequence.id)
    }

    /// Pages that no sequence has.
    pub fn free_pages(&self) -> usize {
        self.pages.free()
    }

    /// What the last step ran.
    pub fn load(&self) -> Load {
        self.load
    }

    fn admit(&mut self) {
        let places = self.limits.max_batch.min(self.limits.max_tokens);
        while self.running.len() < places
            && let Some(head) = self.waiting.front()
            && let Some(pages) = self.pages.take(self.pages_of(&head.request))
            && let Some(mut sequence) = self.waiting.pop_front()
        {
            sequence.pages = pages;
            self.running.push(sequence);
        }
    }

    /// How many tokens of each running sequence the next step takes. All that answer have their one token, because no more
    /// sequences run than a step has tokens.
    fn shares(&self) -> Vec<usize> {
        let answering = self.running.iter().filter(|sequence| sequence.waiting_tokens() == 1).count();
        let mut room = self.limits.max_tokens - answering;
        let share = |sequence: &Sequence| match sequence.waiting_tokens() {
            1 => 1,
            prompt => {
                let share = prompt.min(room);
                room -= share;
                share
            }
        };
        self.running.iter().map(share).collect()
    }

    /// Admits what fits and runs one step. No events where nothing is there to run, or only pieces of prompts were.
    ///
    /// # Errors
    ///
    /// What the backend reports. The sequences of the batch stay as they were; whoever calls decides whether to step again
    /// or to [cancel](Scheduler::cancel) them.
    pub fn step(&mut self, backend: &mut dyn Backend) -> Result<Vec<Event>, ModelError> {
        self.admit();
        let shares = self.shares();
        let chosen: Vec<(usize, usize)> = shares.into_iter().enumerate().filter(|&(_, share)| share > 0).collect();
        if chosen.is_empty() {
            self.load = Load::default();
            return Ok(Vec::new());
        }
        let part = |&(at, share): &(usize, usize)| {
            let sequence = &self.running[at];
            let Sequence { request, tokens, cached, pages, .. } = sequence;
            let end = cached + share;
            let (sampling, sample) = (request.sampling, end == tokens.len());
            Part { tokens: &tokens[*cached..end], position: *cached, pages, sampling, sample }
        };
        let parts: Vec<Part<'_>> = chosen.iter().map(part).collect();
        let prompts =
            parts.iter().zip(&chosen).filter(|(part, (at, _))| part.position < self.running[*at].request.prompt.len());
        let prompt_tokens = prompts.map(|(part, _)| part.tokens.len()).sum();
        let drawn = backend.step(&parts)?;
        if drawn.len() != parts.len() || drawn.iter().zip(&parts).any(|(token, part)| token.is_some() != part.sample) {
            return Err(ModelError::Step(
                "the backend did not answer with a token for each part that wants one".into(),
            ));
        }
        self.load = Load { sequences: parts.len(), prompt_tokens, new_tokens: drawn.iter().flatten().count() };
        drop(parts);
        Ok(self.advance(&chosen, &drawn))
    }

    /// Takes over what was drawn, and lets go of those that are done.
    fn advance(&mut self, chosen: &[(usize, usize)], drawn: &[Option<u32>]) -> Vec<Event> {
        let mut events = Vec::new();
        for (&(at, share), token) in chosen.iter().zip(drawn) {
            let sequence = &mut self.running[at];
            sequence.cached += share;
            let Some(token) = *token else { continue };
            let id = sequence.id;
            if sequence.request.end.contains(&token) {
                events.push(Event { id, token: None, finish: Some(Finish::End) });
                continue;
            }
            sequence.tokens.push(token);
            let all = sequence.tokens.len() == sequence.request.prompt.len() + sequence.request.max_new;
            events.push(Event { id, token: Some(token), finish: all.then_some(Finish::Length) });
        }
        for event in events.iter().filter(|event| event.finish.is_some()) {
            self.cancel(event.id);
        }
        events
    }
}
