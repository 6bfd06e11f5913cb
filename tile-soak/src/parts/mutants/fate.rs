//! What becomes of a mutant, from typing to its results.

use super::corpus::{Mutant, Original};
use crate::kernels::launch::{Launch, Programs, Refusal, first, schedules};
use crate::kernels::setup::{Solved, differing, targets};
use crate::kernels::source::{Source, library};
use tile_ir::diag::Diagnostic;
use tile_ir::ir::{Kernel, Stmt, StmtKind};
use tile_ir::sim::SimError;

/// Where a mutant ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// rustc reports it: types, names, mutability.
    Rustc,
    /// An error while typing.
    Typing,
    /// A lint while typing.
    Lint,
    /// The first launch reports it: binding, lowering or a launch check.
    Launch,
    /// The checked simulator does.
    Checked,
    /// It is clean, and what it computes depends on which block comes first: on what an atomic operation found, or which block
    /// arrived last.
    Order,
    /// It is clean, and computes something else than the original.
    Different,
    /// It is clean, and computes the same on these shapes.
    Equal,
    /// Its CUDA C is the original's, and so is what the host evaluates: grid, checks, tensor maps.
    EqualProgram,
}

impl Fate {
    /// The fate's name in tables, in the order of the way that a mutant takes.
    pub fn name(&self) -> &'static str {
        match self {
            Fate::Rustc => "1 rustc",
            Fate::Typing => "2 typing",
            Fate::Lint => "3 lint",
            Fate::Launch => "4 launch",
            Fate::Checked => "5 checked",
            Fate::Order => "6 by order of blocks",
            Fate::Different => "6 different",
            Fate::Equal => "7 equal",
            Fate::EqualProgram => "8 equal program",
        }
    }
}

/// A fate, and what was said.
pub struct End {
    /// The fate.
    pub fate: Fate,
    /// The first report, where there is one.
    pub said: String,
}

fn end(fate: Fate, said: impl Into<String>) -> End {
    End { fate, said: said.into() }
}

/// How much longer than its original's a mutant's run may be before it counts as stuck.
const PATIENCE: u64 = 30;

/// Whether it does not stop the build.
fn is_lint(diagnostic: &Diagnostic) -> bool {
    diagnostic.code.0 / 100 == 6
}

/// Takes a mutant from its text to its results.
///
/// # Errors
/// What must not be: the original is flagged, the simulators disagree, a program cannot be simulated.
pub fn fate(mutant: &Mutant) -> Result<End, String> {
    judged(mutant.original, &mutant.text())
}

/// The fate of any text beside an original.
///
/// # Errors
/// See [`fate`].
pub fn judged(original: &Original, text: &str) -> Result<End, String> {
    let setups = original.setups().map_err(|error| format!("the original {}: {error}", original.source.id))?;
    let kernel = match typed(original.source, text) {
        Ok(kernel) => kernel,
        Err(found) => return Ok(found),
    };
    let mut programs = Programs::of(&kernel);
    let mut equal_program = true;
    let mut different = None;
    for setup in setups {
        for (number, solved) in setup.problems.iter().enumerate() {
            let found = launched(&mut programs, setup.instance, solved, number)?;
            equal_program &= found.fate == Fate::EqualProgram;
            match found.fate {
                Fate::Launch | Fate::Checked | Fate::Order => return Ok(found),
                Fate::Different => different = Some(found),
                _ => {}
            }
        }
    }
    Ok(different.unwrap_or(end(if equal_program { Fate::EqualProgram } else { Fate::Equal }, "")))
}

/// What a text in the place of an original is while it is typed: a kernel, or an end.
///
/// # Errors
/// The end.
pub fn typed(original: &Source, text: &str) -> Result<Kernel, End> {
    let Some(checked) = library().check_as(&original.id, text) else { return Err(end(Fate::Rustc, "not a function")) };
    if !checked.deferred.is_empty() {
        return Err(end(Fate::Rustc, first(&checked.deferred)));
    }
    if !checked.diagnostics.is_empty() {
        let fate = if checked.diagnostics.iter().all(is_lint) { Fate::Lint } else { Fate::Typing };
        return Err(end(fate, first(&checked.diagnostics)));
    }
    Ok(checked.kernel)
}

