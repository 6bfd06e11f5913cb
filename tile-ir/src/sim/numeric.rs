//! Element arithmetic: the one definition of what an operation on element values gives, used by both simulators.
//!
//! An element is held either as its **bits** (zero-extended to `u32`, as memory holds it) or as a **lane**: floats of
//! any width as the `f32` that equals them, integers as their 32 bits, bools as `bool`. The functions on bits
//! ([`unary`], [`binary`], [`math`], [`cast`], [`reduce`], [`atomic`]) are the functions on lanes between [`decode`]
//! and [`encode`].
//!
//! | class: exact, or mathematical | operations | promise |
//! |---|---|---|
//! | E | `+ - * / sqrt fma min max abs`, roundings to whole numbers, comparisons, casts, integers | exactly this, bit for bit, one NaN |
//! | M | `exp exp2 log rsqrt tanh sin cos pow` | the f64 function rounded to f32 (error below 0.501 ulp of f32), then to the dtype |
//! | M | `fast::..` | the same values: the hardware's approximation is not modelled |
//!
//! - f32 is IEEE binary32, subnormals kept, every operation rounded to nearest even.
//! - f16 and bf16 operations are computed in f32 and rounded to nearest even; `fma` too, with one rounding in f32.
//! - `min` and `max` are PTX's: the operand that is not NaN; -0 is less than +0.
//! - `i32` and `u32` wrap, as Rust's `wrapping_*`: a shift's amount is taken modulo 32, `i32::MIN / -1` is `i32::MIN`.
//!   Division by zero has no value: the functions return `None`.
//! - Float to integer saturates, NaN gives 0. Integer to a 16-bit float goes through f32.
//! - There is one NaN a float type, [`nan`]: whatever is encoded, copied or stored has no other.

use crate::ir::{AtomicOp, BinaryOp, Dtype, DtypeClass, FloatFormat, IntFormat, MathFn, ReduceOp, UnaryOp};
use half::{bf16, f16};

/// The bits of the one NaN of a float dtype, as PTX's arithmetic gives it; 0 for other dtypes.
pub const fn nan(dtype: Dtype) -> u32 {
    match dtype.class() {
        DtypeClass::Float(format) => format.magnitude(),
        DtypeClass::Bool | DtypeClass::Int(_) => 0,
    }
}

/// The bits with every NaN replaced by [`nan`], and bools by 0 or 1.
#[inline]
pub const fn canonical(dtype: Dtype, bits: u32) -> u32 {
    match dtype.class() {
        DtypeClass::Bool => (bits & 0xff != 0) as u32,
        DtypeClass::Int(_) => bits,
        DtypeClass::Float(format) if bits & format.magnitude() > format.infinity() => format.magnitude(),
        DtypeClass::Float(_) => bits,
    }
}

/// Where a reduction of `op` starts for a group without values.
pub fn identity(op: ReduceOp, dtype: Dtype) -> u32 {
    match (op, dtype.class()) {
        (ReduceOp::Sum, DtypeClass::Bool | DtypeClass::Int(_) | DtypeClass::Float(_)) => 0,
        (ReduceOp::Max, DtypeClass::Bool) => 0,
        (ReduceOp::Min, DtypeClass::Bool) => 1,
        (ReduceOp::Max, DtypeClass::Int(format)) => truncate(format, format.range().0),
        (ReduceOp::Min, DtypeClass::Int(format)) => truncate(format, format.range().1),
        (ReduceOp::Max, DtypeClass::Float(_)) => encode(dtype, f32::NEG_INFINITY),
        (ReduceOp::Min, DtypeClass::Float(_)) => encode(dtype, f32::INFINITY),
    }
}

// ---- lanes: floats -------------------------------------------------------------------------------------------------

/// The float that `bits` of a float dtype are. Exact. Of other dtypes: the number, as [`cast`] converts it to f32.
#[inline]
pub fn decode(dtype: Dtype, bits: u32) -> f32 {
    match dtype.class() {
        DtypeClass::Float(FloatFormat::Binary16) => decode_f16(bits as u16),
        DtypeClass::Float(FloatFormat::Bfloat16) => f32::from_bits(bits << 16),
        DtypeClass::Float(FloatFormat::Binary32) => f32::from_bits(bits),
        DtypeClass::Int(format) => extend(format, bits) as f32,
        DtypeClass::Bool => f32::from(u8::from(bits != 0)),
    }
}

