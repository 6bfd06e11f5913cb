//! Reports of kernels whose numbers can be worked out by hand.

use super::*;
use crate::ir::{Dtype, Instance, Kernel, Target};
use crate::lower::lower;
use crate::testing::{gemv, parsed};

fn program(kernel: &Kernel) -> Program {
    lower(kernel, &Instance::default(), Target::Sm90a).unwrap_or_else(|d| panic!("{d:?}"))
}

fn report(kernel: &Kernel, dims: &[(&str, f64)]) -> Report {
    let program = program(kernel);
    let shape = Shape::dense(&program, dims).unwrap();
    explain(&program, &shape, &Machine::H200, None).unwrap()
}

/// The ladder's first rung: a thread a row, through shared memory, an element at a time.
fn naive() -> Kernel {
    parsed(
        r"
            kernel naive(
                x: &Tensor<f16, (K,)>,
                w: &Tensor<f16, (N, K)>,
                y: &mut Tensor<f16, (N,)>,
            ) {
                let [bn] = blocks([ceil_div(N, 128)]);
                let [tn] = threads([128]);
                let row: usize = bn * 128 + tn;
                let mut x_shared = alloc_shared::<f16>([128]);
                let mut w_shared = alloc_shared::<f16>([128, 128]);
                let mut acc: f32 = 0.0f32;
                for bk in 0..ceil_div(K, 128) {
                    x_shared[tn] = x.masked([bk * 128 + tn]);
                    for tk in 0..128 {
                        w_shared[[tn, tk]] = w.masked([row, bk * 128 + tk]);
                    }
                    sync_threads();
                    for tk in 0..128 {
                        acc = fma(x_shared[tk].cast::<f32>(), w_shared[[tn, tk]].cast::<f32>(), acc);
                    }
                    sync_threads();
                }
                if row < N {
                    y[row] = acc.cast::<f16>();
                }
            }
        ",
    )
}

fn close(found: f64, expected: f64, tolerance: f64) -> bool {
    (found - expected).abs() <= tolerance * expected.abs()
}

#[test]
fn the_vectorised_gemv_is_coalesced() {
    let (n, k) = (4096.0, 8192.0);
    let report = report(&gemv(Dtype::F16, 8), &[("N", n), ("K", k)]);
    for place in ["x", "w"] {
        let loads: Vec<_> = report.accesses_to(place).collect();
        assert_eq!(loads.len(), 1, "{report}");
        let load = loads[0];
        assert_eq!((load.width, load.found, load.ideal, load.kind), (16, 16.0, 16.0, AccessKind::Load), "{report}");
        // A row has 8192 / 256 requests.
        assert_eq!(load.requests, n * 32.0);
    }
    assert_eq!(report.grid, [512, 1, 1]);
    // One lane stores one element.
    let store = report.accesses_to("y").next().unwrap();
    assert_eq!((store.width, store.found, store.ideal, store.requests), (2, 1.0, 1.0, n), "{report}");

    let w = report.tensors.iter().find(|t| t.name == "w").unwrap();
    assert_eq!((w.bytes, w.reads, w.reuse()), (n * k * 2.0, n * k * 2.0, 1.0));
    let x = report.tensors.iter().find(|t| t.name == "x").unwrap();
    assert_eq!((x.bytes, x.reads, x.reuse()), (k * 2.0, n * k * 2.0, n));

    // 2NK, and 5 additions a lane and row for the reduction at most.
    let roofline = report.roofline;
    assert_eq!(roofline.unique_bytes, (n * k + n + k) * 2.0);
    assert!(roofline.flops >= 2.0 * n * k && roofline.flops <= 2.0 * n * k + n * 32.0 * 6.0, "{}", roofline.flops);
    assert!(close(roofline.intensity(), 1.0, 0.02), "{}", roofline.intensity());
    assert_eq!(roofline.class(), Class::Memory);
    assert!(close(roofline.time(), n * k * 2.0 / 4.8e12, 1e-3));
}

