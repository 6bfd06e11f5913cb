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
    let fixed = [Copies::Early, Copies::Late].map(|copies| CheckedOptions {
        copies,
        schedule: Schedule::InOrder,
        ..base.clone()
    });
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
        (Mistake::NoProxyFence, &["`c_s` is read by TMA or tensor cores with no proxy fence"]),
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
    let early_release = [
        "more than the 1 arrivals",
        "is overwritten while it is read",
        "is read before it is complete",
        "of `full[0]`",
    ];
    all_found(vec![
        missed(two(Mistake::Arrivals(-1)), [128, 64, 256], 1, &early_release),
        missed(two(Mistake::Registers), [128, 64, 64], 1, &["waits for 256 registers a thread"]),
        missed(
            cluster(Mistake::NoTailWait),
            [128, 64, 192],
            1,
            &["a block may end before another block of its cluster"],
        ),
    ]);
}

#[test]
fn its_work_and_traffic_are_counted() {
    use crate::explain::{Machine, Shape, explain};
    let program = Config::SMALL.build();
    let [m, n, k] = [64 * 132, 64, 256];
    let values = [("A0", m), ("A1", k), ("B0", n), ("B1", k), ("C0", m), ("C1", n)].map(|(d, v)| (d, f64::from(v)));
    let shape = Shape::dense(&program, &values).expect("every dim has a value");
    let report = explain(&program, &shape, &Machine::H200, None).expect("it is launched");
    assert_eq!(report.grid, [132, 1, 1]);
    assert_eq!(report.roofline.flops, 2.0 * f64::from(m) * f64::from(n) * f64::from(k));
    assert_eq!(report.roofline.used_flops, Machine::H200.half_flops);
    let traffic = |name: &str| report.tensors.iter().find(|t| t.name == name).expect("a tensor");
    let bytes = |elements: i32| f64::from(2 * elements);
    assert_eq!(
        (traffic("a").reads, traffic("b").reads, traffic("c").writes),
        (bytes(m * k), bytes(n * k * 132), bytes(m * n))
    );
    // Of every k block a product reads 64 rows of a and of b, 128 bytes each.
    let of_a: f64 = report
        .accesses_to("a_s")
        .filter(|a| a.kind == crate::explain::AccessKind::Load)
        .map(|a| a.requests * f64::from(a.width))
        .sum();
    assert_eq!(of_a, bytes(m * k));
}

#[test]
fn its_text_names_every_part() {
    let text = Config { cluster: 2, ..Config::SMALL }.build().to_string();
    for part in [
        "clusters [2, 1, 1]",
        "registers 248 at launch, 40 a producer, 232 a consumer",
        "a_map: boxes [64, 64] of a, swizzle B128, promotion B128",
        "full: barrier[2] at byte",
        "if thread.warp == 0 && thread.elected {",
        "init empty[0] for 2 arrivals",
        "fence barrier init",
        "cluster barrier relaxed",
        "wait for empty[fill_slot] parity fill_parity",
        "arrive at full[fill_slot] and expect 16384 bytes",
        "= tensor load a_map[kb * 64, row] on full[fill_slot], evict Normal",
        "on full[fill_slot], to blocks 3",
        "acc[0; 32] = wgmma n64 bf16 descriptor(a_s, 0x4000004000010000)",
        "wgmma wait 1",
        "store matrices words[0; 4] to c_s[",
        "barrier 1 of 128 threads",
        "tensor store c_s[",
        "bulk wait read 0",
        "raise registers to 232",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}
