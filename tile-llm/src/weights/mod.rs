//! Named tensors of a model, read by rows into whatever dtype is computed in: from safetensors files, or random by a seed.
//!
//! Nothing holds a whole model in host memory: [`Weights::stream`] hands over pieces, [`Weights::load`] one tensor (or a few
//! side by side, such as q, k and v).

mod float;
mod folder;
mod random;
mod write;

pub use float::Float;

use crate::config::{FloatType, ModelConfig};
use crate::error::ModelError;
use folder::Folder;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use random::Random;
use std::collections::HashMap;
use std::io::IsTerminal;
use std::path::Path;

/// Bytes of a piece that [`Weights::stream`] hands over, at most, while a row has no more.
const PIECE: usize = 32 << 20;

/// The tensors of one model: all that its configuration asks for, and no others.
pub struct Weights {
    shapes: HashMap<String, Vec<usize>>,
    source: Source,
    progress: ProgressBar,
}

enum Source {
    Folder(Folder),
    Random(Random),
}

impl Weights {
    /// The weights of a Hugging Face folder: `model.safetensors`, or the files that `model.safetensors.index.json` names.
    /// They are mapped, not read; they must not be changed while this value lives.
    ///
    /// # Errors
    ///
    /// A file is missing or malformed; a tensor of `config` is missing, or has another shape or a dtype other than F32, F16
    /// and BF16; there is a tensor that `config` does not know.
    pub fn folder(folder: &Path, config: &ModelConfig) -> Result<Weights, ModelError> {
        Ok(Weights::new(config, Source::Folder(Folder::open(folder, config)?)))
    }

    /// Random weights, every tensor a function of `seed` and of its name: projections with a standard deviation of
    /// `1 / sqrt(columns)`, the embedding of 0.02, norms of 0.05 around 1. They are rounded to `config.dtype`.
    pub fn random(config: &ModelConfig, seed: u64) -> Weights {
        Weights::new(config, Source::Random(Random { seed, dtype: config.dtype }))
    }

    fn new(config: &ModelConfig, source: Source) -> Weights {
        let shapes = config.tensors().into_iter().map(|spec| (spec.name, spec.shape)).collect();
        Weights { shapes, source, progress: ProgressBar::hidden() }
    }

    /// Shows on stderr how many bytes have been read, if that is a terminal.
    pub fn show_progress(&mut self, what: &'static str) {
        let total = self.shapes.iter().map(|(name, shape)| shape.iter().product::<usize>() * self.stored(name).bytes());
        let total: usize = total.sum();
        if !std::io::stderr().is_terminal() {
            return;
        }
        let template = "{msg} [{bar:40}] {bytes}/{total_bytes} {bytes_per_sec}, {eta} left";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.progress = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr())
            .with_style(style)
            .with_message(what);
    }

    /// Takes the progress bar away.
    pub fn end_progress(&mut self) {
        self.progress.finish_and_clear();
    }

    /// The shape of tensor `name`.
    ///
    /// # Errors
    ///
    /// The model has no such tensor.
    pub fn shape(&self, name: &str) -> Result<&[usize], ModelError> {
        let unknown = || ModelError::Tensor {
            origin: "the configuration".to_owned(),
            tensor: name.to_owned(),
            why: "is not one of the model's".to_owned(),
        };
        Ok(self.shapes.get(name).ok_or_else(unknown)?)
    }

    /// Reads rows of tensor `name` into `out`, from `first_row` on, converted to `T`. A norm's weight is one row. The
    /// conversion to a narrower type rounds to nearest, ties to even.
    ///
    /// # Errors
    ///
    /// The model has no such tensor; `out` is not whole rows of it.
    pub fn read_rows<T: Float>(&self, name: &str, first_row: usize, out: &mut [T]) -> Result<(), ModelError> {
        let shape = self.shape(name)?;
        let (rows, columns) = rows_and_columns(shape);
        let end = first_row.checked_add(out.len() / columns);
        if !out.len().is_multiple_of(columns) || end.is_none_or(|end| end > rows) {
            let asked = format!("has shape {shape:?}; {} elements from row {first_row} on were asked for", out.len());
            return Err(ModelError::Tensor { origin: "a read".to_owned(), tensor: name.to_owned(), why: asked });
        }
        match &self.source {
            Source::Folder(folder) => folder.read(name, first_row * columns, out)?,
            Source::Random(random) => random.read(name, columns, shape.len() == 1, first_row * columns, out),
        }
        self.progress.inc((out.len() * self.stored(name).bytes()) as u64);
        Ok(())
    }

    /// Hands over the rows of `names`, one tensor below the other, in pieces of whole rows and at most 32 MiB (or of one
    /// row): `each(first_row, rows)`. They must have equally many columns. Gate and up become one `[2 * intermediate, hidden]`
    /// this way.
    ///
    /// # Errors
    ///
    /// As [`Weights::read_rows`]; the columns differ; what `each` reports.
    pub fn stream<T: Float>(
        &self,
        names: &[&str],
        mut each: impl FnMut(usize, &[T]) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        let columns = self.columns(names)?;
        let most = (PIECE / (columns * size_of::<T>())).max(1);
        let mut buffer = Vec::new();
        let mut above = 0;
        for name in names {
            let (rows, _) = rows_and_columns(self.shape(name)?);
            for first in (0..rows).step_by(most) {
                buffer.resize(most.min(rows - first) * columns, T::default());
                self.read_rows(name, first, &mut buffer)?;
                each(above + first, &buffer)?;
            }
            above += rows;
        }
        Ok(())
    }

    /// The rows of `names`, one tensor below the other, in host memory.
    ///
    /// # Errors
    ///
    /// As [`Weights::stream`].
    pub fn load<T: Float>(&self, names: &[&str]) -> Result<Vec<T>, ModelError> {
        let columns = self.columns(names)?;
        let mut all = Vec::new();
        for name in names {
            let (start, rows) = (all.len(), rows_and_columns(self.shape(name)?).0);
            all.resize(start + rows * columns, T::default());
            self.read_rows(name, 0, &mut all[start..])?;
        }
        Ok(all)
    }

    /// The columns that all of `names` have.
    fn columns(&self, names: &[&str]) -> Result<usize, ModelError> {
        let mut columns = 1;
        for (index, name) in names.iter().enumerate() {
            let own = rows_and_columns(self.shape(name)?).1;
            if index > 0 && own != columns {
                return Err(ModelError::Tensor {
                    origin: "a read".to_owned(),
                    tensor: (*name).to_owned(),
                    why: format!("has {own} columns and `{}` has {columns}", names[0]),
                });
            }
            columns = own;
        }
        Ok(columns)
    }

    /// The dtype that `name` is stored in.
    fn stored(&self, name: &str) -> FloatType {
        match &self.source {
            Source::Folder(folder) => folder.stored(name),
            Source::Random(random) => random.dtype,
        }
    }
}

/// A matrix' rows and columns; a vector is one row.
fn rows_and_columns(shape: &[usize]) -> (usize, usize) {
    match shape {
        [rows, columns] => (*rows, *columns),
        _ => (1, shape.iter().product()),
    }
}
