//! Mistakes planted in lowered programs, drawn by a seed: those of the protocol (arrivals, bytes, parities, slots, fences, commits, waits, early
//! use) are found by `verify::program` alone; of coordinates and guards the checked simulator says so, or the result is another.
//!
//! `PLANTED` says how many are drawn, `PLANTED_SEED` from which seed, `PLANTED_ONLY` from programs whose name contains what,
//! `PLANTED_FAMILIES` of which families (`Loop,Leader`), `PLANTED_JUDGE` of which programs (`packed,clamped`) the mistakes are judged, all
//! being drawn as without it, `PLANTED_PART` and `PLANTED_PARTS` which part of the drawn ones is judged, of how many, and `PLANTED_WRITE` a
//! folder that gets the right and the wrong program of each that goes unnoticed, as text.

#[path = "nvrtc/kernels.rs"]
#[allow(dead_code)] // how they are compiled is for tests/nvrtc
mod kernels;
#[path = "nvrtc/products.rs"]
mod products;

use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use tile_ir::ir::{BinaryOp, DtypeClass, EntityRef, Instance, Kernel, Target};
use tile_ir::lower::lower;
use tile_ir::lowered::{HostExpr, ParameterKind, Program, ValueType};
use tile_ir::sim::checked::{CheckedOptions, Copies, Schedule, run};
use tile_ir::sim::{Argument, ScalarValue, TensorArgument, numeric};
use tile_ir::testing::plant::{
    Family, Marked, Mistake, commits_without_copies, exchanges_alike, fences_nothing, marked, marked_everywhere,
    mistakes, moves_over_registers, planted,
};
use tile_ir::verify::program::{Contents, Effort, Shape, program as verify, small_launch};

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

/// The programs of kernels whose names contain `only`.
fn programs_of(only: &str) -> Vec<Program> {
    let mut all = Vec::new();
    for definition in kernels::kernels() {
        let kernel = definition.kernel().expect("a bundled kernel decodes");
        if !kernel.name.contains(only) {
            continue;
        }
        for (instance, target) in some(kernel).iter().flat_map(|i| Target::ALL.map(|target| (i, target))) {
            all.extend(lower(kernel, instance, target));
        }
    }
    all
}

/// A launch that a wrong program is executed with beside the right one.
#[derive(Clone, Copy)]
struct Case {
    steps: i64,
    shape: Shape,
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
    /// Up to 4, hardly two of them equal: sums of products go far beyond those before.
    Large,
    /// Up to a quarter in the first tensor, four times as much in each one after it: what bounds others, or is compared with them, is mostly beyond them.
    /// A tensor of two numbers holds the least and the greatest of its size: they may be a lower and an upper bound.
    Growing,
    /// Hardly anything in a tensor's first rows, up to 8 in its last ones: what is the greatest so far is far exceeded later on. Scalars are 32,
    /// which makes differences count, and a half in turn.
    Rising,
}

const fn case(steps: i64, ragged: bool, contents: Contents, floats: Floats, blocks: Option<u32>) -> Case {
    let shape = if ragged { Shape::Ragged } else { Shape::Least };
    Case { steps, shape, contents, floats, blocks }
}

/// A row that is long enough for every warp of a large block.
const LONG: i64 = 20_000;

