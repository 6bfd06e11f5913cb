//! The fast simulator: the bound tile IR, one statement over all threads of a block at once. For results.
//!
//! Each statement is done for all threads of the block before the next begins, under a mask where threads differ.
//! For a program without races and with its barriers in place that is its meaning, so barriers do nothing here beyond
//! checking that every thread reaches them. What a race would do is not found: that is the checked simulator's part.
//!
//! The kernel is compiled once a launch (`code`): values are typed, what is the same for the block is computed once,
//! and every operation is a loop over the block's threads that the host's compiler vectorises. Blocks are independent
//! and run in parallel.
//!
//! | file | what |
//! |---|---|
//! | `launch` | arguments against parameters; dims, grid, threads |
//! | `uniform` | which variables are the same for the whole block |
//! | `compile` | kernel to bytecode |
//! | `code` | the bytecode |
//! | `state` | a block's registers, masks, shared arrays |
//! | `block` | the interpreter |
//! | `lanes`, `access`, `collective`, `tile` | arithmetic, loads and stores, reductions and votes, tile copies |

mod access;
mod block;
mod code;
mod collective;
mod compile;
mod gemm;
mod lanes;
mod launch;
mod state;
mod tile;
mod uniform;

#[cfg(test)]
mod tests;

use super::{Argument, Fault, Memory, PrintedLine, SimError};
use crate::ir::{Dtype, Kernel};
use block::Machine;
use launch::{Launch, TensorView};
use state::{State, coordinates};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Lines kept of what a launch prints.
const PRINT_LIMIT: usize = 65_536;

/// What a launch did beside writing its tensors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FastReport {
    /// What `device_print` printed: by block, then in program order, then by thread.
    pub printed: Vec<PrintedLine>,
    /// Lines printed beyond those kept.
    pub unprinted: u64,
    /// Blocks executed.
    pub blocks: u64,
    /// Threads a block.
    pub threads: u32,
}

/// Runs a bound kernel on these arguments, one a parameter in order; tensors are written in place.
///
/// `require`s, alignment and overlap of arguments are the launcher's to check, not this function's. Where several blocks
/// fail, the lowest is reported; what the others wrote stays written.
///
/// # Errors
/// Arguments that do not fit the parameters, a kernel that is not bound, a launch beyond the limits, and
/// [`SimError::Fault`]: a shared or per-thread array indexed out of bounds, integer division by zero, a failed
/// `device_assert`, a barrier or collective that some threads do not reach.
pub fn run(bound: &Kernel, args: &[Argument]) -> Result<FastReport, SimError> {
    crate::verify::structure(bound).map_err(SimError::Malformed)?;
    let launch = Launch::new(bound, args)?;
    let code = compile::compile(bound, &launch)?;
    let empty = Memory::zeros(0);
    let nothing = TensorView { memory: &empty, dtype: Dtype::F32, offset: 0, shape: vec![], strides: vec![] };
    let machine = Machine { code: &code, launch: &launch, nothing };
    let blocks = launch.blocks();
    let failed = Failure { block: AtomicU64::new(u64::MAX), fault: Mutex::new(None) };
    let printed = Mutex::new(Vec::new());

    let one = |state: &mut State, block: u64| {
        // Blocks before the lowest that failed still run, so that the report does not depend on timing.
        if block > failed.block.load(Ordering::Relaxed) {
            return;
        }
        let index = block_index(launch.grid, block);
        // The first block of a cluster that combines tiles runs the others with it.
        if launch.cluster.is_some_and(|cluster| !index[cluster.axis].is_multiple_of(cluster.size)) {
            return;
        }
        if let Err(fault) = machine.block(state, index) {
            failed.record(block, fault);
        }
        let say = |state: &mut State| {
            if !state.printed.is_empty() || state.unprinted > 0 {
                let lines = (linear(launch.grid, state.block), std::mem::take(&mut state.printed), state.unprinted);
                printed.lock().unwrap_or_else(|e| e.into_inner()).push(lines);
            }
        };
        say(state);
        state.others.iter_mut().for_each(say);
    };
    for_each_block(blocks, || State::new(&code, launch.threads), one);

    if let Some(fault) = failed.fault.into_inner().unwrap_or_else(|e| e.into_inner()) {
        return Err(SimError::Fault(fault));
    }
    let mut lines = printed.into_inner().unwrap_or_else(|e| e.into_inner());
    lines.sort_by_key(|(block, ..)| *block);
    let mut report = FastReport { blocks, threads: launch.lanes() as u32, ..FastReport::default() };
    for (block, lines, unprinted) in lines {
        report.unprinted += unprinted;
        let block = block_index(launch.grid, block);
        for (lane, text) in lines {
            if report.printed.len() < PRINT_LIMIT {
                report.printed.push(PrintedLine { block, thread: coordinates(launch.threads, lane), text });
            } else {
                report.unprinted += 1;
            }
        }
    }
    Ok(report)
}

/// The failure of the lowest block.
struct Failure {
    block: AtomicU64,
    fault: Mutex<Option<Box<Fault>>>,
}

impl Failure {
    fn record(&self, block: u64, fault: Box<Fault>) {
        let mut slot = self.fault.lock().unwrap_or_else(|e| e.into_inner());
        if block < self.block.load(Ordering::Relaxed) {
            self.block.store(block, Ordering::Relaxed);
            *slot = Some(fault);
        }
    }
}

fn linear(grid: [u32; 3], [x, y, z]: [u32; 3]) -> u64 {
    let [wide, high, _] = grid.map(|e| u64::from(e.max(1)));
    u64::from(x) + wide * (u64::from(y) + high * u64::from(z))
}

fn block_index(grid: [u32; 3], linear: u64) -> [u32; 3] {
    let [x, y, _] = grid.map(|e| u64::from(e.max(1)));
    [(linear % x) as u32, (linear / x % y) as u32, (linear / (x * y)) as u32]
}

#[cfg(feature = "parallel")]
fn for_each_block(blocks: u64, new: impl Fn() -> State + Sync + Send, one: impl Fn(&mut State, u64) + Sync + Send) {
    use rayon::prelude::*;
    // A state is worth sharing by many blocks; a chunk is small enough to balance.
    let chunk = (blocks / (8 * rayon::current_num_threads() as u64).max(1)).clamp(1, 1024);
    let chunks = blocks.div_ceil(chunk);
    (0..chunks).into_par_iter().for_each_init(new, |state, index| {
        for block in index * chunk..((index + 1) * chunk).min(blocks) {
            one(state, block);
        }
    });
}

#[cfg(not(feature = "parallel"))]
fn for_each_block(blocks: u64, new: impl Fn() -> State, one: impl Fn(&mut State, u64)) {
    let mut state = new();
    for block in 0..blocks {
        one(&mut state, block);
    }
}
