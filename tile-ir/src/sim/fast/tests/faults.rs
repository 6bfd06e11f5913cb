use super::*;
use crate::ir::*;
use crate::testing::{Builder, kernel};

/// Two blocks of 48 threads around a body.
fn built(body: impl FnOnce(&mut Builder, ExprId, ExprId)) -> Kernel {
    kernel("k", |b| {
        let two = b.int(2);
        let [bx] = b.blocks([("bx", two)]);
        let [tx] = b.threads([("tx", 48)]);
        body(b, bx, tx);
    })
}

#[test]
fn arrays_have_no_guard() {
    let shared = built(|b, bx, tx| {
        let s = b.buffer("s", Scope::Shared, Dtype::F32, &[4, 48]);
        let one = b.float(Dtype::F32, 1.0);
        let next = b.add(tx, bx);
        b.store(s, &[bx, next], one);
    });
    assert_eq!(
        fault(&shared, &[]),
        "[TK0301] shared index out of bounds: axis 1 of `s` is 48: `s` has extent 48 on axis 1, in block (1, 0, 0), thread (47, 0, 0)"
    );
    let local = built(|b, _, tx| {
        let h = b.buffer("h", Scope::Local, Dtype::F32, &[2]);
        let two = b.int(2);
        let even = b.binary(BinaryOp::Rem, tx, two);
        let odd = b.eq(even, tx);
        b.when(odd, |b| {
            let value = b.load(h, &[two]);
            b.bind("v", value);
        });
    });
    assert_eq!(
        fault(&local, &[]),
        "[TK0301] local index out of bounds: axis 0 of `h` is 2: `h` has extent 2 on axis 0, in block (0, 0, 0), thread (0, 0, 0)"
    );
}

#[test]
fn inactive_threads_do_not_fault() {
    let guarded = built(|b, _, tx| {
        let s = b.buffer("s", Scope::Shared, Dtype::F32, &[10]);
        let ten = b.int(10);
        let inside = b.lt(tx, ten);
        b.when(inside, |b| {
            let value = b.load(s, &[tx]);
            b.store(s, &[tx], value);
        });
    });
    ok(&guarded, &[]);
}

#[test]
fn barriers_and_collectives_need_every_thread() {
    let barrier = built(|b, bx, tx| {
        let forty = b.int(40);
        let some = b.lt(tx, forty);
        let one = b.int(1);
        let second = b.eq(bx, one);
        let cond = b.binary(BinaryOp::Or, some, second);
        b.when(cond, |b| b.stmt(StmtKind::SyncThreads));
    });
    assert_eq!(
        fault(&barrier, &[]),
        "[TK0402] not reached by every thread: 40 of 48 threads of the block arrive: thread 40 does not, in block (0, 0, 0), thread (40, 0, 0)"
    );
    // A whole warp may stay away from a warp's business.
    for (limit, fails) in [(32, false), (33, true)] {
        let warp = built(|b, _, tx| {
            let limit = b.int(limit);
            let some = b.lt(tx, limit);
            b.when(some, |b| {
                let value = b.cast(Dtype::I32, tx);
                b.reduce("r", ReduceOp::Sum, value, None);
            });
        });
        assert_eq!(run(&warp, &[]).is_err(), fails, "{limit}");
    }
}

#[test]
fn asserts_and_division_name_the_thread() {
    let assert = built(|b, bx, tx| {
        let limit = b.int(47);
        let sum = b.add(bx, tx);
        let cond = b.binary(BinaryOp::Le, sum, limit);
        b.stmt(StmtKind::Assert { cond, message: "too large".into() });
    });
    assert_eq!(fault(&assert, &[]), "[TK0901] device_assert failed: too large, in block (1, 0, 0), thread (47, 0, 0)");
    let division = built(|b, _, tx| {
        let nine = b.int_of(Dtype::I32, 9);
        let own = b.cast(Dtype::I32, tx);
        let quotient = b.binary(BinaryOp::Div, nine, own);
        b.bind("q", quotient);
    });
    assert!(fault(&division, &[]).starts_with("[TK0303] 9 / 0 has no value, in block (0, 0, 0), thread (0, 0, 0)"));
    let step = built(|b, bx, _| {
        let bounds = [b.int(0), b.int(4), bx];
        b.for_each("i", LoopKind::Serial { unroll: None }, bounds, |_, _| {});
    });
    assert!(fault(&step, &[]).contains("the loop's step is 0"));
}

