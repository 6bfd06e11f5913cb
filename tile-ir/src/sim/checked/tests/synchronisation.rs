//! Barriers, shuffles and votes that not all threads reach; programs that do not end.

use super::build::*;
use super::{brief, clean, finds};
use crate::ir::*;
use crate::lowered::*;
use crate::sim::checked::{CheckedOptions, run};
use expect_test::expect;

#[test]
fn a_barrier_in_a_thread_dependent_branch() {
    // if tx < n { sync }
    let program = |n: i64| {
        let mut b = Build::threads(128);
        let (tx, n) = (b.tx(), b.int(n));
        let cond = b.less(tx, n);
        b.if_(cond, Build::barrier);
        b.finish()
    };
    finds(
        &program(48),
        &Vec::new,
        &[402],
        expect![[r#"
        TK0402 line 2: barrier not reached by every thread | 48 of 128 threads arrive; thread 48 does not | in block 0, barrier interval 0; replay with seed 0 | help: move `sync_threads();` to where every thread of the block runs it equally often
    "#]],
    );
    let (report, _) = clean(&program(128), &Vec::new);
    assert_eq!(report.counters.barriers, 1);
    let (report, _) = clean(&program(0), &Vec::new);
    assert_eq!(report.counters.barriers, 0);
}

#[test]
fn barriers_in_both_arms_are_different_barriers() {
    let mut b = Build::threads(64);
    let (tx, n) = (b.tx(), b.int(32));
    let cond = b.less(tx, n);
    b.if_else(cond, Build::barrier, Build::barrier);
    finds(
        &b.finish(),
        &Vec::new,
        &[402],
        expect![[r#"
        TK0402 line 2: barrier not reached by every thread | 32 of 64 threads arrive; thread 32 does not | in block 0, barrier interval 0; replay with seed 0 | help: move `sync_threads();` to where every thread of the block runs it equally often
        TK0402 line 3: barrier not reached by every thread | 32 of 64 threads arrive; thread 0 does not | in block 0, barrier interval 0; replay with seed 0 | help: move `sync_threads();` to where every thread of the block runs it equally often
    "#]],
    );
}

#[test]
fn a_barrier_in_a_loop_of_differing_length() {
    // for i in 0..(tx / 32 + 1 or 3) { sync }
    let program = |uniform: bool| {
        let mut b = Build::threads(64);
        let (tx, warp, one, three) = (b.tx(), b.int(32), b.int(1), b.int(3));
        let index = b.binary(BinaryOp::Div, tx, warp);
        let count = b.add(index, one);
        b.for_(0, if uniform { three } else { count }, 1, |b, _| b.barrier());
        b.finish()
    };
    finds(
        &program(false),
        &Vec::new,
        &[402],
        expect![[r#"
        TK0402 line 2: barrier not reached by every thread | 32 of 64 threads arrive; thread 0 does not | in block 0, barrier interval 1; replay with seed 0 | help: move `sync_threads();` to where every thread of the block runs it equally often
    "#]],
    );
    let (report, _) = clean(&program(true), &Vec::new);
    assert_eq!(report.counters.barriers, 3);
}

/// `v = tx; v += shfl(v, ..)` for the whole butterfly, in lanes below `n`.
fn butterfly(threads: u32, n: i64) -> Program {
    let mut b = Build::threads(threads);
    let y = b.tensor("y", Dtype::F32, 1, true);
    let (tx, n) = (b.tx(), b.int(n));
    let value = b.cast(tx, F32);
    let (v, other) = (b.let_("v", value), b.reg("other", F32));
    let cond = b.less(tx, n);
    b.if_(cond, |b| {
        for mask in [16, 8, 4, 2, 1] {
            let (value, lane) = (b.get(v), b.int(mask));
            b.op(OpKind::Shuffle { reg: other, kind: ShuffleKind::Xor, value, lane });
            let (value, other) = (b.get(v), b.get(other));
            let sum = b.add(value, other);
            b.set(v, sum);
        }
    });
    let (tx, value) = (b.tx(), b.get(v));
    b.store(y, tx, value);
    b.finish()
}

#[test]
fn shuffles_need_the_whole_warp() {
    let (_, results) = clean(&butterfly(64, 64), &|| vec![floats(&[64], |_| 0.0)]);
    let sums = read(&results[0]);
    assert_eq!((sums[0], sums[31], sums[32]), (496.0, 496.0, 1520.0));
    finds(
        &butterfly(64, 40),
        &|| vec![floats(&[64], |_| 0.0)],
        &[402],
        expect![[r#"
        TK0402 line 3: shuffle not reached by every thread of the warp | 8 of 32 threads of warp 1 arrive; thread 40 does not | in block 0, barrier interval 0; replay with seed 0 | help: move it to where all threads of the warp run it together
        TK0402 line 5: shuffle not reached by every thread of the warp | 8 of 32 threads of warp 1 arrive; thread 40 does not | in block 0, barrier interval 0; replay with seed 0 | help: move it to where all threads of the warp run it together
        TK0402 line 7: shuffle not reached by every thread of the warp | 8 of 32 threads of warp 1 arrive; thread 40 does not | in block 0, barrier interval 0; replay with seed 0 | help: move it to where all threads of the warp run it together
        TK0402 line 9: shuffle not reached by every thread of the warp | 8 of 32 threads of warp 1 arrive; thread 40 does not | in block 0, barrier interval 0; replay with seed 0 | help: move it to where all threads of the warp run it together
        TK0402 line 11: shuffle not reached by every thread of the warp | 8 of 32 threads of warp 1 arrive; thread 40 does not | in block 0, barrier interval 0; replay with seed 0 | help: move it to where all threads of the warp run it together
    "#]],
    );
    // The last warp has 16 threads.
    finds(
        &butterfly(48, 48),
        &|| vec![floats(&[48], |_| 0.0)],
        &[402],
        expect![[r#"
        TK0402 line 3: shuffle reads from a thread that does not exist | thread 32 reads lane 16; warp 1 has 16 threads | in block 0, barrier interval 0; replay with seed 0 | help: use a multiple of 32 threads, or a mask or delta within the warp's threads
    "#]],
    );
}

#[test]
fn votes_and_shuffles_down() {
    let mut b = Build::threads(32);
    let y = b.tensor("y", Dtype::I32, 2, true);
    let int = ValueType::Element(Dtype::I32);
    let (tx, five) = (b.tx(), b.int(5));
    let few = b.less(tx, five);
    let ballot = b.reg("ballot", ValueType::Element(Dtype::U32));
    b.op(OpKind::Vote { reg: ballot, kind: VoteKind::Ballot, pred: few });
    let (any, all) = (b.reg("any", ValueType::BOOL), b.reg("all", ValueType::BOOL));
    b.op(OpKind::Vote { reg: any, kind: VoteKind::Any, pred: few });
    b.op(OpKind::Vote { reg: all, kind: VoteKind::All, pred: few });
    let down = b.reg("down", int);
    let (value, lane) = (b.cast(tx, int), b.int(3));
    b.op(OpKind::Shuffle { reg: down, kind: ShuffleKind::Down, value, lane });
    for (row, reg) in [ballot, any, all, down].into_iter().enumerate() {
        let (tx, row) = (b.tx(), b.int(row as i64 * 32));
        let (offset, value) = (b.add(row, tx), b.get(reg));
        let value = b.cast(value, int);
        b.store(y, offset, value);
    }
    let (_, results) = clean(&b.finish(), &|| vec![ints(&[4, 32], |_| -1)]);
    let out: Vec<i32> = bytes(&results[0]).chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!([out[0], out[32], out[64], out[96], out[96 + 28], out[96 + 29]], [31, 1, 0, 3, 31, 29]);
}

#[test]
fn shuffles_order_no_memory() {
    // s[tx] = 1; shfl; v = s[31 - tx]
    let mut b = Build::threads(32);
    let s = b.shared("s", Dtype::F32, 32);
    let (tx, one) = (b.tx(), b.float(1.0));
    b.store(s, tx, one);
    let (reg, lane) = (b.reg("r", F32), b.int(1));
    b.op(OpKind::Shuffle { reg, kind: ShuffleKind::Xor, value: one, lane });
    let last = b.int(31);
    let other = b.binary(BinaryOp::Sub, last, tx);
    let value = b.load(s, other);
    b.let_("v", value);
    let report = run(&b.finish(), &[], &CheckedOptions::default()).unwrap();
    assert_eq!(report.diagnostics.iter().map(|d| d.code.0).collect::<Vec<_>>(), [401]);
}

#[test]
fn a_warp_barrier_in_a_branch() {
    let program = |n: i64| {
        let mut b = Build::threads(64);
        let (tx, n) = (b.tx(), b.int(n));
        let cond = b.less(tx, n);
        b.if_(cond, |b| b.op(OpKind::WarpBarrier));
        b.finish()
    };
    clean(&program(32), &Vec::new);
    finds(
        &program(33),
        &Vec::new,
        &[402],
        expect![[r#"
        TK0402 line 2: `sync_warp` not reached by every thread of the warp | 1 of 32 threads of warp 1 arrive; thread 33 does not | in block 0, barrier interval 0; replay with seed 0 | help: move it to where all threads of the warp run it together
    "#]],
    );
}

#[test]
fn a_program_that_does_not_end_in_time() {
    let program = |n: i64| {
        let mut b = Build::threads(32);
        let n = b.int(n);
        b.for_(0, n, 1, |b, i| {
            let value = b.get(i);
            b.let_("v", value);
        });
        b.finish()
    };
    let options = CheckedOptions { step_limit: 10_000, ..CheckedOptions::default() };
    assert!(run(&program(100), &[], &options).unwrap().is_clean());
    let long = program(1 << 30);
    let report = run(&long, &[], &options).unwrap();
    assert_eq!(report.counters.steps, 10_000);
    expect![[r#"
        TK0404 line 1: the program is still running after 10000 instructions | warp 0 of block 0 is here | in block 0, barrier interval 0; replay with seed 0
    "#]].assert_eq(&brief(&long, &report));
}

#[test]
fn a_loop_with_a_step_of_zero_is_left() {
    let program = |step: i64| {
        let mut b = Build::threads(32);
        let n = b.int(4);
        b.for_(0, n, step, |_, _| {});
        b.finish()
    };
    clean(&program(3), &Vec::new);
    finds(
        &program(0),
        &Vec::new,
        &[404],
        expect![[r#"
        TK0404 line 1: the loop never ends: its step is 0 | warp 0 of block 0 is here | in block 0, barrier interval 0; replay with seed 0
    "#]],
    );
}
