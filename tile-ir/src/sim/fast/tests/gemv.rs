use super::*;
use crate::testing;

/// Seeded values in -1..1 that f16 and bf16 hold exactly.
pub(super) fn noise(count: usize, seed: u32) -> Vec<f64> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from((state >> 25) as i32 - 64) / 64.0
    };
    (0..count).map(next).collect()
}

/// The kernel's own order of additions, in plain Rust.
fn reference(dtype: Dtype, n: usize, k: usize, x: &[f64], w: &[f64]) -> Vec<f64> {
    let vec = 128 / dtype.bits() as usize;
    let row = |row: usize| {
        let mut lanes = [0f32; 32];
        for bk in 0..k.div_ceil(32 * vec) {
            for (lane, acc) in lanes.iter_mut().enumerate() {
                for v in 0..vec {
                    let column = bk * 32 * vec + lane * vec + v;
                    if column < k {
                        *acc = (x[column] as f32).mul_add(w[row * k + column] as f32, *acc);
                    }
                }
            }
        }
        for mask in [16, 8, 4, 2, 1] {
            lanes = std::array::from_fn(|lane| lanes[lane] + lanes[lane ^ mask]);
        }
        f64::from(numeric::round(dtype, lanes[0]))
    };
    (0..n).map(row).collect()
}

#[test]
fn gemv_is_the_reference_bit_for_bit() {
    for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32] {
        for (rows, n, k) in [(1, 1, 8), (8, 13, 264), (4, 9, 1000), (16, 16, 8)] {
            let (x, w) = (noise(k, 1), noise(n * k, 2));
            let args =
                [tensor(dtype, &[k as i64], &x), tensor(dtype, &[n as i64, k as i64], &w), zeros(dtype, &[n as i64])];
            let report = ok(&testing::gemv(dtype, rows), &args);
            assert_eq!(report.blocks, n.div_ceil(rows as usize) as u64);
            assert_eq!(values(&args[2]), reference(dtype, n, k, &x, &w), "{dtype} {rows} {n} {k}");
        }
    }
}

/// `cargo test --release -p tile-ir --features parallel -- --ignored --nocapture speed`
#[test]
#[ignore = "a measurement"]
fn speed() {
    let (n, k) = (4096i64, 4096i64);
    for dtype in [Dtype::F16, Dtype::F32] {
        let args = [
            tensor(dtype, &[k], &noise(k as usize, 1)),
            tensor(dtype, &[n, k], &noise((n * k) as usize, 2)),
            zeros(dtype, &[n]),
        ];
        for rows in [8, 1] {
            let start = std::time::Instant::now();
            ok(&testing::gemv(dtype, rows), &args);
            println!("gemv {dtype} {n} x {k}, {rows} rows a block: {:?}", start.elapsed());
        }
    }
}
