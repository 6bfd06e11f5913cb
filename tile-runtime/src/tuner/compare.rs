//! Whether two results are the same: to the bit, or within a stated bound.

use half::{bf16, f16};
use tile_ir::ir::{AtomicOp, Dtype, DtypeClass, ExprKind, FloatFormat, Kernel, StmtKind};

/// How much the results of two instances may differ, relative to the largest magnitude of the result: instances add in
/// other orders. Integers and bools may not differ at all. An element may also differ by two units in its own last place.
///
/// The bounds allow an accumulation in f32 over the extents of the benchmarks and the rounding of the result once; a
/// kernel that accumulates in 16 bits needs [`crate::tuner::TuneOptions::tolerance`].
pub const fn gate_bound(dtype: Dtype) -> f64 {
    if dtype.is_float() { 1.0 / 8192.0 } else { 0.0 }
}

/// Twice the unit in the last place, relative.
const fn two_places(dtype: Dtype) -> f64 {
    match dtype.class() {
        DtypeClass::Float(format) => 2.0 / (1 << format.fraction_bits()) as f64,
        DtypeClass::Int(_) | DtypeClass::Bool => 0.0,
    }
}

/// Whether the language defines every bit of the kernel's result: then the simulator's are the GPU's.
pub(crate) fn is_exact(kernel: &Kernel) -> bool {
    let math = kernel.exprs.values().any(|e| matches!(&e.kind, ExprKind::Math(f, _) if f.is_approximate()));
    // Atomics on integers give the same whatever their order; their results are compared exactly in any case.
    let atomics = kernel.stmts.values().any(|s| matches!(&s.kind, StmtKind::Atomic { op: AtomicOp::Add, .. }));
    !math && !atomics
}

/// Compares packed elements to the bit.
pub(crate) fn same_bits(dtype: Dtype, found: &[u8], expected: &[u8]) -> Result<(), String> {
    let size = dtype.bytes() as usize;
    let pairs = found.chunks_exact(size).zip(expected.chunks_exact(size));
    let differs = |(a, b): (&[u8], &[u8])| a != b && !(value(dtype, a).is_nan() && value(dtype, b).is_nan());
    let mut differing = pairs.enumerate().filter(|(_, pair)| differs(*pair));
    match differing.next() {
        None => Ok(()),
        Some((at, (a, b))) => Err(words(dtype, at, a, b, 1 + differing.count(), expected.len() / size)),
    }
}

/// Compares packed elements within `tolerance` (relative to the largest magnitude) or two units in the last place.
pub(crate) fn within(dtype: Dtype, found: &[u8], expected: &[u8], tolerance: f64) -> Result<(), String> {
    if gate_bound(dtype) == 0.0 {
        return same_bits(dtype, found, expected);
    }
    let size = dtype.bytes() as usize;
    let finite = expected.chunks_exact(size).map(|b| value(dtype, b).abs()).filter(|v| v.is_finite());
    let slack = finite.fold(0.0, f64::max) * tolerance;
    let differs = |(a, b): (&[u8], &[u8])| {
        let (a, b) = (value(dtype, a), value(dtype, b));
        let same = a == b || a.is_nan() && b.is_nan();
        // Written so that a NaN on one side differs.
        !(same || (a - b).abs() <= slack + two_places(dtype) * a.abs().max(b.abs()).min(f64::MAX) && a.is_finite())
    };
    let pairs = found.chunks_exact(size).zip(expected.chunks_exact(size));
    let mut differing = pairs.enumerate().filter(|(_, pair)| differs(*pair));
    match differing.next() {
        None => Ok(()),
        Some((at, (a, b))) => Err(words(dtype, at, a, b, 1 + differing.count(), expected.len() / size)),
    }
}

fn words(dtype: Dtype, at: usize, a: &[u8], b: &[u8], differing: usize, all: usize) -> String {
    let (a, b) = (value(dtype, a), value(dtype, b));
    format!("element {at} is {a}, expected {b}; {differing} of {all} differ")
}

