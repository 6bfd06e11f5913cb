//! No index wraps: 64 bits, a launch check, or an error.

use super::launch::{Arg, Outcome, floats, zeros};
use super::*;

/// `1 << 31` is 2^31, not the least `int`: no store at -2^31.
#[test]
fn one_shifted_by_the_thread() {
    let k = one("x: &Tensor<f32, (N,)>", "let i = 1 << t; if i < N { atomic_add(&mut y[i], 1.0); }");
    assert!(k.cuda().contains("long long i ="), "{}", k.cuda());
    let y = k.done(&[zeros(20), zeros(20)]);
    let set: Vec<usize> = (0..20).filter(|i| y[*i] == 1.0).collect();
    assert_eq!(set, [1, 2, 4, 8, 16]);
}

#[test]
fn shifts_by_a_scalar() {
    let k =
        line("x: &Tensor<f32, (N,)>, s: usize", "let i = (b * 32 + t) << s; if i < N { atomic_add(&mut y[i], 1.0); }");
    assert_eq!(k.checks().1, 1);
    for s in [27, 30, 31] {
        let y = k.done(&[zeros(40), Arg::N(s), zeros(40)]);
        assert_eq!((y[0], y.iter().sum::<f32>()), (1.0, 1.0), "{s}");
    }
    assert_eq!(k.done(&[zeros(40), Arg::N(3), zeros(40)]).iter().sum::<f32>(), 5.0);
    for s in [32, 33, i64::from(i32::MAX)] {
        assert_eq!(k.run(&[zeros(40), Arg::N(s), zeros(40)]), Outcome::Refused);
    }
    let right =
        line("x: &Tensor<f32, (N,)>, s: usize", "if b * 32 + t < N { atomic_add(&mut y[(b * 32 + t) >> s], 1.0); }");
    assert_eq!(right.run(&[zeros(40), Arg::N(32), zeros(40)]), Outcome::Refused);
    assert_eq!(right.done(&[zeros(40), Arg::N(2), zeros(40)]).iter().filter(|y| **y > 0.0).count(), 10);
}

#[test]
fn a_shift_that_nobody_bounds_is_refused() {
    let with = |count: &str| {
        codes(&format!(
            "pub fn k(x: &Tensor<u32, (N,)>, y: &mut Tensor<f32, (N,)>) {{ let [b] = blocks([1]); let [t] = threads([32]); \
             let s = x[t] as usize; let i = 1 << {count}; if i < N {{ atomic_add(&mut y[i], 1.0); }} }}"
        ))
    };
    assert_eq!(with("s"), [306]);
    assert_eq!(with("(s & 31)"), []);
    assert_eq!(with("min(s, 31)"), []);
    assert_eq!(with("40"), [806]);
    assert_eq!(with("(t + 1)"), [306]);
}

/// Four symbols make a polynomial, five do not.
#[test]
fn products_of_five_symbols() {
    let params = "x: &Tensor<f32, (N,)>, a: usize, c: usize, d: usize, e: usize";
    let k = one(params, "let i = t * a * c * d * e; if i < N { atomic_add(&mut y[i], 1.0); }");
    let args = |n: i64| [zeros(40), Arg::N(n), Arg::N(n), Arg::N(n), Arg::N(n), zeros(40)];
    assert_eq!(k.done(&args(1)).iter().sum::<f32>(), 32.0);
    assert_eq!(k.run(&args(100)), Outcome::Refused);
    assert_eq!(k.done(&args(2)).iter().sum::<f32>(), 3.0);
    // Of data there is nothing to check at the launch: 64 bits, as long as they do.
    let data = |product: &str| {
        codes(&format!(
            "pub fn k(x: &Tensor<u32, (N,)>, y: &mut Tensor<f32, (N,)>) {{ let [t] = threads([32]); blocks([1]); \
             let v = x[t] as usize; let w = x[t + 1] as usize; let i = {product}; if i < N {{ atomic_add(&mut y[i], 1.0); }} }}"
        ))
    };
    assert_eq!(data("v * 2147483647"), []);
    assert_eq!(data("v * w"), [305]);
    assert_eq!(data("min(v, N) * w"), []);
    assert_eq!(data("(v % 1000) * (w % 1000) * N"), []);
}

