//! Races between threads and between blocks.

use super::*;

/// `s[t] = 0; [sync]; read s[(t + shift)]`.
fn exchange(sync: bool, shift: i64) -> Build {
    let mut b = Build::new();
    let t = b.threads("t", 128);
    let s = b.shared("s", Dtype::F32, &[256]);
    let (at, zero) = (b.var(t), b.float(0.0));
    b.store(s, &[at], zero);
    if sync {
        b.sync();
    }
    let at = b.affine(1, t, shift);
    let value = b.load(s, &[at]);
    b.let_("value", value);
    b
}

#[test]
fn races_between_neighbours() {
    clean(exchange(true, 1));
    clean(exchange(false, 0));
    clean(exchange(false, 128));
    fails(
        exchange(false, 1),
        expect![[r#"
            [TK0401] data race on shared `s`
              at: thread 1 writes s[1] (line 2), thread 0 reads s[1] (line 3), no barrier between
              label: thread 1 writes it here
              help: insert `sync_threads();` before line 3
        "#]],
    );
}

#[test]
fn races_of_one_store() {
    let kernel = |guard: bool| {
        let mut b = Build::new();
        let tk = b.threads("tk", 32);
        let tn = b.threads("tn", 4);
        let s = b.shared("s", Dtype::F32, &[4]);
        let store = |b: &mut Build| {
            let (at, zero) = (b.var(tn), b.float(0.0));
            b.store(s, &[at], zero);
        };
        if guard {
            let (t, zero) = (b.var(tk), b.int(0));
            let cond = b.bin(BinaryOp::Eq, t, zero);
            b.if_(cond, store);
        } else {
            store(&mut b);
        }
        b
    };
    clean(kernel(true));
    fails(
        kernel(false),
        expect![[r#"
            [TK0401] data race on shared `s`
              at: threads 0 and 1 both write s[0]
              note: writes of the same value by several threads are a race too
              help: let one thread write it: put `if tk == 0 { .. }` around line 2
        "#]],
    );
}

#[test]
fn races_round_a_loop() {
    let kernel = |sync: bool| {
        let mut b = Build::new();
        let n = b.dim("N");
        let t = b.threads("t", 128);
        let s = b.shared("s", Dtype::F32, &[128]);
        b.serial("k", n, |b, _| {
            let (at, zero) = (b.var(t), b.float(0.0));
            b.store(s, &[at], zero);
            b.sync();
            let (last, t_) = (b.int(127), b.var(t));
            let at = b.bin(BinaryOp::Sub, last, t_);
            let value = b.load(s, &[at]);
            b.let_("value", value);
            if sync {
                b.sync();
            }
        });
        b
    };
    clean(kernel(true));
    fails(
        kernel(false),
        expect![[r#"
            [TK0401] data race on shared `s`
              at: thread 127 reads s[0] (line 5), thread 0 writes s[0] (line 3), no barrier between
              label: thread 127 reads it here
              note: the second access is in a later iteration of the loop
              help: insert `sync_threads();` at the end of the loop of line 2
        "#]],
    );
}

#[test]
fn a_tree_reduction_needs_a_barrier_a_level() {
    let kernel = |sync: bool| {
        let mut b = Build::new();
        let t = b.threads("t", 128);
        let s = b.shared("s", Dtype::F32, &[128]);
        let (zero, end) = (b.int(0), b.int(7));
        b.for_("level", zero, end, LoopKind::Unroll, |b, level| {
            let (c, level_) = (b.int(64), b.var(level));
            let half = b.bin(BinaryOp::Shr, c, level_);
            let half = b.let_("half", half);
            let (t_, h) = (b.var(t), b.var(half));
            let cond = b.lt(t_, h);
            b.if_(cond, |b| {
                let (t1, t2, h, t3) = (b.var(t), b.var(t), b.var(half), b.var(t));
                let other = b.add(t2, h);
                let (x, y) = (b.load(s, &[t1]), b.load(s, &[other]));
                let sum = b.add(x, y);
                b.store(s, &[t3], sum);
            });
            if sync {
                b.sync();
            }
        });
        b
    };
    clean(kernel(true));
    fails(
        kernel(false),
        expect![[r#"
            [TK0401] data race on shared `s`
              at: thread 32 writes s[32] (line 5), thread 0 reads s[32] (line 5), no barrier between
              label: thread 32 writes it here
              note: the second access is in a later iteration of the loop
              help: insert `sync_threads();` at the end of the loop of line 2
        "#]],
    );
}

#[test]
fn sync_warp_orders_a_warp_only() {
    let kernel = |shift: i64| {
        let mut b = Build::new();
        let t = b.threads("t", 128);
        let s = b.shared("s", Dtype::F32, &[128]);
        let (at, zero) = (b.var(t), b.float(0.0));
        b.store(s, &[at], zero);
        b.stmt(StmtKind::SyncWarp);
        let (t_, mask) = (b.var(t), b.int(shift));
        let at = b.bin(BinaryOp::BitXor, t_, mask);
        let value = b.load(s, &[at]);
        b.let_("value", value);
        b
    };
    clean(kernel(16));
    assert_eq!(run(kernel(32)).diagnostics.len(), 1);
}

#[test]
fn races_in_global_memory() {
    let kernel = |block: bool, thread: bool| {
        let mut b = Build::new();
        let y = b.tensor("y", Dtype::F32, &["N"], true);
        let n = b.dim("N");
        let bx = b.blocks("bx", n);
        let t = b.threads("t", 32);
        let mut cond = b.expr(ExprKind::Bool(true), Type::BOOL);
        if thread {
            let (t, zero) = (b.var(t), b.int(0));
            cond = b.bin(BinaryOp::Eq, t, zero);
        }
        b.if_(cond, |b| {
            let at = if block { b.var(bx) } else { b.int(0) };
            let zero = b.float(0.0);
            b.store(y, &[at], zero);
        });
        b
    };
    clean(kernel(true, true));
    fails(
        kernel(true, false),
        expect![[r#"
            [TK0401] data race on global `y`
              at: threads 0 and 1 both write y[0]
              note: writes of the same value by several threads are a race too
              help: let one thread write it: put `if t == 0 { .. }` around line 2
        "#]],
    );
    fails(
        kernel(false, true),
        expect![[r#"
            [TK0405] blocks race on `y`: every block along `bx` stores the same elements
              at: neither the index nor a condition around it depends on `bx`
              help: index `y` by `bx`, guard the store with `if bx == 0`, or use an atomic
        "#]],
    );
}