#[test]
fn a_tail_is_not_read_but_is_computed() {
    // K = 264 is one full step of 256 and a second in which one lane of each warp has data.
    let report = report(&gemv(Dtype::F16, 8), &[("N", 8.0), ("K", 264.0)]);
    let w = report.tensors.iter().find(|t| t.name == "w").unwrap();
    assert_eq!(w.reads, 8.0 * 264.0 * 2.0, "{report}");
    assert!(report.roofline.flops >= 2.0 * 8.0 * 512.0, "{report}");
}

#[test]
fn a_thread_a_row_is_not_coalesced() {
    let report = report(&naive(), &[("N", 4096.0), ("K", 4096.0)]);
    let global = report.accesses_to("w").next().unwrap();
    assert_eq!((global.width, global.found, global.ideal), (2, 32.0, 2.0), "{report}");
    assert_eq!(global.excess(), 16.0);
    // x is read side by side: 64 bytes.
    let x = report.accesses_to("x").next().unwrap();
    assert_eq!((x.found, x.ideal), (2.0, 2.0), "{report}");
    // Rows of 256 bytes of shared memory: every lane in one bank, for the store and for the load.
    let shared: Vec<_> = report.accesses_to("w_shared").map(|a| (a.kind, a.found, a.ideal)).collect();
    assert_eq!(shared, [(AccessKind::Store, 32.0, 1.0), (AccessKind::Load, 32.0, 1.0)], "{report}");
    let broadcast = report.accesses_to("x_shared").find(|a| a.kind == AccessKind::Load).unwrap();
    assert_eq!((broadcast.found, broadcast.ideal), (1.0, 1.0));
    assert_eq!(report.roofline.flops, 2.0 * 4096.0 * 4096.0);
    // 33,024 bytes and the system's 1,024 are 34,048 of 233,472: 6 blocks.
    assert_eq!((report.occupancy.blocks, report.occupancy.limit), (6, Limit::Shared), "{report}");
    assert!(close(report.waves(), 32.0 / (132.0 * 6.0), 1e-12));
}

#[test]
fn a_condition_on_data_is_said() {
    let kernel = parsed(
        r"
            kernel on_data(
                x: &Tensor<f32, (N,)>,
                y: &mut Tensor<f32, (N,)>,
            ) {
                let [bn] = blocks([ceil_div(N, 32)]);
                let [t] = threads([32]);
                if bn * 32 + t < N {
                    if 0.0f32 < x[bn * 32 + t] {
                        y[bn * 32 + t] = sqrt(x[bn * 32 + t]);
                    }
                }
            }
        ",
    );
    let report = report(&kernel, &[("N", 64.0)]);
    assert_eq!(report.undecided.len(), 1, "{report}");
    assert_eq!((report.roofline.flops, report.roofline.functions), (64.0, 64.0));
    assert!(report.to_string().contains("decided by data"), "{report}");
}

#[test]
fn scalars_decide_where_they_are_given() {
    let kernel = parsed(
        r"
            kernel scaled(
                beta: f32,
                y: &mut Tensor<f32, (N,)>,
            ) {
                let [bn] = blocks([ceil_div(N, 32)]);
                let [t] = threads([32]);
                if bn * 32 + t < N {
                    if beta != 0.0f32 {
                        y[bn * 32 + t] = beta * y[bn * 32 + t];
                    }
                }
            }
        ",
    );
    let reads = |dims: &[(&str, f64)]| report(&kernel, dims).tensors[0].reads;
    assert_eq!(reads(&[("N", 64.0), ("beta", 0.0)]), 0.0);
    assert_eq!(reads(&[("N", 64.0), ("beta", 2.0)]), 256.0);
    let undecided = report(&kernel, &[("N", 64.0)]);
    assert_eq!((undecided.tensors[0].reads, undecided.undecided.len()), (256.0, 1));
}

