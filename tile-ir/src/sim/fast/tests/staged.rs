//! Pipelined loops into shared memory: the sums are those of a plain loop however loads are issued and copies made, and
//! a program that waits, synchronises or addresses its slots wrongly is found out.

use super::gemv::noise;
use super::*;
use crate::ir::*;
use crate::lower::{bind, lower_bound};
use crate::lowered::visit::{self, each, each_mut};
use crate::lowered::{Op, OpKind, Program, RemarkKind, Space, Value, ValueKind, ValueType};
use crate::sim::checked::{self, CheckedOptions, CheckedReport, Copies};
use crate::testing::{Builder, kernel};

/// How the loop fills its shared arrays.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fill {
    /// Tiles, by the block together.
    Tiles,
    /// Each thread its own vectors; `x` by the first warp alone.
    Vectors,
    /// Each thread its own elements.
    Elements,
}

struct Staged {
    fill: Fill,
    dtype: Dtype,
    stages: i64,
    /// Whether K is known to be made of 16-byte vectors.
    aligned: bool,
    first: i64,
    step: i64,
    /// How often the loop is entered; 0: once, without a loop around it.
    times: i64,
}

const PLAIN: Staged =
    Staged { fill: Fill::Tiles, dtype: Dtype::F32, stages: 2, aligned: true, first: 0, step: 1, times: 0 };

impl Staged {
    fn vector(&self) -> i64 {
        16 / i64::from(self.dtype.bytes())
    }

    /// A dot product of each row of `w` with `x`; a warp sums the row that the other warp of its block loads.
    fn kernel(&self) -> Kernel {
        kernel("staged", |b| {
            let (n, k) = (b.dim("N"), b.dim("K"));
            let w = b.tensor("w", self.dtype, &[n, k]);
            let x = b.tensor("x", self.dtype, &[k]);
            let y = b.tensor_mut("y", Dtype::F32, &[n]);
            if self.aligned {
                let (vector, zero) = (b.int(self.vector()), b.int(0));
                let rest = b.binary(BinaryOp::Rem, k, vector);
                let cond = b.eq(rest, zero);
                let span = SpanId::from_u32(0);
                b.kernel.requires.push(Require { cond, text: "K % vec == 0".into(), span });
            }
            let two = b.int(2);
            let blocks = b.binary(BinaryOp::CeilDiv, n, two);
            let [bn] = b.blocks([("bn", blocks)]);
            let [tk, tn] = b.threads([("tk", 32), ("tn", 2)]);
            let chunk = 32 * self.vector();
            let ws = b.buffer("ws", Scope::Shared, self.dtype, &[2, chunk]);
            let xs = b.buffer("xs", Scope::Shared, self.dtype, &[chunk]);
            let zero = b.float(Dtype::F32, 0.0);
            let acc = b.bind_mut("acc", zero);
            let one = b.int(1);
            let other = b.binary(BinaryOp::Sub, one, tn);
            let looped = |b: &mut Builder| {
                let extent = b.int(chunk);
                let trips = b.binary(BinaryOp::CeilDiv, k, extent);
                let stages = b.int(self.stages);
                let bounds = [b.int(self.first), trips, b.int(self.step)];
                b.for_each("c", LoopKind::Pipelined { stages, schedule: Schedule::Auto }, bounds, |b, c| {
                    self.load(b, [w, x, ws, xs], [bn, tn, tk], c);
                    let bounds = [b.int(0), b.int(self.vector()), b.int(1)];
                    b.for_each("v", LoopKind::Unroll, bounds, |b, v| {
                        let at = b.scaled(tk, self.vector(), v);
                        let (wv, xv) = (b.load(ws, &[other, at]), b.load(xs, &[at]));
                        let (wv, xv) = (b.cast(Dtype::F32, wv), b.cast(Dtype::F32, xv));
                        let sum = b.math(MathFn::Fma, &[wv, xv, acc]);
                        b.assign(acc, sum);
                    });
                });
            };
            if self.times == 0 {
                looped(b);
            } else {
                let times = b.int(self.times);
                b.range("time", times, |b, _| looped(b));
            }
            let sum = b.reduce("sum", ReduceOp::Sum, acc, Some(tk));
            let row = b.scaled(bn, 2, other);
            let zero = b.int(0);
            let (leads, inside) = (b.eq(tk, zero), b.lt(row, n));
            let cond = b.binary(BinaryOp::And, leads, inside);
            b.when(cond, |b| b.store(y, &[row], sum));
        })
    }

