//! The same kernels through the lowering and the checked simulator: the same bits, and no finding.

use super::gemv::noise;
use super::*;
use crate::ir::*;
use crate::lower::{bind, lower_bound};
use crate::sim::checked::{self, CheckedOptions};
use crate::testing::{self, parsed};

/// Runs both; the arguments are given twice because they are written.
pub(super) fn both(built: &Kernel, args: impl Fn() -> Vec<Argument>) {
    let bound = bind(built, &Instance::default()).unwrap_or_else(|d| panic!("{d:?}"));
    let program = lower_bound(&bound, Target::Sm90a).unwrap_or_else(|d| panic!("{d:?}"));
    let (ours, theirs) = (args(), args());
    let report = checked::run(&program, &theirs, &CheckedOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    assert!(report.is_clean(), "{program}\n{}", report.render(&program));
    ok(&bound, &ours);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        if let (Argument::Tensor(ours), Argument::Tensor(theirs)) = (ours, theirs) {
            let bytes = |memory: &Memory| {
                let mut bytes = vec![0; memory.len()];
                memory.read(0, &mut bytes).unwrap();
                bytes
            };
            assert_eq!(bytes(&ours.memory), bytes(&theirs.memory), "{bound}\n{program}");
        }
    }
}

#[test]
fn the_gemv() {
    for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32] {
        for (rows, n, k) in [(1, 3, 8), (4, 9, 264), (8, 5, 1000)] {
            both(&testing::gemv(dtype, rows), || {
                vec![
                    tensor(dtype, &[k], &noise(k as usize, 7)),
                    tensor(dtype, &[n, k], &noise((n * k) as usize, 8)),
                    zeros(dtype, &[n]),
                ]
            });
        }
    }
}

#[test]
fn arithmetic_on_awkward_values() {
    let floats = [0.0, -0.0, 1.0, -2.5, 65504.0, 6e-8, f64::INFINITY, f64::NAN, 0.1, 3.0, 1e-3, -7.0];
    let ints = [0.0, 1.0, -1.0, 7.0, -7.0, 2147483647.0, -2147483648.0, 33.0, 5.0, 2.0, 100.0, -3.0];
    use BinaryOp::*;
    for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::I32, Dtype::U32] {
        let data = if dtype.is_float() { floats } else { ints };
        let ops: &[BinaryOp] = if dtype.is_float() {
            &[Add, Sub, Mul, Div, Rem, Min, Max]
        } else {
            &[Add, Sub, Mul, Min, Max, BitAnd, BitOr, BitXor, Shl, Shr]
        };
        let value = |op: &BinaryOp| match op {
            Min | Max => format!("{}(x[bx], x[tx])", op.symbol()),
            _ => format!("x[bx] {} x[tx]", op.symbol()),
        };
        let stores: String =
            ops.iter().enumerate().map(|(i, op)| format!("y[[bx, tx, {i}]] = {};\n", value(op))).collect();
        let built = parsed(&format!(
            "kernel arith(x: &Tensor<{dtype}, (N,)>, y: &mut Tensor<{dtype}, (N, N, Fixed<{}>)>) {{
                let [bx] = blocks([N]);
                let [tx] = threads([16]);
                if tx < N {{
                    {stores}
                }}
            }}",
            ops.len()
        ));
        both(&built, || vec![tensor(dtype, &[12], &data), zeros(dtype, &[12, 12, ops.len() as i64])]);
    }
}

#[test]
fn reductions_across_warps_and_axes() {
    for (extents, axis) in [([64, 2, 1], 0), ([48, 2, 1], 0), ([8, 4, 3], 1), ([32, 8, 1], 1), ([4, 2, 6], 2)] {
        let ([x, y, z], axis) = (extents, ["tx", "ty", "tz"][axis]);
        let built = parsed(&format!(
            "kernel reduce(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {{
                let [bx] = blocks([M]);
                let [tx, ty, tz] = threads([{x}, {y}, {z}]);
                let linear = (tz * {y} + ty) * {x} + tx;
                let sum = thread_allreduce(Sum, x.masked([bx, linear]), {axis});
                *y.masked_mut([bx, linear]) = sum;
            }}"
        ));
        let count = extents.iter().product::<i64>();
        both(&built, || {
            let x: Vec<f64> = (0..2 * count).map(|i| f64::from((1.0 + i as f32 * 0.37).powi(5))).collect();
            vec![tensor(Dtype::F32, &[2, count], &x), zeros(Dtype::F32, &[2, count])]
        });
    }
}

#[test]
fn tiles_through_shared_memory() {
    for (m, n) in [(1, 1), (3, 5), (4, 8), (5, 9)] {
        let built = parsed(
            r"
            kernel tiles(
                x: &Tensor<f32, (M, N)>,
                y: &mut Tensor<f16, (M, N)>,
            ) {
                let [bx, by] = blocks([ceil_div(N, 4), ceil_div(M, 2)]);
                let [tx] = threads([3]);
                let mut s = alloc_shared::<f32>([2, 4]);
                copy(x.at([by * 2, bx * 4]), &mut s);
                for [i, j] in parallel([2, 4]) {
                    s[[i, j]] = s[[i, j]] + s[[i, j]];
                }
                copy(&s, y.at_mut([by * 2, bx * 4]));
            }
        ",
        );
        both(&built, || vec![tensor(Dtype::F32, &[m, n], &ramp(m * n)), zeros(Dtype::F16, &[m, n])]);
    }
}
