//! Tokens to text, a token at a time.

use super::Tokenizer;
use crate::error::ModelError;
use std::sync::Arc;

/// Tokens that are waited for to complete a character. A character has at most four bytes, so at most four tokens.
const PATIENCE: usize = 8;

/// The text of a growing sequence: what it hands out, put together, is the text of all tokens, and is never half a character.
pub struct Decoder {
    tokenizer: Arc<Tokenizer>,
    /// The tokens of the last text handed out, which decide on spaces before the next, then those not handed out.
    window: Vec<u32>,
    /// How many of `window` have been handed out.
    done: usize,
}

impl Decoder {
    /// Of a sequence that begins.
    pub fn new(tokenizer: Arc<Tokenizer>) -> Decoder {
        Decoder { tokenizer, window: Vec::new(), done: 0 }
    }

    /// Takes the next token; the text that it completes, maybe none.
    ///
    /// # Errors
    ///
    /// The tokenizer fails on the tokens.
    pub fn push(&mut self, token: u32) -> Result<String, ModelError> {
        self.window.push(token);
        if let Tokenizer::Bytes = *self.tokenizer {
            return Ok(self.complete_bytes());
        }
        let text = self.pending()?;
        let waits = text.ends_with(char::REPLACEMENT_CHARACTER) && self.window.len() - self.done < PATIENCE;
        if waits || text.is_empty() {
            return Ok(String::new());
        }
        self.window.drain(..self.done);
        self.done = self.window.len();
        Ok(text)
    }

    /// What is left when no token follows: U+FFFD for half a character.
    ///
    /// # Errors
    ///
    /// The tokenizer fails on the tokens.
    pub fn finish(&mut self) -> Result<String, ModelError> {
        if let Tokenizer::Bytes = *self.tokenizer { self.tokenizer.decode(&self.window) } else { self.pending() }
    }

    /// The text after what has been handed out.
    fn pending(&mut self) -> Result<String, ModelError> {
        let before = self.tokenizer.decode(&self.window[..self.done])?;
        let all = self.tokenizer.decode(&self.window)?;
        // A tokenizer that clears up spaces may change what it said of the first tokens.
        Ok(all.get(before.len()..).unwrap_or_default().to_owned())
    }

    /// Bytes up to the last that may still become a character.
    fn complete_bytes(&mut self) -> String {
        let bytes: Vec<u8> = self.window.iter().filter_map(|&token| u8::try_from(token).ok()).collect();
        let mut text = String::new();
        let mut rest = Vec::new();
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            let may_grow =
                chunks.peek().is_none() && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if may_grow {
                rest = invalid.iter().copied().map(u32::from).collect();
            } else if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.window = rest;
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(tokenizer: &Tokenizer, tokens: &[u32]) -> Vec<String> {
        let mut decoder = Decoder::new(Arc::new(tokenizer.clone()));
        let mut pieces: Vec<String> = tokens.iter().map(|&token| decoder.push(token).unwrap()).collect();
        pieces.push(decoder.finish().unwrap());
        pieces
    }

    #[test]
    fn bytes_become_whole_characters() {
        let tokens: Vec<u32> = "aß€😀".bytes().map(u32::from).collect();
        assert_eq!(pieces(&Tokenizer::Bytes, &tokens), ["a", "", "ß", "", "", "€", "", "", "", "😀", ""]);
        assert_eq!(pieces(&Tokenizer::Bytes, &[0xe2, 0x82]), ["", "", "\u{fffd}"]);
        assert_eq!(pieces(&Tokenizer::Bytes, &[0xe2, 257, 0x61, 0xff]), ["", "", "\u{fffd}a", "\u{fffd}", ""]);
    }

    #[test]
    fn pieces_make_up_the_text_of_the_whole() {
        let tokenizer = byte_level();
        for text in ["a b", "naïve 😀 ok", "€€€ x"] {
            let tokens = tokenizer.encode(text).unwrap();
            assert!(tokens.len() >= text.len(), "a token a byte");
            let pieces = pieces(&tokenizer, &tokens);
            assert_eq!(pieces.concat(), text);
            assert!(pieces.iter().all(|piece| !piece.contains('\u{fffd}')), "{pieces:?}");
        }
        // Bytes that never become a character are not waited for without end.
        let half = tokenizer.encode("€").unwrap()[0];
        let pieces = pieces(&tokenizer, &[half; 40]);
        assert_eq!(pieces.concat().chars().count(), 40);
        assert!(!pieces[..10].concat().is_empty());
    }

    /// A byte-level BPE without merges, as Qwen3's and Llama 3's tokenizers are built: one token a byte.
    fn byte_level() -> Tokenizer {
        let alphabet = (0u8..=255).map(|byte| match byte {
            b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
            // The bytes that are no visible character, in order, from U+0100 on.
            _ => {
                let before = (0..byte).filter(|b| !matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)).count();
                char::from_u32(0x100 + before as u32).unwrap()
            }
        });
        let vocab: serde_json::Map<_, _> =
            alphabet.enumerate().map(|(id, symbol)| (symbol.to_string(), id.into())).collect();
        let byte_level = serde_json::json!({
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true
        });
        let json = serde_json::json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": byte_level, "post_processor": null, "decoder": byte_level,
            "model": {"type": "BPE", "vocab": vocab, "merges": []},
        });
        Tokenizer::File(Box::new(tokenizers::Tokenizer::from_bytes(json.to_string()).unwrap()))
    }
}
