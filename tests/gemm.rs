//! Products of tiles on the fast simulator, against a product on the CPU: layouts, epilogues, ragged shapes, grids.

use std::time::Instant;
use tile_kernel_examples::data::{Real, integers, normal};
use tile_kernel_examples::devices::devices;
use tile_kernel_examples::gemm::product;
use tile_runtime::prelude::*;

/// C = A B^T, f32 accumulation.
#[tile_kernel(instances((BM, BN, BK) in [(64, 64, 32), (128, 32, 16), (128, 128, 64)], STAGES = 3))]
pub fn gemm_nt<T: Half, const BM: usize, const BN: usize, const BK: usize, const STAGES: usize>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    c: &mut Tensor<T, (M, N)>,
) {
    let [bx, by] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([2 * BM]);
    use_swizzle(8);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, BK), STAGES) {
        copy(a.at([by * BM, k * BK]), &mut a_s);
        copy(b.at([bx * BN, k * BK]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([by * BM, bx * BN]));
}

/// C = op(A) op(B): every layout, in f32 and 16 bits, over persistent clusters.
#[tile_kernel(instances(A_T in [false, true], B_T in [false, true]))]
pub fn gemm_any<T: Float, const A_T: bool, const B_T: bool>(
    a: &Tensor<T, (A0, A1)>,
    b: &Tensor<T, (B0, B1)>,
    c: &mut Tensor<f32, (M, N)>,
    depth: usize,
) {
    threads([128]);
    cluster([2, 1]);
    use_swizzle(2);
    let mut a_s = alloc_shared::<T>([64, 32]).swizzle(B64);
    let mut a_t = alloc_shared::<T>([32, 64]).swizzle(Auto);
    let mut b_s = alloc_shared::<T>([32, 32]).swizzle(None);
    let mut acc = alloc_fragment::<f32>([64, 32]);
    for [bx, by] in persistent([ceil_div(N, 32), ceil_div(M, 64)]).per_sm(1).contiguous() {
        clear(&mut acc);
        if A_T && B_T {
            for k in pipelined(0..ceil_div(depth, 32), 2).schedule(Cooperative) {
                copy(a.at([k * 32, by * 64]), &mut a_t).tma(false);
                copy(b.at([bx * 32, k * 32]), &mut b_s).evict(First);
                gemm(a_t.t(), b_s.t(), &mut acc);
            }
        } else if A_T {
            for k in pipelined(0..ceil_div(depth, 32), 4) {
                copy(a.at([k * 32, by * 64]), &mut a_t);
                copy(b.at([k * 32, bx * 32]), &mut b_s);
                gemm(a_t.t(), &b_s, &mut acc).policy(FullRow);
            }
        } else {
            for k in 0..ceil_div(depth, 32) {
                copy(a.at([by * 64, k * 32]), &mut a_s);
                if B_T {
                    copy(b.at([bx * 32, k * 32]), &mut b_s);
                    gemm(&a_s, b_s.t(), &mut acc);
                } else {
                    copy(b.at([k * 32, bx * 32]), &mut b_s);
                    gemm(&a_s, &b_s, &mut acc);
                }
            }
        }
        copy(&acc, c.at_mut([by * 64, bx * 32]));
    }
}

/// C = relu(alpha A B^T + bias), through a shared array; the first product starts the sum.
#[tile_kernel]
pub fn gemm_bias(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    bias: Option<&Tensor<f16, (N,)>>,
    c: &mut Tensor<f16, (M, N)>,
    alpha: f32,
) {
    let [bx, by] = blocks([ceil_div(N, 32), ceil_div(M, 32)]);
    threads([64]);
    let mut a_s = alloc_shared::<f16>([32, 32]);
    let mut b_s = alloc_shared::<f16>([32, 32]);
    let mut c_s = alloc_shared::<f16>([32, 32]);
    let mut acc = alloc_fragment::<f32>([32, 32]);
    copy(a.at([by * 32, 0]), &mut a_s);
    copy(b.at([bx * 32, 0]), &mut b_s);
    gemm(&a_s, b_s.t(), &mut acc).clear();
    for k in pipelined(1..ceil_div(K, 32), 2) {
        copy(a.at([by * 32, k * 32]), &mut a_s);
        copy(b.at([bx * 32, k * 32]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    for [i, j] in parallel([32, 32]) {
        acc[[i, j]] *= alpha;
        let shift = if let Some(v) = bias { v.masked([bx * 32 + j]).cast::<f32>() } else { 0.0 };
        acc[[i, j]] = max(acc[[i, j]] + shift, 0.0);
    }
    copy(&acc, &mut c_s);
    if let Some(_) = bias {
        copy(&c_s, c.at_mut([by * 32, bx * 32]));
    } else {
        copy(&acc, c.at_mut([by * 32, bx * 32]));
    }
}

/// Branches on scalars, on elements and on indices, variables of each kind, and what keeps statements from going one by
/// one (`LOOP`), in a loop over two chunks of a fragment.
#[tile_kernel(instances(LOOP in [false, true]))]
pub fn elementwise<const LOOP: bool>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>, mode: u32, scale: f32) {
    let [bx, by] = blocks([ceil_div(N, 32), ceil_div(M, 64)]);
    threads([64]);
    let mut acc = alloc_fragment::<f32>([64, 32]);
    copy(x.at([by * 64, bx * 32]), &mut acc);
    for [i, j] in parallel([64, 32]) {
        let at = bx * 32 + j;
        let old = acc[[i, j]];
        let mut value = old * scale;
        let mut bonus = 0.0f32;
        if mode == 1 {
            let twice = value * 2.0;
            value = twice + 1.0;
            if old > 0.0 {
                bonus = 3.0;
            }
        } else if mode == 2 {
            if at % 2 == 0 {
                value = -value;
            } else {
                bonus = old;
            }
            value += x.masked([by * 64 + i, at]);
        }
        if LOOP {
            for n in 0..3 {
                if value < 2.0 {
                    value += (n as i32).cast::<f32>();
                }
            }
        }
        if value < 0.0 {
            bonus += 1.0;
        }
        acc[[i, j]] = value + bonus;
    }
    copy(&acc, y.at_mut([by * 64, bx * 32]));
}

const SHAPES: [[usize; 3]; 4] = [[64, 64, 64], [100, 72, 40], [1, 1, 1], [129, 33, 130]];

#[test]
fn the_twenty_line_kernel() {
    let device = Device::simulator();
    for [m, n, k] in SHAPES {
        let (a, b) = (integers::<f16>(1, m * k, 3), integers::<f16>(2, n * k, 3));
        let (da, db) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
        let wanted: Vec<f16> = product(&a, &b, [m, n, k], [false, true]).into_iter().map(f16::from_f32).collect();
        let mut dc = device.zeros::<f16, _>([m, n]).unwrap();
        gemm_nt::<f16, 64, 64, 32, 3>::launch(&device, &da, &db, &mut dc).unwrap();
        assert_eq!(dc.to_vec().unwrap(), wanted, "{m} {n} {k}");
        let mut dc = device.zeros::<f16, _>([m, n]).unwrap();
        gemm_nt::<f16, 128, 32, 16, 3>::launch(&device, &da, &db, &mut dc).unwrap();
        assert_eq!(dc.to_vec().unwrap(), wanted, "{m} {n} {k}");
    }
}

fn every_layout<T: Real + tile_runtime::kernel::Element>(
    launch: impl Fn(&Device, [bool; 2], &Tensor<T, 2>, &Tensor<T, 2>, &mut Tensor<f32, 2>, usize),
) {
    let device = Device::simulator();
    for [m, n, k] in SHAPES {
        for transposed @ [a_t, b_t] in [[false, false], [false, true], [true, false], [true, true]] {
            let (a, b) = (integers::<T>(3, m * k, 4), integers::<T>(4, n * k, 4));
            let da = device.tensor(&a, if a_t { [k, m] } else { [m, k] }).unwrap();
            let db = device.tensor(&b, if b_t { [n, k] } else { [k, n] }).unwrap();
            let mut dc = device.zeros::<f32, _>([m, n]).unwrap();
            launch(&device, transposed, &da, &db, &mut dc, k);
            assert_eq!(dc.to_vec().unwrap(), product(&a, &b, [m, n, k], transposed), "{m} {n} {k} {transposed:?}");
        }
    }
}

macro_rules! any {
    ($ty:ty) => {
        every_layout::<$ty>(|device, transposed, a, b, c, k| {
            match transposed {
                [false, false] => gemm_any::<$ty, false, false>::launch(device, a, b, c, k),
                [false, true] => gemm_any::<$ty, false, true>::launch(device, a, b, c, k),
                [true, false] => gemm_any::<$ty, true, false>::launch(device, a, b, c, k),
                [true, true] => gemm_any::<$ty, true, true>::launch(device, a, b, c, k),
            }
            .unwrap()
        })
    };
}

#[test]
fn nn_nt_tn_tt_persistent_in_clusters() {
    any!(f16);
    any!(bf16);
    any!(f32);
}

#[test]
fn an_epilogue_with_an_optional_bias() {
    let device = Device::simulator();
    for [m, n, k] in SHAPES {
        let (a, b, v) = (integers::<f16>(5, m * k, 3), integers::<f16>(6, n * k, 3), integers::<f16>(7, n, 8));
        let (da, db) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
        let dv = device.tensor(&v, [n]).unwrap();
        for bias in [Some(&dv), None] {
            let mut dc = device.zeros::<f16, _>([m, n]).unwrap();
            gemm_bias::launch(&device, &da, &db, bias, &mut dc, 0.5).unwrap();
            let sums = product(&a, &b, [m, n, k], [false, true]);
            let shift = |at: usize| if bias.is_some() { v[at % n].to_f32() } else { 0.0 };
            let wanted = sums.iter().enumerate().map(|(at, sum)| f16::from_f32((0.5 * sum + shift(at)).max(0.0)));
            assert_eq!(dc.to_vec().unwrap(), wanted.collect::<Vec<_>>(), "{m} {n} {k}");
        }
    }
}

/// A tensor that is not optional cannot be left out, and what is checked is checked with and without the optional one.
#[test]
fn a_bias_of_the_wrong_length() {
    let device = Device::simulator();
    let a = device.zeros::<f16, _>([32, 32]).unwrap();
    let b = device.zeros::<f16, _>([32, 32]).unwrap();
    let mut c = device.zeros::<f16, _>([32, 32]).unwrap();
    let short = device.zeros::<f16, _>([31]).unwrap();
    let error = gemm_bias::launch(&device, &a, &b, Some(&short), &mut c, 1.0).unwrap_err().to_string();
    assert!(error.contains("31") && error.contains("32"), "{error}");
    gemm_bias::launch(&device, &a, &b, None, &mut c, 1.0).unwrap();
}

/// What R8 asks of the simulator: 1024^3 in three seconds on two cores. Run with `--release -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn a_thousand_cubed() {
    let device = Device::simulator();
    let size = 1024;
    let (a, b) = (normal::<f16>(1, size * size), normal::<f16>(2, size * size));
    let (da, db) = (device.tensor(&a, [size, size]).unwrap(), device.tensor(&b, [size, size]).unwrap());
    let mut dc = device.zeros::<f16, _>([size, size]).unwrap();
    let start = Instant::now();
    gemm_nt::<f16, 128, 128, 64, 3>::launch(&device, &da, &db, &mut dc).unwrap();
    println!("{size}^3 in {:?}", start.elapsed());
}

#[test]
fn a_loop_over_the_elements_of_a_fragment() {
    let (m, n) = (70, 45);
    let x = integers::<f32>(1, m * n, 5);
    let wanted = |mode: u32, at: usize, repeated: bool| {
        let old = x[at];
        let (mut value, mut bonus) = (old * 0.5, 0.0);
        match mode {
            1 => {
                value = value * 2.0 + 1.0;
                bonus = if old > 0.0 { 3.0 } else { 0.0 };
            }
            2 if (at % n).is_multiple_of(2) => value = old - value,
            2 => (value, bonus) = (value + old, old),
            _ => {}
        }
        for step in 0..if repeated { 3 } else { 0 } {
            if value < 2.0 {
                value += step as f32;
            }
        }
        if value < 0.0 { value + bonus + 1.0 } else { value + bonus }
    };
    for device in [Device::simulator(), Device::checked_simulator()] {
        let dx = device.tensor(&x, [m, n]).unwrap();
        for (mode, repeated) in [(0, false), (1, false), (2, false), (0, true), (1, true), (2, true)] {
            let mut dy = device.zeros::<f32, _>([m, n]).unwrap();
            match repeated {
                true => elementwise::<true>::launch(&device, &dx, &mut dy, mode, 0.5).unwrap(),
                false => elementwise::<false>::launch(&device, &dx, &mut dy, mode, 0.5).unwrap(),
            }
            let all: Vec<f32> = (0..m * n).map(|at| wanted(mode, at, repeated)).collect();
            assert!(dy.to_vec().unwrap() == all, "mode {mode}, {repeated}");
        }
    }
}

/// Counts how often each tile of a grid of three axes is worked on, in an order that the shape decides.
#[tile_kernel]
pub fn visits(seen: &mut Tensor<f32, (Z, Y, X)>) {
    let [t] = threads([32]);
    use_swizzle(if Y > 4 { 3 } else { 0 });
    for [bx, by, bz] in persistent([X, Y, Z]) {
        if t == 0 {
            seen[[bz, by, bx]] += 1.0;
        }
    }
}

#[test]
fn every_tile_has_its_turn() {
    for device in devices() {
        for shape in [[1, 1, 1], [2, 5, 3], [3, 4, 7], [2, 13, 11]] {
            let mut seen = device.zeros::<f32, _>(shape).unwrap();
            visits::launch(&device, &mut seen).unwrap();
            assert_eq!(seen.to_vec().unwrap(), vec![1.0; shape.iter().product()], "{shape:?}");
        }
    }
}
