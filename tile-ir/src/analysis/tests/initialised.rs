//! Elements that are read before anything was written to them.

use super::*;

fn said(build: Build) -> String {
    let analysis = analyse(&build.done(), Target::Sm90a);
    report(&analysis.diagnostics)
}

fn silent(build: Build) {
    assert_eq!(said(build), "");
}

fn reported(build: Build, expected: Expect) {
    expected.assert_eq(&said(build));
}

/// A shared array of 128 elements that `fill` writes some of; then all threads read `s[127 - t]`.
fn reversed(fill: impl FnOnce(&mut Build, VarId, Place)) -> Build {
    let mut b = Build::new();
    let t = b.threads("t", 128);
    let s = b.shared("s", Dtype::F32, &[128]);
    fill(&mut b, t, s);
    b.sync();
    let at = b.affine(-1, t, 127);
    let value = b.load(s, &[at]);
    b.let_("value", value);
    b
}

fn store(b: &mut Build, s: Place, at: E) {
    let zero = b.float(0.0);
    b.store(s, &[at], zero);
}

#[test]
fn every_element_is_written_before_it_is_read() {
    silent(reversed(|b, t, s| {
        let at = b.var(t);
        store(b, s, at);
    }));
    reported(
        reversed(|_, _, _| {}),
        expect![[r#"
            [TK0304] `s` is read before anything is written to it
              at: nothing writes `s`
              label: what it holds is not defined
              help: put `clear(&mut s);` before it
        "#]],
    );
}

#[test]
fn a_condition_on_threads_leaves_elements_out() {
    let half = |b: &mut Build, t: VarId, s: Place, below: E| {
        let thread = b.var(t);
        let cond = b.lt(thread, below);
        b.if_(cond, |b| {
            let at = b.var(t);
            store(b, s, at);
        });
    };
    reported(
        reversed(|b, t, s| {
            let below = b.int(64);
            half(b, t, s, below);
        }),
        expect![[r#"
            [TK0304] s[127] is read before it is written
              at: thread 0 reads it here, and no thread writes it before
              label: what it holds is not defined
              help: write every element of `s` that is read, or put `clear(&mut s);` before the first write
        "#]],
    );
    silent(reversed(|b, t, s| {
        let below = b.int(128);
        half(b, t, s, below);
    }));
    // Some launches write all of it, and so may this one.
    silent(reversed(|b, t, s| {
        let below = b.dim("N");
        half(b, t, s, below);
    }));
    let other = |b: &mut Build, t: VarId, s: Place, first: i64| {
        let below = b.int(64);
        half(b, t, s, below);
        let (thread, from) = (b.var(t), b.int(first));
        let cond = b.bin(BinaryOp::Ge, thread, from);
        b.if_(cond, |b| {
            let at = b.var(t);
            store(b, s, at);
        });
    };
    silent(reversed(|b, t, s| other(b, t, s, 64)));
    reported(
        reversed(|b, t, s| other(b, t, s, 65)),
        expect![[r#"
            [TK0304] s[64] is read before it is written
              at: thread 63 reads it here, and no thread writes it before
              label: what it holds is not defined
              help: write every element of `s` that is read, or put `clear(&mut s);` before the first write
        "#]],
    );
}

#[test]
fn elements_that_come_from_memory_may_be_any() {
    silent(reversed(|b, t, s| {
        let x = b.tensor("x", Dtype::I32, &["N"], false);
        let at = b.var(t);
        let loaded = b.masked(x, &[at]);
        let at = b.expr(ExprKind::Cast(Type::Index, loaded), Type::Index);
        store(b, s, at);
    }));
}

#[test]
fn loops_write_what_their_iterations_do() {
    let filled = |trips: i64, step: i64| {
        reversed(move |b, t, s| {
            let end = b.int(trips);
            b.serial("i", end, |b, i| {
                let (start, thread) = (b.affine(step, i, 0), b.var(t));
                let at = b.add(start, thread);
                let lanes = b.int(16);
                let thread = b.var(t);
                let cond = b.lt(thread, lanes);
                b.if_(cond, |b| store(b, s, at));
            });
        })
    };
    silent(filled(8, 16));
    assert!(said(filled(7, 16)).contains("s[127] is read"), "{}", said(filled(7, 16)));
    assert!(said(filled(8, 15)).contains("s[127] is read"), "{}", said(filled(8, 15)));
}

/// `acc[i] += 1` for 4 elements in a loop over K, each thread its own; cleared before, or not.
fn sums(cleared: bool, guard: bool) -> Build {
    let mut b = Build::new();
    b.threads("t", 32);
    let acc = b.local("acc", Dtype::F32, &[4]);
    if cleared {
        b.clear(acc);
    }
    let end = b.dim("K");
    b.serial("k", end, |b, k| {
        let (four, zero) = (b.int(4), b.int(0));
        let add = |b: &mut Build| {
            b.for_("i", zero, four, LoopKind::Serial { unroll: None }, |b, i| {
                let at = b.var(i);
                let (old, one) = (b.load(acc, &[at]), b.float(1.0));
                let sum = b.add(old, one);
                b.store(acc, &[at], sum);
            });
        };
        if guard {
            let (now, first) = (b.var(k), b.int(0));
            let cond = b.bin(BinaryOp::Eq, now, first);
            b.if_else(
                cond,
                |b| {
                    b.clear(acc);
                },
                add,
            );
        } else {
            add(b);
        }
    });
    b
}

#[test]
fn an_accumulator_begins_with_a_value() {
    silent(sums(true, false));
    silent(sums(false, true));
    reported(
        sums(false, false),
        expect![[r#"
            [TK0304] `acc` is read before anything is written to it
              at: nothing has given `acc` a value yet
              label: what it holds is not defined
              help: put `clear(&mut acc);` before the loop of line 2
        "#]],
    );
}

#[test]
fn an_atomic_reads_what_it_adds_to() {
    let counts = |cleared: bool| {
        let mut b = Build::new();
        let t = b.threads("t", 32);
        let x = b.tensor("x", Dtype::I32, &["N"], false);
        let counts = b.shared("counts", Dtype::I32, &[16]);
        if cleared {
            b.clear(counts);
        }
        let at = b.var(t);
        let loaded = b.masked(x, &[at]);
        let at = b.expr(ExprKind::Cast(Type::Index, loaded), Type::Index);
        let access = b.access(counts, &[at], false);
        let value = b.expr(ExprKind::Int(1), Type::Value(DtypeRef::Is(Dtype::I32)));
        b.stmt(StmtKind::Atomic { op: AtomicOp::Add, access, value, dst: None });
        b
    };
    silent(counts(true));
    assert!(said(counts(false)).contains("`counts` is read before anything is written"));
}

#[test]
fn a_value_of_the_last_iteration_is_there_from_the_second_on() {
    let carried = |guard: bool| {
        let mut b = Build::new();
        let t = b.threads("t", 32);
        let s = b.local("s", Dtype::F32, &[1]);
        let end = b.dim("K");
        b.serial("k", end, |b, k| {
            let _ = t;
            let zero = b.int(0);
            let read = |b: &mut Build| {
                let value = b.load(s, &[zero]);
                b.let_("value", value);
            };
            if guard {
                let (now, first) = (b.var(k), b.int(0));
                let cond = b.bin(BinaryOp::Gt, now, first);
                b.if_(cond, read);
            } else {
                read(b);
            }
            let at = b.int(0);
            store(b, s, at);
        });
        b
    };
    silent(carried(true));
    assert!(said(carried(false)).contains("s[0] is read before it is written"), "{}", said(carried(false)));
}

#[test]
fn a_tile_that_is_copied_whole_is_filled_whole() {
    let staged = |rows: i64| {
        let mut b = Build::new();
        let t = b.threads("t", 32);
        let s = b.shared("s", Dtype::F32, &[8, 32]);
        let y = b.tensor("y", Dtype::F32, &["M", "N"], true);
        let end = b.int(rows);
        b.serial("r", end, |b, r| {
            let (row, column, zero) = (b.var(r), b.var(t), b.float(0.0));
            b.store(s, &[row, column], zero);
        });
        let zero = b.int(0);
        let (src, dst) = (b.tile(s, &[]), b.tile(y, &[zero, zero]));
        b.stmt(StmtKind::Copy { src, dst, width: None, tma: true, evict: None });
        b
    };
    silent(staged(8));
    assert!(said(staged(7)).contains("s[[7, 0]] is read before it is written"), "{}", said(staged(7)));
}