/// The bits of `value` rounded to a float dtype. For other dtypes: as [`cast`] converts f32.
#[inline]
pub fn encode(dtype: Dtype, value: f32) -> u32 {
    let format = match dtype.class() {
        DtypeClass::Float(format) => format,
        DtypeClass::Int(format) => return saturate(format, value),
        DtypeClass::Bool => return u32::from(value != 0.0),
    };
    if value.is_nan() {
        return format.magnitude();
    }
    match format {
        FloatFormat::Binary16 => u32::from(f16::from_f32(value).to_bits()),
        FloatFormat::Bfloat16 => u32::from(bf16::from_f32(value).to_bits()),
        FloatFormat::Binary32 => value.to_bits(),
    }
}

/// binary16 to f32 without a branch on the common path, so that it vectorises.
#[inline]
pub fn decode_f16(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff) << 13;
    // The exponent moves from bias 15 to bias 127. A subnormal is a multiple of 2^-24, which is what the mantissa of
    // a float in [0.5, 1) counts.
    let normal = magnitude + (112 << 23);
    let special = magnitude | 0x7f80_0000;
    let subnormal = (f32::from_bits(0x3f00_0000 | (magnitude >> 13)) - 0.5).to_bits();
    let shifted = if magnitude >= 0x7c00 << 13 { special } else { normal };
    let value = if magnitude < 0x0400 << 13 { subnormal } else { shifted };
    f32::from_bits(sign | value)
}

/// `value` rounded to nearest even in a float dtype, as the f32 that equals it. [`encode`] of it is exact. For other dtypes: the
/// value that [`encode`] gives.
#[inline]
pub fn round(dtype: Dtype, value: f32) -> f32 {
    match dtype.class() {
        DtypeClass::Float(FloatFormat::Binary16) => round_f16(value),
        DtypeClass::Float(FloatFormat::Bfloat16) => round_bf16(value),
        DtypeClass::Float(FloatFormat::Binary32) => value,
        DtypeClass::Bool | DtypeClass::Int(_) => decode(dtype, encode(dtype, value)),
    }
}

/// [`round`] to f16, without branches.
#[inline]
pub fn round_f16(value: f32) -> f32 {
    let bits = value.to_bits();
    let sign = bits & 0x8000_0000;
    let magnitude = bits ^ sign;
    let normal = magnitude.wrapping_add(0xfff + ((magnitude >> 13) & 1)) & !0x1fff;
    // Below 2^-14 the spacing of f16 is 2^-24, which is the spacing of f32 in [0.5, 1): adding 0.5 rounds to it.
    let subnormal = ((f32::from_bits(magnitude) + 0.5) - 0.5).to_bits();
    let rounded = if magnitude < 0x3880_0000 { subnormal } else { normal };
    let finite = if rounded >= 0x4780_0000 { 0x7f80_0000 } else { rounded };
    f32::from_bits(sign | if magnitude > 0x7f80_0000 { 0x7fff_ffff } else { finite })
}

/// [`round`] to bf16, without branches.
#[inline]
pub fn round_bf16(value: f32) -> f32 {
    let bits = value.to_bits();
    let sign = bits & 0x8000_0000;
    let magnitude = bits ^ sign;
    let rounded = magnitude.wrapping_add(0x7fff + ((magnitude >> 16) & 1)) & !0xffff;
    f32::from_bits(sign | if magnitude > 0x7f80_0000 { 0x7fff_ffff } else { rounded })
}

/// A literal rounded once to a float dtype, as the f32 that equals it.
pub fn literal(dtype: Dtype, value: f64) -> f32 {
    match dtype.class() {
        DtypeClass::Float(FloatFormat::Binary16 | FloatFormat::Bfloat16) => {}
        DtypeClass::Float(FloatFormat::Binary32) | DtypeClass::Bool | DtypeClass::Int(_) => return value as f32,
    }
    // Rounding to f32 first would round twice. Rounding to odd keeps what the second rounding needs to know.
    let nearest = value as f32;
    let back = f64::from(nearest);
    if back == value || value.is_nan() {
        return round(dtype, nearest);
    }
    let truncated = nearest.to_bits() - u32::from(back.abs() > value.abs());
    round(dtype, f32::from_bits(truncated | 1))
}

