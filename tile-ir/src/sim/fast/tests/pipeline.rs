//! Pipelined loops: whatever is loaded ahead, the sums are those of a plain loop.

use super::checked::both;
use super::gemv::noise;
use super::*;
use crate::ir::*;
use crate::lower::{bind, lower_bound};
use crate::testing::kernel;

/// A dot product of each row of `w` with `x`, two vectors of 4 a thread and step: the loop's `first` and `step`, its
/// stages, and how often it runs over the row.
fn dots(first: i64, step: i64, stages: i64, times: i64) -> Kernel {
    kernel(&format!("dots_{first}_{step}_{stages}_{times}"), |b| {
        let (n, k) = (b.dim("N"), b.dim("K"));
        let w = b.tensor("w", Dtype::F32, &[n, k]);
        let x = b.tensor("x", Dtype::F32, &[k]);
        let y = b.tensor_mut("y", Dtype::F32, &[n]);
        let four = b.int(4);
        let rest = b.binary(BinaryOp::Rem, k, four);
        let zero = b.int(0);
        let cond = b.eq(rest, zero);
        let span = SpanId::from_u32(0);
        b.kernel.requires.push(Require { cond, text: "K % 4 == 0".into(), span });
        let [row] = b.blocks([("row", n)]);
        let [tk] = b.threads([("tk", 32)]);
        let none = b.float(Dtype::F32, 0.0);
        let acc = b.bind_mut("acc", none);
        let ws = b.buffer("ws", Scope::Local, Dtype::F32, &[2, 4]);
        let chunk = b.int(256);
        let trips = b.binary(BinaryOp::CeilDiv, k, chunk);
        let stages = b.int(stages);
        let times = b.int(times);
        b.range("time", times, |b, _| {
            let bounds = [b.int(first), trips, b.int(step)];
            b.for_each("c", LoopKind::Pipelined { stages, schedule: crate::ir::Schedule::Auto }, bounds, |b, c| {
                let own = b.scaled(tk, 4, zero);
                let column = b.scaled(c, 256, own);
                let column = b.bind("column", column);
                let load = |b: &mut crate::testing::Builder, from: Place, row: Option<ExprId>, to: Place| {
                    let bounds = [b.int(0), b.int(2), b.int(1)];
                    b.for_each("u", LoopKind::Unroll, bounds, |b, u| {
                        let bounds = [b.int(0), b.int(4), b.int(1)];
                        b.for_each("v", LoopKind::Vectorized, bounds, |b, v| {
                            let offset = b.scaled(u, 128, v);
                            let at = b.add(column, offset);
                            let indices: Vec<ExprId> = row.into_iter().chain([at]).collect();
                            let loaded = b.masked(from, &indices);
                            b.store(to, &[u, v], loaded);
                        });
                    });
                };
                load(b, w, Some(row), ws);
                let xs = b.buffer("xs", Scope::Local, Dtype::F32, &[2, 4]);
                load(b, x, None, xs);
                let bounds = [b.int(0), b.int(2), b.int(1)];
                b.for_each("u", LoopKind::Unroll, bounds, |b, u| {
                    let bounds = [b.int(0), b.int(4), b.int(1)];
                    b.for_each("v", LoopKind::Unroll, bounds, |b, v| {
                        let (wv, xv) = (b.load(ws, &[u, v]), b.load(xs, &[u, v]));
                        let sum = b.math(MathFn::Fma, &[wv, xv, acc]);
                        b.assign(acc, sum);
                    });
                });
            });
        });
        let sum = b.reduce("sum", ReduceOp::Sum, acc, Some(tk));
        let leader = b.eq(tk, zero);
        b.when(leader, |b| b.store(y, &[row], sum));
    })
}

#[test]
fn every_number_of_stages_sums_alike() {
    for (first, step, times) in [(0, 1, 1), (0, 1, 2), (1, 1, 1), (0, 2, 1), (3, 2, 2)] {
        for (n, k) in [(1, 4), (3, 252), (2, 256), (3, 260), (2, 512), (1, 1020), (2, 1540), (1, 0)] {
            let args = || {
                let (w, x) = (noise((n * k) as usize, 3), noise(k as usize, 5));
                vec![tensor(Dtype::F32, &[n, k], &w), tensor(Dtype::F32, &[k], &x), zeros(Dtype::F32, &[n])]
            };
            let mut sums = Vec::new();
            for stages in 1..=4 {
                let built = dots(first, step, stages, times);
                both(&built, args);
                let args = args();
                ok(&built, &args);
                sums.push(values(&args[2]));
            }
            assert!(sums.iter().all(|s| *s == sums[0]), "{first} {step} {times} {n}x{k}: {sums:?}");
            let reached = first * 256 < k;
            assert_eq!(reached, sums[0].iter().any(|v| *v != 0.0), "{first} {step} {n}x{k}: {sums:?}");
        }
    }
}

#[test]
fn loads_are_issued_ahead_into_copies() {
    let bound = bind(&dots(0, 1, 3, 1), &Instance::default()).unwrap();
    let program = lower_bound(&bound, Target::Sm90a).unwrap();
    let copies: Vec<_> = program.locals.values().filter(|l| l.name.starts_with("ws")).map(|l| l.len).collect();
    assert_eq!(copies, [8, 8, 8], "{program}");
    // Two in the prologue, one in each of three iterations, and two of x in each iteration.
    let text = crate::emit::cuda::emit(&program);
    let loads =
        |from: &str| text.lines().filter(|l| l.contains("load16_if") && l.contains(&format!("&{from}["))).count();
    assert_eq!((loads("w"), loads("x")), (5, 3), "{text}");
}