/// An element's value.
pub(crate) fn value(dtype: Dtype, bytes: &[u8]) -> f64 {
    let word = |n: usize| bytes.iter().take(n).rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
    let bits = word(dtype.bytes() as usize);
    match dtype.class() {
        DtypeClass::Bool => f64::from(bits),
        DtypeClass::Int(format) => format.wrapped(bits.into()) as f64,
        DtypeClass::Float(FloatFormat::Binary32) => f64::from(f32::from_bits(bits)),
        DtypeClass::Float(FloatFormat::Binary16) => f64::from(f16::from_bits(bits as u16).to_f32()),
        DtypeClass::Float(FloatFormat::Bfloat16) => f64::from(bf16::from_bits(bits as u16).to_f32()),
    }
}

/// `len` elements that no kernel is likely to leave as its result: floats between 1 and 2, in no order. `None` for dtypes that
/// a kernel may use as indices.
pub(super) fn pattern(dtype: Dtype, len: usize, random: &mut super::random::Random) -> Option<Vec<u8>> {
    let format = match dtype.class() {
        DtypeClass::Float(format) => format,
        DtypeClass::Int(_) | DtypeClass::Bool => return None,
    };
    // 1 has the bias for its exponent, and no fraction.
    let one = ((1u32 << (format.exponent_bits() - 1)) - 1) << format.fraction_bits();
    let fraction = (1u32 << format.fraction_bits()) - 1;
    let size = dtype.bytes() as usize;
    let mut bytes = Vec::with_capacity(len * size);
    for _ in 0..len {
        bytes.extend_from_slice(&(one | (random.bits() as u32 & fraction)).to_le_bytes()[..size]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn another_order_of_summation_passes_and_a_lost_term_does_not() {
        let terms: Vec<f32> = (0..1024).map(|i| ((i * 37 % 101) as f32 - 50.0) / 17.0).collect();
        let forward: f32 = terms.iter().sum();
        let backward: f32 = terms.iter().rev().sum();
        let lost: f32 = terms[..1023].iter().sum();
        assert_ne!(forward.to_bits(), lost.to_bits());
        let bound = gate_bound(Dtype::F32);
        assert_eq!(within(Dtype::F32, &f32s(&[forward, 80.0]), &f32s(&[backward, 80.0]), bound), Ok(()));
        let error = within(Dtype::F32, &f32s(&[80.0, lost]), &f32s(&[80.0, forward]), bound).unwrap_err();
        assert!(error.starts_with("element 1 is") && error.contains("1 of 2 differ"), "{error}");
    }

    #[test]
    fn nan_and_infinity_are_only_themselves() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let same = f32s(&[nan, inf, -inf, 0.0]);
        assert_eq!(within(Dtype::F32, &same, &same, 0.5), Ok(()));
        for (a, b) in [(nan, 1.0), (1.0, nan), (inf, 1.0), (1.0, inf), (inf, -inf), (f32::MAX, inf)] {
            assert!(within(Dtype::F32, &f32s(&[a]), &f32s(&[b]), 0.5).is_err(), "{a} {b}");
            assert!(same_bits(Dtype::F32, &f32s(&[a]), &f32s(&[b])).is_err(), "{a} {b}");
        }
    }

    #[test]
    fn integers_are_equal_or_not() {
        let bytes = |v: i32| v.to_le_bytes();
        assert!(within(Dtype::I32, &bytes(-3), &bytes(-3), 1.0).is_ok());
        let error = within(Dtype::I32, &bytes(1_000_001), &bytes(1_000_000), 1.0).unwrap_err();
        assert!(error.contains("1000001"), "{error}");
        assert!(within(Dtype::U32, &u32::MAX.to_le_bytes(), &0u32.to_le_bytes(), 1.0).is_err());
    }

    #[test]
    fn the_pattern_is_finite_and_varies() {
        for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
            let bytes = pattern(dtype, 64, &mut Random(5)).unwrap();
            let values: Vec<f64> = bytes.chunks_exact(dtype.bytes() as usize).map(|b| value(dtype, b)).collect();
            assert!(values.iter().all(|v| (1.0..2.0).contains(v)), "{values:?}");
            assert!(values.windows(2).any(|w| w[0] != w[1]));
        }
        assert_eq!(pattern(Dtype::I32, 4, &mut Random(5)), None);
    }
}
