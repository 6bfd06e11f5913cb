//! Text to tokens and back: `tokenizer.json`, or bytes for random models.

mod decode;
mod stop;

pub use decode::Decoder;
pub use stop::Stop;

use crate::config::ModelConfig;
use crate::error::ModelError;
use std::path::Path;

/// The bytes of a text, then bos, eos and padding: 259 tokens.
const BYTES: u32 = 256;

/// Turns text into tokens and back.
#[derive(Clone)]
pub enum Tokenizer {
    /// Of a `tokenizer.json`.
    File(Box<tokenizers::Tokenizer>),
    /// Token `b` is byte `b`, for random models; all others are no text.
    Bytes,
}

impl Tokenizer {
    /// Reads `tokenizer.json` of a folder. A folder without one whose model has the 259 tokens of `tiny` is given bytes.
    ///
    /// # Errors
    ///
    /// The file is missing or malformed.
    pub fn from_folder(folder: &Path, config: &ModelConfig) -> Result<Tokenizer, ModelError> {
        let path = folder.join("tokenizer.json");
        if !path.exists() && config.vocab_size == BYTES as usize + 3 {
            return Ok(Tokenizer::Bytes);
        }
        let json = std::fs::read(&path).map_err(ModelError::io(&path))?;
        let tokenizer = tokenizers::Tokenizer::from_bytes(json).map_err(|error| ModelError::format(&path, error))?;
        Ok(Tokenizer::File(Box::new(tokenizer)))
    }

    /// The tokens of `text`, with what the tokenizer puts around a text (bos for Llama 3, nothing for Qwen3 and bytes).
    ///
    /// # Errors
    ///
    /// The tokenizer fails on the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        match self {
            Tokenizer::Bytes => Ok(text.bytes().map(u32::from).collect()),
            Tokenizer::File(tokenizer) => {
                let encoding = tokenizer.encode(text, true);
                Ok(encoding.map_err(|error| ModelError::Tokenizer(error.to_string()))?.get_ids().to_vec())
            }
        }
    }

    /// The text of `tokens` without special ones; what is not UTF-8 is U+FFFD.
    ///
    /// # Errors
    ///
    /// The tokenizer fails on the tokens.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, ModelError> {
        match self {
            Tokenizer::Bytes => {
                let bytes: Vec<u8> = tokens.iter().filter_map(|&token| u8::try_from(token).ok()).collect();
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
            Tokenizer::File(tokenizer) => {
                tokenizer.decode(tokens, true).map_err(|error| ModelError::Tokenizer(error.to_string()))
            }
        }
    }
}
