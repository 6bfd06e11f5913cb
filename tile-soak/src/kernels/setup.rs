//! For each kernel of the repository, launches that are right: what mutants are compared with.

use super::fit::fit;
use super::launch::{Launch, Programs, Refusal, first, schedules};
use super::problem::{DEPTH, Problem, Results};
use super::source::{Library, Source, library};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use tile_ir::ir::{DtypeRef, Kernel, Param, ParamKind, Target, Type};

/// An instance with problems that it serves.
pub struct Setup {
    /// Which of the kernel's instances.
    pub instance: usize,
    /// Problems with their results.
    pub problems: Vec<Solved>,
}

/// A problem, and what a kernel makes of it.
pub struct Solved {
    /// The problem.
    pub problem: Problem,
    /// The results.
    pub results: Results,
    /// The targets that the instance fits, each with the [identity](Launch::identity) of the launch that serves the problem.
    pub programs: Vec<(Target, String)>,
    /// Steps of the longest run.
    pub steps: u64,
}

/// What a problem is drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Anything.
    Any,
    /// As [`Wish::Tiles`], and loops over other extents go round several times.
    DeepTiles,
    /// At least two blocks along every axis of the grid.
    Tiles,
    /// Many blocks.
    Blocks,
}

impl Wish {
    /// The problems of an instance. Mutants run under every schedule on the first.
    const EACH: [Wish; 3] = [Wish::Any, Wish::DeepTiles, Wish::Blocks];

    /// What is drawn where this was not found.
    fn lesser(self) -> Option<Wish> {
        match self {
            Wish::Any => None,
            Wish::DeepTiles => Some(Wish::Tiles),
            Wish::Tiles | Wish::Blocks => Some(Wish::Any),
        }
    }

    /// Most work of a problem; see [`Problem::work`].
    fn work(self) -> f64 {
        if matches!(self, Wish::Tiles | Wish::DeepTiles) { 6e6 } else { 1e6 }
    }

    /// Whether a launch is what was wished.
    fn is_met(self, launch: &Launch) -> bool {
        match self {
            Wish::Any => true,
            Wish::DeepTiles => Wish::Tiles.is_met(launch) && launch.depths.iter().all(|extent| *extent >= DEPTH),
            Wish::Tiles => launch.extents.iter().all(|extent| *extent >= 2),
            Wish::Blocks => launch.extents.iter().product::<i64>() >= 17,
        }
    }
}

/// Instances that are tried of a kernel.
const INSTANCES: usize = 2;
/// Problems of an instance with a scalar parameter that is 0.
const ZEROED: usize = 2;
/// Draws before a problem is given up.
const DRAWS: usize = 400;
/// Most blocks of an original's launch.
const MOST_BLOCKS: i64 = 2048;

/// Launches of a kernel of the repository, on every target it declares and fits, clean and with the same results on both
/// simulators. Problems that are flagged are left out: the part `shapes` is about those.
///
/// # Errors
/// What the kernel is flagged for while typing or for every problem, or that no launch was found.
pub fn setups(source: &Source) -> Result<Vec<Setup>, String> {
    setups_in(library(), source)
}

/// [`setups`] of a kernel whose functions stand in this library.
///
/// # Errors
/// As [`setups`].
pub fn setups_in(library: &Library, source: &Source) -> Result<Vec<Setup>, String> {
    let checked = library.check(source).ok_or("not a kernel")?;
    let said: Vec<_> = checked.diagnostics.iter().chain(&checked.deferred).cloned().collect();
    if !said.is_empty() {
        return Err(format!("flagged while typing: {}", first(&said)));
    }
    let kernel = checked.kernel;
    let seed = source.id.bytes().fold(7u64, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b)));
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut programs = Programs::of(&kernel);
    let mut setups: Vec<Setup> = vec![];
    let mut flagged = None;
    for _ in 0..INSTANCES * 4 {
        let instance = rng.random_range(0..kernel.instances.len().max(1));
        if setups.len() == INSTANCES || setups.iter().any(|s| s.instance == instance) {
            continue;
        }
        let mut setup = Setup { instance, problems: vec![] };
        for wish in Wish::EACH {
            match drawn(&mut programs, instance, source, wish, &mut rng) {
                Ok(solved) => setup.problems.extend(solved),
                Err(error) => flagged = Some(error),
            }
        }
        let first = setup.problems.first().map(|solved| solved.problem.clone());
        setup.problems.extend(first.into_iter().flat_map(|problem| at_zero(&mut programs, instance, &problem)));
        if !setup.problems.is_empty() {
            setups.push(setup);
        }
    }
    if setups.is_empty() { Err(flagged.unwrap_or("no launch of it was found".into())) } else { Ok(setups) }
}

