//! What `bench/random_shapes.py` measured of the bundled GEMM, for the fit of its model.

use super::fit::Row;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use tile_kernels::gemm::Choice;
use tile_kernels::gemm::model::{Call, Work};

#[derive(Deserialize)]
struct Measured {
    rows: BTreeMap<String, Shape>,
    /// Whether tiles whose rows run across K were fetched in boxes of 64 bytes at least. Before, those of 144 elements, say, were fetched in boxes of
    /// 32 bytes, which took a third longer.
    #[serde(default)]
    padded: bool,
}

/// A shape and the us of each choice, as `ours NAME`.
#[derive(Deserialize)]
struct Shape {
    layout: String,
    m: i64,
    n: i64,
    k: i64,
    #[serde(deserialize_with = "by_choice")]
    screened: BTreeMap<String, f64>,
    /// Elements that follow each row of an operand.
    #[serde(default)]
    pad: i64,
    /// A function of the results: `gelu`, say.
    #[serde(default)]
    epilogue: String,
    /// What commit 74df698 chose.
    then: Option<String>,
}

/// The times by the names that choices have now: clusters were of one axis, `cluster 2` for two tiles below one another.
fn by_choice<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, f64>, D::Error> {
    let measured = BTreeMap::<String, f64>::deserialize(deserializer)?;
    let now = |name: String| match name.rsplit_once("cluster ") {
        Some((tile, below)) if !below.contains('x') => format!("{tile}cluster 1x{below}"),
        _ => name,
    };
    Ok(measured.into_iter().map(|(name, us)| (now(name), us)).collect())
}

impl Shape {
    fn row(&self, title: &str, padded: bool) -> Option<Row<Work>> {
        let stored = std::array::from_fn(|at| self.layout.as_bytes().get(at) == Some(&b't'));
        let choices = Choice::candidates(self.m, self.n, self.k, stored);
        let shape = [self.m, self.n, self.k];
        let call = Call {
            pitches: Call::dense(shape, stored).pitches.map(|width| width + self.pad),
            special: self.epilogue == "gelu",
        };
        let works = choices.map(|choice| (choice.to_string(), Work { call, ..choice.work(shape, stored) }));
        let works: BTreeMap<String, Work> = works.collect();
        let measured =
            self.screened.iter().filter_map(|(name, us)| Some((name.strip_prefix("ours ")?.to_owned(), *us)));
        let measured: Vec<(String, f64)> =
            measured.filter(|(name, _)| padded || works.get(name).is_none_or(|work| !is_padded(work))).collect();
        let row = Row::new(title.to_owned(), works, measured.into_iter())?;
        // What is published is to be as fast as it was said to be.
        let row = match &self.then {
            Some(then) => row.at_most(then),
            None => row,
        };
        let weight = WEIGHTS.iter().find(|(family, _)| title.starts_with(family)).map_or(1.0, |(_, weight)| *weight);
        Some(row.weighing(weight))
    }
}

/// Whether a tile's rows run across K and are no whole 64 bytes.
fn is_padded(work: &Work) -> bool {
    let ([rows, cols], [a_across, b_across]) = (work.tile, [work.stored[0], !work.stored[1]]);
    a_across && rows % 32 != 0 || b_across && cols % 32 != 0
}

/// How many times a shape counts: those that are published, and the products of language models, more than random ones.
const WEIGHTS: [(&str, f64); 2] = [("published", 2.5), ("models", 3.0)];

