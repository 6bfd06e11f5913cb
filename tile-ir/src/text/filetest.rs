//! A kernel, the passes that it goes through and what they make of it, in one text: what `tests/ir/<pass>/*.tile` hold, what the
//! soak writes of a failing case, and what `cargo xtask opt` reads.
//!
//! ```text
//! // passes: bind, lower
//! // target: sm_90a
//! // instance: T = f16, ROWS = 8, K = 4096, without bias
//! kernel ... {
//! }
//! ---
//! what the last pass makes of it
//! ```
//!
//! Above the line `---` stands the kernel, as its `Display` prints it; the comments at its beginning say what is done with it. `passes` are
//! of [`Pass`], in this order, after the rules of [`crate::verify::kernel`]; none for the kernel as it was read, whatever its rules. Without `target` it is sm_80, without `instance` the first
//! declared one. An instance is named by its dtypes and constants, as many as tell it from the others; values of specialised dims,
//! optional tensors that the launch leaves out and the bytes that rows are moved in (`reads = 8`, `writes = element`) go with it.
//!
//! In place of the kernel may stand a program, as `walk` or `lower` prints it: for the passes over programs, its target being its own.
//!
//! A pass that fails ends the list: its diagnostics are the result.

use super::{ParseError, parse_kernel, parse_program};
use crate::diag::Diagnostic;
use crate::ir::{BoundKernel, ConstKind, Instance, Kernel, ParamKind, Target, Width};
use crate::lowered::Program;

/// The line between the input and the result.
pub const SEPARATOR: &str = "---";

/// A step from a kernel to code, by the name that `passes` gives it. The order of a list is theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pass {
    /// `bind`: one instance.
    Bind,
    /// `check`: every diagnostic and lint; of a bound kernel those of its instance on the target.
    Check,
    /// `schedule`: who does what, as text.
    Schedule,
    /// `walk`: the program, before the passes over programs.
    Walk,
    /// `padding`: the program, whose padding tiles have no effects.
    Padding,
    /// `dependent`: the program, which waits for the previous kernel.
    Dependent,
    /// `peel`: the program, whose masked steps are a loop of their own.
    Peel,
    /// `place`: the program, whose shared arrays have offsets.
    Place,
    /// `lower`: the program, by all of these passes from `schedule` on.
    Lower,
    /// `verify`: the program, unless it breaks a rule of every program; as the last pass, what was executed of it.
    Verify,
    /// `emit`: its CUDA C.
    Emit,
}

impl Pass {
    /// Every pass, in the order in which they run.
    pub const ALL: [Pass; 11] = [
        Pass::Bind,
        Pass::Check,
        Pass::Schedule,
        Pass::Walk,
        Pass::Padding,
        Pass::Dependent,
        Pass::Peel,
        Pass::Place,
        Pass::Lower,
        Pass::Verify,
        Pass::Emit,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Pass::Bind => "bind",
            Pass::Check => "check",
            Pass::Schedule => "schedule",
            Pass::Walk => "walk",
            Pass::Padding => "padding",
            Pass::Dependent => "dependent",
            Pass::Peel => "peel",
            Pass::Place => "place",
            Pass::Lower => "lower",
            Pass::Verify => "verify",
            Pass::Emit => "emit",
        }
    }

    /// A list of passes: `bind, lower`.
    ///
    /// # Errors
    /// A name that none has, or passes in another order than they run in.
    pub fn list(text: &str) -> Result<Vec<Pass>, String> {
        let mut all: Vec<Pass> = Vec::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let pass = Pass::ALL.into_iter().find(|pass| pass.name() == name);
            let pass = pass.ok_or_else(|| {
                let names = Pass::ALL.map(Pass::name).join(", ");
                format!("there is no pass `{name}`; there are {names}")
            })?;
            if let Some(before) = all.last().filter(|before| **before >= pass) {
                return Err(format!("`{name}` runs before `{}`", before.name()));
            }
            all.push(pass);
        }
        Ok(all)
    }
}

