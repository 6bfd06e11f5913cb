//! A sample of every part, in `cargo test`: one after the other, each on all cores.

use tile_soak::{parts, runner, stamp};

#[test]
#[ignore = "started and killed by the part `cache-kills`"]
fn cache_child() {
    parts::cache::child();
}

#[test]
fn a_sample_of_every_part_passes() {
    let out = stamp::root().join("target/soak-sample");
    let failed: Vec<String> = parts::all()
        .iter()
        .filter_map(|part| match runner::sample(*part, part.sample(), &out) {
            Ok(run) => {
                println!("{}: {} cases, {:.1} s", part.name(), run.cases, run.seconds);
                None
            }
            Err(error) => Some(format!("{error:#}")),
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
