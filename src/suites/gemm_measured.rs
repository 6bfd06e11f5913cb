//! What `bench/random_shapes.py` measured of the bundled GEMM, for the fit of its model.

use super::fit::Row;
use serde::Deserialize;
use std::collections::BTreeMap;
use tile_kernels::gemm::Choice;
use tile_kernels::gemm::model::Work;

#[derive(Deserialize)]
struct Measured {
    rows: BTreeMap<String, Shape>,
}

/// A shape and the us of each choice, as `ours NAME`.
#[derive(Deserialize)]
struct Shape {
    layout: String,
    m: i64,
    n: i64,
    k: i64,
    screened: BTreeMap<String, f64>,
}

impl Shape {
    fn row(&self, title: &str) -> Option<Row<Work>> {
        let stored = std::array::from_fn(|at| self.layout.as_bytes().get(at) == Some(&b't'));
        let choices = Choice::candidates(self.m, self.n, self.k, stored);
        let works = choices.map(|choice| (choice.to_string(), choice.work([self.m, self.n, self.k], stored))).collect();
        let measured =
            self.screened.iter().filter_map(|(name, us)| Some((name.strip_prefix("ours ")?.to_owned(), *us)));
        Row::new(title.to_owned(), &works, measured)
    }
}

/// The shapes of a file with the times of the choices that there still are.
///
/// # Errors
/// It is no such file.
pub fn rows(json: &str) -> serde_json::Result<Vec<Row<Work>>> {
    let measured: Measured = serde_json::from_str(json)?;
    Ok(measured.rows.iter().filter_map(|(title, shape)| shape.row(title)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::gemv_sweep::mean_and_worst;
    use tile_kernels::gemm::model::Parameters;

    /// How much slower the choice is than the best instance, on the shapes that were measured.
    #[test]
    fn the_choice_is_near_the_best_on_measured_shapes() {
        let rows = rows(include_str!("../../bench/results/gemm-random-fit-h200.json")).unwrap();
        assert!(rows.len() > 200, "{} shapes", rows.len());
        let (mean, worst) = mean_and_worst(rows.iter().map(|row| row.regret(&Parameters::H200))).unwrap();
        assert!(mean < 1.03 && worst < 1.4, "{mean} in geometric mean, {worst} at most");
    }
}
