//! Attention over whole sequences: `tile_kernels::attention::forward` as called and in every instance, beside the cookbook's way of writing it
//! in order (`.schedule(Cooperative)`). The sizes of the FlashAttention papers: batch x sequence is 16,384, heads x D is 2,048.
//!
//! ```console
//! $ cargo run --release --example attention
//! $ cargo build --release -p tile-cookbook --example cookbook_for_python
//! $ python3 bench/attention.py target/release/examples/libcookbook_for_python.so    # beside PyTorch's (cuDNN, flash), in one process
//! ```
//!
//! Launches in a graph; the operands of all launches are the same, and fit the L2 in no row. FLOP are 4 B H S S D, half of it when causal.

use anyhow::{Result, ensure};
use std::time::Instant;
use tile_kernels::attention::{Forward, forward};
use tile_runtime::prelude::*;

/// Batch, heads of queries, heads of keys, queries and keys, D.
type Shape = [usize; 5];

const SHAPES: [Shape; 9] = [
    [16, 16, 16, 1024, 128],
    [8, 16, 16, 2048, 128],
    [4, 16, 16, 4096, 128],
    [2, 16, 16, 8192, 128],
    [1, 16, 16, 16_384, 128],
    [4, 32, 8, 4096, 128],
    [16, 32, 32, 1024, 64],
    [4, 32, 32, 4096, 64],
    [1, 32, 32, 16_384, 64],
];

fn main() -> Result<()> {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => {
            println!("nothing to measure without a GPU: {error}");
            return Ok(());
        }
    };
    println!(
        "{device}, bf16, TFLOP/s\n\n| B, H, HK, S, D | as called | 128 x 128, 2 warpgroups | 192 rows, 3 warpgroups |\n|---|---:|---:|---:|"
    );
    for causal in [false, true] {
        for shape in SHAPES {
            row(&device, shape, causal)?;
        }
    }
    Ok(())
}

fn row(device: &Device, [b, h, hk, s, d]: Shape, causal: bool) -> Result<()> {
    let noise = |count: usize, seed: u64| tile_kernel_examples::data::normal::<bf16>(seed, count);
    let q = device.tensor(&noise(b * h * s * d, 1), [b, h, s, d])?;
    let k = device.tensor(&noise(b * hk * s * d, 2), [b, hk, s, d])?;
    let v = device.tensor(&noise(b * hk * s * d, 3), [b, hk, s, d])?;
    let poison = vec![bf16::NAN; b * h * s * d];
    let mut o = device.tensor(&poison, [b, h, s, d])?;
    let flops = 4.0 * (b * h * s * s * d) as f64 / if causal { 2.0 } else { 1.0 };
    let options = || Forward { causal, ..Forward::default() };
    let called = time(device, |on| Ok(forward(on, q.view(), k.view(), &v, &mut o, options())?))?;
    let wanted: Vec<f32> = o.to_vec()?.iter().map(|x| x.to_f32()).collect();
    ensure!(wanted.iter().all(|x| x.is_finite()), "the result is not finite");
    let mut others = Vec::new();
    for rows in [128, 192] {
        let tile = Some([rows, if rows == 192 && d == 128 { 80 } else { 128 }]);
        o.write(&poison)?;
        let options = || Forward { causal, tile, ..Forward::default() };
        others.push(time(device, |on| Ok(forward(on, q.view(), k.view(), &v, &mut o, options())?))?);
        let found = o.to_vec()?;
        let far = found.iter().zip(&wanted).map(|(a, b)| (a.to_f32() - b).abs()).fold(0.0, f32::max);
        ensure!(far < 0.05, "{rows} rows: {far} from the others");
    }
    let rate = |us: f64| flops / us * 1e-6;
    let name = format!("{b}, {h}, {hk}, {s}, {d}{}", if causal { " causal" } else { "" });
    let others: Vec<String> = others.into_iter().map(|us| format!("{:.0}", rate(us))).collect();
    println!("| {name} | {:.0} | {} |", rate(called), others.join(" | "));
    Ok(())
}

/// Microseconds of a launch: the median of nine rounds of as many as take a few milliseconds.
fn time(device: &Device, mut launch: impl FnMut(&Stream) -> Result<()>) -> Result<f64> {
    const COUNT: usize = 8;
    launch(&device.stream()?)?;
    device.synchronize()?;
    let mut failed = Ok(());
    let graph = device.capture(|stream| {
        for _ in 0..COUNT {
            failed = std::mem::replace(&mut failed, Ok(())).and_then(|()| launch(stream));
        }
        Ok(())
    })?;
    failed?;
    let mut times = Vec::new();
    for round in 0..10 {
        let start = Instant::now();
        graph.launch()?;
        device.synchronize()?;
        let us = start.elapsed().as_secs_f64() * 1e6 / COUNT as f64;
        times.extend((round > 0).then_some(us));
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
