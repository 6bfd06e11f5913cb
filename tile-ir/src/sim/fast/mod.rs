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

use super::limit::Meter;
use super::{Argument, Cancel, Fault, Memory, PrintedLine, STEP_LIMIT, SimError, Stop};
use crate::ir::{BoundKernel, Dtype};
use block::Machine;
use launch::{Launch, TensorView};
use state::{State, coordinates};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

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

/// How to execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastOptions {
    /// Steps after which a launch counts as one that never ends. A block is a step, and so is each iteration of a loop that it
    /// goes through, of all its threads together.
    pub step_limit: u64,
    /// Stops the launch from another thread: within a thousand or so steps of every block that runs.
    pub cancel: Option<Cancel>,
}

impl Default for FastOptions {
    fn default() -> Self {
        FastOptions { step_limit: STEP_LIMIT, cancel: None }
    }
}

/// Runs a bound kernel on these arguments, as [`run_with`] does, with the usual limit.
///
/// # Errors
/// As [`run_with`].
pub fn run(bound: &BoundKernel, args: &[Argument]) -> Result<FastReport, SimError> {
    run_with(bound, args, &FastOptions::default())
}

/// Runs a bound kernel on these arguments, one a parameter in order; tensors are written in place.
///
/// `require`s, alignment and overlap of arguments are the launcher's to check, not this function's. Where several blocks
/// fail, the lowest is reported; what the others wrote stays written.
///
/// # Errors
/// Arguments that do not fit the parameters, a kernel that is not bound, a launch beyond the limits,
/// [`SimError::StepLimit`] and [`SimError::Cancelled`], and [`SimError::Fault`]: a shared or per-thread array indexed out of bounds, integer division by zero, a failed
/// `device_assert`, a barrier or collective that some threads do not reach.
pub fn run_with(bound: &BoundKernel, args: &[Argument], options: &FastOptions) -> Result<FastReport, SimError> {
    crate::verify::structure(bound).map_err(SimError::Malformed)?;
    let launch = Launch::new(bound, args)?;
    let code = compile::compile(bound, &launch)?;
    let empty = Memory::zeros(0);
    let nothing = TensorView { memory: &empty, dtype: Dtype::F32, offset: 0, shape: vec![], strides: vec![] };
    let meter = Meter::new(options.step_limit, options.cancel.as_ref());
    let machine = Machine { code: &code, launch: &launch, meter: &meter, nothing };
    let blocks = launch.blocks();
    let failed = Failure { block: AtomicU64::new(u64::MAX), fault: Mutex::new(None) };
    let stopped: OnceLock<(Stop, Option<Box<Fault>>)> = OnceLock::new();
    let printed = Mutex::new(Vec::new());

    let one = |state: &mut State, block: u64| {
        if stopped.get().is_some() {
            return ControlFlow::Break(());
        }
        // Blocks before the lowest that failed still run, so that the report does not depend on timing.
        if block > failed.block.load(Ordering::Relaxed) {
            return ControlFlow::Continue(Rest::Skip);
        }
        let index = block_index(launch.grid, block);
        // The first block of a cluster that combines tiles runs the others with it.
        if launch.cluster.is_some_and(|cluster| !index[cluster.axis].is_multiple_of(cluster.size)) {
            return ControlFlow::Continue(Rest::Run);
        }
        let ended = match meter.take() {
            Err(stop) => {
                stopped.get_or_init(|| (stop, None));
                return ControlFlow::Break(());
            }
            Ok(steps) => {
                state.steps = steps - 1;
                machine.block(state, index)
            }
        };
        meter.give_back(std::mem::take(&mut state.steps));
        match (ended, state.stopped.take()) {
            (Err(fault), Some(stop)) => {
                stopped.get_or_init(|| (stop, Some(fault)));
            }
            (Err(fault), None) => failed.record(block, fault),
            (Ok(()), _) => {}
        }
        let say = |state: &mut State| {
            if !state.printed.is_empty() || state.unprinted > 0 {
                let lines = (linear(launch.grid, state.block), std::mem::take(&mut state.printed), state.unprinted);
                printed.lock().unwrap_or_else(|e| e.into_inner()).push(lines);
            }
        };
        say(state);
        state.others.iter_mut().for_each(say);
        ControlFlow::Continue(Rest::Run)
    };
    for_each_block(blocks, || State::new(&code, launch.threads), one);

    if let Some(fault) = failed.fault.into_inner().unwrap_or_else(|e| e.into_inner()) {
        return Err(SimError::Fault(fault));
    }
    match stopped.into_inner() {
        Some((Stop::StepLimit(steps), at)) => return Err(SimError::StepLimit { steps, at }),
        Some((Stop::Cancelled, _)) => return Err(SimError::Cancelled),
        None => {}
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

/// What becomes of the blocks after one.
enum Rest {
    Run,
    /// They come after a block that failed.
    Skip,
}

/// Calls `one` for every block; `Break` ends the launch.
#[cfg(feature = "parallel")]
fn for_each_block(
    blocks: u64,
    new: impl Fn() -> State + Sync + Send,
    one: impl Fn(&mut State, u64) -> ControlFlow<(), Rest> + Sync + Send,
) {
    use rayon::prelude::*;
    // A state is worth sharing by many blocks; a chunk is small enough to balance, and chunks are few enough to be gone
    // through when nothing is left to do.
    let chunk = (blocks / (8 * rayon::current_num_threads() as u64).max(1)).clamp(1, 1024).max(blocks >> 24);
    let chunks = blocks.div_ceil(chunk);
    // Why it ended early is `one`'s to remember.
    let _ = (0..chunks).into_par_iter().try_for_each_init(new, |state, index| {
        let end = (index + 1).saturating_mul(chunk).min(blocks);
        each_block(index * chunk..end, state, &one)
    });
}

/// Runs `one` for every block, in order, on the calling thread.
#[cfg(not(feature = "parallel"))]
fn for_each_block(blocks: u64, new: impl Fn() -> State, one: impl Fn(&mut State, u64) -> ControlFlow<(), Rest>) {
    // Why it ended early is `one`'s to remember.
    let _ = each_block(0..blocks, &mut new(), &one);
}

fn each_block(
    mut blocks: Range<u64>,
    state: &mut State,
    one: &impl Fn(&mut State, u64) -> ControlFlow<(), Rest>,
) -> ControlFlow<()> {
    while let Some(block) = blocks.next()
        && let Rest::Run = one(state, block)?
    {}
    ControlFlow::Continue(())
}