    fn load(&self, b: &mut Builder, [w, x, ws, xs]: [Place; 4], [bn, tn, tk]: [ExprId; 3], c: ExprId) {
        let zero = b.int(0);
        let column = b.scaled(c, 32 * self.vector(), zero);
        let column = b.bind("column", column);
        let row = b.scaled(bn, 2, tn);
        match self.fill {
            Fill::Tiles => {
                let first = b.scaled(bn, 2, zero);
                let (from, to) = (b.tile(w, &[first, column], &[]), b.tile(ws, &[], &[]));
                b.copy(from, to);
                let (from, to) = (b.tile(x, &[column], &[]), b.tile(xs, &[], &[]));
                b.copy(from, to);
            }
            Fill::Vectors | Fill::Elements => {
                let kind = if self.fill == Fill::Vectors { LoopKind::Vectorized } else { LoopKind::Unroll };
                let place = |b: &mut Builder, v: ExprId| match self.fill {
                    Fill::Vectors => b.scaled(tk, self.vector(), v),
                    _ => b.scaled(v, 32, tk),
                };
                let bounds = [b.int(0), b.int(self.vector()), b.int(1)];
                b.for_each("v", kind, bounds, |b, v| {
                    let at = place(b, v);
                    let from = b.add(column, at);
                    let value = b.masked(w, &[row, from]);
                    b.store(ws, &[tn, at], value);
                });
                let first = b.eq(tn, zero);
                b.when(first, |b| {
                    let bounds = [b.int(0), b.int(self.vector()), b.int(1)];
                    b.for_each("v", kind, bounds, |b, v| {
                        let at = place(b, v);
                        let from = b.add(column, at);
                        let value = b.masked(x, &[from]);
                        b.store(xs, &[at], value);
                    });
                });
            }
        }
    }

    fn args(&self, n: i64, k: i64) -> Vec<Argument> {
        let (w, x) = (noise((n * k) as usize, 3), noise(k as usize, 5));
        vec![tensor(self.dtype, &[n, k], &w), tensor(self.dtype, &[k], &x), zeros(Dtype::F32, &[n])]
    }

    fn program(&self) -> Program {
        let bound = bind(&self.kernel(), &Instance::default()).unwrap_or_else(|d| panic!("{d:?}"));
        lower_bound(&bound, Target::Sm90a).unwrap_or_else(|d| panic!("{d:?}"))
    }
}

fn options() -> impl Iterator<Item = CheckedOptions> {
    let each = |copies| (0..2).map(move |seed| CheckedOptions { seed, copies, ..CheckedOptions::default() });
    [Copies::Early, Copies::Late, Copies::Seeded].into_iter().flat_map(each)
}

#[test]
fn however_loads_are_issued_and_copies_made_the_sums_are_the_same() {
    let loops = [(0, 1, 0), (1, 2, 0), (0, 1, 2)];
    for fill in [Fill::Tiles, Fill::Vectors, Fill::Elements] {
        for dtype in [Dtype::F32, Dtype::F16] {
            for (first, step, times) in loops {
                for (n, columns) in [(3, 7), (1, 2), (2, 1), (2, 0)] {
                    let mut sums: Vec<Vec<f64>> = Vec::new();
                    for stages in 1..=4 {
                        let staged = Staged { fill, dtype, stages, first, step, times, ..PLAIN };
                        // The last step is short.
                        let k = (columns * 32 * staged.vector() - 5 * staged.vector()).max(0);
                        let (bound, program) = (staged.kernel(), staged.program());
                        let ours = staged.args(n, k);
                        ok(&bound, &ours);
                        for options in options() {
                            let theirs = staged.args(n, k);
                            let report = checked::run(&program, &theirs, &options).unwrap_or_else(|e| panic!("{e}"));
                            assert!(report.is_clean(), "{fill:?} {options:?}\n{program}\n{:?}", report.diagnostics);
                            assert_eq!(values(&ours[2]), values(&theirs[2]), "{fill:?} {options:?}\n{program}");
                        }
                        sums.push(values(&ours[2]));
                    }
                    assert!(sums.iter().all(|s| *s == sums[0]), "{fill:?} {dtype}: {sums:?}");
                }
            }
        }
    }
}

/// What a load is made of: the bytes of its copies, or why there are none.
fn copies(program: &Program) -> (Vec<u32>, Vec<String>) {
    let mut bytes = Vec::new();
    each(&program.body, &mut |op| {
        if let OpKind::AsyncCopy { to, width, .. } = &op.kind {
            bytes.push(width * program.dtype(to.space).unwrap().bytes());
        }
    });
    bytes.sort_unstable();
    bytes.dedup();
    let fallbacks = program.remarks.iter().filter(|r| r.kind == RemarkKind::Fallback);
    (bytes, fallbacks.map(|r| r.text.clone()).collect())
}

