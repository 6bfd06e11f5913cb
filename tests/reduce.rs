//! `reduce` over an axis of a tile: fragments of plain kernels and of products, shared arrays; the same bits on both
//! simulators, which are those of the defined order.

use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

/// Sums, maxima and minima of the rows, and sums of the columns, of 32 x 64 tiles in vectors.
#[tile_kernel(instances(THREADS in [32, 64, 256]))]
pub fn rows_and_columns<const THREADS: usize>(
    x: &Tensor<f32, (M, N)>,
    rows: &mut Tensor<f32, (M,)>,
    most: &mut Tensor<f32, (M,)>,
    columns: &mut Tensor<f32, (B, N)>,
    least: &mut Tensor<f32, (B, N)>,
) {
    let [b] = blocks([ceil_div(M, 32)]);
    threads([THREADS]);
    let mut tile = alloc_fragment::<f32>([32, 64]);
    let mut sum = alloc_fragment::<f32>([32]);
    let mut max = alloc_fragment::<f32>([32]);
    let mut down = alloc_fragment::<f32>([64]);
    let mut min_s = alloc_shared::<f32>([64]);
    copy(x.at([b * 32, 0]), &mut tile);
    reduce(Sum, &tile, &mut sum, 1);
    reduce(Max, &tile, &mut max, 1);
    reduce(Sum, &tile, &mut down, 0);
    reduce(Min, &tile, &mut min_s, 0);
    for [i] in parallel([32]) {
        if b * 32 + i < M {
            rows[b * 32 + i] = sum[i];
            *most.masked_mut([b * 32 + i]) = max[i];
        }
    }
    for [j] in parallel([64]) {
        *columns.masked_mut([b, j]) = down[j];
    }
    copy(&min_s, least.at_mut([b, 0]));
}

/// Softmax of the rows.
#[tile_kernel]
pub fn softmax(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let [b] = blocks([ceil_div(M, 16)]);
    threads([128]);
    let mut tile = alloc_fragment::<f32>([16, 128]);
    let mut most = alloc_fragment::<f32>([16]);
    let mut sum = alloc_fragment::<f32>([16]);
    copy(x.at([b * 16, 0]), &mut tile);
    for [i, j] in parallel([16, 128]) {
        if j >= N {
            tile[[i, j]] = f32::NEG_INFINITY;
        }
    }
    reduce(Max, &tile, &mut most, 1);
    for [i, j] in parallel([16, 128]) {
        tile[[i, j]] = exp(tile[[i, j]] - most[i]);
    }
    reduce(Sum, &tile, &mut sum, 1);
    for [i] in parallel([16]) {
        sum[i] = 1.0 / sum[i];
    }
    for [i, j] in parallel([16, 128]) {
        tile[[i, j]] *= sum[i];
    }
    copy(&tile, y.at_mut([b * 16, 0]));
}

/// Shared arrays of any extents, in a loop.
#[tile_kernel(instances((R, C) in [(5, 7), (33, 40), (8, 64)]))]
pub fn shared<const R: usize, const C: usize>(
    x: &Tensor<f32, (T, R, C)>,
    rows: &mut Tensor<f32, (T, R)>,
    columns: &mut Tensor<f32, (T, C)>,
) {
    blocks([1]);
    threads([64]);
    let mut tile = alloc_shared::<f32>([R, C]);
    let mut row_s = alloc_shared::<f32>([R]);
    let mut column_s = alloc_shared::<f32>([C]);
    for t in 0..T {
        copy(x.at([t, 0, 0]), &mut tile);
        reduce(Sum, &tile, &mut row_s, 1);
        reduce(Sum, &tile, &mut column_s, 0);
        copy(&row_s, rows.at_mut([t, 0]));
        copy(&column_s, columns.at_mut([t, 0]));
    }
}

