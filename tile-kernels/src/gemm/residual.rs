//! What the [model](super::model) of the machine misses, learned from measurements.
//!
//! The model says how long a launch takes from a few dozen parameters. What it leaves over has reasons that it does not know (how addresses fall on the
//! parts of the second-level cache, which blocks share a clock, how ptxas ordered an instance), and some of it is regular: it depends on the
//! shape, the layout and the tile. Gradient-boosted regression trees over these find it. Their sum is the logarithm of a factor for the
//! model's time, within 0.45 and 2.23, so that what lies far from anything measured is never far from what the model says.
//!
//! A file of trees is text that can be read: one tree a line, in preorder, of nodes `feature<=threshold`, whose first branch is taken where that holds,
//! and leaves. `bench/fit_residual.py` writes that of operands which TMA fetches, from the table of `cargo run --release --example gemm_fit -- --features FILE`,
//! and `bench/fit_copied.py` that of f32 ([`copied::FEATURES`]).

use super::copied;
use super::model::{MULTIPROCESSORS, Work, up};
use std::sync::LazyLock;

/// The greatest logarithm of a factor, either way.
const MOST: f64 = 0.8;

/// What trees ask of a launch whose operands TMA fetches.
pub const FEATURES: [&str; 28] = [
    "m",
    "n",
    "k",
    "a_across",
    "b_across",
    "rows",
    "cols",
    "depth",
    "threads",
    "beside",
    "below",
    "parts",
    "slots",
    "launches",
    "waves",
    "tail",
    "steps",
    "us",
    "a_lines",
    "a_sectors",
    "b_lines",
    "b_sectors",
    "used_rows",
    "used_cols",
    "high",
    "wide",
    "rate",
    "special",
];

/// The values of [`FEATURES`] for a launch that the model of the machine expects to take so many us.
pub fn features(work: &Work, us: f64) -> [f64; FEATURES.len()] {
    let Work { shape: [m, n, k], stored: [a_across, b_along], tile: [rows, cols], cluster: [beside, below], .. } =
        *work;
    let (high, wide) = (up(m, rows), up(n, cols));
    let [a_pitch, b_pitch] = work.call.pitches;
    let waves = work.blocks() as f64 / MULTIPROCESSORS as f64;
    let [rows_of_tiles, cols_of_tiles] = [high * rows, wide * cols].map(|extent| extent.max(1) as f64);
    let flag = |holds: bool| f64::from(u8::from(holds));
    let Work { depth, threads, parts, slots, launches, .. } = *work;
    [
        m as f64,
        n as f64,
        k as f64,
        flag(a_across),
        flag(!b_along),
        rows as f64,
        cols as f64,
        depth as f64,
        threads as f64,
        beside as f64,
        below as f64,
        parts as f64,
        slots as f64,
        launches as f64,
        // Waves of blocks, and the part of the last one that is empty.
        waves,
        waves.ceil() - waves,
        // Steps of 64 along K of a block.
        k as f64 / (64 * parts * slots).max(1) as f64,
        us,
        // Whether rows in memory begin between lines of 128 bytes, and between sectors of 32.
        flag(a_pitch % 64 != 0),
        flag(a_pitch % 16 != 0),
        flag(b_pitch % 64 != 0),
        flag(b_pitch % 16 != 0),
        // The parts of the tiles that are of the product.
        m as f64 / rows_of_tiles,
        n as f64 / cols_of_tiles,
        high as f64,
        wide as f64,
        // us for each operation, of the fastest that a device multiplies.
        us / (2.0 * m as f64 * n as f64 * k as f64 / 7.5e8).max(1e-9),
        flag(work.call.special),
    ]
}

/// Trees whose values are added.
#[derive(Debug, Default)]
pub struct Trees {
    /// The nodes of one tree after those of another, each in preorder.
    nodes: Vec<Node>,
    roots: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Node {
    /// The next node where the feature is at most so much, else the one at this place.
    Split {
        feature: usize,
        most: f64,
        otherwise: usize,
    },
    Leaf(f64),
}

impl Trees {
    /// Those for an H200, of operands that TMA fetches.
    pub fn h200() -> &'static Trees {
        static TREES: LazyLock<Trees> =
            LazyLock::new(|| Trees::parse(include_str!("residual-h200.txt"), &FEATURES).unwrap_or_default());
        &TREES
    }

