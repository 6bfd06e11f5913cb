//! Mistakes planted in lowered programs, drawn by a seed: those of the protocol (arrivals, bytes, parities, slots, fences, commits, waits, early
//! use) are found by `verify::program` alone; of coordinates and guards the checked simulator says so, or the result is another.
//!
//! `PLANTED` says how many are drawn, `PLANTED_SEED` from which seed, and `PLANTED_ONLY` from programs whose name contains what.

#[path = "nvrtc/kernels.rs"]
#[allow(dead_code)] // how they are compiled is for tests/nvrtc
mod kernels;
#[path = "nvrtc/products.rs"]
mod products;

use std::collections::{BTreeMap, BTreeSet};
use tile_ir::ir::{BinaryOp, DtypeClass, EntityRef, Instance, Kernel, Target};
use tile_ir::lower::lower;
use tile_ir::lowered::{HostExpr, ParameterKind, Program, ValueType};
use tile_ir::sim::checked::{CheckedOptions, Copies, Schedule, run};
use tile_ir::sim::{Argument, TensorArgument, numeric};
use tile_ir::testing::plant::{
    Family, Mistake, exchanges_alike, marked, marked_everywhere, marked_inside, mistakes, moves_over_registers, planted,
};
use tile_ir::verify::program::{Contents, Effort, program as verify, small_launch};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end.max(1) as u64) as usize
    }
}

fn setting(name: &str, default: usize) -> usize {
    let Ok(value) = std::env::var(name) else { return default };
    value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number"))
}

/// The first, a middle and the last instance, and one whose clusters share along two axes.
fn some(kernel: &Kernel) -> Vec<Instance> {
    let step = kernel.instances.len().div_ceil(3).max(1);
    let dims = kernels::dims(kernel, kernels::values(kernel)[0]);
    let spans = |instance: &Instance, name| kernels::constant(kernel, instance, name).is_some_and(|blocks| blocks > 1);
    let shared = kernel.instances.iter().find(|instance| spans(instance, "CX") && spans(instance, "CY"));
    let all = kernel.instances.iter().step_by(step).chain(shared);
    all.map(|instance| instance.clone().with_dims(dims.clone())).collect()
}

fn programs() -> Vec<Program> {
    let only = std::env::var("PLANTED_ONLY").unwrap_or_default();
    let mut all = Vec::new();
    for definition in kernels::kernels() {
        let kernel = definition.kernel().expect("a bundled kernel decodes");
        if !kernel.name.contains(&only) {
            continue;
        }
        for (instance, target) in some(kernel).iter().flat_map(|i| Target::ALL.map(|target| (i, target))) {
            all.extend(lower(kernel, instance, target));
        }
    }
    all
}

/// A launch that a wrong program is executed with beside the right one.
struct Case {
    steps: i64,
    ragged: bool,
    contents: Contents,
    floats: Floats,
    /// How many of its blocks are executed.
    blocks: Option<u32>,
}

/// Floating-point numbers that tensors hold.
#[derive(Clone, Copy, PartialEq)]
enum Floats {
    /// What [`Contents`] says: multiples of a quarter up to 1, or zeros.
    Plain,
    /// Up to a half, hardly two of them equal.
    Distinct,
    /// Up to a half, hardly two of them equal, but for one in a thousand, which is up to 5,000: another number than the largest is taken off before exponentials at a cost.
    Peaks,
}

const fn case(steps: i64, ragged: bool, contents: Contents, floats: Floats, blocks: Option<u32>) -> Case {
    Case { steps, ragged, contents, floats, blocks }
}

/// A row that is long enough for every warp of a large block.
const LONG: i64 = 20_000;

