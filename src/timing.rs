//! Times of single calls, for examples: `tile_bench`'s method with one contender.

use anyhow::{Result, anyhow};
use tile_bench::BenchError;
use tile_bench::problem::{Contender, Problem};
use tile_bench::race::{OURS, Options, race};
use tile_runtime::prelude::*;

/// Seconds a call takes, checked and with a cold L2.
///
/// # Errors
/// The call is wrong or refused; the device fails.
pub fn time<P: Problem>(
    device: &Device,
    problem: &P,
    call: impl FnMut(&Stream, &mut P::Buffers) -> Result<(), BenchError>,
) -> Result<f64> {
    time_with(device, problem, &Options { rounds: 9, ..Options::default() }, call)
}

/// [`time`] with other options.
///
/// # Errors
/// As [`time`].
pub fn time_with<P: Problem>(
    device: &Device,
    problem: &P,
    options: &Options,
    call: impl FnMut(&Stream, &mut P::Buffers) -> Result<(), BenchError>,
) -> Result<f64> {
    let row = race(device, problem, vec![Contender::new(OURS, "call", call)], options)?;
    let best = row.best(OURS).ok_or_else(|| anyhow!("{row}"))?;
    Ok(best.burst_us.median * 1e-6)
}
