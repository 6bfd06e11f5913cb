//! The parameters of a model of kernels' times, from what was measured.
//!
//! The fit is gradient descent with momentum (Adam) on the logarithms of the parameters. Derivatives are taken by differences: the time of
//! a launch depends on what all launches have in common and on a few parameters of its own, so that a model of two hundred parameters costs
//! no more than one of forty.

use super::gemv_sweep::{Found, mean_and_worst};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use tile_kernels::{gemm, gemv};

/// What expects a time of each launch.
pub trait Expected: Sync {
    /// A launch as the model sees it.
    type Work: Copy + Sync;

    /// us that a launch is expected to take.
    fn us(&self, work: &Self::Work) -> f64;

    /// What launches are chosen by: the least of it is taken.
    fn compared(&self, work: &Self::Work) -> f64 {
        self.us(work)
    }
}

/// A model whose parameters a fit finds.
pub trait Model: Expected + Sized {
    /// The parameters in one row. All are positive.
    fn to_row(&self) -> Vec<f64>;

    /// The parameters of a row, within what can be meant; none where the row has another length.
    fn from_row(row: &[f64]) -> Option<Self>;

    /// Places in the row of the parameters that the time of a launch depends on.
    fn places(&self, work: &Self::Work) -> Vec<usize> {
        let _ = work;
        (0..self.to_row().len()).collect()
    }

    /// What the parameter at a place of the row is held near, if not where it began, and how near: the standard deviation of its logarithm
    /// before anything is measured.
    fn held(_place: usize) -> (Option<f64>, f64) {
        (None, WIDE)
    }
}

/// The standard deviation of a parameter's logarithm that measurements alone decide.
const WIDE: f64 = 0.7;

impl Expected for gemv::model::Parameters {
    type Work = gemv::model::Work;

    fn us(&self, work: &Self::Work) -> f64 {
        work.us(self)
    }
}

impl Model for gemv::model::Parameters {
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

/// What a call expects: the model of the machine and what was learned of its errors.
impl Expected for gemm::policy::Policy {
    type Work = gemm::model::Work;

    fn us(&self, work: &Self::Work) -> f64 {
        gemm::policy::Policy::us(*self, work)
    }

    fn compared(&self, work: &Self::Work) -> f64 {
        work.compared(self.us(work))
    }
}

impl Expected for gemm::model::Parameters {
    type Work = gemm::model::Work;

    fn us(&self, work: &Self::Work) -> f64 {
        work.us(self)
    }

    fn compared(&self, work: &Self::Work) -> f64 {
        work.compared(self.us(work))
    }
}

impl Model for gemm::model::Parameters {
    fn to_row(&self) -> Vec<f64> {
        self.to_array().to_vec()
    }

    fn from_row(row: &[f64]) -> Option<Self> {
        Some(Self::from_array(row.try_into().ok()?))
    }

    fn places(&self, work: &Self::Work) -> Vec<usize> {
        let own = work.instance.map(|at| [gemm::model::COMMON + at, gemm::model::COMMON + gemm::model::INSTANCES + at]);
        (0..gemm::model::COMMON).chain(own.into_iter().flatten()).collect()
    }

    /// What all instances have in common stays near what earlier measurements, of other instances, gave. What an instance has of its own is
    /// held near 1: one that was measured on few shapes is no faster than others for it.
    fn held(place: usize) -> (Option<f64>, f64) {
        if place < gemm::model::COMMON { (None, 0.08) } else { (Some(1.0), 0.07) }
    }
}

/// A shape with its candidates.
pub struct Row<W> {
    /// The shape in words.
    pub title: String,
    entries: Vec<Entry<W>>,
    /// Candidates that were not timed, since they were far behind or came later.
    untimed: Vec<W>,
    best_us: f64,
    weight: f64,
    /// us of a choice that the fit's is not to fall behind.
    at_most: Option<f64>,
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
        Row::new(format!("{} {}x{}", found.dtype, found.n, found.k), works, measured)
    }
}

