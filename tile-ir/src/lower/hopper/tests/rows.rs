//! Rings of bulk copies: which kernels have one, what it computes on ragged shapes, and that a mistake in it is found.

use crate::ir::*;
use crate::lower::lower_bound;
use crate::lowered::visit::count;
use crate::lowered::{OpKind, Program};
use crate::testing::parsed;

/// What a test varies of the kernel.
#[derive(Clone, Copy)]
struct Rows {
    /// Iterations, where they are not a function of K; every one has as many columns.
    trips: Option<i64>,
    stages: i64,
    columns: i64,
    threads: [i64; 2],
    tma: bool,
    /// Whether the threads add up both rows across warps, in every iteration.
    across: bool,
}

const CHUNKS: Rows = Rows { trips: None, stages: 3, columns: 256, threads: [32, 2], tma: true, across: false };

/// Sums of the rows of `w: (N, K)` in `y: (N,)`, a warp a row, `columns` of them an iteration.
fn rows(r: Rows) -> Kernel {
    let Rows { stages, columns, threads: [lanes, warps], .. } = r;
    let trips = r.trips.map_or_else(|| format!("ceil_div(K, {columns})"), |trips| trips.to_string());
    let pieces = columns / lanes;
    let tma = if r.tma { "" } else { ".tma(false)" };
    let sum = match r.across {
        false => format!("for i in 0..{pieces} {{ acc = acc + ws[[warp, i * {lanes} + lane]]; }}"),
        true => format!(
            "let mut own = 0.0f32;
            for i in 0..{pieces} {{ own = own + ws[[warp, i * {lanes} + lane]]; }}
            let both = thread_allreduce(Sum, own, warp);
            acc = acc + both;"
        ),
    };
    // A warp that is not whole reduces over its index.
    let whole = if lanes == 32 { "warp_reduce(Sum, acc)" } else { "thread_allreduce(Sum, acc, lane)" };
    parsed(&format!(
        "#[require(K % 4 == 0)]
        #[pdl(independent = [w])]
        kernel row_sums(w: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N,)>) {{
            let [block] = blocks([ceil_div(N, 2)]);
            let [lane, warp] = threads([{lanes}, {warps}]);
            let first = block * 2;
            let mut ws = alloc_shared::<f32>([2, {columns}]);
            let mut acc = 0.0f32;
            for c in pipelined(0..{trips}, {stages}) {{
                let column = c * {columns};
                copy(w.at([first, column]), &mut ws){tma};
                {sum}
            }}
            let sum = {whole};
            if lane == 0 {{
                *y.masked_mut([first + warp]) = sum;
            }}
        }}"
    ))
}

fn lowered(r: Rows, target: Target) -> Program {
    lower_bound(&crate::testing::bound(&rows(r)), target).unwrap_or_else(|all| panic!("{all:#?}"))
}

fn bulk_copies(program: &Program) -> usize {
    count(&program.body, &|op| matches!(op, OpKind::BulkLoad { .. }))
}

#[test]
fn long_rows_have_a_ring_and_a_producer() {
    let program = lowered(CHUNKS, Target::Sm90a);
    // A warp more than the author's.
    assert_eq!(program.launch.threads, [96, 1, 1]);
    assert!(bulk_copies(&program) > 0);
    assert_eq!(count(&program.body, &|op| matches!(op, OpKind::AsyncCopy { .. })), 0);
    assert_eq!(program.shared.values().map(|a| a.slots).max(), Some(3));
    assert_eq!(program.barriers.values().map(|b| b.len).collect::<Vec<_>>(), [3, 3]);
    // Its first copies stand above the wait for the previous kernel.
    let text = program.to_string();
    assert!(text.find("bulk load") < text.find("wait for the previous kernel"), "{text}");
}

#[test]
fn rows_that_are_read_once_leave_the_cache_first() {
    let mut kernel = rows(CHUNKS);
    for stmt in kernel.stmts.values_mut() {
        if let StmtKind::Tile(TileOp::Copy { evict, .. }) = &mut stmt.kind {
            *evict = Some(Eviction { cases: Vec::new(), otherwise: Evict::First });
        }
    }
    let program = lower_bound(&crate::testing::bound(&kernel), Target::Sm90a).unwrap_or_else(|all| panic!("{all:#?}"));
    let hinted = |op: &OpKind| matches!(op, OpKind::BulkLoad { evict: Some(Evict::First), .. });
    assert_eq!(count(&program.body, &hinted), bulk_copies(&program));
    assert!(bulk_copies(&program) > 0);
}

