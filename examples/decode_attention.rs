//! Decode attention by batch and length of the context: 64 heads of queries, 8 of keys, D = 128, bf16, one query a sequence. Ordinary
//! launches in a graph, each with keys and values of its own, more of them than the L2 holds.
//!
//! ```console
//! $ cargo run --release --example decode_attention
//! $ cargo run --release --example decode_attention -- --in-order    # pages of a sequence one behind the other: what PyTorch's attention reads
//! $ cargo run --release --example decode_attention -- --sweep    # sequences cut into every number of parts, too
//! $ cargo run --release --example decode_attention -- --variants    # the kernel's instances, compared with f32 on the host first; the best 6
//! $ python3 bench/decode_attention.py    # PyTorch's attention, on the same machine
//! ```

use anyhow::{Result, anyhow, ensure};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tile_kernels::attention::decode_kernel::{DecodeParams, decode as kernel};
use tile_kernels::attention::{Batch, Decode, decode};
use tile_runtime::kernel::LaunchOn;
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
const ROUNDS: usize = 9;

fn main() -> Result<()> {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => {
            println!("nothing to measure without a GPU: {error}");
            return Ok(());
        }
    };
    device.set_dependent_launch(false);
    let is = |flag: &str| std::env::args().any(|argument| argument == flag);
    if is("--variants") {
        return variants(&device);
    }
    println!("{device}\n\n| batch, keys | us | TB/s | of the ceiling |\n|---|---:|---:|---:|");
    for (batch, keys) in SHAPES {
        let bytes = batch * keys * KEY_HEADS * D * 2 * 2;
        let row = Row::new(&device, batch, keys, is("--in-order"))?;
        let time = |splits| -> Result<f64> {
            let mut all = row.times(&device, &[()], |on, copy, o, ()| {
                let batch = Batch { pages: row.pages(copy)?, first: &row.first, lengths: &row.lengths };
                let options = Decode { splits, ..Decode::default() };
                Ok(decode(on, &row.q, &row.k, &row.v, batch, o, options)?)
            })?;
            all.pop().ok_or_else(|| anyhow!("nothing was timed"))
        };
        let us = time(None)?;
        let share = 100.0 * bytes as f64 / CEILING / us;
        println!("| {batch}, {keys} | {us:.2} | {:.2} | {share:.0}% |", bytes as f64 / us / 1e6);
        for splits in [1, 2, 4, 8, 16, 32].into_iter().filter(|_| is("--sweep")) {
            println!("| in {splits} parts | {:.2} | | |", time(Some(splits))?);
        }
    }
    Ok(())
}

/// Compares instances with the host, times them, and says of each shape which are the fastest and which one `decode` takes.
fn variants(device: &Device) -> Result<()> {
    println!("{device}\n\n| batch, keys | us | WARPS, STAGES, SPLITS, CLUSTER, ROWS |\n|---|---:|---|");
    for (batch, keys) in SHAPES {
        let row = Row::new(device, batch, keys, false)?;
        let taken = Decode::default().params::<bf16>(device, [HEADS, KEY_HEADS, D], [batch, keys.div_ceil(PAGE), PAGE]);
        let mut tried = candidates(batch);
        if !tried.contains(&taken) {
            tried.push(taken);
        }
        let tried = row.compile(device, &tried)?;
        row.check(device, &tried)?;
        let launch = |on: &Stream, copy, o: &mut Tensor<bf16, 3>, params: &DecodeParams| {
            row.launch(device, on, copy, &row.lengths, o, *params)
        };
        let times = row.times(device, &tried, launch)?;
        let mut ranked: Vec<_> = times.into_iter().zip(tried).collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (place, (us, params)) in ranked.into_iter().enumerate() {
            let DecodeParams { WARPS, STAGES, SPLITS, CLUSTER, ROWS, .. } = params;
            if place < 6 || params == taken {
                let mark = if params == taken { " (taken)" } else { "" };
                println!("| {batch}, {keys} | {us:.2} | {WARPS}, {STAGES}, {SPLITS}, {CLUSTER}, {ROWS}{mark} |");
            }
        }
    }
    Ok(())
}

