//! A lowered program, one thread of it, as the emitted C computes it.

use super::launch::Launch;
use super::{Event, Point, datum};
use crate::ir::{BinaryOp, Dtype, UnaryOp};
use crate::lowered::*;
use std::collections::BTreeMap;

/// Operations until a thread counts as endless.
const STEPS: u32 = 20_000;

#[derive(Clone, Copy, Debug)]
enum Datum {
    /// An `int` or a `long long`, by the type of the value.
    Index(i64),
    Bits(Dtype, u32),
}

struct Run<'a> {
    program: &'a Program,
    launch: &'a Launch,
    point: Point,
    regs: BTreeMap<RegId, Datum>,
    steps: u32,
    events: Vec<Event>,
}

/// Runs one thread; what it accesses, in order.
pub(super) fn run(program: &Program, launch: &Launch, point: Point) -> Result<Vec<Event>, String> {
    let mut run = Run { program, launch, point, regs: BTreeMap::new(), steps: 0, events: Vec::new() };
    run.ops(&program.body)?;
    Ok(run.events)
}

impl Run<'_> {
    fn ops(&mut self, ops: &[Op]) -> Result<(), String> {
        for op in ops {
            self.steps += 1;
            if self.steps > STEPS {
                return Err("the device does not come to an end".into());
            }
            if let OpKind::Let { reg, value: Some(value) } | OpKind::Set { reg, value } = &op.kind {
                let (held, ty) = (self.program.regs[*reg].ty, self.program.values[*value].ty);
                let value = self.value(*value)?;
                // C converts in silence.
                self.regs.insert(*reg, if held == ty { value } else { held_in(held, value)? });
            } else if let OpKind::If { cond, then, otherwise } = &op.kind {
                let arm = if self.truth(*cond)? { then } else { otherwise };
                self.ops(arm)?;
            } else if let OpKind::For { reg, start, end, step, body, .. } = &op.kind {
                self.counted(*reg, [*start, *end, *step], body)?;
            } else if let OpKind::Store { memory, value } | OpKind::Atomic { memory, value, .. } = &op.kind {
                if !self.passes(memory)? {
                    continue;
                }
                let value = self.value(*value)?;
                let Datum::Bits(_, bits) = value else { return Err("a stored index".into()) };
                let (param, offset) = self.element(memory)?;
                self.events.push(Event::Store(param, offset, bits));
            } else {
                return Err(format!("`{}` is not generated", op.kind.name()));
            }
        }
        Ok(())
    }

    /// `for (reg = start; reg < end; reg += step)` in the type of `reg`.
    fn counted(&mut self, reg: RegId, [start, end, step]: [ValueId; 3], body: &[Op]) -> Result<(), String> {
        let ty = self.program.regs[reg].ty;
        let (start, end, step) = (self.index(start)?, self.index(end)?, self.index(step)?);
        if step < 1 && start < end {
            return Err(format!("a step of {step}"));
        }
        let mut at = fitted(ty, start.into(), "a loop's start")?;
        while at < end {
            self.regs.insert(reg, Datum::Index(at));
            self.ops(body)?;
            at = fitted(ty, i128::from(at) + i128::from(step), "a loop's index")?;
        }
        Ok(())
    }

    fn passes(&mut self, memory: &Memory) -> Result<bool, String> {
        memory.guard.map_or(Ok(true), |guard| self.truth(guard.cond))
    }

    /// The element that an access goes to: it must be one of the tensor.
    fn element(&mut self, memory: &Memory) -> Result<(u32, i128), String> {
        let tensor = self.program.tensor(memory.space).ok_or("no tensor")?;
        let offset = i128::from(self.index(memory.offset)?);
        let extents = tensor.shape.iter().map(|e| e.evaluate(self.launch).map(i128::from));
        let len = extents.collect::<Option<Vec<i128>>>().ok_or("an extent")?.into_iter().product::<i128>();
        if !(0..len).contains(&offset) {
            return Err(format!("element {offset} of {len} of `{}` is accessed on the device", tensor.name));
        }
        Ok((tensor.param.as_u32(), offset))
    }

    fn index(&mut self, id: ValueId) -> Result<i64, String> {
        match self.value(id)? {
            Datum::Index(value) => Ok(value),
            other => Err(format!("{other:?} is no index")),
        }
    }

    /// What the right operand of a sum adds, term by term: C adds up from the left what is printed without parentheses.
    fn terms(&self, operand: ValueId) -> Vec<ValueId> {
        match self.program.values[operand].kind {
            ValueKind::Binary(BinaryOp::Add, a, b) if !self.program.is_apart(operand) => {
                [self.terms(a), self.terms(b)].concat()
            }
            _ => vec![operand],
        }
    }

    fn truth(&mut self, id: ValueId) -> Result<bool, String> {
        match self.value(id)? {
            Datum::Bits(Dtype::Bool, bits) => Ok(bits != 0),
            other => Err(format!("{other:?} is no condition")),
        }
    }

    fn value(&mut self, id: ValueId) -> Result<Datum, String> {
        let value = &self.program.values[id];
        let index = |number: i128| fitted(value.ty, number, "an index").map(Datum::Index);
        match &value.kind {
            ValueKind::Int(number) => match value.ty {
                ValueType::Element(dtype) => Ok(Datum::Bits(dtype, *number as u32)),
                _ => index((*number).into()),
            },
            ValueKind::Float(number) => Ok(Datum::Bits(Dtype::F32, (*number as f32).to_bits())),
            ValueKind::Param(at) => match self.program.params[*at as usize].kind {
                ParameterKind::Dim(dim) => index(HostValues::dim(self.launch, dim).into()),
                ParameterKind::Stride(tensor, axis) => index(HostValues::stride(self.launch, tensor, axis).into()),
                ParameterKind::Scalar(param) => match (value.ty, HostValues::scalar(self.launch, param)) {
                    (ValueType::Element(dtype), number) => Ok(Datum::Bits(dtype, number as u32)),
                    (_, number) => index(number.into()),
                },
                ParameterKind::Pointer(tensor) => index(HostValues::address(self.launch, tensor).into()),
                other => Err(format!("{other:?} as a value")),
            },
            ValueKind::Thread(_) => index(self.point.1.into()),
            ValueKind::Block(_) => index(self.point.0.into()),
            ValueKind::Reg(reg) => self.regs.get(reg).copied().ok_or_else(|| "a register without a value".into()),
            ValueKind::Unary(UnaryOp::Not, x) => Ok(truth(!self.truth(*x)?)),
            ValueKind::Binary(BinaryOp::And, a, b) => Ok(truth(self.truth(*a)? && self.truth(*b)?)),
            ValueKind::Binary(BinaryOp::Or, a, b) => Ok(truth(self.truth(*a)? || self.truth(*b)?)),
            ValueKind::Binary(BinaryOp::Add, a, b) if matches!(value.ty, ValueType::Index | ValueType::Wide) => {
                let mut sum = self.index(*a)?;
                for term in self.terms(*b) {
                    sum = fitted(value.ty, i128::from(sum) + i128::from(self.index(term)?), "a part of a sum")?;
                }
                Ok(Datum::Index(sum))
            }
            ValueKind::Binary(op, a, b) => {
                let types = [a, b].map(|v| self.program.values[*v].ty);
                if types[0] != types[1] && !matches!(op, BinaryOp::Shl | BinaryOp::Shr) {
                    return Err(format!("`{}` of {types:?}", op.symbol()));
                }
                match (self.value(*a)?, self.value(*b)?) {
                    (Datum::Bits(Dtype::U32, a), Datum::Bits(Dtype::U32, b)) => unsigned(*op, a, b),
                    (Datum::Bits(Dtype::I32, a), Datum::Bits(Dtype::I32, b)) => signed(*op, a as i32, b as i32),
                    (Datum::Index(a), Datum::Index(b)) => operation(*op, types[0], a, b),
                    other => Err(format!("`{}` of {other:?}", op.symbol())),
                }
            }
            ValueKind::Select(cond, a, b) => {
                let (cond, a, b) = (self.truth(*cond)?, self.value(*a)?, self.value(*b)?);
                Ok(if cond { a } else { b })
            }
            ValueKind::Choose(cond, a, b) => {
                let arm = if self.truth(*cond)? { *a } else { *b };
                self.value(arm)
            }
            ValueKind::Divisor(x) => {
                let divisor = self.index(*x)?;
                Ok(Datum::Index(if divisor == 0 { 1 } else { divisor }))
            }
            ValueKind::Quotient(x, d, r) => {
                let [x, d, r] = [self.index(*x)?, self.index(*d)?, self.index(*r)?];
                let least = (x * r) >> 31;
                index(i128::from(least + i64::from(x - least * d >= d)))
            }
            ValueKind::Cast(x) => {
                let x = self.value(*x)?;
                held_in(value.ty, x)
            }
            ValueKind::Load(memory) => {
                let ValueType::Element(dtype) = value.ty else { return Err("an index in memory".into()) };
                if !self.passes(memory)? {
                    return Ok(Datum::Bits(dtype, 0));
                }
                let (param, offset) = self.element(memory)?;
                self.events.push(Event::Load(param, offset));
                Ok(Datum::Bits(dtype, datum(param, offset, dtype)))
            }
            ValueKind::Unary(UnaryOp::Neg, _)
            | ValueKind::Math(..)
            | ValueKind::Special(_)
            | ValueKind::Pack(..)
            | ValueKind::Unpack(..)
            | ValueKind::Descriptor { .. } => Err(format!("{:?} is not generated", value.kind)),
        }
    }
}