/// Launches a mutant as its original is launched.
fn launched(programs: &mut Programs<'_>, instance: usize, solved: &Solved, number: usize) -> Result<End, String> {
    let kernel = programs.kernel();
    let Some(instance) = kernel.instances.get(instance) else { return Ok(end(Fate::Launch, "no such instance")) };
    let mut best = end(Fate::EqualProgram, "");
    for (target, original) in &solved.programs {
        if !targets(kernel).contains(target) {
            return Ok(end(Fate::Launch, "no such target"));
        }
        let launch = match programs.launch(instance, *target, &solved.problem) {
            Ok(launch) => launch,
            Err(Refusal::Lowering(text) | Refusal::Check(text)) => return Ok(end(Fate::Launch, text)),
            // A grid that is thousands of times as large as any original's.
            Err(Refusal::Large) => {
                best = end(Fate::Different, "a grid too large to run");
                continue;
            }
        };
        if launch.identity() == *original {
            continue;
        }
        let found = run(&launch, solved, number)?;
        match found.fate {
            Fate::Launch | Fate::Checked | Fate::Order => return Ok(found),
            Fate::Different => best = found,
            _ if best.fate == Fate::EqualProgram => best = found,
            _ => {}
        }
    }
    Ok(best)
}

/// Runs a program under all schedules on the first problem, and under one on the others.
fn run(launch: &Launch, solved: &Solved, number: usize) -> Result<End, String> {
    let Solved { problem, results: expected, steps, .. } = solved;
    let limit = steps.saturating_mul(PATIENCE).saturating_add(1_000_000);
    let mut options = schedules(problem.data, limit).to_vec();
    if number > 0 {
        options = vec![options.swap_remove(number % 3)];
    }
    let said = |what: String| format!("{what}, on {}, {problem:?}", launch.program.target);
    let mut seen = vec![];
    for options in options {
        let (report, results) = match launch.checked(problem, &options) {
            Ok(run) => run,
            Err(SimError::Malformed(text)) => return Err(said(format!("no program of the simulator: {text}"))),
            Err(error) => return Ok(end(Fate::Launch, error.to_string())),
        };
        if !report.is_clean() {
            return Ok(end(Fate::Checked, first(&report.diagnostics)));
        }
        seen.push(results);
    }
    let by_order = depends_on_order(&launch.bound);
    let fast = if by_order { launch.fast_in_order(problem) } else { launch.fast(problem).map_err(|e| e.to_string()) };
    let fast = fast.map_err(|error| said(format!("checked is clean and fast fails: {error}")))?;
    if let Some(results) = seen.iter().find(|results| **results != fast) {
        let differing = differing(&fast, results);
        // One block after another is an order that a device may choose: the results must be those of that order.
        let [in_order, ..] = schedules(problem.data, limit);
        let same_in_order = || matches!(launch.checked(problem, &in_order), Ok((_, results)) if results == fast);
        if by_order && same_in_order() {
            return Ok(end(Fate::Order, format!("other results in another order of blocks: {differing}")));
        }
        return Err(said(format!("fast != checked, and checked is clean: {differing}")));
    }
    // Of the original's outputs: a mutant may be allowed to write more tensors than it does.
    Ok(match differing(expected, &fast).is_empty() {
        true => end(Fate::Equal, ""),
        false => end(Fate::Different, "other results"),
    })
}

/// Whether a kernel can learn in which order blocks come: by the old value of an atomic operation, or by `last_arriver`.
fn depends_on_order(kernel: &Kernel) -> bool {
    let learns =
        |stmt: &Stmt| matches!(stmt.kind, StmtKind::LastArriver { .. } | StmtKind::Atomic { dst: Some(_), .. });
    kernel.stmts.values().any(learns)
}

#[cfg(test)]
mod tests {
    use super::super::corpus::originals;
    use super::*;
    use tile_ir::ir::{Instance, Target};

    /// What becomes of a kernel with one text in place of another.
    fn became(id: &str, from: &str, to: &str) -> End {
        let original = originals().iter().find(|o| o.source.id == id).unwrap();
        assert!(original.source.text.contains(from), "{}", original.source.text);
        judged(original, &original.source.text.replace(from, to)).unwrap()
    }

    const SCALARS: &str = "tests/loop_ranges.rs::scalars";

