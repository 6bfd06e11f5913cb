//! Races that certainly happen: one block of one launch, its integer part executed for all threads at once.
//!
//! The launch is a representative one (dims that the `require`s admit), the block is the first, and of every loop the
//! first two iterations and the last are executed. A value from memory or from a scalar parameter is unknown, and what
//! happens only under a condition that is unknown is not recorded. So every race found is a race of an execution that
//! exists; what is not found is left to the checked simulator. Bounded in work: beyond the budget nothing more is
//! reported.
//!
//! [`select`] finds what has to be executed, [`execute`] runs it on one [`Values`] a variable, [`touch`] remembers who
//! touched which element since the last barrier and compares, and [`report`] says where a barrier may stand.

mod execute;
mod report;
mod select;
mod touch;
mod values;

use super::uniform::Uniformity;
use crate::diag::Diagnostic;
use crate::ir::pipeline::shared_loads;
use crate::ir::{BoundKernel, SecondaryMap, StmtId, VarId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasherDefault;
use touch::{Cell, Key, Mix};
use values::{UNKNOWN, Values};

/// Threads executed; of a larger block, those at its start, middle and end.
const THREADS: usize = 256;

/// The races found in a bound kernel.
pub(super) fn find(
    kernel: &BoundKernel,
    uniform: &Uniformity,
    barriers: &BTreeSet<StmtId>,
    block_uniform: &BTreeSet<StmtId>,
) -> Vec<Diagnostic> {
    let count = kernel.thread_count() as usize;
    let threads: Vec<u32> = if count <= THREADS {
        (0..count as u32).collect()
    } else {
        let part = THREADS / 4;
        let middle = count / 2;
        (0..part).chain(middle - part..middle + part).chain(count - part..count).map(|t| t as u32).collect()
    };
    let mut run = Run {
        kernel,
        uniform,
        barriers,
        block_uniform,
        threads,
        dims: Vec::new(),
        vars: SecondaryMap::new(),
        pipelined: shared_loads(kernel).into_iter().map(|l| (l.stmt, l.leading)).collect(),
        needed: BTreeSet::new(),
        relevant: BTreeSet::new(),
        cells: HashMap::default(),
        epoch: 0,
        time: 0,
        around: Vec::new(),
        work: 0,
        reported: BTreeSet::new(),
        found: Vec::new(),
    };
    run.select();
    if run.relevant.is_empty() || !run.launch() {
        return vec![];
    }
    let here = vec![Here::Yes; run.threads.len()];
    run.block(&kernel.body, &here);
    run.found
}

/// The execution of one block.
struct Run<'k> {
    kernel: &'k BoundKernel,
    uniform: &'k Uniformity,
    barriers: &'k BTreeSet<StmtId>,
    block_uniform: &'k BTreeSet<StmtId>,
    /// Linear indices of the executed threads.
    threads: Vec<u32>,
    dims: Vec<i64>,
    vars: SecondaryMap<VarId, Option<Values>>,
    /// Pipelined loops that load shared arrays ahead, and how many of their statements are the loads: between those and
    /// the rest, and between iterations, the compiler places barriers.
    pipelined: BTreeMap<StmtId, usize>,
    /// Variables that indices, conditions and bounds depend on.
    needed: BTreeSet<VarId>,
    /// Statements that matter: with accesses to check, barriers, or assignments of needed variables.
    relevant: BTreeSet<StmtId>,
    cells: HashMap<(Key, i64), Cell, BuildHasherDefault<Mix>>,
    epoch: u32,
    time: u32,
    /// Statements around, from the outside in, each with the time its execution began.
    around: Vec<(StmtId, u32)>,
    work: usize,
    reported: BTreeSet<Key>,
    found: Vec<Diagnostic>,
}

/// Whether a thread is here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Here {
    No,
    Yes,
    Maybe,
}

impl Run<'_> {
    /// Chooses dims that the `require`s admit, and binds indices.
    fn launch(&mut self) -> bool {
        let kernel = self.kernel;
        let derived = kernel.derived_dims();
        let admitted = |run: &mut Self| {
            kernel.requires.iter().all(|r| match run.eval(r.cond) {
                // What is about scalar parameters too is not known.
                Values::Same(v) => v != 0,
                Values::Each(_) => false,
            })
        };
        let chosen = [4096, 1 << 14, 1 << 16, 1024, 256, 128, 64, 32, 16, 8, 4, 2, 1].into_iter().find(|value| {
            self.dims = kernel.dims.values().map(|d| d.value.unwrap_or(*value)).collect();
            for (dim, expr) in &derived {
                if let Values::Same(value) = self.eval(*expr) {
                    self.dims[dim.as_u32() as usize] = value;
                }
            }
            admitted(self)
        });
        if chosen.is_none() {
            return false;
        }
        let extents = kernel.thread_extents();
        let mut stride = 1;
        for (axis, binding) in kernel.threads.iter().enumerate().take(3) {
            let values = self.threads.iter().map(|t| i64::from(t / stride % extents[axis].max(1))).collect();
            self.vars[binding.var] = Some(Values::Each(values));
            stride *= extents[axis].max(1);
        }
        for binding in &kernel.grid {
            let Values::Same(blocks) = self.eval(binding.extent) else { return false };
            if blocks < 1 && blocks != UNKNOWN {
                return false;
            }
            self.vars[binding.var] = Some(Values::Same(0));
        }
        true
    }
}
