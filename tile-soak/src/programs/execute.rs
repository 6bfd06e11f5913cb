//! A program through every executor: parsed from its text without rustc, run by both simulators and by the reference, and
//! compiled.

use super::text::{Source, print};
use super::tree::{Agreement, Program};
use super::{data, reference};
use proc_macro2::TokenStream;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use tile_ir::diag::Diagnostic;
use tile_ir::ir::{DimId, EntityRef, Extent, Instance, Kernel, ParamId, ParamKind, Target};
use tile_ir::lowered::{HostValues, Program as Lowered};
use tile_ir::sim::checked::{CheckedOptions, Copies, Schedule};
use tile_ir::sim::{Argument, checked, fast};

/// In which way a program failed: failures of one class are reduced together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// The parser or the analysis refuses it while typing.
    Refused,
    /// A lint flags it.
    Flagged,
    /// An instance cannot be lowered.
    Lowering,
    /// The lowered program breaks a rule of `tile_ir::verify::program`.
    Broken,
    /// The launch refuses the arguments.
    Launch,
    /// The fast simulator has no result.
    Fast,
    /// The checked simulator reports a correct program.
    Reported,
    /// The checked simulator has no result.
    Checked,
    /// The simulators' results differ.
    FastAndChecked,
    /// The fast simulator's results differ from the reference's.
    Reference,
    /// The reference refuses the program: the generator made a mistake.
    Generator,
    /// NVRTC does not compile it.
    Nvrtc,
    /// NVRTC spills registers or warns.
    Complaint,
    /// A change that should change nothing changes results.
    Metamorphic,
    /// Something panics.
    Panic,
    /// The GPU's results differ.
    Gpu,
    /// The GPU does not come back.
    Hang,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A failure and its words.
#[derive(Clone, Debug)]
pub struct Failed {
    /// The class.
    pub class: Failure,
    /// What was seen, with numbers.
    pub detail: String,
}

/// A failure of this class.
pub fn failed(class: Failure, detail: impl Into<String>) -> Failed {
    Failed { class, detail: detail.into() }
}

fn tokens(text: &str) -> Result<TokenStream, Failed> {
    TokenStream::from_str(text).map_err(|e| failed(Failure::Generator, e.to_string()))
}

/// The functions that a source calls, with those that they call.
fn functions(source: &Source) -> Result<Vec<tile_syntax::Function>, Failed> {
    let function = |(name, source): &(String, Source)| {
        let (attribute, item) = (tokens(&source.attribute)?, tokens(&source.item)?);
        Ok(tile_syntax::Function { path: name.clone(), attribute, item, uses: functions(source)? })
    };
    source.functions.iter().map(function).collect()
}

/// A kernel from its text, with what is said about it.
///
/// # Errors
/// The text is none of Rust.
pub fn kernel(source: &Source) -> Result<(Kernel, Vec<Diagnostic>), Failed> {
    let functions = functions(source)?;
    let checked = tile_syntax::check_kernel_with(tokens(&source.attribute)?, tokens(&source.item)?, &functions);
    Ok((checked.kernel, checked.diagnostics.into_iter().chain(checked.deferred).collect()))
}

/// A kernel from its text, of which nothing is said.
///
/// # Errors
/// [`Failure::Refused`] and [`Failure::Flagged`], with the report.
pub fn parse(source: &Source) -> Result<Kernel, Failed> {
    let (kernel, all) = kernel(source)?;
    let report = |d: &Diagnostic| d.render(&kernel.source, &kernel.spans);
    let is_lint = |d: &&Diagnostic| d.code.to_string().starts_with("TK06");
    match all.iter().find(|d| !is_lint(d)) {
        // What is wrong with a function that it calls says more than that something is.
        Some(error) => {
            let functions = functions(source)?;
            let mistake = functions.iter().flat_map(tile_syntax::Function::mistakes).next();
            Err(failed(Failure::Refused, mistake.unwrap_or_else(|| report(error))))
        }
        None => all.first().map_or(Ok(kernel.clone()), |lint| Err(failed(Failure::Flagged, report(lint)))),
    }
}

