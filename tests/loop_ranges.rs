//! Loops whose ends the launch decides: what the launcher checks about their indices must let through what fits.

use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

/// `sums[s, i]` is the sum of row `i` of `a` over the `s`-th of `S` shares of its columns; the last one may be short.
#[tile_kernel(instances((S, STAGES) in [(1, 2), (3, 2), (3, 3)]))]
pub fn shares<const S: usize, const STAGES: usize>(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    c: &mut Tensor<f32, (S, M, N)>,
) {
    let [bx, by, slot] = blocks([ceil_div(N, 32), ceil_div(M, 32), S]);
    threads([64]);
    let mut a_s = alloc_shared::<f16>([32, 32]);
    let mut b_s = alloc_shared::<f16>([32, 32]);
    let mut acc = alloc_fragment::<f32>([32, 32]);
    clear(&mut acc);
    let steps = ceil_div(K, 32);
    let share = ceil_div(steps, S);
    let first = slot * share;
    for step in pipelined(first..min(first + share, steps), STAGES) {
        copy(a.at([by * 32, step * 32]), &mut a_s);
        copy(b.at([bx * 32, step * 32]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    for [i, j] in parallel([32, 32]) {
        *c.masked_mut([slot, by * 32 + i, bx * 32 + j]) = acc[[i, j]];
    }
}

/// Row sums of `x` from column `first` to `last`, as far as there are any.
#[tile_kernel]
pub fn scalars(x: &Tensor<f32, (M, K)>, sums: &mut Tensor<f32, (M,)>, first: usize, last: usize) {
    let [b] = blocks([ceil_div(M, 32)]);
    let [t] = threads([32]);
    let mut tile = alloc_shared::<f32>([32, 16]);
    let mut sum = 0.0f32;
    for step in pipelined(first..min(last, ceil_div(K, 16)), 2) {
        copy(x.at([b * 32, step * 16]), &mut tile);
        for i in 0..16 {
            sum += tile[[t, i]];
        }
    }
    *sums.masked_mut([b * 32 + t]) = sum;
}

/// Sums of rows between what a tensor says for each block; rows beyond the blocks stay as they are.
#[tile_kernel(partial(sums))]
pub fn bounds_from_memory(x: &Tensor<f32, (M, K)>, ends: &Tensor<u32, (B, Fixed<2>)>, sums: &mut Tensor<f32, (M,)>) {
    let [b] = blocks([B]);
    let [t] = threads([32]);
    let mut tile = alloc_shared::<f32>([32, 16]);
    let mut sum = 0.0f32;
    for step in pipelined(ends[[b, 0]] as usize..min(ends[[b, 1]] as usize, ceil_div(K, 16)), 2) {
        copy(x.at([b * 32, step * 16]), &mut tile);
        for i in 0..16 {
            sum += tile[[t, i]];
        }
    }
    *sums.masked_mut([b * 32 + t]) = sum;
}

/// Sums of `P` equal parts of a vector, a block each; the last part takes what is left. That `P * (K / P)` is
/// at most `K` times anything below `P` is more than the compiler proves.
#[tile_kernel(lints(TK0604 = "off"))]
pub fn parts(x: &Tensor<f32, (K,)>, sums: &mut Tensor<f32, (P,)>) {
    let [b] = blocks([P]);
    threads([1]);
    let share = K / P;
    let mut sum = 0.0f32;
    for i in b * share..if b + 1 == P { K } else { b * share + share } {
        sum += x[i];
    }
    sums[b] = sum;
}

/// `sums[b]` is the sum of every `step`th element from the `(b / 4)`th on, four blocks alike.
#[tile_kernel]
pub fn strided(x: &Tensor<f32, (K,)>, sums: &mut Tensor<f32, (B,)>, step: usize) {
    let [b] = blocks([B]);
    threads([1]);
    let mut sum = 0.0f32;
    for i in (b / 4 * 16..K).step_by(step) {
        sum += x[i];
    }
    sums[b] = sum;
}

/// A window of 64 columns before and up to each tile of 32: both ends are clipped.
#[tile_kernel]
pub fn windows(x: &Tensor<f32, (K,)>, sums: &mut Tensor<f32, (B,)>) {
    let [b] = blocks([B]);
    threads([1]);
    let mut sum = 0.0f32;
    for i in max(b * 32, 32) - 32..min(b * 32 + 32, K) {
        sum += x[i];
    }
    sums[b] = sum;
}

fn noise(count: usize, by: usize) -> Vec<f16> {
    (0..count).map(|i| f16::from_f32((i * by % 11) as f32 - 5.0)).collect()
}

#[test]
fn shares_of_k_of_which_the_last_is_short() {
    let (m, n) = (40, 70);
    for k in [32, 200, 224] {
        let (a, b) = (noise(m * k, 7), noise(n * k, 13));
        let product = |i: usize, j: usize| (0..k).map(|x| a[i * k + x].to_f32() * b[j * k + x].to_f32()).sum::<f32>();
        let expected: Vec<f32> = (0..m * n).map(|e| product(e / n, e % n)).collect();
        for device in devices() {
            let (x, y) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
            for (splits, stages) in [(1, 2), (3, 2), (3, 3)] {
                let mut c = device.zeros::<f32, 3>([splits, m, n]).unwrap();
                match (splits, stages) {
                    (1, 2) => shares::<1, 2>::launch(&device, &x, &y, &mut c).unwrap(),
                    (3, 2) => shares::<3, 2>::launch(&device, &x, &y, &mut c).unwrap(),
                    _ => shares::<3, 3>::launch(&device, &x, &y, &mut c).unwrap(),
                }
                let parts = c.to_vec().unwrap();
                let sums: Vec<f32> =
                    (0..m * n).map(|e| (0..splits).map(|s| parts[s * m * n + e]).sum::<f32>()).collect();
                assert_eq!(sums, expected, "K = {k}, {splits} shares, {stages} stages, on {device:?}");
            }
        }
    }
}

#[test]
fn ends_that_are_scalars() {
    let (m, k) = (40, 100);
    let x: Vec<f32> = (0..m * k).map(|i| (i % 17) as f32).collect();
    for device in devices() {
        let input = device.tensor(&x, [m, k]).unwrap();
        for (first, last) in [(0, 3), (2, 100), (5, 5), (9, 3), (0, i32::MAX as usize)] {
            let mut sums = device.zeros::<f32, 1>([m]).unwrap();
            scalars::launch(&device, &input, &mut sums, first, last).unwrap();
            let row = |i: usize| (first * 16..k.min(last * 16)).map(|j| x[i * k + j]).sum::<f32>();
            assert_eq!(sums.to_vec().unwrap(), (0..m).map(row).collect::<Vec<_>>(), "{first}..{last} on {device:?}");
        }
    }
}

#[test]
fn ends_from_memory() {
    let (m, k) = (64, 100);
    let x: Vec<f32> = (0..m * k).map(|i| (i % 17) as f32).collect();
    let ends: [u32; 4] = [1, 4, 0, 900];
    for device in devices() {
        let (input, between) = (device.tensor(&x, [m, k]).unwrap(), device.tensor(&ends, [2, 2]).unwrap());
        let mut sums = device.zeros::<f32, 1>([m]).unwrap();
        bounds_from_memory::launch(&device, &input, &between, &mut sums).unwrap();
        let end = |i: usize, side: usize| ends[i / 32 * 2 + side] as usize * 16;
        let row = |i: usize| (end(i, 0)..k.min(end(i, 1))).map(|j| x[i * k + j]).sum::<f32>();
        assert_eq!(sums.to_vec().unwrap(), (0..m).map(row).collect::<Vec<_>>(), "on {device:?}");
    }
}

#[test]
fn a_window_clipped_on_both_sides() {
    let (k, blocks) = (150, 5);
    let x: Vec<f32> = (0..k).map(|i| (i % 17) as f32).collect();
    for device in devices() {
        let input = device.tensor(&x, [k]).unwrap();
        let mut sums = device.zeros::<f32, 1>([blocks]).unwrap();
        windows::launch(&device, &input, &mut sums).unwrap();
        let window = |b: usize| ((b * 32).max(32) - 32..k.min(b * 32 + 32)).map(|i| x[i]).sum::<f32>();
        assert_eq!(sums.to_vec().unwrap(), (0..blocks).map(window).collect::<Vec<_>>(), "on {device:?}");
    }
}

#[test]
fn an_end_that_is_one_of_two() {
    let (k, blocks) = (150, 4);
    let x: Vec<f32> = (0..k).map(|i| (i % 17) as f32).collect();
    for device in devices() {
        let input = device.tensor(&x, [k]).unwrap();
        let mut sums = device.zeros::<f32, 1>([blocks]).unwrap();
        parts::launch(&device, &input, &mut sums).unwrap();
        let end = |b: usize| if b + 1 == blocks { k } else { (b + 1) * (k / blocks) };
        let part = |b: usize| (b * (k / blocks)..end(b)).map(|i| x[i]).sum::<f32>();
        assert_eq!(sums.to_vec().unwrap(), (0..blocks).map(part).collect::<Vec<_>>(), "on {device:?}");
    }
}

#[test]
fn steps_of_a_scalar() {
    let (k, blocks) = (150, 9);
    let x: Vec<f32> = (0..k).map(|i| (i % 17) as f32).collect();
    for device in devices() {
        let input = device.tensor(&x, [k]).unwrap();
        for step in [1, 7] {
            let mut sums = device.zeros::<f32, 1>([blocks]).unwrap();
            strided::launch(&device, &input, &mut sums, step).unwrap();
            let sum = |b: usize| (b / 4 * 16..k).step_by(step).map(|i| x[i]).sum::<f32>();
            assert_eq!(sums.to_vec().unwrap(), (0..blocks).map(sum).collect::<Vec<_>>(), "on {device:?}");
        }
    }
}

/// Every `step / 2`th element, and the bit of `2 * by`.
#[tile_kernel(partial(y))]
pub fn operands_of_launch(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, step: usize, by: usize) {
    blocks([1]);
    let [t] = threads([32]);
    let mut sum = 0.0f32;
    for i in (t..N).step_by(step / 2) {
        sum += x[i];
    }
    let at = t << (by * 2);
    *y.masked_mut([at]) = sum;
}

/// A step and the number of a shift have ranges of their own. Where the launch decides them it says so, with the range, the
/// number that it is and what that is made of, before anything runs.
#[test]
fn an_operand_out_of_its_range_is_refused_with_both_numbers() {
    for device in devices() {
        let x = device.tensor(&[1.0f32; 40], [40]).unwrap();
        let mut y = device.tensor(&[5.0f32; 40], [40]).unwrap();
        let mut launch = |step, by| operands_of_launch::launch(&device, &x, &mut y, step, by);
        for (step, by, problem, values, line) in [
            (1, 0, "a loop's step must be at least 1: `step / 2`", "is 0: step = 1", "step_by(step / 2)"),
            (0, 0, "a loop's step must be at least 1: `step / 2`", "is 0: step = 0", "step_by(step / 2)"),
            (64, 16, "an index is shifted by 0 to 31: `by * 2`", "is 32: by = 16", "let at = t <<"),
        ] {
            let error = launch(step, by).unwrap_err();
            let text = error.to_string();
            let at = include_str!("loop_ranges.rs").lines().position(|l| l.contains(line)).map(|at| at + 1);
            assert!(matches!(error.problem(), tile_runtime::Problem::Operand { .. }), "{text}");
            for part in ["[TK0306]", problem, values, "Nothing was launched", &format!("(line {})", at.unwrap_or(0))] {
                assert!(text.contains(part), "no `{part}` in {text}");
            }
        }
        // Nothing ran; a launch in range does.
        assert_eq!(launch(64, 0).map_err(|e| e.to_string()), Ok(()));
        let y = y.to_vec().unwrap();
        assert_eq!(y[..33], [[2.0; 8].as_slice(), &[1.0; 24], &[5.0]].concat(), "{device:?}");
    }
}

/// A bitonic sort of each row of 256, and where `keys` are among the sorted. Distances double under the condition of a `while`, which bounds
/// them; a binary search halves what is between two bounds.
#[tile_kernel]
pub fn sort_and_find(
    x: &Tensor<f32, (M, Fixed<256>)>,
    keys: &Tensor<f32, (M, Fixed<256>)>,
    sorted: &mut Tensor<f32, (M, Fixed<256>)>,
    found: &mut Tensor<u32, (M, Fixed<256>)>,
) {
    let [row] = blocks([M]);
    let [t] = threads([256]);
    let mut s = alloc_shared::<f32>([256]);
    s[t] = x[[row, t]];
    sync_threads();
    let mut k = 2;
    while k <= 256 {
        let mut j = k / 2;
        while j > 0 {
            let (here, there) = (s[t], s[t ^ j]);
            let (low, high) = (min(here, there), max(here, there));
            sync_threads();
            s[t] = if ((t & k) == 0) == (t < t ^ j) { low } else { high };
            sync_threads();
            j /= 2;
        }
        k *= 2;
    }
    let (mut first, mut last) = (0, 256);
    while first < last {
        let middle = (first + last) / 2;
        if s[min(middle, 255)] < keys[[row, t]] {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    let (first, k) = (k, first);
    sorted[[row, t]] = if first == 512 { s[t] } else { 0.0 };
    found[[row, t]] = k as u32;
}

#[test]
fn doubled_distances_and_halved_ranges_are_bounded_by_their_loops() {
    let x: Vec<f32> = (0..512).map(|i| ((i * 7919 + 13) % 512) as f32).collect();
    let keys: Vec<f32> = (0..512).map(|i| ((i * 31) % 512) as f32 - 0.5).collect();
    for device in devices() {
        let (x_d, keys_d) = (device.tensor(&x, [2, 256]).unwrap(), device.tensor(&keys, [2, 256]).unwrap());
        let mut sorted = device.tensor(&[f32::NAN; 512], [2, 256]).unwrap();
        let mut found = device.tensor(&[u32::MAX; 512], [2, 256]).unwrap();
        sort_and_find::launch(&device, &x_d, &keys_d, &mut sorted, &mut found).unwrap();
        let (sorted, found) = (sorted.to_vec().unwrap(), found.to_vec().unwrap());
        for row in 0..2 {
            let mut expected = x[row * 256..][..256].to_vec();
            expected.sort_by(f32::total_cmp);
            assert_eq!(sorted[row * 256..][..256], expected, "{device:?}");
            let places = keys[row * 256..][..256].iter().map(|key| expected.partition_point(|v| v < key) as u32);
            assert_eq!(found[row * 256..][..256], places.collect::<Vec<_>>(), "{device:?}");
        }
    }
}