    /// Those for an H200, of f32 that is multiplied as it is.
    pub fn h200_full() -> &'static Trees {
        static TREES: LazyLock<Trees> = LazyLock::new(|| {
            Trees::parse(include_str!("residual-f32-h200.txt"), &copied::FEATURES).unwrap_or_default()
        });
        &TREES
    }

    /// The trees of a text that ask for these features. Lines that begin with `#` say where they are from; none of one that is no such text.
    pub fn parse(text: &str, features: &[&str]) -> Option<Trees> {
        let mut trees = Trees::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            trees.roots.push(trees.nodes.len());
            trees.grow(&mut words, features)?;
            if words.next().is_some() {
                return None;
            }
        }
        Some(trees)
    }

    /// Reads a node and what is below it.
    fn grow<'a>(&mut self, words: &mut impl Iterator<Item = &'a str>, features: &[&str]) -> Option<()> {
        let word = words.next()?;
        let Some((name, most)) = word.split_once("<=") else {
            self.nodes.push(Node::Leaf(word.parse().ok()?));
            return Some(());
        };
        let feature = features.iter().position(|feature| *feature == name)?;
        let most = most.parse().ok()?;
        let at = self.nodes.len();
        self.nodes.push(Node::Split { feature, most, otherwise: 0 });
        self.grow(words, features)?;
        let otherwise = self.nodes.len();
        *self.nodes.get_mut(at)? = Node::Split { feature, most, otherwise };
        self.grow(words, features)
    }

    /// How many times as long a launch with these features takes as the model of the machine expects.
    pub fn factor(&self, features: &[f64]) -> f64 {
        let sum: f64 = self.roots.iter().map(|root| self.value(*root, features)).sum();
        sum.clamp(-MOST, MOST).exp()
    }

    fn value(&self, mut at: usize, features: &[f64]) -> f64 {
        loop {
            match self.nodes.get(at) {
                Some(Node::Split { feature, most, otherwise }) => {
                    let holds = features.get(*feature).is_some_and(|value| value <= most);
                    at = if holds { at + 1 } else { *otherwise };
                }
                Some(Node::Leaf(value)) => return *value,
                None => return 0.0,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::Choice;

    /// Branches are taken as the text says, and what trees say is added, within bounds.
    #[test]
    fn trees_are_read_and_added() {
        let trees = Trees::parse("# from nowhere\nrows<=64 0.1 k<=100 0.2 -0.25\n0.05\n", &FEATURES).unwrap();
        let factor = |rows, k| {
            let tile = (rows, 128, 64, 4, 128, 1, 1);
            let work = Choice { tile, ..Choice::default() }.work([512, 512, k], [false, true]);
            trees.factor(&features(&work, 10.0)).ln()
        };
        for (rows, k, expected) in [(64, 4096, 0.15), (128, 64, 0.25), (128, 4096, -0.2)] {
            assert!((factor(rows, k) - expected).abs() < 1e-12, "{rows} {k}: {}", factor(rows, k));
        }
        let far = Trees::parse("7.0\n", &FEATURES).unwrap();
        assert!((far.factor(&[0.0; FEATURES.len()]) - MOST.exp()).abs() < 1e-12);
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        for text in
            ["rows<=64 0.1\n", "rows<=64 0.1 0.2 0.3\n", "height<=64 0.1 0.2\n", "rows<=x 0.1 0.2\n", "a\n", "\n"]
        {
            assert!(Trees::parse(text, &FEATURES).is_none(), "{text:?}");
        }
    }

    #[test]
    fn the_trees_of_an_h200_are_whole() {
        for (text, features) in [
            (include_str!("residual-h200.txt"), &FEATURES[..]),
            (include_str!("residual-f32-h200.txt"), &copied::FEATURES[..]),
        ] {
            let trees = Trees::parse(text, features).unwrap();
            let (roots, nodes) = (trees.roots.len(), trees.nodes.len());
            assert!(roots > 10 && nodes > 10 * roots, "{roots} trees");
        }
    }
}
