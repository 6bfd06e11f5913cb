//! Device time with a cold L2.

use anyhow::Result;
use tile_runtime::prelude::*;

/// Bytes the rotating buffer sets take together: far more than any L2.
const ROTATE: usize = 800_000_000;

/// Seconds a call of `call`, as the median of several replays of one graph that rotates over enough buffer sets
/// (each `bytes` large, made by `make`) to find L2 cold.
pub fn time_rotating<S>(
    device: &Device,
    bytes: usize,
    make: impl Fn() -> Result<S>,
    call: impl Fn(&Stream, &mut S) -> Result<(), LaunchError>,
) -> Result<f64> {
    let count = ROTATE.div_ceil(bytes.max(1)).clamp(2, 512);
    let mut sets: Vec<S> = (0..count).map(|_| make()).collect::<Result<_>>()?;
    let stream = device.stream()?;
    // The first launch compiles and loads, which a capture must not.
    call(&stream, &mut sets[0])?;
    device.synchronize()?;
    let graph = device.capture(|stream| {
        for set in &mut sets {
            call(stream, set)?;
        }
        Ok(())
    })?;
    let mut times = Vec::new();
    for _ in 0..9 {
        let start = stream.record()?;
        graph.launch_on(&stream)?;
        let end = stream.record()?;
        end.synchronize()?;
        times.push(end.since(&start)?.as_secs_f64() / count as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