impl Row<gemm::model::Work> {
    /// A line for each candidate that was timed: the shape, the us of the best one, its own, those that the model of the machine expects, and what trees
    /// ask ([`gemm::residual::FEATURES`]).
    pub fn table(&self, parameters: &gemm::model::Parameters) -> String {
        let mut text = String::new();
        for Entry { work, us, .. } in &self.entries {
            let expected = work.us(parameters);
            let features = gemm::residual::features(work, expected).map(|value| value.to_string()).join("\t");
            writeln!(text, "{}\t{}\t{us}\t{expected}\t{features}", self.title, self.best_us).ok();
        }
        text
    }
}

impl<W: Copy> Row<W> {
    /// A shape, which the last word of the title names, with what was measured of its candidates, by name; none where nothing was.
    pub fn new(
        title: String,
        mut works: BTreeMap<String, W>,
        measured: impl Iterator<Item = (String, f64)>,
    ) -> Option<Self> {
        let measured: Vec<(String, f64)> = measured.filter(|(_, us)| *us > 0.0 && us.is_finite()).collect();
        // Of what was measured once and is no candidate any more, the best remains the measure.
        let best_us = measured.iter().map(|(_, us)| *us).reduce(f64::min)?;
        let entries =
            measured.into_iter().filter_map(|(name, us)| Some(Entry { work: works.remove(&name)?, name, us }));
        let entries: Vec<Entry<W>> = entries.collect();
        let untimed = works.into_values().collect();
        (!entries.is_empty()).then_some(Row { title, entries, untimed, best_us, weight: 1.0, at_most: None })
    }

    /// The row, counting so many times as often in a fit.
    #[must_use]
    pub fn weighing(self, weight: f64) -> Self {
        Row { weight: self.weight * weight, ..self }
    }

    /// The row, on which a fit is to choose nothing slower than the candidate of a name, if that was measured.
    #[must_use]
    pub fn at_most(self, name: &str) -> Self {
        let at_most = self.entries.iter().find(|entry| entry.name == name).map(|entry| entry.us);
        Row { at_most, ..self }
    }

    /// The us of the candidate that the parameters choose over those of another one; none where that was not measured.
    pub fn beside(&self, parameters: &impl Expected<Work = W>, name: &str) -> Option<f64> {
        let other = self.entries.iter().find(|entry| entry.name == name)?;
        Some(self.chosen(parameters)?.us / other.us)
    }

    /// The candidate that the parameters choose, of those that were timed.
    fn chosen(&self, parameters: &impl Expected<Work = W>) -> Option<&Entry<W>> {
        let timed = self.entries.iter().map(|entry| (parameters.compared(&entry.work), entry));
        timed.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, entry)| entry)
    }

    /// How many times the best candidate's time the chosen one takes.
    pub fn regret(&self, parameters: &impl Expected<Work = W>) -> f64 {
        self.chosen(parameters).map_or(f64::NAN, |entry| entry.us / self.best_us)
    }

    /// Whether the parameters choose a candidate that was not timed.
    pub fn is_untimed(&self, parameters: &impl Expected<Work = W>) -> bool {
        let least =
            |works: &mut dyn Iterator<Item = &W>| works.map(|work| parameters.compared(work)).fold(f64::NAN, f64::min);
        least(&mut self.untimed.iter()) < least(&mut self.entries.iter().map(|entry| &entry.work))
    }

    /// The shape alone.
    fn shape(&self) -> &str {
        self.title.rsplit(' ').next().unwrap_or(&self.title)
    }
}

/// A candidate as a fit sees it.
struct Candidate<W> {
    work: W,
    /// The logarithm of the measured us; none of what was not timed.
    log_us: Option<f64>,
    /// How much it counts that the model is right about it, beside the others of its shape.
    weight: f64,
    /// What it costs to choose it.
    loss: f64,
    /// See [`Model::places`].
    places: Vec<usize>,
}

