//! What the soak found, each as small as shows it: kernels that were compiled wrongly once.

use super::launch::Launch;
use super::{Class, compare};
use crate::analysis::analyse;
use crate::ir::BinaryOp::*;
use crate::ir::*;
use crate::lower::{bind, lower_bound};
use crate::testing::Builder;

/// The parameters of such a kernel, and its block and thread.
struct Names {
    k: ExprId,
    a: ExprId,
    p: ExprId,
    q: ExprId,
    /// `q`, as a `u32`.
    u: ExprId,
    f: Place,
    y: Place,
    b: ExprId,
    t: ExprId,
}

/// What becomes of a kernel over `N` blocks of 32 threads at a launch: every thread of its last block must agree.
fn runs([n, k]: [i64; 2], [a, p, q]: [i64; 3], build: impl FnOnce(&mut Builder, &Names)) -> Class {
    let kernel = crate::testing::kernel("found", |b| {
        let (n, k) = (b.dim("N"), b.dim("K"));
        let f = b.tensor("f", Dtype::F32, &[n]);
        let a = b.scalar("a", Type::Index);
        let (p, q) = (b.scalar("p", Dtype::I32), b.scalar("q", Dtype::I32));
        let u = b.scalar("u", Dtype::U32);
        let y = b.tensor_mut("y", Dtype::F32, &[k]);
        let [block] = b.blocks([("b", n)]);
        let [thread] = b.threads([("t", 32)]);
        build(b, &Names { k, a, p, q, u, f, y, b: block, t: thread });
    });
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

/// An addition to an element of `y`; where not masked, the author guards it above.
fn add(b: &mut Builder, names: &Names, index: ExprId, masked: bool) {
    let value = b.float(Dtype::F32, 1.0);
    let update = |b: &mut Builder| {
        let access = b.access(names.y, &[index], masked);
        b.stmt(StmtKind::Atomic { op: AtomicOp::Add, access, value, dst: None });
    };
    if masked {
        return update(b);
    }
    let below = b.lt(index, names.k);
    b.when(below, update);
}

/// Case 370826: 2^30 has 31 bits, and so has what differs from it in some of the others.
#[test]
fn bits_of_a_power_of_two() {
    let class = runs([1, 31], [0; 3], |b, names| {
        let (high, most) = (b.int(1 << 30), b.int((1 << 30) - 1));
        let other = b.binary(BitXor, names.t, high);
        let index = b.add(other, most);
        add(b, names, index, false);
    });
    assert_eq!(class, Class::Wide);
}

/// Cases 650133 and 665556: `t | 64` is up to 95, so that what it is taken from may be negative.
#[test]
fn a_sign_that_bits_decide() {
    for op in [BitOr, BitXor] {
        let class = runs([16, 65_536], [0; 3], |b, names| {
            let (bit, most) = (b.int(64), b.int(16));
            let (low, high) = (b.binary(BitAnd, names.b, names.t), b.binary(op, names.t, bit));
            let less = b.binary(Sub, low, high);
            let (least, from) = (b.binary(Min, most, less), b.add(names.a, bit));
            let index = b.add(from, least);
            add(b, names, index, false);
        });
        assert_eq!(class, Class::Wide);
    }
}

/// Case 606832: the bits of a number of up to 2^62 are those of every 63-bit number.
#[test]
fn bits_of_a_saturated_float() {
    let class = runs([32, 33], [0; 3], |b, names| {
        let value = b.masked(names.f, &[names.t]);
        let value = b.bind("d", value);
        let [x, y] = [(); 2].map(|()| b.cast(Type::Index, value));
        let bits = b.binary(BitOr, y, names.k);
        let three = b.int(3);
        let less = b.binary(Sub, three, x);
        let index = b.binary(Sub, less, bits);
        add(b, names, index, true);
    });
    assert_eq!(class, Class::Typing(crate::diag::Code::INDEX_WIDTH.0));
}

/// Case 653667: `32 % K % 4` has a quotient of `-(K * (32 / K))` in it, which the launcher rounds down as the kernel does.
#[test]
fn a_quotient_of_a_negative_number_at_the_launch() {
    let shifted = |b: &mut Builder, names: &Names| {
        let (number, one, four, by) = (b.int(32), b.int(1), b.int(4), b.int(31));
        let divisor = b.binary(Max, names.k, one);
        let rest = b.binary(Rem, number, divisor);
        let rest = b.binary(Rem, rest, four);
        let index = b.binary(Shl, rest, by);
        add(b, names, index, true);
    };
    // 2 << 31; and 0 << 31.
    assert_eq!(runs([1, 3], [0; 3], shifted), Class::Refused);
    assert_eq!(runs([1, 4], [0; 3], shifted), Class::Narrow);
}

/// What the launcher computes of an `i32` wraps where the kernel's does.
#[test]
fn a_wrapped_scalar_at_the_launch() {
    let doubled = |b: &mut Builder, names: &Names| {
        let difference = b.binary(Sub, names.p, names.q);
        let difference = b.cast(Type::Index, difference);
        let (zero, two) = (b.int(0), b.int(2));
        let positive = b.binary(Max, difference, zero);
        let index = b.mul(positive, two);
        add(b, names, index, true);
    };
    let least = i64::from(i32::MIN);
    assert_eq!(runs([1, 33], [0, least + 10, 100], doubled), Class::Refused);
    assert_eq!(runs([1, 33], [0, -3, 100], doubled), Class::Narrow);
    assert_eq!(runs([1, 33], [0, 100, 90], doubled), Class::Narrow);
}

/// Case 123287: a divisor of 0 counts as 1, so that `ceil_div(2^31, 0)` is 2^31 and no `int`, though `2^31 + 0 - 1` is one.
#[test]
fn a_rounded_quotient_by_nothing() {
    let rounded = |b: &mut Builder, names: &Names| {
        let number = b.cast(Type::Index, names.u);
        let index = b.binary(CeilDiv, number, names.k);
        add(b, names, index, false);
    };
    assert_eq!(runs([1, 0], [0, 0, 1 << 31], rounded), Class::Refused);
    assert_eq!(runs([1, 0], [0, 0, (1 << 31) - 1], rounded), Class::Wide);
    assert_eq!(runs([1, 64], [0, 0, 33], rounded), Class::Wide);
}
