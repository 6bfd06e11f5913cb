//! The reference: a program evaluated as the book reads, one block after the other, one thread after the other.
//!
//! Statements between which threads meet (barriers, collectives, tiles) are done for the whole block; what stands between them
//! is done by each thread alone, from beginning to end, before the next thread. Of a program without races this is a possible
//! order, so its results are *the* results. Nothing here is parallel, vectorised, padded or laid out.

use super::tree::*;
use super::value::{self, Refusal, Value};
use std::collections::HashMap;

/// Elements of a tensor or array, in row-major order.
#[derive(Clone, Debug)]
pub struct Storage {
    /// Their type.
    pub ty: Ty,
    /// Extents, outermost first.
    pub extents: Vec<i64>,
    /// The elements.
    pub data: Vec<Value>,
}

impl Storage {
    /// An array nobody has written.
    pub fn new(ty: Ty, extents: Vec<i64>) -> Storage {
        let count = extents.iter().product::<i64>().max(0) as usize;
        Storage { ty, extents, data: vec![Value::Nothing; count] }
    }

    /// Where an element is; `None` outside.
    fn place(&self, at: &[i64]) -> Option<usize> {
        let inside = at.len() == self.extents.len() && at.iter().zip(&self.extents).all(|(i, e)| (0..*e).contains(i));
        inside.then(|| at.iter().zip(&self.extents).fold(0, |place, (i, e)| place * e + i) as usize)
    }
}

/// All tensors after the program has run on these, by position.
///
/// # Errors
/// The program is not valid: the generator made a mistake.
pub fn run(program: &Program, tensors: Vec<Storage>) -> Result<Vec<Storage>, Refusal> {
    let names = program.tensors.iter().map(|t| t.name.clone());
    let mut machine = Machine { program, globals: names.clone().zip(tensors).collect(), arrivals: HashMap::new() };
    machine.launch()?;
    let mut globals = machine.globals;
    Ok(names.filter_map(|name| globals.remove(&name)).collect())
}

struct Machine<'p> {
    program: &'p Program,
    globals: HashMap<String, Storage>,
    /// How many blocks have arrived at a counter.
    arrivals: HashMap<(String, i64), i64>,
}

/// What a block has.
struct Block {
    shared: HashMap<String, Storage>,
    threads: Vec<Thread>,
}

/// What a thread has.
#[derive(Clone, Default)]
struct Thread {
    names: HashMap<String, Value>,
    locals: HashMap<String, Storage>,
}

/// A statement is done, or cannot be.
type Done = Result<(), Refusal>;

/// A side of a copy: the array, where the tile starts, and its extents where it has its own.
type Side = (String, Vec<i64>, Option<Vec<i64>>);