/// The candidates of a shape for a fit: the time of a good one counts more than that of one that nobody would choose.
fn candidates<M: Model>(row: &Row<M::Work>, model: &M) -> Vec<Candidate<M::Work>> {
    let weight = |entry: &Entry<M::Work>| (row.best_us / entry.us).powi(4);
    let sum: f64 = row.entries.iter().map(weight).sum();
    let loss = |us: f64| {
        let behind = |us: f64, by: f64| us.ln() - by.ln();
        let regret = behind(us, row.best_us);
        // Two measurements of one kernel differ by 0.4%.
        let worse = row.at_most.map_or(0.0, |most| (behind(us, most) - 0.004).max(0.0));
        REGRET * (regret + 5.0 * regret * regret) + WORSE * (worse + 10.0 * worse * worse)
    };
    let timed = row.entries.iter().map(|entry| Candidate {
        work: entry.work,
        log_us: Some(entry.us.ln()),
        weight: row.weight * weight(entry) / sum,
        loss: loss(entry.us),
        places: model.places(&entry.work),
    });
    let untimed = row.untimed.iter().map(|work| Candidate {
        work: *work,
        log_us: None,
        weight: 0.0,
        loss: loss(row.best_us * UNTIMED),
        places: model.places(work),
    });
    timed.chain(untimed).collect()
}

/// The part by which the expected times of a good model differ from measured ones.
const OFF: f64 = 0.06;
/// What the logarithm of the regret weighs, beside squares of `OFF`.
const REGRET: f64 = 80.0;
/// What falling behind [`Row::at_most`] weighs.
const WORSE: f64 = 200.0;
/// How many times as long as the best candidate one is taken to run that was not timed.
const UNTIMED: f64 = 1.35;

/// By how much of the time candidates may differ in the end that are taken for alike: another measurement would choose the other one.
const NEARLY: f64 = 0.015;

/// What the fit makes small for one shape, and its derivative by the logarithm of each candidate's expected time: how far the expected times
/// are from the measured ones, and what the choice loses. A candidate that is expected to take nearly as long as the chosen one is taken
/// for chosen in part.
fn of_shape<W>(candidates: &[Candidate<W>], weight: f64, logs: &[f64], nearly: f64) -> (f64, Vec<f64>) {
    let least = logs.iter().copied().fold(f64::INFINITY, f64::min);
    let chances: Vec<f64> = logs.iter().map(|log| (-(log - least) / nearly).exp()).collect();
    let all: f64 = chances.iter().sum();
    let lost = candidates.iter().zip(&chances).map(|(c, chance)| chance * c.loss).sum::<f64>() / all;
    let mut cost = weight * lost;
    let slopes = candidates.iter().zip(logs).zip(&chances).map(|((candidate, log), chance)| {
        let off = candidate.log_us.map_or(0.0, |us| log - us);
        // Far away it counts by its size, not by its square.
        let (square, slope) = if off.abs() < FAR {
            (off * off, 2.0 * off)
        } else {
            (FAR * (2.0 * off.abs() - FAR), 2.0 * FAR * off.signum())
        };
        let scale = candidate.weight / (2.0 * OFF * OFF);
        cost += scale * square;
        scale * slope - weight * chance / all * (candidate.loss - lost) / nearly
    });
    let slopes = slopes.collect();
    (cost, slopes)
}

/// From which difference of logarithms on an expected time is far away.
const FAR: f64 = 0.3;

/// The part by which a parameter changes in the first steps of a fit.
const STEP: f64 = 0.01;

/// By which part of itself a parameter is changed for a derivative.
const DIFFERENCE: f64 = 1e-4;