/// Instances that may be the fastest for so many sequences.
fn candidates(batch: usize) -> Vec<DecodeParams> {
    // WARPS, STAGES, SPLITS and CLUSTER.
    let all: &[[usize; 4]] = match batch {
        1 => &[
            [4, 2, 32, 1],
            [4, 2, 16, 1],
            [4, 3, 16, 1],
            [4, 3, 8, 1],
            [4, 5, 8, 8],
            [4, 5, 4, 4],
            [8, 2, 8, 8],
            [8, 2, 4, 4],
        ],
        8 => &[
            [4, 2, 2, 1],
            [4, 2, 4, 1],
            [4, 3, 4, 1],
            [4, 5, 2, 2],
            [4, 5, 4, 4],
            [4, 5, 8, 8],
            [8, 2, 2, 2],
            [8, 2, 4, 4],
        ],
        _ => &[[4, 2, 1, 1], [4, 2, 2, 1], [4, 5, 2, 2], [8, 2, 2, 2]],
    };
    let params = |&[warps, stages, splits, cluster]: &[usize; 4]| {
        [8, 16].map(|rows| DecodeParams {
            D,
            BN: 16,
            WARPS: warps,
            STAGES: stages,
            SPLITS: splits,
            CLUSTER: cluster,
            ROWS: rows,
        })
    };
    all.iter().flat_map(params).collect()
}

/// Sequences of one length, in as many copies as a round of launches reads.
struct Row {
    batch: usize,
    keys: usize,
    copies: usize,
    k: Tensor<bf16, 4>,
    v: Tensor<bf16, 4>,
    table: Tensor<u32, 2>,
    first: Tensor<u32, 1>,
    lengths: Tensor<u32, 1>,
    q: Tensor<bf16, 3>,
    /// What the tensors were made of: two pages of keys and of values, of which each page has a window of its own, and the queries.
    noise: [Vec<bf16>; 3],
}

impl Row {
    fn new(device: &Device, batch: usize, keys: usize, in_order: bool) -> Result<Row> {
        let copies = ROUND.div_ceil(batch * keys * KEY_HEADS * D * 2 * 2).max(4);
        let each = keys.div_ceil(PAGE);
        let pages = copies * batch * each;
        let noise = |count: usize, seed: u64| tile_kernel_examples::data::normal::<bf16>(seed, count);
        let noise =
            [noise(2 * KEY_HEADS * PAGE * D, 1), noise(2 * KEY_HEADS * PAGE * D, 2), noise(batch * HEADS * D, 3)];
        let filled = |noise: &[bf16]| -> Result<Tensor<bf16, 4>> {
            let mut tensor = device.zeros::<bf16, 4>([pages, KEY_HEADS, PAGE, D])?;
            for page in 0..pages {
                tensor.rows_mut(page..page + 1)?.write(&noise[window(page)..][..KEY_HEADS * PAGE * D])?;
            }
            Ok(tensor)
        };
        let (k, v) = (filled(&noise[0])?, filled(&noise[1])?);
        let page = |place| if in_order { place } else { page_number(place, pages) };
        let table: Vec<u32> = (0..pages).map(|place| page(place) as u32).collect();
        Ok(Row {
            batch,
            keys,
            copies,
            k,
            v,
            table: device.tensor(&table, [copies * batch, each])?,
            first: device.tensor(&(0..=batch as u32).collect::<Vec<_>>(), [batch + 1])?,
            lengths: device.tensor(&vec![keys as u32; batch], [batch])?,
            q: device.tensor(&noise[2], [batch, HEADS, D])?,
            noise,
        })
    }