impl Machine<'_> {
    fn launch(&mut self) -> Done {
        let program = self.program;
        let mut grid = vec![1i64; 3];
        let mut outside = Thread::default();
        self.constants(&mut outside);
        for (axis, (_, extent)) in program.blocks.iter().enumerate() {
            grid[axis] = self.eval(extent, &outside, None)?.index()?;
        }
        let clustered = program.body.iter().position(|s| matches!(s, Stmt::ClusterReduce { .. }));
        let Some(at) = clustered else {
            for z in 0..grid[2] {
                for y in 0..grid[1] {
                    for x in 0..grid[0] {
                        let mut block = self.block([x, y, z]);
                        self.statements(&program.body, &mut block)?;
                    }
                }
            }
            return Ok(());
        };
        self.clusters(&grid, at)
    }

    /// A kernel whose blocks combine a tile: those of a cluster run up to there, then on.
    fn clusters(&mut self, grid: &[i64], at: usize) -> Done {
        let program = self.program;
        let Stmt::ClusterReduce { how, array } = &program.body[at] else { return Ok(()) };
        let mut cluster = program.cluster.clone();
        cluster.resize(3, 1);
        for z in (0..grid[2]).step_by(cluster[2] as usize) {
            for y in (0..grid[1]).step_by(cluster[1] as usize) {
                for x in (0..grid[0]).step_by(cluster[0] as usize) {
                    let mut blocks = Vec::new();
                    for rank in 0..cluster.iter().product::<i64>() {
                        let (i, j) = (rank % cluster[0], rank / cluster[0] % cluster[1]);
                        let mut block = self.block([x + i, y + j, z + rank / cluster[0] / cluster[1]]);
                        self.statements(&program.body[..at], &mut block)?;
                        blocks.push(block);
                    }
                    let parts: Vec<Storage> = blocks.iter().map(|b| b.shared[array].clone()).collect();
                    let Some(first) = blocks[0].shared.get_mut(array) else { return Err("no such array".into()) };
                    for (i, element) in first.data.iter_mut().enumerate() {
                        for part in &parts[1..] {
                            *element = value::binary(how.op(), *element, part.data[i])?;
                        }
                    }
                    for block in &mut blocks {
                        self.statements(&program.body[at + 1..], block)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn constants(&self, thread: &mut Thread) {
        for (name, value) in self.program.dims.iter().chain(&self.program.consts) {
            thread.names.insert(name.clone(), Value::Index(*value));
        }
        for (name, ty, value) in &self.program.scalars {
            thread.names.insert(name.clone(), Value::literal(*ty, *value));
        }
    }

    fn block(&self, [x, y, z]: [i64; 3]) -> Block {
        let program = self.program;
        let mut common = Thread::default();
        self.constants(&mut common);
        for ((name, _), value) in program.blocks.iter().zip([x, y, z]) {
            common.names.insert(name.clone(), Value::Index(value));
        }
        let mut shared = HashMap::new();
        for array in &program.arrays {
            let storage = Storage::new(array.ty, program.shape(array));
            match array.kind {
                Kind::Local => common.locals.insert(array.name.clone(), storage),
                _ => shared.insert(array.name.clone(), storage),
            };
        }
        let threads = (0..program.thread_count()).map(|number| {
            let mut thread = common.clone();
            let mut rest = number;
            for (name, extent) in &program.threads {
                thread.names.insert(name.clone(), Value::Index(rest % extent));
                rest /= extent;
            }
            thread
        });
        let threads = threads.collect();
        Block { shared, threads }
    }

    fn statements(&mut self, body: &[Stmt], block: &mut Block) -> Done {
        body.iter().try_for_each(|stmt| self.statement(stmt, block))
    }

    /// A statement of the whole block.
    fn statement(&mut self, stmt: &Stmt, block: &mut Block) -> Done {
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
            Stmt::For { var, from, to, step, body, .. } => {
                let at = |m: &Self, e| m.eval(e, &block.threads[0], Some(&block.shared))?.index();
                let (from, to) = (at(self, from)?, at(self, to)?);
                for i in (from..to).step_by(*step as usize) {
                    set(block, var, Value::Index(i));
                    self.statements(body, block)?;
                }
                Ok(())
            }
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
                let at = self.eval(at, first, None)?.index()?;
                let count = self.eval(count, first, None)?.index()?;
                let arrived = self.arrivals.entry((counter.clone(), at)).or_insert(0);
                *arrived += 1;
                if *arrived == count {
                    *arrived = 0;
                    return self.statements(body, block);
                }
                Ok(())
            }
            Stmt::ClusterReduce { .. } => Err("`cluster_reduce` does not stand in the body itself".into()),
            _ => Err("a statement of threads is done for the block".into()),
        }
    }

    /// A statement of one thread.
    fn alone(&mut self, stmt: &Stmt, thread: &mut Thread, shared: &mut HashMap<String, Storage>) -> Done {
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

    /// The new value of `place op= value`. In f32 `c += a * b` is one multiply-add, as `c + a * b` is.
    fn updated(
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

    fn values(&self, value: &Expr, block: &Block) -> Result<Vec<Value>, Refusal> {
        block.threads.iter().map(|t| self.eval(value, t, Some(&block.shared))).collect()
    }

    fn indices(&self, at: &[Expr], thread: &Thread, shared: &HashMap<String, Storage>) -> Result<Vec<i64>, Refusal> {
        at.iter().map(|e| self.eval(e, thread, Some(shared))?.index()).collect()
    }

    /// A value a thread, combined over the threads that differ only on one axis.
    fn over_axis(&self, how: Combine, values: &[Value], axis: &str) -> Result<Vec<Value>, Refusal> {
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

    fn storage<'s>(
        &'s self,
        name: &str,
        thread: &'s Thread,
        shared: Option<&'s HashMap<String, Storage>>,
    ) -> Result<&'s Storage, Refusal> {
        let found = self.globals.get(name).or_else(|| thread.locals.get(name)).or_else(|| shared?.get(name));
        found.ok_or_else(|| format!("there is no array `{name}`"))
    }

    fn store(
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

    fn eval(&self, expr: &Expr, thread: &Thread, shared: Option<&HashMap<String, Storage>>) -> Result<Value, Refusal> {
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
        })
    }

    /// f32 `a * b + c`, `c + a * b`, `a * b - c` and `c - a * b` are one multiply-add.
    fn contracted(
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

    fn side(&self, tile: &Tile, block: &Block) -> Result<Side, Refusal> {
        let thread = &block.threads[0];
        let eval = |e: &Expr| self.eval(e, thread, Some(&block.shared))?.index();
        Ok(match tile {
            Tile::Whole(name) => {
                let extents = self.storage(name, thread, Some(&block.shared))?.extents.clone();
                (name.clone(), vec![0; extents.len()], Some(extents))
            }
            Tile::Transposed(name) => {
                let extents = self.storage(name, thread, Some(&block.shared))?.extents.iter().rev().copied().collect();
                (name.clone(), vec![0, 0], Some(extents))
            }
            Tile::At(name, at) => (name.clone(), at.iter().map(eval).collect::<Result<_, _>>()?, None),
            Tile::Span(name, spans) => {
                let ends = spans.iter().map(|(a, b)| Ok((eval(a)?, eval(b)?))).collect::<Result<Vec<_>, Refusal>>()?;
                let extents = ends.iter().map(|(a, b)| b - a).collect();
                (name.clone(), ends.iter().map(|(a, _)| *a).collect(), Some(extents))
            }
        })
    }

    fn copy(&mut self, from: &Tile, to: &Tile, block: &mut Block) -> Done {
        // Arrays of a thread are filled by each thread, at its own place.
        if let Tile::Whole(name) = to
            && block.threads[0].locals.contains_key(name)
        {
            return Err("copies to local arrays are not generated".into());
        }
        let transposed = matches!(from, Tile::Transposed(_));
        let (source, first, own) = self.side(from, block)?;
        let (target, start, other) = self.side(to, block)?;
        let extents = own.or(other).ok_or("a copy has no extents")?;
        let ty = self.storage(&target, &block.threads[0], Some(&block.shared))?.ty;
        each(&extents, &mut |tile| {
            let at = |first: &[i64]| -> Vec<i64> {
                // Leading axes that the other side lacks have one element.
                let missing = first.len().saturating_sub(tile.len());
                let inside = std::iter::repeat_n(0, missing).chain(tile.iter().copied());
                first.iter().zip(inside).map(|(a, b)| a + b).collect()
            };
            let read = if transposed { vec![tile[1], tile[0]] } else { at(&first) };
            let storage = self.storage(&source, &block.threads[0], Some(&block.shared))?;
            let element = storage.place(&read).map_or(Value::literal(storage.ty, 0.0), |place| storage.data[place]);
            let element = match element {
                Value::Nothing => Value::Nothing,
                element => element.cast(ty)?,
            };
            let Block { shared, threads } = &mut *block;
            self.store(&target, &at(&start), element, true, &mut threads[0], shared)
        })
    }

    fn fill(&mut self, array: &str, value: Option<&Expr>, block: &mut Block) -> Done {
        let ty = self.storage(array, &block.threads[0], Some(&block.shared))?.ty;
        for number in 0..block.threads.len() {
            let value = match value {
                Some(value) => self.eval(value, &block.threads[number], Some(&block.shared))?.cast(ty)?,
                None => Value::literal(ty, 0.0),
            };
            match block.shared.get_mut(array) {
                Some(storage) => storage.data.fill(value),
                None => {
                    if let Some(local) = block.threads[number].locals.get_mut(array) {
                        local.data.fill(value);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether a statement, or one in it, is the whole block's.
fn is_common(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Let { .. } | Stmt::Assign { .. } | Stmt::Store { .. } | Stmt::Atomic { .. } => false,
        Stmt::If { .. } | Stmt::For { .. } => stmt.bodies().into_iter().flatten().any(is_common),
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

/// Every index of these extents, the last axis fastest.
fn each(extents: &[i64], f: &mut dyn FnMut(&[i64]) -> Done) -> Done {
    let count: i64 = extents.iter().product();
    let mut at = vec![0; extents.len()];
    for number in 0..count.max(0) {
        let mut rest = number;
        for (i, extent) in at.iter_mut().zip(extents).rev() {
            *i = rest % extent;
            rest /= extent;
        }
        f(&at)?;
    }
    Ok(())
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

/// `acc += a b`, every sum from 0 on in order of K.
fn gemm(a: &(String, bool), b: &(String, bool), acc: &str, clear: bool, block: &mut Block) -> Done {
    let missing = || "there is no such tile".to_owned();
    let (left, right) = (block.shared.get(&a.0).ok_or_else(missing)?, block.shared.get(&b.0).ok_or_else(missing)?);
    let matrix = |storage: &Storage| -> Result<Vec<f32>, Refusal> {
        let number = |v: &Value| match v {
            Value::Float(_, x) => Ok(*x),
            other => Err(format!("{other:?} is multiplied")),
        };
        storage.data.iter().map(number).collect()
    };
    let (x, y) = (matrix(left)?, matrix(right)?);
    let (left_row, right_row) = (left.extents[1] as usize, right.extents[1] as usize);
    let depth = left.extents[if a.1 { 0 } else { 1 }] as usize;
    let sum = block.shared.get(acc).ok_or_else(missing)?;
    let (rows, columns, ty) = (sum.extents[0] as usize, sum.extents[1] as usize, sum.ty);
    let mut data = sum.data.clone();
    for i in 0..rows {
        for j in 0..columns {
            let mut total = match (clear, data[i * columns + j]) {
                (true, _) => 0.0,
                (false, Value::Float(_, start)) => start,
                (false, other) => return Err(format!("{other:?} is an accumulator")),
            };
            for k in 0..depth {
                let l = if a.1 { x[k * left_row + i] } else { x[i * left_row + k] };
                let r = if b.1 { y[j * right_row + k] } else { y[k * right_row + j] };
                total += l * r;
            }
            data[i * columns + j] = value::float(ty, total);
        }
    }
    if let Some(sum) = block.shared.get_mut(acc) {
        sum.data = data;
    }
    Ok(())
}

fn reduce(how: Combine, from: &str, to: &str, axis: usize, block: &mut Block) -> Done {
    let missing = || "there is no such tile".to_owned();
    let source = block.shared.get(from).ok_or_else(missing)?;
    let (rows, columns) = (source.extents[0], source.extents[1]);
    let (kept, gone) = if axis == 1 { (rows, columns) } else { (columns, rows) };
    let mut results = Vec::new();
    for keep in 0..kept {
        let element = |other: i64| {
            let (i, j) = if axis == 1 { (keep, other) } else { (other, keep) };
            source.data[(i * columns + j) as usize]
        };
        results.push((1..gone).try_fold(element(0), |a, other| value::binary(how.op(), a, element(other)))?);
    }
    let target = block.shared.get_mut(to).ok_or_else(missing)?;
    for (place, result) in target.data.iter_mut().zip(results) {
        *place = result.cast(target.ty)?;
    }
    Ok(())
}
