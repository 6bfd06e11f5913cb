//! Tiles of fewer rows than an instruction has, deep rings, and what is loaded before the previous kernel is done.

use super::{COOPERATIVE, Gemm, count, gemm, lowered};
use crate::ir::*;
use crate::lower::lower_bound;
use crate::lowered::visit::{each_list_mut, each_mut};
use crate::lowered::{OpKind, ParameterKind, Program};
use crate::sim::checked::{CheckedOptions, CheckedReport, Copies, run as run_checked};
use crate::sim::fast::run as run_fast;
use crate::sim::{Argument, Memory, TensorArgument, numeric};
use std::sync::Arc;

const NARROW: Gemm = Gemm { tile: [16, 56, 128], stages: 3, threads: 128, cluster: [1, 1], ..COOPERATIVE };

/// Small integers, whose products and sums are exact.
fn element(seed: usize, i: usize) -> f32 {
    ((i * 7 + i / 13 + seed * 3) % 5) as f32 - 2.0
}

fn tensor(dtype: Dtype, shape: &[i64], f: impl Fn(usize) -> f32) -> Argument {
    let elements = shape.iter().product::<i64>() as usize;
    let memory = Memory::zeros(elements * dtype.bytes() as usize);
    for i in 0..elements {
        memory.store(i * dtype.bytes() as usize, dtype, numeric::encode(dtype, f(i)));
    }
    let strides = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
    Argument::Tensor(TensorArgument { dtype, shape: shape.to_vec(), strides, memory: Arc::new(memory), offset: 0 })
}

pub(super) fn arguments(g: &Gemm, [m, n, k]: [i64; 3]) -> [Argument; 3] {
    [
        tensor(g.dtype, &if g.stored[0] { [k, m] } else { [m, k] }, |i| element(0, i)),
        tensor(g.dtype, &if g.stored[1] { [n, k] } else { [k, n] }, |i| element(1, i)),
        tensor(g.out, &[m, n], |_| f32::NAN),
    ]
}

pub(super) fn bits(argument: &Argument) -> Vec<u32> {
    let Argument::Tensor(t) = argument else { panic!("a tensor") };
    let elements = t.shape.iter().product::<i64>() as usize;
    (0..elements).map(|i| t.memory.load(i * t.dtype.bytes() as usize, t.dtype)).collect()
}

pub(super) fn checked(program: &Program, args: &[Argument], copies: Copies) -> CheckedReport {
    let options = CheckedOptions { clusters: 2, step_limit: 20_000_000, copies, ..CheckedOptions::default() };
    run_checked(program, args, &options).unwrap_or_else(|e| panic!("{e}"))
}

/// Both simulators compute the same bits, and the checked one finds nothing.
fn is_right(g: &Gemm, shape: [i64; 3]) {
    let bound = gemm(g);
    let program = lowered(g);
    let fast = arguments(g, shape);
    run_fast(&crate::testing::bound(&bound), &fast).unwrap_or_else(|e| panic!("{g:?} {shape:?}: {e}"));
    let args = arguments(g, shape);
    let report = checked(&program, &args, Copies::Seeded);
    assert!(report.is_clean(), "{g:?} {shape:?}\n{}", report.render(&program));
    assert!(bits(&args[2]) == bits(&fast[2]), "{g:?} {shape:?}");
    assert!(shape[0] * shape[1] == 0 || bits(&fast[2]).iter().any(|b| *b != 0) == (shape[2] > 0), "{g:?} {shape:?}");
}

#[test]
fn narrow_tiles_are_right_on_ragged_shapes() {
    for (bm, bn) in [(8, 56), (16, 32), (32, 24), (48, 16)] {
        for doubled in [false, true] {
            let g = Gemm { tile: [bm, bn, 64], doubled, ..NARROW };
            for m in [1, 3, bm - 1, bm, 2 * bm + 5] {
                is_right(&g, [m, bn + 8, 72]);
            }
            is_right(&g, [bm, bn, 8]);
            is_right(&g, [bm, bn + 2, 64]);
        }
    }
    // Two by two; columns are tested for a whole tile at once.
    let program = lowered(&NARROW);
    assert_eq!(count(&program.body, &|op| matches!(op, OpKind::VectorStore { width: 2, .. })), 2);
    is_right(&NARROW, [5, 64, 0]);
    is_right(&NARROW, [5, 120, 520]);
    is_right(&Gemm { dtype: Dtype::F16, out: Dtype::F32, persistent: false, ..NARROW }, [20, 64, 136]);
}

/// An instruction has 64 rows: those behind the tile's are of no element.
#[test]
fn rows_behind_a_narrow_tile_are_not_its_own() {
    let program = lowered(&NARROW);
    let products = |rows: u32| count(&program.body, &|op| matches!(op, OpKind::Wgmma { rows: r, .. } if *r == rows));
    assert_eq!((products(16), products(64)), (8, 0));
    // The window on the last slot ends 48 rows behind it, in what the block has.
    let a_s = program.shared.values().find(|s| s.name == "a_s").unwrap();
    assert_eq!(a_s.len, 3 * 16 * 128);
    assert!(a_s.offset + a_s.len * 2 + 48 * 128 <= program.shared_bytes);
    // Nothing lies behind a ring that is the last array: the block has the window nevertheless.
    let small = lowered(&Gemm { tile: [8, 8, 64], stages: 1, ..NARROW });
    let a_s = small.shared.values().find(|s| s.name == "a_s").unwrap();
    assert!(a_s.offset + 8 * 128 + 56 * 128 <= small.shared_bytes, "{}", small.shared_bytes);
    is_right(&Gemm { tile: [8, 8, 64], stages: 1, ..NARROW }, [9, 9, 72].map(|n| n / 8 * 8 + 8));
}