fn truth(value: bool) -> Datum {
    Datum::Bits(Dtype::Bool, u32::from(value))
}

/// A number that a type must hold: anything else is a wrap, or a conversion that changes it.
fn fitted(ty: ValueType, number: i128, what: &str) -> Result<i64, String> {
    let fits = match ty {
        ValueType::Index => i32::try_from(number).is_ok(),
        _ => i64::try_from(number).is_ok(),
    };
    if fits { Ok(number as i64) } else { Err(format!("{what} wraps: {number} as {ty:?}")) }
}

fn held_in(ty: ValueType, value: Datum) -> Result<Datum, String> {
    match (value, ty) {
        (Datum::Index(value), ValueType::Element(Dtype::F32)) => Ok(Datum::Bits(Dtype::F32, (value as f32).to_bits())),
        (Datum::Index(value), _) => fitted(ty, value.into(), "a conversion").map(Datum::Index),
        (Datum::Bits(Dtype::U32, bits), _) => fitted(ty, bits.into(), "a conversion").map(Datum::Index),
        (Datum::Bits(Dtype::I32, bits), _) => fitted(ty, (bits as i32).into(), "a conversion").map(Datum::Index),
        // `tile_float_to_index`
        (Datum::Bits(Dtype::F32, bits), _) => {
            let converted = (f32::from_bits(bits) as i64).clamp(0, 1 << 62);
            fitted(ty, converted.into(), "a conversion").map(Datum::Index)
        }
        (Datum::Bits(..), _) => Err(format!("{value:?} as {ty:?}")),
    }
}