/// The kernel's only instance, with the values of specialised dims, and without the tensors that the launch leaves out.
///
/// # Errors
/// It has none.
pub fn instance(program: &Program, kernel: &Kernel) -> Result<Instance, Failed> {
    let declared = kernel.instances.first().ok_or_else(|| failed(Failure::Refused, "the kernel has no instance"))?;
    let dims = kernel.specialized().iter().map(|dim| (*dim, program.dim(&kernel.dims[*dim].name))).collect();
    let absent = kernel.params.iter().filter(|(_, param)| !program.is_given(&param.name)).map(|(id, _)| id);
    Ok(Instance { absent: absent.collect(), ..declared.with_dims(dims) })
}

/// What a launch knows.
struct Values<'a> {
    kernel: &'a Kernel,
    args: &'a [Argument],
}

impl Values<'_> {
    fn tensor(&self, param: ParamId) -> Option<&tile_ir::sim::TensorArgument> {
        match self.args.get(param.index()) {
            Some(Argument::Tensor(tensor)) => Some(tensor),
            _ => None,
        }
    }
}

impl HostValues for Values<'_> {
    fn dim(&self, dim: DimId) -> i64 {
        for (id, param) in self.kernel.params.iter() {
            if let (ParamKind::Tensor { shape, .. }, Some(tensor)) = (&param.kind, self.tensor(id))
                && let Some(axis) = shape.iter().position(|e| matches!(e, Extent::Dim(d) if *d == dim))
            {
                return tensor.shape[axis];
            }
        }
        0
    }

    fn stride(&self, tensor: ParamId, axis: u8) -> i64 {
        self.tensor(tensor).and_then(|t| t.strides.get(usize::from(axis)).copied()).unwrap_or(0)
    }

    fn scalar(&self, param: ParamId) -> i64 {
        match self.args.get(param.index()) {
            Some(Argument::Scalar(value)) => value.host_number(),
            _ => 0,
        }
    }

    fn address(&self, tensor: ParamId) -> u64 {
        // Memory of the simulators begins at multiples of 256 bytes, as a device's does.
        self.tensor(tensor).map_or(0, |t| t.offset as u64)
    }

    fn capacity(&self) -> i64 {
        4
    }
}

/// The program of the widest alignment class whose contract these arguments meet.
///
/// # Errors
/// [`Failure::Lowering`], [`Failure::Launch`].
pub fn lower(program: &Program, kernel: &Kernel, target: Target, args: &[Argument]) -> Result<Lowered, Failed> {
    let mut instance = instance(program, kernel)?;
    let values = Values { kernel, args };
    loop {
        let lowered = tile_ir::lower::lower(kernel, &instance, target).map_err(|all| {
            let report = all.first().map(|d| d.render(&kernel.source, &kernel.spans)).unwrap_or_default();
            failed(Failure::Lowering, format!("{target}: {report}"))
        })?;
        let unheld = lowered.launch.checks.iter().find(|c| c.holds.evaluate(&values).is_none_or(|v| v == 0));
        let Some(check) = unheld else { return Ok(lowered) };
        match check.request.and_then(|side| instance.class.lesser(side)) {
            Some(class) => instance.class = class,
            None => {
                let names = |param: ParamId| kernel.params[param].name.clone();
                let text = check.holds.display(&lowered.dims, &names);
                return Err(failed(Failure::Launch, format!("{target}: {text} does not hold ({:?})", check.kind)));
            }
        }
    }
}

