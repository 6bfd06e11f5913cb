//! R1: kernels of the repository with one edit each, and who notices.
//!
//! | module | what it is |
//! |---|---|
//! | [`edit`] | an edit of a text, and the classes with their shares |
//! | [`edits`] | all edits of a kernel |
//! | [`corpus`] | which edit a case makes |
//! | [`fate`] | what becomes of a mutant |
//! | [`compare`] | what an earlier commit found late, and this one while typing |
//! | [`survivors`] | those that nobody caught, as files |
//! | [`gpu`] | such files on a device |

pub mod compare;
pub mod corpus;
pub mod edit;
pub mod edits;
pub mod fate;
pub mod gpu;
pub mod survivors;

use crate::kernels::source::library;
use crate::part::{Case, Failure, Outcome, Part, Shrunk};
use crate::runner::guarded;
use crate::shrink;
use corpus::mutant;
use edit::{Class, difference};
use std::time::{Duration, Instant};
use tile_ir::text::filetest::{self, Pass};

/// The part.
pub struct Mutants;

/// Texts that are tried while a mutant is made smaller, and for how long.
const TRIES: usize = 600;
const PATIENCE: Duration = Duration::from_secs(300);

/// The smallest text found that fails as the first did: in the same way, and with the same code where a code is named.
fn smallest(text: &str, error: &str, judge: impl Fn(&str) -> Option<String>) -> String {
    // What comes after the first colon is of this text: elements, names. Of a panic it is the place, then the message.
    let kind = |error: &str| {
        let code = shrink::program::code(error).map(str::to_owned);
        let parts = if error.starts_with("panic") { 3 } else { 1 };
        (error.split(':').take(parts).map(str::to_owned).collect::<Vec<_>>(), code)
    };
    let first = kind(error);
    let start = Instant::now();
    shrink::text::shrink(text, TRIES, |smaller| {
        start.elapsed() < PATIENCE && judge(smaller).is_some_and(|found| kind(&found) == first)
    })
}

/// A mutant's kernel as a file of tile-ir, in its first declared instance.
fn tile(id: &str, text: &str, case: Case) -> Option<String> {
    let kernel = library().check_as(id, text)?.kernel;
    let instance = kernel.instances.first()?.clone();
    let about = format!("The soak, mutants, case {} of seed {}", case.number, case.seed);
    let target = kernel.targets.last().copied()?;
    Some(filetest::write(&kernel, &instance, &[Pass::Check], target, &about))
}

/// A case for a reader: the mutant, what became of it, and who said what.
pub fn explained(case: Case) -> String {
    let mutant = mutant(case);
    let (id, what, class) = (&mutant.original.source.id, mutant.edit.what, mutant.edit.class.name());
    let changed = difference(&mutant.original.source.text, &mutant.text());
    let became = match guarded(|| fate::fate(&mutant)) {
        Ok(Ok(end)) => format!("{} {}", end.fate.name(), end.said),
        Ok(Err(error)) | Err(error) => format!("FAILED {error}"),
    };
    format!("{} {id}: {what} ({class})\n{changed}  => {became}\n", case.number)
}

impl Part for Mutants {
    fn name(&self) -> &'static str {
        "mutants"
    }

    fn about(&self) -> &'static str {
        "kernels with one edit: found by rustc, while typing, at the launch, by the checked simulator, or with other results. \
         A failure is a disagreement of the simulators, a panic, or an original that is flagged"
    }

    fn size(&self) -> u64 {
        // Every class twice its share.
        2 * Class::ALL.iter().map(|(.., share)| *share as u64).sum::<u64>()
    }

    fn sample(&self) -> u64 {
        40
    }

    fn run(&self, case: Case) -> Outcome {
        let mutant = mutant(case);
        let class = mutant.edit.class.name();
        match fate::fate(&mutant) {
            Ok(end) => Outcome::passed(class, end.fate.name()),
            Err(error) => {
                let (id, what, text) = (&mutant.original.source.id, mutant.edit.what, mutant.text());
                let changed = difference(&mutant.original.source.text, &text);
                Outcome::failed(class, format!("{id}, {what}: {error}\n{changed}"))
                    .with_input(format!("// {id}\n{text}"))
            }
        }
    }

    /// The mutant's text, statement by statement and number by number, while the failure is of one kind.
    fn shrink(&self, case: Case, failed: &Failure) -> Shrunk {
        let mutant = mutant(case);
        let text = mutant.text();
        let judge = |text: &str| guarded(|| fate::judged(mutant.original, text).err()).unwrap_or_else(Some);
        // Where the original itself fails no text of the mutant's matters.
        let error = judge(&text).filter(|error| !error.starts_with("the original"));
        let Some(error) = error else { return Shrunk { input: failed.input.clone(), tile: None } };
        let small = smallest(&text, &error, judge);
        let tile = guarded(|| tile(&mutant.original.source.id, &small, case)).ok().flatten();
        Shrunk { input: Some(format!("// {}\n{small}", mutant.original.source.id)), tile }
    }

    /// The input's first line names the original, the rest is the mutant.
    fn replay(&self, case: Case, input: Option<&str>) -> Outcome {
        let found = input.and_then(|text| text.strip_prefix("// ")?.split_once('\n'));
        let original =
            found.and_then(|(id, text)| Some((corpus::originals().iter().find(|o| o.source.id == id)?, text)));
        let Some((original, text)) = original else { return self.run(case) };
        let class = mutant(case).edit.class.name();
        match fate::judged(original, text) {
            Ok(end) => Outcome::passed(class, end.fate.name()),
            Err(error) => Outcome::failed(class, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_mutant_is_made_small_and_replays() {
        let case = Case { number: 0, seed: 0 };
        let text = mutant(case).text();
        // Stands for a mistake of the compiler that shows wherever a block is launched.
        let judge = |text: &str| text.contains("threads(").then(|| "fast != checked: y[0]".to_owned());
        let small = smallest(&text, "fast != checked: y[77]", judge);
        assert!(small.contains("threads(") && small.lines().count() < text.lines().count(), "{small}");
        assert_eq!(smallest(&text, "panic: no such thing", judge), text, "another failure is not this one");
        let input = format!("// {}\n{text}", mutant(case).original.source.id);
        assert_eq!(Mutants.replay(case, Some(&input)), Mutants.run(case), "a file is what the case is");
    }
}