/// The rows and columns of a product, which lie as the tensor cores leave them; in warps that have whole rows or parts.
#[tile_kernel(instances(BN in [64, 32, 40], FULL in [true, false], where FULL || BN != 40))]
pub fn product<const BN: usize, const FULL: bool>(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
    rows: &mut Tensor<f32, (M, T)>,
    columns: &mut Tensor<f32, (S, N)>,
) {
    let [bx, by] = blocks([ceil_div(N, BN), ceil_div(M, 64)]);
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 32]);
    let mut b_s = alloc_shared::<f16>([BN, 32]);
    let mut acc = alloc_fragment::<f32>([64, BN]);
    let mut sum = alloc_fragment::<f32>([64]);
    let mut most = alloc_fragment::<f32>([BN]);
    clear(&mut acc);
    for k in 0..ceil_div(K, 32) {
        copy(a.at([by * 64, k * 32]), &mut a_s);
        copy(b.at([bx * BN, k * 32]), &mut b_s);
        if FULL {
            gemm(&a_s, b_s.t(), &mut acc).policy(FullRow);
        } else {
            gemm(&a_s, b_s.t(), &mut acc);
        }
    }
    for [i, j] in parallel([64, BN]) {
        acc[[i, j]] *= 0.1;
    }
    reduce(Sum, &acc, &mut sum, 1);
    reduce(Max, &acc, &mut most, 0);
    for [i] in parallel([64]) {
        *rows.masked_mut([by * 64 + i, bx]) = sum[i];
    }
    for [i, j] in parallel([64, BN]) {
        acc[[i, j]] = (acc[[i, j]] - sum[i]) * most[j];
    }
    for [j] in parallel([BN]) {
        *columns.masked_mut([by, bx * BN + j]) = most[j];
    }
    copy(&acc, c.at_mut([by * 64, bx * BN]));
}

/// Scales a tile, and adds its rows to `total`, of which what was there counts nine tenths.
#[tile_fn]
fn add_up(
    tile: &mut Fragment<f32, (ROWS, COLS)>,
    here: &mut Fragment<f32, (ROWS,)>,
    total: &mut Fragment<f32, (ROWS,)>,
) {
    for [i, j] in parallel([ROWS, COLS]) {
        tile[[i, j]] *= 0.1;
    }
    reduce(Sum, tile, here, 1);
    for [i] in parallel([ROWS]) {
        total[i] = total[i] * 0.9 + here[i];
    }
}

/// Sums of a loop's products by rows, from 0.7 on. `WHOLE`: a warp has whole rows of a product.
#[tile_kernel(instances(BN in [64, 40], WHOLE in [true, false], where WHOLE || BN != 40), uses(add_up))]
pub fn added_up<const BN: usize, const WHOLE: bool>(
    a: &Tensor<f16, (M, Fixed<32>)>,
    b: &Tensor<f16, (N, Fixed<32>)>,
    rows: &mut Tensor<f32, (M,)>,
) {
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 32]);
    let mut b_s = alloc_shared::<f16>([BN, 32]);
    let mut tile = alloc_fragment::<f32>([64, BN]);
    let mut here = alloc_fragment::<f32>([64]);
    let mut total = alloc_fragment::<f32>([64]);
    for [by] in persistent([ceil_div(M, 64)]) {
        copy(a.at([by * 64, 0]), &mut a_s);
        fill(&mut total, 0.7);
        for step in pipelined(0..ceil_div(N, BN), 2) {
            copy(b.at([step * BN, 0]), &mut b_s);
            if WHOLE {
                gemm(&a_s, b_s.t(), &mut tile).policy(FullRow).clear();
            } else {
                gemm(&a_s, b_s.t(), &mut tile).policy(FullCol).clear();
            }
            add_up(&mut tile, &mut here, &mut total);
        }
        for [i] in parallel([64]) {
            *rows.masked_mut([by * 64 + i]) = total[i];
        }
    }
}

/// [`added_up`] by a block whose threads all load and multiply.
#[tile_kernel(targets(sm_80), uses(add_up))]
pub fn added_up_by_warps(
    a: &Tensor<f16, (M, Fixed<32>)>,
    b: &Tensor<f16, (N, Fixed<32>)>,
    rows: &mut Tensor<f32, (M,)>,
) {
    let [by] = blocks([ceil_div(M, 64)]);
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 32]);
    let mut b_s = alloc_shared::<f16>([64, 32]);
    let mut tile = alloc_fragment::<f32>([64, 64]);
    let mut here = alloc_fragment::<f32>([64]);
    let mut total = alloc_fragment::<f32>([64]);
    copy(a.at([by * 64, 0]), &mut a_s);
    fill(&mut total, 0.7);
    for step in 0..ceil_div(N, 64) {
        copy(b.at([step * 64, 0]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut tile).policy(FullRow).clear();
        add_up(&mut tile, &mut here, &mut total);
    }
    for [i] in parallel([64]) {
        *rows.masked_mut([by * 64 + i]) = total[i];
    }
}

