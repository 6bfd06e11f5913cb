//! Indices and their extents, and the arithmetic that cannot be.

use super::*;

/// What is known of an access, by its number in the text.
fn bounds(kernel: &str, access: u32) -> Vec<Bound> {
    clean(kernel).bounds[&AccessId::from_u32(access)].clone()
}

#[test]
fn shared_bounds() {
    assert_eq!(
        bounds(
            r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                let value: f32 = s[t];
            }
        ",
            0
        ),
        [Bound::Proven]
    );
    fails(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                let value: f32 = s[t + 1];
            }
        ",
        expect![[r#"
            [TK0301] shared index out of bounds
              at: reaches 128 at t = 127 (thread 127); `s` has 128 elements
        "#]],
    );
    // Only some launches: guarded, not an error.
    assert_eq!(
        bounds(
            r"
            kernel k(
                n_: &Tensor<f32, (N,)>,
            ) {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                let value: f32 = s[N + t];
            }
        ",
            0
        ),
        [Bound::Unproven]
    );
}

#[test]
fn shared_bounds_under_a_condition_on_threads() {
    clean(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                if t < 64 {
                    let value: f32 = s[t + 64];
                }
            }
        ",
    );
    fails(
        r"
            kernel k() {
                let [t] = threads([128]);
                let mut s = alloc_shared::<f32>([128]);
                if t < 65 {
                    let value: f32 = s[t + 64];
                }
            }
        ",
        expect![[r#"
            [TK0301] shared index out of bounds
              at: reaches 128 at t = 64 (thread 64); `s` has 128 elements
        "#]],
    );
}

#[test]
fn global_bounds() {
    let guarded = |shift: i64| {
        format!(
            "kernel k(x: &Tensor<f32, (N,)>) {{
                let [bx] = blocks([ceil_div(N, 128)]);
                let [t] = threads([128]);
                let i = 128 * bx + {shift} + t;
                if i < N {{
                    let value = x[i];
                }}
            }}"
        )
    };
    let bare = |shift: i64, require: &str| {
        format!(
            "{require} kernel k(x: &Tensor<f32, (N,)>) {{
                let [bx] = blocks([ceil_div(N, 128)]);
                let [t] = threads([128]);
                let i = 128 * bx + {shift} + t;
                let value = x[i];
            }}"
        )
    };
    let exact = "#[require(N % 128 == 0)]";
    assert_eq!(bounds(&guarded(0), 0), [Bound::Proven]);
    assert_eq!(bounds(&guarded(1), 0), [Bound::Proven]);
    assert_eq!(bounds(&bare(0, exact), 0), [Bound::Proven]);
    assert_eq!(bounds(&bare(0, ""), 0), [Bound::Unproven]);
    // The last thread of the last block, whatever N is.
    fails(
        &bare(1, ""),
        expect![[r#"
        [TK0301] index out of bounds
          at: reaches (ceil_div(N, 128)) * 128 at bx = (ceil_div(N, 128)) - 1, t = 127 (thread 127); `x` has N elements
    "#]],
    );
    fails(
        &bare(1, exact),
        expect![[r#"
            [TK0301] index out of bounds
              at: reaches N at bx = (N / 128) - 1, t = 127 (thread 127); `x` has N elements
        "#]],
    );
}

#[test]
fn a_loop_over_a_dim_that_reads_one_too_far() {
    clean(
        r"
            kernel k(
                x: &Tensor<f32, (K,)>,
            ) {
                let [t] = threads([32]);
                for k in 0..K {
                    let value: f32 = x[k];
                }
            }
        ",
    );
    fails(
        r"
            kernel k(
                x: &Tensor<f32, (K,)>,
            ) {
                let [t] = threads([32]);
                for k in 0..K {
                    let value: f32 = x[k + 1];
                }
            }
        ",
        expect![[r#"
            [TK0301] index out of bounds
              at: reaches K at k = K - 1; `x` has K elements
        "#]],
    );
    fails(
        r"
            kernel k(
                x: &Tensor<f32, (K,)>,
            ) {
                let [t] = threads([32]);
                for k in 0..K {
                    let value: f32 = x[k - 1];
                }
            }
        ",
        expect![[r#"
            [TK0301] index out of bounds
              at: reaches -1 at k = 0; `x` has K elements
        "#]],
    );
}

#[test]
fn indices_from_memory_are_unproven_until_guarded() {
    assert_eq!(
        bounds(
            r"
            kernel k(
                at: &Tensor<i32, (N,)>,
                x: &Tensor<f32, (N,)>,
            ) {
                let [t] = threads([32]);
                let i: usize = at[0].cast::<usize>();
                let value: f32 = x[i];
            }
        ",
            1
        ),
        [Bound::Unproven]
    );
    assert_eq!(
        bounds(
            r"
            kernel k(
                at: &Tensor<i32, (N,)>,
                x: &Tensor<f32, (N,)>,
            ) {
                let [t] = threads([32]);
                let i: usize = at[0].cast::<usize>();
                if i >= 0 && i < N {
                    let value: f32 = x[i];
                }
            }
        ",
            1
        ),
        [Bound::Proven]
    );
}

#[test]
fn indices_that_may_be_negative() {
    let analysis = clean(
        r"
            kernel k(
                x: &Tensor<f32, (N,)>,
                shift: usize,
            ) {
                let [t] = threads([32]);
                let value: f32 = x.masked([t - shift]);
                let value_2: f32 = x.masked([t]);
            }
        ",
    );
    let (below, above) = (AccessId::from_u32(0), AccessId::from_u32(1));
    assert!(!analysis.axis_nonnegative(below, 0) && analysis.axis_nonnegative(above, 0));
    assert!(!analysis.in_bounds(above));
}

#[test]
fn mutable_variables_are_forgotten_in_loops() {
    let analysis = clean(
        r"
            kernel k(
                x: &Tensor<f32, (N,)>,
            ) {
                let [t] = threads([32]);
                let mut s = alloc_shared::<f32>([4]);
                let mut i: usize = 0;
                let a: f32 = s[i];
                for k in 0..N {
                    let b: f32 = s[i];
                    i = i + 1;
                    let c: f32 = x[k];
                }
            }
        ",
    );
    assert_eq!(analysis.bounds[&AccessId::from_u32(0)], [Bound::Proven]);
    assert_eq!(analysis.bounds[&AccessId::from_u32(1)], [Bound::Unproven]);
}

#[test]
fn steps_are_positive() {
    fails(
        r"
            kernel k() {
                let [t] = threads([32]);
                for i in (0..8).step_by(0) {
                }
            }
        ",
        expect![[r#"
        [TK0303] a loop's step must be at least 1, not 0
    "#]],
    );
}

#[test]
fn division_by_zero() {
    fails(
        r"
            kernel k() {
                let [t] = threads([32]);
                let value: usize = t / 0;
            }
        ",
        expect![[r#"
        [TK0303] division by zero
          at: this is 0
    "#]],
    );
}

/// One axis of blocks over the rows and columns of a matrix: a block that runs says that neither is zero.
#[test]
fn an_index_is_split_by_a_dim() {
    let split = |indices: &str| {
        let kernel = format!(
            "kernel k(y: &mut Tensor<f32, (M, N)>) {{ let [b] = blocks([M * N]); let [t] = threads([1]); y[[{indices}]] = 1.0f32; }}"
        );
        bounds(&kernel, 0)
    };
    assert_eq!(split("b / N, b % N"), [Bound::Proven, Bound::Proven]);
    assert_eq!(split("b / N, b % N + t"), [Bound::Proven, Bound::Proven]);
    assert_eq!(split("b % M, b / M"), [Bound::Proven, Bound::Proven]);
    // By another one of its factors, or one too far.
    assert_eq!(split("b / M, b % N"), [Bound::Unproven, Bound::Proven]);
    assert_eq!(split("b / N + 1, b % N"), [Bound::Unproven, Bound::Proven]);
    // A bound that a branch gives is one in the branch.
    let line = |body: &str| {
        let kernel = format!(
            "kernel k(y: &mut Tensor<f32, (M, N)>) {{ let [b] = blocks([M * N / 32 + 1]); let [t] = threads([32]); let i = b * 32 + t; {body} }}"
        );
        bounds(&kernel, 0)
    };
    let within = "if N > 0 && i < M * N { y[[i / N, i % N]] = 1.0f32; }";
    assert_eq!(line(within), [Bound::Proven, Bound::Proven]);
    let after = "if N > 0 && i < M * N + N { y[[i / N, i % N]] = 1.0f32; }";
    assert_eq!(line(after)[0], Bound::Unproven);
}