/// A problem with each integer scalar parameter 0 in turn, where it was not and the kernel serves that: a shift by 0 or a stride of
/// 0 makes indices meet that others keep apart, and a draw of a few scalars seldom has it.
fn at_zero(programs: &mut Programs<'_>, instance: usize, problem: &Problem) -> Vec<Solved> {
    let kernel = programs.kernel();
    let is_integer = |param: &Param| match param.kind {
        ParamKind::Scalar { ty: Type::Index } => true,
        ParamKind::Scalar { ty: Type::Value(DtypeRef::Is(dtype)) } => dtype.is_whole(),
        ParamKind::Scalar { .. } | ParamKind::Tensor { .. } | ParamKind::Absent => false,
    };
    let names = kernel.params.values().filter(|param| is_integer(param)).map(|param| &param.name);
    let others = names.filter(|name| problem.scalars.get(*name).is_some_and(|value| *value != 0));
    let zeroed = others.map(|name| {
        let mut problem = problem.clone();
        problem.scalars.insert(name.clone(), 0);
        problem
    });
    // What an original is flagged for at 0 is its own: nothing is asked of its mutants there.
    zeroed.filter_map(|problem| verified(programs, instance, &problem).ok().flatten()).take(ZEROED).collect()
}

/// A problem that the kernel serves, solved: as wished, or any where none of those was found.
fn drawn(
    programs: &mut Programs<'_>,
    instance: usize,
    source: &Source,
    wish: Wish,
    rng: &mut ChaCha8Rng,
) -> Result<Option<Solved>, String> {
    let kernel = programs.kernel();
    let consts = &kernel.instances[instance].consts;
    for _ in 0..DRAWS {
        let mut problem = match wish {
            Wish::Any => Problem::draw(kernel, consts, rng),
            Wish::Tiles | Wish::DeepTiles => Problem::draw_tiles(kernel, consts, rng),
            Wish::Blocks => Problem::draw_blocks(kernel, consts, rng),
        };
        fit(source, kernel, instance, &mut problem);
        if problem.work(kernel) > wish.work() {
            continue;
        }
        if let Some(solved) = verified_as(programs, instance, &problem, wish)? {
            return Ok(Some(solved));
        }
    }
    wish.lesser().map_or(Ok(None), |wish| drawn(programs, instance, source, wish, rng))
}

/// Runs a problem that is served on every target that the instance fits, under every schedule. None where it is not served.
///
/// # Errors
/// Something is reported, or results differ.
pub fn verified(programs: &mut Programs<'_>, instance: usize, problem: &Problem) -> Result<Option<Solved>, String> {
    verified_as(programs, instance, problem, Wish::Any)
}

