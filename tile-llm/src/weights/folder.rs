//! Safetensors files, mapped.

use super::float::{Float, convert};
use crate::config::{FloatType, ModelConfig};
use crate::error::ModelError;
use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The tensors of a folder, all of them checked.
pub(super) struct Folder {
    files: Vec<(PathBuf, Mmap)>,
    tensors: HashMap<String, Stored>,
}

struct Stored {
    file: usize,
    dtype: FloatType,
    bytes: Range<usize>,
}

/// `model.safetensors.index.json`.
#[derive(Deserialize)]
struct Index {
    weight_map: HashMap<String, String>,
}

impl Folder {
    pub(super) fn open(folder: &Path, config: &ModelConfig) -> Result<Folder, ModelError> {
        let mut found = Folder { files: Vec::new(), tensors: HashMap::new() };
        let expected: HashMap<_, _> = config.tensors().into_iter().map(|spec| (spec.name, spec.shape)).collect();
        for path in files(folder)? {
            found.add(path, &expected, config)?;
        }
        let missing: BTreeSet<_> = expected.keys().filter(|name| !found.tensors.contains_key(*name)).collect();
        if let Some(tensor) = missing.first() {
            let others = missing.len() - 1;
            let why = format!("is in none of the files ({others} others are missing too)");
            return Err(ModelError::Tensor { origin: folder.display().to_string(), tensor: (*tensor).clone(), why });
        }
        Ok(found)
    }

    /// Maps one file and notes its tensors.
    fn add(
        &mut self,
        path: PathBuf,
        expected: &HashMap<String, Vec<usize>>,
        config: &ModelConfig,
    ) -> Result<(), ModelError> {
        let file = File::open(&path).map_err(ModelError::io(&path))?;
        // SAFETY: the mapping is read-only. That nobody writes to or cuts the file meanwhile is asked of the caller in
        // `Weights::folder`: the type system cannot know of other processes.
        let map = unsafe { Mmap::map(&file) }.map_err(ModelError::io(&path))?;
        let view = SafeTensors::deserialize(&map).map_err(|error| ModelError::format(&path, error))?;
        for (name, tensor) in view.iter() {
            let wrong = |why| ModelError::Tensor { origin: path.display().to_string(), tensor: name.to_owned(), why };
            let Some(shape) = expected.get(name) else {
                // Old files carry RoPE's frequencies, and some a copy of the embedding as the head.
                if name.ends_with("rotary_emb.inv_freq") || (config.tie_word_embeddings && name == "lm_head.weight") {
                    continue;
                }
                return Err(wrong("is not one of the configuration's: it would be ignored".to_owned()));
            };
            if tensor.shape() != shape {
                return Err(wrong(format!("has shape {:?}; the configuration asks for {shape:?}", tensor.shape())));
            }
            let dtype = match tensor.dtype() {
                Dtype::F32 => FloatType::F32,
                Dtype::F16 => FloatType::F16,
                Dtype::BF16 => FloatType::Bf16,
                other => return Err(wrong(format!("is {other:?}; it must be F32, F16 or BF16"))),
            };
            let start = tensor.data().as_ptr().addr() - map.as_ptr().addr();
            let stored = Stored { file: self.files.len(), dtype, bytes: start..start + tensor.data().len() };
            if let Some(earlier) = self.tensors.insert(name.to_owned(), stored) {
                return Err(wrong(format!("is in {} too", self.files[earlier.file].0.display())));
            }
        }
        self.files.push((path, map));
        Ok(())
    }

    /// Elements from `first` on. `Weights` has checked that they are there.
    pub(super) fn read<T: Float>(&self, name: &str, first: usize, out: &mut [T]) -> Result<(), ModelError> {
        let stored = &self.tensors[name];
        let (start, width) = (stored.bytes.start + first * stored.dtype.bytes(), stored.dtype.bytes());
        let (path, map) = &self.files[stored.file];
        let bytes = map.get(start..start + out.len() * width);
        let bytes = bytes.ok_or_else(|| ModelError::format(path, format!("`{name}` ends past the file")))?;
        convert(stored.dtype, bytes, out);
        Ok(())
    }

    pub(super) fn stored(&self, name: &str) -> FloatType {
        self.tensors[name].dtype
    }
}

/// The files with weights: one, or those that the index names.
fn files(folder: &Path) -> Result<Vec<PathBuf>, ModelError> {
    let index = folder.join("model.safetensors.index.json");
    if !index.exists() {
        return Ok(vec![folder.join("model.safetensors")]);
    }
    let text = std::fs::read_to_string(&index).map_err(ModelError::io(&index))?;
    let parsed: Index = serde_json::from_str(&text).map_err(|error| ModelError::format(&index, error))?;
    let names: BTreeSet<String> = parsed.weight_map.into_values().collect();
    names
        .into_iter()
        .map(|name| {
            // A name, not a path: an index must not lead out of its folder.
            let plain = Path::new(&name).file_name().is_some_and(|file| file == name.as_str());
            if plain {
                Ok(folder.join(name))
            } else {
                Err(ModelError::format(
                    &index,
                    format!("weight_map names {name:?}, which is not a file of this folder"),
                ))
            }
        })
        .collect()
}
