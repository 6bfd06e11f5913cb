//! Random valid programs: fast == checked == reference, on both targets; a share of them compiled.

use crate::part::{Case, Outcome, Part, Shrunk};
use crate::programs::execute::{self, Failed, Failure, examine, failed};
use crate::programs::tree::Program;
use crate::programs::{compile, data, generate, reference, text};
use crate::shrink;
use tile_ir::ir::Target;
use tile_ir::text::filetest::{self, Pass};
use tile_ir::verify::program::{Effort, program as verify};

/// The part.
pub struct Programs;

/// One program in so many is compiled for every target that it declares.
const COMPILED: u64 = 20;
/// One program in so many is run again in another form: other stages, tiles, schedules.
const VARIED: u64 = 4;
/// Schedules that each target's program is run under on the checked simulator.
const SCHEDULES: usize = 2;
/// Bytes of spills that a random program is allowed.
const SPILLS: u32 = 0;
/// Programs that are tried while one is made smaller.
const TRIES: usize = 600;

impl Part for Programs {
    fn name(&self) -> &'static str {
        "programs"
    }

    fn about(&self) -> &'static str {
        "random valid programs, for sm_80 and sm_90a: both simulators and a sequential reference agree, the checked one reports \
         nothing, other stages and tiles change nothing, and NVRTC compiles without spills or complaints"
    }

    fn size(&self) -> u64 {
        10_000
    }

    fn sample(&self) -> u64 {
        100
    }

    fn run(&self, case: Case) -> Outcome {
        let seed = seed(case);
        let program = generate::program(seed);
        match outcome(&program, seed, case.number) {
            Ok(end) => Outcome::passed(program.family, end),
            Err(failure) => report(&program, &failure),
        }
    }

    fn shrink(&self, case: Case, _: &crate::Failure) -> Shrunk {
        let seed = seed(case);
        let program = generate::program(seed);
        let Err(failure) = outcome(&program, seed, case.number) else { return Shrunk::default() };
        let small = smallest(&program, seed, case.number, &failure);
        Shrunk { input: Some(source(&small)), tile: execute::guarded(|| tile(&small, case, &failure)).ok() }
    }
}

/// Programs of one family, or of all: each one's end, and those that fail made small, for a reader. Whether none failed.
pub fn explained(family: Option<&str>, seeds: std::ops::Range<u64>, is_shrunk: bool) -> bool {
    let mut all_agree = true;
    for seed in seeds {
        let Some(program) = family.map_or_else(|| Some(generate::program(seed)), |f| generate::of_family(f, seed))
        else {
            println!("no such family");
            return false;
        };
        let start = std::time::Instant::now();
        match outcome(&program, seed, seed) {
            Ok(end) => println!("{seed} {}: {end}, {:.1} s", program.family, start.elapsed().as_secs_f64()),
            Err(failure) => {
                all_agree = false;
                let small = if is_shrunk { smallest(&program, seed, seed, &failure) } else { program.clone() };
                let said = outcome(&small, seed, seed).err().unwrap_or(failure);
                println!("{seed} {}: {}: {}\n{}", program.family, said.class, said.detail, source(&small));
            }
        }
    }
    all_agree
}

/// The text and the CUDA C of programs; whether all have both.
pub fn emitted(family: Option<&str>, seeds: std::ops::Range<u64>) -> bool {
    let mut all_are = true;
    for seed in seeds {
        let Some(program) = family.map_or_else(|| Some(generate::program(seed)), |f| generate::of_family(f, seed))
        else {
            println!("no such family");
            return false;
        };
        println!("{}", source(&program));
        let lowered = execute::guarded(|| {
            let kernel = execute::parse(&text::print(&program))?;
            let args = data::arguments(&program, &data::inputs(&program, seed));
            let lower = |target: &tile_ir::ir::Target| execute::lower(&program, &kernel, *target, &args);
            execute::targets(&kernel).iter().map(lower).collect::<Result<Vec<_>, Failed>>()
        });
        match lowered {
            Ok(all) => all.iter().for_each(|l| println!("// {}\n{}", l.target, tile_ir::emit::cuda::emit(l))),
            Err(failure) => {
                println!("{}: {}", failure.class, failure.detail);
                all_are = false;
            }
        }
    }
    all_are
}

