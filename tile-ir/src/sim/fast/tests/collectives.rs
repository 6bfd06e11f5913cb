use super::*;
use crate::ir::*;
use crate::testing::{Builder, kernel};

/// One block of these threads; `value(b, linear)` is what thread `linear` stores to `y`.
fn block<const N: usize>(
    axes: [(&str, i64); N],
    dtype: Dtype,
    value: impl FnOnce(&mut Builder, &[ExprId; N], ExprId) -> ExprId,
) -> Vec<f64> {
    let total: i64 = axes.iter().map(|(_, n)| n).product();
    let built = kernel("k", |b| {
        let n = b.dim("N");
        let y = b.tensor_mut("y", dtype, &[n]);
        let one = b.int(1);
        b.blocks([("bx", one)]);
        let threads = b.threads(axes);
        let mut linear = threads[N - 1];
        for axis in (0..N - 1).rev() {
            linear = b.scaled(linear, axes[axis].1, threads[axis]);
        }
        let value = value(b, &threads, linear);
        b.store(y, &[linear], value);
    });
    let args = [zeros(dtype, &[total])];
    ok(&built, &args);
    values(&args[0])
}

#[test]
fn a_float_sum_has_the_defined_order() {
    // Values for which the order of additions shows.
    let term = |i: usize| (1.0 + i as f32 * 0.37).powi(7);
    let terms: Vec<f32> = (0..64).map(term).collect();
    let source: Vec<f64> = terms.iter().map(|t| f64::from(*t)).collect();
    for (extent, total) in [(64i64, 64usize), (48, 48), (16, 16)] {
        let built = kernel("sum", |b| {
            let n = b.dim("N");
            let x = b.tensor("x", Dtype::F32, &[n]);
            let y = b.tensor_mut("y", Dtype::F32, &[n]);
            let one = b.int(1);
            b.blocks([("bx", one)]);
            let [tx] = b.threads([("tx", extent)]);
            let value = b.load(x, &[tx]);
            let sum = b.reduce("sum", ReduceOp::Sum, value, Some(tx));
            b.store(y, &[tx], sum);
        });
        let args = [tensor(Dtype::F32, &[extent], &source[..total]), zeros(Dtype::F32, &[extent])];
        ok(&built, &args);
        let butterfly = |values: &[f32]| {
            let mut v = values.to_vec();
            let mut mask = v.len() / 2;
            while mask > 0 {
                v = (0..v.len()).map(|i| v[i] + v[i ^ mask]).collect();
                mask /= 2;
            }
            v[0]
        };
        let expected = match extent {
            64 => butterfly(&terms[..32]) + butterfly(&terms[32..]),
            48 => terms[1..48].iter().fold(terms[0], |a, b| a + b),
            _ => butterfly(&terms[..16]),
        };
        assert_eq!(values(&args[1]), vec![f64::from(expected); total], "{extent} threads");
    }
}

#[test]
fn a_reduction_joins_threads_that_differ_on_one_axis() {
    let linear = |b: &mut Builder, linear: ExprId| b.cast(Dtype::I32, linear);
    let over_x = block([("tx", 4), ("ty", 3)], Dtype::I32, |b, [tx, _], l| {
        let value = linear(b, l);
        b.reduce("r", ReduceOp::Max, value, Some(*tx))
    });
    assert_eq!(over_x, [3.0, 3.0, 3.0, 3.0, 7.0, 7.0, 7.0, 7.0, 11.0, 11.0, 11.0, 11.0]);
    let over_y = block([("tx", 4), ("ty", 3)], Dtype::I32, |b, [_, ty], l| {
        let value = linear(b, l);
        b.reduce("r", ReduceOp::Sum, value, Some(*ty))
    });
    assert_eq!(over_y[..4], [12.0, 15.0, 18.0, 21.0]);
    assert_eq!(over_y[8..], [12.0, 15.0, 18.0, 21.0]);
}

#[test]
fn a_local_array_is_reduced_element_by_element() {
    let result = block([("tx", 8)], Dtype::F16, |b, [tx], _| {
        let h = b.buffer("h", Scope::Local, Dtype::F16, &[2]);
        let (zero, one) = (b.int(0), b.int(1));
        let value = b.cast(Dtype::F16, *tx);
        b.store(h, &[zero], value);
        let double = b.add(value, value);
        b.store(h, &[one], double);
        let Place::Buffer(buffer) = h else { unreachable!() };
        let axis = Some(b.var_of(*tx));
        b.stmt(StmtKind::Reduce { op: ReduceOp::Sum, src: ReduceSource::Local(buffer), dst: None, axis });
        let (first, second) = (b.load(h, &[zero]), b.load(h, &[one]));
        b.binary(BinaryOp::Sub, second, first)
    });
    assert_eq!(result, [28.0; 8]);
}

