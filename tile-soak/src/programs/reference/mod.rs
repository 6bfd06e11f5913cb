//! The reference: a program evaluated as the book reads, one block after the other, one thread after the other.
//!
//! Statements between which threads meet (barriers, collectives, tiles) are done for the whole block; what stands between them
//! is done by each thread alone, from beginning to end, before the next thread. Of a program without races this is a possible
//! order, so its results are *the* results. Nothing here is parallel, vectorised, padded or laid out.

mod eval;
mod statements;
mod tiles;

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
    arrivals: HashMap<(String, Vec<i64>), i64>,
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
        let clustered = program.body.iter().position(Stmt::joins_cluster);
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

    /// A kernel whose blocks combine a tile or exchange arrays: those of a cluster run up to there, then on.
    fn clusters(&mut self, grid: &[i64], at: usize) -> Done {
        let program = self.program;
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
                    match &program.body[at] {
                        Stmt::ClusterReduce { how, array } => combined(*how, array, &mut blocks)?,
                        Stmt::ClusterExchange { from, to } => exchanged(from, to, &mut blocks)?,
                        _ => return Err("nothing that a cluster does together".into()),
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
}

/// The first block's array becomes its own combined with those of the other blocks, one after the other.
fn combined(how: Combine, array: &str, blocks: &mut [Block]) -> Done {
    let parts: Vec<Storage> = blocks.iter().map(|b| b.shared[array].clone()).collect();
    let Some(first) = blocks[0].shared.get_mut(array) else { return Err("no such array".into()) };
    for (i, element) in first.data.iter_mut().enumerate() {
        for part in &parts[1..] {
            *element = value::binary(how.op(), *element, part.data[i])?;
        }
    }
    Ok(())
}

/// Index `s` of `to`'s first axis in block `r` becomes index `r` of `from`'s in block `s`.
fn exchanged(from: &str, to: &str, blocks: &mut [Block]) -> Done {
    let sent: Vec<Storage> = blocks.iter().map(|b| b.shared[from].clone()).collect();
    for (rank, block) in blocks.iter_mut().enumerate() {
        let Some(received) = block.shared.get_mut(to) else { return Err("no such array".into()) };
        if sent.iter().any(|s| s.extents != received.extents) || received.extents[0] != sent.len() as i64 {
            return Err("an exchange without a part for each block".into());
        }
        let part = received.data.len() / sent.len();
        for (sender, sent) in sent.iter().enumerate() {
            for element in 0..part {
                received.data[sender * part + element] = sent.data[rank * part + element];
            }
        }
    }
    Ok(())
}
