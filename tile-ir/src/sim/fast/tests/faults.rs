use super::*;
use crate::ir::*;
use crate::testing::parsed;

/// Two blocks of 48 threads around a body.
fn built(body: &str) -> Kernel {
    parsed(&format!("kernel k() {{ let [bx] = blocks([2]); let [tx] = threads([48]); {body} }}"))
}

#[test]
fn arrays_have_no_guard() {
    let shared = built("let mut s = alloc_shared::<f32>([4, 48]); s[[bx, tx + bx]] = 1.0f32;");
    assert_eq!(
        fault(&shared, &[]),
        "[TK0301] shared index out of bounds: axis 1 of `s` is 48: `s` has extent 48 on axis 1, in block (1, 0, 0), thread (47, 0, 0)"
    );
    let local = built("let mut h = alloc_local::<f32>([2]); if tx % 2 == tx { let v = h[2]; }");
    assert_eq!(
        fault(&local, &[]),
        "[TK0301] local index out of bounds: axis 0 of `h` is 2: `h` has extent 2 on axis 0, in block (0, 0, 0), thread (0, 0, 0)"
    );
}

#[test]
fn inactive_threads_do_not_fault() {
    let guarded = built("let mut s = alloc_shared::<f32>([10]); if tx < 10 { s[tx] = s[tx]; }");
    ok(&guarded, &[]);
}

#[test]
fn barriers_and_collectives_need_every_thread() {
    let barrier = built("if tx < 40 || bx == 1 { sync_threads(); }");
    assert_eq!(
        fault(&barrier, &[]),
        "[TK0402] not reached by every thread: 40 of 48 threads of the block arrive: thread 40 does not, in block (0, 0, 0), thread (40, 0, 0)"
    );
    // A whole warp may stay away from a warp's business.
    for (limit, fails) in [(32, false), (33, true)] {
        let warp = built(&format!("if tx < {limit} {{ let r = warp_reduce(Sum, tx.cast::<i32>()); }}"));
        assert_eq!(run(&crate::testing::bound(&warp), &[]).is_err(), fails, "{limit}");
    }
}

#[test]
fn asserts_and_division_name_the_thread() {
    let assert = built("device_assert(bx + tx <= 47, \"too large\");");
    assert_eq!(fault(&assert, &[]), "[TK0901] device_assert failed: too large, in block (1, 0, 0), thread (47, 0, 0)");
    let division = built("let q = 9i32 / tx.cast::<i32>();");
    assert!(fault(&division, &[]).starts_with("[TK0303] 9 / 0 has no value, in block (0, 0, 0), thread (0, 0, 0)"));
    let step = built("for i in (0..4).step_by(bx) {}");
    assert!(fault(&step, &[]).contains("the loop's step is 0"));
}

#[test]
fn prints_come_in_order() {
    let printing = built("if tx <= 1 { device_print(\"block {} thread {}: {}\", bx, tx, 0.5f16); }");
    let report = ok(&printing, &[]);
    let lines: Vec<_> = report.printed.iter().map(ToString::to_string).collect();
    assert_eq!(lines[0], "block 0 thread 0: 0.5");
    assert_eq!((lines.len(), lines[3].as_str()), (4, "block 1 thread 1: 0.5"));
    assert_eq!((report.printed[3].block, report.printed[3].thread), ([1, 0, 0], [1, 0, 0]));
    // Nothing is lost without saying so.
    let chatty = built("for i in 0..200 { device_print(\"{}\", i); }");
    let report = ok(&chatty, &[]);
    assert_eq!((report.printed.len(), report.unprinted), (2 * 4096, 2 * (200 * 48 - 4096)));
}

#[test]
fn arguments_are_checked() {
    let built = parsed(
        r"
            kernel k(
                x: &Tensor<f16, (N,)>,
                y: &mut Tensor<f32, (N, Fixed<16>)>,
                alpha: f32,
            ) {
                let [bx] = blocks([N]);
                let [tx] = threads([1]);
            }
        ",
    );
    let x = || zeros(Dtype::F16, &[4]);
    let y = || zeros(Dtype::F32, &[4, 16]);
    let alpha = || Argument::Scalar(ScalarValue::Element(Dtype::F32, 0));
    let error = |args: &[Argument]| {
        run(&crate::testing::bound(&built), args).map_or_else(|e| e.to_string(), |r| format!("{r:?}"))
    };
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
    let mut generic = built("");
    generic.type_params.push(TypeParam { name: "T".into(), allowed: vec![Dtype::F16], span: SpanId::from_u32(0) });
    generic.instances.iter_mut().for_each(|i| i.dtypes.push(Dtype::F16));
    assert_eq!(
        run(&crate::testing::bound(&generic), &[]),
        Err(SimError::Malformed("`k` is generic: bind an instance first".into()))
    );
    // What the parser refuses.
    let mut mixed = built("let v = tx + 1;");
    let one = mixed.exprs.values_mut().find(|e| e.kind == ExprKind::Int(1)).unwrap();
    (one.kind, one.ty) = (ExprKind::Float(1.0), Type::F32);
    assert!(matches!(run(&crate::testing::bound(&mixed), &[]), Err(SimError::Malformed(_))));
    let huge = parsed(
        r"
            kernel k() {
                let [bx] = blocks([2]);
                let [tx, ty] = threads([1024, 2]);
            }
        ",
    );
    assert_eq!(run(&crate::testing::bound(&huge), &[]), Err(SimError::Threads { threads: 2048 }));
}

#[test]
fn an_empty_grid_does_nothing() {
    let built = parsed(
        r"
            kernel k(
                y: &mut Tensor<f32, (N,)>,
            ) {
                let [bx] = blocks([N]);
                let [tx] = threads([1]);
                y[bx] = 1.0f32;
            }
        ",
    );
    assert_eq!(ok(&built, &[zeros(Dtype::F32, &[0])]).blocks, 0);
}

/// Analysis refuses these: were it to let one through, the simulator would say so and not leave an array as it is.
#[test]
fn an_exchange_of_arrays_that_differ_is_a_mistake_of_the_compiler() {
    let exchange = |blocks: i64, [dtype, extents]: [&str; 2]| {
        let built = parsed(&format!(
            "kernel k(y: &mut Tensor<f32, (N,)>) {{
                let [part] = blocks([{blocks}]);
                let [t] = threads([32]);
                cluster([{blocks}]);
                let mut mine = alloc_shared::<f32>([{blocks}, 3]);
                let mut theirs = alloc_shared::<{dtype}>([{extents}]);
                if t < {blocks} {{
                    mine[[t, 0]] = 1.0f32;
                }}
                cluster_exchange(&mine, &mut theirs);
                y[part * 32 + t] = 1.0f32;
            }}"
        ));
        fault(&built, &[zeros(Dtype::F32, &[blocks * 32])])
    };
    for blocks in [1, 2] {
        let kinds = exchange(blocks, ["i32", &format!("{blocks}, 3")]);
        assert!(kinds.contains("TK0902") && kinds.contains("arrays of two kinds"), "{kinds}");
        let parts = exchange(blocks, ["f32", &format!("{blocks}, 4")]);
        assert!(parts.contains("TK0902") && parts.contains("without equal parts"), "{parts}");
    }
}