/// The smallest program found that fails in the same way.
fn smallest(program: &Program, seed: u64, number: u64, failure: &Failed) -> Program {
    let again = |smaller: &Program| {
        // A program that the reference refuses is none.
        let is_program = || {
            let inputs = data::inputs(smaller, seed);
            execute::guarded(|| {
                let run = reference::run(smaller, data::storages(smaller, &inputs));
                run.map_err(|text| failed(Failure::Generator, text))
            })
            .is_ok()
        };
        (failure.class == Failure::Generator || is_program()).then(|| outcome(smaller, seed, number).err())?
    };
    shrink::program::shrink(program, failure, TRIES, again)
}

/// What a case's program and data are drawn from.
fn seed(case: Case) -> u64 {
    case.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(case.number)
}

/// The program's text, with the values that it was run with.
fn source(program: &Program) -> String {
    let dims: Vec<String> = program.dims.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let scalars: Vec<String> = program.scalars.iter().map(|(name, _, value)| format!("{name} = {value}")).collect();
    let pitch = if program.pitch.iter().any(|p| *p > 0) {
        format!(", rows longer by {:?}", program.pitch)
    } else {
        String::new()
    };
    format!("// {}{pitch}\n{}", [dims, scalars].concat().join(", "), text::print(program).file())
}

/// The program's kernel as a file of tile-ir, with the values that it was run with.
fn tile(program: &Program, case: Case, failure: &Failed) -> Result<String, Failed> {
    let kernel = execute::kernel(&text::print(program))?.0;
    let instance = execute::instance(program, &kernel)?;
    let passes: &[Pass] = match failure.class {
        Failure::Refused | Failure::Flagged => &[Pass::Check],
        Failure::Broken => &[Pass::Bind, Pass::Lower, Pass::Verify],
        Failure::Nvrtc | Failure::Complaint => &[Pass::Bind, Pass::Lower, Pass::Emit],
        _ => &[Pass::Bind, Pass::Lower],
    };
    let target = kernel.targets.last().copied().unwrap_or(Target::Sm90a);
    let values = source(program);
    let values = values.lines().next().and_then(|line| line.strip_prefix("// "));
    let about = format!(
        "The soak, programs, case {} of seed {}, {}\nIt was run with {}",
        case.number,
        case.seed,
        failure.class,
        values.unwrap_or("no values")
    );
    Ok(filetest::write(&kernel, &instance, passes, target, &about))
}

fn report(program: &Program, failure: &Failed) -> Outcome {
    let message = format!("{}: {}", failure.class, failure.detail);
    Outcome::failed(program.family, message).with_input(source(program))
}

/// Everything that is asked of a program; the end of one that passes.
fn outcome(program: &Program, seed: u64, number: u64) -> Result<&'static str, Failed> {
    let agreed = examine(program, seed, SCHEDULES)?;
    if number.is_multiple_of(VARIED) {
        for variant in &program.variants {
            let other = examine(variant, seed, 1)?;
            if let Some(text) = data::difference(program, &agreed.results, &other.results, program.agreement) {
                let other = text::print(variant).file();
                return Err(failed(Failure::Metamorphic, format!("{text}; the other form:\n{other}")));
            }
        }
    }
    let effort = if number.is_multiple_of(VARIED) { Effort::Test } else { Effort::Compilation };
    for lowered in &agreed.lowered {
        verify(lowered, effort).map_err(|bug| {
            let report = bug.diagnostic().render(&lowered.source, &lowered.spans);
            failed(Failure::Broken, format!("{}: {report}", lowered.target))
        })?;
    }
    if number.is_multiple_of(COMPILED) && compile::is_there() {
        for lowered in &agreed.lowered {
            compile::compile(lowered, SPILLS)?;
        }
        return Ok("agree, compiled");
    }
    Ok("agree")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_a_file_that_goes_through_its_passes() {
        for seed in 0..40 {
            let (program, case) = (generate::program(seed), Case { number: seed, seed: 1 });
            let file = tile(&program, case, &failed(Failure::Reference, "")).unwrap_or_else(|e| panic!("{}", e.detail));
            let read = filetest::Case::read(&file).unwrap_or_else(|e| panic!("{e}\n{file}"));
            assert!(read.run("case.tile").starts_with("program "), "{}\n{file}", read.run("case.tile"));
        }
    }
}