/// Whole tiles; tiles that leave their tensors, at two lengths; tables of entries that do not exist; sequences of some length; both beside
/// numbers that differ; rows that are long enough for every warp of a large block.
const CASES: [Case; 17] = [
    case(256, false, Contents::Random(7), Floats::Plain, None),
    case(256, true, Contents::Random(8), Floats::Plain, None),
    case(1000, true, Contents::Random(9), Floats::Plain, None),
    case(256, false, Contents::Same(1_000_000), Floats::Plain, None),
    case(256, false, Contents::Ascending(200), Floats::Plain, None),
    case(256, true, Contents::Random(10), Floats::Distinct, None),
    case(256, false, Contents::Ascending(200), Floats::Distinct, None),
    case(256, false, Contents::Same(40), Floats::Distinct, None),
    case(512, false, Contents::Same(1_000_000), Floats::Distinct, Some(1)),
    case(512, true, Contents::Same(0), Floats::Distinct, Some(2)),
    case(1000, true, Contents::Ascending(150), Floats::Distinct, Some(1)),
    case(LONG, false, Contents::Random(11), Floats::Peaks, Some(4)),
    case(LONG, false, Contents::Random(12), Floats::Peaks, Some(4)),
    case(LONG, false, Contents::Random(13), Floats::Peaks, Some(4)),
    case(LONG, false, Contents::Random(14), Floats::Peaks, Some(4)),
    case(LONG, false, Contents::Random(15), Floats::Peaks, Some(4)),
    case(LONG, false, Contents::Random(16), Floats::Peaks, Some(4)),
];

/// Floating-point numbers in place of those that tensors hold.
fn spread(arguments: &[Argument], floats: Floats, seed: u64) {
    for (which, argument) in arguments.iter().enumerate() {
        let Argument::Tensor(TensorArgument { dtype, memory, .. }) = argument else { continue };
        if !matches!(dtype.class(), DtypeClass::Float(_)) {
            continue;
        }
        let mut random = Random(seed.wrapping_mul(64) + which as u64);
        let number = |_| {
            let size = if floats == Floats::Peaks && random.below(1000) == 0 { 5000.0 } else { 0.5 };
            numeric::encode(*dtype, (random.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0) * size)
        };
        let elements = memory.len() / dtype.bytes() as usize;
        let bytes = |bits: u32| bits.to_le_bytes().into_iter().take(dtype.bytes() as usize);
        // A large tensor holds the same numbers again and again, at other columns of its rows.
        let numbers: Vec<u8> = (0..elements.min(99_991)).map(number).flat_map(bytes).collect();
        for at in (0..memory.len()).step_by(numbers.len().max(1)) {
            memory.write(at, &numbers[..numbers.len().min(memory.len() - at)]).expect("its own bytes");
        }
    }
}

/// What an execution finds, and what tensors hold afterwards.
type Outcome = (Vec<String>, Vec<Vec<u8>>);

/// What an execution comes to; `None` where there is no such launch or it was stopped.
fn execute_in(program: &Program, case: &Case, order: (Schedule, Copies, u64)) -> Option<Outcome> {
    let arguments = small_launch(program, case.steps, case.ragged, case.contents)?;
    if case.floats != Floats::Plain {
        let seed = if let Contents::Random(seed) = case.contents { seed } else { case.steps as u64 };
        spread(&arguments, case.floats, seed);
    }
    let (schedule, copies, seed) = order;
    let options = CheckedOptions {
        schedule,
        copies,
        seed,
        clusters: 1,
        step_limit: if case.blocks.is_some() { 1_000_000 } else { 2_000_000 },
        most_clusters: case.blocks,
        max_reports: 1000,
        ..CheckedOptions::default()
    };
    let report = run(program, &arguments, &options).ok().filter(|report| report.stopped.is_none())?;
    let bytes = |argument: &Argument| match argument {
        Argument::Tensor(tensor) => {
            let mut bytes = vec![0; tensor.memory.len()];
            tensor.memory.read(0, &mut bytes).expect("its own bytes");
            bytes
        }
        Argument::Scalar(_) | Argument::Absent => Vec::new(),
    };
    let found = report.diagnostics.iter().map(|d| format!("{} {}", d.code, d.message)).collect();
    Some((found, arguments.iter().map(bytes).collect()))
}

