//! `tuned` on the simulators: nothing is timed, the first instance that may be launched is chosen, nothing is written.

use tile_kernel_examples::data::normal;
use tile_kernel_examples::gemv::{reference, worst_error};
use tile_kernels::gemm::{self, Gemm};
use tile_kernels::gemv::kernel::gemv as kernel;
use tile_kernels::gemv::specialized::gemv_specialized;
use tile_kernels::gemv::{self, Gemv, definition};
use tile_runtime::Error;
use tile_runtime::prelude::*;
use tile_runtime::tuner::{Status, TuneOptions, TuneReport};

/// A kernel without parameters of any kind is tuned like any other.
#[tile_kernel]
fn ones(y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    if b * 32 + t < N {
        y[b * 32 + t] = 1.0;
    }
}

fn quiet() -> TuneOptions {
    TuneOptions { quiet: true, ..TuneOptions::default() }
}

#[test]
fn the_first_instance_that_may_be_launched_is_chosen() {
    for device in [Device::simulator(), Device::checked_simulator()] {
        // K = 12: no row of f16 is a whole number of 16-byte loads, so only VEC = 1 may be launched.
        for (k, vec) in [(12, 1), (16, 8)] {
            let (w, x) = (normal::<f16>(1, 5 * k), normal::<f16>(2, k));
            let (w, x) = (device.tensor(&w, [5, k]).unwrap(), device.tensor(&x, [k]).unwrap());
            let before = normal::<f16>(3, 5);
            let mut y = device.tensor(&before, [5]).unwrap();
            let (chosen, report) = kernel::<f16>::tuned_with(&device, &quiet(), &w, &x, &mut y, 1.0, 0.0).unwrap();
            assert_eq!(y.to_vec().unwrap(), before, "tuning wrote the output");
            let instances = &definition().kernel().unwrap().instances;
            let choice = report.choice().unwrap();
            assert_eq!((chosen.index(), choice.instance), (report.chosen, report.chosen));
            assert_eq!(instances[report.chosen].dtypes, [f16::DTYPE]);
            let (_, value) = choice.consts.iter().find(|(name, _)| name == "VEC").unwrap();
            assert_eq!(*value, vec, "{report}");
            for trial in report.trials.iter().take_while(|t| t.instance < report.chosen) {
                assert!(trial.status == Status::Refused && trial.detail.contains("K % VEC"), "{trial:?}");
            }
            assert!(report.timing.contains("simulator"), "{}", report.timing);
            assert!(report.trials.iter().all(|t| t.times.is_empty()));
            assert_eq!(report.dims, [("N".to_string(), 5), ("K".to_string(), k as i64)]);
            chosen.launch(&w, &x, &mut y, 1.0, 0.0).unwrap();
            assert_ne!(y.to_vec().unwrap(), before);
        }
    }
}

/// On a simulator a tuned call is the call; its ways are told apart by their names, and every one of them gives the call's result.
#[test]
fn every_way_to_make_a_call_gives_its_result() {
    let device = Device::simulator();
    for k in [72, 1041] {
        let (n, w_host, x_host) = (37, normal::<f16>(1, 37 * k), normal::<f16>(2, k));
        let (w, x) = (device.tensor(&w_host, [n, k]).unwrap(), device.tensor(&x_host, [k]).unwrap());
        let mut y = device.zeros::<f16, 1>([n]).unwrap();
        let (found, report) = gemv::tuned(&device, &w, &x, &mut y, Gemv::default(), &quiet()).unwrap();
        assert_eq!(y.to_vec().unwrap(), vec![f16::ZERO; n], "tuning wrote the output");
        let problem = gemv::Problem::dense(n as i64, k as i64, f16::DTYPE);
        assert_eq!((report.chosen, found.choice), (0, gemv::Choice::of(problem)));
        assert_names_differ(&report);
        found.launch(&device, &w, &x, &mut y, Gemv::default()).unwrap();
        let error = worst_error(&y.to_vec().unwrap(), &reference(&w_host, &x_host, n, k), k);
        assert!(error <= 1.0, "{error} of the bound");
    }
    let (m, n, k) = (24, 72, 264);
    let (a_host, b_host) = (normal::<bf16>(1, m * k), normal::<bf16>(2, n * k));
    let (a, b) = (device.tensor(&a_host, [m, k]).unwrap(), device.tensor(&b_host, [n, k]).unwrap());
    let bias = device.tensor(&normal::<bf16>(3, n), [n]).unwrap();
    for bias in [None, Some(&bias)] {
        let options = Gemm { bias, beta: 0.5, ..Gemm::nt() };
        let before = normal::<bf16>(4, m * n);
        let [mut c, mut other] = [(); 2].map(|()| device.tensor(&before, [m, n]).unwrap());
        let (found, report) = gemm::tuned(&device, &a, &b, &mut c, &options, &quiet()).unwrap();
        assert_eq!(c.to_vec().unwrap(), before, "tuning wrote the output");
        assert_eq!(found.choice, gemm::candidates(&device, &a, &b, &mut c, &options)[0].0);
        assert_names_differ(&report);
        assert!(report.trials.len() > 4, "{report}");
        found.launch(&device, &a, &b, &mut c, &options).unwrap();
        gemm::gemm(&device, &a, &b, &mut other, &options).unwrap();
        assert_eq!(c.to_vec().unwrap(), other.to_vec().unwrap());
    }
}

