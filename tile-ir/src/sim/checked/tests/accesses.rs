//! Bounds, guards, index arithmetic, initialisation, alignment.

use super::build::*;
use super::{clean, finds};
use crate::ir::*;
use crate::lowered::*;
use crate::sim::Argument;
use expect_test::expect;

#[test]
fn a_tensor_is_left() {
    // y[bx * 32 + tx] = 1, over two blocks
    let mut b = Build::threads(32).blocks(2);
    let y = b.tensor("y", Dtype::F32, 1, true);
    let (tx, bx, n, one) = (b.tx(), b.bx(), b.int(32), b.float(1.0));
    let base = b.mul(bx, n);
    let element = b.add(base, tx);
    b.store(y, element, one);
    let program = b.finish();
    let (report, _) = clean(&program, &|| vec![floats(&[64], |_| 0.0)]);
    assert_eq!(report.elements(y, super::super::AccessKind::Write), 64);
    finds(
        &program,
        &|| vec![floats(&[50], |_| 0.0)],
        &[301],
        expect![[r#"
        TK0301 line 1: index out of bounds of `y` | thread 18 writes element 50; `y` has 50 elements | in block 1, barrier interval 0; replay with seed 0 | seen 14 times in this run
    "#]],
    );
}

#[test]
fn padding_between_rows_is_outside() {
    // y[tx] with y = 4 rows of 6 in a pitch of 8
    let mut b = Build::threads(32);
    let y = b.tensor("y", Dtype::F32, 2, true);
    let (tx, n, one) = (b.tx(), b.int(6), b.float(1.0));
    let inside = b.less(tx, n);
    b.if_(inside, |b| b.store(y, tx, one));
    let eight = b.int(8);
    let below = b.less(tx, eight);
    b.if_(below, |b| {
        let (six, sixteen, tx) = (b.int(6), b.int(16), b.tx());
        let column = b.binary(BinaryOp::Rem, tx, six);
        let offset = b.add(sixteen, column);
        let _ = offset;
        let shifted = b.add(tx, sixteen);
        b.store(y, shifted, one);
    });
    let program = b.finish();
    let pitched = |pitch: i64| {
        move || {
            let Argument::Tensor(mut t) = floats(&[64], |_| 0.0) else { unreachable!() };
            (t.shape, t.strides) = (vec![4, 6], vec![pitch, 1]);
            vec![Argument::Tensor(t)]
        }
    };
    finds(
        &program,
        &pitched(8),
        &[301],
        expect![[r#"
        TK0301 line 4: index out of bounds of `y` | thread 6 writes element 22; `y` has the extents [4, 6] | in block 0, barrier interval 0; replay with seed 0 | seen 2 times in this run
    "#]],
    );
    clean(&program, &pitched(6));
}

#[test]
fn a_shared_array_is_left() {
    // s[tx + offset] = 1
    let program = |offset: i64, bytes: u32| {
        let mut b = Build::threads(32);
        let s = b.shared("s", Dtype::F32, 32);
        b.program.shared_bytes = bytes;
        let (tx, offset, one) = (b.tx(), b.int(offset), b.float(1.0));
        let element = b.add(tx, offset);
        b.store(s, element, one);
        b.finish()
    };
    clean(&program(0, 128), &Vec::new);
    finds(
        &program(1, 128),
        &Vec::new,
        &[301],
        expect![[r#"
        TK0301 line 2: shared index out of bounds of `s` | thread 31 writes element 32; `s` has 32 elements | in block 0, barrier interval 0; replay with seed 0
    "#]],
    );
    // The block asked for less shared memory than its arrays need.
    finds(
        &program(0, 64),
        &Vec::new,
        &[301],
        expect![[r#"
        TK0301 line 2: shared index out of bounds of `s` | thread 16 writes element 16; `s` has 32 elements | in block 0, barrier interval 0; replay with seed 0 | seen 16 times in this run
    "#]],
    );
}

#[test]
fn guards_fire_and_masks_do_not() {
    // y[tx] = 1 guarded by tx < Y0
    let program = |reason: GuardReason| {
        let mut b = Build::threads(64);
        let y = b.tensor("y", Dtype::F32, 1, true);
        let (tx, n, one) = (b.tx(), b.dim("Y0"), b.float(1.0));
        let inside = b.less(tx, n);
        let memory = b.guarded(y, tx, inside, reason);
        b.op(OpKind::Store { memory, value: one });
        b.finish()
    };
    let (report, results) = clean(&program(GuardReason::Masked), &|| vec![floats(&[50], |_| 0.0)]);
    assert_eq!(report.counters.guards_masked, 14);
    assert_eq!(report.counters.guards_evaluated, 64);
    assert!(read(&results[0]).iter().all(|v| *v == 1.0));
    clean(&program(GuardReason::Unproven), &|| vec![floats(&[64], |_| 0.0)]);
    finds(
        &program(GuardReason::Unproven),
        &|| vec![floats(&[50], |_| 0.0)],
        &[302],
        expect![[r#"
        TK0302 line 1: `y` is accessed out of bounds; only the guard the compiler added prevents it | thread 50 writes element 50; `y` has 50 elements | in block 0, barrier interval 0; replay with seed 0 | help: guard the access with an `if` on its indices
    "#]],
    );
}

#[test]
fn an_index_is_negative_or_too_large() {
    // x[tx - offset], a * b
    let subtract = |offset: i64, reason: GuardReason| {
        let mut b = Build::threads(32);
        let x = b.tensor("x", Dtype::F32, 1, false);
        let (tx, offset, n) = (b.tx(), b.int(offset), b.dim("X0"));
        let element = b.binary(BinaryOp::Sub, tx, offset);
        let zero = b.int(0);
        let low = b.binary(BinaryOp::Ge, element, zero);
        let high = b.less(element, n);
        let inside = b.binary(BinaryOp::And, low, high);
        let memory = b.guarded(x, element, inside, reason);
        let value = b.load_at(memory);
        b.let_("v", value);
        b.finish()
    };
    let args = || vec![floats(&[32], |_| 0.0)];
    clean(&subtract(0, GuardReason::Unproven), &args);
    // Where it is clipped, a negative index is outside like any other.
    clean(&subtract(3, GuardReason::Masked), &args);
    finds(
        &subtract(3, GuardReason::Unproven),
        &args,
        &[303],
        expect![[r#"
            TK0303 line 1: index is negative: `line 1` = -3 | thread 0 reads `x` there | in block 0, barrier interval 0; replay with seed 0 | help: guard the access with an `if` on its indices
        "#]],
    );

    let multiply = |ty: ValueType| {
        let mut b = Build::threads(32);
        let (tx, big) = (b.tx(), b.value(ValueKind::Int(1 << 30), ValueType::Index));
        let (tx, big) = (b.cast(tx, ty), b.cast(big, ty));
        let product = b.mul(tx, big);
        b.let_("v", product);
        b.finish()
    };
    clean(&multiply(ValueType::Wide), &Vec::new);
    finds(
        &multiply(ValueType::Index),
        &Vec::new,
        &[303],
        expect![[r#"
        TK0303 line 1: index overflows 32 bits: 2 * 1073741824 = 2147483648 | in thread 2 | in block 0, barrier interval 0; replay with seed 0
    "#]],
    );
}

#[test]
fn short_circuits_guard_what_follows() {
    // tx >= 1 && x[tx - 1] > 0, against the same with both sides evaluated
    let program = |lazy: bool| {
        let mut b = Build::threads(32);
        let x = b.tensor("x", Dtype::F32, 1, false);
        let (tx, one, zero) = (b.tx(), b.int(1), b.float(0.0));
        let later = b.binary(BinaryOp::Ge, tx, one);
        let before = b.binary(BinaryOp::Sub, tx, one);
        let value = b.load(x, before);
        let positive = b.less(zero, value);
        let both = b.binary(if lazy { BinaryOp::And } else { BinaryOp::BitAnd }, later, positive);
        b.let_("c", both);
        b.finish()
    };
    let args = || vec![floats(&[31], |_| 1.0)];
    clean(&program(true), &args);
    finds(
        &program(false),
        &args,
        &[301],
        expect![[r#"
            TK0301 line 1: index out of bounds of `x` | thread 0 reads element -1; `x` has 31 elements | in block 0, barrier interval 0; replay with seed 0
        "#]],
    );
}

#[test]
fn a_division_by_zero() {
    let program = |divisor: i64| {
        let mut b = Build::threads(32);
        let ty = ValueType::Element(Dtype::I32);
        let (a, divisor) = (b.value(ValueKind::Int(-7), ty), b.value(ValueKind::Int(divisor), ty));
        let quotient = b.binary(BinaryOp::Div, a, divisor);
        b.let_("q", quotient);
        b.finish()
    };
    clean(&program(2), &Vec::new);
    finds(
        &program(0),
        &Vec::new,
        &[303],
        expect![[r#"
        TK0303 line 1: division by zero: -7 / 0 | in thread 0 | in block 0, barrier interval 0; replay with seed 0
    "#]],
    );
}

#[test]
fn a_register_is_read_before_it_is_assigned() {
    // let v; if tx < n { v = 1 } (else { v = 2 }); w = v
    let program = |both: bool, n: i64| {
        let mut b = Build::threads(32);
        let v = b.reg("v", F32);
        b.op(OpKind::Let { reg: v, value: None });
        let (tx, n, one, two) = (b.tx(), b.int(n), b.float(1.0), b.float(2.0));
        let cond = b.less(tx, n);
        b.if_else(
            cond,
            |b| b.set(v, one),
            |b| {
                if both {
                    b.set(v, two)
                }
            },
        );
        let value = b.get(v);
        b.let_("w", value);
        b.finish()
    };
    clean(&program(true, 7), &Vec::new);
    clean(&program(false, 32), &Vec::new);
    finds(
        &program(false, 7),
        &Vec::new,
        &[304],
        expect![[r#"
        TK0304 line 4: `v` is read before it is assigned | thread 7 reads it | in block 0, barrier interval 0; replay with seed 0 | help: give `v` a value where it is declared
    "#]],
    );
}

#[test]
fn a_declaration_in_a_loop_is_uninitialised_each_time() {
    // for i in 0..2 { let v; if i < n { v = 1 }; w = v }
    let program = |n: i64| {
        let mut b = Build::threads(32);
        let (v, w) = (b.reg("v", F32), b.reg("w", F32));
        let two = b.int(2);
        b.for_(0, two, 1, |b, i| {
            b.op(OpKind::Let { reg: v, value: None });
            let (i, n, one) = (b.get(i), b.int(n), b.float(1.0));
            let cond = b.less(i, n);
            b.if_(cond, |b| b.set(v, one));
            let value = b.get(v);
            b.op(OpKind::Let { reg: w, value: Some(value) });
        });
        b.finish()
    };
    clean(&program(2), &Vec::new);
    finds(
        &program(1),
        &Vec::new,
        &[304],
        expect![[r#"
        TK0304 line 5: `v` is read before it is assigned | thread 0 reads it | in block 0, barrier interval 0; replay with seed 0 | help: give `v` a value where it is declared
    "#]],
    );
}

#[test]
fn arrays_are_read_before_they_are_written() {
    // l[0] = 1; v = l[index]; s[tx] = 1 for tx < n; sync; y[tx] = s[tx]
    let program = |index: i64, n: i64| {
        let mut b = Build::threads(32);
        let l = Space::Local(b.local("l", Dtype::F32, 2));
        let s = b.shared("s", Dtype::F32, 32);
        let (zero, index, one) = (b.int(0), b.int(index), b.float(1.0));
        b.store(l, zero, one);
        let value = b.load(l, index);
        b.let_("v", value);
        let (tx, n) = (b.tx(), b.int(n));
        let cond = b.less(tx, n);
        b.if_(cond, |b| b.store(s, tx, one));
        b.barrier();
        let value = b.load(s, tx);
        b.let_("w", value);
        b.finish()
    };
    clean(&program(0, 32), &Vec::new);
    finds(
        &program(1, 32),
        &Vec::new,
        &[304],
        expect![[r#"
        TK0304 line 4: l[1] is read before it is written | thread 0 reads it | in block 0, barrier interval 0; replay with seed 0 | seen 32 times in this run | help: write every element of `l` that is read, or `fill` it first
    "#]],
    );
    finds(
        &program(0, 31),
        &Vec::new,
        &[304],
        expect![[r#"
        TK0304 line 8: s[31] is read before it is written | thread 31 reads it | in block 0, barrier interval 1; replay with seed 0 | help: write every element of `s` that is read, or `fill` it first
    "#]],
    );
}

#[test]
fn a_shared_array_in_a_loop_is_uninitialised_each_time() {
    // for i in 0..2 { shared s; sync; if i < n { s[tx] = 1 }; v = s[tx]; }: warps run ahead of each other
    let program = |n: i64| {
        let mut b = Build::threads(96);
        let s = b.shared("s", Dtype::F32, 96);
        let Space::Shared(shared) = s else { unreachable!() };
        let two = b.int(2);
        b.for_(0, two, 1, |b, i| {
            b.op(OpKind::Shared { shared });
            b.barrier();
            let (i, n, tx, one) = (b.get(i), b.int(n), b.tx(), b.float(1.0));
            let cond = b.less(i, n);
            b.if_(cond, |b| b.store(s, tx, one));
            let value = b.load(s, tx);
            b.let_("v", value);
        });
        b.finish()
    };
    clean(&program(2), &Vec::new);
    finds(
        &program(1),
        &Vec::new,
        &[304],
        expect![[r#"
        TK0304 line 7: s[0] is read before it is written | thread 0 reads it | in block 0, barrier interval 2; replay with seed 0 | seen 96 times in this run | help: write every element of `s` that is read, or `fill` it first
    "#]],
    );
}

#[test]
fn vectors_must_be_aligned() {
    // l[0..4] = x[tx * stride ..], then s[tx * stride ..] = l[0..4]
    let program = |global: i64, shared: i64| {
        let mut b = Build::threads(8);
        let x = b.tensor("x", Dtype::F32, 1, false);
        let s = b.shared("s", Dtype::F32, 64);
        let local = b.local("l", Dtype::F32, 4);
        let (tx, zero, stride) = (b.tx(), b.int(0), b.int(global));
        let offset = b.mul(tx, stride);
        let memory = b.at(x, offset);
        b.op(OpKind::VectorLoad { local, start: zero, memory, width: 4 });
        let (tx, stride) = (b.tx(), b.int(shared));
        let offset = b.mul(tx, stride);
        let memory = b.at(s, offset);
        b.op(OpKind::VectorStore { memory, local, start: zero, width: 4 });
        b.finish()
    };
    let args = || vec![floats(&[64], |_| 0.0)];
    clean(&program(4, 4), &args);
    finds(
        &program(5, 4),
        &args,
        &[201],
        expect![[r#"
        TK0201 line 3: 16-byte vector access to `x` is misaligned for 6 of 8 threads of a warp | thread 1 starts at byte 20; 20 % 16 = 4 | in block 0, barrier interval 0; replay with seed 0
    "#]],
    );
    finds(
        &program(4, 6),
        &args,
        &[202],
        expect![[r#"
        TK0202 line 4: 16-byte vector access to `s` is misaligned for 4 of 8 threads of a warp | thread 1 starts at byte 24; 24 % 16 = 8 | in block 0, barrier interval 0; replay with seed 0
    "#]],
    );
    let offset = || {
        let Argument::Tensor(mut t) = floats(&[65], |_| 0.0) else { unreachable!() };
        (t.offset, t.shape) = (4, vec![64]);
        vec![Argument::Tensor(t)]
    };
    finds(
        &program(4, 4),
        &offset,
        &[201],
        expect![[r#"
        TK0201 line 3: 16-byte vector access to `x` is misaligned for 8 of 8 threads of a warp | thread 0 starts at byte 4; 4 % 16 = 4 | in block 0, barrier interval 0; replay with seed 0
    "#]],
    );
}

#[test]
fn a_masked_vector_is_zero_and_initialised() {
    // l[0..4] = x.masked[tx * 4 ..]; y[tx] = l[3]
    let mut b = Build::threads(32);
    let x = b.tensor("x", Dtype::F32, 1, false);
    let y = b.tensor("y", Dtype::F32, 1, true);
    let local = b.local("l", Dtype::F32, 4);
    let (tx, zero, four, n) = (b.tx(), b.int(0), b.int(4), b.dim("X0"));
    let offset = b.mul(tx, four);
    let inside = b.less(offset, n);
    let memory = b.guarded(x, offset, inside, GuardReason::Masked);
    b.op(OpKind::VectorLoad { local, start: zero, memory, width: 4 });
    let (tx, three) = (b.tx(), b.int(3));
    let value = b.load(Space::Local(local), three);
    b.store(y, tx, value);
    let program = b.finish();
    let (report, results) = clean(&program, &|| vec![floats(&[100], |i| i as f32), floats(&[32], |_| -1.0)]);
    assert_eq!(read(&results[1])[24..27], [99.0, 0.0, 0.0]);
    assert_eq!(report.elements(x, super::super::AccessKind::Read), 100);
    // The last vector straddles the edge.
    let straddling = || vec![floats(&[98], |i| i as f32), floats(&[32], |_| -1.0)];
    finds(
        &program,
        &straddling,
        &[301],
        expect![[r#"
        TK0301 line 2: index out of bounds of `x` | thread 24 reads element 98; `x` has 98 elements | in block 0, barrier interval 0; replay with seed 0 | seen 2 times in this run
    "#]],
    );
}

#[test]
fn a_vector_leaves_its_local_array() {
    let program = |start: i64| {
        let mut b = Build::threads(32);
        let x = b.tensor("x", Dtype::F32, 1, false);
        let local = b.local("l", Dtype::F32, 4);
        let (start, zero) = (b.int(start), b.int(0));
        let memory = b.at(x, zero);
        b.op(OpKind::VectorLoad { local, start, memory, width: 2 });
        b.finish()
    };
    let args = || vec![floats(&[4], |_| 0.0)];
    clean(&program(2), &args);
    finds(
        &program(1),
        &args,
        &[202],
        expect![[r#"
        TK0202 line 2: 8-byte vector access to `l` is misaligned for 32 of 32 threads of a warp | thread 0 starts at byte 4; 4 % 8 = 4 | in block 0, barrier interval 0; replay with seed 0
    "#]],
    );
    finds(
        &program(4),
        &args,
        &[301],
        expect![[r#"
            TK0301 line 2: index out of bounds of `l` | thread 0 reaches element 4; `l` has 4 elements | in block 0, barrier interval 0; replay with seed 0 | seen 64 times in this run
        "#]],
    );
}