/// What a fit of the parameters' logarithms makes small, and its derivative.
struct Cost<M: Model> {
    shapes: Vec<(f64, Vec<Candidate<M::Work>>)>,
    /// What each logarithm is held near, and its standard deviation.
    held: Vec<(f64, f64)>,
}

impl<M: Model> Cost<M> {
    fn new(rows: &[&Row<M::Work>], start: &M) -> Cost<M>
    where
        M::Work: Send,
    {
        let shapes = rows.iter().map(|row| (row.weight, candidates(row, start))).collect();
        let held = start.to_row().into_iter().enumerate().map(|(place, began)| {
            let (near, within) = M::held(place);
            (near.unwrap_or(began).ln(), within)
        });
        Cost { shapes, held: held.collect() }
    }

    /// The cost; and the derivatives by the logarithms, from differences to one side.
    fn at(&self, logs: &[f64], nearly: f64, difference: f64) -> Option<(f64, Vec<f64>)> {
        let row: Vec<f64> = logs.iter().map(|log| log.exp()).collect();
        let here = M::from_row(&row)?;
        let mut beside = vec![];
        for place in 0..row.len() {
            let mut row = row.clone();
            row[place] *= difference.exp();
            beside.push(M::from_row(&row)?);
        }
        let of_one = |(weight, candidates): &(f64, Vec<Candidate<M::Work>>)| {
            let times: Vec<f64> = candidates.iter().map(|candidate| here.us(&candidate.work).ln()).collect();
            let (cost, slopes) = of_shape(candidates, *weight, &times, nearly);
            let mut derivatives = vec![0.0; row.len()];
            for ((candidate, time), slope) in candidates.iter().zip(&times).zip(slopes) {
                if slope.abs() < SMALL {
                    continue;
                }
                for place in &candidate.places {
                    derivatives[*place] += slope * (beside[*place].us(&candidate.work).ln() - time) / difference;
                }
            }
            (cost, derivatives)
        };
        let nothing = || (0.0, vec![0.0; row.len()]);
        let sum = |(a, mut b): (f64, Vec<f64>), (c, d): (f64, Vec<f64>)| {
            b.iter_mut().zip(d).for_each(|(to, by)| *to += by);
            (a + c, b)
        };
        // In the order of the shapes, so that a fit gives the same numbers whatever the number of threads.
        let each: Vec<(f64, Vec<f64>)> = self.shapes.par_iter().map(of_one).collect();
        let (mut cost, mut derivatives) = each.into_iter().fold(nothing(), sum);
        for (((near, within), log), derivative) in self.held.iter().zip(logs).zip(&mut derivatives) {
            let off = (log - near) / within;
            cost += 0.5 * off * off;
            *derivative += off / within;
        }
        Some((cost, derivatives))
    }
}

/// Derivatives of a shape's cost by a time that are taken for none.
const SMALL: f64 = 1e-5;

/// The parameters after `steps` steps from `start`.
pub fn fit<M: Model>(rows: &[&Row<M::Work>], start: M, steps: usize) -> M
where
    M::Work: Send,
{
    let cost = Cost::new(rows, &start);
    let mut logs: Vec<f64> = start.to_row().iter().map(|value| value.ln()).collect();
    let (mut speed, mut size) = (vec![0.0; logs.len()], vec![0.0; logs.len()]);
    let mut found = start;
    for step in 0..steps {
        let part = step as f64 / steps as f64;
        let nearly = NEARLY * (1.0 + 2.0 * (1.0 - 2.0 * part).max(0.0));
        // To both sides in turn: a parameter at the end of what can be meant has a derivative to one of them.
        let side = if step % 2 == 0 { DIFFERENCE } else { -DIFFERENCE };
        let Some((_, derivatives)) = cost.at(&logs, nearly, side) else { return found };
        let [of_speed, of_size] = [0.9f64, 0.99].map(|kept| 1.0 - kept.powi(step as i32 + 1));
        let by = STEP * 0.5 * (1.0 + (std::f64::consts::PI * part).cos());
        for (((log, speed), size), slope) in logs.iter_mut().zip(&mut speed).zip(&mut size).zip(derivatives) {
            *speed += 0.1 * (slope - *speed);
            *size += 0.01 * (slope * slope - *size);
            *log -= by * (*speed / of_speed) / ((*size / of_size).sqrt() + 1e-9);
        }
        let row: Vec<f64> = logs.iter().map(|log| log.exp()).collect();
        let Some(next) = M::from_row(&row) else { return found };
        logs = next.to_row().iter().map(|value| value.ln()).collect();
        found = next;
    }
    found
}

