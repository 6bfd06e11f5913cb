//! [`gemm`](super::gemm) by the way that was measured to be the fastest.

use super::{Choice, Gemm, GemmElement, asked, exchange, kernel, launch, pack, partial, parts, ranked, split, tf32};
use crate::gemv;
use crate::ways::ways;
use tile_runtime::kernel::{Definition, LaunchOn, Place, TensorInput, TensorOutput};
use tile_runtime::tuner::{Tensors, TuneOptions, TuneReport, Way, WaysOf, tune_ways};
use tile_runtime::{Device, Element, Error, LaunchError, f16};

/// How a product is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuned {
    /// The instance.
    pub choice: Choice,
    /// Whether it may start before the previous kernel of the stream is done (dependent launch).
    pub early: bool,
}

impl Tuned {
    /// [`gemm`](super::gemm), launched so.
    ///
    /// # Errors
    /// As [`gemm`](super::gemm); the choice is none for these operands.
    #[track_caller]
    pub fn launch<T: GemmElement<C>, C: Element>(
        self,
        on: &impl LaunchOn,
        a: impl TensorInput<T, 2>,
        b: impl TensorInput<T, 2>,
        c: impl TensorOutput<C, 2>,
        options: &Gemm<'_, T>,
    ) -> Result<(), LaunchError> {
        let place = Place::of(on);
        let place = if self.early { place } else { place.in_order() };
        launch(&place, &Place::of(on), self.choice, a, b, c, options)
    }
}

/// The fastest way to make a call of [`gemm`](super::gemm) on a device, measured once and remembered for operands of this kind, and the report
/// of how it was found: instances, splits of K, copies of the operands first, as plain and as dependent launches. What the call does by
/// itself is one of them, and another is taken only where it is faster by more than the noise. `c` is not written. On a simulator nothing is
/// measured.
///
/// ```
/// use tile_kernels::gemm::{Gemm, tuned};
/// use tile_runtime::{Device, tuner::TuneOptions};
///
/// let device = Device::simulator();
/// let (a, b) = (device.tensor(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1.0f32, 0.0, 0.0, 2.0], [2, 2])?);
/// let mut c = device.zeros::<f32, 2>([2, 2])?;
/// let options = TuneOptions { quiet: true, ..TuneOptions::default() };
/// let (found, report) = tuned(&device, &a, &b, &mut c, &Gemm::default(), &options)?;
/// found.launch(&device, &a, &b, &mut c, &Gemm::default())?;
/// assert_eq!(c.to_vec()?, [1.0, 4.0, 3.0, 8.0]);
/// assert_eq!(report.chosen, 0);
/// # Ok::<(), tile_runtime::Error>(())
/// ```
///
/// # Errors
/// What [`gemm`](super::gemm) would fail with; no way works, or the device has failed.
pub fn tuned<T: GemmElement<C>, C: Element>(
    device: &Device,
    a: impl TensorInput<T, 2>,
    b: impl TensorInput<T, 2>,
    mut c: impl TensorOutput<C, 2>,
    options: &Gemm<'_, T>,
    tuning: &TuneOptions,
) -> Result<(Tuned, TuneReport), Error> {
    let arguments = [a.argument(), b.argument(), c.argument()];
    let problem = asked(device, arguments, options);
    let starts_early = |choice: &Choice, us| problem.is_none_or(|problem| problem.starts_early(choice, us));
    let found = ways(&ranked(device, arguments, options), device.dependent_launch(), starts_early);
    let way = |(choice, early): &(Choice, bool)| {
        let found = Tuned { choice: *choice, early: *early };
        let launch = move |place: &Place<'_>, tensors: &mut Tensors<'_>| {
            let missing = || Error::Tune { kernel: "gemm".into(), problem: "its operands are no matrices".into() };
            let (a, b) = (tensors.input::<T, 2>(0), tensors.input::<T, 2>(1));
            let (Some(a), Some(b), Some(c)) = (a, b, tensors.output::<C, 2>(2)) else { return Err(missing().into()) };
            found.launch(place, a, b, c, options)
        };
        Way { name: choice.to_string(), early: found.early, launch: Box::new(launch) }
    };
    let all: Vec<Way<'_>> = found.iter().map(way).collect();
    let Gemm { a_transposed, b_transposed, alpha, beta, bias, activation, precision } = options;
    let decides = format!(
        "a {a_transposed}, b {b_transposed}, alpha {}, beta {}, bias {}, {activation:?}, {precision:?}",
        *alpha == 1.0,
        *beta == 0.0,
        bias.is_some()
    );
    let call = WaysOf {
        name: "gemm",
        kernels: &definitions(),
        args: &arguments,
        writes: &[false, false, true],
        options: &decides,
    };
    let (number, report) = tune_ways(device, &call, &all, tuning)?;
    let (choice, early) = found.get(number).copied().unwrap_or_default();
    Ok((Tuned { choice, early }, report))
}

/// What a call may launch.
fn definitions() -> [&'static Definition; 17] {
    [
        kernel::gemm::<f16, f16>::definition(),
        split::gemm_cluster::<f16, f16>::definition(),
        split::gemm_slots::<f16, f16>::definition(),
        partial::gemm_partial::<f16>::definition(),
        partial::gemm_partial_copied::<f16>::definition(),
        partial::add_partial::<f16, f16, 4>::definition(),
        exchange::gemm_exchange::<f16, f16>::definition(),
        parts::gemm_parts::<f16, f16>::definition(),
        tf32::gemm_tf32::<128, 256, 4, 256, 1, 1, false, true, false>::definition(),
        tf32::gemm_any_tf32::<128, 128, 4, 256, false, false>::definition(),
        pack::pack_rows::<f16, 4>::definition(),
        pack::pack_transposed::<f16>::definition(),
        gemv::columns::gemv_columns::<f32>::definition(),
        gemv::kernel::gemv::<f32>::definition(),
        gemv::lines::gemv_lines::<f32>::definition(),
        gemv::rows::gemv_rows::<f32>::definition(),
        gemv::split::gemv_split::<f32>::definition(),
    ]
}