#[test]
fn bits_and_then_a_product() {
    let k = line("x: &Tensor<f32, (N,)>", "let i = ((b * 32 + t) ^ 1) * 4; if i < N { atomic_add(&mut y[i], 1.0); }");
    assert!(k.checks().0 > 0 || k.cuda().contains("long long i"), "{}", k.cuda());
    assert_eq!(k.done(&[zeros(40), zeros(40)]).iter().sum::<f32>(), 10.0);
}

#[test]
fn u32_data_is_the_integer_that_it_is() {
    let k = one("v: &Tensor<u32, (N,)>", "let i = v[t] as usize; if i < 64 { y[t] = 1.0; } else { y[t] = i as f32; }");
    assert!(k.cuda().contains("const long long i = (long long)"), "{}", k.cuda());
    let mut v = vec![0x8000_0000u32; 32];
    (v[0], v[1], v[2]) = (63, 64, u32::MAX);
    let y = k.done(&[Arg::U(vec![32], v), zeros(32)]);
    assert_eq!(&y[..4], [1.0, 64.0, 4294967295.0, 2147483648.0]);
    // i32 data stays 32 bits wide.
    let k = one("v: &Tensor<i32, (N,)>", "let i = v[t] as usize; if i < N && i >= 0 { atomic_add(&mut y[i], 1.0); }");
    assert!(!k.body().contains("long long i"), "{}", k.cuda());
    // Arithmetic on it does not.
    let k = one(
        "v: &Tensor<i32, (N,)>",
        "let i = v[t] as usize * 4 + 1; if i < N && i >= 0 { atomic_add(&mut y[i], 1.0); }",
    );
    assert!(k.body().contains("long long i"), "{}", k.cuda());
    let v: Vec<i32> = (0..32).map(|i| if i < 3 { i } else { i32::MAX - i }).collect();
    assert_eq!(k.done(&[Arg::I(vec![32], v), zeros(32)]).iter().sum::<f32>(), 3.0);
}

#[test]
fn the_least_int_leaves_nothing_below() {
    // A6 of the audit: y[-1] was written.
    let k = one(
        "x: &Tensor<u32, (N,)>, m: usize",
        "let j = min(x[t] as usize, 0) + 2147483647; if j < m { atomic_add(&mut y[j], 1.0); }",
    );
    let y = k.done(&[Arg::U(vec![32], vec![0x8000_0000; 32]), Arg::N(40), zeros(32)]);
    assert_eq!(y, [0.0; 32]);
}

#[test]
fn steps_are_at_least_one() {
    let k = line("x: &Tensor<f32, (N,)>, s: usize", "for i in (b * 32 + t..N).step_by(s) { y[i] = y[i] + 1.0; }");
    assert_eq!(k.checks().1, 1);
    assert_eq!(k.run(&[zeros(32), Arg::N(0), zeros(32)]), Outcome::Refused);
    assert_eq!(k.done(&[zeros(32), Arg::N(32), zeros(32)]), [1.0; 32]);
    // `i + s` may pass 2^31: checked or wide, never wrapped.
    match k.run(&[zeros(32), Arg::N(i32::MAX.into()), zeros(32)]) {
        Outcome::Refused => {}
        Outcome::Done(y) => assert_eq!(y, [1.0; 32]),
        other => panic!("{other:?}"),
    }
    let with = |step: &str| {
        codes(&format!(
            "pub fn k(x: &Tensor<u32, (N,)>, y: &mut Tensor<f32, (N,)>) {{ let [t] = threads([32]); blocks([1]); \
             let s = x[t] as usize; for i in (0..N).step_by({step}) {{ atomic_add(&mut y[i], 1.0); }} }}"
        ))
    };
    assert_eq!(with("s"), [306]);
    assert_eq!(with("max(s, 1)"), []);
    assert_eq!(with("t"), [306]);
    assert_eq!(with("(t + 1)"), []);
    assert_eq!(with("0"), [803]);
}