/// The parameters with so many digits as are written down.
fn rounded<M: Model>(parameters: M) -> M {
    let round = |value: f64| format!("{value:.3e}").parse().unwrap_or(value);
    M::from_row(&parameters.to_row().into_iter().map(round).collect::<Vec<_>>()).unwrap_or(parameters)
}

/// The regret of a choice by these parameters, and how far the model is from what was measured, by kernel.
pub fn report<M: Expected>(rows: &[&Row<M::Work>], parameters: &M) -> String {
    let mut text = String::new();
    let regrets = rows.iter().map(|row| row.regret(parameters));
    if let Some((mean, worst)) = mean_and_worst(regrets) {
        let untimed = rows.iter().filter(|row| row.is_untimed(parameters)).count();
        let (mean, worst) = (percent(mean), percent(worst));
        writeln!(
            text,
            "regret: {mean:.2}% in geometric mean, {worst:.1}% at most; {untimed} choices that were not timed"
        )
        .ok();
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

/// Shapes are in so many parts, of which each is left out of a fit once.
const PARTS: usize = 5;

/// The part that a shape is in: one shape's layouts are in the same.
fn part<W: Copy>(row: &Row<W>) -> usize {
    let hash = row.shape().bytes().fold(0u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619));
    (hash >> 8) as usize % PARTS
}

/// Fits all shapes from `start`; and, to see whether the parameters serve others too, all but a fifth of them, for that fifth. In words, with
/// the parameters, and beside the parameters as they are, `now`. Of no steps, only that is told.
pub fn fitted<M: Model + Copy + Debug>(rows: &[Row<M::Work>], now: M, start: M, steps: usize) -> String
where
    M::Work: Send,
{
    let all: Vec<&Row<M::Work>> = rows.iter().collect();
    let mut text = format!("{} shapes; with the parameters as they are:\n{}\n", all.len(), report(&all, &now));
    if steps == 0 {
        return text;
    }
    let mut others = vec![];
    for left_out in 0..PARTS {
        let (these, those): (Vec<_>, Vec<_>) = rows.iter().partition(|row| part(row) == left_out);
        let found = fit(&those, start, steps);
        others.extend(these.iter().filter(|row| row.weight >= 1.0).map(|row| row.regret(&found)));
    }
    if let Some((mean, worst)) = mean_and_worst(others.into_iter()) {
        let (mean, worst) = (percent(mean), percent(worst));
        writeln!(text, "fitted to four fifths, on the fifth: regret {mean:.2}% in geometric mean, {worst:.1}% at most")
            .ok();
    }
    let found = rounded(fit(&all, start, steps));
    writeln!(text, "\nfitted to all:\n{}\n{found:?}", report(&all, &found)).ok();
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
        let cost = Cost::new(&rows, &Parameters::H200);
        let of = |parameters: &Parameters| {
            let logs: Vec<f64> = parameters.to_row().iter().map(|value| value.ln()).collect();
            cost.at(&logs, NEARLY, DIFFERENCE).unwrap().0
        };
        let fitted = fit(&rows, Parameters::H200, 200);
        let (before, after) = (of(&Parameters::H200), of(&fitted));
        assert!(after < 0.2 * before, "{after} of {before}");
        assert!(report(&rows, &fitted).contains("regret"));
    }
}
