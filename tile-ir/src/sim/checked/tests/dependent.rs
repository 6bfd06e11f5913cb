//! Kernels that may start before the previous one is done.

use super::build::{Build, floats};
use super::{clean, finds};
use crate::ir::{Dtype, Trigger};
use crate::lowered::{OpKind, Program, Space};
use crate::sim::Argument;
use expect_test::expect;

/// A program over `w`, which is independent, `x` and `y`.
fn program(build: impl FnOnce(&mut Build, [Space; 3])) -> Program {
    let mut b = Build::threads(32);
    let places =
        [("w", false), ("x", false), ("y", true)].map(|(name, mutable)| b.tensor(name, Dtype::F32, 1, mutable));
    b.program.launch.dependent = Some(Trigger::AfterWait);
    b.program.tensors[0].independent = true;
    build(&mut b, places);
    b.finish()
}

fn args() -> Vec<Argument> {
    (0..3).map(|_| floats(&[32], |i| i as f32)).collect()
}

#[test]
fn an_access_before_the_wait() {
    let early = |wait_first: bool| {
        program(|b, [w, x, y]| {
            let tx = b.tx();
            let weight = b.load(w, tx);
            b.let_("weight", weight);
            if wait_first {
                b.op(OpKind::Wait);
            }
            let value = b.load(x, tx);
            b.store(y, tx, value);
            if !wait_first {
                b.op(OpKind::Wait);
            }
        })
    };
    clean(&early(true), &args);
    finds(
        &early(false),
        &args,
        &[405],
        expect![[r#"
        TK0405 line 2: data race with the previous kernel on `x` | thread 0 reads it before it has waited for the previous kernel | in block 0, barrier interval 0; replay with seed 0 | seen 64 times in this run | help: wait first; only tensors that are `independent` may be read before, and `x` is not
    "#]],
    );
}

#[test]
fn an_asynchronous_copy_before_the_wait() {
    let copied = |which: usize| {
        program(|b, places| {
            let shared = b.shared("s", Dtype::F32, 32);
            let tx = b.tx();
            let (from, to) = (b.at(places[which], tx), b.at(shared, tx));
            b.op(OpKind::AsyncCopy { to, from, width: 1 });
            b.op(OpKind::AsyncCommit);
            b.op(OpKind::Wait);
            b.op(OpKind::AsyncWait { pending: 0 });
            let value = b.load(shared, tx);
            b.store(places[2], tx, value);
        })
    };
    clean(&copied(0), &args);
    finds(
        &copied(1),
        &args,
        &[405],
        expect![[r#"
        TK0405 line 2: data race with the previous kernel on `x` | thread 0 reads it before it has waited for the previous kernel | in block 0, barrier interval 0; replay with seed 0 | seen 32 times in this run | help: wait first; only tensors that are `independent` may be read before, and `x` is not
    "#]],
    );
}

#[test]
fn dependents_before_the_wait_and_a_path_without_one() {
    let order = |first: OpKind, second: OpKind| program(|b, _| [first, second].into_iter().for_each(|op| b.op(op)));
    clean(&order(OpKind::Wait, OpKind::LaunchDependents), &args);
    finds(
        &order(OpKind::LaunchDependents, OpKind::Wait),
        &args,
        &[405],
        expect![[r#"
        TK0405 line 1: the next kernel may run beside the kernel before this one | thread 0 lets the next kernel start before it has waited for the previous one | in block 0, barrier interval 0; replay with seed 0 | help: wait for the previous kernel on every path, before dependents are launched
    "#]],
    );
    let some = |n: i64| {
        program(|b, _| {
            let (tx, n) = (b.tx(), b.int(n));
            let cond = b.less(tx, n);
            b.if_(cond, |b| b.op(OpKind::Wait));
        })
    };
    clean(&some(32), &args);
    finds(
        &some(31),
        &args,
        &[405],
        expect![[r#"
        TK0405 line 1: the next kernel may run beside the kernel before this one | thread 31 ends without having waited for the previous kernel | in block 0, barrier interval 0; replay with seed 0 | help: wait for the previous kernel on every path, before dependents are launched
    "#]],
    );
}
