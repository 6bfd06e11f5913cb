//! The tuner on a GPU: planted candidates as real kernels, and the choice for the bundled GEMV against the exhaustive best.

use crate::{gpu, results_folder};
use std::time::Duration;
use tile_bench::problem::Problem;
use tile_kernel_examples::data::normal;
use tile_kernel_examples::suites::gemm as gemm_suite;
use tile_kernel_examples::suites::gemv::{Buffers, Dense};
use tile_kernel_examples::timing::time;
use tile_kernels::gemm;
use tile_kernels::gemv::kernel::{GemvParams, gemv as kernel};
use tile_kernels::gemv::{self, Gemv, definition};
use tile_runtime::prelude::*;
use tile_runtime::tuner::{Status, TuneOptions, TuneReport};

/// Row sums by a warp or two a row. Planted: `LOST` leaves out the last column, `SHORT` the last row, `SPIN` makes each
/// thread go round `spins` times first (seconds, but not for ever), `SLOW` a thousandth of that.
#[tile_kernel(
    instances((LOST, SHORT, SPIN, SLOW, WIDE) in [
        (0, 0, 0, 0, 32), (1, 0, 0, 0, 32), (0, 1, 0, 0, 32), (0, 0, 0, 1, 32), (0, 0, 0, 0, 64), (0, 0, 1, 0, 32),
    ])
)]
pub fn planted<const LOST: usize, const SHORT: usize, const SPIN: usize, const SLOW: usize, const WIDE: usize>(
    x: &Tensor<f32, (N, K)>,
    y: &mut Tensor<f32, (N,)>,
    spins: usize,
) {
    let [row] = blocks([N]);
    let [t] = threads([WIDE]);
    let mut delay = 1.0f32;
    for _ in 0..SPIN * spins + SLOW * (spins / 1000) {
        // A chain that no compiler may shorten: each step rounds.
        delay = delay * 0.999 + 0.5;
    }
    let mut sums = alloc_local::<f32>([1]);
    clear(&mut sums);
    for first in (0..K).step_by(WIDE) {
        if first + t + LOST < K {
            sums[0] += x[[row, first + t]];
        }
    }
    thread_allreduce(Sum, &mut sums, t);
    if t == 0 && row + SHORT < N {
        // Never true; the chain must have a use.
        if delay < 0.0 {
            sums[0] += delay;
        }
        y[row] = sums[0];
    }
}

fn statuses(report: &TuneReport) -> Vec<Status> {
    report.trials.iter().map(|t| t.status).collect()
}

#[test]
fn planted_candidates_are_survived() {
    let Some(device) = gpu() else { return };
    let (n, k) = (512, 1000);
    let x = device.tensor(&normal::<f32>(1, n * k), [n, k]).unwrap();
    let before = normal::<f32>(2, n);
    let mut y = device.tensor(&before, [n]).unwrap();
    // A second of the chain at 2 GHz, if a step takes 4 cycles; the patience is a quarter of one.
    let spins = 500_000_000;
    let options = TuneOptions {
        quiet: true,
        force: true,
        rounds: 5,
        patience: Duration::from_millis(250),
        ..TuneOptions::default()
    };
    let (chosen, report) = planted::tuned_with(&device, &options, &x, &mut y, spins).unwrap();
    println!("{report}");
    assert_eq!(y.to_vec().unwrap(), before, "tuning wrote the output");
    assert_eq!(report.trials[5].status, Status::Hung, "{report}");
    assert!(report.stopped.as_ref().is_some_and(|why| why.contains("SPIN = 1")), "{report}");
    // Candidates are met in random order, so the hung one may come before the wrong ones; never is one of those chosen.
    assert!(![1, 2, 5].contains(&chosen.index()), "{report}");

    // It does end; until then it would disturb what follows.
    device.synchronize().unwrap();

    // Once more: what hung is left out, so that everything else is tried.
    let again = TuneOptions { force: false, ..options };
    let (chosen, report) = planted::tuned_with(&device, &again, &x, &mut y, spins).unwrap();
    println!("{report}");
    assert_eq!(y.to_vec().unwrap(), before);
    assert_eq!(statuses(&report)[1..3], [Status::Wrong, Status::Wrong], "{report}");
    assert!(report.trials[1].detail.contains("against the reference"), "{report}");
    assert_eq!(report.trials[5].status, Status::Hung);
    assert!(report.trials[5].detail.starts_with("in an earlier tuning"), "{report}");
    assert!(report.stopped.is_none() && [0, 4].contains(&chosen.index()), "{report}");
    assert!(report.gate.contains("bit by bit"), "{}", report.gate);

    // And a third time nothing is run.
    let (remembered, report) = planted::tuned_with(&device, &again, &x, &mut y, spins).unwrap();
    assert!(report.remembered && remembered.index() == chosen.index(), "{report}");
    chosen.launch(&x, &mut y, 0).unwrap();
    assert_ne!(y.to_vec().unwrap(), before);
}