/// Whole tiles; tiles that leave their tensors, at four lengths, of which two end within a loop's first stages; tensors without elements; tables of
/// entries that do not exist, and of some that do, beside long sequences, longer ones, and ones that the tables are long enough for; sequences of some length; all of them beside numbers that differ; rows that are
/// long enough for every warp of a large block; tiles with all of their rows and columns.
const CASES: [Case; 33] = [
    case(256, false, Contents::Random(7), Floats::Plain, None),
    case(256, true, Contents::Random(8), Floats::Plain, None),
    case(1000, true, Contents::Random(9), Floats::Plain, None),
    case(256, false, Contents::Same(1_000_000), Floats::Plain, None),
    case(256, false, Contents::Ascending(200), Floats::Plain, None),
    case(256, true, Contents::Random(10), Floats::Distinct, None),
    case(256, false, Contents::Ascending(200), Floats::Distinct, None),
    case(256, false, Contents::Same(40), Floats::Distinct, None),
    case(24, true, Contents::Random(17), Floats::Distinct, None),
    case(72, true, Contents::Random(18), Floats::Distinct, None),
    case(0, false, Contents::Random(19), Floats::Distinct, None),
    case(256, false, Contents::Tables(100), Floats::Distinct, None),
    case(256, true, Contents::Tables(300), Floats::Large, None),
    case(512, false, Contents::Random(20), Floats::Large, Some(2)),
    case(512, false, Contents::Tables(9000), Floats::Distinct, Some(2)),
    case(256, false, Contents::Tables(120), Floats::Distinct, Some(2)),
    case(256, false, Contents::Tables(120), Floats::Rising, Some(2)),
    case(512, false, Contents::Same(1_000_000), Floats::Distinct, Some(1)),
    case(512, false, Contents::Same(5000), Floats::Plain, Some(2)),
    case(72, true, Contents::Random(21), Floats::Growing, None),
    case(72, true, Contents::Random(22), Floats::Growing, None),
    case(512, true, Contents::Same(0), Floats::Distinct, Some(2)),
    Case { shape: Shape::Whole, ..case(256, false, Contents::Random(23), Floats::Distinct, Some(4)) },
    case(1000, true, Contents::Ascending(150), Floats::Distinct, Some(1)),
    case(256, false, Contents::Ascending(200), Floats::Rising, None),
    case(512, false, Contents::Ascending(400), Floats::Rising, Some(2)),
    case(1000, true, Contents::Ascending(900), Floats::Rising, Some(2)),
    case(LONG, false, Contents::Random(11), Floats::Peaks, Some(4)),
    case(LONG, false, Contents::Random(12), Floats::Peaks, Some(4)),
    case(LONG, false, Contents::Random(13), Floats::Peaks, Some(4)),
    case(LONG, false, Contents::Random(14), Floats::Peaks, Some(4)),
    case(LONG, false, Contents::Random(15), Floats::Peaks, Some(4)),
    case(LONG, false, Contents::Random(16), Floats::Peaks, Some(4)),
];

/// Where programs have tables of where sequences begin: sequences whose last step is a whole tile but for one row, where tiles have 64 or 128 rows,
/// 112, or 80. What that step does with each of them has a result.
const LAST_STEPS: [Case; 3] = [last_step(255), last_step(223), last_step(239)];

const fn last_step(length: i32) -> Case {
    case(256, false, Contents::Ascending(length), Floats::Distinct, None)
}

/// How large a number may be at some place of a tensor, which is number `which` of a launch's arguments.
fn size(floats: Floats, which: usize, tensor: &TensorArgument, at: usize, random: &mut Random) -> f32 {
    match floats {
        Floats::Large => 4.0,
        Floats::Growing => (1 << (2 * which).min(20)) as f32 / 4.0,
        Floats::Rising => {
            let rows = tensor.shape.len().checked_sub(2).map(|axis| (tensor.shape[axis], tensor.strides[axis].max(1)));
            let (rows, stride) = rows.unwrap_or((tensor.memory.len() as i64, 1));
            let row = at as i64 / stride % rows.max(1);
            8.0 * ((row + 1) as f32 / rows.max(1) as f32).powi(4)
        }
        Floats::Peaks if random.below(1000) == 0 => 5000.0,
        Floats::Plain | Floats::Distinct | Floats::Peaks => 0.5,
    }
}

