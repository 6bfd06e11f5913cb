//! Decode attention by batch and length of the context: 64 heads of queries, 8 of keys, D = 128, bf16, one query a sequence. Ordinary
//! launches in a graph, each with keys and values of its own, more of them than the L2 holds.
//!
//! ```console
//! $ cargo run --release --example decode_attention
//! $ cargo run --release --example decode_attention -- --sweep    # sequences cut into every number of parts, too
//! $ cargo run --release --example decode_attention -- --clusters    # parts added across clusters
//! $ python3 bench/decode_attention.py    # PyTorch's attention, on the same machine
//! ```

use anyhow::{Result, ensure};
use std::time::Instant;
use tile_kernels::attention::{Batch, Decode, decode};
use tile_runtime::prelude::*;

const HEADS: usize = 64;
const KEY_HEADS: usize = 8;
const D: usize = 128;
const PAGE: usize = 128;
/// Bytes of keys and values that a round of launches reads at least.
const ROUND: usize = 1 << 30;
/// Bytes a microsecond that the memory of an H200 gives (`bench/peers.py ceiling`).
const CEILING: f64 = 4.65e6;
const SHAPES: [(usize, usize); 8] =
    [(1, 1024), (1, 4096), (1, 16_384), (1, 65_536), (8, 4096), (8, 16_384), (64, 4096), (64, 8192)];

fn main() -> Result<()> {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => {
            println!("nothing to measure without a GPU: {error}");
            return Ok(());
        }
    };
    println!("{device}\n\n| batch, keys | us | TB/s | of the ceiling |\n|---|---:|---:|---:|");
    device.set_dependent_launch(false);
    let is_sweep = std::env::args().any(|argument| argument == "--sweep");
    for (batch, keys) in SHAPES {
        let bytes = batch * keys * KEY_HEADS * D * 2 * 2;
        let copies = ROUND.div_ceil(bytes).max(4);
        let us = measure(&device, batch, keys, copies, None)?;
        let share = 100.0 * bytes as f64 / CEILING / us;
        println!("| {batch}, {keys} | {us:.2} | {:.2} | {share:.0}% |", bytes as f64 / us / 1e6);
        if is_sweep {
            for splits in [1, 2, 4, 8, 16, 32] {
                println!("| in {splits} parts | {:.2} | | |", measure(&device, batch, keys, copies, Some(splits))?);
            }
        }
    }
    Ok(())
}

/// Microseconds of a launch: the median of nine rounds of `copies` launches.
fn measure(device: &Device, batch: usize, keys: usize, copies: usize, splits: Option<usize>) -> Result<f64> {
    let each = keys.div_ceil(PAGE);
    let pages = copies * batch * each;
    let noise = |count: usize, seed: u64| tile_kernel_examples::data::normal::<bf16>(seed, count);
    let fill = |tensor: &mut Tensor<bf16, 4>, seed: u64| -> Result<()> {
        // One page's values, everywhere.
        let values = noise(KEY_HEADS * PAGE * D, seed);
        for page in 0..pages {
            tensor.rows_mut(page..page + 1)?.write(&values)?;
        }
        Ok(())
    };
    let mut k = device.zeros::<bf16, 4>([pages, KEY_HEADS, PAGE, D])?;
    let mut v = device.zeros::<bf16, 4>([pages, KEY_HEADS, PAGE, D])?;
    fill(&mut k, 1)?;
    fill(&mut v, 2)?;
    // Pages of a sequence lie apart, as they do in a cache that sequences have come to and left.
    let table: Vec<u32> = (0..pages).map(|i| ((i * 7919) % pages) as u32).collect();
    let table = device.tensor(&table, [copies * batch, each])?;
    let first = device.tensor(&(0..=batch as u32).collect::<Vec<_>>(), [batch + 1])?;
    let lengths = device.tensor(&vec![keys as u32; batch], [batch])?;
    let q = device.tensor(&noise(batch * HEADS * D, 3), [batch, HEADS, D])?;
    let mut o = device.zeros::<bf16, 3>([batch, HEADS, D])?;
    let clusters = std::env::args().any(|argument| argument == "--clusters");
    let mut launch = |on: &Stream, copy: usize| -> Result<(), Error> {
        let pages = table.rows(copy * batch..(copy + 1) * batch)?;
        let batch = Batch { pages, first: &first, lengths: &lengths };
        Ok(decode(on, &q, &k, &v, batch, &mut o, Decode { splits, clusters, ..Decode::default() })?)
    };
    launch(&device.stream()?, 0)?;
    device.synchronize()?;
    let graph = device.capture(|stream| (0..copies).try_for_each(|copy| launch(stream, copy)))?;
    graph.launch()?;
    device.synchronize()?;
    let mut times = Vec::new();
    for _ in 0..9 {
        let start = Instant::now();
        graph.launch()?;
        device.synchronize()?;
        times.push(start.elapsed().as_secs_f64() * 1e6 / copies as f64);
    }
    ensure!(o.to_vec()?.iter().all(|value| value.is_finite()), "the result is not finite");
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