fn assert_names_differ(report: &TuneReport) {
    let mut names: Vec<&str> = report.trials.iter().map(|trial| trial.parameters.as_str()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), report.trials.len(), "{report}");
}

/// What a host function would refuse, its tuning refuses with the same words.
#[test]
fn a_host_function_that_would_refuse_is_not_tuned() {
    let device = Device::simulator();
    let (w, x) = (device.zeros::<f32, 2>([4, 8]).unwrap(), device.zeros::<f32, 1>([9]).unwrap());
    let mut y = device.zeros::<f32, 1>([4]).unwrap();
    let tuning = gemv::tuned(&device, &w, &x, &mut y, Gemv::default(), &quiet()).map(|_| ()).unwrap_err();
    let call = gemv::gemv(&device, &w, &x, &mut y, Gemv::default()).unwrap_err();
    assert!(matches!(&tuning, Error::Launch(error) if error.code() == call.code()), "{tuning}");
    assert!(tuning.to_string().contains('9') && tuning.to_string().contains('8'), "{tuning}");
}

#[test]
fn a_call_that_may_not_be_launched_is_the_launchs_error() {
    let device = Device::simulator();
    let (w, x) = (device.zeros::<f32, 2>([4, 8]).unwrap(), device.zeros::<f32, 1>([9]).unwrap());
    let mut y = device.zeros::<f32, 1>([4]).unwrap();
    let tuning = kernel::<f32>::tuned(&device, &w, &x, &mut y, 1.0, 0.0).map(|_| ()).unwrap_err().to_string();
    let first = kernel::<f32, 1, 1, 4, 4, 1, 4>::launch(&device, &w, &x, &mut y, 1.0, 0.0).unwrap_err().to_string();
    let without_place = |text: &str| text.lines().filter(|l| !l.contains("tuned.rs")).collect::<Vec<_>>().join("\n");
    assert_eq!(without_place(&tuning), without_place(&first));
    assert!(tuning.contains("tuned.rs") && tuning.contains('9'), "{tuning}");
}

#[test]
fn a_kernel_of_one_instance_is_tuned() {
    let device = Device::simulator();
    let mut y = device.zeros::<f32, 1>([50]).unwrap();
    let (only, report) = ones::tuned_with(&device, &quiet(), &mut y).unwrap();
    assert_eq!((only.index(), report.trials.len()), (0, 1));
    only.launch(&mut y).unwrap();
    assert_eq!(y.to_vec().unwrap(), [1.0; 50]);
}

/// Of a kernel with `specialize(..)` the variant for the call's dims is tuned, and its instance launches any other.
#[test]
fn a_specialised_kernel_is_tuned_for_its_dims() {
    for device in [Device::simulator(), Device::checked_simulator()] {
        for (n, k) in [(5, 512), (3, 520)] {
            let (w_host, x_host) = (normal::<f16>(1, n * k), normal::<f16>(2, k));
            let (w, x) = (device.tensor(&w_host, [n, k]).unwrap(), device.tensor(&x_host, [k]).unwrap());
            let mut y = device.zeros::<f16, 1>([n]).unwrap();
            let (chosen, report) =
                gemv_specialized::<f16>::tuned_with(&device, &quiet(), &w, &x, &mut y, 1.0, 0.0).unwrap();
            assert_eq!(y.to_vec().unwrap(), vec![f16::ZERO; n], "tuning wrote the output");
            assert!(report.key.contains(&format!(": {k}\n")), "{}", report.key);
            assert_eq!(report.choice().unwrap().status, Status::Untried, "{report}");
            chosen.launch(&w, &x, &mut y, 1.0, 0.0).unwrap();
            let error = worst_error(&y.to_vec().unwrap(), &reference(&w_host, &x_host, n, k), k);
            assert!(error <= 1.0, "{error} of the bound");
        }
    }
}

/// Dims that the arguments disagree about are the launch's error.
#[test]
fn a_specialised_call_that_may_not_be_launched_is_the_launchs_error() {
    let device = Device::simulator();
    let (w, x) = (device.zeros::<f16, 2>([4, 512]).unwrap(), device.zeros::<f16, 1>([520]).unwrap());
    let mut y = device.zeros::<f16, 1>([4]).unwrap();
    let error =
        gemv_specialized::<f16>::tuned_with(&device, &quiet(), &w, &x, &mut y, 1.0, 0.0).map(|_| ()).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Launch(_)) && text.contains("512") && text.contains("520"), "{text}");
}