/// Seconds a call of every candidate of the bundled GEMV that was not refused, each the least of three measurements by
/// another harness than the tuner's.
fn exhaustive(device: &Device, report: &TuneReport, w: &[f16], x: &[f16], n: usize, k: usize) -> Vec<(usize, f64)> {
    let problem = Dense::with(w.to_vec(), x.to_vec(), n, k);
    let mut times: Vec<(usize, f64)> = Vec::new();
    for round in 0..3 {
        let candidates = report.trials.iter().filter(|t| t.status != Status::Refused);
        for (place, trial) in candidates.enumerate() {
            let [warps, rows, groups, unroll, stages, vec] =
                definition().kernel().unwrap().instances[trial.instance].consts[..]
            else {
                panic!("six constants")
            };
            let [warps, rows, groups, unroll, stages, vec] =
                [warps, rows, groups, unroll, stages, vec].map(|v| v as usize);
            let params =
                GemvParams { WARPS: warps, ROWS: rows, GROUPS: groups, UNROLL: unroll, STAGES: stages, VEC: vec };
            let instance = kernel::<f16>::instance(device, params).unwrap();
            let call = |on: &Stream, (w, x, y): &mut Buffers<f16>| Ok(instance.launch_on(on, &*w, &*x, y, 1.0, 0.0)?);
            let time = time(device, &problem, call).unwrap();
            match round {
                0 => times.push((trial.instance, time)),
                _ => times[place].1 = times[place].1.min(time),
            }
        }
    }
    times
}

#[test]
fn the_choice_is_within_three_percent_of_the_exhaustive_best() {
    let Some(device) = gpu() else { return };
    for (n, k) in [(4096, 4096), (7168, 16384)] {
        let (w_host, x_host) = (normal::<f16>(1, n * k), normal::<f16>(2, k));
        let (w, x) = (device.tensor(&w_host, [n, k]).unwrap(), device.tensor(&x_host, [k]).unwrap());
        let mut y = device.zeros::<f16, 1>([n]).unwrap();
        let options = TuneOptions { quiet: true, force: true, ..TuneOptions::default() };
        let mut reports = Vec::new();
        for _ in 0..10 {
            reports.push(kernel::<f16>::tuned_with(&device, &options, &w, &x, &mut y, 1.0, 0.0).unwrap().1);
        }
        println!("{}", reports[0]);
        let times = exhaustive(&device, &reports[0], &w_host, &x_host, n, k);
        let best = times.iter().map(|(_, t)| *t).fold(f64::MAX, f64::min);
        let mut worst = 1.0f64;
        for report in &reports {
            let (_, time) = times.iter().find(|(i, _)| *i == report.chosen).unwrap();
            println!(
                "{n}x{k}: chose {} in {:.1} s, noise {:.2}%: {:.2} us, {:.3} of the best",
                report.choice().unwrap().parameters,
                report.seconds,
                report.noise * 100.0,
                time * 1e6,
                time / best
            );
            worst = worst.max(time / best);
        }
        if let Some(folder) = results_folder() {
            std::fs::write(folder.join(format!("tuner_{n}x{k}.txt")), format!("{worst:.4}\n{}", reports[0])).unwrap();
        }
        assert!(worst <= 1.03, "{n}x{k}: a choice took {worst:.3} of the best's time");
    }
}

/// A tuned call of the host functions takes no more than 1% longer than the plain one, by another harness than the tuner's, on shapes of a
/// seed; it is remembered, and the caller's output is not written.
#[test]
fn tuned_calls_are_no_slower_than_plain_ones() {
    let Some(device) = gpu() else { return };
    let options = TuneOptions { quiet: true, force: true, rounds: 9, ..TuneOptions::default() };
    for [m, n, k] in [[16, 4096, 4096], [64, 6144, 4096], [300, 1000, 2000], [768, 768, 768]] {
        let problem = gemm_suite::Dense::<bf16>::new([m, n, k], [false, true]);
        let (a, b, mut c) = problem.buffers(&device).unwrap();
        let before = c.to_vec().unwrap();
        let (found, report) = gemm::tuned(&device, &a, &b, &mut c, &problem.options(), &options).unwrap();
        println!("{report}");
        assert_eq!(c.to_vec().unwrap(), before, "tuning wrote the output");
        let again = TuneOptions { force: false, ..options.clone() };
        let (remembered, second) = gemm::tuned(&device, &a, &b, &mut c, &problem.options(), &again).unwrap();
        assert!(second.remembered && remembered == found, "{second}");
        found.launch(&device, &a, &b, &mut c, &problem.options()).unwrap();
        let error = problem.worst_error_after(&c.to_vec().unwrap(), |sum, _| sum);
        assert!(error <= 1.0, "{m}x{n}x{k}: {error} of the bound");
        let tuned = |on: &Stream, (a, b, c): &mut gemm_suite::Buffers<bf16>| {
            Ok(found.launch(on, &*a, &*b, c, &problem.options())?)
        };
        let plain = |on: &Stream, (a, b, c): &mut gemm_suite::Buffers<bf16>| {
            Ok(gemm::gemm(on, &*a, &*b, c, &problem.options())?)
        };
        let mut least = [f64::MAX; 2];
        for _ in 0..3 {
            least[0] = least[0].min(time(&device, &problem, tuned).unwrap());
            least[1] = least[1].min(time(&device, &problem, plain).unwrap());
        }
        println!("{m}x{n}x{k}: tuned {:.2} us, plain {:.2} us", least[0] * 1e6, least[1] * 1e6);
        assert!(least[0] <= 1.01 * least[1], "{m}x{n}x{k}: {least:?}");
    }
    let (n, k) = (1500, 9000);
    let (w, x) = (normal::<f16>(1, n * k), normal::<f16>(2, k));
    let (w, x) = (device.tensor(&w, [n, k]).unwrap(), device.tensor(&x, [k]).unwrap());
    let mut y = device.zeros::<f16, 1>([n]).unwrap();
    let (_, report) = gemv::tuned(&device, &w, &x, &mut y, Gemv::default(), &options).unwrap();
    println!("{report}");
    let [own, chosen] = [0, report.chosen].map(|number| report.median_of(number).unwrap());
    assert!(chosen <= own, "{report}");
}