#[test]
fn reducing_a_variable_leaves_it_alone() {
    let result = block([("tx", 4)], Dtype::I32, |b, [tx], _| {
        let own = b.cast(Dtype::I32, *tx);
        let own = b.bind("own", own);
        let sum = b.reduce("sum", ReduceOp::Sum, own, Some(*tx));
        b.scaled_of(sum, own)
    });
    assert_eq!(result, [60.0, 61.0, 62.0, 63.0]);
}

impl Builder {
    /// `sum * 10 + own` of i32 values.
    fn scaled_of(&mut self, sum: ExprId, own: ExprId) -> ExprId {
        let ten = self.int_of(Dtype::I32, 10);
        let scaled = self.mul(sum, ten);
        self.add(scaled, own)
    }
}

#[test]
fn warps_reduce_shuffle_and_vote() {
    let shuffled = |kind, lane: i64| {
        block([("tx", 40)], Dtype::U32, |b, _, linear| {
            let value = b.cast(Dtype::U32, linear);
            let (dst, result) = b.result("r", Dtype::U32);
            let lane = b.int_of(Dtype::U32, lane);
            b.stmt(StmtKind::Shuffle { kind, value, lane, dst });
            result
        })
    };
    let xor = shuffled(ShuffleKind::Xor, 5);
    assert_eq!(xor[..4], [5.0, 4.0, 7.0, 6.0]);
    assert_eq!(xor[32..36], [37.0, 36.0, 39.0, 38.0]);
    let down = shuffled(ShuffleKind::Down, 3);
    assert_eq!((down[0], down[28], down[29], down[32], down[37]), (3.0, 31.0, 29.0, 35.0, 37.0));
    let sum = block([("tx", 64)], Dtype::I32, |b, _, linear| {
        let value = b.cast(Dtype::I32, linear);
        b.reduce("r", ReduceOp::Sum, value, None)
    });
    assert_eq!((sum[0], sum[63]), (496.0, 1520.0));
    let vote = |kind, dtype, limit: i64| {
        block([("tx", 64)], dtype, |b, _, linear| {
            let limit = b.int(limit);
            let pred = b.lt(linear, limit);
            let (dst, result) = b.result("r", dtype);
            b.stmt(StmtKind::Vote { kind, pred, dst });
            result
        })
    };
    assert_eq!(vote(VoteKind::Ballot, Dtype::U32, 34)[31..33], [f64::from(u32::MAX), 3.0]);
    assert_eq!(vote(VoteKind::Any, Dtype::Bool, 34)[31..33], [1.0, 1.0]);
    assert_eq!(vote(VoteKind::All, Dtype::Bool, 34)[31..33], [1.0, 0.0]);
}

#[test]
fn atomics_return_the_old_value() {
    for (op, expected) in [(AtomicOp::Add, 1.0 + 28.0), (AtomicOp::Max, 7.0), (AtomicOp::Min, 0.0)] {
        for shared in [false, true] {
            let built = kernel("atomic", |b| {
                let n = b.dim("N");
                let total = b.tensor_mut("total", Dtype::I32, &[n]);
                let old = b.tensor_mut("old", Dtype::I32, &[n]);
                let one = b.int(1);
                b.blocks([("bx", one)]);
                let [tx] = b.threads([("tx", 8)]);
                let s = b.buffer("s", Scope::Shared, Dtype::I32, &[1]);
                let (zero, start) = (b.int(0), b.int_of(Dtype::I32, 1));
                let place = if shared { s } else { total };
                b.store(place, &[zero], start);
                b.stmt(StmtKind::SyncThreads);
                let value = b.cast(Dtype::I32, tx);
                let access = b.access(place, &[zero], false);
                let (dst, before) = b.result("before", Dtype::I32);
                b.stmt(StmtKind::Atomic { op, access, value, dst: Some(dst) });
                b.store(old, &[tx], before);
                b.stmt(StmtKind::SyncThreads);
                let value = b.load(place, &[zero]);
                b.store(total, &[tx], value);
            });
            let args = [zeros(Dtype::I32, &[8]), zeros(Dtype::I32, &[8])];
            ok(&built, &args);
            assert_eq!(values(&args[0]), [expected; 8]);
            if op == AtomicOp::Add {
                assert_eq!(values(&args[1]), [1.0, 1.0, 2.0, 4.0, 7.0, 11.0, 16.0, 22.0]);
            }
        }
    }
}

#[test]
fn blocks_add_to_one_element() {
    let built = kernel("count", |b| {
        let n = b.dim("N");
        let blocks = b.scalar("blocks", Type::Index);
        let total = b.tensor_mut("total", Dtype::F32, &[n]);
        b.blocks([("bx", blocks)]);
        b.threads([("tx", 32)]);
        let (zero, one) = (b.int(0), b.float(Dtype::F32, 1.0));
        let access = b.access(total, &[zero], false);
        b.stmt(StmtKind::Atomic { op: AtomicOp::Add, access, value: one, dst: None });
    });
    let args = [index(1000), zeros(Dtype::F32, &[1])];
    ok(&built, &args);
    assert_eq!(values(&args[1]), [32_000.0]);
}
