//! The soak harness: what is too long for every run of the tests, in parts that are drawn by seed.
//!
//! ```text
//!  Part::run(case) ──▶ Outcome { class, verdict }
//!     ▲                    │
//!     │ parallel, a panic  ├─▶ <out>/<part>.json         progress: a killed run goes on from here
//!     │ is a failure       ├─▶ <out>/<part>.tsv          a line a case: number, class, end, seconds
//!     │                    ├─▶ <out>/failures/*.json     one a failing case, shrunk where the part can: --replay FILE
//!  runner ◀── case numbers └─▶ bench/soak.json, book/src/soak.md   with --record
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`part`] | what a part is: a name, a size, and a case decided by its number and the seed alone |
//! | [`parts`] | the parts there are |
//! | [`runner`] | runs a part's cases in parallel, in order of their numbers, from where the last run stopped |
//! | [`progress`] | what is counted, and the file that it is kept in |
//! | [`failure`] | a failing case as a file, and its replay |
//! | [`summary`] | the committed summary, and the book's table made of it |
//! | [`kernels`] | the repository's kernels as text, and their launches on both simulators |
//! | [`stamp`] | the commit and the day of a run |
//!
//! # A new part
//!
//! Implement [`Part`] in a file or folder below `src/parts` and add it to [`parts::all`]: `tests/sample.rs` then runs
//! [`Part::sample`] cases of it in `cargo test`.
//!
//! ```sh
//! cargo xtask soak                                  # every part at full size, resumed where it stopped
//! cargo xtask soak --part indices --seconds 60      # one part, for a minute
//! cargo xtask soak --replay target/soak-runs/failures/indices-77.json
//! cargo xtask soak --record                         # and writes bench/soak.json and the book's table
//! ```
#![deny(missing_docs)]

pub mod failure;
pub mod kernels;
pub mod part;
pub mod parts;
pub mod programs;
pub mod progress;
pub mod runner;
pub mod shrink;
pub mod stamp;
pub mod summary;

pub use part::{Case, Failure, Outcome, Part, Verdict};
