//! Values below zero: zeros where clipping is meant, a report where an element is meant, and else a value.

use super::launch::{Arg, Outcome, floats, zeros};
use super::*;

fn ramp(n: usize) -> Arg {
    floats(&(0..n).map(|i| i as f32 + 1.0).collect::<Vec<_>>())
}

#[test]
fn masked_below_zero() {
    let k = one("x: &Tensor<f32, (N,)>", "y[t] = x.masked([t - 3]);");
    let expected: Vec<f32> = (0..32).map(|t| if t < 3 { 0.0 } else { t as f32 - 2.0 }).collect();
    assert_eq!(k.done(&[ramp(32), zeros(32)]), expected);
    let k = one("x: &Tensor<f32, (N,)>", "*y.masked_mut([t - 3]) = x[t];");
    let expected: Vec<f32> = (0..32).map(|t| if t < 29 { t as f32 + 4.0 } else { 0.0 }).collect();
    assert_eq!(k.done(&[ramp(32), zeros(32)]), expected);
}

#[test]
fn a_plain_index_below_zero() {
    let k = one("x: &Tensor<f32, (N,)>, d: usize", "y[t] = x[t - d];");
    assert!(k.cuda().contains(">= 0"), "{}", k.cuda());
    assert_eq!(k.run(&[ramp(32), Arg::N(3), zeros(32)]), Outcome::Reported(Some(303), vec![303]));
    let k = one("x: &Tensor<f32, (N,)>, d: usize", "y[t - d] = x[t];");
    assert_eq!(k.run(&[ramp(32), Arg::N(3), zeros(32)]), Outcome::Reported(Some(303), vec![303]));
    assert_eq!(k.done(&[ramp(32), Arg::N(0), zeros(32)])[5], 6.0);
    // On another axis than the first, where the offset is not negative.
    let k = kernel(
        "pub fn k(x: &Tensor<f32, (M, N)>, d: usize, y: &mut Tensor<f32, (N,)>) { blocks([1]); let [t] = threads([32]); \
         if t < N { y[t] = x[[1, t - d]]; } }",
    );
    let x = Arg::F(vec![2, 32], vec![1.0; 64]);
    assert_eq!(k.run(&[x, Arg::N(3), zeros(32)]), Outcome::Reported(Some(303), vec![303]));
    // Shared and per-thread arrays.
    let k = one(
        "x: &Tensor<f32, (N,)>",
        "let mut s = alloc_shared::<f32>([32]); s[t] = 1.0; sync_threads(); y[t] = s[t - N];",
    );
    assert_eq!(k.run(&[ramp(32), zeros(32)]), Outcome::Reported(Some(303), vec![303]));
    // Guarded, it is right.
    let k = one("x: &Tensor<f32, (N,)>", "y[t] = if t >= 3 { x[t - 3] } else { 0.0 };");
    assert_eq!(k.done(&[ramp(32), zeros(32)])[3], 1.0);
}

#[test]
fn a_value_below_zero() {
    let k = one("x: &Tensor<f32, (N,)>", "if t - 5 > 2 { y[t] = (t - 5) as f32; } else { y[t] = (5 - t) as f32; }");
    let expected: Vec<f32> = (0..32).map(|t: i32| if t - 5 > 2 { t - 5 } else { 5 - t } as f32).collect();
    assert_eq!(k.done(&[ramp(32), zeros(32)]), expected);
    let k = one("v: &Tensor<i32, (N,)>", "let i = v[t] as usize; y[t] = i as f32;");
    assert_eq!(k.done(&[Arg::I(vec![32], vec![-7; 32]), zeros(32)]), [-7.0; 32]);
}

#[test]
fn tiles_that_begin_below_zero() {
    {
        let copy = "copy(x.at([b * 32 - 2]), &mut s);";
        let k = line(
            "x: &Tensor<f32, (N,)>",
            &format!(
                "let mut s = alloc_shared::<f32>([36]); {copy} let i = b * 32 + t; if i < N {{ y[i] = s[t] + s[t + 4]; }}"
            ),
        );
        let at = |i: i64| if (0..40).contains(&i) { i as f32 + 1.0 } else { 0.0 };
        let expected: Vec<f32> = (0..40).map(|i| at(i - 2) + at(i + 2)).collect();
        assert_eq!(k.done(&[ramp(40), zeros(40)]), expected, "{copy}");
    }
    // What is outside is not written.
    let k = line(
        "x: &Tensor<f32, (N,)>",
        "let mut s = alloc_shared::<f32>([8]); if t < 8 { s[t] = 1.0; } if b == 0 { copy(&s, y.at_mut([0 - 5])); }",
    );
    let y = k.done(&[ramp(16), zeros(16)]);
    assert_eq!((y[..3].to_vec(), y.iter().sum::<f32>()), (vec![1.0; 3], 3.0));
    // Rows of a matrix, loaded ahead.
    let k = kernel(
        "pub fn k(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) { blocks([1]); let [t] = threads([32]); \
         let mut s = alloc_shared::<f32>([1, 32]); for r in pipelined(0..M, 2) { copy(x.at([r - 1, 0]), &mut s); \
         if t < N { y[[r, t]] = s[[0, t]]; } } }",
    );
    let x: Vec<f32> = (0..96).map(|i| i as f32 + 1.0).collect();
    let y = k.done(&[Arg::F(vec![3, 32], x.clone()), Arg::F(vec![3, 32], vec![0.0; 96])]);
    assert_eq!((&y[..32], &y[32..]), ([0.0; 32].as_slice(), &x[..64]));
}