/// The shapes of a file with the times of the choices that there still are.
///
/// # Errors
/// It is no such file.
pub fn rows(json: &str) -> serde_json::Result<Vec<Row<Work>>> {
    let measured: Measured = serde_json::from_str(json)?;
    Ok(measured.rows.iter().filter_map(|(title, shape)| shape.row(title, measured.padded)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::gemv_sweep::mean_and_worst;
    use tile_kernels::gemm::copied::Operands;
    use tile_kernels::gemm::policy::Policy;
    use tile_kernels::gemm::tf32;

    const FITTED_H100: &str = include_str!("../../bench/results/gemm-choice-fit-h100.json");
    const OTHERS_H100: &str = include_str!("../../bench/results/gemm-choice-heldout-h100.json");
    const MODELS_H100: &str = include_str!("../../bench/results/gemm-choice-models-h100.json");
    const FITTED_H200: &str = include_str!("../../bench/results/gemm-choice-fit2-h200.json");

    /// How much slower the choice is than the best instance, on the shapes that were measured; on the last ones, which nothing was fitted to, too.
    #[test]
    fn the_choice_is_near_the_best_on_measured_shapes() {
        let random = include_str!("../../bench/results/gemm-random-fit-h200.json");
        let split = include_str!("../../bench/results/gemm-split-fit-h200.json");
        let clusters = include_str!("../../bench/results/gemm-cluster-fit-h200.json");
        let drawn = [
            include_str!("../../bench/results/gemm-random-65c20b1a-h200.json"),
            include_str!("../../bench/results/gemm-random-7bc4e185-h200.json"),
        ];
        let partial = include_str!("../../bench/results/gemm-partial-fit-h200.json");
        let latest = include_str!("../../bench/results/gemm-random-f17a0005-h200.json");
        let before = include_str!("../../bench/results/gemm-random-f17a0003-h200.json");
        let long = include_str!("../../bench/results/gemm-random-f17a0007-h200.json");
        let newest = include_str!("../../bench/results/gemm-random-f17a0015-h200.json");
        let pitched = include_str!("../../bench/results/gemm-random-f17a0031-h200.json");
        let raced = include_str!("../../bench/results/gemm-raced-3a49c25a-h200.json");
        let newer = [
            include_str!("../../bench/results/gemm-random-f17a0011-h200.json"),
            include_str!("../../bench/results/gemm-random-f17a0013-h200.json"),
        ];
        // Only the first eight are of kernels that find their tiles by multiplications; the trees are fitted to the others with a tenth of the weight.
        // Of products in the ninth and tenth of these files the fastest choice copies an operand first, which is no candidate here.
        for (policy, json, shapes, most, far) in [
            (Policy::H200, raced, 110, 1.005, 1.05),
            (Policy::H200, pitched, 480, 1.02, 1.3),
            (Policy::H200, newest, 720, 1.02, 1.3),
            (Policy::H200, newer[0], 390, 1.02, 1.3),
            (Policy::H200, newer[1], 410, 1.02, 1.3),
            (Policy::H200, long, 79, 1.02, 1.21),
            (Policy::H200, latest, 320, 1.025, 1.28),
            (Policy::H200, before, 290, 1.025, 1.31),
            (Policy::H200, random, 200, 1.05, 1.4),
            (Policy::H200, split, 50, 1.09, 1.85),
            (Policy::H200, clusters, 50, 1.06, 1.45),
            (Policy::H200, FITTED_H200, 210, 1.025, 1.27),
            (Policy::H200, partial, 50, 1.03, 1.3),
            (Policy::H200, drawn[0], 59, 1.035, 1.3),
            (Policy::H200, drawn[1], 59, 1.05, 1.3),
            (Policy::H100, FITTED_H100, 170, 1.02, 1.42),
            (Policy::H100, OTHERS_H100, 25, 1.04, 1.38),
        ] {
            // Splits whose sums a second launch adds, or a cluster exchanges, are younger than most files, and so are some tiles: where one is chosen, younger files have its time.
            let mut rows = rows(json).unwrap();
            let is_older = [FITTED_H200, FITTED_H100, OTHERS_H100].contains(&json);
            rows.retain(|row| !is_older || !row.is_untimed(&policy));
            assert!(rows.len() > shapes, "{} shapes", rows.len());
            let (mean, worst) = mean_and_worst(rows.iter().map(|row| row.regret(&policy))).unwrap();
            assert!(mean < most && worst < far, "{policy:?}: {mean} in geometric mean, {worst} at most");
        }
    }

    /// Products of language models, of which the choice was too slow for some once: few rows of large weights. Nothing was fitted to an H100's times.
    #[test]
    fn the_choice_is_near_the_best_on_shapes_of_models() {
        for (policy, json, shapes, most, far) in
            [(Policy::H200, FITTED_H200, 72, 1.012, 1.11), (Policy::H100, MODELS_H100, 64, 1.02, 1.09)]
        {
            let rows = rows(json).unwrap();
            let rows: Vec<_> = rows.iter().filter(|row| row.title.starts_with("models")).collect();
            assert_eq!(rows.len(), shapes);
            let (mean, worst) = mean_and_worst(rows.iter().map(|row| row.regret(&policy))).unwrap();
            assert!(mean < most && worst < far, "{policy:?}: {mean} in geometric mean, {worst} at most");
        }
    }

    /// On published shapes, what is chosen beside what commit 74df698 chose, by the times of both.
    #[test]
    fn published_shapes_are_as_fast_as_before() {
        for (policy, json, most, many) in [(Policy::H100, FITTED_H100, 1.08, 5), (Policy::H200, FITTED_H200, 1.14, 14)]
        {
            let measured: Measured = serde_json::from_str(json).unwrap();
            let ratios = measured.rows.iter().filter_map(|(title, shape)| {
                let ratio = shape.row(title, measured.padded)?.beside(&policy, shape.then.as_ref()?)?;
                Some((ratio, title.as_str()))
            });
            let mut ratios: Vec<_> = ratios.collect();
            ratios.sort_by(|a, b| b.0.total_cmp(&a.0));
            assert!(ratios.len() > 90, "{} shapes", ratios.len());
            let (mean, worst) = mean_and_worst(ratios.iter().map(|(ratio, _)| *ratio)).unwrap();
            assert!(mean < 0.87 && worst < most, "{policy:?}: {mean} in geometric mean, {:?} at most", ratios.first());
            // Times of the same kernel differ by 0.5%, of the largest products, which heat the device, by several percent.
            let slower: Vec<_> = ratios.iter().filter(|(ratio, _)| *ratio > 1.015).collect();
            assert!(slower.len() <= many, "{policy:?}: {slower:?}");
        }
    }

    /// A product whose operands are as they were measured.
    #[derive(Deserialize)]
    struct Product {
        family: String,
        #[serde(flatten)]
        shape: Shape,
    }

    impl Product {
        fn stored(&self) -> [bool; 2] {
            std::array::from_fn(|at| self.shape.layout.as_bytes().get(at) == Some(&b't'))
        }

        /// How the operands, which lie densely, come into shared memory.
        fn operands(&self) -> Operands {
            let Shape { m, n, k, .. } = self.shape;
            let rows = [if self.stored()[0] { m } else { k }, if self.stored()[1] { k } else { n }];
            let width = [16, 8, 4].into_iter().find(|bytes| rows.iter().all(|row| row * 2 % bytes == 0)).unwrap_or(2);
            match self.family.as_str() {
                "f32" => Operands::Full,
                "tf32" => Operands::Tf32 { fetched: tf32::takes(self.stored()) && k % 4 == 0 },
                _ if width == 16 => Operands::Fetched,
                _ => Operands::Copied { width },
            }
        }
    }

    /// What is expected of the operands that threads copy, and of tf32, beside what was measured, and what the choices cost by it.
    #[test]
    fn calls_that_were_measured() {
        #[derive(Deserialize)]
        struct Products {
            rows: BTreeMap<String, Product>,
        }
        let copied = include_str!("../../bench/results/gemm-odd-a11e0001-h200.json");
        let few = include_str!("../../bench/results/gemm-f32-f17a0023-h200.json");
        let newest = include_str!("../../bench/results/gemm-parts-f17a0027-h200.json");
        let any = include_str!("../../bench/results/gemm-parts-f17a0021-h200.json");
        let tf32 = include_str!("../../bench/results/gemm-tf32-fit-h100.json");
        for (family, policy, json, products, least, most, far) in [
            // Trees are fitted to the files of f32.
            ("f32", Policy::H200, few, 60, 0.65, 1.03, 1.3),
            ("f32", Policy::H200, newest, 40, 0.65, 1.02, 1.2),
            ("odd", Policy::H200, any, 31, 0.5, 1.06, 1.4),
            ("tf32", Policy::H200, any, 38, 0.6, 1.08, 1.7),
            ("odd", Policy::H200, copied, 16, 0.6, 1.06, 1.4),
            ("tf32", Policy::H100, tf32, 60, 0.65, 1.05, 1.4),
        ] {
            let rows = serde_json::from_str::<Products>(json).unwrap().rows;
            let mut regrets = vec![];
            for (title, product) in rows.iter().filter(|(_, product)| product.family == family) {
                let Shape { m, n, k, ref screened, .. } = product.shape;
                let operands = product.operands();
                if product.shape.pad != 0 || operands == Operands::Fetched {
                    continue;
                }
                let ranked = Choice::ranked(policy, operands, [m, n, k], product.stored());
                let measured: Vec<(f64, f64)> = ranked
                    .iter()
                    .filter(|(choice, _)| choice.packs == [None; 2])
                    .filter_map(|(choice, us)| Some((*us, *screened.get(&format!("ours {choice}"))?)))
                    .collect();
                // Of some every choice that was measured copies operands first, or is a kernel for a vector.
                if measured.is_empty() {
                    continue;
                }
                let best = measured.iter().map(|(_, us)| *us).fold(f64::INFINITY, f64::min);
                for (expected, us) in measured.iter().filter(|(_, us)| *us < 1.5 * best) {
                    let ratio = expected / us;
                    assert!((least..1.8).contains(&ratio), "{title}: {expected} us, measured {us}");
                }
                let fastest = measured.iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
                regrets.push(fastest.1 / best);
            }
            assert_eq!(regrets.len(), products, "{family}");
            let (mean, worst) = mean_and_worst(regrets.into_iter()).unwrap();
            assert!(mean < most && worst < far, "{family}: {mean} in geometric mean, {worst} at most");
        }
    }
}
