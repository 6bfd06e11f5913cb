//! What programs compute, print and count; arguments and programs that do not fit.

use super::build::*;
use super::{clean, finds};
use crate::ir::*;
use crate::lowered::*;
use crate::sim::checked::{AccessKind, CheckedOptions, Schedule, run};
use crate::sim::{Argument, ScalarValue, SimError};
use expect_test::expect;
use half::f16;

/// `y = W x` in f16, a warp a row and `rows` rows a block, vectors of 8: the kernel of language.md, as it is lowered.
fn gemv(rows: u32) -> Program {
    let f16 = ValueType::Element(Dtype::F16);
    let mut b = Build::threads(32);
    b.program.launch.threads = [32, rows, 1];
    let x = b.tensor("x", Dtype::F16, 1, false);
    let w = b.tensor("w", Dtype::F16, 2, false);
    let y = b.tensor("y", Dtype::F16, 1, true);
    let dim = |d: usize| HostExpr::Dim(DimId::new(d));
    b.program.tensors[1].shape = vec![dim(3), dim(0)];
    b.program.tensors[2].shape = vec![dim(3)];
    b.program.launch.grid[0] = HostExpr::binary(BinaryOp::CeilDiv, dim(3), HostExpr::Int(i64::from(rows)));
    let (k, n) = (b.dim("X0"), b.dim("Y0"));

    let (bx, tk) = (b.bx(), b.tx());
    let tn = b.value(ValueKind::Thread(1), ValueType::Index);
    let many = b.int(i64::from(rows));
    let base = b.mul(bx, many);
    let row = b.add(base, tn);
    let row = b.let_("row", row);
    let zero = b.float(0.0);
    let acc = b.let_("acc", zero);
    let (xs, ws) = (b.local("xs", Dtype::F16, 8), b.local("ws", Dtype::F16, 8));
    let step = b.int(256);
    let steps = b.binary(BinaryOp::CeilDiv, k, step);
    b.for_(0, steps, 1, |b, bk| {
        let (bk, eight, start) = (b.get(bk), b.int(8), b.int(0));
        let (first, lane) = (b.mul(bk, step), b.mul(tk, eight));
        let column = b.add(first, lane);
        let column = b.let_("column", column);
        let column = b.get(column);
        let inside = b.less(column, k);
        let memory = b.guarded(x, column, inside, GuardReason::Masked);
        b.op(OpKind::VectorLoad { local: xs, start, memory, width: 8 });
        let (row, wide) = (b.get(row), ValueType::Wide);
        let row_inside = b.less(row, n);
        let both = b.binary(BinaryOp::And, row_inside, inside);
        let (row, pitch, column) = (b.cast(row, wide), b.cast(k, wide), b.cast(column, wide));
        let base = b.mul(row, pitch);
        let offset = b.add(base, column);
        let memory = b.guarded(w, offset, both, GuardReason::Masked);
        b.op(OpKind::VectorLoad { local: ws, start, memory, width: 8 });
        b.for_(0, eight, 1, |b, v| {
            let v = b.get(v);
            let (p, q) = (b.load(Space::Local(xs), v), b.load(Space::Local(ws), v));
            let (p, q, sum) = (b.cast(p, F32), b.cast(q, F32), b.get(acc));
            let fma = b.value(ValueKind::Math(MathFn::Fma, vec![p, q, sum]), F32);
            b.set(acc, fma);
        });
    });
    let other = b.reg("other", F32);
    for mask in [16, 8, 4, 2, 1] {
        let (value, lane) = (b.get(acc), b.int(mask));
        b.op(OpKind::Shuffle { reg: other, kind: ShuffleKind::Xor, value, lane });
        let (value, other) = (b.get(acc), b.get(other));
        let sum = b.add(value, other);
        b.set(acc, sum);
    }
    let (row_value, none) = (b.get(row), b.int(0));
    let first = b.binary(BinaryOp::Eq, tk, none);
    let inside = b.less(row_value, n);
    let cond = b.binary(BinaryOp::And, first, inside);
    b.if_(cond, |b| {
        let (row, value) = (b.get(row), b.get(acc));
        let value = b.cast(value, f16);
        b.store(y, row, value);
    });
    b.finish()
}

fn halves(shape: &[i64], f: impl Fn(usize) -> f32) -> Argument {
    let count = shape.iter().product::<i64>() as usize;
    let bytes: Vec<u8> = (0..count).flat_map(|i| f16::from_f32(f(i)).to_le_bytes()).collect();
    tensor(Dtype::F16, shape, &bytes)
}

