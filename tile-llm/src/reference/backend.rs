//! The reference as a backend: slow, for tiny models.

use super::{Reference, sample};
use crate::backend::{Backend, Limits, Part};
use crate::error::ModelError;

/// Runs the whole sequence again for every token: its cache holds tokens, not keys and values.
pub struct ReferenceBackend {
    model: Reference,
    limits: Limits,
    cells: Vec<u32>,
}

impl ReferenceBackend {
    /// With these limits, `vocab` and `max_context` cut to the model's.
    pub fn new(model: Reference, limits: Limits) -> ReferenceBackend {
        let max_context = limits.max_context.min(model.config().max_position_embeddings);
        let limits = Limits { vocab: model.config().vocab_size, max_context, ..limits };
        let cells = vec![0; limits.pages * limits.page];
        ReferenceBackend { model, limits, cells }
    }
}

impl Backend for ReferenceBackend {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn step(&mut self, parts: &[Part<'_>]) -> Result<Vec<Option<u32>>, ModelError> {
        self.limits.check(parts)?;
        let page = self.limits.page;
        let mut drawn = Vec::new();
        for part in parts {
            let cell = |position: usize| part.pages[position / page] as usize * page + position % page;
            for (position, &token) in (part.position..).zip(part.tokens) {
                self.cells[cell(position)] = token;
            }
            let end = part.position + part.tokens.len();
            drawn.push(if part.sample {
                let tokens: Vec<u32> = (0..end).map(|position| self.cells[cell(position)]).collect();
                Some(sample(&self.model.last_logits(&tokens)?, &part.sampling, end))
            } else {
                None
            });
        }
        Ok(drawn)
    }
}
