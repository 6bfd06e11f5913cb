//! Attention in one kernel: queries stay, keys and values come through a ring, and what is between two products never leaves
//! the registers. On Hopper a producer, and consumers that multiply with wgmma, the second time from registers.

use tile_ir::ir::Target;
use tile_ir::lowered::visit::each;
use tile_ir::lowered::{OpKind, Program, RemarkKind, WgmmaOperand};
use tile_kernel_examples::devices::devices;
use tile_kernels::attention::parts::softmax_step;
use tile_runtime::prelude::*;

/// `o = softmax(scale q k^T) v`, a head a row of blocks. `scale` is of powers of two: log2(e) / sqrt(D).
#[tile_kernel(
    instances((BM, BN, D, THREADS) in [(64, 64, 64, 128), (128, 128, 64, 256), (128, 128, 128, 256)], STAGES = 2),
    dtypes(T in [f16, bf16]),
    uses(softmax_step)
)]
pub fn attention<
    T: Half,
    const BM: usize,
    const BN: usize,
    const D: usize,
    const THREADS: usize,
    const STAGES: usize,
>(
    q: &Tensor<T, (H, M, D)>,
    k: &Tensor<T, (H, N, D)>,
    v: &Tensor<T, (H, N, D)>,
    o: &mut Tensor<T, (H, M, D)>,
    scale: f32,
) {
    let [b, h] = blocks([ceil_div(M, BM), H]);
    threads([THREADS]);
    let mut q_s = alloc_shared::<T>([BM, D]);
    let mut k_s = alloc_shared::<T>([BN, D]);
    let mut v_s = alloc_shared::<T>([BN, D]);
    let mut scores = alloc_fragment::<f32>([BM, BN]);
    let mut weights = alloc_fragment::<T>([BM, BN]);
    let mut acc = alloc_fragment::<f32>([BM, D]);
    let mut most = alloc_fragment::<f32>([BM]);
    let mut here = alloc_fragment::<f32>([BM]);
    let mut shrink = alloc_fragment::<f32>([BM]);
    let mut total = alloc_fragment::<f32>([BM]);
    clear(&mut acc);
    clear(&mut total);
    fill(&mut most, f32::NEG_INFINITY);
    copy(q.at([h, b * BM, 0]), &mut q_s);
    for step in pipelined(0..ceil_div(N, BN), STAGES) {
        copy(k.at([h, step * BN, 0]), &mut k_s);
        copy(v.at([h, step * BN, 0]), &mut v_s);
        gemm(&q_s, k_s.t(), &mut scores).policy(FullRow).clear();
        if step * BN + BN > N {
            for [i, j] in parallel([BM, BN]) {
                if step * BN + j >= N {
                    scores[[i, j]] = f32::NEG_INFINITY;
                }
            }
        }
        softmax_step(&mut scores, &mut weights, &mut most, &mut here, &mut shrink, &mut total, &mut acc, scale);
        gemm(&weights, &v_s, &mut acc);
    }
    for [i] in parallel([BM]) {
        total[i] = 1.0 / total[i];
    }
    for [i, j] in parallel([BM, D]) {
        acc[[i, j]] *= total[i];
    }
    copy(&acc, o.at_mut([h, b * BM, 0]));
}

fn noise(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| (((i + seed) * 7919 % 100_003) as f32 * 0.37).sin() * 1.5).collect()
}

/// What a 16-bit type can do: its rounding, and the conversions.
trait Round: Sized + Copy {
    const EPSILON: f64;
    fn of(x: f32) -> Self;
    fn up(self) -> f64;
}

impl Round for f16 {
    const EPSILON: f64 = 1.0 / 2048.0;
    fn of(x: f32) -> f16 {
        f16::from_f32(x)
    }
    fn up(self) -> f64 {
        self.to_f64()
    }
}

impl Round for bf16 {
    const EPSILON: f64 = 1.0 / 256.0;
    fn of(x: f32) -> bf16 {
        bf16::from_f32(x)
    }
    fn up(self) -> f64 {
        self.to_f64()
    }
}

/// Attention in f64, from the rounded inputs.
fn reference<T: Round>([q, k, v]: [&[T]; 3], [heads, m, n, d]: [usize; 4]) -> Vec<f64> {
    let mut all = Vec::with_capacity(heads * m * d);
    for h in 0..heads {
        let (k, v) = (&k[h * n * d..][..n * d], &v[h * n * d..][..n * d]);
        for i in 0..m {
            let row = &q[(h * m + i) * d..][..d];
            let dot = |j: usize| row.iter().zip(&k[j * d..][..d]).map(|(a, b)| a.up() * b.up()).sum::<f64>();
            let scores: Vec<f64> = (0..n).map(|j| dot(j) / (d as f64).sqrt()).collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
            let total: f64 = weights.iter().sum();
            all.extend((0..d).map(|c| (0..n).map(|j| weights[j] * v[j * d + c].up()).sum::<f64>() / total));
        }
    }
    all
}

