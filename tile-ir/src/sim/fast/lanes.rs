//! Lane arithmetic: each operation over all threads of a block in one loop that the host's compiler vectorises.
//!
//! What an operation means is `numeric`'s to say; this file only applies it to registers.

use super::code::{Arith, Kind, Loc, Repr};
use super::state::{Lane, Operand, Registers};
use crate::ir::{BinaryOp, Dtype, DtypeClass, FloatFormat, MathFn};
use crate::sim::numeric;
use std::mem;

/// Executes `inst` with the widest vectors this machine has. The results do not depend on it.
pub(super) fn execute(registers: &mut Registers, inst: &Arith) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the features were just detected.
        return unsafe { execute_avx2(registers, inst) };
    }
    execute_inline(registers, inst);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn execute_avx2(registers: &mut Registers, inst: &Arith) {
    execute_inline(registers, inst);
}

#[inline(always)]
fn map1<A: Lane, D: Lane>(r: &mut Registers, dst: Loc, a: Loc, f: impl Fn(A) -> D) {
    match dst {
        Loc::Scalar(d) => D::file_mut(r).scalars[d as usize] = f(A::file(r).scalar(a)),
        Loc::Lanes(d) => {
            let mut out = mem::take(&mut D::file_mut(r).lanes[d as usize]);
            match A::file(r).operand(a) {
                Operand::Lanes(a) => out.iter_mut().zip(a).for_each(|(d, a)| *d = f(*a)),
                Operand::Scalar(a) => out.fill(f(a)),
            }
            D::file_mut(r).lanes[d as usize] = out;
        }
    }
}

#[inline(always)]
fn map2<A: Lane, B: Lane, D: Lane>(r: &mut Registers, dst: Loc, a: Loc, b: Loc, f: impl Fn(A, B) -> D) {
    match dst {
        Loc::Scalar(d) => D::file_mut(r).scalars[d as usize] = f(A::file(r).scalar(a), B::file(r).scalar(b)),
        Loc::Lanes(d) => {
            let mut out = mem::take(&mut D::file_mut(r).lanes[d as usize]);
            let rows = out.iter_mut();
            match (A::file(r).operand(a), B::file(r).operand(b)) {
                (Operand::Lanes(a), Operand::Lanes(b)) => rows.zip(a).zip(b).for_each(|((d, a), b)| *d = f(*a, *b)),
                (Operand::Lanes(a), Operand::Scalar(b)) => rows.zip(a).for_each(|(d, a)| *d = f(*a, b)),
                (Operand::Scalar(a), Operand::Lanes(b)) => rows.zip(b).for_each(|(d, b)| *d = f(a, *b)),
                (Operand::Scalar(a), Operand::Scalar(b)) => out.fill(f(a, b)),
            }
            D::file_mut(r).lanes[d as usize] = out;
        }
    }
}

/// Three operands; only all-lanes is worth a loop of its own.
#[inline(always)]
fn map3<C: Lane, A: Lane, D: Lane>(r: &mut Registers, dst: Loc, args: [Loc; 3], f: impl Fn(C, A, A) -> D) {
    let [c, a, b] = args;
    match dst {
        Loc::Scalar(d) => {
            D::file_mut(r).scalars[d as usize] = f(C::file(r).scalar(c), A::file(r).scalar(a), A::file(r).scalar(b));
        }
        Loc::Lanes(d) => {
            let mut out = mem::take(&mut D::file_mut(r).lanes[d as usize]);
            match (C::file(r).operand(c), A::file(r).operand(a), A::file(r).operand(b)) {
                (Operand::Lanes(c), Operand::Lanes(a), Operand::Lanes(b)) => {
                    out.iter_mut().zip(c).zip(a).zip(b).for_each(|(((d, c), a), b)| *d = f(*c, *a, *b));
                }
                (c, a, b) => {
                    out.iter_mut().enumerate().for_each(|(lane, d)| *d = f(c.at(lane), a.at(lane), b.at(lane)));
                }
            }
            D::file_mut(r).lanes[d as usize] = out;
        }
    }
}

/// Rounds a register of floats to a narrower format, in place.
#[inline(always)]
fn round(r: &mut Registers, dtype: Dtype, dst: Loc) {
    match dtype.class() {
        DtypeClass::Float(FloatFormat::Binary16) => in_place(r, dst, numeric::round_f16),
        DtypeClass::Float(FloatFormat::Bfloat16) => in_place(r, dst, numeric::round_bf16),
        DtypeClass::Float(FloatFormat::Binary32) => {}
        // Not held as floats.
        DtypeClass::Bool | DtypeClass::Int(_) => {}
    }
}

#[inline(always)]
fn in_place(r: &mut Registers, dst: Loc, f: impl Fn(f32) -> f32) {
    match dst {
        Loc::Scalar(d) => r.floats.scalars[d as usize] = f(r.floats.scalars[d as usize]),
        Loc::Lanes(d) => r.floats.lanes[d as usize].iter_mut().for_each(|x| *x = f(*x)),
    }
}

