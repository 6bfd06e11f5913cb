//! Kernels that start before the previous one is done give the same bits as kernels that do not.

use crate::gpu;
use std::sync::{Mutex, PoisonError};
use tile_kernel_examples::data::{hash, normal};
use tile_kernels::gemm::{Gemm, gemm};
use tile_kernels::gemv::bulk::GemvBulkParams;
use tile_kernels::gemv::{Choice, Gemv, GemvElement, gemv};
use tile_runtime::Error;
use tile_runtime::prelude::*;

/// Whether kernels may start early is a switch of the process: one test at a time turns it.
static SWITCH: Mutex<()> = Mutex::new(());

/// `out = factor input`; reads `input` early.
#[tile_kernel(pdl(independent = [input]))]
pub fn scale(input: &Tensor<f32, (N,)>, out: &mut Tensor<f32, (N,)>, factor: f32) {
    let [b] = blocks([ceil_div(N, 256)]);
    let [t] = threads([256]);
    let i = b * 256 + t;
    if i < N {
        let value = input[i];
        out[i] = factor * value;
    }
}

/// `y = w + x`; reads `w` early, through L1.
#[tile_kernel(pdl(independent = [w]))]
pub fn add(w: &Tensor<f32, (N,)>, x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 256)]);
    let [t] = threads([256]);
    let i = b * 256 + t;
    if i < N {
        let weight = w[i];
        y[i] = weight + x[i];
    }
}

const LINKS: usize = 64;

/// Each of 64 times: A writes w, B is unrelated, C reads w early.
struct Chain {
    u: Tensor<f32, 1>,
    x: Tensor<f32, 1>,
    w: Tensor<f32, 1>,
    little: Tensor<f32, 1>,
    v: Tensor<f32, 1>,
    y: Tensor<f32, 2>,
}

impl Chain {
    fn new(device: &Device, n: usize, (u, x): (&[f32], &[f32])) -> Result<Chain, Error> {
        Ok(Chain {
            u: device.tensor(u, [n])?,
            x: device.tensor(x, [n])?,
            w: device.zeros([n])?,
            little: device.zeros([100])?,
            v: device.zeros([100])?,
            y: device.tensor(&vec![f32::NAN; LINKS * n], [LINKS, n])?,
        })
    }

    fn launch(&mut self, stream: &Stream) -> Result<(), Error> {
        for link in 0..LINKS {
            scale::launch(stream, &self.u, &mut self.w, factor(link))?;
            scale::launch(stream, &self.little, &mut self.v, 2.0)?;
            add::launch(stream, &self.w, &self.x, self.y.row_mut(link)?)?;
        }
        Ok(())
    }
}

fn factor(link: usize) -> f32 {
    1.0 + link as f32 * 0.37
}

#[test]
fn a_tensor_written_two_kernels_before_is_read_early_and_whole() {
    let Some(device) = gpu() else { return };
    let _switch = SWITCH.lock().unwrap_or_else(PoisonError::into_inner);
    let stream = device.stream().unwrap();
    for n in [1000, 1 << 16, 1 << 21] {
        let (u, x) = (normal::<f32>(1, n), normal::<f32>(2, n));
        let expected = |i: usize| factor(i / n) * u[i % n] + x[i % n];
        let mut chain = Chain::new(&device, n, (&u, &x)).unwrap();
        let check = |chain: &mut Chain, what: &str| {
            let y = chain.y.to_vec().unwrap();
            let wrong = y.iter().enumerate().find(|(i, y)| y.to_bits() != expected(*i).to_bits());
            assert_eq!(wrong, None, "{what}, {n} elements");
            chain.y.write(&vec![f32::NAN; LINKS * n]).unwrap();
        };
        // The first launch compiles, which a capture must not.
        chain.launch(&stream).unwrap();
        check(&mut chain, "first");
        for on in [false, true] {
            device.set_dependent_launch(on);
            let graph = device
                .capture(|stream| chain.launch(stream))
                .unwrap_or_else(|error| panic!("capture with dependent launch {on}: {error}"));
            for _ in 0..10 {
                chain.launch(&stream).unwrap();
                check(&mut chain, "on a stream");
                graph.launch_on(&stream).unwrap();
                check(&mut chain, "in a graph");
            }
        }
    }
    device.set_dependent_launch(true);
}

/// A chain of products, each of the previous one's result: y = W63 ( .. (W0 x)).
#[test]
fn dependent_chains_of_products_give_the_same_bits() {
    let Some(device) = gpu() else { return };
    for n in [256, 1024, 2056, 4096] {
        chain_of_products(&device, n, |on, w, x, y, scalars| Ok(gemv(on, w, x, y, scalars)?));
    }
}

/// A chain of products where shared memory fills with the next product's weights while one drains.
#[test]
fn so_do_chains_whose_weights_come_by_bulk_copies() {
    let Some(device) = gpu() else { return };
    for n in [256, 1024, 2056, 4096] {
        for (span, stages, rows) in [(4, 1, 4), (2, 6, 16)] {
            let params = GemvBulkParams { WARPS: 4, SPAN: span, STAGES: stages, ROWS: rows, VEC: 8 };
            let choice = Choice::Bulk(params);
            chain_of_products(&device, n, |on, w, x, y, scalars| Ok(f16::launch(on, choice, w, x, y, scalars)?));
        }
    }
}

