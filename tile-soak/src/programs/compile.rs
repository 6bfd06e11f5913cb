//! Lowered programs to machine code by NVRTC, where it is installed: a program that does not compile, spills or is complained
//! about is a failure.

use super::execute::{Failed, Failure, failed};
use std::sync::{PoisonError, RwLock};
use tile_ir::lowered::Program;
use tile_runtime::nvrtc::{Nvrtc, Output, Resources, options};

/// Whether there is a compiler.
pub fn is_there() -> bool {
    Nvrtc::get().is_ok()
}

/// Registers of a thread that this launch could have: what the block, and the blocks that are asked for, leave to each of its threads.
fn registers(program: &Program) -> u32 {
    let threads: i64 = program.launch.threads.iter().map(|n| i64::from(*n)).product();
    let resident = threads.max(1) * i64::from(program.launch.min_blocks.unwrap_or(1)).max(1);
    u32::try_from(65_536 / resident / 8 * 8).unwrap_or(255).min(255)
}

/// Compiles one program. Spills are `spills` bytes at most where a thread has all the registers that it could have: below that
/// ptxas itself prefers a few spills to fewer resident blocks.
///
/// # Errors
/// [`Failure::Nvrtc`], [`Failure::Complaint`].
pub fn compile(program: &Program, spills: u32) -> Result<Resources, Failed> {
    let nvrtc = Nvrtc::get().map_err(|e| failed(Failure::Nvrtc, e.to_string()))?;
    let source = tile_ir::emit::cuda::emit(program);
    let target = program.target;
    let compile = || {
        let compiled = nvrtc
            .compile(&program.name, &source, &options(target.name(), false), Output::Cubin)
            .map_err(|e| failed(Failure::Nvrtc, format!("{target}: {e}")))?;
        Ok((Resources::of(program, &compiled.log), compiled.log))
    };
    // Where many threads compile at once, NVRTC 13.0 now and then gives the machine code without a word about it: then once more, alone.
    static ALONE: RwLock<()> = RwLock::new(());
    let (mut used, mut log) = {
        let _among_others = ALONE.read().unwrap_or_else(PoisonError::into_inner);
        compile()?
    };
    if used.is_none() {
        let _alone = ALONE.write().unwrap_or_else(PoisonError::into_inner);
        (used, log) = compile()?;
    }
    // A random program computes what it does not use, and compares unsigned numbers with 0.
    let unused = ["#177-D", "#186-D", "#550-D"];
    let complaint = |line: &&str| {
        line.contains("Performance Loss")
            || line.contains(": warning") && !unused.iter().any(|code| line.contains(code))
    };
    if let Some(line) = log.lines().find(complaint) {
        return Err(failed(Failure::Complaint, format!("{target}: {line}")));
    }
    let Some(used) = used else {
        let message = format!("{target}: the log says nothing about `{}`, twice", program.name);
        return Err(failed(Failure::Nvrtc, message));
    };
    match used.spill_stores + used.spill_loads {
        spilled if spilled > spills && used.registers + 8 > registers(program) => Err(failed(
            Failure::Complaint,
            format!("{target}: {spilled} bytes of spills, {} registers", used.registers),
        )),
        _ => Ok(used),
    }
}
