//! Mutants that nobody caught: drawn by seed, written as files for a reader, and run on a device.

use super::corpus::mutant;
use super::edit::difference;
use super::fate::{Fate, fate};
use crate::kernels::problem::Problem;
use crate::kernels::setup::setups_in;
use crate::kernels::source::{Library, Source, library, neighbours};
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
    /// The functions that it may use beside the repository's.
    #[serde(default)]
    pub functions: Vec<String>,
    /// What it was run on: instances by number, with a problem each.
    pub runs: Vec<(usize, Problem)>,
}

/// Cases that are tried together: many, since threads wait for the slowest of them before the next ones are begun.
const AT_ONCE: usize = 256;

/// Draws survivors by seed among the cases of a soak, and writes each to `<folder>/<case>.json`. Equal programs are none.
///
/// # Errors
/// A file cannot be written.
pub fn draw(count: usize, cases: u64, seed: u64, folder: &Path) -> Result<usize> {
    fs::create_dir_all(folder).with_context(|| format!("could not make {}", folder.display()))?;
    let mut numbers: Vec<u64> = (0..cases).collect();
    numbers.shuffle(&mut ChaCha8Rng::seed_from_u64(seed ^ 0x5eed));
    let mut drawn = 0;
    for chunk in numbers.chunks(AT_ONCE) {
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
        functions: vec![],
        runs: runs.collect(),
    })
}

/// Writes the repository's kernels and the neighbours of `tests/ui/valid`, unchanged, as files like those of [`draw`]; gives how
/// many, and of which nothing can be launched, with the reason.
///
/// # Errors
/// A file cannot be written.
pub fn clean(folder: &Path) -> Result<(usize, Vec<String>)> {
    fs::create_dir_all(folder).with_context(|| format!("could not make {}", folder.display()))?;
    let libraries = || std::iter::once(library()).chain(neighbours());
    let kernels: Vec<(&Library, &Source)> = libraries().flat_map(|l| l.kernels.iter().map(move |k| (l, k))).collect();
    let made = kernels.par_iter().enumerate().map(|(number, (library, source))| {
        let file = match guarded(|| unchanged(library, source, number as u64)) {
            Ok(Ok(file)) => file,
            Ok(Err(reason)) | Err(reason) => return Ok(Some(format!("{}: {reason}", source.id))),
        };
        let path = folder.join(format!("{number}.json"));
        fs::write(&path, format!("{}\n", serde_json::to_string_pretty(&file)?))
            .with_context(|| format!("could not write {}", path.display()))?;
        Ok(None)
    });
    let made = made.collect::<Result<Vec<Option<String>>>>()?;
    let refused: Vec<String> = made.into_iter().flatten().collect();
    Ok((kernels.len() - refused.len(), refused))
}

/// A kernel as a file, unchanged.
///
/// # Errors
/// Nothing of it can be launched.
pub fn unchanged(library: &Library, source: &Source, case: u64) -> std::result::Result<Survivor, String> {
    let setups = setups_in(library, source)?;
    let lines: Vec<String> = source.text.lines().map(str::to_owned).collect();
    let runs = setups.iter().flat_map(|s| s.problems.iter().map(|solved| (s.instance, solved.problem.clone())));
    Ok(Survivor {
        case,
        seed: 0,
        id: source.id.clone(),
        class: "clean".into(),
        what: "nothing".into(),
        fate: Fate::Equal.name().into(),
        difference: vec![],
        original: lines.clone(),
        mutant: lines,
        functions: library.functions(&source.id),
        runs: runs.collect(),
    })
}
