//! Each rule with a kernel that keeps it, one that breaks it, and one that is not known to.

use super::testing::{Build, E, report};
use super::*;
use crate::ir::*;
use expect_test::{Expect, expect};

fn run(build: Build) -> Analysis {
    analyse(&build.done(), Target::Sm90a)
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

/// 128 threads, one shared array of 128 floats; `index` of the thread is read.
fn shared_read(index: impl FnOnce(&mut Build, VarId) -> E) -> (Build, AccessId) {
    let mut b = Build::new();
    let t = b.threads("t", 128);
    let s = b.shared("s", Dtype::F32, &[128]);
    let i = index(&mut b, t);
    let access = b.access(s, &[i], false);
    let value = b.expr(ExprKind::Load(access), Type::F32);
    b.let_("value", value);
    (b, access)
}

#[test]
fn shared_bounds() {
    let (b, access) = shared_read(|b, t| b.var(t));
    assert_eq!(clean(b).bounds[&access], [Bound::Proven]);
    let (b, _) = shared_read(|b, t| b.affine(1, t, 1));
    fails(
        b,
        expect![[r#"
            [TK0301] shared index out of bounds
              at: reaches 128 at t = 127 (thread 127); `s` has 128 elements
        "#]],
    );
    // Only some launches: guarded, not an error.
    let (b, access) = shared_read(|b, t| {
        let (n, t) = (b.dim("N"), b.var(t));
        b.add(n, t)
    });
    assert_eq!(clean(b).bounds[&access], [Bound::Unproven]);
}

#[test]
fn shared_bounds_under_a_condition_on_threads() {
    let guarded = |limit: i64| {
        let mut b = Build::new();
        let t = b.threads("t", 128);
        let s = b.shared("s", Dtype::F32, &[128]);
        let (t_, most) = (b.var(t), b.int(limit));
        let cond = b.lt(t_, most);
        b.if_(cond, |b| {
            let i = b.affine(1, t, 64);
            let value = b.load(s, &[i]);
            b.let_("value", value);
        });
        b
    };
    clean(guarded(64));
    fails(
        guarded(65),
        expect![[r#"
            [TK0301] shared index out of bounds
              at: reaches 128 at t = 64 (thread 64); `s` has 128 elements
        "#]],
    );
}

#[test]
fn global_bounds() {
    let kernel = |shift: i64, guard: bool, exact: bool| {
        let mut b = Build::new();
        let x = b.tensor("x", Dtype::F32, &["N"], false);
        if exact {
            b.require_multiple("N", 128);
        }
        let (n, c) = (b.dim("N"), b.int(128));
        let grid = b.bin(BinaryOp::CeilDiv, n, c);
        let bx = b.blocks("bx", grid);
        let t = b.threads("t", 128);
        let (base, t_) = (b.affine(128, bx, shift), b.var(t));
        let i = b.add(base, t_);
        let i = b.let_("i", i);
        let at = b.var(i);
        let access = b.access(x, &[at], false);
        let value = b.expr(ExprKind::Load(access), Type::F32);
        if guard {
            let (i_, n) = (b.var(i), b.dim("N"));
            let cond = b.lt(i_, n);
            b.if_(cond, |b| {
                b.let_("value", value);
            });
        } else {
            b.let_("value", value);
        }
        (b, access)
    };
    for (shift, guard, exact, wanted) in [
        (0, true, false, Bound::Proven),
        (0, false, true, Bound::Proven),
        (0, false, false, Bound::Unproven),
        (1, true, false, Bound::Proven),
    ] {
        let (b, access) = kernel(shift, guard, exact);
        assert_eq!(clean(b).bounds[&access], [wanted], "{shift} {guard} {exact}");
    }
    // The last thread of the last block, whatever N is.
    let (b, _) = kernel(1, false, false);
    fails(
        b,
        expect![[r#"
        [TK0301] index out of bounds
          at: reaches (ceil_div(N, 128)) * 128 at bx = (ceil_div(N, 128)) - 1, t = 127 (thread 127); `x` has N elements
    "#]],
    );
    let (b, _) = kernel(1, false, true);
    fails(
        b,
        expect![[r#"
            [TK0301] index out of bounds
              at: reaches N at bx = (N / 128) - 1, t = 127 (thread 127); `x` has N elements
        "#]],
    );
}

#[test]
fn a_loop_over_a_dim_that_reads_one_too_far() {
    let kernel = |shift: i64| {
        let mut b = Build::new();
        let x = b.tensor("x", Dtype::F32, &["K"], false);
        b.threads("t", 32);
        let k = b.dim("K");
        b.serial("k", k, |b, k| {
            let i = b.affine(1, k, shift);
            let value = b.load(x, &[i]);
            b.let_("value", value);
        });
        b
    };
    clean(kernel(0));
    fails(
        kernel(1),
        expect![[r#"
            [TK0301] index out of bounds
              at: reaches K at k = K - 1; `x` has K elements
        "#]],
    );
    fails(
        kernel(-1),
        expect![[r#"
            [TK0301] index out of bounds
              at: reaches -1 at k = 0; `x` has K elements
        "#]],
    );
}

#[test]
fn indices_from_memory_are_unproven_until_guarded() {
    let kernel = |guard: bool| {
        let mut b = Build::new();
        let at = b.tensor("at", Dtype::I32, &["N"], false);
        let x = b.tensor("x", Dtype::F32, &["N"], false);
        b.threads("t", 32);
        let zero = b.int(0);
        let loaded = b.load(at, &[zero]);
        let index = b.expr(ExprKind::Cast(Type::Index, loaded), Type::Index);
        let i = b.let_("i", index);
        let i_ = b.var(i);
        let access = b.access(x, &[i_], false);
        let value = b.expr(ExprKind::Load(access), Type::F32);
        if guard {
            let (i1, zero, i2, n) = (b.var(i), b.int(0), b.var(i), b.dim("N"));
            let (low, high) = (b.bin(BinaryOp::Ge, i1, zero), b.lt(i2, n));
            let cond = b.and(low, high);
            b.if_(cond, |b| {
                b.let_("value", value);
            });
        } else {
            b.let_("value", value);
        }
        (b, access)
    };
    let (b, access) = kernel(false);
    assert_eq!(clean(b).bounds[&access], [Bound::Unproven]);
    let (b, access) = kernel(true);
    assert_eq!(clean(b).bounds[&access], [Bound::Proven]);
}

#[test]
fn mutable_variables_are_forgotten_in_loops() {
    let mut b = Build::new();
    let x = b.tensor("x", Dtype::F32, &["N"], false);
    b.threads("t", 32);
    let s = b.shared("s", Dtype::F32, &[4]);
    let zero = b.int(0);
    let i = b.let_mut("i", zero);
    let first = b.var(i);
    let before = b.access(s, &[first], false);
    let value = b.expr(ExprKind::Load(before), Type::F32);
    b.let_("a", value);
    let n = b.dim("N");
    let mut inside = None;
    b.serial("k", n, |b, k| {
        let at = b.var(i);
        let access = b.access(s, &[at], false);
        let value = b.expr(ExprKind::Load(access), Type::F32);
        b.let_("b", value);
        let next = b.affine(1, i, 1);
        b.assign(i, next);
        let at = b.var(k);
        let value = b.load(x, &[at]);
        b.let_("c", value);
        inside = Some(access);
    });
    let analysis = clean(b);
    assert_eq!(analysis.bounds[&before], [Bound::Proven]);
    assert_eq!(analysis.bounds[&inside.unwrap()], [Bound::Unproven]);
}

/// A vectorised copy of `width` elements from `x` at `a * t + b` into a local array.
fn vector_load(dtype: Dtype, width: i64, a: i64, shift: i64, scale: i64) -> Build {
    let mut b = Build::new();
    let x = b.tensor("x", dtype, &["4096"], false);
    let t = b.threads("t", 128);
    let xs = b.local("xs", dtype, &[64]);
    b.vectorized("v", width, |b, v| {
        let (start, v_, at) = (b.affine(a, t, shift), b.affine(scale, v, 0), b.var(v));
        let i = b.add(start, v_);
        let value = b.load(x, &[i]);
        b.store(xs, &[at], value);
    });
    b
}

#[test]
fn vector_transactions() {
    clean(vector_load(Dtype::F16, 8, 8, 0, 1));
    clean(vector_load(Dtype::F32, 4, 4, 8, 1));
    clean(vector_load(Dtype::F32, 1, 3, 1, 1));
    // Every iteration reads the same element.
    clean(vector_load(Dtype::F32, 3, 3, 1, 0));
    fails(
        vector_load(Dtype::F32, 8, 8, 0, 1),
        expect![[r#"
            [TK0203] vector access to `x` is 32 bytes: 8 x f32
              at: one transaction is 2, 4, 8 or 16 bytes
              label: 8 iterations
              help: vectorise by 1, 2, 4 elements of f32
        "#]],
    );
    fails(
        vector_load(Dtype::F16, 8, 8, 0, 2),
        expect![[r#"
            [TK0203] access to `x` is not one vector transaction
              at: neighbouring iterations are 2 elements apart; a transaction needs 0 or 1
              label: vectorised here
              help: use `unroll` or a plain `for` for this loop
        "#]],
    );
    fails(
        vector_load(Dtype::F16, 8, 4, 0, 1),
        expect![[r#"
            [TK0201] 16-byte vector access to `x` is not aligned
              at: at t = 1 it starts at byte 8; 8 % 16 = 8
              label: 8 elements a transaction
              help: let each step of `t` cover a multiple of 8 elements
        "#]],
    );
    fails(
        vector_load(Dtype::F16, 8, 8, 2, 1),
        expect![[r#"
            [TK0201] 16-byte vector access to `x` is not aligned
              at: it starts 4 bytes past a multiple of 16
              label: 8 elements a transaction
              help: start at a multiple of 8 elements, or vectorise by 1
        "#]],
    );
}

#[test]
fn vectors_that_start_at_a_parameter() {
    let kernel = |require: bool| {
        let mut b = Build::new();
        let x = b.tensor("x", Dtype::F16, &["K"], false);
        let off = b.scalar("off", Type::Index);
        b.require_multiple("K", 8);
        if require {
            let (eight, zero) = (b.int(8), b.int(0));
            let rem = b.bin(BinaryOp::Rem, off, eight);
            let cond = b.bin(BinaryOp::Eq, rem, zero);
            b.require(cond, "off % 8 == 0");
        }
        b.threads("t", 32);
        let xs = b.local("xs", Dtype::F16, &[8]);
        b.vectorized("v", 8, |b, v| {
            let (v_, at) = (b.var(v), b.var(v));
            let i = b.add(off, v_);
            let value = b.masked(x, &[i]);
            b.store(xs, &[at], value);
        });
        b
    };
    clean(kernel(true));
    fails(
        kernel(false),
        expect![[r#"
            [TK0201] 16-byte vector access to `x` is not aligned
              at: it starts at a multiple of 8 elements only if off % 8 == 0
              label: 8 elements a transaction
              help: add `require(off % 8 == 0)` to #[tile_kernel(..)], or vectorise by 1
        "#]],
    );
}

#[test]
fn shared_vectors() {
    let kernel = |columns: i64| {
        let mut b = Build::new();
        let t = b.threads("t", 128);
        let s = b.shared("s", Dtype::F16, &[128, columns]);
        let xs = b.local("xs", Dtype::F16, &[8]);
        b.vectorized("v", 8, |b, v| {
            let (row, v_, at) = (b.var(t), b.var(v), b.var(v));
            let value = b.load(s, &[row, v_]);
            b.store(xs, &[at], value);
        });
        b
    };
    clean(kernel(40));
    fails(
        kernel(36),
        expect![[r#"
            [TK0202] 16-byte vector access is misaligned for 64 of 128 threads
              at: thread 1 starts at byte 72 of `s`; 72 % 16 = 8
              label: 8 elements a transaction
              label: `s` is f16[128, 36], row pitch 72 bytes
              help: pad to 40 columns, or vectorise by 4
        "#]],
    );
}

#[test]
fn vectorised_bodies() {
    let kernel = |body: fn(&mut Build, Place, VarId, VarId)| {
        let mut b = Build::new();
        b.threads("t", 32);
        let xs = b.local("xs", Dtype::F32, &[16]);
        let zero = b.float(0.0);
        let acc = b.let_mut("acc", zero);
        b.vectorized("v", 4, |b, v| body(b, xs, acc, v));
        b
    };
    // Neighbouring iterations.
    fails(
        kernel(|b, xs, _, v| {
            let (from, to) = (b.affine(1, v, 1), b.var(v));
            let value = b.load(xs, &[from]);
            b.store(xs, &[to], value);
        }),
        expect![[r#"
            [TK0203] iterations of the vectorised loop may depend on each other through `xs`
              at: writes here
              label: another iteration reads what may be the same element
              help: use a plain `for` loop, or two arrays
        "#]],
    );
    // The same iteration, and a distance that is far enough.
    clean(kernel(|b, xs, _, v| {
        let (from, to) = (b.var(v), b.var(v));
        let value = b.load(xs, &[from]);
        b.store(xs, &[to], value);
    }));
    clean(kernel(|b, xs, _, v| {
        let (from, to) = (b.affine(1, v, 4), b.var(v));
        let value = b.load(xs, &[from]);
        b.store(xs, &[to], value);
    }));
    // An accumulation is its own statement's business; another's it is not.
    clean(kernel(|b, xs, acc, v| {
        let (at, a) = (b.var(v), b.var(acc));
        let value = b.load(xs, &[at]);
        let sum = b.add(a, value);
        b.assign(acc, sum);
    }));
    fails(
        kernel(|b, xs, acc, v| {
            let (at, a) = (b.var(v), b.var(acc));
            let value = b.load(xs, &[at]);
            let sum = b.add(a, value);
            b.assign(acc, sum);
            let (at, a) = (b.affine(1, v, 8), b.var(acc));
            b.store(xs, &[at], a);
        }),
        expect![[r#"
            [TK0203] `acc` is assigned in one statement of the vectorised loop and used in another
              at: each statement runs for all iterations at once
              label: `acc` is assigned here
              help: use `unroll` or a plain `for` for this loop, or a `let` of its own for each value
        "#]],
    );
    fails(
        kernel(|b, xs, _, v| {
            let (v_, two) = (b.var(v), b.int(2));
            let cond = b.lt(v_, two);
            b.if_(cond, |b| {
                let (at, zero) = (b.var(v), b.float(0.0));
                b.store(xs, &[at], zero);
            });
        }),
        expect![[r#"
            [TK0804] an `if` cannot stand in a vectorised loop
              at: the body must be straight-line: `let`, assignments, loads and stores
              label: vectorised here
              help: use `unroll` or a plain `for` for this loop
        "#]],
    );
}

#[test]
fn gathers_are_not_vectors() {
    let mut b = Build::new();
    let x = b.tensor("x", Dtype::F32, &["1024"], false);
    b.threads("t", 32);
    let at = b.local("at", Dtype::I32, &[4]);
    let xs = b.local("xs", Dtype::F32, &[4]);
    b.vectorized("v", 4, |b, v| {
        let (v_, to) = (b.var(v), b.var(v));
        let loaded = b.load(at, &[v_]);
        let index = b.expr(ExprKind::Cast(Type::Index, loaded), Type::Index);
        let value = b.load(x, &[index]);
        b.store(xs, &[to], value);
    });
    fails(
        b,
        expect![[r#"
            [TK0203] access to `x` is not one vector transaction
              at: the index is not the loop's index plus something that stands still
              label: vectorised here
              help: use `unroll` or a plain `for` for this loop
        "#]],
    );
}

#[test]
fn barriers_under_conditions() {
    let kernel = |cond: fn(&mut Build, VarId, VarId) -> E| {
        let mut b = Build::new();
        let n = b.dim("N");
        let bx = b.blocks("bx", n);
        let t = b.threads("t", 128);
        let cond = cond(&mut b, t, bx);
        b.if_(cond, |b| {
            b.sync();
        });
        b
    };
    clean(kernel(|b, _, bx| {
        let (x, c) = (b.var(bx), b.int(4));
        b.lt(x, c)
    }));
    // The same for all, though it mentions the thread.
    clean(kernel(|b, t, _| {
        let (x, c) = (b.var(t), b.int(128));
        b.lt(x, c)
    }));
    fails(
        kernel(|b, t, _| {
            let (x, c) = (b.var(t), b.int(48));
            b.lt(x, c)
        }),
        expect![[r#"
            [TK0402] barrier not reached by every thread
              at: 48 of 128 threads arrive
              label: threads may disagree on this condition
              help: move it out of the `if`, so that all threads reach it
        "#]],
    );
}

#[test]
fn warp_collectives_need_whole_warps() {
    let kernel = |limit: i64| {
        let mut b = Build::new();
        let t = b.threads("t", 128);
        let (x, c) = (b.var(t), b.int(limit));
        let cond = b.lt(x, c);
        b.if_(cond, |b| {
            let pred = b.expr(ExprKind::Bool(true), Type::BOOL);
            let dst = b.new_var("any", Type::BOOL, VarKind::Let);
            b.stmt(StmtKind::Vote { kind: VoteKind::Any, pred, dst });
        });
        b
    };
    clean(kernel(64));
    fails(
        kernel(48),
        expect![[r#"
            [TK0402] vote not reached by every thread of the warp
              at: 16 of 32 threads of warp 1 arrive
              label: threads may disagree on this condition
              help: move it out of the `if`, so that all threads reach it
        "#]],
    );
}

#[test]
fn loops_with_barriers_need_a_shared_trip_count() {
    let kernel = |by_thread: bool| {
        let mut b = Build::new();
        let n = b.dim("N");
        let t = b.threads("t", 32);
        let end = if by_thread { b.var(t) } else { n };
        b.serial("k", end, |b, _| {
            b.sync();
        });
        b
    };
    clean(kernel(false));
    fails(
        kernel(true),
        expect![[r#"
            [TK0402] barrier not reached by every thread
              at: how many threads arrive is not known here
              label: threads may disagree on the number of iterations
              help: give every thread the same number of iterations, and guard the work inside with an `if`
        "#]],
    );
}

/// `s[t] = 0; [sync]; read s[(t + shift)]`.
fn exchange(sync: bool, shift: i64) -> Build {
    let mut b = Build::new();
    let t = b.threads("t", 128);
    let s = b.shared("s", Dtype::F32, &[256]);
    let (at, zero) = (b.var(t), b.float(0.0));
    b.store(s, &[at], zero);
    if sync {
        b.sync();
    }
    let at = b.affine(1, t, shift);
    let value = b.load(s, &[at]);
    b.let_("value", value);
    b
}

#[test]
fn races_between_neighbours() {
    clean(exchange(true, 1));
    clean(exchange(false, 0));
    clean(exchange(false, 128));
    fails(
        exchange(false, 1),
        expect![[r#"
            [TK0401] data race on shared `s`
              at: thread 1 writes s[1] (line 2), thread 0 reads s[1] (line 3), no barrier between
              label: thread 1 writes it here
              help: insert `sync_threads();` before line 3
        "#]],
    );
}

#[test]
fn races_of_one_store() {
    let kernel = |guard: bool| {
        let mut b = Build::new();
        let tk = b.threads("tk", 32);
        let tn = b.threads("tn", 4);
        let s = b.shared("s", Dtype::F32, &[4]);
        let store = |b: &mut Build| {
            let (at, zero) = (b.var(tn), b.float(0.0));
            b.store(s, &[at], zero);
        };
        if guard {
            let (t, zero) = (b.var(tk), b.int(0));
            let cond = b.bin(BinaryOp::Eq, t, zero);
            b.if_(cond, store);
        } else {
            store(&mut b);
        }
        b
    };
    clean(kernel(true));
    fails(
        kernel(false),
        expect![[r#"
            [TK0401] data race on shared `s`
              at: threads 0 and 1 both write s[0]
              note: writes of the same value by several threads are a race too
              help: let one thread write it: put `if tk == 0 { .. }` around line 2
        "#]],
    );
}

#[test]
fn races_round_a_loop() {
    let kernel = |sync: bool| {
        let mut b = Build::new();
        let n = b.dim("N");
        let t = b.threads("t", 128);
        let s = b.shared("s", Dtype::F32, &[128]);
        b.serial("k", n, |b, _| {
            let (at, zero) = (b.var(t), b.float(0.0));
            b.store(s, &[at], zero);
            b.sync();
            let (last, t_) = (b.int(127), b.var(t));
            let at = b.bin(BinaryOp::Sub, last, t_);
            let value = b.load(s, &[at]);
            b.let_("value", value);
            if sync {
                b.sync();
            }
        });
        b
    };
    clean(kernel(true));
    fails(
        kernel(false),
        expect![[r#"
            [TK0401] data race on shared `s`
              at: thread 127 reads s[0] (line 5), thread 0 writes s[0] (line 3), no barrier between
              label: thread 127 reads it here
              note: the second access is in a later iteration of the loop
              help: insert `sync_threads();` at the end of the loop of line 2
        "#]],
    );
}

#[test]
fn a_tree_reduction_needs_a_barrier_a_level() {
    let kernel = |sync: bool| {
        let mut b = Build::new();
        let t = b.threads("t", 128);
        let s = b.shared("s", Dtype::F32, &[128]);
        let (zero, end) = (b.int(0), b.int(7));
        b.for_("level", zero, end, LoopKind::Unroll, |b, level| {
            let (c, level_) = (b.int(64), b.var(level));
            let half = b.bin(BinaryOp::Shr, c, level_);
            let half = b.let_("half", half);
            let (t_, h) = (b.var(t), b.var(half));
            let cond = b.lt(t_, h);
            b.if_(cond, |b| {
                let (t1, t2, h, t3) = (b.var(t), b.var(t), b.var(half), b.var(t));
                let other = b.add(t2, h);
                let (x, y) = (b.load(s, &[t1]), b.load(s, &[other]));
                let sum = b.add(x, y);
                b.store(s, &[t3], sum);
            });
            if sync {
                b.sync();
            }
        });
        b
    };
    clean(kernel(true));
    fails(
        kernel(false),
        expect![[r#"
            [TK0401] data race on shared `s`
              at: thread 32 writes s[32] (line 5), thread 0 reads s[32] (line 5), no barrier between
              label: thread 32 writes it here
              note: the second access is in a later iteration of the loop
              help: insert `sync_threads();` at the end of the loop of line 2
        "#]],
    );
}

#[test]
fn sync_warp_orders_a_warp_only() {
    let kernel = |shift: i64| {
        let mut b = Build::new();
        let t = b.threads("t", 128);
        let s = b.shared("s", Dtype::F32, &[128]);
        let (at, zero) = (b.var(t), b.float(0.0));
        b.store(s, &[at], zero);
        b.stmt(StmtKind::SyncWarp);
        let (t_, mask) = (b.var(t), b.int(shift));
        let at = b.bin(BinaryOp::BitXor, t_, mask);
        let value = b.load(s, &[at]);
        b.let_("value", value);
        b
    };
    clean(kernel(16));
    assert_eq!(run(kernel(32)).diagnostics.len(), 1);
}

#[test]
fn races_in_global_memory() {
    let kernel = |block: bool, thread: bool| {
        let mut b = Build::new();
        let y = b.tensor("y", Dtype::F32, &["N"], true);
        let n = b.dim("N");
        let bx = b.blocks("bx", n);
        let t = b.threads("t", 32);
        let mut cond = b.expr(ExprKind::Bool(true), Type::BOOL);
        if thread {
            let (t, zero) = (b.var(t), b.int(0));
            cond = b.bin(BinaryOp::Eq, t, zero);
        }
        b.if_(cond, |b| {
            let at = if block { b.var(bx) } else { b.int(0) };
            let zero = b.float(0.0);
            b.store(y, &[at], zero);
        });
        b
    };
    clean(kernel(true, true));
    fails(
        kernel(true, false),
        expect![[r#"
            [TK0401] data race on global `y`
              at: threads 0 and 1 both write y[0]
              note: writes of the same value by several threads are a race too
              help: let one thread write it: put `if t == 0 { .. }` around line 2
        "#]],
    );
    fails(
        kernel(false, true),
        expect![[r#"
            [TK0405] blocks race on `y`: every block along `bx` stores the same elements
              at: neither the index nor a condition around it depends on `bx`
              help: index `y` by `bx`, guard the store with `if bx == 0`, or use an atomic
        "#]],
    );
}

#[test]
fn the_compiler_synchronises_tile_operations() {
    let mut b = Build::new();
    let x = b.tensor("x", Dtype::F32, &["K"], false);
    let k = b.dim("K");
    let t = b.threads("t", 128);
    let s = b.shared("s", Dtype::F32, &[128]);
    let mut wanted = Vec::new();
    b.serial("k", k, |b, i| {
        let start = b.affine(128, i, 0);
        let (src, dst) = (b.tile(x, &[start]), b.tile(s, &[]));
        wanted.push(b.stmt(StmtKind::Copy { src, dst, width: None }));
        let (t_, c) = (b.var(t), b.int(64));
        let cond = b.lt(t_, c);
        // The read stands under a condition that threads do not share: the barrier goes before it.
        wanted.push(b.if_(cond, |b| {
            let at = b.affine(1, t, 1);
            let value = b.load(s, &[at]);
            b.let_("value", value);
        }));
    });
    let analysis = clean(b);
    assert_eq!(analysis.barriers_before, wanted.into_iter().collect());
}

#[test]
fn a_parallel_loop_is_one_operation() {
    let mut b = Build::new();
    let t = b.threads("t", 128);
    let s = b.shared("s", Dtype::F32, &[512]);
    b.parallel("i", 512, |b, i| {
        let (at, to) = (b.var(i), b.var(i));
        let value = b.load(s, &[at]);
        b.store(s, &[to], value);
    });
    let at = b.affine(2, t, 0);
    let value = b.load(s, &[at]);
    let var = b.new_var("value", Type::F32, VarKind::Let);
    let read = b.stmt(StmtKind::Let { var, value: Some(value) });
    let analysis = clean(b);
    assert_eq!(analysis.barriers_before, [read].into_iter().collect());
}

#[test]
fn an_allreduce_orders_what_is_on_its_sides() {
    let mut b = Build::new();
    let t = b.threads("t", 128);
    let s = b.shared("s", Dtype::F32, &[256]);
    let (at, zero) = (b.var(t), b.float(0.0));
    b.store(s, &[at], zero);
    let one = b.float(1.0);
    b.allreduce("sum", one, t);
    let at = b.affine(1, t, 1);
    let value = b.load(s, &[at]);
    let var = b.new_var("value", Type::F32, VarKind::Let);
    let read = b.stmt(StmtKind::Let { var, value: Some(value) });
    let analysis = clean(b);
    assert_eq!(analysis.barriers_before, [read].into_iter().collect());
}

#[test]
fn copies() {
    let kernel = |extents: &[i64], per_thread: bool| {
        let mut b = Build::new();
        let x = b.tensor("x", Dtype::F32, &["M", "K"], false);
        let t = b.threads("t", 128);
        let s = b.shared("s", Dtype::F32, extents);
        let (row, column) = (if per_thread { b.var(t) } else { b.int(0) }, b.int(0));
        let (src, dst) = (b.tile(x, &[row, column]), b.tile(s, &[]));
        let stmt = b.stmt(StmtKind::Copy { src, dst, width: None });
        (b, stmt)
    };
    let (b, stmt) = kernel(&[16, 64], false);
    let facts = clean(b).copies[&stmt].clone();
    assert_eq!(facts.extents, [16, 64]);
    assert_eq!((facts.src, facts.dst), (vec![Bound::Unproven; 2], vec![Bound::Proven; 2]));
    let (b, _) = kernel(&[16, 64], true);
    fails(
        b,
        expect![[r#"
            [TK0804] copy: the tile's coordinates differ between threads
              at: a copy to or from a shared array is one operation of the whole block
              help: use coordinates made of block indices, dims and constants, or copy into a local array
        "#]],
    );
    let mut b = Build::new();
    b.threads("t", 128);
    let a = b.shared("a", Dtype::F16, &[128, 64]);
    let s = b.shared("s", Dtype::F16, &[128, 32]);
    let (src, dst) = (b.tile(a, &[]), b.tile(s, &[]));
    b.stmt(StmtKind::Copy { src, dst, width: None });
    fails(
        b,
        expect![[r#"
            [TK0102] copy: the tiles differ in shape
              at: f16[128, 64] into f16[128, 32]
              help: give both tiles the same extents
        "#]],
    );
}

#[test]
fn budgets() {
    let kernel = |threads: i64, shared: i64, local: i64| {
        let mut b = Build::new();
        b.threads("t", threads);
        b.shared("a_s", Dtype::F16, &[shared]);
        b.shared("b_s", Dtype::F16, &[16]);
        b.local("xs", Dtype::F32, &[local]);
        b
    };
    clean(kernel(1024, 116_000, 255));
    fails(
        kernel(128, 131_072, 4),
        expect![[r#"
            [TK0501] kernel needs 262,176 bytes of shared memory; sm_90 allows 232,448
              at: a_s f16[131072]: 262,144; b_s f16[16]: 32
              help: shrink `a_s` by 29,728 bytes
        "#]],
    );
    fails(
        kernel(2048, 16, 4),
        expect![[r#"
            [TK0502] a block has at most 1024 threads on axis 0, not 2048
        "#]],
    );
    fails(
        kernel(0, 16, 4),
        expect![[r#"
            [TK0502] a thread axis needs at least 1 thread, not 0
        "#]],
    );
    fails(
        kernel(128, 16, 256),
        expect![[r#"
            [TK0503] a thread's local arrays need 1,024 bytes of registers; a thread has 1020
              at: xs f32[256]: 1,024
              help: use smaller arrays, more threads, or shared memory
        "#]],
    );
    let mut b = Build::new();
    b.threads("tx", 512);
    b.threads("ty", 4);
    fails(
        b,
        expect![[r#"
            [TK0502] a block has at most 1024 threads, not 512 * 4 = 2048
        "#]],
    );
}

#[test]
fn targets_differ_in_shared_memory_only() {
    let mut b = Build::new();
    b.threads("t", 128);
    b.shared("s", Dtype::F32, &[50_000]);
    let kernel = b.done();
    assert_eq!(analyse(&kernel, Target::Sm80).diagnostics.len(), 1);
    assert_eq!(analyse(&kernel, Target::Sm90a).diagnostics.len(), 0);
    assert_eq!(check(&kernel), []);
    let only = Kernel { targets: vec![Target::Sm80], ..kernel };
    assert_eq!(check(&only).len(), 1);
}

#[test]
fn check_names_the_failing_instance() {
    let mut b = Build::new();
    let span = b.k.spans.push(Span::default());
    let rows = b.k.consts.push(ConstParam { name: "ROWS".into(), kind: ConstKind::Usize, span });
    let t = b.threads("t", 64);
    let extent = b.expr(ExprKind::Const(rows), Type::Index);
    let place = b.shared("s", Dtype::F32, &[1]);
    let Place::Buffer(buffer) = place else { unreachable!() };
    b.k.buffers[buffer].extents = vec![extent];
    let at = b.var(t);
    let value = b.load(place, &[at]);
    b.let_("value", value);
    b.k.instances = [32, 64, 48].map(|c| Instance { dtypes: vec![], consts: vec![c] }).to_vec();
    expect![[r#"
        [TK0301] shared index out of bounds
          at: reaches 63 at t = 63 (thread 63); `s` has 32 elements
          note: for ROWS = 32 (2 of 3 instances fail here)
    "#]]
    .assert_eq(&report(&check(&b.done())));
}

#[test]
fn indices_that_may_be_negative() {
    let mut b = Build::new();
    let x = b.tensor("x", Dtype::F32, &["N"], false);
    let shift = b.scalar("shift", Type::Index);
    let t = b.threads("t", 32);
    let (i, j) = (b.var(t), b.var(t));
    let below = b.bin(BinaryOp::Sub, i, shift);
    let (below, above) = (b.access(x, &[below], true), b.access(x, &[j], true));
    for access in [below, above] {
        let value = b.expr(ExprKind::Load(access), Type::F32);
        b.let_("value", value);
    }
    let analysis = clean(b);
    assert!(!analysis.axis_nonnegative(below, 0) && analysis.axis_nonnegative(above, 0));
    assert!(!analysis.in_bounds(above));
}

#[test]
fn bank_conflicts_are_looked_for_where_asked() {
    let kernel = |columns: i64, level: &str| {
        let mut b = Build::new();
        let tx = b.threads("tx", 32);
        let s = b.shared("s", Dtype::F32, &[32, columns]);
        b.k.attributes.lints.push(("TK0601".into(), level.into()));
        let (row, column) = (b.var(tx), b.int(0));
        let value = b.load(s, &[row, column]);
        b.let_("value", value);
        b.done()
    };
    assert_eq!(check(&kernel(33, "deny")), []);
    assert_eq!(check(&kernel(32, "off")), []);
    expect![[r#"
        [TK0601] 32-way bank conflict on `s`: 32 wavefronts, ideal 1
          at: lanes 0 and 1 are in different words of bank 0
          help: pad the rows of `s` to 33 elements
    "#]]
    .assert_eq(&report(&check(&kernel(32, "deny"))));
}

#[test]
fn steps_are_positive() {
    let mut b = Build::new();
    b.threads("t", 32);
    let (start, end, step) = (b.int(0), b.int(8), b.int(0));
    let var = b.new_var("i", Type::Index, VarKind::Loop);
    let kind = LoopKind::Serial { unroll: None };
    b.stmt(StmtKind::For { var, start, end, step, kind, body: vec![] });
    fails(
        b,
        expect![[r#"
        [TK0303] a loop's step must be at least 1, not 0
    "#]],
    );
}

#[test]
fn division_by_zero() {
    let mut b = Build::new();
    let t = b.threads("t", 32);
    let (t_, zero) = (b.var(t), b.int(0));
    let value = b.bin(BinaryOp::Div, t_, zero);
    b.let_("value", value);
    fails(
        b,
        expect![[r#"
        [TK0303] division by zero
          at: this is 0
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