fn execute(program: &Program, case: &Case) -> Option<Outcome> {
    execute_in(program, case, (Schedule::InOrder, Copies::Late, 0))
}

/// Whether executing the wrong program shows that it is wrong. Of a program that has too much to do in one long launch no other is tried.
fn shows(right: &Program, wrong: &Program) -> bool {
    let mut is_too_long = false;
    CASES.iter().any(|case| {
        let is_long = case.steps == LONG;
        if is_long && is_too_long {
            return false;
        }
        let expected = execute(right, case);
        is_too_long |= is_long && expected.is_none();
        expected.is_some_and(|expected| execute(wrong, case) != Some(expected))
    })
}

/// Whether any of the launches comes to where the mistake is; of a ring that begins again at another stage, to where it begins.
fn reaches(program: &Program, mistake: &Mistake) -> bool {
    let marked = if mistake.text.starts_with("a ring begins again") {
        marked_inside(program, mistake)
    } else {
        marked(program, mistake)
    };
    CASES
        .iter()
        .any(|case| execute(&marked, case).is_some_and(|(found, _)| found.iter().any(|f| f.starts_with("TK0901"))))
}

/// Mistakes that change nothing but what comes after what: an execution that orders every two accesses that conflict does what the right
/// program does.
const ORDERS: [&str; 8] = [
    "`barrier` is left out",
    "`named barrier` is left out",
    "`async commit` is left out",
    "`async wait` is left out",
    "`async wait` is for one group too few",
    "a copy is waited for after the barrier",
    "a stage is used before the wait for it",
    "the stage before is waited for",
];

/// Lengths of loops that are executed to see whether the order is kept: of one iteration, of less than a ring's stages, of several rounds.
const LENGTHS: [(i64, bool); 6] = [(64, false), (192, false), (320, false), (512, false), (264, true), (1000, true)];

/// Whether no launch needs what was left out or moved: in each, whatever the order of warps and of copies, every two accesses that
/// conflict are ordered by something else (the simulator's clocks say so of an execution whatever happened to run first), no copy is
/// used in flight, nobody waits for ever, and the results are the right ones. That says something of other launches only where these come
/// to everything that synchronises or shares memory; or where the program is of one launch.
fn keeps_order(right: &Program, wrong: &Program) -> bool {
    let seeded = Schedule::Seeded { resident_blocks: 3 };
    let orders = [(seeded, Copies::Early, 1), (seeded, Copies::Late, 2), (Schedule::InOrder, Copies::Early, 3)];
    let (marked, lists) = marked_everywhere(right);
    let mut come_to = BTreeSet::new();
    // The contents of integers differ where there are any.
    let has_tables = right.tensors.iter().any(|tensor| tensor.dtype.is_whole());
    let contents =
        if has_tables { vec![Contents::Random(7), Contents::Ascending(200)] } else { vec![Contents::Random(7)] };
    let cases = LENGTHS.iter().flat_map(|(steps, ragged)| contents.iter().map(|contents| (*steps, *ragged, *contents)));
    let cases: Vec<Case> = cases.map(|(steps, ragged, c)| case(steps, ragged, c, Floats::Plain, None)).collect();
    let mut expected = Vec::new();
    for case in &cases {
        let Some((found, bytes)) = execute(&marked, case) else { continue };
        come_to.extend((0..lists).filter(|list| found.iter().any(|f| f.contains(&format!("list {list};")))));
        let found: Vec<String> = found.into_iter().filter(|f| !f.starts_with("TK0901")).collect();
        expected.push((case, (found, bytes)));
    }
    let comes_to_all = come_to.len() == lists || is_one_launch(right);
    let is_right = |(case, expected): &(&Case, Outcome)| {
        orders.into_iter().all(|order| execute_in(wrong, case, order).as_ref() == Some(expected))
    };
    comes_to_all && !expected.is_empty() && expected.iter().all(is_right)
}