fn noise(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 % 1009) as f32 * 0.37).sin() * 3.0).collect()
}

/// The order as the language states it, written down once more.
fn combined(values: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
    let parts: Vec<f32> = parts(values, &f).into_iter().flatten().collect();
    let halves: Vec<f32> = parts.chunks(2).map(|c| c.iter().copied().reduce(&f).unwrap()).collect();
    halves.into_iter().reduce(&f).unwrap()
}

/// The four parts of a row.
fn parts(values: &[f32], f: impl Fn(f32, f32) -> f32) -> [Option<f32>; 4] {
    [0, 1, 2, 3].map(|part| {
        let mut total: Option<f32> = None;
        for chunk in values.chunks(32) {
            let pairs = chunk.chunks(8).filter_map(|eight| eight.get(2 * part..));
            let pairs = pairs.filter(|rest| !rest.is_empty());
            let pair = |rest: &[f32]| if rest.len() > 1 { f(rest[0], rest[1]) } else { rest[0] };
            if let Some(sum) = pairs.map(pair).reduce(&f) {
                total = Some(total.map_or(sum, |t| f(t, sum)));
            }
        }
        total
    })
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

fn row(x: &[f32], n: usize, i: usize) -> Vec<f32> {
    x[i * n..(i + 1) * n].to_vec()
}

fn column(x: &[f32], n: usize, rows: std::ops::Range<usize>, j: usize) -> Vec<f32> {
    rows.map(|i| x.get(i * n + j).copied().unwrap_or(0.0)).collect()
}

#[test]
fn fragments_in_vectors() {
    let (m, n) = (45, 64);
    let x = noise(m * n);
    for device in devices() {
        for threads in 0..3 {
            let on = device.tensor(&x, [m, n]).unwrap();
            let mut rows = device.zeros::<f32, 1>([m]).unwrap();
            let mut most = device.zeros::<f32, 1>([m]).unwrap();
            let mut columns = device.zeros::<f32, 2>([2, n]).unwrap();
            let mut least = device.zeros::<f32, 2>([2, n]).unwrap();
            let (r, h, c, l) = (&mut rows, &mut most, &mut columns, &mut least);
            match threads {
                0 => rows_and_columns::<32>::launch(&device, &on, r, h, c, l).unwrap(),
                1 => rows_and_columns::<64>::launch(&device, &on, r, h, c, l).unwrap(),
                _ => rows_and_columns::<256>::launch(&device, &on, r, h, c, l).unwrap(),
            }
            let sums: Vec<f32> = (0..m).map(|i| combined(&row(&x, n, i), |a, b| a + b)).collect();
            assert_eq!(bits(&rows.to_vec().unwrap()), bits(&sums));
            let tops: Vec<f32> = (0..m).map(|i| row(&x, n, i).into_iter().reduce(f32::max).unwrap()).collect();
            assert_eq!(bits(&most.to_vec().unwrap()), bits(&tops));
            let tile = |b: usize| b * 32..b * 32 + 32;
            let down = (0..2).flat_map(|b| (0..n).map(move |j| (b, j)));
            let down: Vec<f32> = down.map(|(b, j)| combined(&column(&x, n, tile(b), j), |a, b| a + b)).collect();
            assert_eq!(bits(&columns.to_vec().unwrap()), bits(&down));
            let first = column(&x, n, tile(0), 3).into_iter().reduce(f32::min).unwrap();
            assert_eq!(least.to_vec().unwrap()[3], first);
        }
    }
}

#[test]
fn softmax_of_rows() {
    let (m, n) = (19, 100);
    let x = noise(m * n);
    let mut all = vec![];
    for device in devices() {
        let on = device.tensor(&x, [m, n]).unwrap();
        let mut y = device.zeros::<f32, 2>([m, n]).unwrap();
        softmax::launch(&device, &on, &mut y).unwrap();
        let y = y.to_vec().unwrap();
        for i in 0..m {
            let most = row(&x, n, i).into_iter().reduce(f32::max).unwrap();
            let powers: Vec<f64> = row(&x, n, i).iter().map(|v| f64::from(v - most).exp()).collect();
            let sum: f64 = powers.iter().sum();
            for (found, power) in row(&y, n, i).iter().zip(powers) {
                assert!((f64::from(*found) - power / sum).abs() < 1e-6, "row {i}: {found} for {}", power / sum);
            }
        }
        all.push(bits(&y));
    }
    assert_eq!(all[0], all[1]);
}

#[test]
fn shared_arrays() {
    fn run<const R: usize, const C: usize>(launch: impl Fn(&Device, &Tensor<f32, 3>, [&mut Tensor<f32, 2>; 2])) {
        let t = 3;
        let x = noise(t * R * C);
        for device in devices() {
            let on = device.tensor(&x, [t, R, C]).unwrap();
            let mut rows = device.zeros::<f32, 2>([t, R]).unwrap();
            let mut columns = device.zeros::<f32, 2>([t, C]).unwrap();
            launch(&device, &on, [&mut rows, &mut columns]);
            for tile in 0..t {
                let x = &x[tile * R * C..(tile + 1) * R * C];
                let sums: Vec<f32> = (0..R).map(|i| combined(&row(x, C, i), |a, b| a + b)).collect();
                assert_eq!(bits(&row(&rows.to_vec().unwrap(), R, tile)), bits(&sums));
                let sums: Vec<f32> = (0..C).map(|j| combined(&column(x, C, 0..R, j), |a, b| a + b)).collect();
                assert_eq!(bits(&row(&columns.to_vec().unwrap(), C, tile)), bits(&sums));
            }
        }
    }
    run::<5, 7>(|d, x, [r, c]| shared::<5, 7>::launch(d, x, r, c).unwrap());
    run::<33, 40>(|d, x, [r, c]| shared::<33, 40>::launch(d, x, r, c).unwrap());
    run::<8, 64>(|d, x, [r, c]| shared::<8, 64>::launch(d, x, r, c).unwrap());
}

#[test]
fn rows_and_columns_of_a_product() {
    // Small integers: the product is exact, so that every bit of what follows is defined.
    let (m, n, k) = (100, 72, 48);
    let small = |count: usize, by: usize| -> Vec<f16> {
        (0..count).map(|i| f16::from_f32((i * by % 7) as f32 - 3.0)).collect()
    };
    let (a, b) = (small(m * k, 11), small(n * k, 5));
    let exact = |i: usize, j: usize| -> f32 {
        let sum: f32 = (0..k).map(|x| a[i * k + x].to_f32() * b[j * k + x].to_f32()).sum();
        sum * 0.1
    };
    for device in devices() {
        for which in 0..5 {
            let bn = [64, 64, 32, 32, 40][which];
            let (x, y) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
            let (tiles, steps) = (n.div_ceil(bn), m.div_ceil(64));
            let mut c = device.zeros::<f32, 2>([m, n]).unwrap();
            let mut rows = device.zeros::<f32, 2>([m, tiles]).unwrap();
            let mut columns = device.zeros::<f32, 2>([steps, n]).unwrap();
            let (x, y, p, r, s) = (&x, &y, &mut c, &mut rows, &mut columns);
            match which {
                0 => product::<64, true>::launch(&device, x, y, p, r, s).unwrap(),
                1 => product::<64, false>::launch(&device, x, y, p, r, s).unwrap(),
                2 => product::<32, true>::launch(&device, x, y, p, r, s).unwrap(),
                3 => product::<32, false>::launch(&device, x, y, p, r, s).unwrap(),
                _ => product::<40, true>::launch(&device, x, y, p, r, s).unwrap(),
            }
            let (found, rows, columns) = (c.to_vec().unwrap(), rows.to_vec().unwrap(), columns.to_vec().unwrap());
            let value = |i: usize, j: usize| if i < m && j < n { exact(i, j) } else { 0.0 };
            for i in 0..m {
                for tile in 0..tiles {
                    let values: Vec<f32> = (0..bn).map(|j| value(i, tile * bn + j)).collect();
                    let sum = combined(&values, |a, b| a + b);
                    assert_eq!(rows[i * tiles + tile].to_bits(), sum.to_bits(), "row {i} of tile {tile}, {bn} wide");
                    for j in (tile * bn..n.min(tile * bn + bn)).step_by(9) {
                        let step = i / 64;
                        let most = (step * 64..step * 64 + 64).map(|i| value(i, j)).reduce(f32::max).unwrap();
                        assert_eq!(columns[step * n + j], most, "column {j}");
                        assert_eq!(found[i * n + j], (value(i, j) - sum) * most, "[{i}, {j}]");
                    }
                }
            }
        }
    }
}

/// Literals alone: the first is an `i32`, as in Rust, the others are what they are used as.
#[tile_kernel]
pub fn of_literals(y: &mut Tensor<u32, (Fixed<32>,)>) {
    blocks([1]);
    let [t] = threads([32]);
    let lanes = warp_reduce(Sum, 1);
    let twice: u32 = warp_reduce(Sum, 2);
    let all: u32 = thread_allreduce(Max, 7, t);
    y[t] = twice + lanes as u32 + all + shfl_xor(3, 1);
}

#[test]
fn literals_are_reduced() {
    for device in devices() {
        let mut y = device.zeros::<u32, 1>([32]).unwrap();
        of_literals::launch(&device, &mut y).unwrap();
        assert_eq!(y.to_vec().unwrap(), [64 + 32 + 7 + 3; 32], "{device:?}");
    }
}

/// Where a warp has whole rows, each of the four parts of a row is added up by itself, and they are combined behind the loop;
/// else they are combined in every step.
#[test]
fn rows_that_a_loop_adds_up() {
    let (m, n) = (70, 200);
    // A row of the products is a column of `b`, exactly.
    let a: Vec<f16> = (0..m * 32).map(|at| f16::from_f32(if at / 32 % 32 == at % 32 { 1.0 } else { 0.0 })).collect();
    let b: Vec<f16> = noise(n * 32).into_iter().map(f16::from_f32).collect();
    let expected = |i: usize, columns: usize, apart: bool| {
        let mut total = [0.7f32, 0.0, 0.0, 0.0];
        for step in 0..n.div_ceil(columns) {
            let element = |j: usize| b.get((step * columns + j) * 32 + i % 32).map_or(0.0, |x| x.to_f32()) * 0.1;
            let row: Vec<f32> = (0..columns).map(element).collect();
            if apart {
                let here = parts(&row, |a, b| a + b);
                total = [0, 1, 2, 3].map(|part| total[part].mul_add(0.9, here[part].unwrap()));
            } else {
                total[0] = total[0].mul_add(0.9, combined(&row, |a, b| a + b));
            }
        }
        (total[0] + total[1]) + (total[2] + total[3])
    };
    for device in devices() {
        let (a, b) = (device.tensor(&a, [m, 32]).unwrap(), device.tensor(&b, [n, 32]).unwrap());
        let check = |columns: usize, apart: bool, launch: &dyn Fn(&mut Tensor<f32, 1>)| {
            let mut rows = device.tensor(&vec![f32::NAN; m], [m]).unwrap();
            launch(&mut rows);
            let wanted: Vec<f32> = (0..m).map(|i| expected(i, columns, apart)).collect();
            assert_eq!(bits(&rows.to_vec().unwrap()), bits(&wanted), "{columns} columns, apart: {apart}");
        };
        check(64, true, &|rows| added_up::<64, true>::launch(&device, &a, &b, rows).unwrap());
        check(40, true, &|rows| added_up::<40, true>::launch(&device, &a, &b, rows).unwrap());
        check(64, true, &|rows| added_up_by_warps::launch(&device, &a, &b, rows).unwrap());
        check(64, false, &|rows| added_up::<64, false>::launch(&device, &a, &b, rows).unwrap());
    }
}
