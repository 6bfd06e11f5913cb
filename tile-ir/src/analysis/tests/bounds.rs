//! Indices and their extents, and the arithmetic that cannot be.

use super::*;

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