/// PTX `min.f32`.
#[inline]
pub fn min(a: f32, b: f32) -> f32 {
    // Ordered as sign-magnitude integers, -0 comes before +0; a NaN operand loses.
    let smaller = if a < b || (a == b && a.is_sign_negative()) { a } else { b };
    let smaller = if a.is_nan() { b } else { smaller };
    if b.is_nan() { a } else { smaller }
}

/// PTX `max.f32`.
#[inline]
pub fn max(a: f32, b: f32) -> f32 {
    let larger = if a > b || (a == b && a.is_sign_positive()) { a } else { b };
    let larger = if a.is_nan() { b } else { larger };
    if b.is_nan() { a } else { larger }
}

/// Arithmetic of two floats of one dtype; comparisons and logic are not arithmetic and give `None`.
#[inline]
pub fn float_binary(op: BinaryOp, dtype: Dtype, a: f32, b: f32) -> Option<f32> {
    let value = match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        // C's fmod, exact.
        BinaryOp::Rem => a % b,
        BinaryOp::Min => min(a, b),
        BinaryOp::Max => max(a, b),
        _ => return None,
    };
    Some(round(dtype, value))
}

/// Comparison of two values that are ordered as Rust orders them; other operators give false.
#[inline]
pub fn compare<T: PartialOrd>(op: BinaryOp, a: T, b: T) -> bool {
    match op {
        BinaryOp::Lt => a < b,
        BinaryOp::Le => a <= b,
        BinaryOp::Gt => a > b,
        BinaryOp::Ge => a >= b,
        BinaryOp::Eq => a == b,
        BinaryOp::Ne => a != b,
        _ => false,
    }
}

/// An elementwise function of floats of one dtype. Functions of one operand ignore `b` and `c`.
#[inline]
pub fn float_math(function: MathFn, dtype: Dtype, a: f32, b: f32, c: f32) -> f32 {
    let through_f64 = |f: fn(f64) -> f64| f(f64::from(a)) as f32;
    let value = match function {
        MathFn::Exp | MathFn::FastExp => through_f64(f64::exp),
        MathFn::Exp2 | MathFn::FastExp2 => through_f64(f64::exp2),
        MathFn::Log | MathFn::FastLog => through_f64(f64::ln),
        MathFn::Tanh | MathFn::FastTanh => through_f64(f64::tanh),
        MathFn::Rsqrt => through_f64(|x| 1.0 / x.sqrt()),
        MathFn::FastRecip => through_f64(f64::recip),
        MathFn::Sqrt => a.sqrt(),
        MathFn::Abs => a.abs(),
        MathFn::Fma => a.mul_add(b, c),
        MathFn::Sin | MathFn::FastSin => through_f64(f64::sin),
        MathFn::Cos | MathFn::FastCos => through_f64(f64::cos),
        MathFn::Pow => f64::from(a).powf(f64::from(b)) as f32,
        MathFn::Floor => a.floor(),
        MathFn::Ceil => a.ceil(),
        MathFn::Trunc => a.trunc(),
        MathFn::Round => a.round(),
        MathFn::RoundTiesEven => a.round_ties_even(),
        // Of integers, or to one.
        MathFn::MulHi | MathFn::CountOnes | MathFn::LeadingZeros | MathFn::TrailingZeros | MathFn::ToBits => a,
    };
    round(dtype, value)
}

// ---- lanes: integers -----------------------------------------------------------------------------------------------

/// The low bits of a number: what an integer of this format holds of it.
#[inline]
pub const fn truncate(format: IntFormat, value: i64) -> u32 {
    value as u32 & (u32::MAX >> (32 - format.bits))
}

/// The number that the bits of an integer are.
#[inline]
pub const fn extend(format: IntFormat, bits: u32) -> i64 {
    let above = 32 - format.bits;
    if format.signed { ((bits << above) as i32 >> above) as i64 } else { (bits << above >> above) as i64 }
}