#[test]
fn assigned_indices() {
    // Additions of a bounded number, as often as the loop is done.
    let k = one("x: &Tensor<f32, (N,)>", "let mut i = 0; for j in 0..N { i += j; } y[t] = i as f32;");
    assert!(k.body().contains("long long i"), "{}", k.cuda());
    assert_eq!(k.done(&[zeros(32), zeros(32)]), [496.0; 32]);
    let k = one("x: &Tensor<f32, (N,)>", "let mut i = 0; for j in 0..8 { i += j; } y[i] = 1.0;");
    assert!(!k.body().contains("long long i"), "{}", k.cuda());
    // A fixed point.
    let k = one(
        "x: &Tensor<f32, (N,)>",
        "let mut i = t; for j in 0..N { i = (i * 5 + 1) % 64; } if i < N { atomic_add(&mut y[i], 1.0); }",
    );
    assert!(!k.body().contains("long long"), "{}", k.cuda());
    let grows = |by: &str| {
        codes(&format!(
            "pub fn k(y: &mut Tensor<f32, (N,)>) {{ let [t] = threads([32]); blocks([1]); let mut i = 1; \
             for j in 0..N {{ {by} }} if i < N {{ atomic_add(&mut y[i], 1.0); }} }}"
        ))
    };
    assert_eq!(grows("i = i * 3;"), [305]);
    assert_eq!(grows("let d = i; i = i + d;"), [305]);
    assert_eq!(grows("i = i + 3;"), []);
    assert_eq!(grows("i = min(i * 2, N);"), []);
    assert_eq!(grows("if t < 3 { i = i + j; }"), []);
    // A few doublings.
    let k = one("x: &Tensor<f32, (N,)>", "let mut i = 1; for j in 0..20 { i = i * 2; } y[t] = i as f32;");
    assert_eq!(k.done(&[zeros(32), zeros(32)]), [1048576.0; 32]);
    let k = one("x: &Tensor<f32, (N,)>", "let mut i = 1; for j in 0..40 { i = i * 2; } y[t] = i as f32;");
    assert_eq!(k.done(&[zeros(32), zeros(32)]), [1099511627776.0; 32]);
}

#[test]
fn floats_saturate() {
    let k = one("x: &Tensor<f32, (N,)>", "let i = x[t] as usize; y[t] = i as f32;");
    let x = [3e9, -1.0, f32::NAN, 2.9, f32::INFINITY, f32::NEG_INFINITY, 2147483648.0, 1e12];
    let y = k.done(&[floats(&[x.as_slice(), &[0.0; 24]].concat()), zeros(32)]);
    assert_eq!(&y[..8], [3e9, 0.0, 0.0, 2.0, 4611686018427387904.0, 0.0, 2147483648.0, 1e12]);
    for (x, y) in x.iter().zip(&y) {
        assert!(!x.is_finite() || *x as usize as f32 == *y, "{x}");
    }
}

/// `panel * tiles_x` was formed on the device for any panel.
#[test]
fn panels_are_at_most_the_rows_there_are() {
    let k = kernel(
        "pub fn k(panel: usize, y: &mut Tensor<f32, (M, N)>) { let [bx, by] = blocks([ceil_div(N, 32), M]); \
         let [t] = threads([32]); use_swizzle(panel); let c = bx * 32 + t; if c < N { y[[by, c]] = 1.0; } }",
    );
    for panel in [0, 1, 2, 3, 1 << 20, i64::from(i32::MAX)] {
        let y = k.done(&[Arg::N(panel), Arg::F(vec![5, 256], vec![0.0; 1280])]);
        assert_eq!(y, vec![1.0; 1280], "{panel}");
    }
}

/// A divisor of 0 gave -1 on the device, below every extent and not tested for being negative.
#[test]
fn a_divisor_that_may_be_zero() {
    let k = one("x: &Tensor<f32, (N,)>, d: usize", "let i = t / d; if i < N { atomic_add(&mut y[i], 1.0); }");
    assert!(k.cuda().contains("t / tile_divisor(d)"), "{}", k.cuda());
    assert_eq!(k.run(&[zeros(32), Arg::N(0), zeros(32)]), Outcome::Reported(Some(303), vec![303]));
    assert_eq!(k.done(&[zeros(32), Arg::N(4), zeros(32)]).iter().filter(|y| **y > 0.0).count(), 8);
    let k = one("x: &Tensor<f32, (N,)>, d: usize", "let i = t / max(d, 1); if i < N { atomic_add(&mut y[i], 1.0); }");
    assert!(!k.cuda().contains("tile_divisor"), "{}", k.cuda());
}
