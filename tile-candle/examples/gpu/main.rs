//! On a GPU: products by tile kernels on candle's storage and stream, beside candle's own.
//!
//! | part | what must hold |
//! |---|---|
//! | `results` | gemv and gemm give what candle's `matmul` gives: fresh random data, poisoned results, views, epilogues |
//! | `attention` | attention gives what candle's operations in f32 give, on views, with masks, windows and sinks |
//! | `times` | a call costs at most 1 us more than a plain launch of the same kernel, besides candle's making of a new tensor |
//! | `calls` | such a call is one call of the driver; counted where `count.sh` has made the driver |
//! | `repeats` | 1,000 calls give the same bits |
//! | `streams` | so do 1,000 rounds on two streams, and on the default streams of two threads |
//! | `graph` | so do 1,000 launches of a graph that candle's stream has captured |
//!
//! ```text
//! cargo run --release --features cuda --example gpu [PART..]
//! ```
//!
//! It prints tables and fails if anything does not hold, or if there is no GPU.

mod attention;
mod calls;
mod data;
mod order;
mod results;
mod times;

use candle_core::{Device, Result};
use std::process::ExitCode;

/// How often what must not change is repeated.
pub const REPEATS: usize = 1000;

/// What did not hold.
#[derive(Default)]
pub struct Failures(Vec<String>);

impl Failures {
    /// Notes a failure, unless this holds.
    pub fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            let what = what();
            println!("FAILED: {what}");
            self.0.push(what);
        }
    }
}

type Part = fn(&Device, &mut Failures) -> Result<()>;

const PARTS: [(&str, Part); 7] = [
    ("results", results::run),
    ("attention", attention::run),
    ("calls", calls::run),
    ("times", times::run),
    ("repeats", order::repeats),
    ("streams", order::streams),
    ("graph", order::graph),
];

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = asked.iter().find(|name| PARTS.iter().all(|(part, _)| part != name)) {
        eprintln!("there is no part `{unknown}`; there are: {}", PARTS.map(|(name, _)| name).join(", "));
        return ExitCode::FAILURE;
    }
    let device = match Device::new_cuda(0) {
        Ok(device) => device,
        Err(error) => {
            eprintln!("no GPU, so nothing was compared: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut failures = Failures::default();
    for (name, part) in PARTS {
        if asked.is_empty() || asked.iter().any(|asked| asked == name) {
            println!("== {name}");
            if let Err(error) = part(&device, &mut failures) {
                failures.check(false, || format!("{name}: {error}"));
            }
        }
    }
    match failures.0.len() {
        0 => {
            println!("all of it holds");
            ExitCode::SUCCESS
        }
        many => {
            println!("{many} did not hold:\n{}", failures.0.join("\n"));
            ExitCode::FAILURE
        }
    }
}
