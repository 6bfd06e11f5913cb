//! Pipelined loops: whatever is loaded ahead, the sums are those of a plain loop.

use super::checked::both;
use super::gemv::noise;
use super::*;
use crate::ir::*;
use crate::lower::{bind, lower_bound};
use crate::testing::parsed;

/// A dot product of each row of `w` with `x`, two vectors of 4 a thread and step: the loop's `first` and `step`, its
/// stages, and how often it runs over the row.
fn dots(first: i64, step: i64, stages: i64, times: i64) -> Kernel {
    let load = |to: &str, from: &str| {
        format!(
            "for u in unroll(0..2) {{ for v in vectorized(0..4) {{ {to}[[u, v]] = {from}column + (u * 128 + v)]); }} }}"
        )
    };
    let (ws, xs) = (load("ws", "w.masked([row, "), load("xs", "x.masked(["));
    parsed(&format!(
        "#[require(K % 4 == 0)]
        kernel dots_{first}_{step}_{stages}_{times}(
            w: &Tensor<f32, (N, K)>,
            x: &Tensor<f32, (K,)>,
            y: &mut Tensor<f32, (N,)>,
        ) {{
            let [row] = blocks([N]);
            let [tk] = threads([32]);
            let mut acc = 0.0f32;
            let mut ws = alloc_local::<f32>([2, 4]);
            for time in 0..{times} {{
                for c in pipelined({first}..ceil_div(K, 256), {stages}).step_by({step}) {{
                    let column = c * 256 + tk * 4;
                    {ws}
                    let mut xs = alloc_local::<f32>([2, 4]);
                    {xs}
                    for u in unroll(0..2) {{
                        for v in unroll(0..4) {{
                            acc = fma(ws[[u, v]], xs[[u, v]], acc);
                        }}
                    }}
                }}
            }}
            let sum = thread_allreduce(Sum, acc, tk);
            if tk == 0 {{
                y[row] = sum;
            }}
        }}"
    ))
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
