//! The 32 lanes of a slot, and how values are held in them.
//!
//! A lane is an `i64`: an index as itself; an element value as 32 zero-extended bits, which for floats of any width
//! are the bits of the `f32` that equals it, so that 16-bit arithmetic decodes and encodes only at memory.

use crate::ir::{BinaryOp, Dtype, DtypeClass, FloatFormat, UnaryOp};
use crate::lowered::ValueType;
use crate::sim::numeric;

/// One value a lane.
pub(super) type Lanes = [i64; 32];

/// Calls `f` with each lane of `mask`, ascending.
#[inline(always)]
pub(super) fn each(mask: u32, mut f: impl FnMut(usize)) {
    if mask == u32::MAX {
        for lane in 0..32 {
            f(lane);
        }
    } else {
        let mut rest = mask;
        while rest != 0 {
            f(rest.trailing_zeros() as usize);
            rest &= rest - 1;
        }
    }
}

/// `dst = f(a)` in the lanes of `mask`.
#[inline(always)]
pub(super) fn map1(slots: &mut [Lanes], mask: u32, dst: u32, a: u32, f: impl Fn(i64) -> i64) {
    let a = slots[a as usize];
    let dst = &mut slots[dst as usize];
    each(mask, |i| dst[i] = f(a[i]));
}

/// `dst = f(a, b)` in the lanes of `mask`.
#[inline(always)]
pub(super) fn map2(slots: &mut [Lanes], mask: u32, dst: u32, a: u32, b: u32, f: impl Fn(i64, i64) -> i64) {
    let (a, b) = (slots[a as usize], slots[b as usize]);
    let dst = &mut slots[dst as usize];
    each(mask, |i| dst[i] = f(a[i], b[i]));
}

/// The lanes of `mask` where the condition in `slot` holds.
pub(super) fn holds(slots: &[Lanes], mask: u32, slot: u32) -> u32 {
    let cond = &slots[slot as usize];
    let all = (0..32).fold(0, |bits, i| bits | u32::from(cond[i] != 0) << i);
    mask & all
}

/// The float in a lane.
#[inline(always)]
pub(super) fn float(lane: i64) -> f32 {
    f32::from_bits(lane as u32)
}

/// A float as a lane.
#[inline(always)]
pub(super) fn from_float(value: f32) -> i64 {
    i64::from(value.to_bits())
}

/// The lane that the bits of an element are.
#[inline]
pub(super) fn from_bits(dtype: Dtype, bits: u32) -> i64 {
    match dtype.class() {
        DtypeClass::Float(FloatFormat::Binary16 | FloatFormat::Bfloat16) => from_float(numeric::decode(dtype, bits)),
        DtypeClass::Bool => i64::from(bits & 0xff != 0),
        DtypeClass::Int(_) | DtypeClass::Float(FloatFormat::Binary32) => i64::from(bits),
    }
}

/// The bits of the element that a lane is.
#[inline]
pub(super) fn to_bits(dtype: Dtype, lane: i64) -> u32 {
    if dtype.is_float() { numeric::encode(dtype, float(lane)) } else { lane as u32 }
}

/// A constant as a lane.
pub(super) fn constant(ty: ValueType, value: f64, int: i64) -> i64 {
    match ty {
        ValueType::Index | ValueType::Wide => int,
        ValueType::Element(dtype) => match dtype.class() {
            DtypeClass::Bool => i64::from(int != 0),
            DtypeClass::Int(format) => i64::from(numeric::truncate(format, int)),
            DtypeClass::Float(_) => from_float(numeric::literal(dtype, value)),
        },
    }
}

/// Arithmetic of two floats. The common cases are spelled out so that their loops vectorise.
pub(super) fn float_binary(slots: &mut [Lanes], mask: u32, op: BinaryOp, dtype: Dtype, [dst, a, b]: [u32; 3]) {
    let full = |f: fn(f32, f32) -> f32, slots: &mut [Lanes]| {
        map2(slots, mask, dst, a, b, |x, y| from_float(f(float(x), float(y))));
    };
    match (op, dtype) {
        (BinaryOp::Add, Dtype::F32) => map2(slots, mask, dst, a, b, |x, y| from_float(float(x) + float(y))),
        (BinaryOp::Mul, Dtype::F32) => map2(slots, mask, dst, a, b, |x, y| from_float(float(x) * float(y))),
        (BinaryOp::Sub, Dtype::F32) => full(|x, y| x - y, slots),
        (BinaryOp::Add, Dtype::F16) => full(|x, y| numeric::round_f16(x + y), slots),
        (BinaryOp::Mul, Dtype::F16) => full(|x, y| numeric::round_f16(x * y), slots),
        _ => map2(slots, mask, dst, a, b, |x, y| {
            // Compiled only for operators that floats have.
            from_float(numeric::float_binary(op, dtype, float(x), float(y)).unwrap_or(0.0))
        }),
    }
}

/// `-x`, `!x` of an element.
pub(super) fn unary(op: UnaryOp, dtype: Dtype, lane: i64) -> i64 {
    from_bits(dtype, numeric::unary(op, dtype, to_bits(dtype, lane)))
}

/// A conversion. To an index it may give a value that an index cannot have: the caller reports it.
pub(super) fn cast(from: ValueType, to: ValueType, lane: i64) -> i64 {
    match (from, to) {
        (ValueType::Index | ValueType::Wide, ValueType::Index | ValueType::Wide) => lane,
        (ValueType::Index | ValueType::Wide, ValueType::Element(to)) => {
            from_bits(to, numeric::cast_from_index(to, lane))
        }
        (ValueType::Element(from), ValueType::Index | ValueType::Wide) => {
            if from.is_float() {
                numeric::float_to_index(float(lane))
            } else {
                numeric::cast_to_index(from, lane as u32)
            }
        }
        (ValueType::Element(from), ValueType::Element(to)) if from.is_float() && to.is_float() => {
            from_float(numeric::round(to, float(lane)))
        }
        (ValueType::Element(from), ValueType::Element(to)) => {
            from_bits(to, numeric::cast(from, to, to_bits(from, lane)))
        }
    }
}

/// A value as `device_print` shows it.
pub(super) fn show(ty: ValueType, lane: i64) -> String {
    match ty {
        ValueType::Index | ValueType::Wide => lane.to_string(),
        ValueType::Element(dtype) => match dtype.class() {
            DtypeClass::Bool => (lane != 0).to_string(),
            DtypeClass::Int(format) => numeric::extend(format, lane as u32).to_string(),
            DtypeClass::Float(_) => float(lane).to_string(),
        },
    }
}
