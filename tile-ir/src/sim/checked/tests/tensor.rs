//! The operations of tensor cores, barriers and TMA one at a time, and what is wrong with their use.

use super::build::*;
use super::{clean, schedules};
use crate::ir::*;
use crate::lowered::*;
use crate::sim::checked::{Copies, run};
use crate::sim::{Argument, numeric};

const U32: ValueType = ValueType::Element(Dtype::U32);

/// Every schedule, early and late, reports something with this text.
fn names(program: &Program, args: &dyn Fn() -> Vec<Argument>, text: &str) {
    for mut options in schedules() {
        for copies in [Copies::Early, Copies::Late] {
            options.copies = copies;
            options.step_limit = 100_000;
            let report = run(program, &args(), &options).expect("arguments fit");
            let all = report.render(program);
            assert!(all.contains(text), "seed {} {copies:?}:\n{all}", options.seed);
        }
    }
}

fn halves(count: i64, f: impl Fn(usize) -> f32) -> Argument {
    let bits = |i: usize| (numeric::encode(Dtype::F16, f(i)) as u16).to_le_bytes();
    tensor(Dtype::F16, &[count], &(0..count as usize).flat_map(bits).collect::<Vec<_>>())
}

/// A warp's product of `a[16, 16]` and `b[16, 8]`, through shared memory and `ldmatrix`.
fn warp_product() -> Program {
    let mut b = Build::threads(32);
    let (ta, tb) = (b.tensor("a", Dtype::F16, 1, false), b.tensor("b", Dtype::F16, 1, false));
    let y = b.tensor("y", Dtype::F32, 1, true);
    let (a_s, b_s) = (b.shared("a_s", Dtype::F16, 256), b.shared("b_s", Dtype::F16, 128));
    let (a, right, acc) = (b.local("af", Dtype::U32, 4), b.local("bf", Dtype::U32, 2), b.local("acc", Dtype::F32, 4));
    for (from, to, each) in [(ta, a_s, 8), (tb, b_s, 4)] {
        for i in 0..each {
            let (tx, threads, i) = (b.tx(), b.int(32), b.int(i));
            let row = b.mul(i, threads);
            let offset = b.add(row, tx);
            let value = b.load(from, offset);
            b.store(to, offset, value);
        }
    }
    for i in 0..4 {
        let (i, zero) = (b.int(i), b.float(0.0));
        b.store(Space::Local(acc), i, zero);
    }
    b.barrier();
    let (lane, sixteen, eight, zero) = (b.special(Special::Lane), b.int(16), b.int(8), b.int(0));
    let (row, half) = (b.rem(lane, sixteen), b.div(lane, sixteen));
    let (row, half) = (b.mul(row, sixteen), b.mul(half, eight));
    let offset = b.add(row, half);
    let memory = b.at(a_s, offset);
    b.op(OpKind::LoadMatrix { local: a, start: zero, memory, count: 4, transposed: false });
    // b is stored [16, 8]: its rows are k, so the fragments are those of the transpose.
    let row = b.rem(lane, sixteen);
    let offset = b.mul(row, eight);
    let memory = b.at(b_s, offset);
    b.op(OpKind::LoadMatrix { local: right, start: zero, memory, count: 2, transposed: true });
    let atom = MmaAtom::M16n8k16 { dtype: Dtype::F16 };
    b.op(OpKind::Mma { atom, acc: (acc, zero), a: (a, zero), b: (right, zero) });
    let (four, two) = (b.int(4), b.int(2));
    for i in 0..4i64 {
        let (group, thread) = (b.div(lane, four), b.rem(lane, four));
        let (down, across) = (b.int(8 * (i / 2)), b.int(i % 2));
        let row = b.add(group, down);
        let column = b.mul(thread, two);
        let column = b.add(column, across);
        let row = b.mul(row, eight);
        let (offset, i) = (b.add(row, column), b.int(i));
        let value = b.load(Space::Local(acc), i);
        b.store(y, offset, value);
    }
    b.finish()
}

#[test]
fn a_product_of_a_warp_through_matrices_of_shared_memory() {
    let (left, right) = (|i: usize| (i % 7) as f32 - 3.0, |i: usize| (i % 5) as f32 - 2.0);
    let args = || vec![halves(256, left), halves(128, right), floats(&[128], |_| f32::NAN)];
    let (report, results) = clean(&warp_product(), &args);
    assert_eq!(report.counters.products, 1);
    for (i, found) in read(&results[2]).into_iter().enumerate() {
        let expected: f32 = (0..16).map(|k| left(i / 8 * 16 + k) * right(k * 8 + i % 8)).sum();
        assert_eq!(found, expected, "element {i}");
    }
}

