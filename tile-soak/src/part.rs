//! What a part of the soak is.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::borrow::Cow;

/// A part of the soak: a family of cases, each decided by its number and the run's seed alone.
pub trait Part: Sync {
    /// Its name, as `--part` takes it: lower case, words joined by `-`.
    fn name(&self) -> &'static str;

    /// What is tried and what counts as a failure: a row's text in the book.
    fn about(&self) -> &'static str;

    /// Cases of a whole soak.
    fn size(&self) -> u64;

    /// Cases that `cargo test` runs: a few seconds' worth on two cores.
    fn sample(&self) -> u64;

    /// Runs one case. A panic is caught and is a failure.
    fn run(&self, case: Case) -> Outcome;

    /// Whether cases may run at once, on as many threads as there are cores. `false` for parts that start threads or
    /// processes of their own, or that measure time.
    fn is_parallel(&self) -> bool {
        true
    }

    /// Makes a failing case smaller. Called once a failure, after the case has failed; may take minutes.
    fn shrink(&self, case: Case, failed: &Failure) -> Shrunk {
        let _ = case;
        Shrunk { input: failed.input.clone(), tile: None }
    }

    /// Runs a failure's file again. A part whose failures have an input runs that; others run the case by its number.
    fn replay(&self, case: Case, input: Option<&str>) -> Outcome {
        let _ = input;
        self.run(case)
    }
}

/// One case: which it is and what it is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its number, from 0.
    pub number: u64,
    /// The run's seed.
    pub seed: u64,
}

impl Case {
    /// Numbers for this case alone: the same for the same number and seed on every machine.
    pub fn rng(&self) -> ChaCha8Rng {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.seed.to_le_bytes());
        ChaCha8Rng::from_seed(bytes)
    }
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What kind of case it was, by which cases are counted.
    pub class: Cow<'static, str>,
    /// What became of it.
    pub verdict: Verdict,
}

/// Whether a case went as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It did, with this end: `agree`, `typing`, ... Cases are counted by class and end.
    Passed(Cow<'static, str>),
    /// It did not.
    Failed(Failure),
}

/// A failing case, made small.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shrunk {
    /// The input of the failure, for [`Part::replay`].
    pub input: Option<String>,
    /// Its kernel as a file that `cargo xtask opt` and the filetests of `tile-ir` read; none of a case that is no kernel.
    pub tile: Option<String>,
}

/// What went wrong with a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// For a reader: what was expected and what happened.
    pub message: String,
    /// What the case was made of, as text that [`Part::replay`] takes: a kernel's source, for example.
    pub input: Option<String>,
}

impl Outcome {
    /// A case that went as it should, with this end.
    pub fn passed(class: impl Into<Cow<'static, str>>, end: impl Into<Cow<'static, str>>) -> Outcome {
        Outcome { class: class.into(), verdict: Verdict::Passed(end.into()) }
    }

    /// A case that did not.
    pub fn failed(class: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Outcome {
        let failure = Failure { message: message.into(), input: None };
        Outcome { class: class.into(), verdict: Verdict::Failed(failure) }
    }

    /// The outcome, where it is a failure with this input.
    pub fn with_input(mut self, text: impl Into<String>) -> Outcome {
        if let Verdict::Failed(failure) = &mut self.verdict {
            failure.input = Some(text.into());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn a_case_draws_the_same_numbers_everywhere() {
        let draw = |number, seed| Case { number, seed }.rng().random::<u32>();
        assert_eq!(draw(0, 0), draw(0, 0));
        assert!(draw(0, 0) != draw(1, 0) && draw(0, 0) != draw(0, 1) && draw(0, 1) != draw(1, 0));
    }
}