/// One loop an operator: `$body` is instantiated with the operator a constant, so that the loop has no branch in it.
macro_rules! per_operator {
    ($op:expr, [$($name:ident)*], |$constant:ident| $body:expr) => {
        match $op {
            $(BinaryOp::$name => { const OP: BinaryOp = BinaryOp::$name; let $constant = OP; $body })*
            _ => {}
        }
    };
}

#[inline(always)]
fn execute_inline(r: &mut Registers, inst: &Arith) {
    match *inst {
        Arith::Float { op, dtype, dst, a, b } => {
            per_operator!(op, [Add Sub Mul Div Rem Min Max], |op| map2(r, dst, a, b, |a: f32, b: f32| {
                numeric::float_binary(op, Dtype::F32, a, b).unwrap_or(a)
            }));
            round(r, dtype, dst);
        }
        Arith::FloatCompare { op, dst, a, b } => {
            per_operator!(op, [Lt Le Gt Ge Eq Ne], |op| map2(r, dst, a, b, |a: f32, b: f32| numeric::compare(op, a, b)));
        }
        Arith::FloatMath { function: MathFn::Fma, dtype, dst, args } => {
            map3(r, dst, args, |a: f32, b: f32, c: f32| a.mul_add(b, c));
            round(r, dtype, dst);
        }
        Arith::FloatBits { dst, a } => map1(r, dst, a, f32::to_bits),
        Arith::FloatMath { function: MathFn::Abs, dst, args: [a, ..], .. } => map1(r, dst, a, |a: f32| a.abs()),
        Arith::FloatMath { function: MathFn::Sqrt, dtype, dst, args: [a, ..] } => {
            map1(r, dst, a, |a: f32| a.sqrt());
            round(r, dtype, dst);
        }
        Arith::FloatMath { function: MathFn::Pow, dtype, dst, args: [a, b, _] } => {
            map2(r, dst, a, b, |a: f32, b: f32| numeric::float_math(MathFn::Pow, dtype, a, b, 0.0));
        }
        Arith::FloatMath { function, dtype, dst, args: [a, ..] } => {
            map1(r, dst, a, |a: f32| numeric::float_math(function, dtype, a, 0.0, 0.0));
        }
        Arith::FloatNegate { dst, a } => map1(r, dst, a, |a: f32| -a),
        Arith::Int { op, dtype, dst, a, b } if dtype.is_signed() => {
            per_operator!(op, [Add Sub Mul Min Max BitAnd BitOr BitXor Shl Shr], |op| {
                map2(r, dst, a, b, |a: u32, b: u32| numeric::int_binary(op, Dtype::I32, a, b).unwrap_or(a))
            });
        }
        Arith::Int { op, dst, a, b, .. } => {
            per_operator!(op, [Add Sub Mul Min Max BitAnd BitOr BitXor Shl Shr], |op| {
                map2(r, dst, a, b, |a: u32, b: u32| numeric::int_binary(op, Dtype::U32, a, b).unwrap_or(a))
            });
        }
        Arith::IntCompare { op, dtype, dst, a, b } if dtype.is_signed() => {
            let above = 32 - dtype.bits();
            per_operator!(op, [Lt Le Gt Ge Eq Ne], |op| map2(r, dst, a, b, |a: u32, b: u32| {
                numeric::compare(op, (a << above) as i32, (b << above) as i32)
            }));
        }
        Arith::IntCompare { op, dst, a, b, .. } => {
            per_operator!(op, [Lt Le Gt Ge Eq Ne], |op| map2(r, dst, a, b, |a: u32, b: u32| numeric::compare(op, a, b)));
        }
        Arith::IntMath { function, dtype, dst, args } => {
            map3(r, dst, args, |a: u32, b: u32, c: u32| numeric::int_math(function, dtype, a, b, c));
        }
        Arith::IntNegate { dst, a } => map1(r, dst, a, u32::wrapping_neg),
        Arith::IntNot { dst, a } => map1(r, dst, a, |a: u32| !a),
        Arith::Index { op, dst, a, b } => index(r, op, dst, a, b),
        Arith::IndexCompare { op, dst, a, b } => {
            per_operator!(op, [Lt Le Gt Ge Eq Ne], |op| map2(r, dst, a, b, |a: i64, b: i64| numeric::compare(op, a, b)));
        }
        Arith::IndexMath { function, dst, args } => {
            map3(r, dst, args, |a: i64, b: i64, c: i64| numeric::index_math(function, a, b, c));
        }
        Arith::IndexNegate { dst, a } => map1(r, dst, a, i64::wrapping_neg),
        Arith::Bool { op, dst, a, b } => match op {
            BinaryOp::And | BinaryOp::BitAnd | BinaryOp::Min => map2(r, dst, a, b, |a: bool, b: bool| a & b),
            BinaryOp::Or | BinaryOp::BitOr | BinaryOp::Max | BinaryOp::Add => {
                map2(r, dst, a, b, |a: bool, b: bool| a | b)
            }
            BinaryOp::BitXor | BinaryOp::Ne => map2(r, dst, a, b, |a: bool, b: bool| a ^ b),
            op => map2(r, dst, a, b, |a: bool, b: bool| numeric::compare(op, a, b)),
        },
        Arith::BoolNot { dst, a } => map1(r, dst, a, |a: bool| !a),
        Arith::Select { kind, dst, cond, a, b } => match kind {
            Kind::Float => map3(r, dst, [cond, a, b], |c: bool, a: f32, b: f32| if c { a } else { b }),
            Kind::Int => map3(r, dst, [cond, a, b], |c: bool, a: u32, b: u32| if c { a } else { b }),
            Kind::Index => map3(r, dst, [cond, a, b], |c: bool, a: i64, b: i64| if c { a } else { b }),
            Kind::Bool => map3(r, dst, [cond, a, b], |c: bool, a: bool, b: bool| if c { a } else { b }),
        },
        Arith::Cast { from, to, dst, a } => cast(r, from, to, dst, a),
    }
}