/// The bits of the integer nearest to zero's side of `value`: it saturates, and NaN gives 0, as Rust's `as`.
#[inline]
pub fn saturate(format: IntFormat, value: f32) -> u32 {
    let (least, most) = format.range();
    if format.signed {
        truncate(format, i64::from((value as i32).clamp(least as i32, most as i32)))
    } else {
        (value as u32).min(most as u32)
    }
}

/// Arithmetic of two integers of one dtype (`i32` or `u32`; also the bits of two bools). `None` for division by zero
/// and for operators that are not integer arithmetic.
#[inline]
pub fn int_binary(op: BinaryOp, dtype: Dtype, a: u32, b: u32) -> Option<u32> {
    let signed = dtype.is_signed();
    let (sa, sb) = (a as i32, b as i32);
    Some(match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Div | BinaryOp::Rem | BinaryOp::CeilDiv if b == 0 => return None,
        BinaryOp::Div if signed => sa.wrapping_div(sb) as u32,
        BinaryOp::Div => a / b,
        BinaryOp::Rem if signed => sa.wrapping_rem(sb) as u32,
        BinaryOp::Rem => a % b,
        BinaryOp::Min if signed => sa.min(sb) as u32,
        BinaryOp::Min => a.min(b),
        BinaryOp::Max if signed => sa.max(sb) as u32,
        BinaryOp::Max => a.max(b),
        BinaryOp::BitAnd => a & b,
        BinaryOp::BitOr => a | b,
        BinaryOp::BitXor => a ^ b,
        BinaryOp::Shl => a.wrapping_shl(b),
        BinaryOp::Shr if signed => sa.wrapping_shr(b) as u32,
        BinaryOp::Shr => a.wrapping_shr(b),
        _ => return None,
    })
}

/// Comparison of two integers of one dtype, or of the bits of two bools.
#[inline]
pub fn int_compare(op: BinaryOp, dtype: Dtype, a: u32, b: u32) -> bool {
    match dtype.class() {
        DtypeClass::Int(format @ IntFormat { signed: true, .. }) => compare(op, extend(format, a), extend(format, b)),
        DtypeClass::Int(IntFormat { signed: false, .. }) | DtypeClass::Bool => compare(op, a, b),
        DtypeClass::Float(_) => compare(op, decode(dtype, a), decode(dtype, b)),
    }
}

/// Arithmetic on `usize` values, which are mathematical integers held in 64 bits. `None` for overflow, division by
/// zero, shifts by other than 0 to 31, and operators that are not integer arithmetic.
#[inline]
pub fn index_binary(op: BinaryOp, a: i64, b: i64) -> Option<i64> {
    match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Sub => a.checked_sub(b),
        BinaryOp::Mul => a.checked_mul(b),
        BinaryOp::Div => a.checked_div(b),
        BinaryOp::Rem => a.checked_rem(b),
        BinaryOp::CeilDiv => {
            let quotient = a.checked_div(b)?;
            Some(quotient + i64::from(a % b != 0 && (a < 0) == (b < 0)))
        }
        BinaryOp::Min => Some(a.min(b)),
        BinaryOp::Max => Some(a.max(b)),
        BinaryOp::BitAnd => Some(a & b),
        BinaryOp::BitOr => Some(a | b),
        BinaryOp::BitXor => Some(a ^ b),
        BinaryOp::Shl => u32::try_from(b).ok().filter(|b| *b < 32).and_then(|b| a.checked_mul(1 << b)),
        BinaryOp::Shr => u32::try_from(b).ok().filter(|b| *b < 32).map(|b| a >> b),
        _ => None,
    }
}

/// [`math`] on `usize` values, wrapping in 64 bits.
#[inline]
pub fn index_math(function: MathFn, a: i64, b: i64, c: i64) -> i64 {
    match function {
        MathFn::Abs => a.wrapping_abs(),
        MathFn::Fma => a.wrapping_mul(b).wrapping_add(c),
        _ => a,
    }
}

// ---- bits ----------------------------------------------------------------------------------------------------------

