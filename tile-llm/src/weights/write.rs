//! Weights as a Hugging Face folder: `config.json` and `model.safetensors`.

use super::Weights;
use super::float::to_bytes;
use crate::config::{FloatType, ModelConfig, TensorSpec};
use crate::error::ModelError;
use safetensors::{Dtype, View};
use std::borrow::Cow;
use std::path::Path;

/// A tensor that is made when it is written: only one is in memory.
struct Lazy<'a> {
    weights: &'a Weights,
    spec: TensorSpec,
    dtype: FloatType,
}

impl View for Lazy<'_> {
    fn dtype(&self) -> Dtype {
        match self.dtype {
            FloatType::F32 => Dtype::F32,
            FloatType::F16 => Dtype::F16,
            FloatType::Bf16 => Dtype::BF16,
        }
    }

    fn shape(&self) -> &[usize] {
        &self.spec.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        // `Weights::write` has seen that every tensor can be read; no bytes where one cannot any more.
        let values = self.weights.load::<f32>(&[&self.spec.name]).unwrap_or_default();
        Cow::Owned(to_bytes(self.dtype, &values))
    }

    fn data_len(&self) -> usize {
        self.spec.elements() * self.dtype.bytes()
    }
}

impl Weights {
    /// Writes the weights of `config`, in `config.dtype`, as a folder that transformers and [`Weights::folder`] read. The
    /// folder is made if it is not there.
    ///
    /// # Errors
    ///
    /// A file is there already or cannot be written; `config` is not what these weights were made for.
    pub fn write(&self, config: &ModelConfig, folder: &Path) -> Result<(), ModelError> {
        std::fs::create_dir_all(folder).map_err(ModelError::io(folder))?;
        let (json, tensors) = (folder.join("config.json"), folder.join("model.safetensors"));
        for path in [&json, &tensors] {
            if path.exists() {
                return Err(ModelError::format(path, "is there already"));
            }
        }
        let mut lazy = Vec::new();
        for spec in config.tensors() {
            if self.shape(&spec.name)? != spec.shape {
                let why =
                    format!("has shape {:?}; the configuration asks for {:?}", self.shape(&spec.name)?, spec.shape);
                return Err(ModelError::Tensor { origin: "a write".to_owned(), tensor: spec.name, why });
            }
            lazy.push((spec.name.clone(), Lazy { weights: self, spec, dtype: config.dtype }));
        }
        // What transformers writes, and what its loader looks for.
        let metadata = [("format".to_owned(), "pt".to_owned())].into();
        safetensors::serialize_to_file(lazy, Some(metadata), &tensors)
            .map_err(|error| ModelError::format(&tensors, error))?;
        let text = format!("{:#}\n", config.to_json());
        std::fs::write(&json, text).map_err(ModelError::io(&json))
    }
}
