//! Grouped products: groups of rows of the left operand, or all of it again and again, multiplied with matrices of the right one's array.

use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

/// `y[16 g + i] = x[16 g + i] w[g]^T` with `NT`, `w[g]` of `[N, K]`; else `x[16 g + i] w[g]`, `w[g]` of `[K, N]`: one group a warp. With `ONE` all groups have
/// the same 16 rows of `x`.
#[tile_kernel(instances(
    (G, N, K, NT) in [(4, 16, 32, true), (4, 16, 32, false), (2, 24, 16, true), (2, 40, 64, false), (1, 16, 16, true)],
    ONE in [false, true]
))]
pub fn groups<T: Float, const G: usize, const N: usize, const K: usize, const NT: bool, const ONE: bool>(
    x: &Tensor<T, (Fixed<{ if ONE { 16 } else { 16 * G } }>, Fixed<K>)>,
    w: &Tensor<T, (R, C)>,
    y: &mut Tensor<f32, (Fixed<{ 16 * G }>, Fixed<N>)>,
) {
    blocks([1]);
    threads([32 * G]);
    let mut x_s = alloc_shared::<T>([if ONE { 16 } else { 16 * G }, K]);
    let mut w_s = alloc_shared::<T>([if NT { G * N } else { G * K }, if NT { K } else { N }]);
    let mut acc = alloc_fragment::<f32>([16 * G, N]);
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

fn agrees<T: Float>(of: impl Fn(f32) -> T, (g, n, k, nt): (usize, usize, usize, bool), one: bool) {
    let params = GroupsParams { G: g, N: n, K: k, NT: nt, ONE: one };
    let rows = if one { 16 } else { 16 * g };
    let x: Vec<f32> = (0..rows * k).map(element).collect();
    let w: Vec<f32> = (0..g * n * k).map(|i| element(i + 5)).collect();
    let weight = |group: usize, j: usize, l: usize| match nt {
        true => w[(group * n + j) * k + l],
        false => w[(group * k + l) * n + j],
    };
    let wanted: Vec<f32> = (0..16 * g * n)
        .map(|at| (0..k).map(|l| x[at / n % rows * k + l] * weight(at / n / 16, at % n, l)).sum())
        .collect();
    for device in devices() {
        let convert = |values: &[f32]| values.iter().map(|v| of(*v)).collect::<Vec<T>>();
        let x = device.tensor(&convert(&x), [rows, k]).unwrap();
        let w = device.tensor(&convert(&w), if nt { [g * n, k] } else { [g * k, n] }).unwrap();
        let mut y = device.tensor(&vec![f32::NAN; 16 * g * n], [16 * g, n]).unwrap();
        groups::<T>::instance(&device, params).unwrap().launch(&x, &w, &mut y).unwrap();
        assert_eq!(y.to_vec().unwrap(), wanted, "{params:?} on {}", device.label());
    }
}

#[test]
fn every_group_is_multiplied_with_its_own_matrix() {
    for shape in [(4, 16, 32, true), (4, 16, 32, false), (2, 24, 16, true), (2, 40, 64, false), (1, 16, 16, true)] {
        for one in [false, true] {
            agrees(f16::from_f32, shape, one);
            agrees(bf16::from_f32, shape, one);
            agrees(|x| x, shape, one);
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