#[test]
fn names_are_checked() {
    let program = program(&gemv(Dtype::F16, 8));
    let missing = Shape::dense(&program, &[("N", 1.0)]).unwrap_err();
    assert!(missing.to_string().contains("the dim K"), "{missing}");
    let unknown = Shape::dense(&program, &[("N", 1.0), ("K", 8.0), ("M", 1.0)]).unwrap_err();
    assert!(unknown.to_string().contains("`M`; it has"), "{unknown}");
}

#[test]
fn a_launch_that_would_be_refused_is_said_to_be() {
    let kernel = gemv(Dtype::F16, 8);
    let broken = report(&kernel, &[("N", 8.0), ("K", 12.0)]);
    assert!(broken.refused.iter().any(|note| note.text == "require(K % 8 == 0)"), "{broken}");
    assert!(broken.to_string().contains("REFUSED"), "{broken}");
    assert_eq!(report(&kernel, &[("N", 8.0), ("K", 16.0)]).refused, []);
}

/// A check about a scalar without a value is not decided, and names it.
#[test]
fn a_check_needs_its_scalars() {
    let kernel = parsed(
        r"
            #[require(n >= 1)]
            kernel rows(y: &mut Tensor<f32, (N,)>, n: usize) {
                let [b] = blocks([N]);
                let [t] = threads([32]);
                if b * n + t < N {
                    y[b * n + t] = 1.0f32;
                }
            }
        ",
    );
    let notes = |notes: &[Note]| notes.iter().map(|note| note.text.clone()).collect::<Vec<_>>();
    let unknown = report(&kernel, &[("N", 64.0)]);
    assert_eq!(unknown.refused, []);
    let [require, index] = &notes(&unknown.unchecked)[..] else { panic!("{unknown}") };
    assert_eq!(require, "require(n >= 1)");
    assert!(index.starts_with("the index ") && index.contains("n *") || index.contains("* n"), "{index}");
    assert!(unknown.to_string().contains("not checked, for want of a scalar's value"), "{unknown}");
    let known = report(&kernel, &[("N", 64.0), ("n", 0.0)]);
    assert_eq!((notes(&known.refused), known.unchecked), (vec!["require(n >= 1)".to_owned()], vec![]));
}

#[test]
fn guards_are_shown_at_their_access() {
    let report = report(&gemv(Dtype::F16, 8), &[("N", 8.0), ("K", 256.0)]);
    let guards: Vec<_> = report.accesses.iter().filter(|a| a.global).map(|a| (&*a.place, a.guard)).collect();
    let masked = Some(crate::lowered::GuardReason::Masked);
    assert_eq!(guards, [("x", masked), ("w", masked), ("y", None)], "{report}");
    assert!(report.to_string().contains("no guards added, no lesser forms"), "{report}");
}

#[test]
fn an_empty_launch_is_explained_too() {
    let report = report(&gemv(Dtype::F16, 8), &[("N", 0.0), ("K", 0.0)]);
    assert_eq!((report.blocks(), report.roofline.flops, report.roofline.intensity()), (0, 0.0, 0.0));
    assert!(!report.to_string().contains("NaN"), "{report}");
}

#[test]
fn the_report_as_text() {
    let program = program(&gemv(Dtype::Bf16, 4));
    let shape = Shape::dense(&program, &[("N", 4096.0), ("K", 4096.0)]).unwrap();
    let resources = Resources { registers: 40, spill_stores: 8, spill_loads: 12 };
    let text = explain(&program, &shape, &Machine::H200, Some(resources)).unwrap().to_string();
    for part in [
        "on H200 SXM with K = 4096, N = 4096",
        "memory bound",
        "206.1 FLOP/B (989.40 TFLOP/s dense bf16 on tensor cores / 4.80 TB/s)",
        "40 registers; SPILLS 8 B stored, 12 B loaded a thread",
        // 40 * 32 = 1280 registers a warp: 12 a partition, 48 in all.
        "12 blocks = 48 of 64 warps a multiprocessor (75%), limited by registers",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}
