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

use crate::part::{Case, Outcome, Part};
use crate::runner::guarded;
use corpus::mutant;
use edit::{Class, difference};

/// The part.
pub struct Mutants;

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
        150
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
