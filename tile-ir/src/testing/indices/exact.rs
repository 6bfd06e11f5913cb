//! A bound kernel, one thread of it, in integers that do not end.

use super::launch::Launch;
use super::{Event, Point, datum};
use crate::ir::*;
use std::collections::BTreeMap;

/// Iterations of all loops together.
const ITERATIONS: u32 = 64;

/// What a thread does.
#[derive(Default)]
pub(super) struct Exact {
    /// Accesses inside their tensors, in order.
    pub(super) events: Vec<Event>,
    /// Every index that is evaluated: access, axis, value, extent.
    pub(super) indices: Vec<(AccessId, usize, i128, i128)>,
    /// Whether it was given up, because a loop is too long.
    pub(super) cut: bool,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Index(i128),
    Bool(bool),
    Bits(Dtype, u32),
}

struct Run<'a> {
    kernel: &'a Kernel,
    launch: &'a Launch,
    vars: BTreeMap<VarId, Value>,
    iterations: u32,
    done: Exact,
}

/// Runs one thread.
pub(super) fn run(kernel: &Kernel, launch: &Launch, (block, thread): Point) -> Result<Exact, String> {
    let mut run = Run { kernel, launch, vars: BTreeMap::new(), iterations: 0, done: Exact::default() };
    run.vars.insert(kernel.grid[0].var, Value::Index(block.into()));
    run.vars.insert(kernel.threads[0].var, Value::Index(thread.into()));
    run.block(&kernel.body)?;
    Ok(run.done)
}

impl Run<'_> {
    fn block(&mut self, body: &[StmtId]) -> Result<(), String> {
        for stmt in body {
            if self.done.cut {
                break;
            }
            match &self.kernel.stmts[*stmt].kind {
                StmtKind::Let { var, value: Some(value) } | StmtKind::Assign { var, value } => {
                    let value = self.value(*value)?;
                    self.vars.insert(*var, value);
                }
                StmtKind::If { cond, then, otherwise } => {
                    let arm = if self.truth(*cond)? { then } else { otherwise };
                    self.block(arm)?;
                }
                StmtKind::For { var, start, end, step, body, .. } => {
                    let (mut at, end, step) = (self.index(*start)?, self.index(*end)?, self.index(*step)?);
                    if step < 1 && at < end {
                        return Err(format!("a step of {step}"));
                    }
                    while at < end && !self.done.cut {
                        self.iterations += 1;
                        self.done.cut |= self.iterations > ITERATIONS;
                        self.vars.insert(*var, Value::Index(at));
                        self.block(body)?;
                        at += step;
                    }
                }
                StmtKind::Store { access, value } | StmtKind::Atomic { access, value, .. } => {
                    let Value::Bits(_, bits) = self.value(*value)? else { return Err("a stored index".into()) };
                    if let Some((param, offset)) = self.element(*access)? {
                        self.done.events.push(Event::Store(param, offset, bits));
                    }
                }
                other @ (StmtKind::Let { value: None, .. }
                | StmtKind::Alloc { .. }
                | StmtKind::Parallel { .. }
                | StmtKind::Persistent { .. }
                | StmtKind::Tile(_)
                | StmtKind::Reduce { .. }
                | StmtKind::Shuffle { .. }
                | StmtKind::Vote { .. }
                | StmtKind::LastArriver { .. }
                | StmtKind::SyncThreads
                | StmtKind::SyncWarp
                | StmtKind::Print { .. }
                | StmtKind::Assert { .. }) => return Err(format!("{} is not generated", other.a_name())),
            }
        }
        Ok(())
    }

    /// Which element of which parameter; none outside.
    fn element(&mut self, access: AccessId) -> Result<Option<(u32, i128)>, String> {
        let data = &self.kernel.accesses[access];
        let Place::Tensor(param) = data.place else { return Err("an array".into()) };
        let ParamKind::Tensor { shape, .. } = &self.kernel.params[param].kind else { return Err("a scalar".into()) };
        let (mut offset, mut inside) = (0i128, true);
        for (axis, (index, extent)) in data.indices.iter().zip(shape).enumerate() {
            let index = self.index(*index)?;
            let Extent::Dim(dim) = extent else { return Err("an extent".into()) };
            let extent = i128::from(self.launch.dims[&dim.as_u32()]);
            self.done.indices.push((access, axis, index, extent));
            inside &= (0..extent).contains(&index);
            offset = if inside { offset * extent + index } else { 0 };
        }
        Ok(inside.then_some((param.as_u32(), offset)))
    }

    fn index(&mut self, id: ExprId) -> Result<i128, String> {
        match self.value(id)? {
            Value::Index(value) => Ok(value),
            other => Err(format!("{other:?} is no index")),
        }
    }

    fn truth(&mut self, id: ExprId) -> Result<bool, String> {
        match self.value(id)? {
            Value::Bool(value) => Ok(value),
            other => Err(format!("{other:?} is no condition")),
        }
    }

    fn value(&mut self, id: ExprId) -> Result<Value, String> {
        let expr = &self.kernel.exprs[id];
        Ok(match &expr.kind {
            ExprKind::Int(value) => match expr.ty.dtype() {
                Some(dtype) => Value::Bits(dtype, *value as u32),
                None => Value::Index((*value).into()),
            },
            ExprKind::Float(value) => Value::Bits(Dtype::F32, (*value as f32).to_bits()),
            ExprKind::Bool(value) => Value::Bool(*value),
            ExprKind::Dim(dim) => Value::Index(self.launch.dims[&dim.as_u32()].into()),
            ExprKind::Scalar(param) => match (expr.ty.dtype(), self.launch.scalars[&param.as_u32()]) {
                (Some(dtype), value) => Value::Bits(dtype, value as u32),
                (None, value) => Value::Index(value.into()),
            },
            ExprKind::Var(var) => *self.vars.get(var).ok_or("a variable without a value")?,
            ExprKind::Binary(BinaryOp::And, a, b) => Value::Bool(self.truth(*a)? && self.truth(*b)?),
            ExprKind::Binary(BinaryOp::Or, a, b) => Value::Bool(self.truth(*a)? || self.truth(*b)?),
            ExprKind::Binary(op, a, b) => match (self.value(*a)?, self.value(*b)?) {
                (Value::Index(a), Value::Index(b)) => operation(*op, a, b)?,
                (Value::Bits(dtype, a), Value::Bits(_, b)) => wrapped(*op, dtype, a, b)?,
                other => return Err(format!("`{}` of {other:?}", op.symbol())),
            },
            ExprKind::If(cond, a, b) => {
                let arm = if self.truth(*cond)? { *a } else { *b };
                self.value(arm)?
            }
            ExprKind::Select(cond, a, b) => {
                let (cond, a, b) = (self.truth(*cond)?, self.value(*a)?, self.value(*b)?);
                if cond { a } else { b }
            }
            ExprKind::Cast(Type::Index, x) => match self.value(*x)? {
                Value::Bits(Dtype::U32, bits) => Value::Index(bits.into()),
                Value::Bits(Dtype::I32, bits) => Value::Index((bits as i32).into()),
                Value::Bits(Dtype::F32, bits) => {
                    // Rust's saturation; a number beyond 2^62 counts as that.
                    Value::Index(i128::from(f32::from_bits(bits) as u64).min(1 << 62))
                }
                Value::Index(value) => Value::Index(value),
                other => return Err(format!("{other:?} as usize")),
            },
            ExprKind::Cast(_, x) => {
                let value = i64::try_from(self.index(*x)?).map_err(|_| "a value beyond 64 bits")?;
                Value::Bits(Dtype::F32, (value as f32).to_bits())
            }
            ExprKind::Load(access) => {
                let dtype = expr.ty.dtype().ok_or("a load without a dtype")?;
                let bits = match self.element(*access)? {
                    None => 0,
                    Some((param, offset)) => {
                        self.done.events.push(Event::Load(param, offset));
                        datum(param, offset, dtype)
                    }
                };
                Value::Bits(dtype, bits)
            }
            other => return Err(format!("{other:?} is not generated")),
        })
    }
}

