use super::*;
use crate::ir::*;
use crate::testing::{Builder, kernel};

fn one_block(b: &mut Builder) {
    let one = b.int(1);
    b.blocks([("bx", one)]);
}

#[test]
fn tensors_are_guarded() {
    // Plain and masked accesses alike: beyond the end reads 0, writes nothing. Before the start a plain one is a mistake.
    for masked in [false, true] {
        let built = kernel("k", |b| {
            let n = b.dim("N");
            let x = b.tensor("x", Dtype::F32, &[n]);
            let y = b.tensor_mut("y", Dtype::F32, &[n]);
            one_block(b);
            let [tx] = b.threads([("tx", 8)]);
            let two = b.int(2);
            let shifted = b.binary(BinaryOp::Sub, tx, two);
            let value = if masked { b.masked(x, &[shifted]) } else { b.load(x, &[shifted]) };
            if masked { b.store_masked(y, &[tx], value) } else { b.store(y, &[tx], value) }
        });
        let args = [tensor(Dtype::F32, &[5], &[1.0, 2.0, 3.0, 4.0, 5.0]), zeros(Dtype::F32, &[5])];
        match run(&built, &args) {
            Ok(_) if masked => assert_eq!(values(&args[1]), [0.0, 0.0, 1.0, 2.0, 3.0]),
            Err(SimError::Fault(fault)) if !masked => {
                assert_eq!(fault.diagnostic.code, crate::diag::Code::INDEX_OVERFLOW);
                assert_eq!(fault.diagnostic.message, "index is negative: -2 on axis 0");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn views_have_pitch_and_offset() {
    let built = kernel("transpose", |b| {
        let (m, n) = (b.dim("M"), b.dim("N"));
        let x = b.tensor("x", Dtype::Bf16, &[m, n]);
        let y = b.tensor_mut("y", Dtype::F32, &[n, m]);
        let [bx] = b.blocks([("bx", m)]);
        let [tx] = b.threads([("tx", 4)]);
        let value = b.load(x, &[bx, tx]);
        let value = b.cast(Dtype::F32, value);
        b.store(y, &[tx, bx], value);
    });
    let Argument::Tensor(mut view) = tensor(Dtype::Bf16, &[4, 8], &ramp(32)) else { unreachable!() };
    // Rows 1 and 2, columns 3..6, of a 4 x 8 matrix.
    (view.shape, view.strides, view.offset) = (vec![2, 3], vec![8, 1], 11 * 2);
    let args = [Argument::Tensor(view), zeros(Dtype::F32, &[3, 2])];
    ok(&built, &args);
    assert_eq!(values(&args[1]), [11.0, 19.0, 12.0, 20.0, 13.0, 21.0]);
}

#[test]
fn shared_memory_goes_between_threads() {
    let built = kernel("reverse", |b| {
        let n = b.dim("N");
        let x = b.tensor_mut("x", Dtype::I32, &[n]);
        one_block(b);
        let [tx] = b.threads([("tx", 6)]);
        let s = b.buffer("s", Scope::Shared, Dtype::I32, &[3, 2]);
        let two = b.int(2);
        let (row, column) = (b.binary(BinaryOp::Div, tx, two), b.binary(BinaryOp::Rem, tx, two));
        let value = b.load(x, &[tx]);
        b.store(s, &[row, column], value);
        b.stmt(StmtKind::SyncThreads);
        let five = b.int(5);
        let other = b.binary(BinaryOp::Sub, five, tx);
        let (row, column) = (b.binary(BinaryOp::Div, other, two), b.binary(BinaryOp::Rem, other, two));
        let value = b.load(s, &[row, column]);
        b.store(x, &[tx], value);
    });
    let args = [tensor(Dtype::I32, &[6], &ramp(6))];
    ok(&built, &args);
    assert_eq!(values(&args[0]), [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]);
}

#[test]
fn local_arrays_are_each_threads_own() {
    // h[i] = 10 tx + i; y[tx] = h[tx % 3], an index that differs between threads.
    let built = kernel("local", |b| {
        let n = b.dim("N");
        let y = b.tensor_mut("y", Dtype::F16, &[n]);
        one_block(b);
        let [tx] = b.threads([("tx", 5)]);
        let h = b.buffer("h", Scope::Local, Dtype::F16, &[3]);
        let three = b.int(3);
        b.range("i", three, |b, i| {
            let value = b.scaled(tx, 10, i);
            let value = b.cast(Dtype::F16, value);
            b.store(h, &[i], value);
        });
        let own = b.binary(BinaryOp::Rem, tx, three);
        let doubled = b.load(h, &[own]);
        let doubled = b.add(doubled, doubled);
        // A store at a varying index, too.
        b.store(h, &[own], doubled);
        let value = b.load(h, &[own]);
        b.store(y, &[tx], value);
    });
    let args = [zeros(Dtype::F16, &[5])];
    ok(&built, &args);
    assert_eq!(values(&args[0]), [0.0, 22.0, 44.0, 60.0, 82.0]);
}

#[test]
fn a_local_store_under_a_condition_keeps_the_others() {
    let built = kernel("local", |b| {
        let n = b.dim("N");
        let y = b.tensor_mut("y", Dtype::F32, &[n]);
        one_block(b);
        let [tx] = b.threads([("tx", 4)]);
        let h = b.buffer("h", Scope::Local, Dtype::F32, &[1]);
        let seven = b.float(Dtype::F32, 7.0);
        let Place::Buffer(buffer) = h else { unreachable!() };
        b.stmt(StmtKind::Fill { buffer, value: seven });
        let (zero, two) = (b.int(0), b.int(2));
        let low = b.lt(tx, two);
        b.when(low, |b| {
            let own = b.cast(Dtype::F32, tx);
            b.store(h, &[zero], own);
        });
        let value = b.load(h, &[zero]);
        b.store(y, &[tx], value);
    });
    let args = [zeros(Dtype::F32, &[4])];
    ok(&built, &args);
    assert_eq!(values(&args[0]), [0.0, 1.0, 7.0, 7.0]);
}

#[test]
fn copies_clip_at_the_edge_and_convert() {
    // Each block copies a 2 x 4 tile to shared memory and back, as f32 to bf16 to f16.
    let built = kernel("copy", |b| {
        let (m, n) = (b.dim("M"), b.dim("N"));
        let x = b.tensor("x", Dtype::F32, &[m, n]);
        let y = b.tensor_mut("y", Dtype::F16, &[m, n]);
        let (two, four) = (b.int(2), b.int(4));
        let (rows, columns) = (b.binary(BinaryOp::CeilDiv, m, two), b.binary(BinaryOp::CeilDiv, n, four));
        let [bx, by] = b.blocks([("bx", columns), ("by", rows)]);
        let [tx] = b.threads([("tx", 3)]);
        let s = b.buffer("s", Scope::Shared, Dtype::Bf16, &[2, 4]);
        let (row, column) = (b.mul(by, two), b.mul(bx, four));
        let (from, to) = (b.tile(x, &[row, column], &[]), b.tile(s, &[], &[]));
        b.copy(from, to);
        let zero = b.int(0);
        let first = b.eq(tx, zero);
        b.when(first, |b| {
            let one = b.float(Dtype::Bf16, 100.0);
            let (zero, three) = (b.int(0), b.int(3));
            b.store(s, &[zero, three], one);
        });
        let (from, to) = (b.tile(s, &[], &[]), b.tile(y, &[row, column], &[]));
        b.copy(from, to);
    });
    let args = [tensor(Dtype::F32, &[3, 5], &ramp(15)), zeros(Dtype::F16, &[3, 5])];
    ok(&built, &args);
    let expected = [0.0, 1.0, 2.0, 100.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 100.0, 14.0];
    assert_eq!(values(&args[1]), expected);
}

#[test]
fn copies_between_ranks_and_to_each_thread() {
    // A row of a matrix into a per-thread array, and back one element on.
    let built = kernel("rows", |b| {
        let (m, n) = (b.dim("M"), b.dim("N"));
        let x = b.tensor("x", Dtype::I32, &[m, n]);
        let y = b.tensor_mut("y", Dtype::I32, &[m, n]);
        one_block(b);
        let [tx] = b.threads([("tx", 2)]);
        let h = b.buffer("h", Scope::Local, Dtype::I32, &[3]);
        let (zero, one) = (b.int(0), b.int(1));
        let (from, to) = (b.tile(x, &[tx, zero], &[]), b.tile(h, &[], &[]));
        b.copy(from, to);
        let (from, to) = (b.tile(h, &[], &[]), b.tile(y, &[tx, one], &[]));
        b.copy(from, to);
    });
    let args = [tensor(Dtype::I32, &[2, 3], &ramp(6)), zeros(Dtype::I32, &[2, 3])];
    ok(&built, &args);
    assert_eq!(values(&args[1]), [0.0, 0.0, 1.0, 0.0, 3.0, 4.0]);
}

#[test]
fn fill_and_parallel_loops() {
    // 10 elements over 4 threads: each once, the last round partly.
    let built = kernel("parallel", |b| {
        let (m, n) = (b.dim("M"), b.dim("N"));
        let y = b.tensor_mut("y", Dtype::U32, &[m, n]);
        one_block(b);
        b.threads([("tx", 4)]);
        let s = b.buffer("s", Scope::Shared, Dtype::U32, &[2, 5]);
        let Place::Buffer(buffer) = s else { unreachable!() };
        let three = b.int_of(Dtype::U32, 3);
        b.stmt(StmtKind::Fill { buffer, value: three });
        let axes = [("i", b.int(2)), ("j", b.int(5))];
        b.parallel(&axes, |b, ij| {
            let old = b.load(s, ij);
            let own = b.scaled(ij[0], 10, ij[1]);
            let own = b.cast(Dtype::U32, own);
            let sum = b.add(old, own);
            b.store(s, ij, sum);
        });
        b.parallel(&axes, |b, ij| {
            let value = b.load(s, ij);
            b.store(y, ij, value);
        });
    });
    let args = [zeros(Dtype::U32, &[2, 5])];
    ok(&built, &args);
    assert_eq!(values(&args[0]), [3.0, 4.0, 5.0, 6.0, 7.0, 13.0, 14.0, 15.0, 16.0, 17.0]);
}

#[test]
fn nan_is_stored_as_one_value() {
    let built = kernel("nan", |b| {
        let n = b.dim("N");
        let x = b.tensor("x", Dtype::F16, &[n]);
        let y = b.tensor_mut("y", Dtype::F16, &[n]);
        one_block(b);
        let [tx] = b.threads([("tx", 2)]);
        let value = b.load(x, &[tx]);
        let negative = b.unary(UnaryOp::Neg, value);
        b.store(y, &[tx], negative);
    });
    let x = zeros(Dtype::F16, &[2]);
    let Argument::Tensor(t) = &x else { unreachable!() };
    t.memory.store(0, Dtype::F16, 0xfe01);
    let args = [x, zeros(Dtype::F16, &[2])];
    ok(&built, &args);
    let Argument::Tensor(y) = &args[1] else { unreachable!() };
    assert_eq!([y.memory.load(0, Dtype::F16), y.memory.load(2, Dtype::F16)], [0x7fff, 0x8000]);
}
