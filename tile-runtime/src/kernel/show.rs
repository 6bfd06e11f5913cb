//! A kernel's instance at each stage of its way to the machine, as text.

use super::definition::Definition;
use super::prepared::{lowered, machine_code};
use super::which::Variant;
use crate::cache::Entry;
use crate::error::Error;
use crate::library::find_nvdisasm;
use crate::nvrtc::{self, Nvrtc, Output, Resources};
use std::fmt;
use std::process::Command;
use std::str::FromStr;
use tile_ir::ir::Target;
use tile_ir::lowered::Program;

/// A stage of a kernel's way to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The tile IR of the instance.
    Tile,
    /// The lowered program.
    Lowered,
    /// The CUDA C.
    Cuda,
    /// PTX.
    Ptx,
    /// Machine code, disassembled.
    Sass,
    /// Registers, spills, shared memory.
    Resources,
}

impl Format {
    /// Every format, in order.
    pub const ALL: [Format; 6] =
        [Format::Tile, Format::Lowered, Format::Cuda, Format::Ptx, Format::Sass, Format::Resources];

    /// What it is called on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Tile => "tile",
            Format::Lowered => "lowered",
            Format::Cuda => "cuda",
            Format::Ptx => "ptx",
            Format::Sass => "sass",
            Format::Resources => "resources",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        Format::ALL.into_iter().find(|f| f.name() == text).ok_or_else(|| {
            let names = Format::ALL.map(Format::name).join(", ");
            format!("`{text}` is not one of {names}")
        })
    }
}

/// An instance of a kernel for `target`, as text: `which` is its number, or a [`Variant`]. Needs no device; PTX and resources need NVRTC, machine
/// code needs `nvdisasm` too. With `TILE_LINEINFO=1` CUDA C, PTX and machine code name the author's Rust lines.
///
/// # Errors
/// The instance cannot be lowered for this target; a library or tool is missing.
pub fn show<'a>(
    def: &'static Definition,
    which: impl Into<Variant<'a>>,
    target: Target,
    format: Format,
) -> Result<String, Error> {
    let which = which.into();
    let (kernel, instance) = which.instance(def)?;
    let (bound, program) = lowered(kernel, &instance, target)?;
    let line_info = nvrtc::line_info_wanted();
    match format {
        Format::Tile => Ok(bound.to_string()),
        Format::Lowered => Ok(program.to_string()),
        Format::Cuda => Ok(tile_ir::emit::cuda::emit_with(&program, line_info)),
        Format::Ptx => {
            let source = tile_ir::emit::cuda::emit_with(&program, line_info);
            let options = nvrtc::options(target.name(), line_info);
            let compiled = Nvrtc::get()?.compile(&program.name, &source, &options, Output::Ptx)?;
            Ok(String::from_utf8_lossy(&compiled.code).into_owned())
        }
        Format::Sass => disassemble(&compile(def, which, target)?.cubin),
        Format::Resources => {
            let Binary { resources, log, .. } = compile(def, which, target)?;
            Ok(resources.map_or(log, |r| r.to_string()))
        }
    }
}

/// One instance as machine code.
#[derive(Clone, Debug)]
pub struct Binary {
    /// The lowered program: symbol, parameters, grid, threads.
    pub program: Program,
    /// The cubin.
    pub cubin: Vec<u8>,
    /// The compiler's log.
    pub log: String,
    /// What the log says about the kernel.
    pub resources: Option<Resources>,
}

/// Compiles an instance for `target`, or takes it from the cache: `which` is its number, or a [`Variant`]. Needs no device.
///
/// # Errors
/// The instance cannot be lowered for this target; NVRTC is missing.
pub fn compile<'a>(def: &'static Definition, which: impl Into<Variant<'a>>, target: Target) -> Result<Binary, Error> {
    let (kernel, instance) = which.into().instance(def)?;
    let (_, program) = lowered(kernel, &instance, target)?;
    let Entry { code, log } = machine_code(&program, target.name())?;
    let resources = Resources::of(&program, &log);
    Ok(Binary { program, cubin: code, log, resources })
}

fn disassemble(cubin: &[u8]) -> Result<String, Error> {
    let tool = find_nvdisasm()?;
    let path = std::env::temp_dir().join(format!("tile-{}-{:p}.cubin", std::process::id(), cubin));
    let failed = |action: &'static str| {
        let path = path.clone();
        move |e: std::io::Error| Error::File { action, path, problem: e.to_string() }
    };
    std::fs::write(&path, cubin).map_err(failed("write"))?;
    let output = Command::new(&tool).args(["--print-code", "--print-line-info"]).arg(&path).output();
    std::fs::remove_file(&path).ok();
    let problem = |problem: String| Error::Tool { tool: tool.display().to_string(), problem };
    let output = output.map_err(|e| problem(e.to_string()))?;
    if !output.status.success() {
        return Err(problem(String::from_utf8_lossy(&output.stderr).trim().to_string()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
