//! Grouped products: groups of rows of the left operand, or all of it again and again, multiplied with matrices of the right one's array.

use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

/// `y[ROWS g + i] = x[ROWS g + i] w[g]^T` with `NT`, `w[g]` of `[N, K]`; else `x[ROWS g + i] w[g]`, `w[g]` of `[K, N]`: one group a warp. With `ONE` all groups have
/// the same rows of `x`. Eight rows are multiplied with exchanged operands.
#[tile_kernel(instances(
    (G, N, K, NT) in [(4, 16, 32, true), (4, 16, 32, false), (2, 24, 16, true), (2, 40, 64, false), (1, 16, 16, true)],
    ONE in [false, true],
    ROWS in [8, 16]
))]
pub fn groups<
    T: Float,
    const G: usize,
    const N: usize,
    const K: usize,
    const NT: bool,
    const ONE: bool,
    const ROWS: usize,
>(
    x: &Tensor<T, (Fixed<{ if ONE { ROWS } else { ROWS * G } }>, Fixed<K>)>,
    w: &Tensor<T, (R, C)>,
    y: &mut Tensor<f32, (Fixed<{ ROWS * G }>, Fixed<N>)>,
) {
    blocks([1]);
    threads([32 * G]);
    let mut x_s = alloc_shared::<T>([if ONE { ROWS } else { ROWS * G }, K]);
    let mut w_s = alloc_shared::<T>([if NT { G * N } else { G * K }, if NT { K } else { N }]);
    let mut acc = alloc_fragment::<f32>([ROWS * G, N]);
    copy(x.at([0, 0]), &mut x_s);
    copy(w.at([0, 0]), &mut w_s);
    if NT {
        gemm(&x_s, w_s.t(), &mut acc).grouped().clear();
    } else {
        gemm(&x_s, &w_s, &mut acc).grouped().clear();
    }
    copy(&acc, y.at_mut([0, 0]));
}

/// Small integers: every sum is exact.
fn element(i: usize) -> f32 {
    ((i * 7 + i / 11) % 7) as f32 - 3.0
}

fn agrees<T: Float>(of: impl Fn(f32) -> T, (g, n, k, nt): (usize, usize, usize, bool), one: bool, rows: usize) {
    let params = GroupsParams { G: g, N: n, K: k, NT: nt, ONE: one, ROWS: rows };
    let (all, given) = (rows * g, if one { rows } else { rows * g });
    let x: Vec<f32> = (0..given * k).map(element).collect();
    let w: Vec<f32> = (0..g * n * k).map(|i| element(i + 5)).collect();
    let weight = |group: usize, j: usize, l: usize| match nt {
        true => w[(group * n + j) * k + l],
        false => w[(group * k + l) * n + j],
    };
    let wanted: Vec<f32> = (0..all * n)
        .map(|at| (0..k).map(|l| x[at / n % given * k + l] * weight(at / n / rows, at % n, l)).sum())
        .collect();
    for device in devices() {
        let convert = |values: &[f32]| values.iter().map(|v| of(*v)).collect::<Vec<T>>();
        let x = device.tensor(&convert(&x), [given, k]).unwrap();
        let w = device.tensor(&convert(&w), if nt { [g * n, k] } else { [g * k, n] }).unwrap();
        let mut y = device.tensor(&vec![f32::NAN; all * n], [all, n]).unwrap();
        groups::<T>::instance(&device, params).unwrap().launch(&x, &w, &mut y).unwrap();
        assert_eq!(y.to_vec().unwrap(), wanted, "{params:?} on {}", device.label());
    }
}

#[test]
fn every_group_is_multiplied_with_its_own_matrix() {
    for shape in [(4, 16, 32, true), (4, 16, 32, false), (2, 24, 16, true), (2, 40, 64, false), (1, 16, 16, true)] {
        for (one, rows) in [(false, 8), (false, 16), (true, 8), (true, 16)] {
            agrees(f16::from_f32, shape, one, rows);
            agrees(bf16::from_f32, shape, one, rows);
            agrees(|x| x, shape, one, rows);
        }
    }
}

