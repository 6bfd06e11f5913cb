//! Vectorised loops: widths, alignment, and what may stand in their bodies.

use super::*;

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
