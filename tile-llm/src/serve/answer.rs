//! The text of an answer, as it comes.

use crate::engine::Update;
use crate::error::ModelError;
use crate::scheduler::Finish;
use crate::text::{Decoder, Stop, Tokenizer};
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;

/// A piece of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// More text, never empty.
    Text(String),
    /// The last text, maybe empty, and OpenAI's name of why it is the last.
    Last(String, &'static str),
    /// There is no more; why.
    Failed(String),
}

/// Reads updates, gives text.
pub(super) struct Answer {
    updates: UnboundedReceiver<Update>,
    decoder: Decoder,
    stop: Stop,
    /// Tokens so far.
    pub(super) tokens: usize,
}

impl Answer {
    pub(super) fn new(updates: UnboundedReceiver<Update>, tokenizer: Arc<Tokenizer>, stop: Vec<String>) -> Answer {
        Answer { updates, decoder: Decoder::new(tokenizer), stop: Stop::new(stop), tokens: 0 }
    }

    /// The next piece. After `Last` or `Failed` there is none to ask for.
    pub(super) async fn next(&mut self) -> Piece {
        loop {
            let update = self.updates.recv().await;
            match self.take(update) {
                Ok(Piece::Text(text)) if text.is_empty() => {}
                Ok(piece) => return piece,
                Err(error) => return Piece::Failed(error.to_string()),
            }
        }
    }

    fn take(&mut self, update: Option<Update>) -> Result<Piece, ModelError> {
        let (text, finish) = match update {
            Some(Update::Token(token)) => {
                self.tokens += 1;
                (self.decoder.push(token)?, None)
            }
            Some(Update::End(finish)) => (self.decoder.finish()?, Some(finish)),
            Some(Update::Failed(why)) => return Ok(Piece::Failed(why)),
            None => return Ok(Piece::Failed("the engine has stopped".to_owned())),
        };
        let (mut text, stopped) = self.stop.push(&text);
        if stopped {
            // The engine sees it and cancels the sequence.
            self.updates.close();
            return Ok(Piece::Last(text, "stop"));
        }
        Ok(match finish {
            None => Piece::Text(text),
            Some(finish) => {
                text.push_str(&self.stop.finish());
                Piece::Last(text, if finish == Finish::End { "stop" } else { "length" })
            }
        })
    }
}