/// One operand. `Not` of a bool is logical, of an integer bitwise; `Neg` of an integer wraps. Operators that a dtype
/// does not have leave the value as it is.
pub fn unary(op: UnaryOp, dtype: Dtype, a: u32) -> u32 {
    match (op, dtype.class()) {
        (UnaryOp::Neg, DtypeClass::Int(format)) => truncate(format, i64::from(a).wrapping_neg()),
        (UnaryOp::Neg, DtypeClass::Float(_)) => encode(dtype, -decode(dtype, a)),
        (UnaryOp::Not, DtypeClass::Bool) => u32::from(a == 0),
        (UnaryOp::Not, DtypeClass::Int(format)) => truncate(format, i64::from(!a)),
        (UnaryOp::Neg, DtypeClass::Bool) | (UnaryOp::Not, DtypeClass::Float(_)) => a,
    }
}

/// Two operands of one dtype. Comparisons and `And`/`Or` (on bools, not short-circuiting here) give 0 or 1. `None` for
/// integer division by zero and for operators that the dtype does not have.
pub fn binary(op: BinaryOp, dtype: Dtype, a: u32, b: u32) -> Option<u32> {
    match op {
        BinaryOp::And => return Some(u32::from(a != 0 && b != 0)),
        BinaryOp::Or => return Some(u32::from(a != 0 || b != 0)),
        _ => {}
    }
    if dtype.is_float() {
        let (x, y) = (decode(dtype, a), decode(dtype, b));
        if op.is_comparison() {
            return Some(u32::from(compare(op, x, y)));
        }
        return float_binary(op, dtype, x, y).map(|value| encode(dtype, value));
    }
    if op.is_comparison() {
        return Some(u32::from(int_compare(op, dtype, a, b)));
    }
    // Of bools, the operators on bits; what is for storage has none.
    if dtype.is_number() && !dtype.has_arithmetic() { None } else { int_binary(op, dtype, a, b) }
}

/// An elementwise function; `args` has [`MathFn::arity`] operands of one dtype (missing ones count as 0). Of integers
/// only `abs` (wrapping), `fma` (`a * b + c`, wrapping), `mul_hi` and the counts of bits are defined; others leave the value as
/// it is.
pub fn math(function: MathFn, dtype: Dtype, args: &[u32]) -> u32 {
    let arg = |i: usize| args.get(i).copied().unwrap_or(0);
    if dtype.is_float() {
        let lane = |i: usize| decode(dtype, arg(i));
        return encode(dtype, float_math(function, dtype, lane(0), lane(1), lane(2)));
    }
    int_math(function, dtype, arg(0), arg(1), arg(2))
}

/// [`math`] on integers.
#[inline]
pub fn int_math(function: MathFn, dtype: Dtype, a: u32, b: u32, c: u32) -> u32 {
    match function {
        MathFn::Abs if dtype.is_signed() => (a as i32).wrapping_abs() as u32,
        MathFn::Fma => a.wrapping_mul(b).wrapping_add(c),
        MathFn::MulHi if dtype.is_signed() => ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32,
        MathFn::MulHi => ((u64::from(a) * u64::from(b)) >> 32) as u32,
        MathFn::CountOnes => a.count_ones(),
        MathFn::LeadingZeros => a.leading_zeros(),
        MathFn::TrailingZeros => a.trailing_zeros(),
        // Lanes are bits; of `to_bits` the dtype is that of the result.
        MathFn::ToBits => a,
        _ => a,
    }
}

/// Conversion between element types, as Rust's `as`; to bool: whether it is not zero.
pub fn cast(from: Dtype, to: Dtype, bits: u32) -> u32 {
    use DtypeClass::{Bool, Float, Int};
    match (from.class(), to.class()) {
        _ if from == to => canonical(to, bits),
        (Float(_), Bool | Int(_) | Float(_)) => encode(to, decode(from, bits)),
        (Bool | Int(_), Float(_)) => encode(to, decode(from, bits)),
        (Bool | Int(_), Bool) => u32::from(bits != 0),
        (Bool, Int(to)) => truncate(to, i64::from(bits)),
        (Int(from), Int(to)) => truncate(to, extend(from, bits)),
    }
}

/// Conversion from `usize`: to integers the low bits; to floats through f32.
pub fn cast_from_index(to: Dtype, value: i64) -> u32 {
    match to.class() {
        DtypeClass::Bool => u32::from(value != 0),
        DtypeClass::Int(format) => truncate(format, value),
        DtypeClass::Float(_) => encode(to, value as f32),
    }
}