/// Of each warp's `x w[g]^T`, scaled, the largest and the sum of each row, the sum over `steps` times the same rows, and their product with `v[g]`.
#[tile_kernel(instances(ROWS in [8, 16], N in [16, 32, 48, 80]))]
pub fn rows<const ROWS: usize, const N: usize>(
    x: &Tensor<bf16, (Fixed<16>, Fixed<32>)>,
    w: &Tensor<bf16, (Fixed<{ 4 * N }>, Fixed<32>)>,
    v: &Tensor<bf16, (Fixed<{ 4 * N }>, Fixed<64>)>,
    tops: &mut Tensor<f32, (Fixed<{ 4 * ROWS }>,)>,
    sums: &mut Tensor<f32, (Fixed<{ 4 * ROWS }>,)>,
    totals: &mut Tensor<f32, (Fixed<{ 4 * ROWS }>,)>,
    y: &mut Tensor<f32, (Fixed<{ 4 * ROWS }>, Fixed<64>)>,
    steps: usize,
) {
    blocks([1]);
    threads([128]);
    let mut x_s = alloc_shared::<bf16>([ROWS, 32]);
    let mut w_s = alloc_shared::<bf16>([4 * N, 32]);
    let mut v_s = alloc_shared::<bf16>([4 * N, 64]);
    let mut tile = alloc_fragment::<f32>([4 * ROWS, N]);
    let mut left = alloc_fragment::<bf16>([4 * ROWS, N]);
    let mut acc = alloc_fragment::<f32>([4 * ROWS, 64]);
    let mut most = alloc_fragment::<f32>([4 * ROWS]);
    let mut here = alloc_fragment::<f32>([4 * ROWS]);
    let mut total = alloc_fragment::<f32>([4 * ROWS]);
    copy(x.at([0, 0]), &mut x_s);
    copy(w.at([0, 0]), &mut w_s);
    copy(v.at([0, 0]), &mut v_s);
    clear(&mut tile); // of no steps
    clear(&mut total);
    for step in 0..steps {
        gemm(&x_s, w_s.t(), &mut tile).grouped().clear();
        for [r, j] in parallel([4 * ROWS, N]) {
            tile[[r, j]] = tile[[r, j]] * 0.1 + step as f32;
        }
        reduce(Sum, &tile, &mut here, 1);
        for [r] in parallel([4 * ROWS]) {
            total[r] = total[r] * 0.9 + here[r];
        }
    }
    for [r, j] in parallel([4 * ROWS, N]) {
        left[[r, j]] = tile[[r, j]].cast::<bf16>();
    }
    gemm(&left, &v_s, &mut acc).grouped().clear();
    copy(&acc, y.at_mut([0, 0]));
    reduce(Max, &tile, &mut most, 1);
    reduce(Sum, &tile, &mut here, 1);
    for [r] in parallel([4 * ROWS]) {
        tops[r] = most[r];
        sums[r] = here[r];
        totals[r] = total[r];
    }
}

