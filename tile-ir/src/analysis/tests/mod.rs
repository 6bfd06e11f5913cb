//! Each rule with a kernel that keeps it, one that breaks it, and one that is not known to: a file a family of rules,
//! and here what they share, with a whole kernel.

mod barriers;
mod blocks;
mod bounds;
mod budgets;
mod check;
mod data;
mod initialised;
mod pipelined;
mod races;
mod ranges;
mod specialize;
mod tile_operations;
mod vectors;

use super::testing::{Build, E, report};
use super::*;
use crate::diag::Code;
use crate::ir::*;
use expect_test::{Expect, expect};

/// The analysis, without what it says of elements that nobody wrote: these kernels have only the statements that their
/// rule is about. `initialised` is about the others.
fn run(build: Build) -> Analysis {
    let mut analysis = analyse(&build.done(), Target::Sm90a);
    analysis.diagnostics.retain(|d| d.code != Code::UNINITIALISED);
    analysis
}

fn fails(build: Build, expected: Expect) {
    expected.assert_eq(&report(&run(build).diagnostics));
}

fn clean(build: Build) -> Analysis {
    let analysis = run(build);
    assert_eq!(report(&analysis.diagnostics), "");
    analysis
}

/// The GEMV of `language.md`, bound for `T = f16, ROWS = 4`; `aligned` with its `require`.
fn gemv(aligned: bool) -> (Build, AccessId) {
    let mut b = Build::new();
    let x = b.tensor("x", Dtype::F16, &["K"], false);
    let w = b.tensor("w", Dtype::F16, &["N", "K"], false);
    let y = b.tensor("y", Dtype::F16, &["N"], true);
    if aligned {
        b.require_multiple("K", 8);
    }
    let (n, rows) = (b.dim("N"), b.int(4));
    let grid = b.bin(BinaryOp::CeilDiv, n, rows);
    let bn = b.blocks("bn", grid);
    let tk = b.threads("tk", 32);
    let tn = b.threads("tn", 4);
    let (base, tn_) = (b.affine(4, bn, 0), b.var(tn));
    let row = b.add(base, tn_);
    let row = b.let_("row", row);
    let zero = b.float(0.0);
    let acc = b.let_mut("acc", zero);
    let xs = b.local("xs", Dtype::F16, &[8]);
    let ws = b.local("ws", Dtype::F16, &[8]);
    let (k, step) = (b.dim("K"), b.int(256));
    let trips = b.bin(BinaryOp::CeilDiv, k, step);
    b.serial("bk", trips, |b, bk| {
        b.vectorized("v", 8, |b, v| {
            let index = |b: &mut Build| {
                let (start, lane, v_) = (b.affine(256, bk, 0), b.affine(8, tk, 0), b.var(v));
                let sum = b.add(start, lane);
                b.add(sum, v_)
            };
            let (i, at) = (index(b), b.var(v));
            let value = b.masked(x, &[i]);
            b.store(xs, &[at], value);
            let (r, i, at) = (b.var(row), index(b), b.var(v));
            let value = b.masked(w, &[r, i]);
            b.store(ws, &[at], value);
        });
        let (zero, eight) = (b.int(0), b.int(8));
        b.for_("v", zero, eight, LoopKind::Unroll, |b, v| {
            let (i, j) = (b.var(v), b.var(v));
            let (p, q) = (b.load(xs, &[i]), b.load(ws, &[j]));
            let p = b.expr(ExprKind::Cast(Type::F32, p), Type::F32);
            let q = b.expr(ExprKind::Cast(Type::F32, q), Type::F32);
            let a = b.var(acc);
            let sum = b.expr(ExprKind::Math(MathFn::Fma, vec![p, q, a]), Type::F32);
            b.assign(acc, sum);
        });
    });
    let a = b.var(acc);
    let sum = b.allreduce("sum", a, tk);
    let (t, zero, r, n) = (b.var(tk), b.int(0), b.var(row), b.dim("N"));
    let first = b.bin(BinaryOp::Eq, t, zero);
    let inside = b.lt(r, n);
    let cond = b.and(first, inside);
    let mut stored = None;
    b.if_(cond, |b| {
        let (r, s) = (b.var(row), b.var(sum));
        let s = b.expr(ExprKind::Cast(Type::Value(Dtype::F16.into()), s), Type::Value(Dtype::F16.into()));
        stored = Some(b.store(y, &[r], s));
    });
    (b, stored.unwrap())
}

#[test]
fn gemv_is_clean_and_its_facts_are_known() {
    let (b, store) = gemv(true);
    let analysis = clean(b);
    assert!(analysis.in_bounds(store));
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
    let (b, _) = gemv(false);
    fails(
        b,
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
    let first = clean(gemv(true).0);
    for _ in 0..4 {
        assert_eq!(clean(gemv(true).0), first);
    }
}

#[test]
fn gemv_is_analysed_in_time() {
    let kernel = gemv(true).0.done();
    let start = std::time::Instant::now();
    for _ in 0..10 {
        anywhere(&kernel);
    }
    let each = start.elapsed() / 10;
    println!("analysis of gemv: {each:?}");
    // 2 ms is the budget of an unoptimised build; a loaded machine gets ten times that.
    assert!(each.as_millis() < 20, "{each:?}");
}