fn chain_of_products(
    device: &Device,
    n: usize,
    product: impl Fn(&Stream, &Tensor<f16, 2>, &Tensor<f16, 1>, &mut Tensor<f16, 1>, Gemv) -> Result<(), Error>,
) {
    let _switch = SWITCH.lock().unwrap_or_else(PoisonError::into_inner);
    let stream = device.stream().unwrap();
    let weights: Vec<Tensor<f16, 2>> =
        (0..4).map(|seed| device.tensor(&normal::<f16>(seed, n * n), [n, n]).unwrap()).collect();
    let scalars = Gemv { alpha: 1.0 / (n as f32).sqrt(), beta: 0.0 };
    let start = normal::<f16>(9, n);
    let mut vectors: Vec<Tensor<f16, 1>> = (0..=LINKS).map(|_| device.tensor(&start, [n]).unwrap()).collect();
    let mut launch = |stream: &Stream| -> Result<(), Error> {
        for link in 0..LINKS {
            let (before, after) = vectors.split_at_mut(link + 1);
            product(stream, &weights[link % weights.len()], &before[link], &mut after[0], scalars)?;
        }
        Ok(())
    };
    device.set_dependent_launch(false);
    // The first launch compiles, which a capture must not.
    launch(&stream).unwrap();
    let plain = device.capture(&mut launch).unwrap();
    device.set_dependent_launch(true);
    let early = device.capture(&mut launch).unwrap();
    let all = |vectors: &[Tensor<f16, 1>]| -> Vec<u64> { vectors.iter().map(|v| hash(&v.to_vec().unwrap())).collect() };
    plain.launch_on(&stream).unwrap();
    let reference = all(&vectors);
    for round in 0..20 {
        // What was there before must not look like a result.
        vectors.iter_mut().skip(1).for_each(|v| v.write(&start).unwrap());
        early.launch_on(&stream).unwrap();
        assert_eq!(all(&vectors), reference, "{n}: graph, round {round}");
        vectors.iter_mut().skip(1).for_each(|v| v.write(&start).unwrap());
        for link in 0..LINKS {
            let (before, after) = vectors.split_at_mut(link + 1);
            product(&stream, &weights[link % weights.len()], &before[link], &mut after[0], scalars).unwrap();
        }
        assert_eq!(all(&vectors), reference, "{n}: stream, round {round}");
    }
}

/// A prepared launch and its graph do what the launch does, and keep what they use.
#[test]
fn prepared_launches_repeat() {
    let Some(device) = gpu() else { return };
    let (u, n) = (normal::<f32>(3, 5000), 5000);
    let input = device.tensor(&u, [n]).unwrap();
    let mut out = device.zeros::<f32, 1>([n]).unwrap();
    let prepared = scale::prepare(&device, &input, &mut out, 3.0).unwrap();
    let graph = prepared.graph().unwrap();
    drop(input);
    let expected: Vec<f32> = u.iter().map(|u| 3.0 * u).collect();
    for round in 0..6 {
        out.write(&vec![f32::NAN; n]).unwrap();
        match round % 3 {
            0 => prepared.launch().unwrap(),
            1 => graph.launch().unwrap(),
            _ => prepared.launch_on(&device.stream().unwrap()).unwrap(),
        }
        assert_eq!(out.to_vec().unwrap(), expected, "round {round}");
    }
}

/// A chain of products of few rows, x_{i+1} = x_i W_i^T / sqrt(n): each begins with its weights while the one before still
/// writes what it multiplies them with.
#[test]
fn dependent_chains_of_gemms_give_the_same_bits() {
    let Some(device) = gpu() else { return };
    let _switch = SWITCH.lock().unwrap_or_else(PoisonError::into_inner);
    let stream = device.stream().unwrap();
    // Rows, columns: tiles of 8, 16, 32 and 64 rows, clusters of larger ones, and turns.
    for (m, n) in
        [(1, 1024), (5, 7168), (16, 7168), (16, 4096), (32, 4096), (24, 2056), (64, 4096), (128, 4096), (1024, 2048)]
    {
        let weights: Vec<Tensor<bf16, 2>> =
            (0..4).map(|seed| device.tensor(&normal::<bf16>(seed, n * n), [n, n]).unwrap()).collect();
        let options = Gemm { alpha: 1.0 / (n as f32).sqrt(), ..Gemm::nt() };
        let start = normal::<bf16>(9, m * n);
        let links = if m > 64 { 16 } else { 32 };
        let mut tensors: Vec<Tensor<bf16, 2>> = (0..=links).map(|_| device.tensor(&start, [m, n]).unwrap()).collect();
        let mut launch = |stream: &Stream| -> Result<(), Error> {
            for link in 0..links {
                let (before, after) = tensors.split_at_mut(link + 1);
                gemm(stream, &before[link], &weights[link % weights.len()], &mut after[0], &options)?;
            }
            Ok(())
        };
        device.set_dependent_launch(false);
        // The first launch compiles, which a capture must not.
        launch(&stream).unwrap();
        let plain = device.capture(&mut launch).unwrap();
        device.set_dependent_launch(true);
        let early = device.capture(&mut launch).unwrap();
        let all = |all: &[Tensor<bf16, 2>]| -> Vec<u64> { all.iter().map(|t| hash(&t.to_vec().unwrap())).collect() };
        plain.launch_on(&stream).unwrap();
        let reference = all(&tensors);
        assert!(reference.windows(2).all(|pair| pair[0] != pair[1]), "{m} x {n}: a link did nothing");
        for round in 0..10 {
            // What was there before must not look like a result.
            tensors.iter_mut().skip(1).for_each(|t| t.write(&start).unwrap());
            early.launch_on(&stream).unwrap();
            assert_eq!(all(&tensors), reference, "{m} x {n}: graph, round {round}");
            tensors.iter_mut().skip(1).for_each(|t| t.write(&start).unwrap());
            for link in 0..links {
                let (before, after) = tensors.split_at_mut(link + 1);
                gemm(&stream, &before[link], &weights[link % weights.len()], &mut after[0], &options).unwrap();
            }
            assert_eq!(all(&tensors), reference, "{m} x {n}: stream, round {round}");
        }
    }
}