/// Eight rows a warp have the bits that they have among sixteen, on every device.
#[test]
fn eight_rows_are_as_the_first_of_sixteen() {
    for n in [16, 32, 48, 80] {
        let tensor = |count: usize, by: usize| -> Vec<bf16> {
            (0..count).map(|i| bf16::from_f32(element(i * 3 + by + i / 7))).collect()
        };
        let (x, w, v) = (tensor(16 * 32, 0), tensor(4 * n * 32, 3), tensor(4 * n * 64, 8));
        let mut first: Option<Vec<u32>> = None;
        for device in devices() {
            let x = device.tensor(&x, [16, 32]).unwrap();
            let w = device.tensor(&w, [4 * n, 32]).unwrap();
            let v = device.tensor(&v, [4 * n, 64]).unwrap();
            for rows in [8, 16] {
                let [mut tops, mut sums, mut totals] =
                    [0; 3].map(|_| device.tensor(&vec![f32::NAN; 4 * rows], [4 * rows]).unwrap());
                let mut y = device.tensor(&vec![f32::NAN; 4 * rows * 64], [4 * rows, 64]).unwrap();
                let kernel = self::rows::instance(&device, RowsParams { ROWS: rows, N: n }).unwrap();
                kernel.launch(&x, &w, &v, &mut tops, &mut sums, &mut totals, &mut y, 3).unwrap();
                let mut found: Vec<u32> = Vec::new();
                for (of, columns) in [(tops.to_vec(), 1), (sums.to_vec(), 1), (totals.to_vec(), 1), (y.to_vec(), 64)] {
                    let all = of.unwrap();
                    // Eight rows of each warp.
                    found.extend(all.chunks(rows * columns).flat_map(|warp| &warp[..8 * columns]).map(|f| f.to_bits()));
                }
                let name = format!("{rows} rows, {n} columns on {}", device.label());
                assert!(found.iter().all(|bits| !f32::from_bits(*bits).is_nan()), "{name}");
                let first = first.get_or_insert_with(|| found.clone());
                let differs = first.iter().zip(&found).position(|(a, b)| a != b);
                assert_eq!((differs, first.len()), (None, found.len()), "{name}");
            }
        }
    }
}

/// `y = x u[t]^T` and `z = x w[t]^T`, added over the `steps` tiles of 64 rows of `u` and `w`: four warps, each of which copies 16 rows of both.
#[tile_kernel(instances(STAGES in [2, 3, 5], ROLLED in [false, true]))]
pub fn rings<const STAGES: usize, const ROLLED: bool>(
    x: &Tensor<f16, (Fixed<16>, Fixed<64>)>,
    u: &Tensor<f16, (R, Fixed<64>)>,
    w: &Tensor<f16, (R, Fixed<64>)>,
    y: &mut Tensor<f32, (Fixed<64>, Fixed<16>)>,
    z: &mut Tensor<f32, (Fixed<64>, Fixed<16>)>,
    steps: usize,
) {
    blocks([1]);
    threads([128]);
    let mut x_s = alloc_shared::<f16>([16, 64]);
    let mut u_s = alloc_shared::<f16>([64, 64]);
    let mut w_s = alloc_shared::<f16>([64, 64]);
    let mut first = alloc_fragment::<f32>([64, 16]);
    let mut second = alloc_fragment::<f32>([64, 16]);
    clear(&mut first);
    clear(&mut second);
    copy(x.at([0, 0]), &mut x_s);
    if ROLLED {
        for step in pipelined(0..steps, STAGES).schedule(Rolled) {
            copy(u.at([step * 64, 0]), &mut u_s);
            copy(w.at([step * 64, 0]), &mut w_s);
            gemm(&x_s, u_s.t(), &mut first).grouped();
            gemm(&x_s, w_s.t(), &mut second).grouped();
        }
    } else {
        for step in pipelined(0..steps, STAGES).schedule(Cooperative) {
            copy(u.at([step * 64, 0]), &mut u_s);
            copy(w.at([step * 64, 0]), &mut w_s);
            gemm(&x_s, u_s.t(), &mut first).grouped();
            gemm(&x_s, w_s.t(), &mut second).grouped();
        }
    }
    copy(&first, y.at_mut([0, 0]));
    copy(&second, z.at_mut([0, 0]));
}

