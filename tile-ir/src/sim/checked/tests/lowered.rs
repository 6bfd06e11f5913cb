//! Kernels through the compiler: `checked` on the lowered program agrees with `fast` on the kernel, bit for bit, and
//! finds nothing.

use super::{build, clean};
use crate::ir::*;
use crate::lower;
use crate::sim::{Argument, ScalarValue, fast, numeric};
use crate::testing::{gemv, parsed};

fn agree(bound: &Kernel, args: &dyn Fn() -> Vec<Argument>) {
    let program = lower::lower_bound(&crate::testing::bound(bound), Target::Sm90a)
        .unwrap_or_else(|d| panic!("{}: {d:?}", bound.name));
    let (_, checked) = clean(&program, args);
    let expected = args();
    fast::run(&crate::testing::bound(bound), &expected).unwrap_or_else(|e| panic!("{}: {e}", bound.name));
    for (i, (a, b)) in expected.iter().zip(&checked).enumerate() {
        assert_eq!(build::bytes(a), build::bytes(b), "argument {i} of {}", bound.name);
    }
}

/// Numbers whose sums show the order of additions.
fn rough(i: usize) -> f32 {
    (1.0 + i as f32 * 0.37).powi(5) * if i.is_multiple_of(3) { -1.0 } else { 1.0 }
}

#[test]
fn elementwise_with_a_guard() {
    // if i < N { y[i] = x[i] * a + x[i] }
    let bound = parsed(
        r"
            kernel elementwise(
                x: &Tensor<f32, (N,)>,
                y: &mut Tensor<f32, (N,)>,
            ) {
                let [bx] = blocks([ceil_div(N, 64)]);
                let [tx] = threads([64]);
                let i: usize = bx * 64 + tx;
                if i < N {
                    y[i] = x[i] * 0.3f32 + x[i];
                }
            }
        ",
    );
    for n in [0, 1, 63, 64, 65, 1000] {
        agree(&bound, &|| vec![build::floats(&[n], rough), build::floats(&[n], |_| 0.0)]);
    }
}

#[test]
fn an_element_that_several_threads_hold_is_updated_in_memory_once() {
    // Each row's sum is in the registers of as many threads as share the row; one of them reads and writes `y`.
    let bound = parsed(
        r"
            kernel row_sums(
                x: &Tensor<f32, (M, Fixed<64>)>,
                y: &mut Tensor<f32, (M,)>,
                a: f32,
            ) {
                let [bx] = blocks([ceil_div(M, 16)]);
                let [tx] = threads([128]);
                let mut tile = alloc_fragment::<f32>([16, 64]);
                let mut sums = alloc_fragment::<f32>([16]);
                copy(x.at([bx * 16, 0]), &mut tile);
                reduce(Sum, &tile, &mut sums, 1);
                for [i] in parallel([16]) {
                    let row: usize = bx * 16 + i;
                    if row < M {
                        let old: f32 = y[row];
                        y[row] = a * sums[i] + old;
                    }
                }
            }
        ",
    );
    for m in [0, 1, 16, 37] {
        let scale = Argument::Scalar(ScalarValue::Element(Dtype::F32, 0.5f32.to_bits()));
        agree(&bound, &|| vec![build::floats(&[m, 64], rough), build::floats(&[m], rough), scale.clone()]);
    }
}

#[test]
fn blocks_reverse_their_part_through_shared_memory() {
    let bound = parsed(
        r"
            kernel reverse(
                x: &Tensor<f32, (N,)>,
                y: &mut Tensor<f32, (N,)>,
            ) {
                let [bx] = blocks([N / 96]);
                let [tx] = threads([96]);
                let mut s = alloc_shared::<f32>([96]);
                s[tx] = x[bx * 96 + tx];
                sync_threads();
                y[bx * 96 + tx] = s[95 - tx];
            }
        ",
    );
    for blocks in [1, 5] {
        let n = blocks * 96;
        agree(&bound, &|| vec![build::floats(&[n], rough), build::floats(&[n], |_| 0.0)]);
    }
}

#[test]
fn reductions_over_every_kind_of_group() {
    // sum and maximum over one thread axis, in a loop, so that the scratch is reused
    for (extents, axis) in [([64, 2], 0), ([48, 1], 0), ([8, 4], 0), ([8, 4], 1), ([16, 3], 1), ([32, 5], 1)] {
        let total = extents[0] * extents[1];
        let ([x, y], axis) = (extents, ["tx", "ty"][axis]);
        let bound = parsed(&format!(
            "kernel reduce_{x}x{y}_{axis}(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {{
                let [bx] = blocks([1]);
                let [tx, ty] = threads([{x}, {y}]);
                let linear = ty * {x} + tx;
                let mut acc = x[linear];
                for i in 0..3 {{
                    let sum = thread_allreduce(Sum, acc, {axis});
                    let most = thread_allreduce(Max, acc, {axis});
                    acc = most - sum * 0.5f32;
                }}
                y[linear] = acc;
            }}"
        ));
        agree(&bound, &|| vec![build::floats(&[total], rough), build::floats(&[total], |_| 0.0)]);
    }
}

#[test]
fn the_vectorised_gemv() {
    for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32] {
        let numbers = |seed: usize, shape: &[i64]| {
            let count = shape.iter().product::<i64>() as usize;
            let element = |i: usize| {
                let value = (((i * 7919 + seed * 31) % 257) as f32 - 128.0) / 37.0;
                numeric::encode(dtype, value).to_le_bytes()[..dtype.bytes() as usize].to_vec()
            };
            build::tensor(dtype, shape, &(0..count).flat_map(element).collect::<Vec<u8>>())
        };
        for rows in [1, 4] {
            let bound = gemv(dtype, rows);
            for (n, k) in [(1, 8), (7, 264), (33, 1000), (64, 512)] {
                agree(&bound, &|| vec![numbers(1, &[k]), numbers(2, &[n, k]), numbers(3, &[n])]);
            }
        }
    }
}
