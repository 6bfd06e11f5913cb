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
use crate::lowered::Program;
use crate::sim::Argument;
use expect_test::Expect;

/// Schedules to try: fixed, and drawn from seeds.
fn schedules() -> Vec<CheckedOptions> {
    let fixed = CheckedOptions { schedule: Schedule::InOrder, ..CheckedOptions::default() };
    let seeded = (0..12).map(|seed| CheckedOptions { seed, ..CheckedOptions::default() });
    std::iter::once(fixed).chain(seeded).collect()
}

/// Runs under every schedule with fresh arguments.
fn every_run(program: &Program, args: &dyn Fn() -> Vec<Argument>) -> Vec<(CheckedReport, Vec<Argument>)> {
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

/// These codes are reported under every schedule, and no others; `expect` holds the text under the fixed one.
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