/// Floating-point numbers in place of those that tensors hold and scalars are.
fn spread(arguments: &mut [Argument], floats: Floats, seed: u64) {
    let mut scalars = [32.0, 0.5].into_iter().cycle();
    for (which, argument) in arguments.iter_mut().enumerate() {
        let tensor = match argument {
            Argument::Scalar(ScalarValue::Element(dtype, bits)) if matches!(dtype.class(), DtypeClass::Float(_)) => {
                if floats == Floats::Rising {
                    *bits = scalars.next().map_or(*bits, |number| numeric::encode(*dtype, number));
                }
                continue;
            }
            Argument::Tensor(tensor) if matches!(tensor.dtype.class(), DtypeClass::Float(_)) => tensor,
            _ => continue,
        };
        let (dtype, memory) = (tensor.dtype, &tensor.memory);
        let width = dtype.bytes() as usize;
        let elements = memory.len() / width;
        let mut random = Random(seed.wrapping_mul(64) + which as u64);
        let number = |at| {
            let size = size(floats, which, tensor, at, &mut random);
            let is_bound = floats == Floats::Growing && elements == 2;
            let share = if is_bound { [-1.0, 1.0][at] } else { random.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0 };
            numeric::encode(dtype, share * size)
        };
        let bytes = |bits: u32| bits.to_le_bytes().into_iter().take(width);
        // A large tensor holds the same numbers again and again, at other columns of its rows.
        let most = if floats == Floats::Rising { elements } else { 99_991 };
        let numbers: Vec<u8> = (0..elements.min(most)).map(number).flat_map(bytes).collect();
        for at in (0..memory.len()).step_by(numbers.len().max(1)) {
            memory.write(at, &numbers[..numbers.len().min(memory.len() - at)]).expect("its own bytes");
        }
    }
}

/// What an execution finds, and what tensors hold afterwards.
type Outcome = (Vec<String>, Vec<Vec<u8>>);

/// A case of one program: its arguments, and what its tensors hold before each execution.
struct Launch {
    case: Case,
    most_steps: u64,
    arguments: Vec<Argument>,
    before: Vec<Vec<u8>>,
}

/// What a tensor holds.
fn bytes(argument: &Argument) -> Vec<u8> {
    let Argument::Tensor(tensor) = argument else { return Vec::new() };
    let mut bytes = vec![0; tensor.memory.len()];
    tensor.memory.read(0, &mut bytes).expect("its own bytes");
    bytes
}

impl Launch {
    /// `None` where the program has no such launch.
    fn new(program: &Program, case: Case) -> Option<Launch> {
        let mut arguments = small_launch(program, case.steps, case.shape, case.contents)?;
        if case.floats != Floats::Plain {
            let seed = if let Contents::Random(seed) = case.contents { seed } else { case.steps as u64 };
            spread(&mut arguments, case.floats, seed);
        }
        let before = arguments.iter().map(bytes).collect();
        let most_steps = if case.blocks.is_some() { 1_000_000 } else { 2_000_000 };
        Some(Launch { case, most_steps, arguments, before })
    }

    /// Bytes of each tensor.
    fn sizes(&self) -> Vec<usize> {
        self.before.iter().map(Vec::len).collect()
    }

    /// What an execution in some order comes to; `None` where it was stopped.
    fn execute_in(&self, program: &Program, order: (Schedule, Copies, u64)) -> Option<Outcome> {
        for (argument, before) in self.arguments.iter().zip(&self.before) {
            if let Argument::Tensor(tensor) = argument {
                tensor.memory.write(0, before).expect("its own bytes");
            }
        }
        let (schedule, copies, seed) = order;
        let options = CheckedOptions {
            schedule,
            copies,
            seed,
            clusters: 1,
            step_limit: self.most_steps,
            most_clusters: self.case.blocks,
            max_reports: 1000,
            ..CheckedOptions::default()
        };
        let report = run(program, &self.arguments, &options).ok().filter(|report| report.stopped.is_none())?;
        let found = report.diagnostics.iter().map(|d| format!("{} {}", d.code, d.message)).collect();
        Some((found, self.arguments.iter().map(bytes).collect()))
    }

    fn execute(&self, program: &Program) -> Option<Outcome> {
        self.execute_in(program, (Schedule::InOrder, Copies::Late, 0))
    }

    /// What the program comes to, and which of the marks in its copy it comes to.
    fn execute_marked(&self, marked: &Marked) -> Option<(Outcome, Vec<bool>)> {
        let (found, tensors) = self.execute(&marked.program)?;
        let is_mark = |text: &String| text.starts_with("TK0901") && text.contains("mark ");
        let (marks, found): (Vec<String>, Vec<String>) = found.into_iter().partition(is_mark);
        let reached = |mark| marks.iter().any(|text| text.contains(&format!("mark {mark};")));
        Some(((found, tensors), (0..marked.count).map(reached).collect()))
    }
}

