//! The parameters of GEMV's model, from what a sweep measured.
//!
//! The fit changes all parameters a little at random and keeps what is better, by larger steps while it succeeds and smaller ones while it
//! does not: an evolution strategy of one parent and one child. It is slow and simple, and needs no derivative of a model with minima in
//! it.

use super::gemv_sweep::{Found, mean_and_worst};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::StandardNormal;
use std::collections::BTreeMap;
use std::fmt::Write;
use tile_kernels::gemv::candidates;
use tile_kernels::gemv::model::{Parameters, Work};

/// A shape with its candidates.
pub struct Row {
    /// The shape in words.
    pub title: String,
    entries: Vec<Entry>,
    best_us: f64,
}

struct Entry {
    name: String,
    work: Work,
    us: f64,
}

impl Row {
    /// What was found, with the work of each candidate; none where nothing was measured.
    pub fn of(found: &Found) -> Option<Row> {
        let problem = found.shape()?.problem();
        let works: BTreeMap<String, Work> = candidates(problem).map(|c| (c.choice.to_string(), c.work)).collect();
        let entries = found.candidates.iter().filter_map(|measured| {
            let work = *works.get(&measured.name)?;
            Some(Entry { name: measured.name.clone(), work, us: measured.us })
        });
        let entries: Vec<Entry> = entries.filter(|entry| entry.us > 0.0 && entry.us.is_finite()).collect();
        let best_us = entries.iter().map(|entry| entry.us).reduce(f64::min)?;
        Some(Row { title: format!("{} x {} {}", found.n, found.k, found.dtype), entries, best_us })
    }

    /// The candidate that the parameters choose.
    fn chosen(&self, parameters: &Parameters) -> Option<&Entry> {
        let timed = self.entries.iter().map(|entry| (entry.work.us(parameters), entry));
        timed.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, entry)| entry)
    }

    /// How many times the best candidate's time the chosen one takes.
    pub fn regret(&self, parameters: &Parameters) -> f64 {
        self.chosen(parameters).map_or(f64::NAN, |entry| entry.us / self.best_us)
    }
}

/// What the fit makes small: squared logarithms of predicted over measured times, those of good candidates weighing more, and the logarithm
/// of the regret.
fn cost(rows: &[&Row], parameters: &Parameters) -> f64 {
    let of_row = |row: &&Row| {
        let (mut sum, mut weights) = (0.0, 0.0);
        for entry in &row.entries {
            let weight = (row.best_us / entry.us).powi(4);
            let off = (entry.work.us(parameters) / entry.us).ln();
            sum += weight * if off.is_finite() { off * off } else { 1e3 };
            weights += weight;
        }
        let regret = row.regret(parameters).ln();
        sum / weights + REGRET * (regret + 4.0 * regret * regret)
    };
    rows.iter().map(of_row).sum::<f64>() / rows.len().max(1) as f64
}

/// How much the regret weighs beside the squares.
const REGRET: f64 = 0.1;

/// The parameters after `steps` trials, from `start`.
pub fn fit(rows: &[&Row], start: Parameters, steps: usize, seed: u64) -> Parameters {
    let mut rng = StdRng::seed_from_u64(seed);
    let (mut best, mut size) = (start, 0.1f64);
    let mut least = cost(rows, &best);
    for _ in 0..steps {
        let mut row = best.to_array();
        // Few at a time, as often as all.
        let share = if rng.random_bool(0.5) { 0.2 } else { 1.0 };
        for value in &mut row {
            let by: f64 = rng.sample(StandardNormal);
            if rng.random_bool(share) {
                *value *= (size * by).exp();
            }
        }
        let child = bounded(Parameters::from_array(row));
        let found = cost(rows, &child);
        if found < least {
            (best, least) = (child, found);
            size = (size * 1.5).min(0.3);
        } else {
            size = (size * 0.97).max(2e-3);
        }
    }
    best
}

/// Within what can be meant.
fn bounded(parameters: Parameters) -> Parameters {
    Parameters {
        memory: parameters.memory.clamp(3e6, 4.8e6),
        power: parameters.power.clamp(1.0, 12.0),
        tail: parameters.tail.clamp(0.0, 1.0),
        ..parameters
    }
}

/// The regret of a choice by these parameters, and how far the model is from what was measured, by kernel.
pub fn report(rows: &[&Row], parameters: &Parameters) -> String {
    let mut text = String::new();
    let regrets = rows.iter().map(|row| row.regret(parameters));
    if let Some((mean, worst)) = mean_and_worst(regrets) {
        writeln!(text, "regret: {:.2}% in geometric mean, {:.1}% at most", percent(mean), percent(worst)).ok();
    }
    let mut by_kernel: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for entry in rows.iter().flat_map(|row| &row.entries) {
        let kernel = entry.name.split(' ').next().unwrap_or("");
        by_kernel.entry(kernel).or_default().push((entry.work.us(parameters) / entry.us).ln());
    }
    for (kernel, offs) in by_kernel {
        let count = offs.len() as f64;
        let mean = offs.iter().sum::<f64>() / count;
        let square = (offs.iter().map(|off| off * off).sum::<f64>() / count).sqrt();
        let most = offs.iter().map(|off| off.abs()).fold(0.0, f64::max);
        writeln!(
            text,
            "{kernel:<18} {count:>5} measured; predicted over measured: {:+.1}% in mean, {:.1}% rms, {:.1}% at most",
            percent(mean.exp()),
            percent(square.exp()),
            percent(most.exp())
        )
        .ok();
    }
    let mut worst: Vec<&&Row> = rows.iter().collect();
    worst.sort_by(|a, b| b.regret(parameters).total_cmp(&a.regret(parameters)));
    for row in worst.into_iter().take(12).filter(|row| row.regret(parameters) > 1.005) {
        let Some(chosen) = row.chosen(parameters) else { continue };
        let Some(best) = row.entries.iter().find(|entry| entry.us == row.best_us) else { continue };
        let us = |entry: &Entry| format!("{} {:.2} us ({:.2})", entry.name, entry.us, entry.work.us(parameters));
        let by = percent(row.regret(parameters));
        writeln!(text, "{:<22} {by:>5.1}% slower: {}; best: {}", row.title, us(chosen), us(best)).ok();
    }
    text
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::super::gemv_sweep::{Measured, shapes};
    use super::*;

    /// Times that the model itself made, with other parameters, are found again nearly.
    #[test]
    fn a_fit_comes_near_times_of_the_model() {
        let truth = Parameters { memory: 4.2e6, latency: 1.1, fixed: [2.0, 2.6, 1.6], ..Parameters::H200 };
        let found: Vec<Found> = shapes(30, 3)
            .into_iter()
            .map(|shape| Found {
                n: shape.n,
                k: shape.k,
                dtype: shape.dtype.name().into(),
                call_us: None,
                chosen: String::new(),
                cublas_us: None,
                candidates: candidates(shape.problem())
                    .map(|c| Measured { name: c.choice.to_string(), predicted_us: 0.0, us: c.work.us(&truth) })
                    .collect(),
                refused: Vec::new(),
            })
            .collect();
        let rows: Vec<Row> = found.iter().filter_map(Row::of).collect();
        let rows: Vec<&Row> = rows.iter().collect();
        let before = cost(&rows, &Parameters::H200);
        let fitted = fit(&rows, Parameters::H200, 1500, 1);
        assert!(cost(&rows, &fitted) < 0.2 * before, "{} of {before}", cost(&rows, &fitted));
        assert!(report(&rows, &fitted).contains("regret"));
    }
}