fn gemv_args(n: i64, k: i64) -> Vec<Argument> {
    let small = |i: usize| ((i * 7 + i / 13) % 9) as f32 - 4.0;
    vec![halves(&[k], small), halves(&[n, k], |i| small(i + 5)), halves(&[n], |_| -1.0)]
}

fn elements(argument: &Argument) -> Vec<f32> {
    bytes(argument).chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect()
}

#[test]
fn gemv_is_right_under_every_schedule() {
    for (n, k) in [(1, 8), (3, 256), (5, 264), (7, 1000), (16, 512), (0, 8)] {
        for rows in [1, 4] {
            let (report, args) = clean(&gemv(rows), &|| gemv_args(n, k));
            let (x, w, y) = (elements(&args[0]), elements(&args[1]), elements(&args[2]));
            for (row, y) in y.iter().enumerate() {
                let sum: f32 = x.iter().zip(&w[row * k as usize..]).map(|(x, w)| x * w).sum();
                assert_eq!(*y, f16::from_f32(sum).to_f32(), "row {row} of {n} x {k}");
            }
            let read = report.elements(Space::Global(ParamId::new(1)), AccessKind::Read);
            let written = report.elements(Space::Global(ParamId::new(2)), AccessKind::Write);
            assert_eq!((read, written), ((n * k) as u64, n as u64));
        }
    }
}