/// Mistakes that change nothing but what comes after what, or which of several threads or blocks does something: an execution that orders
/// every two accesses that conflict does what the right program does.
const ORDERS: [&str; 12] = [
    "`fence proxy async` is left out",
    "`arrive and expect` is counted by the next stage",
    "`barrier` is left out",
    "`named barrier` is left out",
    "`async commit` is left out",
    "`async wait` is left out",
    "`async wait` is for one group too few",
    "a copy is waited for after the barrier",
    "a stage is used before the wait for it",
    "the stage before is waited for",
    "another warp does what one is to do",
    "an arrival goes to the next block",
];

/// Lengths of loops that are executed to see whether the order is kept: of one iteration, of less than a ring's stages, of several rounds.
const LENGTHS: [(i64, bool); 6] = [(64, false), (192, false), (320, false), (512, false), (264, true), (1000, true)];

/// Of some wrong programs, those of which no launch needs what was left out or moved: in each, whatever the order of warps and of copies,
/// every two accesses that conflict are ordered by something else (the simulator's clocks say so of an execution whatever happened to run
/// first), no copy is used in flight, nobody waits for ever, and the results are the right ones. That says something of other launches only
/// where these come to everything that synchronises or shares memory; or where the program is of one launch. And those that an order shows
/// to be wrong.
fn keep_order(right: &Program, mut wrong: Vec<(usize, &Program)>) -> BTreeMap<usize, Verdict> {
    let seeded = Schedule::Seeded { resident_blocks: 3 };
    let orders = [(seeded, Copies::Early, 1), (seeded, Copies::Late, 2), (Schedule::InOrder, Copies::Early, 3)];
    let marked = marked_everywhere(right);
    let mut come_to = vec![false; marked.count];
    let of_tables = [Contents::Ascending(200), Contents::Tables(700), Contents::Tables(9000)];
    let contents: Vec<Contents> =
        [Contents::Random(7)].into_iter().chain(of_tables.into_iter().filter(|_| has_tables(right))).collect();
    let cases = LENGTHS.iter().flat_map(|(steps, ragged)| contents.iter().map(|contents| (*steps, *ragged, *contents)));
    let (mut is_executed, mut launches, mut shown) = (false, Vec::new(), Vec::new());
    let is_one_launch = is_one_launch(right);
    for (steps, ragged, contents) in cases {
        let case = case(steps, ragged, contents, Floats::Plain, None);
        let Some(mut launch) =
            Launch::new(right, case).filter(|launch| !launches.contains(&(launch.sizes(), contents)))
        else {
            continue;
        };
        launches.push((launch.sizes(), contents));
        if is_one_launch {
            launch.most_steps = 30_000_000;
        }
        let Some((expected, reached)) = launch.execute_marked(&marked) else { continue };
        is_executed = true;
        come_to.iter_mut().zip(reached).for_each(|(all, here)| *all |= here);
        let is_right = |program, order| launch.execute_in(program, order).as_ref() == Some(&expected);
        wrong.retain(|(which, program)| {
            let differs = orders.into_iter().find(|order| !is_right(program, *order));
            if differs.is_some_and(|order| is_right(right, order)) {
                shown.push(*which);
            }
            differs.is_none()
        });
        if wrong.is_empty() {
            break;
        }
    }
    let comes_to_all = is_one_launch || come_to.iter().all(|reached| *reached);
    let equal = wrong.into_iter().filter(|_| comes_to_all && is_executed);
    let shown = shown.into_iter().map(|which| (which, Verdict::Shown));
    equal.map(|(which, _)| (which, Verdict::Equal)).chain(shown).collect()
}

/// Whether tensors hold integers, whose contents differ from launch to launch.
fn has_tables(program: &Program) -> bool {
    program.tensors.iter().any(|tensor| tensor.dtype.is_whole())
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

/// What becomes of a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// The verifier refuses the program.
    Verified,
    /// An execution finds something, or its results are others.
    Shown,
    /// The program is shown to be right with the mistake in it.
    Equal,
    /// No launch comes to where the mistake is; of a ring that begins again at another stage, to where it begins; of a guard that is left out, to
    /// where it fails.
    Unreached,
    Unnoticed,
}