    #[test]
    fn a_grid_is_a_part_of_the_program() {
        // None of these is in the CUDA C: the host evaluates the grid.
        for grid in ["M / 32", "M / 4096", "ceil_div(M, 33)"] {
            let end = became(SCALARS, "ceil_div(M, 32)", grid);
            assert!(end.fate == Fate::Checked && end.said.contains("TK0307"), "{grid}: {:?} {}", end.fate, end.said);
        }
        let end = became(SCALARS, "ceil_div(M, 32)", "(M + 31) / 32");
        assert!(matches!(end.fate, Fate::Equal | Fate::EqualProgram), "{:?} {}", end.fate, end.said);
        assert_eq!(became(SCALARS, "let mut sum", "\n\n    let mut sum").fate, Fate::EqualProgram);
    }

    #[test]
    fn what_the_last_block_adds_of_its_own_depends_on_the_order_of_blocks() {
        let counted = |from, to| became("tests/cluster_reduce.rs::counted", from, to);
        // `part` is another number in each of the blocks that may come last; `s` counts the same parts in all of them.
        let by_part = counted("held.at([s, by * 64, bx * 64])", "held.at([part, by * 64, bx * 64])");
        assert_eq!(by_part.fate, Fate::Order, "{}", by_part.said);
        let by_none = counted("+= other[[i, j]]", "+= other[[i, j]] + 1.0");
        assert_eq!(by_none.fate, Fate::Different, "{}", by_none.said);
    }

    #[test]
    fn a_tensor_that_may_be_written_and_is_not_is_found_while_typing() {
        const WINDOWS: &str = "tests/loop_ranges.rs::windows";
        for (from, to) in [("x: &Tensor", "x: &mut Tensor"), ("sums[b] = sum;", "")] {
            let end = became(WINDOWS, from, to);
            assert!(end.fate == Fate::Lint && end.said.contains("TK0608"), "{:?} {}", end.fate, end.said);
        }
        // Where that lint is off, the tensors that the original does not write are no results.
        let original = originals().iter().find(|o| o.source.id == WINDOWS).unwrap();
        let text = original.source.text.replace("x: &Tensor", "x: &mut Tensor");
        let text = text.replace("#[tile_kernel]", "#[tile_kernel(lints(TK0608 = \"off\"))]");
        assert_eq!(judged(original, &text).unwrap().fate, Fate::Equal);
    }

    /// Two of the survivors in `bench/survivors.json` would have undefined behaviour at launches that were not drawn, of variants for a
    /// longer row. Such a variant is refused when it is made.
    #[test]
    fn variants_of_survivors_that_would_be_undefined_are_refused() {
        let lowered = |id: &str, (from, to): (&str, &str), consts: &[i64], (dim, length): (&str, i64)| {
            let original = originals().iter().find(|o| o.source.id == id).unwrap();
            assert!(original.source.text.contains(from), "{}", original.source.text);
            let kernel =
                typed(original.source, &original.source.text.replace(from, to)).map_err(|end| end.said).unwrap();
            let (dim, _) = kernel.dims.iter().find(|(_, d)| d.name == dim).unwrap();
            let instance = kernel.instances.iter().find(|i| i.consts == consts).unwrap();
            let instance = Instance { dims: vec![(dim, length)], ..instance.clone() };
            let found = tile_ir::lower::lower(&kernel, &instance, Target::Sm80).err().unwrap_or_default();
            let mut codes: Vec<String> = found.iter().map(|d| d.code.to_string()).collect();
            codes.dedup();
            codes
        };
        // Case 566: threads 256 to 511 take the vectors of the next step's first half.
        const NORM: &str = "cookbook/src/layer_norm.rs::add_layer_norm";
        let norm = |threads, n| lowered(NORM, ("threads([256])", threads), &[1], ("N", n));
        assert!(norm("threads([(256) * 2])", 256).is_empty() && norm("threads([256])", 512).is_empty());
        assert_eq!(norm("threads([(256) * 2])", 512), ["TK0401"]);
        // Case 1103: every second element is not written.
        const SPECIALIZED: &str = "tests/grammar/kernels.rs::specialized";
        let values = |to, k| lowered(SPECIALIZED, ("values[i] = x.masked", to), &[], ("K", k));
        assert!(values("values[(i) / 2] = x.masked", 128).is_empty() && values("values[i] = x.masked", 129).is_empty());
        assert_eq!(values("values[(i) / 2] = x.masked", 129), ["TK0304"]);
    }
}
