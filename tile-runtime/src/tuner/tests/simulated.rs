//! The device's side of the tuner on the simulator, with kernels that are wrong by construction: whatever does not need a
//! GPU's clock.

use super::super::report::{Status, TuneReport};
use super::super::ways::{self, Launch, Way, WaysOf, tune_ways};
use super::super::{TuneOptions, key, measured, space};
use crate::kernel::{Argument, Definition, InstanceTable, Loaded, ScalarInput, TensorInput, TensorOutput, prepare};
use crate::prelude::*;
use std::panic::Location;
use std::time::Instant;
use tile_macros::tile_kernel;

/// Row sums; an instance with `LOST` leaves out the last `LOST` columns, one with `SHORT` the last row.
#[tile_kernel(
    crate = crate,
    instances((LOST, SHORT, WIDE) in [(0, 0, 32), (1, 0, 32), (0, 1, 32), (0, 0, 64)]),
    require(K % 4 == 0)
)]
pub fn row_sums<const LOST: usize, const SHORT: usize, const WIDE: usize>(
    x: &Tensor<f32, (N, K)>,
    y: &mut Tensor<f32, (N,)>,
    beta: f32,
) {
    let [row] = blocks([N]);
    let [t] = threads([WIDE]);
    let mut sums = alloc_local::<f32>([1]);
    clear(&mut sums);
    for first in (0..K).step_by(WIDE) {
        if first + t + LOST < K {
            sums[0] += x[[row, first + t]];
        }
    }
    thread_allreduce(Sum, &mut sums, t);
    if t == 0 && row + SHORT < N {
        y[row] = sums[0] + beta * y[row];
    }
}

fn report(space: space::Space) -> TuneReport {
    let mut report = TuneReport::new("row_sums", String::new(), &Device::simulator());
    (report.trials, report.dims) = (space.trials, space.dims);
    report
}

/// Tunes on the simulator as if it were a GPU.
fn tune<const N: usize>(
    def: &'static Definition,
    table: &'static InstanceTable<N>,
    args: &[Argument<'_>],
) -> Result<TuneReport, Error> {
    let device = Device::simulator();
    let options = TuneOptions { rounds: 3, quiet: true, ..TuneOptions::default() };
    let load = |instance: usize, on: &Device| -> Result<Loaded, Error> { prepare(def, table, instance, on) };
    let space = space::candidates(def, &[], &device, args, 2)?;
    let mut report = report(space);
    let at = Location::caller();
    let call = super::super::Call { def, dtypes: &[], device: &device, options: &options, args, load: &load, at };
    measured(&call, 1 << 14, &mut report, Instant::now())?;
    Ok(report)
}

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 % 1009) as f32 - 504.0) / 300.0).collect()
}

#[test]
fn wrong_results_are_found_and_outputs_are_not_written() {
    let device = Device::simulator();
    let (n, k) = (300, 2052);
    // A view with a pitch, so that copies keep gaps and strides.
    let wide = device.tensor(&values(n * (k + 4)), [n, k + 4]).unwrap();
    let x = wide.slice([0..n, 0..k]).unwrap();
    let before = values(n);
    let mut y = device.tensor(&before, [n]).unwrap();
    for beta in [0.0f32, 0.5] {
        let mut out = &mut y;
        let args = [x.argument(), TensorOutput::<f32, 1>::argument(&mut out), beta.scalar()];
        let report = tune(row_sums::<0, 0, 32>::definition(), row_sums::<0, 0, 32>::launch_table(), &args).unwrap();
        let statuses: Vec<Status> = report.trials.iter().map(|t| t.status).collect();
        assert!(matches!(statuses[0], Status::Timed | Status::Slower), "{report}");
        assert_eq!(statuses[1..3], [Status::Wrong, Status::Wrong], "{report}");
        assert!(matches!(statuses[3], Status::Timed | Status::Slower), "{report}");
        assert!([0, 3].contains(&report.chosen), "{report}");
        assert!(report.gate.starts_with("the reference equals the simulator bit by bit"), "{}", report.gate);
        assert!(
            report.trials[2].detail.contains("element 299"),
            "the last row is missing: {}",
            report.trials[2].detail
        );
        assert_eq!(report.dims, [("N".to_string(), 300), ("K".to_string(), 2052)]);
        assert_eq!(y.to_vec().unwrap(), before, "the caller's output is as it was");
    }
}