/// [`verified`], if the launch is what was wished.
fn verified_as(
    programs: &mut Programs<'_>,
    instance: usize,
    problem: &Problem,
    wish: Wish,
) -> Result<Option<Solved>, String> {
    let kernel = programs.kernel();
    let declared = &kernel.instances[instance];
    let (mut launches, mut unfit) = (vec![], None);
    for target in targets(kernel) {
        match programs.launch(declared, target, problem) {
            // Nothing runs, or too much for a soak.
            Ok(launch) if !(1..=MOST_BLOCKS).contains(&launch.blocks) || !wish.is_met(&launch) => return Ok(None),
            Ok(launch) => launches.push((target, launch)),
            // Bundled instances are chosen by what a device has.
            Err(Refusal::Lowering(text)) => unfit = Some(text),
            Err(_) => return Ok(None),
        }
    }
    if let (Some(text), true, true) = (unfit, launches.is_empty(), kernel.specialized().is_empty()) {
        return Err(format!("instance {instance} cannot be lowered: {text}"));
    }
    let said = |what: String| format!("instance {instance}, {problem:?}: {what}");
    let mut solved: Option<Solved> = None;
    for (target, launch) in &launches {
        let fast = launch.fast(problem).map_err(|error| said(format!("fast: {error}")))?;
        let mut steps = 0;
        for options in schedules(problem.data, u64::MAX) {
            let (report, results) = launch.checked(problem, &options).map_err(|error| said(error.to_string()))?;
            if !report.is_clean() {
                return Err(said(format!("checked on {target}: {}", first(&report.diagnostics))));
            }
            if results != fast {
                return Err(said(format!("fast and checked differ on {target}: {}", differing(&fast, &results))));
            }
            steps = steps.max(report.counters.steps);
        }
        let program = (*target, launch.identity());
        match &mut solved {
            Some(solved) if solved.results != fast => {
                return Err(said(format!("the targets' results differ: {}", differing(&fast, &solved.results))));
            }
            Some(solved) => {
                solved.programs.push(program);
                solved.steps = solved.steps.max(steps);
            }
            None => {
                let problem = problem.clone();
                solved = Some(Solved { problem, results: fast, programs: vec![program], steps });
            }
        }
    }
    Ok(solved)
}

/// The tensors whose elements differ, by name.
pub fn differing(a: &Results, b: &Results) -> String {
    let names: Vec<&str> =
        a.iter().filter(|(name, bytes)| b.get(*name) != Some(*bytes)).map(|(n, _)| n.as_str()).collect();
    names.join(", ")
}

/// What a kernel is compiled for.
pub fn targets(kernel: &Kernel) -> Vec<Target> {
    if kernel.targets.is_empty() { Target::ALL.to_vec() } else { kernel.targets.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rayon::prelude::*;

    /// The launches of a kernel's first instance.
    fn launches(id: &str) -> (Vec<Problem>, Vec<Launch>) {
        let source = library().kernel(id).unwrap();
        let kernel = library().check(source).unwrap().kernel;
        let setup = &setups(source).unwrap()[0];
        let problems: Vec<Problem> = setup.problems.iter().map(|solved| solved.problem.clone()).collect();
        let instance = &kernel.instances[setup.instance];
        let launch = |problem| Launch::new(&kernel, instance, targets(&kernel)[0], problem).ok().unwrap();
        let launches = problems.iter().map(launch).collect();
        (problems, launches)
    }

    #[test]
    fn problems_have_tiles_on_every_axis_and_many_blocks() {
        let (_, all) = launches("tests/loop_ranges.rs::shares");
        let tiles = |l: &&Launch| l.extents.iter().all(|e| *e >= 2) && l.depths.iter().all(|e| *e >= DEPTH);
        assert!(all.iter().any(|l| tiles(&l)));
        let (_, all) = launches("tests/loop_ranges.rs::parts");
        assert!(all.iter().any(|launch| launch.blocks >= 17));
        let (problems, _) = launches("tests/loop_ranges.rs::scalars");
        assert!(problems[..3].iter().all(|p| p.scalars["first"] < p.scalars["last"]), "the range is not empty");
    }

    #[test]
    fn each_scalar_is_zero_once() {
        let (problems, _) = launches("tests/loop_ranges.rs::operands_of_launch");
        assert!(problems.iter().any(|p| p.scalars["by"] == 0), "a shift by 0");
        assert!(problems.iter().all(|p| p.scalars["step"] >= 2), "a step of 0 is refused");
    }

    #[test]
    #[ignore = "minutes; the parts say the same"]
    fn every_kernel_has_launches() {
        let failed: Vec<String> = library()
            .kernels
            .par_iter()
            .filter_map(|source| {
                let start = std::time::Instant::now();
                let made = setups(source);
                let seconds = start.elapsed().as_secs_f64();
                match made {
                    Ok(setups) => {
                        let problems: usize = setups.iter().map(|s| s.problems.len()).sum();
                        println!("{}: {} instances, {problems} problems, {seconds:.1} s", source.id, setups.len());
                        None
                    }
                    Err(error) => Some(format!("{} ({seconds:.1} s): {error}", source.id)),
                }
            })
            .collect();
        assert!(failed.is_empty(), "{}", failed.join("\n"));
    }
}
