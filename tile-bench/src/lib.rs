//! How kernels are timed, for examples, reports and tuning alike.
//!
//! | module | what it is |
//! |---|---|
//! | [`race`] | the method: a correct result first, then graph replays with a cold L2, in random order |
//! | [`problem`] | what is computed, and who takes part |
//! | [`ceiling`] | what the memory of this device gives at most |
//! | [`blas`] | cuBLAS and cuBLASLt, to be compared with |
//! | [`report`] | what was found: JSON and a table |
//! | [`plot`] | the same as a picture: percent of the roofline against size, as SVG and PNG |
//! | [`statistics`], [`sensors`], [`data`] | medians; clock and power; seeded normal data |
//!
//! ```no_run
//! # use tile_bench::{problem::{Contender, Problem}, race::{Options, race}, BenchError};
//! # fn example<P: Problem>(problem: P, mine: Contender<'_, P::Buffers>, theirs: Contender<'_, P::Buffers>)
//! # -> Result<(), BenchError> {
//! let device = tile_runtime::Device::cuda(0)?;
//! let row = race(&device, &problem, vec![mine, theirs], &Options::default())?;
//! println!("{row}");
//! # Ok(())
//! # }
//! ```
#![deny(missing_docs)]

pub mod blas;
pub mod ceiling;
pub mod data;
mod error;
pub mod plot;
pub mod problem;
pub mod race;
pub mod report;
pub mod sensors;
pub mod statistics;

pub use error::BenchError;
