//! Random index expressions: exactly, as the emitted program computes them, and as the analysis claims.

use crate::part::{Case, Failure, Outcome, Part, Verdict};
use rand::Rng;
use tile_ir::testing::indices;

/// The oracle of index arithmetic (`tile_ir::testing::indices`).
pub struct Indices;

impl Part for Indices {
    fn name(&self) -> &'static str {
        "indices"
    }

    fn about(&self) -> &'static str {
        "A random kernel of index arithmetic (shifts, products, quotients, bits, loops with steps, assigned variables, data of \
         u32, i32 and f32) is evaluated with integers of any size and as the emitted program does, in 32 bits where that says \
         `int`: they make the same accesses, nothing wraps, nothing leaves its tensor, and what the analysis proves holds."
    }

    fn size(&self) -> u64 {
        1_000_000
    }

    fn sample(&self) -> u64 {
        150
    }

    fn run(&self, case: Case) -> Outcome {
        let seed: u64 = case.rng().random();
        match indices::case(seed) {
            Ok(class) => Outcome::passed(class.name(), "agree"),
            Err(failure) => Outcome {
                class: "wrong".into(),
                verdict: Verdict::Failed(Failure { message: failure.message, input: Some(seed.to_string()) }),
            },
        }
    }

    fn replay(&self, case: Case, input: Option<&str>) -> Outcome {
        let Some(seed) = input.and_then(|text| text.trim().parse().ok()) else { return self.run(case) };
        match indices::case(seed) {
            Ok(class) => Outcome::passed(class.name(), "agree"),
            Err(failure) => Outcome::failed("wrong", failure.message),
        }
    }
}