#[test]
fn copies_are_as_wide_as_is_known_to_be_legal() {
    let of = |fill, dtype, aligned| copies(&Staged { fill, dtype, aligned, ..PLAIN }.program());
    for dtype in [Dtype::F32, Dtype::F16] {
        assert_eq!(of(Fill::Tiles, dtype, true), (vec![16], vec![]));
        assert_eq!(of(Fill::Vectors, dtype, true), (vec![16], vec![]));
    }
    // How long rows are is the launch's to find.
    assert_eq!(of(Fill::Tiles, Dtype::F32, false), (vec![16], vec![]));
    assert_eq!(of(Fill::Tiles, Dtype::F16, false), (vec![16], vec![]));
    assert_eq!(of(Fill::Elements, Dtype::F32, true), (vec![4], vec![]));
    // Two bytes are too few: said aloud, and no wait for what is not asynchronous.
    let elements = Class { reads: Width::Element, ..Class::WIDEST };
    for (fill, class) in [(Fill::Tiles, elements), (Fill::Elements, Class::WIDEST)] {
        let staged = Staged { fill, dtype: Dtype::F16, ..PLAIN };
        let bound = Kernel { class, ..staged.kernel() };
        let program = crate::lower::lower_bound(&bound, Target::Sm80).unwrap();
        let (bytes, why) = copies(&program);
        assert_eq!(bytes, [0u32; 0]);
        let words = ["1 element", "2 bytes", "an element"];
        assert!(why.iter().all(|w| words.iter().any(|word| w.contains(word))) && !why.is_empty(), "{why:?}");
        assert_eq!(count(&program, |kind| matches!(kind, OpKind::AsyncWait { .. })), 0);
    }
}

#[test]
fn the_stages_are_slots_of_one_array_and_are_said() {
    let program = Staged { stages: 3, ..PLAIN }.program();
    let slots: Vec<_> = program.shared.values().map(|s| (s.name.as_str(), s.len, s.slots)).collect();
    assert_eq!(slots, [("ws", 3 * 256, 3), ("xs", 3 * 128, 3)]);
    assert_eq!(program.shared_bytes, 3 * (256 + 128) * 4);
    let said: Vec<_> = program.remarks.iter().map(|r| r.text.as_str()).collect();
    let text = "`ws`, `xs` in 3 stages of 1536 bytes a block: up to 3072 bytes a block are in flight, 48 a thread";
    assert_eq!(said, [text]);
}

// ---- what is wrong is found ----

fn count(program: &Program, wanted: impl Fn(&OpKind) -> bool) -> usize {
    visit::count(&program.body, &wanted)
}

/// Changes the operation that comes `nth` among those that are `wanted`; `change` says whether it stays.
fn change(
    ops: &mut Vec<Op>,
    wanted: &impl Fn(&OpKind) -> bool,
    nth: &mut usize,
    change_it: &mut impl FnMut(&mut OpKind) -> bool,
) {
    let mut at = 0;
    while at < ops.len() {
        if wanted(&ops[at].kind) {
            if *nth == 0 && !change_it(&mut ops[at].kind) {
                ops.remove(at);
                *nth = usize::MAX;
                continue;
            }
            *nth = nth.wrapping_sub(1);
        }
        match &mut ops[at].kind {
            OpKind::If { then, otherwise, .. } => {
                change(then, wanted, nth, change_it);
                change(otherwise, wanted, nth, change_it);
            }
            OpKind::For { body, .. } => change(body, wanted, nth, change_it),
            _ => {}
        }
        at += 1;
    }
}

/// The program once for every operation that is `wanted`, with that one changed.
fn mutants(
    program: &Program,
    wanted: impl Fn(&OpKind) -> bool,
    mut change_it: impl FnMut(&mut OpKind) -> bool,
) -> Vec<Program> {
    let mutant = |nth: usize| {
        let mut mutant = program.clone();
        let mut left = nth;
        change(&mut mutant.body, &wanted, &mut left, &mut change_it);
        mutant
    };
    let all: Vec<Program> = (0..count(program, &wanted)).map(mutant).collect();
    assert!(!all.is_empty());
    all
}

fn reports(staged: &Staged, program: &Program) -> Vec<CheckedReport> {
    // Seven steps: every slot is used twice, and the first again when the loop is entered again.
    let k = 7 * 32 * staged.vector();
    options().map(|o| checked::run(program, &staged.args(2, k), &o).unwrap_or_else(|e| panic!("{e}"))).collect()
}

/// Every schedule finds something, whenever copies are made.
fn caught(staged: &Staged, what: &str, mutants: Vec<Program>) {
    for (i, mutant) in mutants.iter().enumerate() {
        for report in reports(staged, mutant) {
            assert!(!report.is_clean(), "{what} {i} of {:?}, {} stages\n{mutant}", staged.fill, staged.stages);
        }
    }
}

fn protocols() -> Vec<Staged> {
    let fills = [Fill::Tiles, Fill::Vectors];
    fills.into_iter().flat_map(|fill| (1..=3).map(move |stages| Staged { fill, stages, times: 2, ..PLAIN })).collect()
}

