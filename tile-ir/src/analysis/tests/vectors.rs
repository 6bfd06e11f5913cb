//! Vectorised loops: widths, alignment, and what may stand in their bodies.

use super::*;

#[test]
fn vector_transactions() {
    clean(
        r"
            kernel k(
                x: &Tensor<f16, (Fixed<4096>,)>,
            ) {
                let [t] = threads([128]);
                let mut xs = alloc_local::<f16>([64]);
                for v in vectorized(0..8) {
                    xs[v] = x[8 * t + (v)];
                }
            }
        ",
    );
    clean(
        r"
            kernel k(
                x: &Tensor<f32, (Fixed<4096>,)>,
            ) {
                let [t] = threads([128]);
                let mut xs = alloc_local::<f32>([64]);
                for v in vectorized(0..4) {
                    xs[v] = x[4 * t + 8 + (v)];
                }
            }
        ",
    );
    clean(
        r"
            kernel k(
                x: &Tensor<f32, (Fixed<4096>,)>,
            ) {
                let [t] = threads([128]);
                let mut xs = alloc_local::<f32>([64]);
                for v in vectorized(0..1) {
                    xs[v] = x[3 * t + 1 + (v)];
                }
            }
        ",
    );
    // Every iteration reads the same element.
    clean(
        r"
            kernel k(
                x: &Tensor<f32, (Fixed<4096>,)>,
            ) {
                let [t] = threads([128]);
                let mut xs = alloc_local::<f32>([64]);
                for v in vectorized(0..3) {
                    xs[v] = x[3 * t + 1 + 0 * v];
                }
            }
        ",
    );
    fails(
        r"
            kernel k(
                x: &Tensor<f32, (Fixed<4096>,)>,
            ) {
                let [t] = threads([128]);
                let mut xs = alloc_local::<f32>([64]);
                for v in vectorized(0..8) {
                    xs[v] = x[8 * t + (v)];
                }
            }
        ",
        expect![[r#"
            [TK0203] vector access to `x` is 32 bytes: 8 x f32
              at: one transaction is 2, 4, 8 or 16 bytes
              label: 8 iterations
              help: vectorise by 1, 2, 4 elements of f32
        "#]],
    );
    fails(
        r"
            kernel k(
                x: &Tensor<f16, (Fixed<4096>,)>,
            ) {
                let [t] = threads([128]);
                let mut xs = alloc_local::<f16>([64]);
                for v in vectorized(0..8) {
                    xs[v] = x[8 * t + 2 * v];
                }
            }
        ",
        expect![[r#"
            [TK0203] access to `x` is not one vector transaction
              at: neighbouring iterations are 2 elements apart; a transaction needs 0 or 1
              label: vectorised here
              help: use `unroll` or a plain `for` for this loop
        "#]],
    );
    fails(
        r"
            kernel k(
                x: &Tensor<f16, (Fixed<4096>,)>,
            ) {
                let [t] = threads([128]);
                let mut xs = alloc_local::<f16>([64]);
                for v in vectorized(0..8) {
                    xs[v] = x[4 * t + (v)];
                }
            }
        ",
        expect![[r#"
            [TK0201] 16-byte vector access to `x` is not aligned
              at: at t = 1 it starts at byte 8; 8 % 16 = 8
              label: 8 elements a transaction
              help: let each step of `t` cover a multiple of 8 elements
        "#]],
    );
    fails(
        r"
            kernel k(
                x: &Tensor<f16, (Fixed<4096>,)>,
            ) {
                let [t] = threads([128]);
                let mut xs = alloc_local::<f16>([64]);
                for v in vectorized(0..8) {
                    xs[v] = x[8 * t + 2 + (v)];
                }
            }
        ",
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
    clean(
        r"
            #[require(K % 8 == 0)]
            #[require(off % 8 == 0)]
            kernel k(
                x: &Tensor<f16, (K,)>,
                off: usize,
            ) {
                let [t] = threads([32]);
                let mut xs = alloc_local::<f16>([8]);
                for v in vectorized(0..8) {
                    xs[v] = x.masked([off + v]);
                }
            }
        ",
    );
    fails(
        r"
            #[require(K % 8 == 0)]
            kernel k(
                x: &Tensor<f16, (K,)>,
                off: usize,
            ) {
                let [t] = threads([32]);
                let mut xs = alloc_local::<f16>([8]);
                for v in vectorized(0..8) {
                    xs[v] = x.masked([off + v]);
                }
            }
        ",
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
    clean(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f16>([128, 40]);
                let mut xs = alloc_local::<f16>([8]);
                for v in vectorized(0..8) {
                    xs[v] = s[[t, v]];
                }
            }
        ",
    );
    fails(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f16>([128, 36]);
                let mut xs = alloc_local::<f16>([8]);
                for v in vectorized(0..8) {
                    xs[v] = s[[t, v]];
                }
            }
        ",
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
    // Neighbouring iterations.
    fails(
        r"
            kernel k() {
                let [t] = threads([32]);
                let mut xs = alloc_local::<f32>([16]);
                let mut acc: f32 = 0.0f32;
                for v in vectorized(0..4) {
                    xs[v] = xs[v + 1];
                }
            }
        ",
        expect![[r#"
            [TK0203] iterations of the vectorised loop may depend on each other through `xs`
              at: writes here
              label: another iteration reads what may be the same element
              help: use a plain `for` loop, or two arrays
        "#]],
    );
    // The same iteration, and a distance that is far enough.
    clean(
        r"
            kernel k() {
                let [t] = threads([32]);
                let mut xs = alloc_local::<f32>([16]);
                let mut acc: f32 = 0.0f32;
                for v in vectorized(0..4) {
                    xs[v] = xs[v];
                }
            }
        ",
    );
    clean(
        r"
            kernel k() {
                let [t] = threads([32]);
                let mut xs = alloc_local::<f32>([16]);
                let mut acc: f32 = 0.0f32;
                for v in vectorized(0..4) {
                    xs[v] = xs[v + 4];
                }
            }
        ",
    );
    // An accumulation is its own statement's business; another's it is not.
    clean(
        r"
            kernel k() {
                let [t] = threads([32]);
                let mut xs = alloc_local::<f32>([16]);
                let mut acc: f32 = 0.0f32;
                for v in vectorized(0..4) {
                    acc = acc + xs[v];
                }
            }
        ",
    );
    fails(
        r"
            kernel k() {
                let [t] = threads([32]);
                let mut xs = alloc_local::<f32>([16]);
                let mut acc: f32 = 0.0f32;
                for v in vectorized(0..4) {
                    acc = acc + xs[v];
                    xs[v + 8] = acc;
                }
            }
        ",
        expect![[r#"
            [TK0203] `acc` is assigned in one statement of the vectorised loop and used in another
              at: each statement runs for all iterations at once
              label: `acc` is assigned here
              help: use `unroll` or a plain `for` for this loop, or a `let` of its own for each value
        "#]],
    );
    fails(
        r"
            kernel k() {
                let [t] = threads([32]);
                let mut xs = alloc_local::<f32>([16]);
                let mut acc: f32 = 0.0f32;
                for v in vectorized(0..4) {
                    if v < 2 {
                        xs[v] = 0.0f32;
                    }
                }
            }
        ",
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
    fails(
        r"
            kernel k(
                x: &Tensor<f32, (Fixed<1024>,)>,
            ) {
                let [t] = threads([32]);
                let mut at = alloc_local::<i32>([4]);
                let mut xs = alloc_local::<f32>([4]);
                for v in vectorized(0..4) {
                    xs[v] = x[at[v].cast::<usize>()];
                }
            }
        ",
        expect![[r#"
            [TK0203] access to `x` is not one vector transaction
              at: the index is not the loop's index plus something that stands still
              label: vectorised here
              help: use `unroll` or a plain `for` for this loop
        "#]],
    );
}

/// What `require` says of a dim holds of the dims and parameters that it says are equal, whatever the order it is said in.
#[test]
fn equal_extents_are_multiples_of_the_same_numbers() {
    let said = |requires: &str| {
        let kernel = parsed(&format!(
            "{requires}
            kernel k(x: &Tensor<f16, (M, K)>, w: &Tensor<f16, (M, L)>) {{
                let [b] = blocks([M]);
                let [t] = threads([32]);
                let mut l = alloc_local::<f16>([8]);
                for v in vectorized(0..8) {{
                    l[v] = w.masked([b, 8 * t + v]);
                }}
            }}"
        ));
        let analysis = analyse(&crate::testing::bound(&kernel), Target::Sm90a);
        analysis.diagnostics.iter().map(|d| d.code.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(said("#[require(L % 8 == 0)]"), "");
    assert_eq!(said("#[require(K % 8 == 0)] #[require(L == K)]"), "");
    assert_eq!(said("#[require(K == L)] #[require(K % 4 == 0)] #[require(K % 8 == 0)]"), "");
    assert_eq!(said("#[require(M == L && K == M && K % 16 == 0)]"), "");
    for requires in [
        "#[require(K % 8 == 0)]",
        "#[require(K % 4 == 0)] #[require(L == K)]",
        "#[require(K % 8 == 0)] #[require(L <= K)]",
    ] {
        assert!(!said(requires).is_empty(), "{requires}");
    }
}
