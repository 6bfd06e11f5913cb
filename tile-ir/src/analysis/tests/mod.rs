//! Each rule with a kernel that keeps it, one that breaks it, and one that is not known to: a file a family of rules,
//! and here what they share, with a whole kernel.

mod barriers;
mod blocks;
mod bounds;
mod budgets;
mod check;
mod data;
mod doubts;
mod initialised;
mod pipelined;
mod races;
mod ranges;
mod specialize;
mod tile_operations;
mod vectors;

use super::testing::report;
use super::*;
use crate::diag::Code;
use crate::ir::*;
use crate::testing::parsed;
use expect_test::{Expect, expect};

/// The analysis, without what it says of elements that nobody wrote: these kernels have only the statements that their
/// rule is about. `initialised` is about the others.
fn run(kernel: &str) -> Analysis {
    let mut analysis = analyse(&crate::testing::bound(&parsed(kernel)), Target::Sm90a);
    analysis.diagnostics.retain(|d| d.code != Code::UNINITIALISED);
    analysis
}

fn fails(kernel: &str, expected: Expect) {
    expected.assert_eq(&report(&run(kernel).diagnostics));
}

fn clean(kernel: &str) -> Analysis {
    let analysis = run(kernel);
    assert_eq!(report(&analysis.diagnostics), "");
    analysis
}

/// The GEMV of the book, bound for `T = f16, ROWS = 4`, without its `require`.
const GEMV: &str = r"
kernel k(
    x: &Tensor<f16, (K,)>,
    w: &Tensor<f16, (N, K)>,
    y: &mut Tensor<f16, (N,)>,
) {
    let [bn] = blocks([ceil_div(N, 4)]);
    let [tk, tn] = threads([32, 4]);
    let row: usize = 4 * bn + tn;
    let mut acc: f32 = 0.0f32;
    let mut xs = alloc_local::<f16>([8]);
    let mut ws = alloc_local::<f16>([8]);
    for bk in 0..ceil_div(K, 256) {
        for v in vectorized(0..8) {
            xs[v] = x.masked([256 * bk + 8 * tk + v]);
            ws[v] = w.masked([row, 256 * bk + 8 * tk + v]);
        }
        for v in unroll(0..8) {
            acc = fma(xs[v].cast::<f32>(), ws[v].cast::<f32>(), acc);
        }
    }
    let sum: f32 = thread_allreduce(Sum, acc, tk);
    if tk == 0 && row < N {
        y[row] = sum.cast::<f16>();
    }
}
";

/// The GEMV with `require(K % 8 == 0)`.
fn gemv() -> String {
    format!("#[require(K % 8 == 0)] {}", GEMV.trim())
}

#[test]
fn gemv_is_clean_and_its_facts_are_known() {
    let analysis = clean(&gemv());
    // The accesses are numbered as they are read; the store of `y` is the last one.
    assert!(analysis.in_bounds(AccessId::from_u32(6)));
    let vectors: Vec<_> = analysis.vectors.values().map(|v| (v.width, v.bytes)).collect();
    assert_eq!(vectors, [(8, 16); 4]);
    let needs: Vec<_> = analysis.launch_needs.iter().map(|n| (n.align_bytes, n.stride_multiple.clone())).collect();
    assert_eq!(needs, [(16, vec![1]), (16, vec![8, 1])]);
    let dims = ["K".to_owned(), "N".to_owned()];
    let ranges: Vec<String> =
        analysis.index_ranges.iter().map(|r| r.bound.display(&dims, &|_| String::new())).collect();
    expect![[r#"
        [
            "K + 255",
        ]
    "#]]
    .assert_debug_eq(&ranges);
    assert!(analysis.barriers_before.is_empty());
}

#[test]
fn gemv_without_its_require() {
    fails(
        GEMV,
        expect![[r#"
            [TK0204] 16-byte vector access to `x` may straddle its edge
              at: it is all or nothing: the 8 elements exist together only if K % 8 == 0
              label: 8 elements a transaction
              help: add `require(K % 8 == 0)` to #[tile_kernel(..)], or vectorise by 1
            [TK0201] 16-byte vector access to `w` is not aligned
              at: row stride is K elements; row 1 starts at byte 2*K, a multiple of 16 only if K % 8 == 0
              label: 8 elements a transaction
              help: add `require(K % 8 == 0)` to #[tile_kernel(..)], or vectorise by 1
        "#]],
    );
}

#[test]
fn analysis_is_deterministic() {
    let first = clean(&gemv());
    for _ in 0..4 {
        assert_eq!(clean(&gemv()), first);
    }
}

#[test]
fn gemv_is_analysed_in_time() {
    let kernel = parsed(&gemv());
    let start = std::time::Instant::now();
    for _ in 0..10 {
        anywhere(&crate::testing::bound(&kernel));
    }
    let each = start.elapsed() / 10;
    println!("analysis of gemv: {each:?}");
    // 2 ms is the budget of an unoptimised build; a loaded machine gets ten times that.
    assert!(each.as_millis() < 20, "{each:?}");
}
