//! Programs by hand: each finding, and its correct neighbour, which must report nothing.

mod accesses;
mod build;
mod dependent;
mod execution;
mod gemm;
mod hopper;
mod lowered;
mod races;
mod synchronisation;
mod tensor;
mod unwritten;

use super::{CheckedOptions, CheckedReport, Schedule, run};
use crate::lowered::{Program, Space};
use crate::sim::Argument;
use crate::testing::text::program_round_trip;
use expect_test::Expect;

/// Schedules to try: fixed, and drawn from seeds.
fn schedules() -> Vec<CheckedOptions> {
    let fixed = CheckedOptions { schedule: Schedule::InOrder, ..CheckedOptions::default() };
    let seeded = (0..12).map(|seed| CheckedOptions { seed, ..CheckedOptions::default() });
    std::iter::once(fixed).chain(seeded).collect()
}

/// Runs under every schedule with fresh arguments; and what is read of the program's text, which does the same.
fn every_run(program: &Program, args: &dyn Fn() -> Vec<Argument>) -> Vec<(CheckedReport, Vec<Argument>)> {
    let runs = every_run_of(program, args);
    let parsed = program_round_trip(program).unwrap_or_else(|difference| panic!("{difference}"));
    for ((ours, results), (theirs, others)) in runs.iter().zip(every_run_of(&parsed, args)) {
        assert_eq!(seen(program, ours), seen(&parsed, &theirs), "what is read of its text finds something else");
        let bytes = |all: &[Argument]| all.iter().map(build::bytes).collect::<Vec<_>>();
        assert_eq!(bytes(results), bytes(&others), "what is read of its text computes something else");
    }
    runs
}

/// A report without the program's ids.
fn seen(program: &Program, report: &CheckedReport) -> String {
    let CheckedReport { diagnostics, suppressed, prints, prints_dropped, counters, effects, seed, stopped } = report;
    let name = |space| match space {
        Space::Global(param) => param.to_string(),
        Space::Shared(shared) => program.shared[shared].name.clone(),
        Space::Local(local) => program.locals[local].name.clone(),
    };
    let effects: Vec<_> = effects.iter().map(|e| (name(e.space), e.kind, e.span, e.elements)).collect();
    format!("{diagnostics:#?} {suppressed} {prints:?} {prints_dropped} {counters:?} {effects:?} {seed} {stopped:?}")
}

fn every_run_of(program: &Program, args: &dyn Fn() -> Vec<Argument>) -> Vec<(CheckedReport, Vec<Argument>)> {
    let runs = schedules().into_iter().map(|options| {
        let args = args();
        let report = run(program, &args, &options).expect("arguments fit");
        (report, args)
    });
    runs.collect()
}

/// Nothing is reported, and the results do not depend on the schedule.
fn clean(program: &Program, args: &dyn Fn() -> Vec<Argument>) -> (CheckedReport, Vec<Argument>) {
    let mut runs = every_run(program, args);
    for (report, _) in &runs {
        assert!(report.is_clean(), "seed {}:\n{}", report.seed, report.render(program));
    }
    let results: Vec<Vec<Vec<u8>>> = runs.iter().map(|(_, args)| args.iter().map(build::bytes).collect()).collect();
    assert!(results.windows(2).all(|w| w[0] == w[1]), "the schedule changed a result");
    runs.swap_remove(0)
}

/// `codes` are reported under every schedule, and no others; `expect` holds the text under the fixed one.
fn finds(program: &Program, args: &dyn Fn() -> Vec<Argument>, codes: &[u16], expect: Expect) {
    let runs = every_run(program, args);
    for (report, _) in &runs {
        let mut found: Vec<u16> = report.diagnostics.iter().map(|d| d.code.0).collect();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, codes, "seed {}:\n{}", report.seed, report.render(program));
    }
    expect.assert_eq(&brief(program, &runs[0].0));
}

/// One line a diagnostic.
fn brief(program: &Program, report: &CheckedReport) -> String {
    let mut text = String::new();
    for d in &report.diagnostics {
        let line = program.spans[d.primary].line;
        text += &format!("{} line {line}: {} | {}", d.code, d.message, d.at);
        for note in &d.notes {
            text += &format!(" | {note}");
        }
        if let Some(help) = &d.help {
            text += &format!(" | help: {help}");
        }
        text += "\n";
    }
    text
}
