//! The book's table is the committed summary's.

use tile_soak::progress::Progress;
use tile_soak::summary::{PAGE, Summary, classes};
use tile_soak::{parts, stamp};

#[test]
fn the_page_shows_the_committed_summary() {
    let root = stamp::root();
    let summary = Summary::load(&root).unwrap();
    let page = std::fs::read_to_string(root.join(PAGE)).unwrap();
    let made = summary.placed(&page, parts::all()).expect("the page has a place for the table");
    assert!(made == page, "{PAGE} and bench/soak.json differ: `cargo xtask soak --table` writes the page anew");
}

#[test]
fn the_page_shows_the_mutants_of_the_baseline() {
    let root = stamp::root();
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let baseline: Progress = serde_json::from_str(&read("bench/soak-baseline.json")).unwrap();
    assert!(
        read(PAGE).contains(&classes(&baseline)),
        "{PAGE} and bench/soak-baseline.json differ:\n{}",
        classes(&baseline)
    );
}

/// Cases that failed in a recorded run, by part, commit and number, and that were mended since: replayed from the file of their
/// failure, each ends as the page says below the table.
const MENDED: [(&str, &str, u64); 2] = [("mutants", "06f1a958c9", 796), ("mutants", "06f1a958c9", 2458)];

#[test]
fn no_recorded_run_has_failures_that_are_open() {
    for (name, run) in Summary::load(&stamp::root()).unwrap().parts {
        let is_mended = |case: u64| MENDED.contains(&(name.as_str(), run.stamp.commit.as_str(), case));
        let open: Vec<_> = run.failures.iter().filter(|failed| !is_mended(failed.case)).collect();
        assert!(open.is_empty() && run.failed == run.failures.len() as u64, "{name}: {open:?}");
        assert!(parts::named(&name).is_some(), "{name} is recorded and no part any more");
    }
}