/// Runs an instance on every device. A weight is at most 1 and rounded once, which moves a mean of values by at most
/// epsilon times the largest; so does rounding the result. What exponentials and sums of f32 add is far below.
macro_rules! agrees {
    ($T:ident, $BM:literal, $BN:literal, $D:literal, $THREADS:literal, $shapes:expr) => {
        for [heads, m, n] in $shapes {
            let sizes = [heads * m * $D, heads * n * $D, heads * n * $D];
            let [q, k, v] =
                [0, 1, 2].map(|i| noise(sizes[i], 1000 * i).into_iter().map(<$T as Round>::of).collect::<Vec<_>>());
            let wanted = reference([&q, &k, &v], [heads, m, n, $D]);
            let largest = v.iter().map(|x| x.up().abs()).fold(0.0, f64::max);
            let bound = 2.0 * <$T as Round>::EPSILON * largest + 1e-4;
            for device in devices() {
                let on = |x: &[$T], rows: usize| device.tensor(x, [heads, rows, $D]).unwrap();
                let (q, k, v) = (on(&q, m), on(&k, n), on(&v, n));
                // Poisoned: every element must be written.
                let mut o = device.tensor(&vec![<$T as Round>::of(f32::NAN); heads * m * $D], [heads, m, $D]).unwrap();
                let scale = std::f32::consts::LOG2_E / ($D as f32).sqrt();
                attention::<$T, $BM, $BN, $D, $THREADS, 2>::launch(&device, &q, &k, &v, &mut o, scale).unwrap();
                let found = o.to_vec().unwrap();
                for (at, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                    let error = (found.up() - wanted).abs();
                    assert!(error <= bound, "{heads} x {m} x {n}, element {at}: {found} for {wanted}, bound {bound:e}");
                }
            }
        }
    };
}

#[test]
fn one_warpgroup() {
    agrees!(f16, 64, 64, 64, 128, [[1, 64, 64], [2, 70, 200], [1, 3, 1]]);
    agrees!(bf16, 64, 64, 64, 128, [[1, 65, 129]]);
}

#[test]
fn two_warpgroups() {
    agrees!(f16, 128, 128, 64, 256, [[1, 128, 128], [1, 130, 300]]);
    agrees!(bf16, 128, 128, 128, 256, [[1, 100, 260]]);
}

fn programs() -> Vec<Program> {
    let kernel = attention::<f16, 64, 64, 64, 128, 2>::definition().kernel().unwrap();
    kernel.instances.iter().map(|instance| tile_ir::lower::lower(kernel, instance, Target::Sm90a).unwrap()).collect()
}

#[test]
fn it_is_specialised_and_nothing_falls_back() {
    for program in programs() {
        let fallbacks: Vec<_> = program.remarks.iter().filter(|r| r.kind == RemarkKind::Fallback).collect();
        assert!(fallbacks.is_empty(), "{}: {fallbacks:?}", program.name);
        let (mut shared, mut registers, mut others) = (0, 0, 0);
        each(&program.body, &mut |op| match &op.kind {
            OpKind::Wgmma { a: WgmmaOperand::Descriptor(_), .. } => shared += 1,
            OpKind::Wgmma { a: WgmmaOperand::Registers(..), .. } => registers += 1,
            OpKind::Mma { .. } | OpKind::AsyncCopy { .. } => others += 1,
            _ => {}
        });
        assert!(shared > 0 && registers > 0 && others == 0, "{}: {shared}, {registers}, {others}", program.name);
        assert_eq!(program.tensor_maps.len(), 4, "{}", program.name);
        for text in [
            "`weights` is multiplied with wgmma from registers",
            "`q_s` is loaded once and stays",
            "software pipelined",
            "the loop adds up the rows of `scores` in four parts",
        ] {
            assert!(
                program.remarks.iter().any(|r| r.text.starts_with(text)),
                "{}: {:?}",
                program.name,
                program.remarks
            );
        }
    }
}

/// What the products of a launch cost is counted, whichever registers or arrays their operands are in.
#[test]
fn its_work_is_counted() {
    use tile_ir::explain::{Machine, Shape, explain};
    for program in programs() {
        let [heads, m, n] = [3.0, 256.0, 512.0];
        let [rows, depth] = [0, 2].map(|at| instance_constant(&program.name, at));
        let shape = Shape::dense(&program, &[("H", heads), ("M", m), ("N", n)]).unwrap();
        let report = explain(&program, &shape, &Machine::H200, None).unwrap();
        // Two products, and what comes between: a multiply-add an element of the scores and some a row.
        let products = 4.0 * heads * m * n * depth;
        let found = report.roofline.flops;
        assert!(found >= products && found <= products * 1.05, "{}: {found} of {products}", program.name);
        let read = |name: &str| report.tensors.iter().find(|t| t.name == name).unwrap().reads;
        // Queries once, keys and values once a block of queries.
        let blocks = m / rows;
        let wanted = [m, n * blocks, n * blocks].map(|rows| 2.0 * heads * rows * depth);
        assert_eq!(["q", "k", "v"].map(read), wanted, "{}", program.name);
    }
}

/// A constant of an instance, from its program's name: `attention_f16_BM_BN_D_THREADS_STAGES`.
fn instance_constant(name: &str, at: usize) -> f64 {
    name.split('_').nth(2 + at).unwrap().parse().unwrap()
}
