//! What an earlier commit found at the launch or in the simulator, and this one finds while typing.

use super::corpus::mutant;
use super::fate::{Fate, typed};
use crate::part::Case;
use anyhow::{Context, Result, anyhow};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Of a class: mutants that the earlier commit found later than typing, and those that are found while typing now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Mutants that the earlier commit found at the launch.
    pub launch: u64,
    /// Mutants that the earlier commit found at the launch, found while typing now.
    pub launch_moved: u64,
    /// Mutants that the checked simulator found at the earlier commit.
    pub checked: u64,
    /// Mutants that the checked simulator found at the earlier commit, found while typing now.
    pub checked_moved: u64,
}

/// Reads an earlier run's log (`mutants.tsv`) and types what it found late. By class, with the cases that are not found while
/// typing. The mutants are the earlier ones only if `SOAK_SOURCES` names the earlier checkout.
///
/// # Errors
/// The log cannot be read.
pub fn compare(log: &Path, seed: u64) -> Result<(BTreeMap<&'static str, Moved>, Vec<u64>)> {
    let text = fs::read_to_string(log).with_context(|| format!("could not read {}", log.display()))?;
    let mut late = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split('\t');
        let number: u64 = fields.next().and_then(|n| n.parse().ok()).ok_or_else(|| anyhow!("no case: {line}"))?;
        match fields.nth(1) {
            Some(end) if end == Fate::Launch.name() => late.insert(number, true),
            Some(end) if end == Fate::Checked.name() => late.insert(number, false),
            _ => None,
        };
    }
    let late: Vec<(u64, bool)> = late.into_iter().collect();
    let is_found = |(number, _): &(u64, bool)| {
        let mutant = mutant(Case { number: *number, seed });
        typed(mutant.original.source, &mutant.text()).is_err()
    };
    let now: Vec<bool> = late.par_iter().map(is_found).collect();
    let (mut classes, mut left) = (BTreeMap::<&str, Moved>::new(), vec![]);
    for ((number, launch), now) in late.into_iter().zip(now) {
        let moved = classes.entry(mutant(Case { number, seed }).edit.class.name()).or_default();
        let (all, found) = match launch {
            true => (&mut moved.launch, &mut moved.launch_moved),
            false => (&mut moved.checked, &mut moved.checked_moved),
        };
        *all += 1;
        *found += u64::from(now);
        if !now {
            left.push(number);
        }
    }
    Ok((classes, left))
}

/// As a table.
pub fn table(classes: &BTreeMap<&'static str, Moved>) -> String {
    let mut text = String::from(
        "| class | launch then | of those typing now | checked then | of those typing now |\n|---|---|---|---|---|\n",
    );
    let mut all = Moved::default();
    let row = |name: &str, m: &Moved| {
        format!("| {name} | {} | {} | {} | {} |\n", m.launch, m.launch_moved, m.checked, m.checked_moved)
    };
    for (name, moved) in classes {
        text += &row(name, moved);
        all.launch += moved.launch;
        all.launch_moved += moved.launch_moved;
        all.checked += moved.checked;
        all.checked_moved += moved.checked_moved;
    }
    text + &row("**all**", &all)
}