/// What becomes of mistakes in one program, each by itself.
fn judge(program: &Program, mistakes: &[&Mistake]) -> Vec<Verdict> {
    let wrong: Vec<Program> = mistakes.iter().map(|mistake| planted(program, mistake)).collect();
    let found = |wrong: &Program| verify(wrong, Effort::Test).is_err().then_some(Verdict::Verified);
    let mut verdicts: Vec<Option<Verdict>> = wrong.iter().map(found).collect();
    let marked = marked(program, mistakes);
    let mut reached = vec![false; marked.count];
    // Of a program that has too much to do in one long launch no other is tried.
    let mut is_too_long = false;
    let of_tables = LAST_STEPS.into_iter().filter(|_| has_tables(program));
    for case in CASES.into_iter().chain(of_tables) {
        let is_long = case.steps == LONG;
        if verdicts.iter().all(Option::is_some) || is_long && is_too_long {
            continue;
        }
        let launch = Launch::new(program, case);
        let right = launch.as_ref().and_then(|launch| Some((launch, launch.execute_marked(&marked)?)));
        is_too_long |= is_long && right.is_none();
        let Some((launch, (expected, here))) = right else { continue };
        reached.iter_mut().zip(&here).for_each(|(all, here)| *all |= here);
        for (which, verdict) in verdicts.iter_mut().enumerate().filter(|(_, verdict)| verdict.is_none()) {
            // Whoever does not come there does what the right program does.
            if here[2 * which] && launch.execute(&wrong[which]).as_ref() != Some(&expected) {
                *verdict = Some(Verdict::Shown);
            }
        }
    }
    let open = |which: &usize| verdicts[*which].is_none();
    let is_reached = |which: usize| {
        // A guard that decides, a ring that begins again, or a loop that has a step to leave out.
        let is_inside = ["a ring begins again", "a loop of one side ends"];
        let is_inside =
            mistakes[which].is_guarded || is_inside.iter().any(|text| mistakes[which].text.starts_with(text));
        reached[2 * which + usize::from(is_inside)]
    };
    let is_of_order = |which: &usize| ORDERS.contains(&mistakes[*which].text.as_str()) && is_reached(*which);
    let orders: Vec<_> = (0..wrong.len()).filter(open).filter(is_of_order).map(|w| (w, &wrong[w])).collect();
    let by_order = if orders.is_empty() { BTreeMap::new() } else { keep_order(program, orders) };
    let of_rest = |(which, verdict): (usize, &Option<Verdict>)| {
        let mistake = mistakes[which];
        // The verifier looks for accesses on every path between one fence and the next product: without them none is needed.
        let is_equal = moves_over_registers(program, mistake)
            || exchanges_alike(program, mistake)
            || commits_without_copies(program, mistake)
            || fences_nothing(program, mistake)
            || mistake.text == "`wgmma fence` is left out";
        let rest = match is_reached(which) {
            _ if is_equal => Verdict::Equal,
            false => Verdict::Unreached,
            true => Verdict::Unnoticed,
        };
        verdict.or(by_order.get(&which).copied()).unwrap_or(rest)
    };
    verdicts.iter().enumerate().map(of_rest).collect()
}

/// Leaves a program and what a mistake makes of it in a folder.
fn write(folder: &Path, number: usize, right: &Program, mistake: &Mistake) {
    for (what, program) in [("right", right), ("wrong", &planted(right, mistake))] {
        let file = folder.join(format!("{number}.{what}.tile"));
        std::fs::write(&file, format!("// {mistake}\n{program}")).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    }
}

/// Mistakes that no launch showed once: in columns that a tile of a batch had none of, and in rows of a loop's last step, which sequences of 200 and 400
/// elements did not come to.
#[test]
fn mistakes_at_the_edges_of_tiles_are_noticed() {
    let loads = "`tensor load` is of the next row or column";
    let judged = [("gemm_batch_tf32", "", loads), ("packed", "f16_128_128", "a product reads 32 bytes further")];
    for (kernel, of, text) in judged {
        let all = programs_of(kernel);
        for program in all.iter().filter(|program| program.target == Target::Sm90a && program.name.contains(of)) {
            let mistakes = mistakes(program);
            let last: Vec<&Mistake> = mistakes.iter().rev().filter(|mistake| mistake.text == text).take(2).collect();
            for (mistake, verdict) in last.iter().zip(judge(program, &last)) {
                assert_ne!(verdict, Verdict::Unnoticed, "{}: {mistake}", program.name);
            }
        }
    }
}

