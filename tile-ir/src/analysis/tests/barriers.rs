//! Barriers and collectives of the author: every thread reaches them.

use super::*;

#[test]
fn barriers_under_conditions() {
    let kernel = |cond: fn(&mut Build, VarId, VarId) -> E| {
        let mut b = Build::new();
        let n = b.dim("N");
        let bx = b.blocks("bx", n);
        let t = b.threads("t", 128);
        let cond = cond(&mut b, t, bx);
        b.if_(cond, |b| {
            b.sync();
        });
        b
    };
    clean(kernel(|b, _, bx| {
        let (x, c) = (b.var(bx), b.int(4));
        b.lt(x, c)
    }));
    // The same for all, though it mentions the thread.
    clean(kernel(|b, t, _| {
        let (x, c) = (b.var(t), b.int(128));
        b.lt(x, c)
    }));
    fails(
        kernel(|b, t, _| {
            let (x, c) = (b.var(t), b.int(48));
            b.lt(x, c)
        }),
        expect![[r#"
            [TK0402] barrier not reached by every thread
              at: 48 of 128 threads arrive
              label: threads may disagree on this condition
              help: move it out of the `if`, so that all threads reach it
        "#]],
    );
}

#[test]
fn warp_collectives_need_whole_warps() {
    let kernel = |limit: i64| {
        let mut b = Build::new();
        let t = b.threads("t", 128);
        let (x, c) = (b.var(t), b.int(limit));
        let cond = b.lt(x, c);
        b.if_(cond, |b| {
            let pred = b.expr(ExprKind::Bool(true), Type::BOOL);
            let dst = b.new_var("any", Type::BOOL, VarKind::Let);
            b.stmt(StmtKind::Vote { kind: VoteKind::Any, pred, dst });
        });
        b
    };
    clean(kernel(64));
    fails(
        kernel(48),
        expect![[r#"
            [TK0402] vote not reached by every thread of the warp
              at: 16 of 32 threads of warp 1 arrive
              label: threads may disagree on this condition
              help: move it out of the `if`, so that all threads reach it
        "#]],
    );
}

#[test]
fn loops_with_barriers_need_a_shared_trip_count() {
    let kernel = |by_thread: bool| {
        let mut b = Build::new();
        let n = b.dim("N");
        let t = b.threads("t", 32);
        let end = if by_thread { b.var(t) } else { n };
        b.serial("k", end, |b, _| {
            b.sync();
        });
        b
    };
    clean(kernel(false));
    fails(
        kernel(true),
        expect![[r#"
            [TK0402] barrier not reached by every thread
              at: how many threads arrive is not known here
              label: threads may disagree on the number of iterations
              help: give every thread the same number of iterations, and guard the work inside with an `if`
        "#]],
    );
}