#[test]
fn a_ring_is_as_deep_as_shared_memory() {
    let deep = Rows { stages: 20, ..CHUNKS };
    let program = lowered(deep, Target::Sm90a);
    assert_eq!(program.barriers.values().map(|b| b.len).collect::<Vec<_>>(), [20, 20]);
    // Written out once a stage, a loop has fewer.
    let error = crate::lower::lower_bound(&crate::testing::bound(&rows(deep)), Target::Sm80).unwrap_err();
    assert_eq!(error[0].message, "a pipelined loop has 1 to 8 stages, not 20");
}

#[test]
fn iterations_with_a_slot_each_need_no_barriers_for_empty_slots() {
    let program = lowered(Rows { trips: Some(2), ..CHUNKS }, Target::Sm90a);
    assert_eq!(program.barriers.values().map(|b| b.len).collect::<Vec<_>>(), [2]);
    assert_eq!(program.shared.values().map(|a| a.slots).max(), Some(2));
    assert_eq!(count(&program.body, &|op| matches!(op, OpKind::BarrierArrive { .. })), 0);
}

#[test]
fn what_has_no_ring_is_copied_by_every_thread_and_says_why() {
    let said = |r: Rows| {
        let program = lowered(r, Target::Sm90a);
        assert_eq!(bulk_copies(&program), 0);
        let remarks: Vec<String> = program.remarks.iter().map(|r| r.text.clone()).collect();
        remarks.join("\n")
    };
    assert!(said(Rows { tma: false, ..CHUNKS }).contains("a copy says `.tma(false)`"));
    assert!(said(Rows { threads: [24, 2], ..CHUNKS }).contains("48 threads are not whole warps"));
    // Short rows are no lesser form.
    assert!(!said(Rows { columns: 128, ..CHUNKS }).contains("in bulk"));
    assert_eq!(bulk_copies(&lowered(CHUNKS, Target::Sm80)), 0);
}

#[cfg(feature = "sim")]
mod simulated {
    use super::*;
    use crate::lowered::Op;
    use crate::lowered::visit::{each_list_mut, each_mut};
    use crate::sim::checked::{CheckedOptions, CheckedReport, Copies, run};
    use crate::sim::{Argument, Memory, TensorArgument};
    use std::sync::Arc;

    /// Small integers, whose sums are exact.
    fn element(row: i64, column: i64) -> f32 {
        ((row * 7 + column * 3 + column / 13) % 5 - 2) as f32
    }

    fn tensor(shape: &[i64], pitch: i64, f: impl Fn(i64, i64) -> f32) -> Argument {
        let rows = if shape.len() == 2 { shape[0] } else { 1 };
        let all: Vec<u8> =
            (0..rows).flat_map(|r| (0..pitch).map(move |c| (r, c))).flat_map(|(r, c)| f(r, c).to_le_bytes()).collect();
        let memory = Memory::zeros(all.len());
        memory.write(0, &all).unwrap();
        let strides = if shape.len() == 2 { vec![pitch, 1] } else { vec![1] };
        let (dtype, shape, memory) = (Dtype::F32, shape.to_vec(), Arc::new(memory));
        Argument::Tensor(TensorArgument { dtype, shape, strides, memory, offset: 0 })
    }

    /// What a program finds and computes, under one schedule.
    fn execute(program: &Program, [n, k, pitch]: [i64; 3], options: &CheckedOptions) -> (CheckedReport, Vec<f32>) {
        let args = [tensor(&[n, k], pitch, element), tensor(&[n], n, |_, _| f32::NAN)];
        let report = run(program, &args, options).expect("arguments fit");
        let Argument::Tensor(y) = &args[1] else { return (report, Vec::new()) };
        let mut bytes = vec![0; y.memory.len()];
        y.memory.read(0, &mut bytes).unwrap();
        let sums = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        (report, sums)
    }