/// What the accumulator has of rows behind the tile is found where it is stored.
#[test]
fn a_store_of_rows_behind_the_tile_is_found() {
    let mut program = lowered(&NARROW);
    let mut planted = 0;
    each_mut(&mut program.body, &mut |op| {
        if let OpKind::Wgmma { rows, .. } = &mut op.kind {
            *rows = 8;
            planted += 1;
        }
    });
    assert_eq!(planted, 8);
    for copies in [Copies::Early, Copies::Late] {
        let args = arguments(&NARROW, [16, 56, 128]);
        let text = checked(&program, &args, copies).render(&program);
        assert!(text.contains("element 2 of `acc` is read before it is written"), "{text}");
    }
}

#[test]
fn rings_are_as_deep_as_shared_memory() {
    let deep = Gemm { tile: [16, 32, 64], stages: 30, ..NARROW };
    let program = lowered(&deep);
    assert_eq!(program.barriers.values().map(|b| b.len).collect::<Vec<_>>(), [30, 30]);
    is_right(&deep, [16, 32, 40 * 64]);
    // Written out once a stage, a loop has fewer.
    let error = lower_bound(&crate::testing::bound(&gemm(&Gemm { threads: 96, ..deep })), Target::Sm90a).unwrap_err();
    assert_eq!(error[0].message, "a pipelined loop has 1 to 8 stages, not 30");
    assert!(lower_bound(&crate::testing::bound(&gemm(&deep)), Target::Sm80).is_err());
    let error = lower_bound(&crate::testing::bound(&gemm(&Gemm { stages: 64, ..deep })), Target::Sm90a).unwrap_err();
    assert!(error[0].message.contains("232,448"), "{error:?}");
}

const DEPENDENT: Gemm = Gemm { dependent: true, ..NARROW };

/// Kernels of every form that may begin before the previous one is done.
fn dependent() -> Vec<(Gemm, [i64; 3])> {
    let wide = Gemm { dependent: true, tile: [128, 32, 64], stages: 3, ..COOPERATIVE };
    vec![
        (DEPENDENT, [16, 112, 128 * 10]),
        (DEPENDENT, [20, 112, 128 * 2]),
        (DEPENDENT, [16, 112, 8]),
        (Gemm { persistent: false, ..DEPENDENT }, [16, 64, 128 * 4]),
        (Gemm { tile: [64, 16, 64], doubled: true, ..DEPENDENT }, [70, 56, 200]),
        (wide, [136, 136, 264]),
        (Gemm { cluster: [1, 1], ..wide }, [136, 136, 264]),
        (Gemm { cluster: [2, 1], ..wide }, [136, 136, 264]),
        (Gemm { threads: 128, cluster: [1, 1], schedule: Schedule::PingPong, ..wide }, [264, 136, 200]),
    ]
}

#[test]
fn kernels_that_begin_early_are_right() {
    for (g, shape) in dependent() {
        is_right(&g, shape);
    }
}

/// Weights of the first slots are loaded above the wait, unless blocks of a cluster fill slots for each other.
#[test]
fn slots_are_filled_ahead_of_the_wait() {
    for (g, _) in dependent() {
        let program = lowered(&g);
        let ahead = program.params.iter().find_map(|p| match p.kind {
            ParameterKind::Ahead(slots) => Some(i64::from(slots)),
            _ => None,
        });
        // In a cluster along x, b is each block's own and a is shared: slots wait for all of them nevertheless.
        assert_eq!(ahead, (g.cluster == [1, 1]).then_some(g.stages), "{g:?}");
        assert!(program.launch.dependent.is_some());
        let waits = |op: &OpKind| matches!(op, OpKind::Wait);
        assert_eq!(count(&program.body, &waits), 3, "{g:?}");
    }
    let program = lowered(&Gemm { dependent: false, ..DEPENDENT });
    assert_eq!(count(&program.body, &|op| matches!(op, OpKind::Wait | OpKind::LaunchDependents)), 0);
    assert!(!program.params.iter().any(|p| matches!(p.kind, ParameterKind::Ahead(_))));
}

/// Any wait less, and any wait after the launch of dependents, is found.
#[test]
fn a_path_without_a_wait_is_found() {
    for (g, shape) in dependent() {
        let program = lowered(&g);
        for which in 0..3 {
            for swapped in [false, true] {
                let mut mutant = program.clone();
                let mut seen = 0;
                each_list_mut(&mut mutant.body, &mut |ops| {
                    let Some(at) = ops.iter().position(|op| matches!(op.kind, OpKind::Wait)) else { return };
                    if seen == which {
                        if swapped {
                            ops.swap(at, at + 1);
                        } else {
                            ops.remove(at);
                        }
                    }
                    seen += 1;
                });
                assert_eq!(seen, 3);
                let report = checked(&mutant, &arguments(&g, shape), Copies::Seeded);
                assert!(!report.is_clean(), "wait {which} of {g:?}, swapped: {swapped}");
            }
        }
    }
}

/// A dependent tile that is loaded before the wait is found, where TMA loads it.
#[test]
fn a_dependent_load_ahead_of_the_wait_is_found() {
    let mut program = lowered(&DEPENDENT);
    for tensor in &mut program.tensors {
        tensor.independent = false;
    }
    let report = checked(&program, &arguments(&DEPENDENT, [16, 112, 1280]), Copies::Seeded);
    let text = report.render(&program);
    assert!(text.contains("data race with the previous kernel on `b`"), "{text}");
}
