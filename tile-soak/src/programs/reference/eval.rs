//! Expressions of a thread.

use super::{Block, Done, Machine, Storage, Thread};
use crate::programs::tree::*;
use crate::programs::value::{self, Refusal, Value};
use std::collections::HashMap;

impl Machine<'_> {
    /// The new value of `place op= value`. In f32 `c += a * b` is one multiply-add, as `c + a * b` is.
    pub(super) fn updated(
        &self,
        old: Option<(Op, Value, Expr)>,
        value: &Expr,
        thread: &Thread,
        shared: &HashMap<String, Storage>,
    ) -> Result<Value, Refusal> {
        match old {
            None => self.eval(value, thread, Some(shared)),
            Some((op, _, place)) => {
                let whole = Expr::Bin(op, Box::new(place), Box::new(value.clone()));
                self.eval(&whole, thread, Some(shared))
            }
        }
    }

    pub(super) fn values(&self, value: &Expr, block: &Block) -> Result<Vec<Value>, Refusal> {
        block.threads.iter().map(|t| self.eval(value, t, Some(&block.shared))).collect()
    }

    pub(super) fn indices(
        &self,
        at: &[Expr],
        thread: &Thread,
        shared: &HashMap<String, Storage>,
    ) -> Result<Vec<i64>, Refusal> {
        at.iter().map(|e| self.eval(e, thread, Some(shared))?.index()).collect()
    }

    pub(super) fn storage<'s>(
        &'s self,
        name: &str,
        thread: &'s Thread,
        shared: Option<&'s HashMap<String, Storage>>,
    ) -> Result<&'s Storage, Refusal> {
        let found = self.globals.get(name).or_else(|| thread.locals.get(name)).or_else(|| shared?.get(name));
        found.ok_or_else(|| format!("there is no array `{name}`"))
    }

    pub(super) fn store(
        &mut self,
        name: &str,
        at: &[i64],
        new: Value,
        masked: bool,
        thread: &mut Thread,
        shared: &mut HashMap<String, Storage>,
    ) -> Done {
        let found = self.globals.get_mut(name).or_else(|| thread.locals.get_mut(name)).or_else(|| shared.get_mut(name));
        let storage = found.ok_or_else(|| format!("there is no array `{name}`"))?;
        match storage.place(at) {
            Some(place) => storage.data[place] = new,
            None if masked => {}
            None => return Err(format!("`{name}{at:?}` is outside of {:?}", storage.extents)),
        }
        Ok(())
    }

    pub(super) fn eval(
        &self,
        expr: &Expr,
        thread: &Thread,
        shared: Option<&HashMap<String, Storage>>,
    ) -> Result<Value, Refusal> {
        let eval = |e: &Expr| self.eval(e, thread, shared);
        Ok(match expr {
            Expr::Int(value) => Value::Index(*value),
            Expr::Lit(ty, value) => Value::literal(*ty, *value),
            Expr::Name(name, _) => {
                let value = thread.names.get(name).ok_or_else(|| format!("there is no `{name}`"))?;
                if *value == Value::Nothing {
                    return Err(format!("`{name}` has no value yet"));
                }
                *value
            }
            Expr::Load { array, at, masked, .. } => {
                let storage = self.storage(array, thread, shared)?;
                let at = at.iter().map(|e| eval(e)?.index()).collect::<Result<Vec<i64>, _>>()?;
                match storage.place(&at) {
                    Some(place) if storage.data[place] == Value::Nothing => {
                        return Err(format!("`{array}{at:?}` is read before it is written"));
                    }
                    Some(place) => storage.data[place],
                    None if *masked => Value::literal(storage.ty, 0.0),
                    None => return Err(format!("`{array}{at:?}` is outside of {:?}", storage.extents)),
                }
            }
            Expr::Bin(Op::And, a, b) => Value::Bool(eval(a)?.truth()? && eval(b)?.truth()?),
            Expr::Bin(Op::Or, a, b) => Value::Bool(eval(a)?.truth()? || eval(b)?.truth()?),
            Expr::Bin(op @ (Op::Add | Op::Sub), a, b) if expr.ty() == Ty::F32 => {
                return self.contracted(*op, a, b, &eval);
            }
            Expr::Bin(op, a, b) => value::binary(*op, eval(a)?, eval(b)?)?,
            Expr::Neg(x) => value::negate(eval(x)?)?,
            Expr::Not(x) => value::invert(eval(x)?)?,
            Expr::Call(function, args) => {
                let args = args.iter().map(eval).collect::<Result<Vec<Value>, _>>()?;
                value::call(*function, &args)?
            }
            Expr::Choose { c, a, b, .. } => eval(if eval(c)?.truth()? { a } else { b })?,
            Expr::Cast(ty, x) => eval(x)?.cast(*ty)?,
            Expr::Apply { function, args, .. } => {
                let found = self.program.functions.iter().find(|f| f.name == *function);
                let function = found.ok_or_else(|| format!("there is no function `{function}`"))?;
                let mut inside = Thread::default();
                for ((name, _), arg) in function.params.iter().zip(args) {
                    inside.names.insert(name.clone(), eval(arg)?);
                }
                self.eval(&function.value, &inside, None)?
            }
        })
    }

    /// f32 `a * b + c`, `c + a * b`, `a * b - c` and `c - a * b` are one multiply-add.
    pub(super) fn contracted(
        &self,
        op: Op,
        a: &Expr,
        b: &Expr,
        eval: &dyn Fn(&Expr) -> Result<Value, Refusal>,
    ) -> Result<Value, Refusal> {
        let product = |e: &Expr| match e {
            Expr::Bin(Op::Mul, x, y) => Some((eval(x), eval(y))),
            _ => None,
        };
        let fma = |x: Value, y: Value, z: Value| value::call(Fun::Fma, &[x, y, z]);
        match (op, product(a), product(b)) {
            (Op::Add, Some((x, y)), _) => fma(x?, y?, eval(b)?),
            (Op::Add, None, Some((x, y))) => fma(x?, y?, eval(a)?),
            (_, Some((x, y)), _) => fma(x?, y?, value::negate(eval(b)?)?),
            (_, None, Some((x, y))) => fma(value::negate(x?)?, y?, eval(a)?),
            _ => value::binary(op, eval(a)?, eval(b)?),
        }
    }
}
