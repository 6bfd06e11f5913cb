//! What operations on values give, written from the language's page on numbers: the reference's own arithmetic. It shares no
//! code with `tile_ir::sim`.

use super::tree::{Fun, Op, Ty};
use half::{bf16, f16};

/// A value of one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// `usize`, a mathematical integer.
    Index(i64),
    /// `bool`.
    Bool(bool),
    /// `i32`.
    I32(i32),
    /// `u32`.
    U32(u32),
    /// Any float type, as the f32 that equals it.
    Float(Ty, f32),
    /// Not written yet.
    Nothing,
}

/// Why the reference has no result: a mistake of the generator.
pub type Refusal = String;

/// A float rounded to its type.
pub fn float(ty: Ty, value: f32) -> Value {
    let rounded = match ty {
        Ty::F16 => f16::from_f32(value).to_f32(),
        Ty::Bf16 => bf16::from_f32(value).to_f32(),
        _ => value,
    };
    Value::Float(ty, rounded)
}

impl Value {
    /// The literal `value` of a type.
    pub fn literal(ty: Ty, value: f64) -> Value {
        match ty {
            Ty::Index => Value::Index(value as i64),
            Ty::Bool => Value::Bool(value != 0.0),
            Ty::I32 => Value::I32(value as i64 as i32),
            Ty::U32 => Value::U32(value as i64 as u32),
            Ty::F16 => Value::Float(ty, f16::from_f64(value).to_f32()),
            Ty::Bf16 => Value::Float(ty, bf16::from_f64(value).to_f32()),
            Ty::F32 => Value::Float(ty, value as f32),
        }
    }

    /// The index, of a `usize`.
    pub fn index(self) -> Result<i64, Refusal> {
        match self {
            Value::Index(value) => Ok(value),
            other => Err(format!("{other:?} is no index")),
        }
    }

    /// The condition, of a `bool`.
    pub fn truth(self) -> Result<bool, Refusal> {
        match self {
            Value::Bool(value) => Ok(value),
            other => Err(format!("{other:?} is no condition")),
        }
    }

    /// The bits that memory holds, zero-extended; one NaN.
    pub fn bits(self, ty: Ty) -> u32 {
        match self {
            Value::Float(_, value) if value.is_nan() => {
                if ty == Ty::F32 {
                    0x7fff_ffff
                } else {
                    0x7fff
                }
            }
            Value::Float(Ty::F16, value) => u32::from(f16::from_f32(value).to_bits()),
            Value::Float(Ty::Bf16, value) => u32::from(bf16::from_f32(value).to_bits()),
            Value::Float(_, value) => value.to_bits(),
            Value::Bool(value) => u32::from(value),
            Value::I32(value) => value as u32,
            Value::U32(value) => value,
            Value::Index(value) => value as u32,
            Value::Nothing => 0xdead_beef,
        }
    }

    /// The value of bits in memory.
    pub fn from_bits(ty: Ty, bits: u32) -> Value {
        match ty {
            Ty::Index => Value::Index(i64::from(bits)),
            Ty::Bool => Value::Bool(bits & 0xff != 0),
            Ty::I32 => Value::I32(bits as i32),
            Ty::U32 => Value::U32(bits),
            Ty::F16 => Value::Float(ty, f16::from_bits(bits as u16).to_f32()),
            Ty::Bf16 => Value::Float(ty, bf16::from_bits(bits as u16).to_f32()),
            Ty::F32 => Value::Float(ty, f32::from_bits(bits)),
        }
    }

    /// `x.cast::<ty>()`: Rust's `as`.
    pub fn cast(self, ty: Ty) -> Result<Value, Refusal> {
        Ok(match (self, ty) {
            (Value::Nothing, _) => return Err("a value that was never written is converted".into()),
            (Value::Index(x), Ty::Index) => Value::Index(x),
            (Value::Index(x), Ty::I32) => Value::I32(x as i32),
            (Value::Index(x), Ty::U32) => Value::U32(x as u32),
            (Value::Index(x), Ty::Bool) => Value::Bool(x != 0),
            (Value::Index(x), to) => float(to, x as f32),
            (Value::Bool(x), Ty::Bool) => Value::Bool(x),
            (Value::Bool(x), Ty::Index) => Value::Index(x.into()),
            (Value::Bool(x), Ty::I32) => Value::I32(x.into()),
            (Value::Bool(x), Ty::U32) => Value::U32(x.into()),
            (Value::Bool(x), to) => float(to, f32::from(u8::from(x))),
            (Value::I32(x), Ty::I32) => Value::I32(x),
            (Value::I32(x), Ty::U32) => Value::U32(x as u32),
            (Value::I32(x), Ty::Index) => Value::Index(x.into()),
            (Value::I32(x), Ty::Bool) => Value::Bool(x != 0),
            (Value::I32(x), to) => float(to, x as f32),
            (Value::U32(x), Ty::I32) => Value::I32(x as i32),
            (Value::U32(x), Ty::U32) => Value::U32(x),
            (Value::U32(x), Ty::Index) => Value::Index(x.into()),
            (Value::U32(x), Ty::Bool) => Value::Bool(x != 0),
            (Value::U32(x), to) => float(to, x as f32),
            (Value::Float(_, x), Ty::I32) => Value::I32(x as i32),
            (Value::Float(_, x), Ty::U32) => Value::U32(x as u32),
            (Value::Float(_, x), Ty::Index) => Value::Index((x as i32).max(0).into()),
            (Value::Float(_, x), Ty::Bool) => Value::Bool(x != 0.0),
            (Value::Float(_, x), to) => float(to, x),
        })
    }
}

