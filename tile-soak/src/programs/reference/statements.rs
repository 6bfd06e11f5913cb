//! Statements: of the whole block, and of one thread.

use super::Storage;
use super::tiles::{each, gemm, reduce};
use super::{Block, Done, Machine, Thread};
use crate::programs::tree::*;
use crate::programs::value::{self, Refusal, Value};
use std::collections::HashMap;

impl Machine<'_> {
    /// A statement of the whole block.
    pub(super) fn statement(&mut self, stmt: &Stmt, block: &mut Block) -> Done {
        if !is_common(stmt) {
            for number in 0..block.threads.len() {
                let Block { shared, threads } = block;
                self.alone(stmt, &mut threads[number], shared)?;
            }
            return Ok(());
        }
        match stmt {
            Stmt::Sync | Stmt::SyncWarp => Ok(()),
            Stmt::If { cond, then, els } => {
                let mut all = block.threads.iter().map(|t| self.eval(cond, t, Some(&block.shared))?.truth());
                let first = all.next().unwrap_or(Ok(false))?;
                if all.any(|c| c != Ok(first)) {
                    return Err("a collective stands under a condition that differs between threads".into());
                }
                self.statements(if first { then } else { els }, block)
            }
            Stmt::IfGiven { tensor, then, els } => {
                self.statements(if self.program.is_given(tensor) { then } else { els }, block)
            }
            Stmt::For { var, from, to, step, body, .. } => {
                let at = |m: &Self, e| m.eval(e, &block.threads[0], Some(&block.shared))?.index();
                let (from, to) = (at(self, from)?, at(self, to)?);
                for i in (from..to).step_by(*step as usize) {
                    set(block, var, Value::Index(i));
                    self.statements(body, block)?;
                }
                Ok(())
            }
            Stmt::Outlined { body, .. } => self.statements(body, block),
            Stmt::Persistent { vars, extents, body, .. } => {
                let at = |m: &Self, e| m.eval(e, &block.threads[0], None)?.index();
                let extents = extents.iter().map(|e| at(self, e)).collect::<Result<Vec<i64>, _>>()?;
                each(&extents, &mut |tile| {
                    vars.iter().zip(tile).for_each(|(var, i)| set(block, var, Value::Index(*i)));
                    self.statements(body, block)
                })
            }
            Stmt::Parallel { vars, extents, body } => each(extents, &mut |tile| {
                let mut thread = block.threads[0].clone();
                vars.iter().zip(tile).for_each(|(var, i)| {
                    thread.names.insert(var.clone(), Value::Index(*i));
                });
                body.iter().try_for_each(|stmt| self.alone(stmt, &mut thread, &mut block.shared))
            }),
            Stmt::Copy { from, to, .. } => self.copy(from, to, block),
            Stmt::Fill { array, value } => self.fill(array, value.as_ref(), block),
            Stmt::Gemm { a, b, acc, clear, .. } => gemm(a, b, acc, *clear, block),
            Stmt::Reduce { how, from, to, axis } => reduce(*how, from, to, *axis, block),
            Stmt::AllReduce { name, how, value, axis } => {
                let values = self.values(value, block)?;
                let combined = self.over_axis(*how, &values, axis)?;
                put(block, name, combined);
                Ok(())
            }
            Stmt::AllReduceLocal { how, array, axis } => {
                let count = block.threads[0].locals[array].data.len();
                for element in 0..count {
                    let values: Vec<Value> = block.threads.iter().map(|t| t.locals[array].data[element]).collect();
                    let combined = self.over_axis(*how, &values, axis)?;
                    for (thread, value) in block.threads.iter_mut().zip(combined) {
                        if let Some(local) = thread.locals.get_mut(array) {
                            local.data[element] = value;
                        }
                    }
                }
                Ok(())
            }
            Stmt::WarpReduce { name, how, value } => {
                let values = self.values(value, block)?;
                let mut combined = Vec::new();
                for warp in values.chunks(32) {
                    let total = warp[1..].iter().try_fold(warp[0], |a, b| value::binary(how.op(), a, *b))?;
                    combined.extend(vec![total; warp.len()]);
                }
                put(block, name, combined);
                Ok(())
            }
            Stmt::Warp { name, ask, value } => {
                let values = self.values(value, block)?;
                put(block, name, asked(*ask, &values)?);
                Ok(())
            }
            Stmt::LastArriver { counter, at, count, body } => {
                let first = &block.threads[0];
                let at = self.indices(at, first, &block.shared)?;
                let count = self.eval(count, first, None)?.index()?;
                let arrived = self.arrivals.entry((counter.clone(), at)).or_insert(0);
                *arrived += 1;
                if *arrived == count {
                    *arrived = 0;
                    return self.statements(body, block);
                }
                Ok(())
            }
            Stmt::ClusterReduce { .. } | Stmt::ClusterExchange { .. } => {
                Err("what a cluster does together does not stand in the body itself".into())
            }
            _ => Err("a statement of threads is done for the block".into()),
        }
    }

    /// A statement of one thread.
    pub(super) fn alone(&mut self, stmt: &Stmt, thread: &mut Thread, shared: &mut HashMap<String, Storage>) -> Done {
        match stmt {
            Stmt::Let { name, value, .. } => {
                let value = self.eval(value, thread, Some(shared))?;
                thread.names.insert(name.clone(), value);
            }
            Stmt::Assign { name, op, value } => {
                let old = thread.names.get(name).copied().unwrap_or(Value::Nothing);
                let old = (*op).map(|op| (op, old, Expr::Name(name.clone(), value.ty())));
                let new = self.updated(old, value, thread, shared)?;
                thread.names.insert(name.clone(), new);
            }
            Stmt::Store { array, at, op, value, masked } => {
                let place = self.indices(at, thread, shared)?;
                let load = Expr::Load { array: array.clone(), ty: value.ty(), at: at.clone(), masked: *masked };
                let old = match op {
                    Some(op) => Some((*op, self.eval(&load, thread, Some(shared))?, load)),
                    None => None,
                };
                let new = self.updated(old, value, thread, shared)?;
                self.store(array, &place, new, *masked, thread, shared)?;
            }
            Stmt::If { cond, then, els } => {
                let cond = self.eval(cond, thread, Some(shared))?.truth()?;
                for stmt in if cond { then } else { els } {
                    self.alone(stmt, thread, shared)?;
                }
            }
            Stmt::IfGiven { tensor, then, els } => {
                let chosen = if self.program.is_given(tensor) { then } else { els };
                chosen.iter().try_for_each(|stmt| self.alone(stmt, thread, shared))?;
            }
            Stmt::Outlined { body, .. } => body.iter().try_for_each(|stmt| self.alone(stmt, thread, shared))?,
            Stmt::For { var, from, to, step, body, .. } => {
                let from = self.eval(from, thread, Some(shared))?.index()?;
                let to = self.eval(to, thread, Some(shared))?.index()?;
                for i in (from..to).step_by(*step as usize) {
                    thread.names.insert(var.clone(), Value::Index(i));
                    body.iter().try_for_each(|stmt| self.alone(stmt, thread, shared))?;
                }
            }
            Stmt::Atomic { old, how, array, at, value } => {
                let place = self.indices(at, thread, shared)?;
                let value = self.eval(value, thread, Some(shared))?;
                let load = Expr::Load { array: array.clone(), ty: value_type(value), at: at.clone(), masked: false };
                let before = self.eval(&load, thread, Some(shared))?;
                self.store(array, &place, value::binary(how.op(), before, value)?, false, thread, shared)?;
                if let Some(name) = old {
                    thread.names.insert(name.clone(), before);
                }
            }
            _ => return Err("a statement of the block is done by one thread".into()),
        }
        Ok(())
    }

    /// A value a thread, combined over the threads that differ only on one axis.
    pub(super) fn over_axis(&self, how: Combine, values: &[Value], axis: &str) -> Result<Vec<Value>, Refusal> {
        let program = self.program;
        let position = program.threads.iter().position(|(name, _)| name == axis).unwrap_or(0);
        let stride: i64 = program.threads[..position].iter().map(|(_, n)| n).product();
        let extent = program.threads[position].1;
        (0..values.len() as i64)
            .map(|number| {
                let first = number - number / stride % extent * stride;
                let group: Vec<Value> = (0..extent).map(|i| values[(first + i * stride) as usize]).collect();
                group[1..].iter().try_fold(group[0], |a, b| value::binary(how.op(), a, *b))
            })
            .collect()
    }
}

