//! Kernels through the compiler: `checked` on the lowered program agrees with `fast` on the kernel, bit for bit, and
//! finds nothing.

use super::{build, clean};
use crate::ir::*;
use crate::lower;
use crate::sim::{Argument, fast, numeric};
use crate::testing::{Builder, gemv, kernel};

fn agree(bound: &Kernel, args: &dyn Fn() -> Vec<Argument>) {
    let program = lower::lower_bound(bound, Target::Sm90a).unwrap_or_else(|d| panic!("{}: {d:?}", bound.name));
    let (_, checked) = clean(&program, args);
    let expected = args();
    fast::run(bound, &expected).unwrap_or_else(|e| panic!("{}: {e}", bound.name));
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
    let bound = kernel("elementwise", |b: &mut Builder| {
        let n = b.dim("N");
        let x = b.tensor("x", Dtype::F32, &[n]);
        let y = b.tensor_mut("y", Dtype::F32, &[n]);
        let threads = b.int(64);
        let grid = b.binary(BinaryOp::CeilDiv, n, threads);
        let [bx] = b.blocks([("bx", grid)]);
        let [tx] = b.threads([("tx", 64)]);
        let i = b.scaled(bx, 64, tx);
        let i = b.bind("i", i);
        let inside = b.lt(i, n);
        b.when(inside, |b| {
            let (value, factor) = (b.load(x, &[i]), b.float(Dtype::F32, 0.3));
            let scaled = b.mul(value, factor);
            let sum = b.add(scaled, value);
            b.store(y, &[i], sum);
        });
    });
    for n in [0, 1, 63, 64, 65, 1000] {
        agree(&bound, &|| vec![build::floats(&[n], rough), build::floats(&[n], |_| 0.0)]);
    }
}

#[test]
fn blocks_reverse_their_part_through_shared_memory() {
    let bound = kernel("reverse", |b: &mut Builder| {
        let n = b.dim("N");
        let x = b.tensor("x", Dtype::F32, &[n]);
        let y = b.tensor_mut("y", Dtype::F32, &[n]);
        let threads = b.int(96);
        let grid = b.binary(BinaryOp::Div, n, threads);
        let [bx] = b.blocks([("bx", grid)]);
        let [tx] = b.threads([("tx", 96)]);
        let s = b.buffer("s", Scope::Shared, Dtype::F32, &[96]);
        let i = b.scaled(bx, 96, tx);
        let value = b.load(x, &[i]);
        b.store(s, &[tx], value);
        b.stmt(StmtKind::SyncThreads);
        let last = b.int(95);
        let other = b.binary(BinaryOp::Sub, last, tx);
        let value = b.load(s, &[other]);
        b.store(y, &[i], value);
    });
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
        let bound = kernel(&format!("reduce_{}x{}_{axis}", extents[0], extents[1]), |b: &mut Builder| {
            let n = b.dim("N");
            let x = b.tensor("x", Dtype::F32, &[n]);
            let y = b.tensor_mut("y", Dtype::F32, &[n]);
            let one = b.int(1);
            b.blocks([("bx", one)]);
            let threads = b.threads([("tx", extents[0]), ("ty", extents[1])]);
            let linear = b.scaled(threads[1], extents[0], threads[0]);
            let linear = b.bind("linear", linear);
            let value = b.load(x, &[linear]);
            let acc = b.bind_mut("acc", value);
            let three = b.int(3);
            b.range("i", three, |b, _| {
                let sum = b.reduce("sum", ReduceOp::Sum, acc, Some(threads[axis]));
                let most = b.reduce("most", ReduceOp::Max, acc, Some(threads[axis]));
                let half = b.float(Dtype::F32, 0.5);
                let sum = b.mul(sum, half);
                let next = b.binary(BinaryOp::Sub, most, sum);
                b.assign(acc, next);
            });
            b.store(y, &[linear], acc);
        });
        agree(&bound, &|| vec![build::floats(&[total], rough), build::floats(&[total], |_| 0.0)]);
    }
}

#[test]
fn the_vectorised_gemv() {
    for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32] {
        let vec = 128 / i64::from(dtype.bits());
        let numbers = |seed: usize, shape: &[i64]| {
            let count = shape.iter().product::<i64>() as usize;
            let element = |i: usize| {
                let value = (((i * 7919 + seed * 31) % 257) as f32 - 128.0) / 37.0;
                numeric::encode(dtype, value).to_le_bytes()[..dtype.bytes() as usize].to_vec()
            };
            build::tensor(dtype, shape, &(0..count).flat_map(element).collect::<Vec<u8>>())
        };
        for rows in [1, 4] {
            let mut bound = gemv(dtype, rows);
            bound.requires = vec![multiple_of(&mut bound.exprs, DimId::from_u32(0), vec)];
            for (n, k) in [(1, 8), (7, 264), (33, 1000), (64, 512)] {
                agree(&bound, &|| vec![numbers(1, &[k]), numbers(2, &[n, k]), numbers(3, &[n])]);
            }
        }
    }
}

/// `require(dim % n == 0)`
fn multiple_of(exprs: &mut PrimaryMap<ExprId, Expr>, dim: DimId, n: i64) -> Require {
    let span = SpanId::from_u32(0);
    let mut push = |kind, ty| exprs.push(Expr { kind, ty, span });
    let (dim, n, zero) = (ExprKind::Dim(dim), ExprKind::Int(n), ExprKind::Int(0));
    let [dim, n, zero] = [dim, n, zero].map(|kind| push(kind, Type::Index));
    let rest = push(ExprKind::Binary(BinaryOp::Rem, dim, n), Type::Index);
    let cond = push(ExprKind::Binary(BinaryOp::Eq, rest, zero), Type::BOOL);
    Require { cond, text: "K % vec == 0".into(), span }
}