/// `op(a, b)`, of two values of one type.
pub fn binary(op: Op, a: Value, b: Value) -> Result<Value, Refusal> {
    let refuse = || Err(format!("{a:?} {} {b:?} has no value", op.symbol()));
    Ok(match (a, b) {
        (Value::Bool(x), Value::Bool(y)) => Value::Bool(match op {
            Op::And | Op::BitAnd => x && y,
            Op::Or | Op::BitOr => x || y,
            Op::BitXor | Op::Ne => x != y,
            Op::Eq => x == y,
            _ => return refuse(),
        }),
        (Value::Index(x), Value::Index(y)) => match op {
            Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne => Value::Bool(ordered(op, x, y)),
            _ => match index(op, x, y) {
                Some(value) => Value::Index(value),
                None => return refuse(),
            },
        },
        (Value::I32(x), Value::I32(y)) => match op {
            Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne => Value::Bool(ordered(op, x, y)),
            Op::Add => Value::I32(x.wrapping_add(y)),
            Op::Sub => Value::I32(x.wrapping_sub(y)),
            Op::Mul => Value::I32(x.wrapping_mul(y)),
            Op::Div if y != 0 => Value::I32(x.wrapping_div(y)),
            Op::Rem if y != 0 => Value::I32(x.wrapping_rem(y)),
            Op::BitAnd => Value::I32(x & y),
            Op::BitOr => Value::I32(x | y),
            Op::BitXor => Value::I32(x ^ y),
            Op::Shl => Value::I32(x.wrapping_shl(y as u32)),
            Op::Shr => Value::I32(x.wrapping_shr(y as u32)),
            Op::Min => Value::I32(x.min(y)),
            Op::Max => Value::I32(x.max(y)),
            _ => return refuse(),
        },
        (Value::U32(x), Value::U32(y)) => match op {
            Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne => Value::Bool(ordered(op, x, y)),
            Op::Add => Value::U32(x.wrapping_add(y)),
            Op::Sub => Value::U32(x.wrapping_sub(y)),
            Op::Mul => Value::U32(x.wrapping_mul(y)),
            Op::Div if y != 0 => Value::U32(x / y),
            Op::Rem if y != 0 => Value::U32(x % y),
            Op::BitAnd => Value::U32(x & y),
            Op::BitOr => Value::U32(x | y),
            Op::BitXor => Value::U32(x ^ y),
            Op::Shl => Value::U32(x.wrapping_shl(y)),
            Op::Shr => Value::U32(x.wrapping_shr(y)),
            Op::Min => Value::U32(x.min(y)),
            Op::Max => Value::U32(x.max(y)),
            _ => return refuse(),
        },
        (Value::Float(ty, x), Value::Float(other, y)) if ty == other => match op {
            Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne => Value::Bool(ordered(op, x, y)),
            Op::Add => float(ty, x + y),
            Op::Sub => float(ty, x - y),
            Op::Mul => float(ty, x * y),
            Op::Div => float(ty, x / y),
            Op::Rem => float(ty, x % y),
            Op::Min => Value::Float(ty, least(x, y)),
            Op::Max => Value::Float(ty, -least(-x, -y)),
            _ => return refuse(),
        },
        _ => return refuse(),
    })
}

/// Integers of the language have no width.
fn index(op: Op, x: i64, y: i64) -> Option<i64> {
    match op {
        Op::Add => x.checked_add(y),
        Op::Sub => x.checked_sub(y),
        Op::Mul => x.checked_mul(y),
        Op::Div => x.checked_div(y),
        Op::Rem => x.checked_rem(y),
        Op::CeilDiv if x >= 0 && y > 0 => Some((x + y - 1) / y),
        Op::BitAnd => Some(x & y),
        Op::BitOr => Some(x | y),
        Op::BitXor => Some(x ^ y),
        Op::Shl if (0..31).contains(&y) => x.checked_mul(1 << y),
        Op::Shr if (0..31).contains(&y) => Some(x >> y),
        Op::Min => Some(x.min(y)),
        Op::Max => Some(x.max(y)),
        _ => None,
    }
}