/// A text's parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Case<'t> {
    /// The kernel and the comments before it: everything above the separator.
    pub input: &'t str,
    /// What it goes through.
    pub passes: Vec<Pass>,
    /// What it is compiled for.
    pub target: Target,
    /// Which instance, as the comment says; empty for the first one.
    pub instance: String,
    /// What is below the separator; `None` where there is no such line.
    pub expected: Option<&'t str>,
}

impl<'t> Case<'t> {
    /// Reads a text's parts; not yet the kernel.
    ///
    /// # Errors
    /// A comment that says something else than it can.
    pub fn read(text: &'t str) -> Result<Case<'t>, ParseError> {
        let (input, expected) = divide(text);
        let mut case = Case { input, passes: Vec::new(), target: Target::Sm80, instance: String::new(), expected };
        for (line, text) in (1u32..).zip(input.lines()) {
            let Some(comment) = text.trim().strip_prefix("//") else { break };
            let Some((key, value)) = comment.split_once(':') else { continue };
            let wrong = |message| ParseError { line, column: 1, message };
            match key.trim() {
                "passes" => case.passes = Pass::list(value).map_err(wrong)?,
                "target" => case.target = target(value).map_err(wrong)?,
                "instance" => value.trim().clone_into(&mut case.instance),
                _ => {}
            }
        }
        Ok(case)
    }

    /// What the last pass makes of the kernel, or the diagnostics that one before it ends with. `file` is what diagnostics call the
    /// text.
    pub fn run(&self, file: &str) -> String {
        match self.result(file) {
            Ok(text) | Err(text) => text,
        }
    }

    fn result(&self, file: &str) -> Result<String, String> {
        let at = |error: ParseError| format!("{file}:{error}\n");
        let code = self.input.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("//"));
        let mut stage = if code.is_some_and(|line| line.starts_with("program ")) {
            let mut program = parse_program(self.input).map_err(at)?;
            file.clone_into(&mut program.source.file);
            Stage::Program(Box::new(program))
        } else {
            let mut kernel = parse_kernel(self.input).map_err(at)?;
            file.clone_into(&mut kernel.source.file);
            if !self.passes.is_empty() {
                none_of(&kernel, crate::verify::kernel(&kernel))?;
            }
            Stage::Kernel(Box::new(kernel))
        };
        for pass in &self.passes {
            stage = self.step(*pass, stage)?;
        }
        Ok(match stage {
            Stage::Kernel(kernel) => kernel.to_string(),
            Stage::Bound(bound) => bound.to_string(),
            Stage::Program(program) => program.to_string(),
            Stage::Text(text) => text,
        })
    }