#[test]
fn a_call_that_no_instance_takes_says_why() {
    let device = Device::simulator();
    let x = device.tensor(&values(6), [2, 3]).unwrap();
    let mut y = device.zeros::<f32, 1>([2]).unwrap();
    let def = row_sums::<0, 0, 32>::definition();
    let (x, mut out) = (&x, &mut y);
    let args = [x.argument(), TensorOutput::<f32, 1>::argument(&mut out), 0.0f32.scalar()];
    let space = space::candidates(def, &[], &device, &args, 2).unwrap();
    assert!(
        space.trials.iter().all(|t| t.status == Status::Refused && t.detail.contains("K % 4")),
        "{:?}",
        space.trials
    );
    assert!(space.refusal.unwrap().to_string().contains('3'));
}

/// A way by an instance of the kernel: `LOST` columns and `SHORT` rows are left out.
macro_rules! way {
    ($name:literal, $lost:literal, $short:literal) => {{
        let launch: Box<Launch<'_>> = Box::new(|place, tensors| {
            let (x, y) = (tensors.input::<f32, 2>(0), tensors.output::<f32, 1>(1));
            assert!(tensors.output::<f32, 1>(1).is_none() && tensors.output::<f32, 2>(0).is_none());
            assert!(tensors.input::<f32, 1>(1).is_none() && tensors.input::<f16, 2>(0).is_none());
            row_sums::<$lost, $short, 32>::launch(place, x.unwrap(), y.unwrap(), 0.0)
        });
        Way { name: $name.into(), early: false, launch }
    }};
}

#[test]
fn ways_are_compared_with_the_first() {
    let device = Device::simulator();
    let (n, k) = (40, 128);
    let x = device.tensor(&values(n * k), [n, k]).unwrap();
    let before = values(n);
    let mut y = device.tensor(&before, [n]).unwrap();
    let (x, mut out) = (&x, &mut y);
    let args = [x.argument(), TensorOutput::<f32, 1>::argument(&mut out)];
    let kernels = [row_sums::<0, 0, 32>::definition()];
    let of = |options| WaysOf { name: "sums", kernels: &kernels, args: &args, writes: &[false, true], options };
    let all = [way!("right", 0, 0), way!("lost", 1, 0), way!("short", 0, 1), way!("as right", 0, 0)];
    let options = TuneOptions { rounds: 3, quiet: true, ..TuneOptions::default() };
    let mut report = TuneReport { trials: ways::trials(&all), ..TuneReport::new("sums", String::new(), &device) };
    ways::measured(&device, &of(""), &all, &options, 1 << 14, &mut report, Instant::now()).unwrap();
    let statuses: Vec<Status> = report.trials.iter().map(|t| t.status).collect();
    assert_eq!(statuses[1..3], [Status::Wrong, Status::Wrong], "{report}");
    assert!(report.trials[2].detail.contains("element 39"), "{report}");
    assert!([0, 3].contains(&report.chosen) && report.trials[report.chosen].median.is_some(), "{report}");
    assert!(report.to_string().contains("right, plain launch"), "{report}");

    // A simulator has no clock: the call's own way is taken.
    assert_eq!(tune_ways(&device, &of(""), &all, &options).unwrap().0, 0);
    // Which arguments are written may be left out for those that come last.
    let reads = WaysOf { writes: &[], ..of("") };
    let nothing: Box<Launch<'_>> = Box::new(|_, tensors| {
        assert!(tensors.input::<f32, 2>(0).is_some() && tensors.input::<f32, 1>(1).is_some());
        assert!(tensors.output::<f32, 1>(1).is_none() && tensors.input::<f32, 1>(2).is_none());
        Ok(())
    });
    let reading = [Way { name: "reading".into(), early: false, launch: nothing }];
    let mut report = TuneReport { trials: ways::trials(&reading), ..TuneReport::new("sums", String::new(), &device) };
    ways::measured(&device, &reads, &reading, &options, 1 << 14, &mut report, Instant::now()).unwrap();
    let none = tune_ways(&device, &of(""), &[], &options).unwrap_err().to_string();
    assert!(none.contains("no way"), "{none}");
    assert_ne!(key::of_call(&of(""), &device).unwrap(), key::of_call(&of("beta"), &device).unwrap());
    assert_eq!(y.to_vec().unwrap(), before, "the caller's output is as it was");
}

/// What a call is refused for is said before anything is timed.
#[test]
fn a_call_that_is_refused_has_no_ways() {
    let device = Device::simulator();
    let x = device.tensor(&values(6), [2, 3]).unwrap();
    let mut y = device.zeros::<f32, 1>([2]).unwrap();
    let (x, mut out) = (&x, &mut y);
    let args = [x.argument(), TensorOutput::<f32, 1>::argument(&mut out)];
    let call = WaysOf { name: "sums", kernels: &[], args: &args, writes: &[false, true], options: "" };
    let error = tune_ways(&device, &call, &[way!("right", 0, 0)], &TuneOptions::default()).unwrap_err();
    assert!(matches!(&error, Error::Launch(_)) && error.to_string().contains("K % 4"), "{error}");
}
