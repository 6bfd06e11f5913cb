//! Products of f32 as tf32 by warpgroups.

use super::{COOPERATIVE, Gemm, count, gemm, lowered};
use crate::ir::*;
use crate::lower::lower_bound;
use crate::lowered::visit::each_mut;
use crate::lowered::{OpKind, Program, RemarkKind, ValueKind};
use crate::sim::checked::{CheckedOptions, CheckedReport, Copies, run as run_checked};
use crate::sim::fast::run as run_fast;
use crate::sim::{Argument, Memory, TensorArgument};
use std::sync::Arc;

const TF32: Gemm =
    Gemm { tile: [128, 256, 32], dtype: Dtype::F32, out: Dtype::F32, precision: Precision::Tf32, ..COOPERATIVE };
/// A small one, for the simulators.
const SMALL: Gemm = Gemm { tile: [64, 32, 32], stages: 3, threads: 128, cluster: [1, 1], ..TF32 };

fn element(seed: usize, i: usize) -> f32 {
    ((i * 7 + i / 13 + seed * 3) % 5) as f32 - 2.0
}

/// The integers of [`element`], with bits below those of tf32 that must not count.
fn cluttered(seed: usize, i: usize) -> f32 {
    f32::from_bits(element(seed, i).to_bits() | (i as u32).wrapping_mul(2_654_435_761) >> 19)
}

fn tensor(shape: [i64; 2], f: impl Fn(usize) -> f32) -> Argument {
    let elements = shape.iter().product::<i64>() as usize;
    let memory = Memory::zeros(elements * 4);
    (0..elements).for_each(|i| memory.store(i * 4, Dtype::F32, f(i).to_bits()));
    let (shape, strides) = (shape.to_vec(), vec![shape[1], 1]);
    Argument::Tensor(TensorArgument { dtype: Dtype::F32, shape, strides, memory: Arc::new(memory), offset: 0 })
}

fn arguments([m, n, k]: [i64; 3]) -> [Argument; 3] {
    [tensor([m, k], |i| cluttered(0, i)), tensor([n, k], |i| cluttered(1, i)), tensor([m, n], |_| f32::NAN)]
}

fn expected([m, n, k]: [i64; 3]) -> Vec<u32> {
    let [m, n, k] = [m, n, k].map(|e| e as usize);
    let dot = |i: usize, j: usize| (0..k).fold(0.0, |sum, l| sum + element(0, i * k + l) * element(1, j * k + l));
    (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| dot(i, j).to_bits()).collect()
}

fn bits(argument: &Argument) -> Vec<u32> {
    let Argument::Tensor(t) = argument else { panic!("a tensor") };
    let elements = t.shape.iter().product::<i64>() as usize;
    (0..elements).map(|i| t.memory.load(i * 4, t.dtype)).collect()
}

fn checked(program: &Program, args: &[Argument], copies: Copies) -> CheckedReport {
    let options = CheckedOptions { clusters: 2, step_limit: 20_000_000, copies, ..CheckedOptions::default() };
    run_checked(program, args, &options).unwrap_or_else(|e| panic!("{e}"))
}

/// Both simulators drop the bits below tf32, and compute the product of the integers bit for bit.
fn is_right(g: &Gemm, shape: [i64; 3]) {
    let expected = expected(shape);
    let fast = arguments(shape);
    run_fast(&crate::testing::bound(&gemm(g)), &fast).unwrap_or_else(|e| panic!("{g:?} {shape:?}: {e}"));
    assert!(bits(&fast[2]) == expected, "fast, {g:?} {shape:?}");
    let program = lowered(g);
    assert!(count(&program.body, &|op| matches!(op, OpKind::Wgmma { dtype: Dtype::F32, .. })) > 0, "{g:?}");
    for copies in [Copies::Early, Copies::Late, Copies::Seeded] {
        let args = arguments(shape);
        let report = checked(&program, &args, copies);
        assert!(report.is_clean(), "{g:?} {shape:?}\n{}", report.render(&program));
        assert!(bits(&args[2]) == expected, "checked, {g:?} {shape:?}");
    }
}

