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
