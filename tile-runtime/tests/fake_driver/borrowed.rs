//! Memory and streams of cudarc: what the driver is asked around a use of ours, so that cudarc's other streams see it.

use super::{X, good_driver, scale, scenario, trace};
use cudarc::driver::CudaContext;
use std::thread;
use tile_runtime::kernel::{InstanceTable, ScalarInput, TensorInput, launch};
use tile_runtime::prelude::*;
use tile_runtime::{Error, Problem, interop};

#[test]
fn streams_of_cudarc_follow_our_uses() {
    let Some(driver) = good_driver() else { return };
    let traced = driver.join("borrowed.trace");
    let Some(log) = scenario("borrowed::child_ordered", &[("FAKE_TRACE", traced.to_str().unwrap())]) else { return };
    let text = std::fs::read_to_string(traced).unwrap();
    let counts = trace::check(&text).unwrap_or_else(|problem| panic!("{problem}\n{log}"));
    assert!(counts.works > 20 && counts.waits > 20, "{counts:?}");
}

/// Each slice is written or read by a kernel of ours and then used by cudarc on a stream that is not the slice's own.
#[test]
#[ignore = "run by streams_of_cudarc_follow_our_uses"]
fn child_ordered() {
    let device = Device::cuda(0).unwrap();
    let context = CudaContext::new(0).unwrap();
    let (first, second) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let own = device.tensor(&X, [2, 3]).unwrap();
    let mut result = device.zeros::<f32, 2>([2, 3]).unwrap();
    for round in 0..4 {
        let mut slice = first.clone_htod(&X).unwrap();
        // Written by us, read by cudarc elsewhere.
        let mut borrowed = interop::from_cudarc_mut(&device, &mut slice, [2, 3]).unwrap();
        scale::launch(&device, &own, &mut borrowed, 2.0).unwrap();
        match round % 2 {
            0 => drop(borrowed),
            _ => std::mem::forget(borrowed),
        }
        assert_eq!(second.clone_dtoh(&slice).unwrap(), X.map(|x| 2.0 * x));
        // Read by us, on a stream of ours; written by cudarc elsewhere.
        let borrowed = interop::from_cudarc(&device, &slice, [2, 3]).unwrap();
        scale::launch(&device.stream().unwrap(), &borrowed, &mut result, 1.0).unwrap();
        // cudarc reads it on another stream at the same time: our use must not hide that one from the writer.
        let mut copy = second.clone_dtod(&slice).unwrap();
        scale::launch(&device, &borrowed, &mut result, 1.0).unwrap();
        std::mem::forget(borrowed);
        second.memcpy_htod(&[0.0f32; 6], &mut slice).unwrap();
        second.memset_zeros(&mut copy).unwrap();
        drop(slice);
    }
    assert_eq!(result.to_vec().unwrap(), X.map(|x| 2.0 * x));
}

#[test]
fn what_is_lent_to_be_read_is_not_written_and_other_streams_are_refused() {
    let Some(_) = scenario("borrowed::child_refused", &[]) else { return };
}

#[test]
#[ignore = "run by what_is_lent_to_be_read_is_not_written_and_other_streams_are_refused"]
fn child_refused() {
    let device = Device::cuda(0).unwrap();
    let context = CudaContext::new(0).unwrap();
    let x = device.tensor(&X, [2, 3]).unwrap();
    // Of the per-thread default stream, while no events order the context's streams.
    let per_thread = context.per_thread_stream();
    let mut slice = per_thread.clone_htod(&X).unwrap();
    let error = interop::from_cudarc(&device, &slice, [2, 3]).map(drop).unwrap_err();
    assert!(matches!(&error, Error::ForeignStream { problem, .. } if problem.contains("per-thread")), "{error}");
    assert!(matches!(interop::from_cudarc_mut(&device, &mut slice, [2, 3]), Err(Error::ForeignStream { .. })));
    // With them it is bound to this thread; another thread waits for each use itself.
    let _multiple = context.new_stream().unwrap();
    let mut y = device.zeros::<f32, 2>([2, 3]).unwrap();
    let borrowed = interop::from_cudarc(&device, &slice, [2, 3]).unwrap();
    scale::launch(&device, &borrowed, &mut y, 1.0).unwrap();
    thread::scope(|scope| scope.spawn(|| scale::launch(&device, &borrowed, &mut y, 1.0).unwrap()).join().unwrap());
    // Not to be written, though an argument does not tell.
    let (read, lent) = (&x, &borrowed);
    let mut args =
        [TensorInput::<f32, 2>::argument(&read), TensorInput::<f32, 2>::argument(&lent), ScalarInput::scalar(&1.0f32)];
    static TABLE: InstanceTable<1> = InstanceTable::new();
    let error = launch(scale::definition(), &TABLE, 0, &device, &mut args).unwrap_err();
    assert!(matches!(error.problem(), Problem::Kind { found, .. } if found.contains("borrowed to be read")), "{error}");
    assert!(error.to_string().contains("`y` must be a tensor that may be written"), "{error}");
    assert!(matches!(interop::from_cudarc(&device, &slice, [7]), Err(Error::Shape(_))));
    let simulated = interop::from_cudarc(&Device::simulator(), &slice, [6]).map(drop).unwrap_err();
    assert!(matches!(simulated, Error::DifferentDevices { .. }), "{simulated}");
}
