//! The parameters of a model of kernels' times, from what was measured.
//!
//! The fit changes some or all parameters a little at random and keeps what is better, by larger steps while it succeeds and smaller ones while
//! it does not: an evolution strategy of one parent and one child. It is slow and simple, and needs no derivative of a model with minima
//! in it.

use super::gemv_sweep::{Found, mean_and_worst};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::StandardNormal;
use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use tile_kernels::{gemm, gemv};

/// A model: parameters that give the time of a launch.
pub trait Model: Sized {
    /// A launch as the model sees it.
    type Work: Copy;

    /// us that a launch is expected to take.
    fn us(&self, work: &Self::Work) -> f64;

    /// The parameters in one row.
    fn to_row(&self) -> Vec<f64>;

    /// The parameters of a row, within what can be meant; none where the row has another length.
    fn from_row(row: &[f64]) -> Option<Self>;

    /// How much the parameter at a place of the row is held where it began.
    fn held(_place: usize) -> f64 {
        PRIOR
    }
}

impl Model for gemv::model::Parameters {
    type Work = gemv::model::Work;

    fn us(&self, work: &Self::Work) -> f64 {
        work.us(self)
    }

    fn to_row(&self) -> Vec<f64> {
        self.to_array().to_vec()
    }

    fn from_row(row: &[f64]) -> Option<Self> {
        let found = Self::from_array(row.try_into().ok()?);
        Some(Self {
            memory: found.memory.clamp(4.4e6, 4.8e6),
            power: found.power.clamp(1.0, 8.0),
            tail: found.tail.clamp(0.0, 1.0),
            issue: found.issue.clamp(0.3, 2.0),
            transfer: found.transfer.clamp(0.2, 4.0),
            ..found
        })
    }
}

impl Model for gemm::model::Parameters {
    type Work = gemm::model::Work;

    fn us(&self, work: &Self::Work) -> f64 {
        work.us(self)
    }

    fn to_row(&self) -> Vec<f64> {
        self.to_array().to_vec()
    }

    fn from_row(row: &[f64]) -> Option<Self> {
        Some(Self::from_array(row.try_into().ok()?))
    }

    /// The pace of an instance more than what all have in common.
    fn held(place: usize) -> f64 {
        if place < Self::COUNT - 2 * gemm::model::INSTANCES { PRIOR / 20.0 } else { 1.5 * PRIOR }
    }
}

/// A shape with its candidates.
pub struct Row<W> {
    /// The shape in words.
    pub title: String,
    entries: Vec<Entry<W>>,
    best_us: f64,
    weight: f64,
}

struct Entry<W> {
    name: String,
    work: W,
    us: f64,
}

impl Row<gemv::model::Work> {
    /// What a sweep of the GEMV found, with the work of each candidate; none where nothing was measured.
    pub fn of(found: &Found) -> Option<Self> {
        let problem = found.shape()?.problem();
        let works = gemv::candidates(problem).map(|c| (c.choice.to_string(), c.work)).collect();
        let measured = found.candidates.iter().map(|measured| (measured.name.clone(), measured.us));
        Row::new(format!("{} x {} {}", found.n, found.k, found.dtype), &works, measured)
    }
}

impl<W: Copy> Row<W> {
    /// A shape with what was measured of its candidates, by name; none where nothing was.
    pub fn new(
        title: String,
        works: &BTreeMap<String, W>,
        measured: impl Iterator<Item = (String, f64)>,
    ) -> Option<Self> {
        let measured: Vec<(String, f64)> = measured.filter(|(_, us)| *us > 0.0 && us.is_finite()).collect();
        // Of what was measured once and is no candidate any more, the best remains the measure.
        let best_us = measured.iter().map(|(_, us)| *us).reduce(f64::min)?;
        let entries = measured.into_iter().filter_map(|(name, us)| Some(Entry { work: *works.get(&name)?, name, us }));
        let entries: Vec<Entry<W>> = entries.collect();
        (!entries.is_empty()).then_some(Row { title, entries, best_us, weight: 1.0 })
    }