#[test]
fn gemv_without_its_row_guard_is_found() {
    let mut program = gemv(4);
    let Some(Op { kind: OpKind::If { cond, .. }, .. }) = program.body.last_mut() else { panic!("the store") };
    let ValueKind::Binary(_, first, _) = program.values[*cond].kind else { panic!("a conjunction") };
    *cond = first;
    clean(&program, &|| gemv_args(8, 64));
    finds(
        &program,
        &|| gemv_args(5, 64),
        &[301],
        expect![[r#"
        TK0301 line 22: index out of bounds of `y` | thread (0, 1) writes element 5; `y` has 5 elements | in block 1, barrier interval 0; replay with seed 0 | seen 3 times in this run
    "#]],
    );
}

/// `x / d` by a multiplication is exact for every index and every divisor, also where the first estimate is one less.
#[test]
fn quotients_by_reciprocals_are_exact() {
    const MOST: i64 = i32::MAX as i64;
    for d in [1, 2, 3, 5, 7, 8, 24, 1000, 46_341, 65_535, 65_536, 1 << 30, MOST - 1, MOST] {
        let near = |x: i64| [x - 1, x, x + 1];
        let all = [0, d, 2 * d, 3 * d, MOST / d * d, MOST / 2 / d * d, MOST].into_iter().flat_map(near);
        let xs: Vec<i32> = all.filter(|x| (0..=MOST).contains(x)).map(|x| x as i32).collect();
        let mut b = Build::threads(xs.len() as u32);
        let x = b.tensor("x", Dtype::I32, 1, false);
        let y = b.tensor("y", Dtype::I32, 1, true);
        let thread = b.tx();
        let loaded = b.load(x, thread);
        let loaded = b.cast(loaded, ValueType::Index);
        let (divisor, reciprocal) = (b.int(d), b.int(MOST / d));
        let quotient = b.value(ValueKind::Quotient(loaded, divisor, reciprocal), ValueType::Index);
        let quotient = b.cast(quotient, ValueType::Element(Dtype::I32));
        b.store(y, thread, quotient);
        let count = [xs.len() as i64];
        let (_, args) = clean(&b.finish(), &|| vec![ints(&count, |i| xs[i]), ints(&count, |_| -1)]);
        let found = bytes(&args[1]);
        let found: Vec<i32> = found.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let wanted: Vec<i32> = xs.iter().map(|x| x / d as i32).collect();
        assert_eq!(found, wanted, "{xs:?} over {d}");
    }
}

#[test]
fn gemv_of_a_quarter_million_elements_is_quick() {
    let start = std::time::Instant::now();
    let report = run(&gemv(8), &gemv_args(256, 1024), &CheckedOptions::default()).unwrap();
    assert!(report.is_clean());
    // It takes 20 ms with optimisation; the bound leaves room for unoptimised builds on busy machines.
    assert!(start.elapsed().as_secs_f64() < 5.0, "{:?}", start.elapsed());
}

#[test]
fn prints_come_by_block_and_thread() {
    let mut b = Build::threads(40).blocks(2);
    let (tx, n) = (b.tx(), b.int(38));
    let late = b.less(n, tx);
    b.if_(late, |b| {
        let (bx, half) = (b.bx(), b.float(0.5));
        let message = b.message(MessageKind::Print, "block {} thread {}: {}!");
        b.op(OpKind::Print { message, args: vec![bx, tx, half] });
    });
    let program = b.finish();
    let (report, _) = clean(&program, &Vec::new);
    let texts: Vec<&str> = report.prints.iter().map(|p| p.text.as_str()).collect();
    assert_eq!(texts, ["block 0 thread 39: 0.5!", "block 1 thread 39: 0.5!"]);
    for (report, _) in super::every_run(&program, &Vec::new) {
        assert_eq!(report.prints.iter().map(|p| p.text.as_str()).collect::<Vec<_>>(), texts);
    }
    let none = CheckedOptions { max_prints: 1, ..CheckedOptions::default() };
    assert_eq!(run(&program, &[], &none).unwrap().prints_dropped, 1);
}

#[test]
fn assertions() {
    let program = |n: i64| {
        let mut b = Build::threads(32);
        let (tx, n) = (b.tx(), b.int(n));
        let cond = b.less(tx, n);
        let message = b.message(MessageKind::Assert, "tx is small");
        b.op(OpKind::Assert { cond, message });
        b.finish()
    };
    clean(&program(32), &Vec::new);
    finds(
        &program(30),
        &Vec::new,
        &[901],
        expect![[r#"
        TK0901 line 1: assertion failed: tx is small | in thread 30 | in block 0, barrier interval 0; replay with seed 0
    "#]],
    );
}

#[test]
fn a_report_reads_as_rustc_does() {
    let mut b = Build::threads(64);
    let s = b.shared("s", Dtype::F32, 64);
    let (tx, one) = (b.tx(), b.float(1.0));
    b.store(s, tx, one);
    let (tx, last) = (b.tx(), b.int(63));
    let other = b.binary(BinaryOp::Sub, last, tx);
    let value = b.load(s, other);
    b.let_("v", value);
    let program = b.finish();
    let options = CheckedOptions { schedule: Schedule::InOrder, seed: 7, ..CheckedOptions::default() };
    let report = run(&program, &[], &options).unwrap();
    expect![[r#"
        error: [TK0401] data race on shared `s`
         --> kernel.rs:2:1
          |
        2 | line 2;
          | ^^^^^^ thread 31 reads s[32] (line 3), thread 32 writes s[32] (line 2), no barrier between
        3 | line 3;
          | ------ thread 31 reads it here
          = note: in block 0, barrier interval 0; replay with seed 7
          = note: seen 64 times in this run
          = help: let all threads meet at a barrier between the two: `sync_threads();`"#]]
    .assert_eq(&report.render(&program));
}

#[test]
fn reports_are_capped_and_counted() {
    let mut b = Build::threads(32);
    let y = b.tensor("y", Dtype::F32, 1, true);
    for _ in 0..5 {
        let (far, one) = (b.int(100), b.float(1.0));
        b.store(y, far, one);
    }
    let options = CheckedOptions { max_reports: 3, ..CheckedOptions::default() };
    let report = run(&b.finish(), &[floats(&[1], |_| 0.0)], &options).unwrap();
    assert_eq!((report.diagnostics.len(), report.suppressed), (3, 2));
    assert!(report.diagnostics[0].notes.iter().any(|n| n == "seen 32 times in this run"));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let program = gemv(4);
    for seed in [1, 99] {
        let options = CheckedOptions { seed, ..CheckedOptions::default() };
        let [a, b] = [(); 2].map(|()| run(&program, &gemv_args(9, 300 / 8 * 8), &options).unwrap());
        assert_eq!(a, b);
    }
}

#[test]
fn values_are_those_of_the_language() {
    // z[tx] = if tx < 16 { max(x, -0.0) } else { select(x == x, x / 2, 1) }, and i32 scalars
    let mut b = Build::threads(32);
    let x = b.tensor("x", Dtype::F32, 1, false);
    let z = b.tensor("z", Dtype::F32, 1, true);
    let scale = ParamId::new(2);
    let ty = ValueType::Element(Dtype::I32);
    b.program.params.push(Parameter { name: "scale".into(), kind: ParameterKind::Scalar(scale), ty });
    let position = b.program.params.len() as u32 - 1;
    let (tx, sixteen) = (b.tx(), b.int(16));
    let cond = b.less(tx, sixteen);
    let (value, zero) = (b.load(x, tx), b.float(-0.0));
    let left = b.binary(BinaryOp::Max, value, zero);
    let (same, two, one) = (b.binary(BinaryOp::Eq, value, value), b.float(2.0), b.float(1.0));
    let half = b.binary(BinaryOp::Div, value, two);
    let right = b.value(ValueKind::Select(same, half, one), F32);
    let chosen = b.value(ValueKind::Choose(cond, left, right), F32);
    let scale = b.value(ValueKind::Param(position), ty);
    let scale = b.cast(scale, F32);
    let scaled = b.mul(chosen, scale);
    b.store(z, tx, scaled);
    let program = b.finish();
    let args = || {
        let x = floats(&[32], |i| if i == 20 { f32::NAN } else { i as f32 - 8.0 });
        vec![x, floats(&[32], |_| 9.0), Argument::Scalar(ScalarValue::Element(Dtype::I32, -3i32 as u32))]
    };
    let (_, results) = clean(&program, &args);
    let z = read(&results[1]);
    assert_eq!((z[0], z[10], z[16], z[20]), (0.0, -6.0, -12.0, -3.0));

    let mut wrong = args();
    wrong[2] = Argument::Scalar(ScalarValue::Index(3));
    let error = run(&program, &wrong, &CheckedOptions::default()).unwrap_err();
    assert!(matches!(error, SimError::ArgumentKind { .. }), "{error}");
    wrong.truncate(2);
    let error = run(&program, &wrong, &CheckedOptions::default()).unwrap_err();
    assert!(matches!(error, SimError::ArgumentCount { expected: 3, found: 2, .. }), "{error}");
}

#[test]
fn arguments_that_do_not_fit() {
    let program = gemv(1);
    let fails = |change: &dyn Fn(&mut Vec<Argument>)| {
        let mut args = gemv_args(4, 64);
        change(&mut args);
        run(&program, &args, &CheckedOptions::default()).unwrap_err()
    };
    let edit = |args: &mut Vec<Argument>, at: usize, f: &dyn Fn(&mut crate::sim::TensorArgument)| {
        if let Argument::Tensor(t) = &mut args[at] {
            f(t);
        }
    };
    assert!(matches!(fails(&|a| a[0] = floats(&[64], |_| 0.0)), SimError::ArgumentDtype { .. }));
    assert!(matches!(fails(&|a| a[0] = halves(&[1, 64], |_| 0.0)), SimError::ArgumentRank { .. }));
    assert!(matches!(fails(&|a| a[1] = halves(&[4, 56], |_| 0.0)), SimError::ArgumentExtent { axis: 1, .. }));
    assert!(matches!(fails(&|a| a[2] = Argument::Scalar(ScalarValue::Index(1))), SimError::ArgumentKind { .. }));
    assert!(matches!(fails(&|a| edit(a, 1, &|t| t.offset = 2)), SimError::ArgumentMemory { .. }));
    assert!(matches!(fails(&|a| edit(a, 1, &|t| t.strides[0] = 8)), SimError::Malformed(_)));
}

#[test]
fn programs_that_are_not_well_formed_are_refused() {
    let refused = |make: &dyn Fn(&mut Build)| {
        let mut b = Build::threads(32);
        make(&mut b);
        matches!(run(&b.finish(), &[], &CheckedOptions::default()), Err(SimError::Malformed(_)))
    };
    assert!(refused(&|b| b.op(OpKind::Set { reg: RegId::new(3), value: ValueId::new(0) })));
    assert!(refused(&|b| {
        let cyclic = ValueId::new(b.program.values.len());
        let value = b.value(ValueKind::Unary(UnaryOp::Neg, cyclic), F32);
        b.let_("v", value);
    }));
    assert!(refused(&|b| {
        let (index, float) = (b.tx(), b.float(1.0));
        let sum = b.add(index, float);
        b.let_("v", sum);
    }));
    assert!(refused(&|b| {
        let tx = b.tx();
        let memory = b.at(Space::Shared(SharedId::new(0)), tx);
        let value = b.float(1.0);
        b.op(OpKind::Store { memory, value });
    }));
    let mut b = Build::threads(2048);
    b.barrier();
    let error = run(&b.finish(), &[], &CheckedOptions::default()).unwrap_err();
    assert_eq!(error, SimError::Threads { threads: 2048 });
}

/// A number from a seed.
fn draw(state: &mut u64, n: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % n.max(1)
}

/// Something is changed in a program: an operand, a value, an operation.
fn mutate(program: &mut Program, state: &mut u64) {
    let values = program.values.len();
    let (at, other) = (ValueId::new(draw(state, values)), ValueId::new(draw(state, values)));
    match draw(state, 8) {
        0 => program.values[at] = program.values[other].clone(),
        1 => program.values[at].kind = program.values[other].kind.clone(),
        2 => {
            program.values[at].kind = ValueKind::Int([-1, 0, 1, 7, 1 << 31, i64::MAX, i64::MIN][draw(state, 7)]);
        }
        3 => {
            if let ValueKind::Binary(op, ..) = &mut program.values[at].kind {
                *op = [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Rem, BinaryOp::Shl, BinaryOp::Or][draw(state, 5)];
            }
        }
        4 => _ = program.body.remove(draw(state, program.body.len())),
        5 => {
            let op = program.body[draw(state, program.body.len())].clone();
            program.body.insert(draw(state, program.body.len()), op);
        }
        6 => program.locals[LocalId::new(draw(state, 2))].len = draw(state, 9) as u32,
        _ => {
            if let ValueKind::Load(memory) = &mut program.values[at].kind {
                memory.guard = None;
                memory.offset = other;
            }
        }
    }
}

#[test]
fn no_program_makes_it_panic() {
    let (mut refused, mut wrong, mut unchanged) = (0, 0, 0);
    for seed in 0..1500 {
        let mut state = seed;
        let mut program = gemv(2);
        for _ in 0..1 + draw(&mut state, 3) {
            mutate(&mut program, &mut state);
        }
        let options = CheckedOptions { seed, step_limit: 20_000, ..CheckedOptions::default() };
        match run(&program, &gemv_args(3, 264), &options) {
            Err(_) => refused += 1,
            Ok(report) if report.is_clean() => unchanged += 1,
            Ok(_) => wrong += 1,
        }
    }
    assert!(refused > 100 && wrong > 100 && unchanged > 100, "{refused} {wrong} {unchanged}");
}

/// `cargo test -p tile-ir --features parallel -- --ignored --nocapture speed`
#[test]
#[ignore = "a measurement"]
fn speed_of_shared_memory_and_barriers() {
    // C = A B of 256 x 256 x 256 through 16 x 16 shared tiles: 16.8 M products, 33.6 M checked shared reads.
    let mut b = Build::threads(16).blocks(16);
    b.program.launch.threads = [16, 16, 1];
    b.program.launch.grid[1] = HostExpr::Int(16);
    let [x, y, z] = [("a", false), ("b", false), ("c", true)].map(|(name, m)| b.tensor(name, Dtype::F32, 2, m));
    let (xs, ys) = (b.shared("a_s", Dtype::F32, 256), b.shared("b_s", Dtype::F32, 256));
    let (tx, bx, n, tile) = (b.tx(), b.bx(), b.int(256), b.int(16));
    let ty = b.value(ValueKind::Thread(1), ValueType::Index);
    let by = b.value(ValueKind::Block(1), ValueType::Index);
    let at = |b: &mut Build, block: ValueId, thread: ValueId| {
        let base = b.mul(block, tile);
        b.add(base, thread)
    };
    let offset = |b: &mut Build, row: ValueId, column: ValueId, pitch: ValueId| {
        let base = b.mul(row, pitch);
        b.add(base, column)
    };
    let zero = b.float(0.0);
    let acc = b.let_("acc", zero);
    b.for_(0, tile, 1, |b, k| {
        let k = b.get(k);
        let (row, column) = (at(b, by, ty), at(b, k, tx));
        let (from, own) = (offset(b, row, column, n), offset(b, ty, tx, tile));
        let value = b.load(x, from);
        b.store(xs, own, value);
        let (row, column) = (at(b, k, ty), at(b, bx, tx));
        let from = offset(b, row, column, n);
        let value = b.load(y, from);
        b.store(ys, own, value);
        b.barrier();
        b.for_(0, tile, 1, |b, i| {
            let i = b.get(i);
            let (p, q) = (offset(b, ty, i, tile), offset(b, i, tx, tile));
            let (p, q, sum) = (b.load(xs, p), b.load(ys, q), b.get(acc));
            let fma = b.value(ValueKind::Math(MathFn::Fma, vec![p, q, sum]), F32);
            b.set(acc, fma);
        });
        b.barrier();
    });
    let (row, column) = (at(&mut b, by, ty), at(&mut b, bx, tx));
    let (to, value) = (offset(&mut b, row, column, n), b.get(acc));
    b.store(z, to, value);
    let program = b.finish();
    let args = [0, 1, 2].map(|i| floats(&[256, 256], move |j| if i == 2 { 0.0 } else { ((j * 7 + i) % 5) as f32 }));
    let start = std::time::Instant::now();
    let report = run(&program, &args, &CheckedOptions::default()).unwrap();
    assert!(report.is_clean(), "{}", report.render(&program));
    println!("gemm 256 x 256 x 256: {:?}, {} steps", start.elapsed(), report.counters.steps);
}
