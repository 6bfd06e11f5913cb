//! A backend without a model, to test what stands above one: its next token is a function of all tokens before it, which it
//! reads from its pages.

use crate::backend::{Backend, Limits, Part};
use crate::error::ModelError;
use std::time::Duration;

/// Draws tokens by a hash of the sequence. Two sequences that share a page, or a page used before its time, show in its
/// answers.
#[derive(Debug)]
pub struct Fake {
    limits: Limits,
    cells: Vec<u32>,
    delay: Duration,
    fails_at: Option<usize>,
    steps: usize,
}

impl Fake {
    /// With these limits; steps take no time and none fails.
    pub fn new(limits: Limits) -> Fake {
        let cells = vec![u32::MAX; limits.pages * limits.page];
        Fake { limits, cells, delay: Duration::ZERO, fails_at: None, steps: 0 }
    }

    /// Steps take this long.
    pub fn with_delay(self, delay: Duration) -> Fake {
        Fake { delay, ..self }
    }

    /// This step, counted from 0, fails.
    pub fn failing_at(self, step: usize) -> Fake {
        Fake { fails_at: Some(step), ..self }
    }

    /// The token that follows `tokens`.
    pub fn next(limits: &Limits, tokens: impl IntoIterator<Item = u32>) -> u32 {
        let hash = tokens.into_iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, token| {
            (hash ^ u64::from(token)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29)
        });
        ((hash >> 20) % limits.vocab as u64) as u32
    }

    /// The answer that a sequence gets when it is alone: at most `max_new` tokens, up to but without the first of `end`.
    pub fn answer(limits: &Limits, prompt: &[u32], max_new: usize, end: &[u32]) -> Vec<u32> {
        let mut tokens = prompt.to_vec();
        while tokens.len() < prompt.len() + max_new {
            let token = Fake::next(limits, tokens.iter().copied());
            if end.contains(&token) {
                break;
            }
            tokens.push(token);
        }
        tokens.split_off(prompt.len())
    }
}

impl Backend for Fake {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn step(&mut self, parts: &[Part<'_>]) -> Result<Vec<Option<u32>>, ModelError> {
        self.limits.check(parts)?;
        std::thread::sleep(self.delay);
        self.steps += 1;
        if self.fails_at == Some(self.steps - 1) {
            return Err(ModelError::Step("told to fail".to_owned()));
        }
        let page = self.limits.page;
        let cell = |part: &Part<'_>, position: usize| part.pages[position / page] as usize * page + position % page;
        for part in parts {
            for (position, &token) in (part.position..).zip(part.tokens) {
                self.cells[cell(part, position)] = token;
            }
        }
        let next = |part: &Part<'_>| {
            let end = part.position + part.tokens.len();
            part.sample.then(|| Fake::next(&self.limits, (0..end).map(|position| self.cells[cell(part, position)])))
        };
        Ok(parts.iter().map(next).collect())
    }
}