    fn step(&self, pass: Pass, stage: Stage) -> Result<Stage, String> {
        match (pass, stage) {
            (Pass::Bind, Stage::Kernel(kernel)) => {
                let instance = instance(&kernel, &self.instance).map_err(|error| format!("instance: {error}\n"))?;
                let bound = crate::lower::bind(&kernel, &instance).map_err(|all| report(&kernel, &all))?;
                Ok(Stage::Bound(Box::new(bound)))
            }
            (Pass::Check, Stage::Kernel(kernel)) => {
                let all = crate::analysis::check(&kernel);
                self.checked(&kernel, all)?;
                Ok(if self.ends_with_check() { Stage::right() } else { Stage::Kernel(kernel) })
            }
            (Pass::Check, Stage::Bound(bound)) => {
                let analysis = crate::analysis::analyse(&bound, self.target);
                self.checked(&bound, [analysis.diagnostics, analysis.lints].concat())?;
                Ok(if self.ends_with_check() { Stage::right() } else { Stage::Bound(bound) })
            }
            (Pass::Schedule | Pass::Walk | Pass::Lower, Stage::Kernel(kernel))
                if !kernel.type_params.is_empty() || !kernel.consts.is_empty() =>
            {
                Err("a generic kernel is not lowered: `bind` comes first\n".to_owned())
            }
            // A text that has nothing generic may be that of a bound kernel.
            (Pass::Schedule | Pass::Walk | Pass::Lower, Stage::Kernel(kernel)) => {
                let bound = BoundKernel::new(kernel.as_ref().clone()).map_err(|one| report(&kernel, &[*one]))?;
                self.step(pass, Stage::Bound(Box::new(bound)))
            }
            (Pass::Schedule, Stage::Bound(bound)) => {
                crate::lower::scheduled(&bound, self.target).map(Stage::Text).map_err(|all| report(&bound, &all))
            }
            (Pass::Walk, Stage::Bound(bound)) => {
                let program = crate::lower::walked(&bound, self.target).map_err(|all| report(&bound, &all))?;
                Ok(Stage::Program(Box::new(program)))
            }
            (Pass::Padding, Stage::Program(program)) => over(*program, crate::lower::padding),
            (Pass::Dependent, Stage::Program(program)) => over(*program, crate::lower::dependent),
            (Pass::Peel, Stage::Program(program)) => over(*program, crate::lower::peel),
            (Pass::Place, Stage::Program(program)) => over(*program, |program| Ok(crate::lower::place(program))),
            (Pass::Lower, Stage::Bound(bound)) => {
                let program = crate::lower::lower_bound(&bound, self.target).map_err(|all| report(&bound, &all))?;
                Ok(Stage::Program(Box::new(program)))
            }
            (Pass::Verify, Stage::Program(program)) => {
                let verified = verified(&program)?;
                Ok(if self.passes.last() == Some(&Pass::Verify) {
                    Stage::Text(verified)
                } else {
                    Stage::Program(program)
                })
            }
            (Pass::Emit, Stage::Program(program)) => Ok(Stage::Text(crate::emit::cuda::emit(&program))),
            (Pass::Bind | Pass::Check | Pass::Schedule | Pass::Walk | Pass::Lower, Stage::Program(_)) => {
                Err(format!("`{}` works on a kernel, and this is a program\n", pass.name()))
            }
            (pass, _) => {
                Err(format!("`{}` has no program to work on: `walk` or `lower` comes before it\n", pass.name()))
            }
        }
    }
}

impl Case<'_> {
    fn ends_with_check(&self) -> bool {
        self.passes.last() == Some(&Pass::Check)
    }

    /// Ends with what was found; with lints only where nothing comes after them.
    fn checked(&self, kernel: &Kernel, all: Vec<Diagnostic>) -> Result<(), String> {
        let (lints, errors): (Vec<_>, Vec<_>) = all.into_iter().partition(|d| d.code.is_lint());
        none_of(kernel, if self.ends_with_check() { [errors, lints].concat() } else { errors })
    }
}

/// A case as a file, without what is expected: `about`, line by line as comments, then the comments that [`Case::read`] takes, then the
/// kernel.
pub fn write(kernel: &Kernel, instance: &Instance, passes: &[Pass], target: Target, about: &str) -> String {
    let names: Vec<_> = passes.iter().map(|pass| pass.name()).collect();
    let mut chosen: Vec<String> = Vec::new();
    let dtypes = kernel.type_params.values().zip(&instance.dtypes);
    chosen.extend(dtypes.map(|(param, dtype)| format!("{} = {dtype}", param.name)));
    for (param, value) in kernel.consts.values().zip(&instance.consts) {
        chosen.push(match param.kind {
            ConstKind::Bool => format!("{} = {}", param.name, *value != 0),
            ConstKind::Usize => format!("{} = {value}", param.name),
        });
    }
    let dims = instance.dims.iter().filter_map(|(dim, value)| Some((kernel.dims.get(*dim)?, value)));
    chosen.extend(dims.map(|(dim, value)| format!("{} = {value}", dim.name)));
    let absent = instance.absent.iter().filter_map(|param| kernel.params.get(*param));
    chosen.extend(absent.map(|param| format!("without {}", param.name)));
    for (side, width) in [("reads", instance.class.reads), ("writes", instance.class.writes)] {
        match width {
            Width::Sixteen => {}
            Width::Eight | Width::Four => chosen.push(format!("{side} = {}", width.bytes())),
            Width::Element => chosen.push(format!("{side} = element")),
        }
    }
    // A comment of the author's may not say what is done.
    let mut text: String = about.lines().map(|line| format!("// {}\n", line.replace(':', " -"))).collect();
    text += &format!("// passes: {}\n// target: {target}\n", names.join(", "));
    if !chosen.is_empty() {
        text += &format!("// instance: {}\n", chosen.join(", "));
    }
    text + &kernel.to_string()
}

