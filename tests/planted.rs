//! Mistakes planted in lowered programs, drawn by a seed: those of the protocol (arrivals, bytes, parities, slots, fences, commits, waits, early
//! use) are found by `verify::program` alone; of coordinates and guards the checked simulator says so, or the result is another.
//!
//! `PLANTED` says how many are drawn, `PLANTED_SEED` from which seed, and `PLANTED_ONLY` from programs whose name contains what.

#[path = "nvrtc/kernels.rs"]
#[allow(dead_code)] // how they are compiled is for tests/nvrtc
mod kernels;
#[path = "nvrtc/products.rs"]
mod products;

use std::collections::BTreeMap;
use tile_ir::ir::{Instance, Kernel, Target};
use tile_ir::lower::lower;
use tile_ir::lowered::Program;
use tile_ir::sim::Argument;
use tile_ir::sim::checked::{CheckedOptions, Copies, Schedule, run};
use tile_ir::testing::plant::{Family, Mistake, marked, mistakes, planted};
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
}

/// Whole tiles; tiles that leave their tensors, at two lengths; tables of entries that do not exist; sequences of some length.
const CASES: [Case; 5] = [
    Case { steps: 256, ragged: false, contents: Contents::Random(7) },
    Case { steps: 256, ragged: true, contents: Contents::Random(8) },
    Case { steps: 1000, ragged: true, contents: Contents::Random(9) },
    Case { steps: 256, ragged: false, contents: Contents::Same(1_000_000) },
    Case { steps: 256, ragged: false, contents: Contents::Ascending(200) },
];

/// What an execution finds, and what tensors hold afterwards.
fn execute(program: &Program, case: &Case) -> Option<(Vec<String>, Vec<Vec<u8>>)> {
    let arguments = small_launch(program, case.steps, case.ragged, case.contents)?;
    let (schedule, copies) = (Schedule::InOrder, Copies::Late);
    let options = CheckedOptions { schedule, copies, clusters: 1, step_limit: 2_000_000, ..CheckedOptions::default() };
    let report = run(program, &arguments, &options).ok()?;
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

/// Whether executing the wrong program shows that it is wrong.
fn shows(right: &Program, wrong: &Program) -> bool {
    CASES.iter().any(|case| match (execute(right, case), execute(wrong, case)) {
        (Some(right), Some(wrong)) => right != wrong,
        (Some(_), None) => true,
        (None, _) => false,
    })
}

/// Whether any of the launches comes to where the mistake is.
fn reaches(program: &Program, mistake: &Mistake) -> bool {
    let marked = marked(program, mistake);
    CASES
        .iter()
        .any(|case| execute(&marked, case).is_some_and(|(found, _)| found.iter().any(|f| f.starts_with("TK0901"))))
}

/// Kernels that load rows by asynchronous copies, of which a thread reads what it has copied itself, and nothing else.
const OWN: &[&str] = &["cp_async_", "gemv_bulk_", "gemv_norm_stream_", "gemv_stream_"];

/// Programs that are right with the mistake in them, by the beginnings of their names and the mistake.
const EQUAL: [(&[&str], &str); 4] = [
    (OWN, "a copy is waited for after the barrier"),
    (OWN, "`barrier` is left out"),
    // What the last block reads, the thread that arrives has written.
    (&["reductions"], "`barrier` is left out"),
    // No shared array is accessed on both sides of the barrier.
    (&["statements_"], "`barrier` is left out"),
];

fn is_equal(program: &Program, mistake: &Mistake) -> bool {
    let begins = |name: &&str| program.name.starts_with(*name);
    EQUAL.iter().any(|(names, text)| names.iter().any(begins) && mistake.text == *text)
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
        } else if is_equal(program, mistake) {
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