/// Whether the checks leave every extent one value, and there is no other number that a launch could choose.
fn is_one_launch(program: &Program) -> bool {
    let fixed = |dim: usize| {
        program.launch.checks.iter().any(|check| {
            matches!(&check.holds, HostExpr::Binary(BinaryOp::Eq, a, b)
                if matches!((&**a, &**b), (HostExpr::Dim(d), HostExpr::Int(_)) if d.index() == dim))
        })
    };
    let is_number = |parameter: &tile_ir::lowered::Parameter| {
        matches!(parameter.kind, ParameterKind::Scalar(_)) && matches!(parameter.ty, ValueType::Index | ValueType::Wide)
    };
    (0..program.dims.len()).all(fixed) && !program.params.iter().any(is_number)
}

/// Whether the program is shown to be right with the mistake in it.
fn is_equal(program: &Program, mistake: &Mistake, wrong: &Program) -> bool {
    moves_over_registers(program, mistake)
        || exchanges_alike(program, mistake)
        || ORDERS.contains(&mistake.text.as_str()) && reaches(program, mistake) && keeps_order(program, wrong)
}

#[derive(Default)]
struct Count {
    planted: usize,
    verified: usize,
    shown: usize,
    equal: usize,
    unreached: usize,
}

#[test]
fn planted_mistakes_are_found() {
    let (count, seed) = (setting("PLANTED", 60), setting("PLANTED_SEED", 1));
    let programs = programs();
    let mut by_family: BTreeMap<Family, Vec<(&Program, Mistake)>> = BTreeMap::new();
    for program in &programs {
        for mistake in mistakes(program) {
            by_family.entry(mistake.family).or_default().push((program, mistake));
        }
    }
    let total: usize = by_family.values().map(Vec::len).sum();
    let mut random = Random(seed as u64);
    let mut counts: BTreeMap<Family, Count> = BTreeMap::new();
    let mut unnoticed = Vec::new();
    let mut left_to_execution = Vec::new();
    let families: Vec<Family> = by_family.keys().copied().collect();
    for drawn in 0..count {
        let family = families[drawn % families.len()];
        let all = &by_family[&family];
        let (program, mistake) = &all[random.below(all.len())];
        let wrong = planted(program, mistake);
        let count = counts.entry(family).or_default();
        count.planted += 1;
        if verify(&wrong, Effort::Test).is_err() {
            count.verified += 1;
        } else if shows(program, &wrong) {
            count.shown += 1;
            if family.is_protocol() {
                left_to_execution.push(format!("{} for {}: {mistake}", program.name, program.target));
            }
        } else if is_equal(program, mistake, &wrong) {
            count.equal += 1;
        } else if !reaches(program, mistake) {
            count.unreached += 1;
        } else {
            unnoticed.push(format!("{} for {}: {mistake}", program.name, program.target));
        }
    }
    println!("{total} mistakes in {} programs; {count} drawn with seed {seed}", programs.len());
    for (family, Count { planted, verified, shown, equal, unreached }) in &counts {
        let others = format!("{equal} equal, {unreached} where no launch comes");
        println!("{family:?}: {planted} planted, {verified} by the verifier, {shown} by execution, {others}");
    }
    println!("left to execution: {left_to_execution:#?}\nunnoticed: {unnoticed:#?}");
    let protocol = || counts.iter().filter(|(family, _)| family.is_protocol()).map(|(_, count)| count);
    let sum = |f: fn(&Count) -> usize| protocol().map(f).sum::<usize>();
    let (planted, verified, equal) = (sum(|c| c.planted), sum(|c| c.verified), sum(|c| c.equal));
    assert!(10 * verified >= 9 * (planted - equal), "{verified} of {planted} mistakes of the protocol, {equal} equal");
    // Most of these are in branches that no launch comes to; none is known to be right.
    assert!(unnoticed.len() * 20 <= count * 3, "{} of {count} go unnoticed", unnoticed.len());
}