/// What was executed of a program that breaks no rule, or the rule that it breaks.
#[cfg(feature = "sim")]
fn verified(program: &Program) -> Result<String, String> {
    use crate::verify::program::{Effort, program as verify};
    match verify(program, Effort::Test) {
        Ok(verified) if verified.launches.is_empty() => Ok("no rule is broken; nothing is synchronised\n".to_owned()),
        Ok(verified) => Ok(format!("no rule is broken in {} launches\n", verified.launches.len())),
        Err(bug) => Err(bug.diagnostic().render(&program.source, &program.spans) + "\n"),
    }
}

#[cfg(not(feature = "sim"))]
fn verified(_: &Program) -> Result<String, String> {
    Err("`verify` executes programs: it needs the feature `sim`\n".to_owned())
}

/// A pass over a program.
fn over(program: Program, pass: impl Fn(Program) -> Result<Program, Vec<Diagnostic>>) -> Result<Stage, String> {
    let (source, spans) = (program.source.clone(), program.spans.clone());
    match pass(program) {
        Ok(program) => Ok(Stage::Program(Box::new(program))),
        Err(all) => Err(all.iter().map(|one| one.render(&source, &spans) + "\n").collect()),
    }
}

/// What a pass works on.
enum Stage {
    Kernel(Box<Kernel>),
    Bound(Box<BoundKernel>),
    Program(Box<Program>),
    Text(String),
}

impl Stage {
    /// What a check that finds nothing says.
    fn right() -> Stage {
        Stage::Text("nothing is wrong\n".to_owned())
    }
}

/// Reads the name of a target.
///
/// # Errors
/// None has it.
pub fn target(name: &str) -> Result<Target, String> {
    let found = Target::ALL.into_iter().find(|target| target.name() == name.trim());
    found.ok_or_else(|| format!("there is no target `{}`", name.trim()))
}

/// The text above the separator, and the text below it.
fn divide(text: &str) -> (&str, Option<&str>) {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        if line.trim_end() == SEPARATOR {
            return (&text[..start], Some(&text[end..]));
        }
        start = end;
    }
    (text, None)
}