#[test]
fn a_step_is_32_bytes_of_rows_of_128() {
    let program = lowered(&TF32);
    // 32 along K are four instructions of 8, and boxes are 32 elements wide.
    assert_eq!(count(&program.body, &|op| matches!(op, OpKind::Wgmma { n: 256, dtype: Dtype::F32, .. })), 4);
    for map in program.tensor_maps.values().take(2) {
        assert_eq!((map.box_extents[0], map.swizzle.name()), (32, "B128"), "{}", map.name);
    }
    // Both operands along K: no instruction transposes.
    assert_eq!(count(&program.body, &|op| matches!(op, OpKind::Wgmma { transposed: [false, false], .. })), 4);
    let wide = lowered(&Gemm { tile: [128, 128, 64], stages: 3, ..TF32 });
    assert_eq!(count(&wide.body, &|op| matches!(op, OpKind::Wgmma { n: 128, .. })), 8);
}

#[test]
fn ragged_shapes_are_right() {
    for shape in [[64, 32, 32], [1, 4, 4], [72, 36, 100], [130, 68, 36], [8, 8, 0]] {
        is_right(&SMALL, shape);
        is_right(&Gemm { persistent: false, ..SMALL }, shape);
    }
    // Rows of 64 and 32 bytes, and two panels of 128.
    for bk in [8, 16, 64] {
        is_right(&Gemm { tile: [64, 32, bk], ..SMALL }, [72, 36, 100]);
    }
    is_right(&Gemm { tile: [128, 64, 32], threads: 256, cluster: [1, 2], ..SMALL }, [200, 100, 68]);
    is_right(&Gemm { tile: [128, 32, 32], threads: 128, schedule: Schedule::PingPong, ..SMALL }, [260, 68, 100]);
    is_right(&Gemm { tile: [16, 24, 32], doubled: false, dependent: true, ..SMALL }, [20, 28, 68]);
}

/// Planted mistakes: steps along K that are not the rows' next 32 bytes, and an operand that lies otherwise.
#[test]
fn a_wrong_descriptor_is_found() {
    let is_wrong = |program: &Program| {
        let args = arguments([64, 32, 64]);
        let report = checked(program, &args, Copies::Seeded);
        !report.is_clean() || bits(&args[2]) != expected([64, 32, 64])
    };
    let program = lowered(&SMALL);
    assert!(!is_wrong(&program));
    // Every step multiplies the first 32 bytes of b.
    let mut still = program.clone();
    let mut first = None;
    each_mut(&mut still.body, &mut |op| {
        if let OpKind::Wgmma { b, .. } = &mut op.kind {
            *b = *first.get_or_insert(*b);
        }
    });
    assert!(is_wrong(&still));
    // The descriptor says another swizzle than TMA used.
    let mut unlike = program;
    for value in unlike.values.values_mut() {
        if let ValueKind::Descriptor { bits, .. } = &mut value.kind {
            *bits ^= 3 << 62;
        }
    }
    assert!(is_wrong(&unlike));
}

#[test]
fn f32_without_tf32_is_multiplied_exactly() {
    let g = Gemm { precision: Precision::Full, tile: [64, 64, 32], stages: 2, threads: 128, cluster: [1, 1], ..TF32 };
    let program =
        lower_bound(&crate::testing::bound(&gemm(&g)), Target::Sm90a).unwrap_or_else(|all| panic!("{all:#?}"));
    assert_eq!(count(&program.body, &|op| matches!(op, OpKind::Wgmma { .. } | OpKind::Mma { .. })), 0);
    let fallback = program.remarks.iter().find(|r| r.kind == RemarkKind::Fallback).unwrap();
    assert!(fallback.text.contains("only as tf32"), "{}", fallback.text);
}
