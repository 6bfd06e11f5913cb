//! Races in shared and global memory, and programs that only look like them.

use super::build::*;
use super::{clean, finds};
use crate::ir::*;
use crate::lowered::*;
use expect_test::expect;

/// Each thread writes its element of `s`, then reads its neighbour's.
fn neighbour(threads: u32, sync: impl Fn(&mut Build)) -> Program {
    let mut b = Build::threads(threads);
    let y = b.tensor("y", Dtype::F32, 1, true);
    let s = b.shared("s", Dtype::F32, threads);
    let (tx, one) = (b.tx(), b.float(1.0));
    b.store(s, tx, one);
    sync(&mut b);
    let (tx, one, n) = (b.tx(), b.int(1), b.int(i64::from(threads)));
    let next = b.add(tx, one);
    let next = b.binary(BinaryOp::Rem, next, n);
    let value = b.load(s, next);
    b.store(y, tx, value);
    b.finish()
}

#[test]
fn a_barrier_is_missing() {
    let args = || vec![floats(&[128], |_| 0.0)];
    finds(
        &neighbour(128, |_| {}),
        &args,
        &[401],
        expect![[r#"
            TK0401 line 2: data race on shared `s` | thread 31 reads s[32] (line 3), thread 32 writes s[32] (line 2), no barrier between | in block 0, barrier interval 0; replay with seed 0 | seen 128 times in this run | help: let all threads meet at a barrier between the two: `sync_threads();`
        "#]],
    );
    let (report, _) = clean(&neighbour(128, Build::barrier), &args);
    assert_eq!(report.counters.barriers, 1);
}

#[test]
fn a_warp_barrier_orders_one_warp_and_no_more() {
    let sync_warp = |b: &mut Build| b.op(OpKind::WarpBarrier);
    clean(&neighbour(32, sync_warp), &|| vec![floats(&[32], |_| 0.0)]);
    let args = || vec![floats(&[32], |_| 0.0)];
    finds(
        &neighbour(32, |_| {}),
        &args,
        &[401],
        expect![[r#"
            TK0401 line 3: data race on shared `s` | thread 1 writes s[1] (line 2), thread 0 reads s[1] (line 3), no barrier between | in block 0, barrier interval 0; replay with seed 0 | seen 32 times in this run | help: let all threads of the warp meet at a barrier between the two: `sync_warp();`
        "#]],
    );
    let args = || vec![floats(&[64], |_| 0.0)];
    let report = super::every_run(&neighbour(64, sync_warp), &args);
    assert!(report.iter().all(|(r, _)| r.diagnostics.iter().any(|d| d.code.0 == 401)));
}

#[test]
fn several_threads_write_the_same_value() {
    let program = |guard: bool| {
        let mut b = Build::threads(64);
        let y = b.tensor("y", Dtype::F32, 1, true);
        let (zero, one) = (b.int(0), b.float(1.0));
        if guard {
            let tx = b.tx();
            let first = b.binary(BinaryOp::Eq, tx, zero);
            b.if_(first, |b| b.store(y, zero, one));
        } else {
            b.store(y, zero, one);
        }
        b.finish()
    };
    let args = || vec![floats(&[1], |_| 0.0)];
    finds(
        &program(false),
        &args,
        &[401],
        expect![[r#"
            TK0401 line 1: data race on `y` | thread 31 writes y[0] (line 1), thread 32 writes y[0] (line 1), no barrier between | in block 0, barrier interval 0; replay with seed 0 | seen 63 times in this run | help: let each thread write an element of its own, or one thread write for all, in an `if`; sums are for `atomic_add`
        "#]],
    );
    clean(&program(true), &args);
}

#[test]
fn shared_memory_is_overwritten_while_it_is_read() {
    // for i in 0..4 { s[tx] = i; sync; y[tx] = s[63 - tx]; (sync) }
    let program = |second: bool| {
        let mut b = Build::threads(64);
        let y = b.tensor("y", Dtype::F32, 1, true);
        let s = b.shared("s", Dtype::F32, 64);
        let four = b.int(4);
        b.for_(0, four, 1, |b, i| {
            let (tx, i) = (b.tx(), b.get(i));
            let value = b.cast(i, F32);
            b.store(s, tx, value);
            b.barrier();
            let (tx, last) = (b.tx(), b.int(63));
            let other = b.binary(BinaryOp::Sub, last, tx);
            let value = b.load(s, other);
            b.store(y, tx, value);
            if second {
                b.barrier();
            }
        });
        b.finish()
    };
    let args = || vec![floats(&[64], |_| 0.0)];
    finds(
        &program(false),
        &args,
        &[401],
        expect![[r#"
            TK0401 line 5: data race on shared `s` | thread 31 writes s[31] (line 3), thread 32 reads s[31] (line 5), no barrier between | in block 0, barrier interval 1; replay with seed 0 | seen 192 times in this run | help: let all threads meet at a barrier between the two: `sync_threads();`
        "#]],
    );
    let (report, args) = clean(&program(true), &args);
    assert_eq!(report.counters.barriers, 8);
    assert!(read(&args[0]).iter().all(|v| *v == 3.0));
}

#[test]
fn blocks_write_the_same_element() {
    // y[tx] = 1 in every block, or y[bx * 32 + tx]
    let program = |own: bool| {
        let mut b = Build::threads(32).blocks(4);
        let y = b.tensor("y", Dtype::F32, 1, true);
        let (tx, bx, n, one) = (b.tx(), b.bx(), b.int(32), b.float(1.0));
        let base = b.mul(bx, n);
        let own_element = b.add(base, tx);
        b.store(y, if own { own_element } else { tx }, one);
        b.finish()
    };
    let args = || vec![floats(&[128], |_| 0.0)];
    finds(
        &program(false),
        &args,
        &[405],
        expect![[r#"
        TK0405 line 1: data race between blocks on `y` | thread 0 of block 1 writes y[0] (line 1), thread 0 of block 0 writes y[0] (line 1); blocks are not ordered | in block 1, barrier interval 0; replay with seed 0 | seen 96 times in this run | help: let each block touch its own elements, or make every one of these accesses atomic (`atomic_add`)
    "#]],
    );
    clean(&program(true), &args);
}

#[test]
fn a_block_reads_what_another_writes() {
    // y[bx] = 1; z[bx] = y[(bx + offset) % 4], in thread 0
    let program = |offset: i64| {
        let mut b = Build::threads(32).blocks(4);
        let y = b.tensor("y", Dtype::F32, 1, true);
        let z = b.tensor("z", Dtype::F32, 1, true);
        let (tx, zero) = (b.tx(), b.int(0));
        let first = b.binary(BinaryOp::Eq, tx, zero);
        b.if_(first, |b| {
            let (bx, one) = (b.bx(), b.float(1.0));
            b.store(y, bx, one);
            let (bx, offset, four) = (b.bx(), b.int(offset), b.int(4));
            let other = b.add(bx, offset);
            let other = b.binary(BinaryOp::Rem, other, four);
            let value = b.load(y, other);
            b.store(z, bx, value);
        });
        b.finish()
    };
    let args = || vec![floats(&[4], |_| 0.0), floats(&[4], |_| 0.0)];
    finds(
        &program(1),
        &args,
        &[405],
        expect![[r#"
        TK0405 line 2: data race between blocks on `y` | thread 0 of block 1 writes y[1] (line 2), thread 0 of block 0 reads y[1] (line 3); blocks are not ordered | in block 1, barrier interval 0; replay with seed 0 | seen 4 times in this run | help: let each block touch its own elements, or make every one of these accesses atomic (`atomic_add`)
    "#]],
    );
    clean(&program(0), &args);
}

#[test]
fn atomics_do_not_race_with_each_other() {
    // s[0] = 0 by thread 0; (sync); atomic_add(s[0], 1); sync; y[bx] = s[0]
    let program = |sync: bool, atomic_y: bool| {
        let mut b = Build::threads(96).blocks(3);
        let y = b.tensor("y", Dtype::F32, 1, true);
        let s = b.shared("s", Dtype::F32, 1);
        let (tx, zero) = (b.tx(), b.int(0));
        let first = b.binary(BinaryOp::Eq, tx, zero);
        b.if_(first, |b| {
            let value = b.float(0.0);
            b.store(s, zero, value);
        });
        if sync {
            b.barrier();
        }
        let one = b.float(1.0);
        b.atomic_add(s, zero, one);
        b.barrier();
        b.if_(first, |b| {
            let value = b.load(s, zero);
            if atomic_y {
                b.atomic_add(y, zero, value);
            } else {
                let old = b.load(y, zero);
                let sum = b.add(old, value);
                b.store(y, zero, sum);
            }
        });
        b.finish()
    };
    let args = || vec![floats(&[1], |_| 0.0)];
    let (_, results) = clean(&program(true, true), &args);
    assert_eq!(read(&results[0]), [288.0]);
    finds(
        &program(true, false),
        &args,
        &[405],
        expect![[r#"
        TK0405 line 8: data race between blocks on `y` | thread 0 of block 1 reads y[0] (line 8), thread 0 of block 0 writes y[0] (line 8); blocks are not ordered | in block 1, barrier interval 2; replay with seed 0 | seen 4 times in this run | help: let each block touch its own elements, or make every one of these accesses atomic (`atomic_add`)
    "#]],
    );
    let unsynchronised = super::every_run(&program(false, true), &args);
    assert!(unsynchronised.iter().all(|(r, _)| r.diagnostics.iter().any(|d| d.code.0 == 401)));
}

#[test]
fn arrays_that_share_memory_race_and_clobber() {
    // a[tx] = 1; sync; read a; (sync); b[tx] = 2 with b at a's place
    let program = |sync: bool, read_after: bool| {
        let mut b = Build::threads(64);
        let y = b.tensor("y", Dtype::F32, 1, true);
        let first = b.shared("first", Dtype::F32, 64);
        let second = b.shared("second", Dtype::F16, 128);
        if let Space::Shared(id) = second {
            b.program.shared[id].offset = 0;
        }
        let (tx, one) = (b.tx(), b.float(1.0));
        b.store(first, tx, one);
        b.barrier();
        let (tx, last) = (b.tx(), b.int(63));
        let other = b.binary(BinaryOp::Sub, last, tx);
        let value = b.load(first, other);
        b.store(y, tx, value);
        if sync {
            b.barrier();
        }
        let tx = b.tx();
        let two = b.value(ValueKind::Float(2.0), ValueType::Element(Dtype::F16));
        b.store(second, tx, two);
        if read_after {
            b.barrier();
            let (tx, four) = (b.tx(), b.int(4));
            let few = b.less(tx, four);
            b.if_(few, |b| {
                let tx = b.tx();
                let value = b.load(first, tx);
                b.store(y, tx, value);
            });
        }
        b.finish()
    };
    let args = || vec![floats(&[64], |_| 0.0)];
    clean(&program(true, false), &args);
    finds(
        &program(false, false),
        &args,
        &[401],
        expect![[r#"
            TK0401 line 5: data race on shared `first` | thread 30 writes `second` there (line 6), thread 48 reads first[15] (line 5), no barrier between | in block 0, barrier interval 1; replay with seed 0 | seen 47 times in this run | help: let all threads meet at a barrier between the two: `sync_threads();`
        "#]],
    );
    finds(
        &program(true, true),
        &args,
        &[304],
        expect![[r#"
        TK0304 line 10: first[0] is read before it is written | thread 0 reads it | in block 0, barrier interval 3; replay with seed 0 | seen 4 times in this run | help: write every element of `first` that is read, or `fill` it first
    "#]],
    );
}

#[test]
fn views_of_one_memory_race() {
    // y[tx] = x[tx + 1] with x and y the same memory, or not
    let mut b = Build::threads(32);
    let x = b.tensor("x", Dtype::F32, 1, false);
    let y = b.tensor("y", Dtype::F32, 1, true);
    let (tx, one) = (b.tx(), b.int(1));
    let next = b.add(tx, one);
    let value = b.load(x, next);
    b.store(y, tx, value);
    let program = b.finish();
    clean(&program, &|| vec![floats(&[33], |_| 0.0), floats(&[33], |_| 0.0)]);
    let aliased = || {
        let x = floats(&[33], |_| 0.0);
        vec![x.clone(), x]
    };
    finds(
        &program,
        &aliased,
        &[401],
        expect![[r#"
            TK0401 line 1: data race on `y` | thread 0 reads `x` there (line 1), thread 1 writes y[1] (line 1), no barrier between | in block 0, barrier interval 0; replay with seed 0 | seen 31 times in this run | help: let all threads of the warp meet at a barrier between the two: `sync_warp();`
        "#]],
    );
}
