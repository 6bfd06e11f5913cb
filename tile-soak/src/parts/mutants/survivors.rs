//! Mutants that nobody caught: drawn by seed, written as files for a reader, and run on a device.

use super::corpus::mutant;
use super::edit::difference;
use super::fate::{Fate, fate};
use crate::kernels::problem::Problem;
use crate::part::Case;
use crate::runner::guarded;
use anyhow::{Context, Result};
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// A survivor as a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    /// The case that made it.
    pub case: u64,
    /// The seed of the case.
    pub seed: u64,
    /// The original: `file::name`.
    pub id: String,
    /// The class of the edit.
    pub class: String,
    /// The edit.
    pub what: String,
    /// What became of it.
    pub fate: String,
    /// The lines that differ.
    pub difference: Vec<String>,
    /// The original, line by line.
    pub original: Vec<String>,
    /// The mutant.
    pub mutant: Vec<String>,
    /// What it was run on: instances by number, with a problem each.
    pub runs: Vec<(usize, Problem)>,
}

/// Draws survivors by seed among the cases of a soak, and writes each to `<folder>/<case>.json`. Equal programs are none.
///
/// # Errors
/// A file cannot be written.
pub fn draw(count: usize, cases: u64, seed: u64, folder: &Path) -> Result<usize> {
    fs::create_dir_all(folder).with_context(|| format!("could not make {}", folder.display()))?;
    let mut numbers: Vec<u64> = (0..cases).collect();
    numbers.shuffle(&mut ChaCha8Rng::seed_from_u64(seed ^ 0x5eed));
    let mut drawn = 0;
    for chunk in numbers.chunks(32) {
        let found: Vec<Option<Survivor>> =
            chunk.par_iter().map(|number| survivor(Case { number: *number, seed })).collect();
        for survivor in found.into_iter().flatten().take(count - drawn) {
            let path = folder.join(format!("{}.json", survivor.case));
            fs::write(&path, format!("{}\n", serde_json::to_string_pretty(&survivor)?))
                .with_context(|| format!("could not write {}", path.display()))?;
            drawn += 1;
        }
        if drawn == count {
            break;
        }
    }
    Ok(drawn)
}

/// The mutant of a case, if it survives.
fn survivor(case: Case) -> Option<Survivor> {
    let mutant = mutant(case);
    let end = guarded(|| fate(&mutant)).ok()?.ok()?;
    if !matches!(end.fate, Fate::Different | Fate::Equal) {
        return None;
    }
    let (old, new) = (&mutant.original.source.text, mutant.text());
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let setups = mutant.original.setups().ok()?;
    let runs = setups.iter().flat_map(|s| s.problems.iter().map(|solved| (s.instance, solved.problem.clone())));
    Some(Survivor {
        case: case.number,
        seed: case.seed,
        id: mutant.original.source.id.clone(),
        class: mutant.edit.class.name().into(),
        what: mutant.edit.what.into(),
        fate: end.fate.name().into(),
        difference: lines(&difference(old, &new)),
        original: lines(old),
        mutant: lines(&new),
        runs: runs.collect(),
    })
}