#[test]
fn a_wait_a_commit_or_a_barrier_less_is_found() {
    for staged in protocols() {
        let program = staged.program();
        assert!(reports(&staged, &program).iter().all(CheckedReport::is_clean));
        caught(&staged, "wait", mutants(&program, |k| matches!(k, OpKind::AsyncWait { .. }), |_| false));
        caught(&staged, "commit", mutants(&program, |k| matches!(k, OpKind::AsyncCommit), |_| false));
        caught(&staged, "barrier", mutants(&program, |k| matches!(k, OpKind::Barrier), |_| false));
    }
}

#[test]
fn a_wait_for_too_few_or_too_many_is_found() {
    for staged in protocols() {
        let program = staged.program();
        let wait = |k: &OpKind| matches!(k, OpKind::AsyncWait { .. });
        let by = |difference: i32| {
            mutants(&program, wait, move |k| {
                if let OpKind::AsyncWait { pending } = k {
                    *pending = pending.saturating_add_signed(difference);
                }
                true
            })
        };
        caught(&staged, "wait for fewer", by(1));
        // One too many is no mistake but a loss, which shows in how far ahead the loads were.
        let ahead = |p: &Program| reports(&staged, p).iter().map(|r| r.counters.groups_in_flight).max().unwrap();
        let expected = (staged.stages - 2).max(0) as u32;
        assert_eq!(ahead(&program), expected, "{} stages", staged.stages);
        if expected > 0 {
            let mut strict = program.clone();
            each_mut(&mut strict.body, &mut |op| {
                if let OpKind::AsyncWait { pending } = &mut op.kind {
                    *pending -= 1;
                }
            });
            assert_eq!(ahead(&strict), expected - 1);
        }
    }
}

#[test]
fn a_slot_beside_the_right_one_is_found() {
    for staged in protocols().into_iter().filter(|s| s.stages > 1) {
        let program = staged.program();
        let pitch = |p: &Program, space: Space| match space {
            Space::Shared(s) => i64::from(p.shared[s].len / p.shared[s].slots),
            _ => 0,
        };
        for by in [1, -1] {
            // Copies.
            for nth in 0..count(&program, |k| matches!(k, OpKind::AsyncCopy { .. })) {
                let mut mutant = program.clone();
                let (values, shapes) = (&mut mutant.values, program.clone());
                let mut left = nth;
                change(&mut mutant.body, &|k| matches!(k, OpKind::AsyncCopy { .. }), &mut left, &mut |k| {
                    if let OpKind::AsyncCopy { to, .. } = k {
                        let span = to.span;
                        let shift = by * pitch(&shapes, to.space);
                        let shift = values.push(Value { kind: ValueKind::Int(shift), ty: ValueType::Index, span });
                        let kind = ValueKind::Binary(BinaryOp::Add, to.offset, shift);
                        to.offset = values.push(Value { kind, ty: ValueType::Index, span });
                    }
                    true
                });
                caught(&staged, "copy into slot", vec![mutant]);
            }
            // Reads.
            let reads = program.values.iter().filter_map(|(id, value)| match value.kind {
                ValueKind::Load(memory) if matches!(memory.space, Space::Shared(_)) => Some((id, memory)),
                _ => None,
            });
            for (id, mut memory) in reads.collect::<Vec<_>>() {
                let mut mutant = program.clone();
                let span = memory.span;
                let shift = by * pitch(&program, memory.space);
                let shift = mutant.values.push(Value { kind: ValueKind::Int(shift), ty: ValueType::Index, span });
                let kind = ValueKind::Binary(BinaryOp::Add, memory.offset, shift);
                memory.offset = mutant.values.push(Value { kind, ty: ValueType::Index, span });
                mutant.values[id].kind = ValueKind::Load(memory);
                caught(&staged, "read of slot", vec![mutant]);
            }
        }
    }
}

#[test]
fn what_is_found_has_its_code() {
    let staged = Staged { stages: 2, ..PLAIN };
    let program = staged.program();
    let of = |mutant: &Program| -> Vec<String> {
        let reports = reports(&staged, mutant);
        let mut codes: Vec<_> = reports.iter().flat_map(|r| r.diagnostics.iter().map(|d| d.code.to_string())).collect();
        codes.sort();
        codes.dedup();
        codes
    };
    let waits = mutants(&program, |k| matches!(k, OpKind::AsyncWait { .. }), |_| false);
    assert!(of(&waits[0]).contains(&"TK0403".to_string()), "{:?}", of(&waits[0]));
    let barriers = mutants(&program, |k| matches!(k, OpKind::Barrier), |_| false);
    assert!(of(&barriers[0]).contains(&"TK0401".to_string()), "{:?}", of(&barriers[0]));
}