/// What the fast simulator makes of it.
///
/// # Errors
/// [`Failure::Fast`].
pub fn run_fast(program: &Program, kernel: &Kernel, inputs: &[data::Bits]) -> Result<Vec<Vec<u32>>, Failed> {
    let args = data::arguments(program, inputs);
    let instance = instance(program, kernel)?;
    let bound = tile_ir::lower::bind(kernel, &instance)
        .map_err(|all| failed(Failure::Lowering, all.first().map(|d| d.message.clone()).unwrap_or_default()))?;
    fast::run(&bound, &args).map_err(|e| failed(Failure::Fast, e.to_string()))?;
    Ok(data::results(program, &args))
}

/// What the checked simulator makes of a lowered program.
///
/// # Errors
/// [`Failure::Checked`], [`Failure::Reported`].
pub fn run_checked(
    program: &Program,
    lowered: &Lowered,
    inputs: &[data::Bits],
    options: &CheckedOptions,
) -> Result<Vec<Vec<u32>>, Failed> {
    let args = data::arguments(program, inputs);
    let target = lowered.target;
    let report = checked::run(lowered, &args, options)
        .map_err(|e| failed(Failure::Checked, format!("{target}, seed {}: {e}", options.seed)))?;
    match report.diagnostics.first() {
        Some(first) => {
            let text = first.render(&lowered.source, &lowered.spans);
            Err(failed(Failure::Reported, format!("{target}, seed {}: {text}", options.seed)))
        }
        None => Ok(data::results(program, &args)),
    }
}

/// The schedules that a program is run under on each target.
pub fn schedules(seed: u64) -> [CheckedOptions; 3] {
    let options = CheckedOptions { step_limit: 50_000_000, ..CheckedOptions::default() };
    [
        CheckedOptions { seed, copies: Copies::Late, ..options.clone() },
        CheckedOptions { seed: seed ^ 0xabc, copies: Copies::Seeded, ..options.clone() },
        CheckedOptions { seed, schedule: Schedule::InOrder, copies: Copies::Early, ..options },
    ]
}

/// The targets that a program declares.
pub fn targets(kernel: &Kernel) -> &[Target] {
    &kernel.targets
}

/// A program that agreed everywhere: what it is compiled from, and its results.
pub struct Agreed {
    /// The kernel.
    pub kernel: Kernel,
    /// The programs by target.
    pub lowered: Vec<Lowered>,
    /// The results.
    pub results: Vec<Vec<u32>>,
}

/// Runs a program everywhere but on a GPU, with `runs` schedules a target.
///
/// # Errors
/// The first way in which it failed.
pub fn examine(program: &Program, seed: u64, runs: usize) -> Result<Agreed, Failed> {
    guarded(|| {
        let inputs = data::inputs(program, seed);
        let kernel = parse(&print(program))?;
        let results = run_fast(program, &kernel, &inputs)?;
        let mut all = Vec::new();
        for target in targets(&kernel) {
            let lowered = lower(program, &kernel, *target, &data::arguments(program, &inputs))?;
            for options in &schedules(seed)[..runs] {
                let found = run_checked(program, &lowered, &inputs, options)?;
                let simulators = match program.agreement {
                    Agreement::Ulps(_) => Agreement::Bits,
                    other => other,
                };
                if let Some(text) = data::difference(program, &results, &found, simulators) {
                    return Err(failed(Failure::FastAndChecked, format!("{target}: {text}")));
                }
            }
            all.push(lowered);
        }
        let expected = reference::run(program, data::storages(program, &inputs))
            .map_err(|text| failed(Failure::Generator, text))?;
        let expected = data::of_storages(program, &expected);
        match data::difference(program, &results, &expected, program.agreement) {
            Some(text) => Err(failed(Failure::Reference, format!("fast and reference: {text}"))),
            None => Ok(Agreed { kernel, lowered: all, results }),
        }
    })
}

/// Panics are failures too.
pub fn guarded<T>(f: impl FnOnce() -> Result<T, Failed>) -> Result<T, Failed> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default();
        Err(failed(Failure::Panic, text))
    })
}