/// Index arithmetic without overflow checks: an index that overflows 64 bits wraps, and is then out of every bound.
#[inline(always)]
fn index(r: &mut Registers, op: BinaryOp, dst: Loc, a: Loc, b: Loc) {
    match op {
        BinaryOp::Add => map2(r, dst, a, b, i64::wrapping_add),
        BinaryOp::Sub => map2(r, dst, a, b, i64::wrapping_sub),
        BinaryOp::Mul => map2(r, dst, a, b, i64::wrapping_mul),
        BinaryOp::Min => map2(r, dst, a, b, |a: i64, b: i64| a.min(b)),
        BinaryOp::Max => map2(r, dst, a, b, |a: i64, b: i64| a.max(b)),
        BinaryOp::BitAnd => map2(r, dst, a, b, |a: i64, b: i64| a & b),
        BinaryOp::BitOr => map2(r, dst, a, b, |a: i64, b: i64| a | b),
        BinaryOp::BitXor => map2(r, dst, a, b, |a: i64, b: i64| a ^ b),
        _ => {}
    }
}

#[inline(always)]
fn cast(r: &mut Registers, from: Repr, to: Repr, dst: Loc, a: Loc) {
    use DtypeClass::{Bool, Float, Int};
    // `None`: `usize`.
    let class = |repr| match repr {
        Repr::Index => None,
        Repr::Element(dtype) => Some((dtype, Dtype::class(dtype))),
    };
    match (class(from), class(to)) {
        (None, None) => map1(r, dst, a, |a: i64| a),
        (None, Some((_, Bool))) => map1(r, dst, a, |a: i64| a != 0),
        (None, Some((_, Int(to)))) => map1(r, dst, a, |a: i64| numeric::truncate(to, a)),
        (None, Some((to, Float(_)))) => {
            map1(r, dst, a, |a: i64| a as f32);
            round(r, to, dst);
        }
        (Some((_, Bool)), None) => map1(r, dst, a, |a: bool| i64::from(a)),
        (Some((_, Bool)), Some((_, Bool))) => map1(r, dst, a, |a: bool| a),
        (Some((_, Bool)), Some((_, Int(_)))) => map1(r, dst, a, |a: bool| u32::from(a)),
        (Some((_, Bool)), Some((_, Float(_)))) => map1(r, dst, a, |a: bool| f32::from(u8::from(a))),
        (Some((_, Int(from))), None) => map1(r, dst, a, |a: u32| numeric::extend(from, a)),
        (Some((_, Int(_))), Some((_, Bool))) => map1(r, dst, a, |a: u32| a != 0),
        (Some((_, Int(from))), Some((_, Int(to)))) => {
            map1(r, dst, a, |a: u32| numeric::truncate(to, numeric::extend(from, a)));
        }
        (Some((_, Int(from))), Some((to, Float(_)))) => {
            map1(r, dst, a, |a: u32| numeric::extend(from, a) as f32);
            round(r, to, dst);
        }
        (Some((_, Float(_))), None) => map1(r, dst, a, numeric::float_to_index),
        (Some((_, Float(_))), Some((_, Bool))) => map1(r, dst, a, |a: f32| a != 0.0),
        (Some((_, Float(_))), Some((_, Int(to)))) => map1(r, dst, a, |a: f32| numeric::saturate(to, a)),
        (Some((_, Float(_))), Some((to, Float(_)))) => {
            map1(r, dst, a, |a: f32| a);
            round(r, to, dst);
        }
    }
}
