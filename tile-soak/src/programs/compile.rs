//! Lowered programs to machine code by NVRTC, where it is installed: a program that does not compile, spills or is complained
//! about is a failure.

use super::execute::{Failed, Failure, failed};
use tile_ir::lowered::Program;
use tile_runtime::nvrtc::{Nvrtc, Output, Resources, options};

/// Whether there is a compiler.
pub fn is_there() -> bool {
    Nvrtc::get().is_ok()
}

/// Compiles one program. Spills are `spills` bytes at most.
///
/// # Errors
/// [`Failure::Nvrtc`], [`Failure::Complaint`].
pub fn compile(program: &Program, spills: u32) -> Result<Resources, Failed> {
    let nvrtc = Nvrtc::get().map_err(|e| failed(Failure::Nvrtc, e.to_string()))?;
    let source = tile_ir::emit::cuda::emit(program);
    let target = program.target;
    let compiled = nvrtc
        .compile(&program.name, &source, &options(target.name(), false), Output::Cubin)
        .map_err(|e| failed(Failure::Nvrtc, format!("{target}: {e}")))?;
    // A random program computes what it does not use.
    let unused = ["#177-D", "#550-D"];
    let complaint = |line: &&str| {
        line.contains("Performance Loss")
            || line.contains(": warning") && !unused.iter().any(|code| line.contains(code))
    };
    if let Some(line) = compiled.log.lines().find(complaint) {
        return Err(failed(Failure::Complaint, format!("{target}: {line}")));
    }
    let Some(used) = Resources::of(program, &compiled.log) else {
        return Err(failed(Failure::Nvrtc, format!("{target}: the log says nothing about `{}`", program.name)));
    };
    match used.spill_stores + used.spill_loads {
        spilled if spilled > spills => Err(failed(
            Failure::Complaint,
            format!("{target}: {spilled} bytes of spills, {} registers", used.registers),
        )),
        _ => Ok(used),
    }
}