    /// The row, counting so many times in a fit.
    #[must_use]
    pub fn weighing(self, weight: f64) -> Self {
        Row { weight, ..self }
    }

    /// The us of the candidate that the parameters choose over those of another one; none where that was not measured.
    pub fn beside(&self, parameters: &impl Model<Work = W>, name: &str) -> Option<f64> {
        let other = self.entries.iter().find(|entry| entry.name == name)?;
        Some(self.chosen(parameters)?.us / other.us)
    }

    /// The candidate that the parameters choose.
    fn chosen(&self, parameters: &impl Model<Work = W>) -> Option<&Entry<W>> {
        let timed = self.entries.iter().map(|entry| (parameters.us(&entry.work), entry));
        timed.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, entry)| entry)
    }

    /// How many times the best candidate's time the chosen one takes.
    pub fn regret(&self, parameters: &impl Model<Work = W>) -> f64 {
        self.chosen(parameters).map_or(f64::NAN, |entry| entry.us / self.best_us)
    }
}

/// How much an entry counts in a fit: a good candidate's time more than that of one that nobody would choose; each shape as much as another.
fn weights<W: Copy>(row: &Row<W>) -> Vec<f64> {
    let weights: Vec<f64> = row.entries.iter().map(|entry| (row.best_us / entry.us).powi(4)).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// What the fit makes small: squared logarithms of predicted over measured times, the logarithm of the regret, and a little of how far the
/// parameters went from where they began. A candidate that is expected to take nearly as long as the chosen one is taken for chosen in
/// part, since another measurement would choose it.
fn cost<M: Model>(rows: &[&Row<M::Work>], parameters: &M, began: &[f64]) -> f64 {
    let of_row = |row: &&Row<M::Work>| {
        let logs: Vec<f64> = row.entries.iter().map(|entry| parameters.us(&entry.work).ln()).collect();
        let least = logs.iter().copied().fold(f64::INFINITY, f64::min);
        let (mut sum, mut regrets, mut chances) = (0.0, 0.0, 0.0);
        for ((entry, log), weight) in row.entries.iter().zip(logs).zip(weights(row)) {
            let off = log - entry.us.ln();
            sum += weight * if off.is_finite() { off * off } else { 1e3 };
            let chance = (-(log - least) / NEARLY).exp();
            let regret = (entry.us / row.best_us).ln();
            if chance.is_finite() {
                regrets += chance * (regret + 4.0 * regret * regret);
                chances += chance;
            }
        }
        sum + REGRET * if chances > 0.0 { regrets / chances } else { 1e3 }
    };
    let moved = parameters.to_row().into_iter().zip(began).map(|(now, began)| (now / began).ln()).enumerate();
    let moved: f64 = moved.map(|(place, by)| if by.is_finite() { M::held(place) * by * by } else { 0.0 }).sum();
    let weights: f64 = rows.iter().map(|row| row.weight).sum();
    rows.iter().map(|row| row.weight * of_row(row)).sum::<f64>() / weights.max(1.0) + moved
}

/// How much a parameter is held where it began, mostly.
const PRIOR: f64 = 2e-4;

/// How much the regret weighs beside the squares, and by how much of the time candidates may differ that are taken for alike.
const REGRET: f64 = 0.3;
const NEARLY: f64 = 0.02;

/// The parameters after `steps` trials, from `start`.
pub fn fit<M: Model>(rows: &[&Row<M::Work>], start: M, steps: usize, seed: u64) -> M {
    let mut rng = StdRng::seed_from_u64(seed);
    let (began, mut best, mut size) = (start.to_row(), start, 0.1f64);
    let mut least = cost(rows, &best, &began);
    for _ in 0..steps {
        let mut row = best.to_row();
        // All, a few, or one or two at a time.
        let share = [1.0, 0.2, 0.08][rng.random_range(0..3usize)];
        for value in &mut row {
            let by: f64 = rng.sample(StandardNormal);
            if rng.random_bool(share) {
                *value *= (size * by).exp();
            }
        }
        let Some(child) = M::from_row(&row) else { return best };
        let found = cost(rows, &child, &began);
        if found < least {
            (best, least) = (child, found);
            size = (size * 1.5).min(0.4);
        } else {
            size = (size * 0.97).max(3e-3);
        }
    }
    best
}

/// The regret of a choice by these parameters, and how far the model is from what was measured, by kernel.
pub fn report<M: Model>(rows: &[&Row<M::Work>], parameters: &M) -> String {
    let mut text = String::new();
    let regrets = rows.iter().map(|row| row.regret(parameters));
    if let Some((mean, worst)) = mean_and_worst(regrets) {
        writeln!(text, "regret: {:.2}% in geometric mean, {:.1}% at most", percent(mean), percent(worst)).ok();
    }
    let mut by_kernel: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for entry in rows.iter().flat_map(|row| &row.entries) {
        let kernel = entry.name.split(' ').next().unwrap_or("");
        by_kernel.entry(kernel).or_default().push((parameters.us(&entry.work) / entry.us).ln());
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
    let mut worst: Vec<&&Row<M::Work>> = rows.iter().collect();
    worst.sort_by(|a, b| b.regret(parameters).total_cmp(&a.regret(parameters)));
    for row in worst.into_iter().take(12).filter(|row| row.regret(parameters) > 1.005) {
        let Some(chosen) = row.chosen(parameters) else { continue };
        let Some(best) = row.entries.iter().find(|entry| entry.us == row.best_us) else { continue };
        let us =
            |entry: &Entry<M::Work>| format!("{} {:.2} us ({:.2})", entry.name, entry.us, parameters.us(&entry.work));
        let by = percent(row.regret(parameters));
        writeln!(text, "{:<22} {by:>5.1}% slower: {}; best: {}", row.title, us(chosen), us(best)).ok();
    }
    text
}

/// Fits all shapes from `start`; and, to see whether the parameters serve others too, half of them, for the other half. In words, with the
/// parameters, and beside the parameters as they are, `now`.
pub fn fitted<M: Model + Copy + Debug>(rows: &[Row<M::Work>], now: M, start: M, steps: usize, seed: u64) -> String {
    let all: Vec<&Row<M::Work>> = rows.iter().collect();
    let mut text = format!("{} shapes; with the parameters as they are:\n{}\n", all.len(), report(&all, &now));
    let half = |odd: usize| rows.iter().enumerate().filter(move |(i, _)| i % 2 == odd).map(|(_, row)| row);
    for odd in [0, 1] {
        let found = fit(&half(odd).collect::<Vec<_>>(), start, steps, seed);
        let others: Vec<&Row<M::Work>> = half(1 - odd).collect();
        let on_others = report(&others, &found);
        writeln!(text, "fitted to one half, on the other: {}", on_others.lines().next().unwrap_or("")).ok();
    }
    let found = fit(&all, start, steps, seed);
    writeln!(text, "\nfitted to all:\n{}\n{found:#?}", report(&all, &found)).ok();
    text
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::super::gemv_sweep::{Measured, shapes};
    use super::*;
    use tile_kernels::gemv::candidates;
    use tile_kernels::gemv::model::Parameters;

    /// Times that the model itself made, with other parameters, are found again nearly.
    #[test]
    fn a_fit_comes_near_times_of_the_model() {
        let truth = Parameters { memory: 4.2e6, latency: 1.1, fixed: [1.2, 2.6, 1.0, 1.3], ..Parameters::H200 };
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
        let rows: Vec<Row<_>> = found.iter().filter_map(Row::of).collect();
        let rows: Vec<&Row<_>> = rows.iter().collect();
        let began = Parameters::H200.to_array();
        let before = cost(&rows, &Parameters::H200, &began);
        let fitted = fit(&rows, Parameters::H200, 1500, 1);
        let after = cost(&rows, &fitted, &began);
        assert!(after < 0.2 * before, "{after} of {before}");
        assert!(report(&rows, &fitted).contains("regret"));
    }
}