#[test]
fn each_warp_has_a_ring_of_its_own() {
    // None, fewer and more steps than slots, and rows that the last step lacks.
    for (rows, steps) in [(64, 0), (64, 1), (128, 2), (150, 3), (640, 10), (700, 11)] {
        let tensor =
            |count: usize, by: usize| -> Vec<f16> { (0..count).map(|i| f16::from_f32(element(i + by))).collect() };
        let (x, u, w) = (tensor(16 * 64, 0), tensor(rows * 64, 3), tensor(rows * 64, 8));
        let wanted = |of: &[f16]| -> Vec<f32> {
            let sum = |at: usize, row: usize| -> f32 {
                (0..64).map(|l| x[at / 16 % 16 * 64 + l].to_f32() * of[row * 64 + l].to_f32()).sum()
            };
            let all = |at: usize| (0..steps).map(move |step| step * 64 + at / 256 * 16 + at % 16);
            (0..64 * 16).map(|at| all(at).filter(|row| *row < rows).map(|row| sum(at, row)).sum()).collect()
        };
        for device in devices() {
            let x = device.tensor(&x, [16, 64]).unwrap();
            let [u_t, w_t] = [&u, &w].map(|of| device.tensor(of, [rows, 64]).unwrap());
            for (stages, rolled) in [(2, false), (3, false), (5, false), (2, true), (3, true), (5, true)] {
                let [mut y, mut z] = [0, 1].map(|_| device.tensor(&vec![f32::NAN; 64 * 16], [64, 16]).unwrap());
                let params = RingsParams { STAGES: stages, ROLLED: rolled };
                rings::instance(&device, params).unwrap().launch(&x, &u_t, &w_t, &mut y, &mut z, steps).unwrap();
                let text = format!("{params:?} {rows} {steps} on {}", device.label());
                assert_eq!((y.to_vec().unwrap(), z.to_vec().unwrap()), (wanted(&u), wanted(&w)), "{text}");
            }
        }
    }
}

/// `[r]` of `total` is the sum of row `r` of `q k[g]^T`, over `steps` equal steps, where a warp has rows of two groups: no tensor cores, and no parts of sums.
#[tile_kernel]
pub fn narrow_groups(
    q: &Tensor<bf16, (Fixed<64>, Fixed<64>)>,
    k: &Tensor<bf16, (Fixed<128>, Fixed<64>)>,
    sums: &mut Tensor<f32, (Fixed<64>,)>,
    steps: usize,
) {
    blocks([1]);
    threads([128]);
    let mut q_s = alloc_shared::<bf16>([64, 64]);
    let mut k_s = alloc_shared::<bf16>([128, 64]);
    let mut tile = alloc_fragment::<f32>([64, 16]);
    let mut here = alloc_fragment::<f32>([64]);
    let mut total = alloc_fragment::<f32>([64]);
    copy(q.at([0, 0]), &mut q_s);
    copy(k.at([0, 0]), &mut k_s);
    clear(&mut total);
    for _step in 0..steps {
        gemm(&q_s, k_s.t(), &mut tile).grouped().clear();
        reduce(Sum, &tile, &mut here, 1);
        for [r] in parallel([64]) {
            total[r] = total[r] + here[r];
        }
    }
    for [r] in parallel([64]) {
        sums[r] = total[r];
    }
}

#[test]
fn sums_of_rows_of_several_groups_a_warp() {
    let q: Vec<bf16> = (0..64 * 64).map(|i| bf16::from_f32(element(i))).collect();
    let k: Vec<bf16> = (0..128 * 64).map(|i| bf16::from_f32(element(i + 5))).collect();
    let of = |row: usize, column: usize| -> f32 {
        (0..64).map(|l| element(row * 64 + l) * element((row / 8 * 16 + column) * 64 + l + 5)).sum()
    };
    let wanted: Vec<f32> = (0..64).map(|row| 3.0 * (0..16).map(|column| of(row, column)).sum::<f32>()).collect();
    for device in devices() {
        let q = device.tensor(&q, [64, 64]).unwrap();
        let k = device.tensor(&k, [128, 64]).unwrap();
        let mut sums = device.tensor(&vec![f32::NAN; 64], [64]).unwrap();
        narrow_groups::instance(&device).unwrap().launch(&q, &k, &mut sums, 3).unwrap();
        assert_eq!(sums.to_vec().unwrap(), wanted, "{}", device.label());
    }
}