    fn options() -> impl Iterator<Item = CheckedOptions> {
        (0..6).map(|seed| CheckedOptions {
            seed,
            copies: [Copies::Early, Copies::Late, Copies::Seeded][seed as usize % 3],
            step_limit: 1_000_000,
            ..CheckedOptions::default()
        })
    }

    fn sums(n: i64, columns: i64) -> Vec<f32> {
        (0..n).map(|row| (0..columns).map(|column| element(row, column)).sum()).collect()
    }

    #[test]
    fn ragged_rows_and_columns_read_zeros_however_it_is_scheduled() {
        for (r, k_used) in [(CHUNKS, None), (Rows { trips: Some(2), ..CHUNKS }, Some(512))] {
            for target in [Target::Sm90a, Target::Sm80] {
                let program = lowered(r, target);
                for [n, k, pitch] in [[1, 4, 4], [3, 256, 256], [4, 700, 704], [5, 2048, 2048], [3, 1284, 1284]] {
                    for options in options() {
                        let (report, result) = execute(&program, [n, k, pitch], &options);
                        assert!(report.is_clean(), "{target} {n}x{k}:\n{}", report.render(&program));
                        assert_eq!(
                            result,
                            sums(n, k_used.unwrap_or(k).min(k)),
                            "{target} {n}x{k} seed {}",
                            options.seed
                        );
                    }
                }
            }
        }
    }