    /// The tables of the sequences of a copy.
    fn pages(&self, copy: usize) -> Result<TensorView<'_, u32, 2>, Error> {
        self.table.rows(copy * self.batch..(copy + 1) * self.batch)
    }

    fn launch(
        &self,
        device: &Device,
        on: &impl LaunchOn,
        copy: usize,
        lengths: &Tensor<u32, 1>,
        o: &mut Tensor<bf16, 3>,
        params: DecodeParams,
    ) -> Result<(), Error> {
        let scale = (std::f64::consts::LOG2_E / (D as f64).sqrt()) as f32;
        let kernel = kernel::<bf16>::instance(device, params)?;
        Ok(kernel.launch_on(on, &self.q, &self.k, &self.v, self.pages(copy)?, &self.first, lengths, o, scale, 1)?)
    }

    /// Compiles instances, several at once, and gives those that the device runs.
    fn compile(&self, device: &Device, all: &[DecodeParams]) -> Result<Vec<DecodeParams>> {
        let next = AtomicUsize::new(0);
        let work = || -> Result<()> {
            let mut o = device.zeros::<bf16, 3>([self.batch, HEADS, D])?;
            while let Some(&params) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                // An instance that cannot be compiled fails again in the loop below, which prints why.
                let _ = self.launch(device, device, 0, &self.lengths, &mut o, params);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|t| t.join().unwrap_or_else(|_| Err(anyhow!("a compiling thread died"))))
        })?;
        let mut o = device.zeros::<bf16, 3>([self.batch, HEADS, D])?;
        let mut runs = Vec::new();
        for &params in all {
            match self.launch(device, device, 0, &self.lengths, &mut o, params) {
                Ok(()) => runs.push(params),
                Err(error) => println!("not run: {params:?}: {error}"),
            }
        }
        device.synchronize()?;
        Ok(runs)
    }

    /// Compares the results of instances with attention in f32 on the host: of the last sequence, of heads that share two heads of keys, of whole sequences
    /// and of shorter ones.
    fn check(&self, device: &Device, all: &[DecodeParams]) -> Result<()> {
        for (copy, keys) in [(1, self.keys), (2, self.keys - 77)] {
            let lengths = device.tensor(&vec![keys as u32; self.batch], [self.batch])?;
            let group = HEADS / KEY_HEADS;
            let heads = (group..2 * group).chain(HEADS - group..HEADS);
            let wanted: Vec<(usize, Vec<f32>)> = heads.map(|head| (head, self.attend(copy, keys, head))).collect();
            let largest = wanted.iter().flat_map(|(_, o)| o).fold(0.0f32, |most, x| most.max(x.abs()));
            for params in all {
                let mut o =
                    device.tensor(&vec![bf16::from_f32(f32::NAN); self.batch * HEADS * D], [self.batch, HEADS, D])?;
                self.launch(device, device, copy, &lengths, &mut o, *params)?;
                let found = o.to_vec()?;
                for (head, wanted) in &wanted {
                    let found = &found[((self.batch - 1) * HEADS + head) * D..][..D];
                    let apart = found.iter().zip(wanted).map(|(a, b)| (a.to_f32() - b).abs());
                    let worst = apart.fold(0.0, |most: f32, x| if x <= most { most } else { x });
                    ensure!(
                        worst <= largest / 128.0,
                        "{}, {keys}, {params:?}: head {head} is off by {worst}, the largest result being {largest}",
                        self.batch
                    );
                }
            }
        }
        Ok(())
    }

    /// What a head of the last sequence of a copy gives, from what the tensors were made of.
    fn attend(&self, copy: usize, keys: usize, head: usize) -> Vec<f32> {
        let each = self.keys.div_ceil(PAGE);
        let pages = self.copies * self.batch * each;
        let sequence = copy * self.batch + self.batch - 1;
        let [k, v, q] = self.noise.each_ref().map(|x| x.as_slice());
        let q: Vec<f32> = q[((self.batch - 1) * HEADS + head) * D..][..D].iter().map(|x| x.to_f32()).collect();
        let at = |key: usize| {
            let in_page = (head / (HEADS / KEY_HEADS) * PAGE + key % PAGE) * D;
            window(page_number(sequence * each + key / PAGE, pages)) + in_page
        };
        let dot = |key: usize| q.iter().zip(&k[at(key)..][..D]).map(|(a, b)| a * b.to_f32()).sum::<f32>();
        let scores: Vec<f32> = (0..keys).map(|key| dot(key) / (D as f32).sqrt()).collect();
        let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let (mut sum, mut o) = (0.0, vec![0.0; D]);
        for (key, score) in scores.iter().enumerate() {
            let weight = (score - most).exp();
            sum += weight;
            o.iter_mut().zip(&v[at(key)..][..D]).for_each(|(o, v)| *o += weight * v.to_f32());
        }
        o.iter().map(|o| o / sum).collect()
    }

    /// Microseconds of a launch of each of some ways: the median of rounds of `copies` launches, the ways in turns.
    fn times<W>(
        &self,
        device: &Device,
        ways: &[W],
        launch: impl Fn(&Stream, usize, &mut Tensor<bf16, 3>, &W) -> Result<(), Error>,
    ) -> Result<Vec<f64>> {
        let mut o = device.zeros::<bf16, 3>([self.batch, HEADS, D])?;
        let mut graphs = Vec::new();
        for way in ways {
            launch(&device.stream()?, 0, &mut o, way)?;
            device.synchronize()?;
            graphs.push(
                device.capture(|stream| (0..self.copies).try_for_each(|copy| launch(stream, copy, &mut o, way)))?,
            );
        }
        let mut times = vec![Vec::new(); graphs.len()];
        for round in 0..=ROUNDS {
            for (graph, times) in graphs.iter().zip(&mut times) {
                let start = Instant::now();
                graph.launch()?;
                device.synchronize()?;
                if round > 0 {
                    times.push(start.elapsed().as_secs_f64() * 1e6 / self.copies as f64);
                }
            }
        }
        ensure!(o.to_vec()?.iter().all(|value| value.is_finite()), "the result is not finite");
        times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
        Ok(times.iter().map(|times| times[times.len() / 2]).collect())
    }
}

/// Where a page's keys or values begin in what the tensors are made of.
fn window(page: usize) -> usize {
    page * 7 % (PAGE - 1) * KEY_HEADS * D
}

/// Which page stands in a place of the tables: pages of a sequence lie apart, as they do in a cache that sequences have come to and left.
fn page_number(place: usize, pages: usize) -> usize {
    place * 7919 % pages
}
