//! The specialised GEMM by hand: right, it computes the product under every schedule, early and late; with one mistake,
//! that mistake is found and named.

use super::build::{bytes, tensor};
use super::gemm::{Config, Mistake};
use crate::ir::Dtype;
use crate::lowered::Program;
use crate::sim::checked::{CheckedOptions, CheckedReport, Copies, Schedule, run};
use crate::sim::{Argument, numeric};

/// Small integers, whose sums are exact.
fn element(i: usize) -> f32 {
    ((i * 7 + i / 13) % 5) as f32 - 2.0
}

fn matrix(rows: i64, columns: i64, f: impl Fn(usize) -> f32) -> Argument {
    let bits = |i: usize| (numeric::encode(Dtype::Bf16, f(i)) as u16).to_le_bytes();
    let all: Vec<u8> = (0..(rows * columns) as usize).flat_map(bits).collect();
    tensor(Dtype::Bf16, &[rows, columns], &all)
}

fn arguments([m, n, k]: [i64; 3]) -> Vec<Argument> {
    vec![matrix(m, k, element), matrix(n, k, |i| element(i + 3)), matrix(m, n, |_| f32::NAN)]
}

/// The product, rounded once, as bytes.
fn expected([m, n, k]: [i64; 3]) -> Vec<u8> {
    let mut all = Vec::new();
    for row in 0..m as usize {
        for column in 0..n as usize {
            let of = |kk: usize| element(row * k as usize + kk) * element(column * k as usize + kk + 3);
            let sum: f32 = (0..k as usize).map(of).sum();
            all.extend((numeric::encode(Dtype::Bf16, sum) as u16).to_le_bytes());
        }
    }
    all
}

/// One way of executing each kind, and some drawn from seeds.
fn executions(seeds: u64) -> Vec<CheckedOptions> {
    let base = CheckedOptions { clusters: 1, step_limit: 3_000_000, ..CheckedOptions::default() };
    let fixed = [Copies::Early, Copies::Late]
        .map(|copies| CheckedOptions { copies, schedule: Schedule::InOrder, ..base.clone() });
    let seeded = (0..seeds).map(|seed| {
        let copies = [Copies::Seeded, Copies::Late, Copies::Early][seed as usize % 3];
        CheckedOptions { seed, copies, ..base.clone() }
    });
    fixed.into_iter().chain(seeded).collect()
}

fn execute(program: &Program, shape: [i64; 3], options: &CheckedOptions) -> (CheckedReport, Vec<u8>) {
    let args = arguments(shape);
    let report = run(program, &args, options).expect("arguments fit");
    let result = bytes(&args[2]);
    (report, result)
}

fn is_right(config: Config, shape: [i64; 3], seeds: u64) {
    let (program, expected) = (config.build(), expected(shape));
    for options in executions(seeds) {
        let (report, result) = execute(&program, shape, &options);
        assert!(report.is_clean(), "{config:?} {options:?}\n{}", report.render(&program));
        let wrong = result.chunks(2).zip(expected.chunks(2)).position(|(a, b)| a != b);
        assert_eq!(wrong, None, "{config:?} {options:?}: element {wrong:?} of {shape:?}");
        assert!(report.counters.phases > 0 && report.counters.products > 0);
    }
}

#[test]
fn the_specialised_gemm_is_right_however_it_is_scheduled() {
    is_right(Config::SMALL, [130, 72, 200], 4);
    is_right(Config { pending: 0, stages: 3, ..Config::SMALL }, [64, 64, 64], 2);
}

#[test]
fn so_it_is_with_two_consumers_and_in_clusters() {
    is_right(Config { consumers: 2, ..Config::SMALL }, [128, 64, 192], 2);
    is_right(Config { cluster: 2, ..Config::SMALL }, [136, 64, 192], 4);
}

/// A mistake is reported with one of these texts under every schedule; else what was reported.
fn missed(config: Config, shape: [i64; 3], seeds: u64, text: &[&str]) -> Option<String> {
    let program = config.build();
    executions(seeds).into_iter().find_map(|options| {
        let (report, _) = execute(&program, shape, &options);
        let all = report.render(&program);
        let found = text.iter().any(|t| all.contains(t));
        let CheckedOptions { seed, schedule, copies, .. } = options;
        (!found).then(|| format!("{:?}, {schedule:?}, {copies:?}, seed {seed}:\n{all}", config.mistake))
    })
}

fn all_found(missed: Vec<Option<String>>) {
    let missed: Vec<String> = missed.into_iter().flatten().collect();
    assert!(missed.is_empty(), "{}", missed.join("\n\n"));
}

#[test]
fn every_mistake_in_the_protocol_is_found_and_named() {
    let small = |mistake| Config { mistake, ..Config::SMALL };
    let shape = [128, 64, 192];
    let mut results = Vec::new();
    for (mistake, text) in [
        (Mistake::Bytes(64), &["lacks 0 of 1 arrivals and 64 bytes"][..]),
        (Mistake::Bytes(-8192), &["too few bytes were expected", "is read before it is complete", "bytes"]),
        (Mistake::FullParity, &["`a_s` is read before it is complete", "waits for parity 1 of `full[0]`"]),
        (Mistake::EmptyParity, &["waits for parity 0 of `empty[0]`, which has completed 0 phases and lacks 1 of 1"]),
        (Mistake::Arrivals(1), &["of `empty[0]`, which has completed 0 phases and lacks 1 of 2 arrivals"]),
        (Mistake::Arrivals(-1), &["a barrier of 0 arrivals"]),
        (Mistake::NoProxyFence, &["`c_s` is read by the copy engine or tensor cores with no proxy fence"]),
        (Mistake::NoEmptyWait, &["is overwritten while it is read", "is written twice at once", "`a_s`"]),
        (Mistake::NoWgmmaFence, &["a product takes the registers of `acc` with no fence before it"]),
        (Mistake::WaitCount, &["is overwritten while it is read"]),
        (Mistake::SwappedSlot, &["`a_s` is read before it is complete", "is read before it is written"]),
        (Mistake::NoLastWait, &["`acc` is read before its product has been waited for"]),
        (Mistake::NoBulkWait, &["`c_s` is overwritten while it is read"]),
        (Mistake::NoFenceInit, &["no fence made its initialisation visible"]),
        (Mistake::NamedCount, &["where 128 of 160 threads are"]),
    ] {
        if mistake == Mistake::Arrivals(-1) {
            // One arrival fewer than one is no barrier at all.
            let error = run(&small(mistake).build(), &arguments(shape), &CheckedOptions::default());
            assert!(error.is_err_and(|e| e.to_string().contains(text[0])));
            continue;
        }
        results.push(missed(small(mistake), shape, 2, text));
    }
    all_found(results);
}

#[test]
fn mistakes_that_need_two_consumers_or_a_cluster() {
    let two = |mistake| Config { consumers: 2, mistake, ..Config::SMALL };
    let cluster = |mistake| Config { cluster: 2, mistake, ..Config::SMALL };
    let early_release = ["more than the 1 arrivals", "is overwritten while it is read", "is read before it is complete", "of `full[0]`"];
    all_found(vec![
        missed(two(Mistake::Arrivals(-1)), [128, 64, 256], 1, &early_release),
        missed(two(Mistake::Registers), [128, 64, 64], 1, &["waits for 256 registers a thread"]),
        missed(cluster(Mistake::NoTailWait), [128, 64, 192], 1, &["a block may end before another block of its cluster"]),
    ]);
}