    /// A loop around the ring goes through its slots again, and what threads load for themselves in an iteration stays theirs.
    #[test]
    fn a_ring_in_another_loop_goes_on_where_it_was() {
        let bound = parsed(
            "#[require(K % 4 == 0)]
            kernel row_sums_twice(w: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N,)>) {
                let [block] = blocks([ceil_div(N, 4)]);
                let [lane, warp] = threads([32, 2]);
                let mut ws = alloc_shared::<f32>([2, 256]);
                let mut own = alloc_local::<f32>([8]);
                for half in 0..2 {
                    let first = block * 4 + half * 2;
                    let mut acc = 0.0f32;
                    for c in pipelined(0..ceil_div(K, 256), 3) {
                        let column = c * 256;
                        copy(w.at([first, column]), &mut ws);
                        for i in unroll(0..8) { own[i] = w.masked([first + warp, column + i * 32 + lane]); }
                        for i in unroll(0..8) { acc = acc + ws[[warp, i * 32 + lane]] + own[i]; }
                    }
                    let sum = warp_reduce(Sum, acc);
                    if lane == 0 {
                        *y.masked_mut([first + warp]) = sum;
                    }
                }
            }",
        );
        let program =
            lower_bound(&crate::testing::bound(&bound), Target::Sm90a).unwrap_or_else(|all| panic!("{all:#?}"));
        assert!(bulk_copies(&program) > 0);
        for [n, k] in [[1, 4], [4, 700], [7, 2048], [5, 1284]] {
            for options in options() {
                let (report, result) = execute(&program, [n, k, k], &options);
                assert!(report.is_clean(), "{n}x{k}:\n{}", report.render(&program));
                let twice: Vec<f32> = sums(n, k).iter().map(|sum| 2.0 * sum).collect();
                assert_eq!(result, twice, "{n}x{k} seed {}", options.seed);
            }
        }
    }

    /// `sync_threads()` and reductions across warps cover the author's threads only; the producer warp never executes them.
    #[test]
    fn reductions_across_warps_leave_the_producer_out() {
        let program = lowered(Rows { across: true, ..CHUNKS }, Target::Sm90a);
        let named = |op: &OpKind| matches!(op, OpKind::NamedBarrier { threads: 64, arrive: false, .. });
        assert_eq!((count(&program.body, &named), count(&program.body, &|op| *op == OpKind::Barrier)), (2, 1));
        for options in options() {
            let (report, result) = execute(&program, [4, 700, 704], &options);
            assert!(report.is_clean(), "{}", report.render(&program));
            let rows = sums(4, 700);
            let pairs = [rows[0] + rows[1], rows[2] + rows[3]];
            assert_eq!(result, [pairs[0], pairs[0], pairs[1], pairs[1]]);
        }
    }

    /// Removes the operations that `drop` names, wherever they stand.
    fn without(ops: &mut Vec<Op>, drop: &impl Fn(&OpKind) -> bool) {
        each_list_mut(ops, &mut |ops| ops.retain(|op| !drop(&op.kind)));
    }

    /// Changes every operation.
    fn change(ops: &mut [Op], f: &mut impl FnMut(&mut OpKind)) {
        each_mut(ops, &mut |op| f(&mut op.kind));
    }

    /// Every way of executing it reports one of these texts.
    fn is_found(name: &str, program: &Program, texts: &[&str]) {
        for options in options() {
            let (report, _) = execute(program, [4, 2048, 2048], &options);
            let all = report.render(program);
            assert!(texts.iter().any(|text| all.contains(text)), "{name}, seed {}:\n{all}", options.seed);
        }
    }

    #[test]
    fn every_mistake_in_the_ring_is_found() {
        let right = lowered(CHUNKS, Target::Sm90a);
        let [full, empty] = [0, 1].map(crate::lowered::BarrierId::from_u32);
        let dropped = |drop: &dyn Fn(&OpKind) -> bool| {
            let mut program = right.clone();
            without(&mut program.body, &|op| drop(op));
            assert_ne!(program.body, right.body);
            program
        };
        let waits =
            |array| move |op: &OpKind| matches!(op, OpKind::BarrierWait { barrier, .. } if barrier.array == array);
        is_found(
            "no wait for an empty slot",
            &dropped(&waits(empty)),
            &["is overwritten while it is read", "is written twice at once", "more than the 1 arrivals"],
        );
        is_found(
            "no wait for a full slot",
            &dropped(&waits(full)),
            &["is read before it is complete", "is read before it is written", "is overwritten while it is read"],
        );
        let arrivals = |op: &OpKind| matches!(op, OpKind::BarrierArrive { .. });
        is_found("slots are not given back", &dropped(&arrivals), &["can go on"]);
        let fence = |op: &OpKind| matches!(op, OpKind::FenceBarrierInit);
        is_found("no fence", &dropped(&fence), &["no fence made its initialisation visible"]);
        let block = |op: &OpKind| matches!(op, OpKind::Barrier);
        is_found("no barrier after the initialisation", &dropped(&block), &["initialis"]);

        for (name, wanted, texts) in [
            ("too many bytes are expected", 16, &["can go on"][..]),
            (
                "too few bytes are expected",
                -16,
                &["too few bytes were expected", "is read before it is complete", "can go on"],
            ),
        ] {
            let mut program = right.clone();
            let by = crate::lowered::Value {
                kind: crate::lowered::ValueKind::Int(wanted),
                ty: crate::lowered::ValueType::Index,
                span: SpanId::from_u32(0),
            };
            let by = program.values.push(by);
            let mut body = std::mem::take(&mut program.body);
            change(&mut body, &mut |op| {
                if let OpKind::BarrierExpect { bytes, .. } = op {
                    let sum = crate::lowered::Value {
                        kind: crate::lowered::ValueKind::Binary(BinaryOp::Add, *bytes, by),
                        ty: crate::lowered::ValueType::Index,
                        span: SpanId::from_u32(0),
                    };
                    *bytes = program.values.push(sum);
                }
            });
            program.body = body;
            is_found(name, &program, texts);
        }
    }

    /// A read that is not clipped gives what an earlier iteration left, or nothing that was ever written.
    #[test]
    fn a_read_that_is_not_clipped_is_found() {
        let mut program = lowered(CHUNKS, Target::Sm90a);
        for value in program.values.values_mut() {
            if let crate::lowered::ValueKind::Load(memory) = &mut value.kind
                && matches!(memory.space, crate::lowered::Space::Shared(_))
            {
                memory.guard = None;
            }
        }
        let (report, _) = execute(&program, [3, 256, 256], &CheckedOptions::default());
        assert!(report.render(&program).contains("is read before it is written"), "{}", report.render(&program));
        let (_, result) = execute(&program, [4, 1028, 1028], &CheckedOptions::default());
        assert_ne!(result, sums(4, 1028));
    }
}