/// The instance that a comment names, with what a launch adds to it.
fn instance(kernel: &Kernel, text: &str) -> Result<Instance, String> {
    let mut candidates: Vec<&Instance> = kernel.instances.iter().collect();
    let (mut dims, mut absent) = (Vec::new(), Vec::new());
    let mut class = crate::ir::Class::WIDEST;
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        if let Some(name) = part.strip_prefix("without ") {
            let optional = kernel.params.iter().find(|(_, param)| {
                param.name == name.trim() && matches!(param.kind, ParamKind::Tensor { optional: true, .. })
            });
            absent.push(optional.ok_or_else(|| format!("there is no optional tensor `{name}`"))?.0);
            continue;
        }
        let Some((name, value)) = part.split_once('=').map(|(name, value)| (name.trim(), value.trim())) else {
            return Err(format!("`{part}` is neither `name = value` nor `without name`"));
        };
        let wrong = || format!("`{name}` is not `{value}`");
        if let Some(at) = kernel.type_params.values().position(|param| param.name == name) {
            candidates.retain(|instance| instance.dtypes.get(at).is_some_and(|dtype| dtype.name() == value));
        } else if let Some((at, param)) = kernel.consts.values().enumerate().find(|(_, param)| param.name == name) {
            let value: i64 = match param.kind {
                ConstKind::Bool => i64::from(value.parse::<bool>().map_err(|_| wrong())?),
                ConstKind::Usize => value.parse().map_err(|_| wrong())?,
            };
            candidates.retain(|instance| instance.consts.get(at) == Some(&value));
        } else if let Some(dim) = kernel.specialized().iter().find(|dim| kernel.dims[**dim].name == name) {
            dims.push((*dim, value.parse().map_err(|_| wrong())?));
        } else {
            let width = match value {
                "16" => Width::Sixteen,
                "8" => Width::Eight,
                "4" => Width::Four,
                "element" => Width::Element,
                _ => return Err(format!("the kernel has no parameter and no specialised dim `{name}`")),
            };
            match name {
                "reads" => class.reads = width,
                "writes" => class.writes = width,
                _ => return Err(format!("the kernel has no parameter and no specialised dim `{name}`")),
            }
        }
    }
    absent.sort();
    let found = candidates.first().ok_or("no declared instance is like this")?;
    Ok(Instance { absent, class, ..found.with_dims(dims) })
}

/// The diagnostics as an error, if there are any.
fn none_of(kernel: &Kernel, diagnostics: Vec<Diagnostic>) -> Result<(), String> {
    if diagnostics.is_empty() { Ok(()) } else { Err(report(kernel, &diagnostics)) }
}

/// Diagnostics as a reader sees them, with the lines of the text.
fn report(kernel: &Kernel, diagnostics: &[Diagnostic]) -> String {
    let all: Vec<_> = diagnostics.iter().map(|d| d.render(&kernel.source, &kernel.spans)).collect();
    all.join("\n\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Class;

    #[test]
    fn what_is_written_is_what_is_read() {
        let text = include_str!("../../tests/ir/bind/first_instance.tile");
        let kernel = parse_kernel(divide(text).0).unwrap();
        let absent = kernel.params.iter().filter(|(_, p)| p.name == "bias").map(|(id, _)| id).collect();
        let class = Class { reads: Width::Four, writes: Width::Element };
        let chosen = Instance { absent, class, ..kernel.instances[1].clone() };
        let written = write(&kernel, &chosen, &[Pass::Bind, Pass::Emit], Target::Sm90a, "found: by nobody\nat all");
        let case = Case::read(&written).unwrap();
        assert_eq!((case.passes.as_slice(), case.target), (&[Pass::Bind, Pass::Emit][..], Target::Sm90a));
        assert_eq!(instance(&kernel, &case.instance), Ok(chosen));
        assert_eq!(parse_kernel(case.input).unwrap().to_string(), kernel.to_string());
    }

    #[test]
    fn what_a_comment_cannot_say() {
        let error = |text: &str| Case::read(text).unwrap_err().to_string();
        assert_eq!(
            error("// about\n// passes: sing\n"),
            "2:1: there is no pass `sing`; there are bind, check, schedule, walk, padding, dependent, peel, place, lower, \
             verify, emit"
        );
        assert_eq!(error("// passes: lower, bind"), "1:1: `bind` runs before `lower`");
        assert_eq!(error("// target: sm_20"), "1:1: there is no target `sm_20`");
        let run = |comments: &str| {
            let text = format!(
                "{comments}\n#[instances((N,) in [(32,)])]\nkernel k<const N: usize>() {{ let [t] = threads([N]); }}"
            );
            Case::read(&text).unwrap().run("a.tile")
        };
        assert_eq!(run("// passes: emit"), "`emit` has no program to work on: `walk` or `lower` comes before it\n");
        assert_eq!(run("// passes: lower"), "a generic kernel is not lowered: `bind` comes first\n");
    }
}
