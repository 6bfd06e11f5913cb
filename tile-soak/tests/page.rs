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

#[test]
fn no_recorded_run_has_failures() {
    for (name, run) in Summary::load(&stamp::root()).unwrap().parts {
        assert!(run.failed == 0 && run.failures.is_empty(), "{name}: {:?}", run.failures);
        assert!(parts::named(&name).is_some(), "{name} is recorded and no part any more");
    }
}