/// An operation of `unsigned` or `int` in C with the prelude's wrapping sums, differences and products. The emitter takes numbers of
/// shifts modulo 32; shifts to the left are of the bits.
macro_rules! integer {
    ($op:expr, $dtype:expr, $a:expr, $b:expr) => {{
        use BinaryOp::*;
        let (op, a, b) = ($op, $a, $b);
        let value = match op {
            Add => a.wrapping_add(b),
            Sub => a.wrapping_sub(b),
            Mul => a.wrapping_mul(b),
            Div => a.checked_div(b).ok_or("a quotient that does not exist")?,
            Rem => a.checked_rem(b).ok_or("a remainder that does not exist")?,
            Min => a.min(b),
            Max => a.max(b),
            BitAnd => a & b,
            BitOr => a | b,
            BitXor => a ^ b,
            Shl => a << (b & 31),
            Shr => a >> (b & 31),
            _ => return compared(op, a, b),
        };
        Ok(Datum::Bits($dtype, value as u32))
    }};
}

fn unsigned(op: BinaryOp, a: u32, b: u32) -> Result<Datum, String> {
    integer!(op, Dtype::U32, a, b)
}

fn signed(op: BinaryOp, a: i32, b: i32) -> Result<Datum, String> {
    integer!(op, Dtype::I32, a, b)
}

fn compared<T: PartialOrd>(op: BinaryOp, a: T, b: T) -> Result<Datum, String> {
    Ok(truth(match op {
        BinaryOp::Lt => a < b,
        BinaryOp::Le => a <= b,
        BinaryOp::Gt => a > b,
        BinaryOp::Ge => a >= b,
        BinaryOp::Eq => a == b,
        BinaryOp::Ne => a != b,
        _ => return Err(format!("`{}` of data", op.symbol())),
    }))
}

fn operation(op: BinaryOp, ty: ValueType, a: i64, b: i64) -> Result<Datum, String> {
    use BinaryOp::*;
    let (x, y) = (i128::from(a), i128::from(b));
    let result = match op {
        Add => x + y,
        Sub => x - y,
        Mul => x * y,
        Div | Rem | CeilDiv if b == 0 => return Err(format!("{a} {} 0 on the device", op.symbol())),
        Div => x / y,
        // The quotient of the least number by -1 has no value, so the remainder has none.
        Rem => {
            fitted(ty, x / y, "a remainder")?;
            x % y
        }
        // `(unsigned)a + (unsigned)b - 1`, divided without signs.
        CeilDiv if ty == ValueType::Index => {
            if a < 0 || b < 0 {
                return Err(format!("ceil_div({a}, {b}) without signs"));
            }
            (x + y - 1) / y
        }
        CeilDiv => x / y + i128::from(x % y != 0 && (x < 0) == (y < 0)),
        Min => x.min(y),
        Max => x.max(y),
        BitAnd => x & y,
        BitOr => x | y,
        BitXor => x ^ y,
        Shl | Shr if !(0..32).contains(&b) => return Err(format!("a shift by {b} on the device")),
        Shl => x << y,
        Shr => x >> y,
        Lt => return Ok(truth(a < b)),
        Le => return Ok(truth(a <= b)),
        Gt => return Ok(truth(a > b)),
        Ge => return Ok(truth(a >= b)),
        Eq => return Ok(truth(a == b)),
        Ne => return Ok(truth(a != b)),
        And | Or => return Err("conditions".into()),
    };
    fitted(ty, result, op.symbol()).map(Datum::Index)
}