#[test]
fn packing_rounds_and_unpacking_gives_back() {
    let mut b = Build::threads(32);
    let y = b.tensor("y", Dtype::F32, 1, true);
    let (low, high) = (b.float(f64::from(0.1f32)), b.float(-3.0));
    for (at, dtype) in [(0, Dtype::F16), (2, Dtype::Bf16)] {
        let word = b.value(ValueKind::Pack(dtype, low, high), U32);
        for (half, which) in [(0, false), (1, true)] {
            let value = b.value(ValueKind::Unpack(dtype, word, which), F32);
            let (first, elected) = (b.int(at + half), b.special(Special::Elected));
            b.if_(elected, |b| b.store(y, first, value));
        }
    }
    let (_, results) = clean(&b.finish(), &|| vec![floats(&[4], |_| 0.0)]);
    let rounded = |dtype| numeric::round(dtype, 0.1);
    assert_eq!(read(&results[0]), [rounded(Dtype::F16), -3.0, rounded(Dtype::Bf16), -3.0]);
}

/// One warp copies 64 elements through shared memory by TMA.
fn copied(wait: bool, bytes: i64, init: bool) -> Program {
    copied_and(wait, bytes, init, true)
}

/// One warp copies 64 elements into shared memory by TMA, and from there where `reads`.
fn copied_and(wait: bool, bytes: i64, init: bool, reads: bool) -> Program {
    let mut b = Build::threads(64);
    let x = b.tensor("x", Dtype::F32, 1, false);
    let y = b.tensor("y", Dtype::F32, 1, true);
    let tile = b.swizzled("tile", Dtype::F32, 64);
    let full = b.barriers("full", 1);
    let (zero, tx) = (b.int(0), b.tx());
    let first = b.equal(tx, zero);
    let barrier = b.barrier_at(full, 0);
    b.if_(first, |b| {
        if init {
            b.op(OpKind::BarrierInit { barrier, arrivals: 1 });
        }
        b.op(OpKind::FenceBarrierInit);
    });
    b.barrier();
    b.if_(first, |b| {
        let bytes = b.int(bytes);
        b.op(OpKind::BarrierExpect { barrier, bytes });
        let (memory, bytes) = (b.at(x, zero), b.int(256));
        b.op(OpKind::BulkLoad { memory, shared: tile, offset: zero, bytes, barrier, evict: None });
    });
    if wait {
        b.op(OpKind::BarrierWait { barrier, parity: zero });
    }
    let value = if reads { b.load(Space::Shared(tile), tx) } else { b.float(0.0) };
    b.store(y, tx, value);
    b.finish()
}

fn copy_arguments() -> Vec<Argument> {
    vec![floats(&[64], |i| i as f32), floats(&[64], |_| 0.0)]
}

#[test]
fn bytes_arrive_on_a_barrier() {
    let (report, results) = clean(&copied(true, 256, true), &copy_arguments);
    assert_eq!(report.counters.phases, 1);
    assert_eq!(read(&results[1]), (0..64).map(|i| i as f32).collect::<Vec<_>>());
    names(&copied(true, 272, true), &copy_arguments, "lacks 0 of 1 arrivals and 16 bytes");
    names(&copied(true, 240, true), &copy_arguments, "-16 bytes");
    names(&copied(false, 256, true), &copy_arguments, "shared `tile` is");
    names(&copied(true, 256, false), &copy_arguments, "is used before it is initialised");
}

/// Nobody reads what a copy brings. Its block has to wait for it all the same: the copy may happen to arrive before the block ends, or not.
#[test]
fn a_block_ends_after_every_copy_into_it() {
    clean(&copied_and(true, 256, true, false), &copy_arguments);
    let text = "a block may end while a copy into its shared memory is in flight";
    names(&copied_and(false, 256, true, false), &copy_arguments, text);
}

/// Two warps meet at a named barrier of `threads` threads, between a write and a read of shared memory.
fn meet(ids: [u32; 2], threads: [u32; 2], arrive: bool) -> Program {
    let mut b = Build::threads(64);
    let y = b.tensor("y", Dtype::F32, 1, true);
    let tile = b.shared("tile", Dtype::F32, 32);
    let (warp, zero, lane) = (b.special(Special::Warp), b.int(0), b.special(Special::Lane));
    let first = b.equal(warp, zero);
    b.if_else(
        first,
        |b| {
            let value = b.cast(lane, F32);
            b.store(tile, lane, value);
            b.op(OpKind::NamedBarrier { id: ids[0], threads: threads[0], arrive });
        },
        |b| {
            b.op(OpKind::NamedBarrier { id: ids[1], threads: threads[1], arrive: false });
            let value = b.load(tile, lane);
            b.store(y, lane, value);
        },
    );
    b.finish()
}

