//! The seam between the scheduler and the forward pass: a step takes some tokens of some sequences and gives the next token of
//! those that want one. The scheduler owns the pages of the cache as numbers; the backend owns their memory.

use crate::error::ModelError;
use crate::model::Profile;

/// What a backend can take; it does not change while the backend lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most sequences in one step.
    pub max_batch: usize,
    /// Most tokens in one step, over all its sequences.
    pub max_tokens: usize,
    /// Tokens in a page of the cache.
    pub page: usize,
    /// Pages of the cache, over all sequences: `Part::pages` holds numbers below this.
    pub pages: usize,
    /// Most tokens in a sequence, prompt and answer together.
    pub max_context: usize,
    /// Tokens are below this.
    pub vocab: usize,
}

/// How the next token is chosen from the logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// The logits are divided by it; 0: the likeliest token, the lowest of equals, whatever the other fields say.
    pub temperature: f32,
    /// Only the `top_k` likeliest tokens are drawn from; 0: all.
    pub top_k: u32,
    /// Only the likeliest tokens whose probabilities sum to at least this are drawn from; 1: all.
    pub top_p: f32,
    /// The draw is a function of this and of the position of the token drawn: the same sequence with the same seed gives the
    /// same tokens, however it was cut into steps.
    pub seed: u64,
}

impl Sampling {
    /// The likeliest token, always.
    pub const GREEDY: Sampling = Sampling { temperature: 0.0, top_k: 0, top_p: 1.0, seed: 0 };
}

/// One sequence's share of a step.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The tokens to run through the model, at least one: a piece of the prompt, or the token drawn last.
    pub tokens: &'a [u32],
    /// The position of `tokens[0]`. Keys and values of all positions before it are in `pages` already.
    pub position: usize,
    /// The sequence's pages in order, enough for `position + tokens.len()` tokens and maybe more: the token at position `p`
    /// lives in `pages[p / page]` at row `p % page`. No other sequence has any of them.
    pub pages: &'a [u32],
    /// How the token after the last of `tokens` is chosen.
    pub sampling: Sampling,
    /// Whether the token after the last of `tokens` is wanted: not for a piece of the prompt that is not its last.
    pub sample: bool,
}

/// A model that is loaded: runs steps.
pub trait Backend {
    /// What it can take.
    fn limits(&self) -> Limits;

    /// Runs one step: writes keys and values of all `parts`' tokens into their pages; the result has an entry a part, in
    /// order, `Some` where `sample` is set.
    ///
    /// # Errors
    ///
    /// [`ModelError::Step`] where `parts` is past the limits; whatever the device reports. After an error the contents of
    /// the parts' pages are unknown, other pages are as they were.
    fn step(&mut self, parts: &[Part<'_>]) -> Result<Vec<Option<u32>>, ModelError>;

    /// Compiles and captures the decode steps of every number of sequences, so that no later step has to: until then the first step of
    /// each number takes longer and makes the process grow.
    ///
    /// # Errors
    ///
    /// Whatever the device reports.
    fn prepare(&mut self) -> Result<(), ModelError> {
        Ok(())
    }

    /// Where the time of the last decode step goes, by replaying it `repeats` times; none where there was none or the backend
    /// cannot tell. Keys and values of that step's tokens are unknown afterwards.
    ///
    /// # Errors
    ///
    /// Whatever the device reports.
    fn profile(&mut self, repeats: usize) -> Result<Option<Profile>, ModelError> {
        let _ = repeats;
        Ok(None)
    }
}

impl<B: Backend + ?Sized> Backend for Box<B> {
    fn limits(&self) -> Limits {
        (**self).limits()
    }

    fn step(&mut self, parts: &[Part<'_>]) -> Result<Vec<Option<u32>>, ModelError> {
        (**self).step(parts)
    }

    fn prepare(&mut self) -> Result<(), ModelError> {
        (**self).prepare()
    }

    fn profile(&mut self, repeats: usize) -> Result<Option<Profile>, ModelError> {
        (**self).profile(repeats)
    }
}

impl Limits {
    /// Sequences of the captured step that serves so many: a power of two, so that there are few, or all that fit.
    pub(crate) fn captured(&self, sequences: usize) -> usize {
        sequences.next_power_of_two().min(self.max_batch)
    }

    /// Checks that a sequence of one token fits.
    ///
    /// # Errors
    ///
    /// [`ModelError::Capacity`]: one of the numbers is 0.
    pub fn validate(&self) -> Result<(), ModelError> {
        let Limits { max_batch, max_tokens, page, pages, max_context, vocab } = *self;
        if [max_batch, max_tokens, page, pages, max_context, vocab].contains(&0) {
            return Err(ModelError::Capacity(format!("no sequence fits these limits: {self:?}")));
        }
        Ok(())
    }

    /// Checks that `parts` keep these limits.
    ///
    /// # Errors
    ///
    /// [`ModelError::Step`], which names the part and the limit.
    pub fn check(&self, parts: &[Part<'_>]) -> Result<(), ModelError> {
        let tokens: usize = parts.iter().map(|part| part.tokens.len()).sum();
        if parts.len() > self.max_batch || tokens > self.max_tokens {
            let Limits { max_batch, max_tokens, .. } = self;
            let asked = format!("{} sequences and {tokens} tokens", parts.len());
            return Err(ModelError::Step(format!("{asked}; at most {max_batch} and {max_tokens} fit")));
        }
        for (index, part) in parts.iter().enumerate() {
            let end = part.position + part.tokens.len();
            let wrong = if part.tokens.is_empty() {
                "has no tokens".to_owned()
            } else if end > self.max_context {
                format!("ends at {end}, past the context of {}", self.max_context)
            } else if part.pages.len() * self.page < end {
                format!("ends at {end} and has {} pages of {} tokens", part.pages.len(), self.page)
            } else if let Some(page) = part.pages.iter().find(|&&page| page as usize >= self.pages) {
                format!("names page {page} of {}", self.pages)
            } else if let Some(token) = part.tokens.iter().find(|&&token| token as usize >= self.vocab) {
                format!("has token {token}; the vocabulary has {}", self.vocab)
            } else {
                continue;
            };
            return Err(ModelError::Step(format!("part {index} {wrong}")));
        }
        Ok(())
    }
}
