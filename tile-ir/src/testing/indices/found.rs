//! What the soak found, each as small as shows it: kernels that were compiled wrongly once.

use super::launch::Launch;
use super::{Class, compare};
use crate::analysis::analyse;
use crate::ir::*;
use crate::lower::{bind, lower_bound};
use crate::testing::parsed;

/// What becomes of a kernel over `N` blocks of 32 threads at a launch: every thread of its last block must agree.
fn runs([n, k]: [i64; 2], [a, p, q]: [i64; 3], body: &str) -> Class {
    let kernel = parsed(&format!(
        "kernel found(f: &Tensor<f32, (N,)>, a: usize, p: i32, q: i32, u: u32, y: &mut Tensor<f32, (K,)>) {{
            let [b] = blocks([N]);
            let [t] = threads([32]);
            {body}
        }}"
    ));
    let bound = bind(&kernel, &Instance::default()).expect("bound");
    let analysis = analyse(&bound, Target::Sm90a);
    if let Some(first) = analysis.diagnostics.first() {
        return Class::Typing(first.code.0);
    }
    let program = lower_bound(&bound, Target::Sm90a).expect("lowered");
    let launch = Launch {
        dims: [(0, n), (1, k)].into(),
        scalars: [(1, a), (2, p), (3, q), (4, i64::from(q as u32))].into(),
        stride: k,
    };
    if program.launch.checks.iter().any(|check| check.holds.evaluate(&launch).is_none_or(|holds| holds == 0)) {
        return Class::Refused;
    }
    for thread in 0..32 {
        if let Err(text) = compare(&bound, &analysis, &program, &launch, (n - 1, thread)) {
            panic!("thread {thread}: {text}\n{kernel}\n{}", crate::emit::cuda::emit(&program));
        }
    }
    if analysis.wide.is_empty() { Class::Narrow } else { Class::Wide }
}

/// An addition to an element of `y`, which the author guards.
fn guarded(index: &str) -> String {
    format!("if {index} < K {{ atomic_add(&mut y[{index}], 1.0f32); }}")
}

/// A masked addition to `y[index]`: where the index is outside of the tensor, nothing is added.
fn masked(index: &str) -> String {
    format!("atomic_add(y.masked_mut([{index}]), 1.0f32);")
}

/// Case 370826: 2^30 has 31 bits, and so has what differs from it in some of the others.
#[test]
fn bits_of_a_power_of_two() {
    assert_eq!(runs([1, 31], [0; 3], &guarded("(t ^ 1073741824) + 1073741823")), Class::Wide);
}

/// Cases 650133 and 665556: `t | 64` is up to 95, so that what it is taken from may be negative.
#[test]
fn a_sign_that_bits_decide() {
    for op in ["|", "^"] {
        let index = format!("a + 64 + min(16, (b & t) - (t {op} 64))");
        assert_eq!(runs([16, 65_536], [0; 3], &guarded(&index)), Class::Wide);
    }
}

/// Case 606832: the bits of a number of up to 2^62 are those of every 63-bit number.
#[test]
fn bits_of_a_saturated_float() {
    let update = masked("3 - d.cast::<usize>() - (d.cast::<usize>() | K)");
    let class = runs([32, 33], [0; 3], &format!("let d = f.masked([t]); {update}"));
    assert_eq!(class, Class::Typing(crate::diag::Code::INDEX_WIDTH.0));
}

/// Case 653667: `32 % K % 4` has a quotient of `-(K * (32 / K))` in it, which the launcher rounds down as the kernel does.
#[test]
fn a_quotient_of_a_negative_number_at_the_launch() {
    let shifted = masked("32 % max(K, 1) % 4 << 31");
    // 2 << 31; and 0 << 31.
    assert_eq!(runs([1, 3], [0; 3], &shifted), Class::Refused);
    assert_eq!(runs([1, 4], [0; 3], &shifted), Class::Narrow);
}

/// What the launcher computes of an `i32` wraps where the kernel's does.
#[test]
fn a_wrapped_scalar_at_the_launch() {
    let doubled = masked("max((p - q).cast::<usize>(), 0) * 2");
    let least = i64::from(i32::MIN);
    assert_eq!(runs([1, 33], [0, least + 10, 100], &doubled), Class::Refused);
    assert_eq!(runs([1, 33], [0, -3, 100], &doubled), Class::Narrow);
    assert_eq!(runs([1, 33], [0, 100, 90], &doubled), Class::Narrow);
}

/// Case 123287: a divisor of 0 counts as 1, so that `ceil_div(2^31, 0)` is 2^31 and no `int`, though `2^31 + 0 - 1` is one.
#[test]
fn a_rounded_quotient_by_nothing() {
    let rounded = guarded("ceil_div(u.cast::<usize>(), K)");
    assert_eq!(runs([1, 0], [0, 0, 1 << 31], &rounded), Class::Refused);
    assert_eq!(runs([1, 0], [0, 0, (1 << 31) - 1], &rounded), Class::Wide);
    assert_eq!(runs([1, 64], [0, 0, 33], &rounded), Class::Wide);
}

/// Not of a case: with what may be negative in a variable, `p + (q + back)` was printed as `p + q + back`, and `p + q` is no `int`.
#[test]
fn a_part_of_a_sum_that_exceeds_the_whole() {
    let index = "max(p.cast::<usize>(), 0) + (max(q.cast::<usize>(), 0) + back)";
    let body = format!("let back = a - 2147483647; {}", masked(index));
    assert_eq!(runs([1, 64], [5, 1 << 30, 1 << 30], &body), Class::Narrow);
}