/// An operation of a type of 32 bits: the exact one, of which the low 32 bits stay. Numbers of shifts count modulo 32.
fn wrapped(op: BinaryOp, dtype: Dtype, a: u32, b: u32) -> Result<Value, String> {
    let number = |bits: u32| if dtype == Dtype::I32 { i128::from(bits as i32) } else { i128::from(bits) };
    let right = if matches!(op, BinaryOp::Shl | BinaryOp::Shr) { i128::from(b % 32) } else { number(b) };
    Ok(match whole(op, number(a), right)? {
        Value::Index(value) => Value::Bits(dtype, value as u32),
        other => other,
    })
}

/// An operation of indices, whose result fits 64 bits, or else somebody was to refuse it.
fn operation(op: BinaryOp, a: i128, b: i128) -> Result<Value, String> {
    match whole(op, a, b)? {
        Value::Index(value) if i64::try_from(value).is_err() => {
            Err(format!("{a} {} {b} is beyond 64 bits, and nothing refused it", op.symbol()))
        }
        value => Ok(value),
    }
}

/// An operation of integers of any size.
fn whole(op: BinaryOp, a: i128, b: i128) -> Result<Value, String> {
    use BinaryOp::*;
    // A mistake of the author's, for which the emitted code divides by 1.
    let divisor = if b == 0 { 1 } else { b };
    let shift = || u32::try_from(b).ok().filter(|b| *b < 32).ok_or(format!("a shift by {b}"));
    let value = match op {
        Add => a + b,
        Sub => a - b,
        Mul => a * b,
        Div => a / divisor,
        Rem => a % divisor,
        CeilDiv => a.div_euclid(divisor) + i128::from(divisor > 0 && a.rem_euclid(divisor) != 0),
        Min => a.min(b),
        Max => a.max(b),
        BitAnd => a & b,
        BitOr => a | b,
        BitXor => a ^ b,
        Shl => a << shift()?,
        Shr => a >> shift()?,
        Lt => return Ok(Value::Bool(a < b)),
        Le => return Ok(Value::Bool(a <= b)),
        Gt => return Ok(Value::Bool(a > b)),
        Ge => return Ok(Value::Bool(a >= b)),
        Eq => return Ok(Value::Bool(a == b)),
        Ne => return Ok(Value::Bool(a != b)),
        And | Or => return Err("conditions".into()),
    };
    Ok(Value::Index(value))
}