#[test]
fn named_barriers_order_those_who_meet() {
    let args = || vec![floats(&[32], |_| 0.0)];
    for arrive in [false, true] {
        let (_, results) = clean(&meet([1, 1], [64, 64], arrive), &args);
        assert_eq!(read(&results[0])[31], 31.0);
    }
    names(&meet([1, 2], [64, 64], true), &args, "waits at barrier 2, where 32 of 64 threads are");
    names(&meet([1, 1], [64, 96], false), &args, "do not agree");
}

#[test]
fn a_named_barrier_that_two_groups_use() {
    let mut b = Build::threads(128);
    let (warp, two) = (b.special(Special::Warp), b.int(2));
    let group = b.less(warp, two);
    let barrier = |b: &mut Build| b.op(OpKind::NamedBarrier { id: 3, threads: 64, arrive: false });
    b.if_else(group, barrier, barrier);
    names(&b.finish(), &Vec::new, "do not agree");
}

#[test]
fn blocks_of_a_cluster_meet_and_arrive_at_each_other() {
    let program = |barrier: bool, tail: bool| {
        let mut b = Build::threads(32).blocks(4);
        b.program.launch.cluster = [2, 1, 1];
        let y = b.tensor("y", Dtype::I32, 1, true);
        let gate = b.barriers("gate", 1);
        let at = b.barrier_at(gate, 0);
        let elected = b.special(Special::Elected);
        b.if_(elected, |b| {
            b.op(OpKind::BarrierInit { barrier: at, arrivals: 1 });
            b.op(OpKind::FenceBarrierInit);
        });
        if barrier {
            b.op(OpKind::ClusterBarrier { relaxed: true });
        }
        let (rank, one, zero) = (b.special(Special::ClusterRank), b.int(1), b.int(0));
        let other = b.sub(one, rank);
        let elected = b.special(Special::Elected);
        b.if_(elected, |b| b.op(OpKind::BarrierArrive { barrier: at, cta: Some(other) }));
        if tail {
            b.op(OpKind::BarrierWait { barrier: at, parity: zero });
        }
        let (block, grid) = (b.bx(), b.special(Special::Grid(0)));
        let elected = b.special(Special::Elected);
        b.if_(elected, |b| {
            let (ten, number) = (b.int(10), b.mul(block, grid));
            let number = b.mul(number, ten);
            let number = b.add(number, rank);
            let value = b.cast(number, ValueType::Element(Dtype::I32));
            b.store(y, block, value);
        });
        b.finish()
    };
    let args = || vec![ints(&[4], |_| 0)];
    let (_, results) = clean(&program(true, true), &args);
    let expected: Vec<u8> = [0i32, 41, 80, 121].iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!(bytes(&results[0]), expected);
    names(&program(true, false), &args, "a block may end before another block of its cluster arrives");
}

#[test]
fn programs_that_no_hardware_has_are_refused() {
    let refused = |build: &dyn Fn(&mut Build)| {
        let mut b = Build::threads(128);
        build(&mut b);
        run(&b.finish(), &[], &super::CheckedOptions::default()).is_err()
    };
    assert!(refused(&|b| b.op(OpKind::NamedBarrier { id: 16, threads: 128, arrive: false })));
    assert!(refused(&|b| b.op(OpKind::NamedBarrier { id: 1, threads: 100, arrive: false })));
    assert!(refused(&|b| b.op(OpKind::SetRegisters { count: 40, increase: false })));
    assert!(refused(&|b| b.program.launch.cluster = [3, 1, 1]));
    assert!(refused(&|b| b.program.launch.cluster = [2, 1, 1]));
    assert!(refused(&|b| {
        let acc = b.local("acc", Dtype::F32, 64);
        let (zero, flag) = (b.int(0), b.bool(false));
        let a = b.value(ValueKind::Int(0), ValueType::Wide);
        let (n, dtype, transposed) = (12, Dtype::F16, [false, false]);
        let a_operand = WgmmaOperand::Descriptor(a);
        b.op(OpKind::Wgmma { acc, start: zero, n, rows: 64, dtype, a: a_operand, b: a, accumulate: flag, transposed });
    }));
}
