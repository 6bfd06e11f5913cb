//! Pipelined loops into shared memory: the sums are those of a plain loop however loads are issued and copies made, and
//! a program that waits, synchronises or addresses its slots wrongly is found out.

use super::gemv::noise;
use super::*;
use crate::ir::*;
use crate::lower::{bind, lower_bound};
use crate::lowered::visit::{self, each, each_mut};
use crate::lowered::{Op, OpKind, Program, RemarkKind, Space, Value, ValueKind, ValueType};
use crate::sim::checked::{self, CheckedOptions, CheckedReport, Copies};
use crate::testing::parsed;

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
        let Staged { dtype, stages, first, step, .. } = self;
        let vector = self.vector();
        let chunk = 32 * vector;
        let loads = match self.fill {
            Fill::Tiles => "copy(w.at([bn * 2, column]), &mut ws); copy(x.at([column]), &mut xs);".to_owned(),
            Fill::Vectors | Fill::Elements => {
                let (range, at) = match self.fill {
                    Fill::Vectors => (format!("vectorized(0..{vector})"), format!("tk * {vector} + v")),
                    _ => (format!("unroll(0..{vector})"), "v * 32 + tk".to_owned()),
                };
                format!(
                    "for v in {range} {{ ws[[tn, {at}]] = w.masked([bn * 2 + tn, column + ({at})]); }}
                    if tn == 0 {{ for v in {range} {{ xs[{at}] = x.masked([column + ({at})]); }} }}"
                )
            }
        };
        let repeated = if self.times == 0 {
            ["".to_owned(), "".to_owned()]
        } else {
            [format!("for time in 0..{} {{", self.times), "}".to_owned()]
        };
        let [open, close] = repeated;
        let require = if self.aligned { format!("#[require(K % {vector} == 0)]") } else { String::new() };
        parsed(&format!(
            "{require}
            kernel staged(w: &Tensor<{dtype}, (N, K)>, x: &Tensor<{dtype}, (K,)>, y: &mut Tensor<f32, (N,)>) {{
                let [bn] = blocks([ceil_div(N, 2)]);
                let [tk, tn] = threads([32, 2]);
                let mut ws = alloc_shared::<{dtype}>([2, {chunk}]);
                let mut xs = alloc_shared::<{dtype}>([{chunk}]);
                let mut acc = 0.0f32;
                {open}
                for c in pipelined({first}..ceil_div(K, {chunk}), {stages}).step_by({step}) {{
                    let column = c * {chunk};
                    {loads}
                    for v in unroll(0..{vector}) {{
                        acc = fma(ws[[1 - tn, tk * {vector} + v]].cast::<f32>(), xs[tk * {vector} + v].cast::<f32>(), acc);
                    }}
                }}
                {close}
                let sum = thread_allreduce(Sum, acc, tk);
                if tk == 0 && bn * 2 + (1 - tn) < N {{
                    y[bn * 2 + (1 - tn)] = sum;
                }}
            }}"
        ))
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
        let program = crate::lower::lower_bound(&crate::testing::bound(&bound), Target::Sm80).unwrap();
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