#[test]
fn prints_come_in_order() {
    let printing = built(|b, bx, tx| {
        let one = b.int(1);
        let low = b.binary(BinaryOp::Le, tx, one);
        b.when(low, |b| {
            let half = b.float(Dtype::F16, 0.5);
            b.stmt(StmtKind::Print { format: "block {} thread {}: {}".into(), args: vec![bx, tx, half] });
        });
    });
    let report = ok(&printing, &[]);
    let lines: Vec<_> = report.printed.iter().map(ToString::to_string).collect();
    assert_eq!(lines[0], "block 0 thread 0: 0.5");
    assert_eq!((lines.len(), lines[3].as_str()), (4, "block 1 thread 1: 0.5"));
    assert_eq!((report.printed[3].block, report.printed[3].thread), ([1, 0, 0], [1, 0, 0]));
    // Nothing is lost without saying so.
    let chatty = built(|b, _, _| {
        let many = b.int(200);
        b.range("i", many, |b, i| b.stmt(StmtKind::Print { format: "{}".into(), args: vec![i] }));
    });
    let report = ok(&chatty, &[]);
    assert_eq!((report.printed.len(), report.unprinted), (2 * 4096, 2 * (200 * 48 - 4096)));
}

#[test]
fn arguments_are_checked() {
    let built = kernel("k", |b| {
        let n = b.dim("N");
        let sixteen = b.int(16);
        b.tensor("x", Dtype::F16, &[n]);
        b.tensor_mut("y", Dtype::F32, &[n, sixteen]);
        b.scalar("alpha", Dtype::F32);
        b.blocks([("bx", n)]);
        b.threads([("tx", 1)]);
    });
    let x = || zeros(Dtype::F16, &[4]);
    let y = || zeros(Dtype::F32, &[4, 16]);
    let alpha = || Argument::Scalar(ScalarValue::Element(Dtype::F32, 0));
    let error = |args: &[Argument]| run(&built, args).map_or_else(|e| e.to_string(), |r| format!("{r:?}"));
    assert!(error(&[x(), y(), alpha()]).contains("blocks: 4"));
    assert_eq!(error(&[x(), y()]), "kernel `k` takes 3 arguments, 2 were given");
    assert_eq!(error(&[y(), y(), alpha()]), "argument `x` must hold f16, found f32");
    assert_eq!(error(&[alpha(), y(), alpha()]), "argument `x` must be a tensor, found a scalar");
    assert_eq!(error(&[x(), y(), index(1)]), "argument `alpha` must be f32, found usize");
    assert_eq!(error(&[zeros(Dtype::F16, &[4, 1]), y(), alpha()]), "argument `x` must have 1 axes, found 2");
    assert_eq!(
        error(&[x(), zeros(Dtype::F32, &[5, 16]), alpha()]),
        "argument `y` must have extent N = 4 on axis 0, found 5"
    );
    let Argument::Tensor(mut short) = y() else { unreachable!() };
    short.offset = 4;
    assert_eq!(
        error(&[x(), Argument::Tensor(short), alpha()]),
        "argument `y` of 256 bytes at offset 4 leaves its memory of 256 bytes, or is misaligned"
    );
}

#[test]
fn generic_and_broken_kernels_are_refused() {
    let mut generic = built(|_, _, _| {});
    generic.type_params.push(TypeParam { name: "T".into(), allowed: vec![Dtype::F16], span: SpanId::from_u32(0) });
    generic.instances.iter_mut().for_each(|i| i.dtypes.push(Dtype::F16));
    assert_eq!(run(&generic, &[]), Err(SimError::Malformed("`k` is generic: bind an instance first".into())));
    let mixed = built(|b, _, tx| {
        let one = b.float(Dtype::F32, 1.0);
        b.kernel.exprs[one].ty = Type::F32;
        let sum = b.add(tx, one);
        b.bind("v", sum);
    });
    assert!(matches!(run(&mixed, &[]), Err(SimError::Malformed(_))));
    let huge = kernel("k", |b| {
        let two = b.int(2);
        b.blocks([("bx", two)]);
        b.threads([("tx", 1024), ("ty", 2)]);
    });
    assert_eq!(run(&huge, &[]), Err(SimError::Threads { threads: 2048 }));
}

#[test]
fn an_empty_grid_does_nothing() {
    let built = kernel("k", |b| {
        let n = b.dim("N");
        let y = b.tensor_mut("y", Dtype::F32, &[n]);
        let [bx] = b.blocks([("bx", n)]);
        b.threads([("tx", 1)]);
        let one = b.float(Dtype::F32, 1.0);
        b.store(y, &[bx], one);
    });
    assert_eq!(ok(&built, &[zeros(Dtype::F32, &[0])]).blocks, 0);
}
