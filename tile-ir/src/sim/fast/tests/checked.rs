//! The same kernels through the lowering and the checked simulator: the same bits, and no finding.

use super::gemv::noise;
use super::*;
use crate::ir::*;
use crate::lower::{bind, lower_bound};
use crate::sim::checked::{self, CheckedOptions};
use crate::testing::{self, kernel};

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
        let built = kernel("arith", |b| {
            let n = b.dim("N");
            let count = b.int(ops.len() as i64);
            let x = b.tensor("x", dtype, &[n]);
            let y = b.tensor_mut("y", dtype, &[n, n, count]);
            let [bx] = b.blocks([("bx", n)]);
            let [tx] = b.threads([("tx", 16)]);
            let inside = b.lt(tx, n);
            b.when(inside, |b| {
                let (left, right) = (b.load(x, &[bx]), b.load(x, &[tx]));
                for (i, op) in ops.iter().enumerate() {
                    let value = b.binary(*op, left, right);
                    let index = b.int(i as i64);
                    b.store(y, &[bx, tx, index], value);
                }
            });
        });
        both(&built, || vec![tensor(dtype, &[12], &data), zeros(dtype, &[12, 12, ops.len() as i64])]);
    }
}

#[test]
fn reductions_across_warps_and_axes() {
    for (extents, axis) in [([64, 2, 1], 0), ([48, 2, 1], 0), ([8, 4, 3], 1), ([32, 8, 1], 1), ([4, 2, 6], 2)] {
        let built = kernel("reduce", |b| {
            let (m, n) = (b.dim("M"), b.dim("N"));
            let x = b.tensor("x", Dtype::F32, &[m, n]);
            let y = b.tensor_mut("y", Dtype::F32, &[m, n]);
            let [bx] = b.blocks([("bx", m)]);
            let threads = b.threads([("tx", extents[0]), ("ty", extents[1]), ("tz", extents[2])]);
            let linear = b.scaled(threads[2], extents[1], threads[1]);
            let linear = b.scaled(linear, extents[0], threads[0]);
            let value = b.masked(x, &[bx, linear]);
            let sum = b.reduce("sum", ReduceOp::Sum, value, Some(threads[axis]));
            b.store_masked(y, &[bx, linear], sum);
        });
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
        let built = kernel("tiles", |b| {
            let (rows, columns) = (b.dim("M"), b.dim("N"));
            let x = b.tensor("x", Dtype::F32, &[rows, columns]);
            let y = b.tensor_mut("y", Dtype::F16, &[rows, columns]);
            let (two, four) = (b.int(2), b.int(4));
            let grid = (b.binary(BinaryOp::CeilDiv, columns, four), b.binary(BinaryOp::CeilDiv, rows, two));
            let [bx, by] = b.blocks([("bx", grid.0), ("by", grid.1)]);
            b.threads([("tx", 3)]);
            let s = b.buffer("s", Scope::Shared, Dtype::F32, &[2, 4]);
            let (row, column) = (b.mul(by, two), b.mul(bx, four));
            let (from, to) = (b.tile(x, &[row, column], &[]), b.tile(s, &[], &[]));
            b.copy(from, to);
            b.parallel(&[("i", two), ("j", four)], |b, ij| {
                let value = b.load(s, ij);
                let doubled = b.add(value, value);
                b.store(s, ij, doubled);
            });
            let (from, to) = (b.tile(s, &[], &[]), b.tile(y, &[row, column], &[]));
            b.copy(from, to);
        });
        both(&built, || vec![tensor(Dtype::F32, &[m, n], &ramp(m * n)), zeros(Dtype::F16, &[m, n])]);
    }
}
