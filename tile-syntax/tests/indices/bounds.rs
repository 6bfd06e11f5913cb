//! What was refused at every launch, though it is right.

use super::launch::{Arg, Outcome, zeros};
use super::*;

#[test]
fn a_remainder_is_below_its_divisor() {
    let k = line(
        "x: &Tensor<f32, (K,)>",
        "let i = b * 32 + t; let j = (i % K) * 4; if j < N { atomic_add(&mut y[j], 1.0); }",
    );
    assert!(!k.body().contains("long long j"), "{}", k.cuda());
    assert_eq!(k.done(&[zeros(48), zeros(4)])[0], 1.0);
    assert_eq!(k.done(&[zeros(48), zeros(100)]).iter().filter(|y| **y > 0.0).count(), 25);
}

#[test]
fn a_row_of_a_grid_stride_loop_is_below_its_end() {
    let k = kernel(
        "pub fn k(x: &Tensor<f32, (R, K)>, nb: usize, y: &mut Tensor<f32, (N,)>) { let [b] = blocks([nb]); \
         let [t] = threads([32]); for r in (b..R).step_by(nb) { let i = r * K + t; if i < N && t < K { y[i] = x[[r, t]]; } } }",
    );
    let x = Arg::F(vec![7, 8], (0..56).map(|i| i as f32).collect());
    assert_eq!(k.done(&[x, Arg::N(3), zeros(56)]), (0..56).map(|i| i as f32).collect::<Vec<_>>());
}

#[test]
fn the_second_half() {
    let k = kernel(
        "pub fn k(x: &Tensor<f32, (R, C)>, h: usize, y: &mut Tensor<f32, (N,)>) { let [r] = blocks([R]); \
         let [t] = threads([32]); let v = x[[r, t % h + h]]; if t < h { y[r * h + t] = v; } }",
    );
    for h in [1, 2, 4, 16] {
        let x = Arg::F(vec![2, 2 * h], (0..4 * h).map(|i| i as f32).collect());
        let y = k.done(&[x, Arg::N(h), zeros(2 * h as usize)]);
        let expected: Vec<f32> = (0..2 * h).map(|i| (i / h * 2 * h + h + i % h) as f32).collect();
        assert_eq!(y, expected, "{h}");
    }
}

#[test]
fn a_sum_in_a_strided_loop() {
    let k = line(
        "x: &Tensor<f32, (N,)>, s: usize",
        "for i in (b * 32..N).step_by(s) { let j = i + t; if j < N { atomic_add(&mut y[j], 1.0); } }",
    );
    assert_eq!(k.done(&[zeros(64), Arg::N(64), zeros(64)]), [1.0; 64]);
}

/// What a launch may pass it checks; what it can never pass is no check.
#[test]
fn checks_can_hold() {
    let bodies = [
        "let i = (t ^ 1) * 1000000 * N;",
        "let i = (b % 7 + t) * N;",
        "let i = ((b * 32 + t) / 3) * 5;",
        "let i = (1 << t) * 3;",
        "let i = min(N * 4, 100000000 * t);",
    ];
    for body in bodies {
        let k = line("x: &Tensor<f32, (N,)>", &format!("{body} if i < N {{ atomic_add(&mut y[i], 1.0); }}"));
        assert!(matches!(k.run(&[zeros(8), zeros(8)]), Outcome::Done(_)), "{body}\n{}", k.cuda());
    }
}

#[test]
fn a_launch_that_is_too_large_is_refused() {
    let k =
        line("x: &Tensor<f32, (N,)>, s: usize", "let i = (b * 32 + t) * s; if i < N { atomic_add(&mut y[i], 1.0); }");
    assert_eq!(k.run(&[zeros(64), Arg::N(i64::from(i32::MAX) / 63 + 1), zeros(64)]), Outcome::Refused);
    assert!(matches!(k.run(&[zeros(64), Arg::N(i64::from(i32::MAX) / 63), zeros(64)]), Outcome::Done(_)));
}

#[test]
fn a_check_that_never_holds_is_an_error() {
    let grid = |extent: &str| {
        codes(&format!(
            "pub fn k(y: &mut Tensor<f32, (N,)>) {{ let [b] = blocks([{extent}]); let [t] = threads([32]); atomic_add(&mut y[t], 1.0); }}"
        ))
    };
    assert_eq!(grid("1 - 2"), [705]);
    assert_eq!(grid("0 * N - 1"), [705]);
    assert_eq!(grid("1"), []);
    assert_eq!(grid("N"), []);
}
