//! [`gemv`](super::gemv) by the way that was measured to be the fastest.

use super::{Choice, Gemv, GemvElement, Problem, candidates};
use super::{bulk, kernel, lines, ring, rows, specialized, split};
use crate::ways::ways;
use tile_runtime::kernel::{Argument, Definition, LaunchOn, Place, Target, TensorInput, TensorOutput};
use tile_runtime::tuner::{Tensors, TuneOptions, TuneReport, Way, WaysOf, tune_ways};
use tile_runtime::{Device, Error, LaunchError};

/// How a product is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuned {
    /// The kernel and its instance.
    pub choice: Choice,
    /// Whether it may start before the previous kernel of the stream is done (dependent launch).
    pub early: bool,
}

impl Tuned {
    /// [`gemv`](super::gemv), launched so.
    ///
    /// # Errors
    /// As [`gemv`](super::gemv); the choice is none for these operands.
    #[track_caller]
    pub fn launch<T: GemvElement>(
        self,
        on: &impl LaunchOn,
        w: impl TensorInput<T, 2>,
        x: impl TensorInput<T, 1>,
        y: impl TensorOutput<T, 1>,
        scalars: Gemv,
    ) -> Result<(), LaunchError> {
        let place = Place::of(on);
        T::launch(&if self.early { place } else { place.in_order() }, self.choice, w, x, y, scalars)
    }
}

/// The fastest way to make a call of [`gemv`](super::gemv) on a device, measured once and remembered for operands of this kind, and the report
/// of how it was found: every kernel that the call may take, as plain and as dependent launches. What the call does by itself is one of
/// them, and another is taken only where it is faster by more than the noise. `y` is not written. On a simulator nothing is measured.
///
/// ```
/// use tile_kernels::gemv::{Gemv, tuned};
/// use tile_runtime::{Device, tuner::TuneOptions};
///
/// let device = Device::simulator();
/// let (w, x) = (device.tensor(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1.0f32, 1.0], [2])?);
/// let mut y = device.zeros::<f32, 1>([2])?;
/// let options = TuneOptions { quiet: true, ..TuneOptions::default() };
/// let (found, report) = tuned(&device, &w, &x, &mut y, Gemv::default(), &options)?;
/// found.launch(&device, &w, &x, &mut y, Gemv::default())?;
/// assert_eq!(y.to_vec()?, [3.0, 7.0]);
/// assert_eq!(report.chosen, 0);
/// # Ok::<(), tile_runtime::Error>(())
/// ```
///
/// # Errors
/// What [`gemv`](super::gemv) would fail with; no way works, or the device has failed.
pub fn tuned<T: GemvElement>(
    device: &Device,
    w: impl TensorInput<T, 2>,
    x: impl TensorInput<T, 1>,
    mut y: impl TensorOutput<T, 1>,
    scalars: Gemv,
    tuning: &TuneOptions,
) -> Result<(Tuned, TuneReport), Error> {
    let arguments = [w.argument(), x.argument(), y.argument()];
    let found = ways(&by_time(device, [arguments[0], arguments[1]]), device.dependent_launch(), |_, _| true);
    let way = |(choice, early): &(Choice, bool)| {
        let found = Tuned { choice: *choice, early: *early };
        let launch = move |place: &Place<'_>, tensors: &mut Tensors<'_>| {
            let missing =
                || Error::Tune { kernel: "gemv".into(), problem: "its operands are no matrix and vectors".into() };
            let (w, x) = (tensors.input::<T, 2>(0), tensors.input::<T, 1>(1));
            let (Some(w), Some(x), Some(y)) = (w, x, tensors.output::<T, 1>(2)) else { return Err(missing().into()) };
            found.launch(place, w, x, y, scalars)
        };
        Way { name: choice.to_string(), early: found.early, launch: Box::new(launch) }
    };
    let all: Vec<Way<'_>> = found.iter().map(way).collect();
    let decides = format!("alpha {}, beta {}", scalars.alpha == 1.0, scalars.beta == 0.0);
    let call = WaysOf {
        name: "gemv",
        kernels: &definitions(),
        args: &arguments,
        writes: &[false, false, true],
        options: &decides,
    };
    let (number, report) = tune_ways(device, &call, &all, tuning)?;
    let (choice, early) = found.get(number).copied().unwrap_or_default();
    Ok((Tuned { choice, early }, report))
}

/// What a call may take, with the us expected of each, the fastest first: that is what it takes by itself ([`Choice::of`]).
pub fn ranked<T: GemvElement>(
    on: &impl LaunchOn,
    w: impl TensorInput<T, 2>,
    x: impl TensorInput<T, 1>,
) -> Vec<(Choice, f64)> {
    by_time(on.device(), [w.argument(), x.argument()])
}

/// As [`ranked`], of `w` and `x`.
fn by_time(device: &Device, operands: [Argument<'_>; 2]) -> Vec<(Choice, f64)> {
    let [Argument::Tensor(w), Argument::Tensor(x)] = operands else { return vec![(Choice::default(), 0.0)] };
    let problem = Problem::of(&w, &x, device.supports(Target::Sm90a));
    let mut all: Vec<_> = candidates(problem).map(|candidate| (candidate.choice, candidate.us())).collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    if all.is_empty() {
        all.push((Choice::default(), 0.0));
    }
    all
}

/// What a call may launch.
fn definitions() -> [&'static Definition; 7] {
    [
        kernel::gemv::<f32>::definition(),
        specialized::gemv_specialized::<f32>::definition(),
        rows::gemv_rows::<f32>::definition(),
        lines::gemv_lines::<f32>::definition(),
        split::gemv_split::<f32>::definition(),
        bulk::gemv_bulk::<f32>::definition(),
        ring::gemv_ring::<f32>::definition(),
    ]
}