fn ordered<T: PartialOrd>(op: Op, x: T, y: T) -> bool {
    match op {
        Op::Lt => x < y,
        Op::Le => x <= y,
        Op::Gt => x > y,
        Op::Ge => x >= y,
        Op::Eq => x == y,
        _ => x != y,
    }
}

/// PTX's `min`: the operand that is not NaN, and -0 below +0.
fn least(x: f32, y: f32) -> f32 {
    match (x.is_nan(), y.is_nan()) {
        (true, _) => y,
        (_, true) => x,
        _ if x == y => {
            if x.is_sign_negative() {
                x
            } else {
                y
            }
        }
        _ => {
            if x < y {
                x
            } else {
                y
            }
        }
    }
}

/// A function.
pub fn call(function: Fun, args: &[Value]) -> Result<Value, Refusal> {
    let refuse = || Err(format!("{}({args:?}) has no value", function.name()));
    match args {
        [Value::I32(x)] if function == Fun::Abs => Ok(Value::I32(x.wrapping_abs())),
        [Value::I32(x)] => match function {
            Fun::CountOnes => Ok(Value::I32(x.count_ones() as i32)),
            Fun::LeadingZeros => Ok(Value::I32(x.leading_zeros() as i32)),
            Fun::TrailingZeros => Ok(Value::I32(x.trailing_zeros() as i32)),
            _ => refuse(),
        },
        [Value::U32(x)] => match function {
            Fun::CountOnes => Ok(Value::U32(x.count_ones())),
            Fun::LeadingZeros => Ok(Value::U32(x.leading_zeros())),
            Fun::TrailingZeros => Ok(Value::U32(x.trailing_zeros())),
            _ => refuse(),
        },
        [Value::I32(x), Value::I32(y)] if function == Fun::MulHi => {
            Ok(Value::I32(((i128::from(*x) * i128::from(*y)) >> 32) as i32))
        }
        [Value::U32(x), Value::U32(y)] if function == Fun::MulHi => {
            Ok(Value::U32(((u128::from(*x) * u128::from(*y)) >> 32) as u32))
        }
        [Value::Float(ty, x)] => {
            let wide = |f: fn(f64) -> f64| f(f64::from(*x)) as f32;
            let value = match function {
                Fun::Abs => x.abs(),
                Fun::Sqrt => x.sqrt(),
                Fun::Exp | Fun::FastExp => wide(f64::exp),
                Fun::Exp2 | Fun::FastExp2 => wide(f64::exp2),
                Fun::Log => wide(f64::ln),
                Fun::Tanh | Fun::FastTanh => wide(f64::tanh),
                Fun::Rsqrt => wide(|x| 1.0 / x.sqrt()),
                Fun::FastRecip => wide(|x| 1.0 / x),
                Fun::Sin => wide(f64::sin),
                Fun::Cos => wide(f64::cos),
                Fun::Floor => wide(f64::floor),
                Fun::Ceil => wide(f64::ceil),
                Fun::Trunc => wide(f64::trunc),
                Fun::Round => wide(f64::round),
                Fun::RoundTiesEven => wide(f64::round_ties_even),
                Fun::Fma | Fun::MulHi | Fun::CountOnes | Fun::LeadingZeros | Fun::TrailingZeros => return refuse(),
            };
            Ok(float(*ty, value))
        }
        [Value::Float(ty, x), Value::Float(_, y), Value::Float(_, z)] if function == Fun::Fma => {
            Ok(float(*ty, x.mul_add(*y, *z)))
        }
        _ => refuse(),
    }
}

/// `-x`.
pub fn negate(x: Value) -> Result<Value, Refusal> {
    match x {
        Value::I32(x) => Ok(Value::I32(x.wrapping_neg())),
        Value::U32(x) => Ok(Value::U32(x.wrapping_neg())),
        Value::Float(ty, x) => Ok(Value::Float(ty, -x)),
        other => Err(format!("-{other:?} has no value")),
    }
}

/// `!x`.
pub fn invert(x: Value) -> Result<Value, Refusal> {
    match x {
        Value::Bool(x) => Ok(Value::Bool(!x)),
        Value::I32(x) => Ok(Value::I32(!x)),
        Value::U32(x) => Ok(Value::U32(!x)),
        other => Err(format!("!{other:?} has no value")),
    }
}