/// Whether a statement, or one in it, is the whole block's.
fn is_common(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Let { .. } | Stmt::Assign { .. } | Stmt::Store { .. } | Stmt::Atomic { .. } => false,
        Stmt::If { .. } | Stmt::IfGiven { .. } | Stmt::Outlined { .. } | Stmt::For { .. } => {
            stmt.bodies().into_iter().flatten().any(is_common)
        }
        _ => true,
    }
}

fn set(block: &mut Block, name: &str, value: Value) {
    for thread in &mut block.threads {
        thread.names.insert(name.into(), value);
    }
}

fn put(block: &mut Block, name: &str, values: Vec<Value>) {
    for (thread, value) in block.threads.iter_mut().zip(values) {
        thread.names.insert(name.into(), value);
    }
}

fn value_type(value: Value) -> Ty {
    match value {
        Value::I32(_) => Ty::I32,
        Value::U32(_) => Ty::U32,
        Value::Bool(_) => Ty::Bool,
        Value::Float(ty, _) => ty,
        Value::Index(_) | Value::Nothing => Ty::Index,
    }
}

fn asked(ask: Ask, values: &[Value]) -> Result<Vec<Value>, Refusal> {
    let mut all = Vec::new();
    for warp in values.chunks(32) {
        let count = warp.len();
        let lane = |lane: usize, own: Value| warp.get(lane).copied().unwrap_or(own);
        let truths = || warp.iter().map(|v| v.truth()).collect::<Result<Vec<bool>, _>>();
        all.extend(match ask {
            Ask::Xor(mask) => (0..count).map(|i| lane(i ^ mask as usize, warp[i])).collect::<Vec<_>>(),
            Ask::Down(by) => (0..count).map(|i| lane(i + by as usize, warp[i])).collect(),
            Ask::Up(by) => {
                (0..count).map(|i| i.checked_sub(by as usize).map_or(warp[i], |j| lane(j, warp[i]))).collect()
            }
            Ask::Lane(from) => (0..count).map(|i| lane(from as usize, warp[i])).collect(),
            Ask::Ballot => {
                let bits = truths()?.iter().enumerate().fold(0, |bits, (i, t)| bits | u32::from(*t) << i);
                vec![Value::U32(bits); count]
            }
            Ask::Any => vec![Value::Bool(truths()?.contains(&true)); count],
            Ask::All => vec![Value::Bool(!truths()?.contains(&false)); count],
        });
    }
    Ok(all)
}