/// Conversion to `usize`: an `i32` keeps its sign (a negative index is the caller's to report); floats saturate at 0
/// and 2^62, NaN gives 0.
pub fn cast_to_index(from: Dtype, bits: u32) -> i64 {
    match from.class() {
        DtypeClass::Bool => i64::from(bits),
        DtypeClass::Int(format) => extend(format, bits),
        DtypeClass::Float(_) => float_to_index(decode(from, bits)),
    }
}

/// [`cast_to_index`] of a float.
#[inline]
pub fn float_to_index(value: f32) -> i64 {
    (value as i64).clamp(0, 1 << 62)
}

/// One combination in a reduction.
pub fn reduce(op: ReduceOp, dtype: Dtype, a: u32, b: u32) -> u32 {
    // Defined for every dtype: reductions use no operator that can fail.
    binary(reduce_operator(op), dtype, a, b).unwrap_or(a)
}

/// The operator a reduction combines with.
pub const fn reduce_operator(op: ReduceOp) -> BinaryOp {
    match op {
        ReduceOp::Sum => BinaryOp::Add,
        ReduceOp::Max => BinaryOp::Max,
        ReduceOp::Min => BinaryOp::Min,
    }
}

/// The new value of an element that holds `old`.
pub fn atomic(op: AtomicOp, dtype: Dtype, old: u32, operand: u32) -> u32 {
    let operator = match op {
        AtomicOp::Add => BinaryOp::Add,
        AtomicOp::Max => BinaryOp::Max,
        AtomicOp::Min => BinaryOp::Min,
    };
    binary(operator, dtype, old, operand).unwrap_or(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every f16, and floats around the edges of everything.
    fn floats() -> Vec<f32> {
        let mut all: Vec<f32> = (0..=u16::MAX).map(|b| f16::from_bits(b).to_f32()).collect();
        for exponent in 0..=255u32 {
            for mantissa in [0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x3000, 0x7fff, 0x8000, 0x8001, 0x7f_ffff] {
                all.push(f32::from_bits(exponent << 23 | mantissa));
                all.push(f32::from_bits(1 << 31 | exponent << 23 | mantissa));
            }
        }
        let mut state = 1u32;
        for _ in 0..200_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            all.push(f32::from_bits(state));
            all.push(f32::from_bits(0x3300_0000 + state % 0x1500_0000));
        }
        all
    }

    #[test]
    fn decoding_f16_is_what_half_says() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (decode_f16(bits), f16::from_bits(bits).to_f32());
            assert!(ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()), "{bits:#x}");
        }
    }

    #[test]
    fn rounding_is_what_half_says() {
        for x in floats() {
            let (h, b) = (f16::from_f32(x).to_f32(), bf16::from_f32(x).to_f32());
            if x.is_nan() {
                assert!(round_f16(x).is_nan() && round_bf16(x).is_nan());
                assert_eq!([encode(Dtype::F16, x), encode(Dtype::F32, x)], [0x7fff, 0x7fff_ffff]);
            } else {
                assert_eq!(round_f16(x).to_bits(), h.to_bits(), "{x:e}");
                assert_eq!(round_bf16(x).to_bits(), b.to_bits(), "{x:e}");
            }
        }
    }

    #[test]
    fn min_and_max_are_those_of_ptx() {
        for (a, b) in [(-0.0f32, 0.0f32), (0.0, -0.0)] {
            assert!(min(a, b).is_sign_negative() && max(a, b).is_sign_positive());
        }
        assert_eq!((min(f32::NAN, 1.0), max(1.0, f32::NAN)), (1.0, 1.0));
        assert_eq!((min(-1.0, 2.0), max(-1.0, 2.0)), (-1.0, 2.0));
        assert_eq!(binary(BinaryOp::Min, Dtype::F16, 0xfe00, 0x7e01), Some(0x7fff));
    }

    #[test]
    fn sixteen_bit_operations_round_once_from_f32() {
        let h = |x: f32| u32::from(f16::from_f32(x).to_bits());
        assert_eq!(binary(BinaryOp::Add, Dtype::F16, h(2048.0), h(1.0)), Some(h(2048.0)));
        assert_eq!(binary(BinaryOp::Add, Dtype::F16, h(2050.0), h(1.0)), Some(h(2052.0)));
        assert_eq!(binary(BinaryOp::Mul, Dtype::F16, h(300.0), h(300.0)), Some(h(f32::INFINITY)));
        assert_eq!(binary(BinaryOp::Lt, Dtype::F16, h(f32::NAN), h(1.0)), Some(0));
        assert_eq!(math(MathFn::Fma, Dtype::F32, &[0.1f32, 10.0, -1.0].map(f32::to_bits)), {
            0.1f32.mul_add(10.0, -1.0).to_bits()
        });
    }

    #[test]
    fn literals_are_rounded_once() {
        // 1 + 2^-11 is a tie in f16; a little more is not, but f32 cannot hold the little.
        let tie = 1.0 + 2f64.powi(-11);
        assert_eq!(literal(Dtype::F16, tie), 1.0);
        assert_eq!(literal(Dtype::F16, tie + 2f64.powi(-40)), 1.0 + 2f32.powi(-10));
        assert_eq!(literal(Dtype::F16, -tie - 2f64.powi(-40)), -1.0 - 2f32.powi(-10));
        assert_eq!(literal(Dtype::F16, tie - 2f64.powi(-40)), 1.0);
        assert_eq!(literal(Dtype::Bf16, f64::MAX), f32::INFINITY);
        assert_eq!(literal(Dtype::F16, 5e-324).to_bits(), 0);
    }

    #[test]
    fn integers_wrap_and_division_by_zero_has_no_value() {
        let i = |x: i32| x as u32;
        assert_eq!(binary(BinaryOp::Add, Dtype::I32, i(i32::MAX), 1), Some(i(i32::MIN)));
        assert_eq!(binary(BinaryOp::Div, Dtype::I32, i(i32::MIN), i(-1)), Some(i(i32::MIN)));
        assert_eq!(binary(BinaryOp::Div, Dtype::I32, i(-7), 2), Some(i(-3)));
        assert_eq!(binary(BinaryOp::Rem, Dtype::I32, i(-7), 2), Some(i(-1)));
        assert_eq!(binary(BinaryOp::Div, Dtype::U32, 1, 0), None);
        assert_eq!(binary(BinaryOp::Shr, Dtype::I32, i(-8), 33), Some(i(-4)));
        assert_eq!(binary(BinaryOp::Min, Dtype::U32, i(-1), 3), Some(3));
        assert_eq!(binary(BinaryOp::Min, Dtype::I32, i(-1), 3), Some(i(-1)));
        assert_eq!(binary(BinaryOp::Gt, Dtype::U32, i(-1), 3), Some(1));
        assert_eq!(index_binary(BinaryOp::Mul, i64::MAX, 2), None);
        assert_eq!(index_binary(BinaryOp::CeilDiv, 7, 2), Some(4));
    }

    #[test]
    fn casts_saturate() {
        let f = f32::to_bits;
        assert_eq!(cast(Dtype::F32, Dtype::I32, f(3e9)), i32::MAX as u32);
        assert_eq!(cast(Dtype::F32, Dtype::I32, f(f32::NAN)), 0);
        assert_eq!(cast(Dtype::F32, Dtype::U32, f(-1.5)), 0);
        assert_eq!(cast(Dtype::I32, Dtype::F32, -3i32 as u32), f(-3.0));
        assert_eq!(cast(Dtype::F16, Dtype::Bf16, 0x3c00), 0x3f80);
        assert_eq!(cast(Dtype::F32, Dtype::F32, 0xffc0_0000), 0x7fff_ffff);
        assert_eq!(cast_to_index(Dtype::F32, f(-2.0)), 0);
        assert_eq!(cast_from_index(Dtype::F16, 2049), 0x6800);
    }

    #[test]
    fn identities_change_nothing() {
        for op in [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min] {
            for dtype in [Dtype::I32, Dtype::U32, Dtype::F16, Dtype::F32] {
                let one = cast_from_index(dtype, 1);
                assert_eq!(reduce(op, dtype, identity(op, dtype), one), one, "{op:?} {dtype}");
            }
        }
    }
}