#[test]
fn planted_mistakes_are_found() {
    let (count, seed) = (setting("PLANTED", 40), setting("PLANTED_SEED", 1));
    let programs = programs_of(&std::env::var("PLANTED_ONLY").unwrap_or_default());
    let families = std::env::var("PLANTED_FAMILIES").unwrap_or_default();
    let is_wanted =
        |family: Family| families.is_empty() || families.split(',').any(|name| name == format!("{family:?}"));
    let mut by_family: BTreeMap<Family, Vec<(usize, Mistake)>> = BTreeMap::new();
    for (which, program) in programs.iter().enumerate() {
        for mistake in mistakes(program).into_iter().filter(|mistake| is_wanted(mistake.family)) {
            by_family.entry(mistake.family).or_default().push((which, mistake));
        }
    }
    let total: usize = by_family.values().map(Vec::len).sum();
    let mut random = Random(seed as u64);
    let families: Vec<Family> = by_family.keys().copied().collect();
    // Mistakes are grouped by the program that they are planted in, so that the right program is executed once a launch for all of them.
    let mut drawn: BTreeMap<usize, Vec<&Mistake>> = BTreeMap::new();
    for family in families.iter().cycle().take(count) {
        let all = &by_family[family];
        let (program, mistake) = &all[random.below(all.len())];
        drawn.entry(*program).or_default().push(mistake);
    }
    let judge_only = std::env::var("PLANTED_JUDGE").unwrap_or_default();
    let is_judged = |program: &Program| judge_only.split(',').any(|name| program.name.contains(name));
    let (part, parts) = (setting("PLANTED_PART", 0), setting("PLANTED_PARTS", 1).max(1));
    let drawn: Vec<(&Program, Vec<&Mistake>)> = drawn
        .into_iter()
        .map(|(program, mistakes)| (&programs[program], mistakes))
        .skip(part)
        .step_by(parts)
        .filter(|(program, _)| is_judged(program))
        .collect();
    let judged = drawn.par_iter().with_max_len(1).flat_map_iter(|(program, mistakes)| {
        let verdicts = judge(program, mistakes);
        mistakes.iter().zip(verdicts).map(|(mistake, verdict)| (*program, *mistake, verdict))
    });
    let judged: Vec<(&Program, &Mistake, Verdict)> = judged.collect();
    let mut counts: BTreeMap<(Family, Verdict), usize> = BTreeMap::new();
    let (mut left_to_execution, mut unnoticed) = (Vec::new(), Vec::new());
    for (program, mistake, verdict) in judged {
        *counts.entry((mistake.family, verdict)).or_default() += 1;
        let text = || format!("{} for {}: {mistake}", program.name, program.target);
        match verdict {
            Verdict::Shown if mistake.family.is_protocol() => left_to_execution.push(text()),
            Verdict::Unnoticed => {
                if let Some(folder) = std::env::var_os("PLANTED_WRITE") {
                    write(folder.as_ref(), unnoticed.len(), program, mistake);
                }
                unnoticed.push(text());
            }
            Verdict::Verified | Verdict::Shown | Verdict::Equal | Verdict::Unreached => {}
        }
    }
    println!("{total} mistakes in {} programs; {count} drawn with seed {seed}", programs.len());
    for ((family, verdict), count) in &counts {
        println!("{family:?}: {count} {verdict:?}");
    }
    println!("left to execution: {left_to_execution:#?}\nunnoticed: {unnoticed:#?}");
    let of_protocol = |is: fn(Verdict) -> bool| -> usize {
        counts
            .iter()
            .filter(|((family, verdict), _)| family.is_protocol() && is(*verdict))
            .map(|(_, count)| count)
            .sum()
    };
    let verified = of_protocol(|verdict| verdict == Verdict::Verified);
    let wrong = of_protocol(|verdict| verdict != Verdict::Equal);
    // A part of what is drawn may be a few that are left to execution.
    let is_all = judge_only.is_empty() && parts == 1;
    assert!(!is_all || 10 * verified >= 9 * wrong, "{verified} of {wrong} mistakes of the protocol");
    assert!(unnoticed.is_empty(), "{} of {count} go unnoticed", unnoticed.len());
}
