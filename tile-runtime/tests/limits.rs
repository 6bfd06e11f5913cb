//! Extremes that a caller can ask for: each is a typed error, whatever it asks, and nothing panics or ends the process.

use std::thread;
use std::time::{Duration, Instant};
use tile_runtime::prelude::*;
use tile_runtime::{Cancel, Error, Problem, ShapeError};

/// Counts to `n * n` in every thread.
#[tile_kernel]
pub fn count(y: &mut Tensor<i32, (N,)>, n: usize) {
    let [b] = blocks([N]);
    let [t] = threads([32]);
    let mut sum = 0;
    for i in 0..n {
        for j in 0..n {
            if i + j + t == 5 {
                sum += 1;
            }
        }
    }
    if t == 0 {
        y[b] = sum;
    }
}

/// Many blocks that do nothing.
#[tile_kernel(partial(y))]
pub fn idle(y: &mut Tensor<i32, (N,)>, n: usize) {
    let [b] = blocks([n]);
    let [t] = threads([32]);
    if b == 7 && t == 0 && b < N {
        y[b] = 1;
    }
}

/// Adds through a workspace as large as the product of the extents.
#[tile_kernel(require(N <= 1000))]
pub fn roomy(
    x: &Tensor<f32, (M, K)>,
    v: &Tensor<f32, (N,)>,
    y: &mut Tensor<f32, (M,)>,
    ws: &mut Workspace<f32, (M, N)>,
) {
    let [b] = blocks([M]);
    let [t] = threads([32]);
    if t == 0 {
        *ws.masked_mut([b, 0]) = x.masked([b, 0]) + v.masked([0]);
        y[b] = ws.masked([b, 0]);
    }
}

/// Adds rows through a workspace, with a block for each column of `x` and no limit on its extent.
#[tile_kernel]
pub fn roomier(
    x: &Tensor<f32, (M, K)>,
    v: &Tensor<f32, (N, K)>,
    y: &mut Tensor<f32, (K,)>,
    ws: &mut Workspace<f32, (M, N)>,
) {
    let [b] = blocks([K]);
    let [t] = threads([32]);
    if t == 0 {
        *ws.masked_mut([0, b]) = x.masked([0, b]) + v.masked([0, b]);
        y[b] = ws.masked([0, b]);
    }
}

fn simulators() -> [Device; 2] {
    [Device::simulator(), Device::checked_simulator()]
}

#[test]
fn launches_that_take_too_many_steps_are_stopped() {
    for device in simulators() {
        let device = device.with_step_limit(20_000);
        let mut y = device.zeros::<i32, 1>([3]).unwrap();
        count::launch(&device, &mut y, 6).unwrap();
        assert_eq!(y.to_vec().unwrap(), [6; 3]);
        let stream = device.stream().unwrap();
        let prepared = count::prepare(&device, &mut y, 100_000).unwrap();
        let graph = device.capture(|stream| Ok(count::launch(stream, &mut y, 100_000)?)).unwrap();
        let started = Instant::now();
        for error in [
            count::launch(&device, &mut y, 100_000).unwrap_err(),
            count::launch(&stream, &mut y, 1_000_000_000).unwrap_err(),
            prepared.launch().unwrap_err(),
            match graph.launch().unwrap_err() {
                Error::Launch(error) => error,
                other => panic!("{other}"),
            },
        ] {
            assert!(matches!(error.problem(), Problem::StepLimit { steps: 20_000, .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("stopped after 20000 steps") && text.contains("TILE_STEP_LIMIT"), "{text}");
            assert!(
                text.contains("TK0404") && text.contains("--> tile-runtime/tests/limits.rs:1"),
                "the author's line: {text}"
            );
            assert!(!text.contains("Nothing was launched"), "{text}");
        }
        let mut nothing = device.zeros::<i32, 1>([1]).unwrap();
        let error = idle::launch(&device, &mut nothing, i32::MAX as usize).unwrap_err();
        assert!(matches!(error.problem(), Problem::StepLimit { steps: 20_000, .. }), "{error}");
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
        // Another handle of the simulator has the usual limit.
        count::launch(&Device::named(device.label()).unwrap(), &mut y, 100).unwrap();
    }
}

#[test]
fn another_thread_cancels_a_launch() {
    for device in simulators() {
        let cancel = Cancel::new();
        let device = device.with_cancel(&cancel).with_step_limit(u64::MAX);
        let mut y = device.zeros::<i32, 1>([4]).unwrap();
        count::launch(&device, &mut y, 6).unwrap();
        for endless in [0, 1] {
            let cancel = Cancel::new();
            let device = device.clone().with_cancel(&cancel);
            thread::scope(|scope| {
                let launch = scope.spawn(|| match endless {
                    0 => count::launch(&device, &mut y, 1_000_000_000),
                    _ => idle::launch(&device, &mut y, i32::MAX as usize),
                });
                thread::sleep(Duration::from_millis(30));
                let asked = Instant::now();
                cancel.cancel();
                let error = launch.join().unwrap().unwrap_err();
                assert!(matches!(error.problem(), Problem::Cancelled), "{error}");
                assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
            });
            // Later launches end at once, those of other handles go on.
            assert!(count::launch(&device, &mut y, 6).is_err());
        }
        count::launch(&device, &mut y, 6).unwrap();
        assert!(!cancel.is_cancelled());
    }
}

#[test]
fn more_memory_than_there_is_is_a_typed_error() {
    for device in simulators() {
        for n in [1usize << 46, 1 << 55, 1 << 60] {
            match device.zeros::<f32, 1>([n]).unwrap_err() {
                Error::OutOfMemory { device: name, requested, .. } => {
                    assert_eq!((name.as_str(), requested), (device.label(), 4 * n as u64));
                }
                other => panic!("{other}"),
            }
            // The address space is not used up by what was refused.
            device.zeros::<f32, 1>([4]).unwrap();
        }
        for shape in [[1usize << 62, 1], [usize::MAX, 2], [1 << 32, 1 << 32]] {
            let error = device.zeros::<f32, 2>(shape).unwrap_err();
            assert!(matches!(error, Error::Shape(ShapeError::Overflow { .. })), "{error}");
        }
        // What the host may or may not give ends in one of the two.
        for n in [1usize << 38, 1 << 42] {
            match device.zeros::<f32, 1>([n]) {
                Ok(tensor) => assert_eq!(tensor.len(), n),
                Err(error) => assert!(matches!(error, Error::OutOfMemory { .. }), "{error}"),
            }
        }
    }
}

#[test]
fn rows_and_views_beyond_everything_are_typed_errors() {
    let device = Device::simulator();
    let mut x = device.zeros::<f32, 2>([4, 8]).unwrap();
    let mut cube = device.zeros::<f32, 3>([2, 4, 8]).unwrap();
    for index in [4, 5, usize::MAX - 1, usize::MAX] {
        let is_range = |error: Error| {
            assert!(
                matches!(error, Error::Shape(ShapeError::Range { start, extent, .. }) if start == index && extent <= 4)
            );
        };
        is_range(x.row(index).unwrap_err());
        is_range(x.row_mut(index).map(drop).unwrap_err());
        is_range(cube.row(index).unwrap_err());
        is_range(cube.row_mut(index).map(drop).unwrap_err());
        assert!(matches!(x.rows(index..usize::MAX), Err(Error::Shape(ShapeError::Range { .. }))));
        assert!(x.view_mut().split_rows(index.max(5)).is_err());
    }
    assert!(x.slice([0..4, usize::MAX..usize::MAX]).is_err());
    // Tensors and views without elements, of any extent.
    let mut empty = device.zeros::<f32, 2>([usize::MAX, 0]).unwrap();
    let far = empty.rows(usize::MAX - 1..usize::MAX).unwrap();
    assert_eq!((far.shape(), far.to_vec().unwrap()), ([1, 0], vec![]));
    assert_eq!(empty.row(usize::MAX - 1).unwrap().shape(), [0]);
    let mut target = device.zeros::<f32, 2>([1, 0]).unwrap();
    target.copy_from(far).unwrap();
    let mut part = empty.rows_mut(usize::MAX - 1..usize::MAX).unwrap();
    part.write(&[]).unwrap();
    part.copy_from(&target).unwrap();
    let error = count::launch(&device, &mut device.zeros::<i32, 1>([0]).unwrap(), usize::MAX).unwrap_err();
    assert!(matches!(error.problem(), Problem::ScalarRange { .. }), "{error}");
}

#[test]
fn workspaces_are_made_after_the_arguments_are_checked() {
    for device in simulators() {
        let most = i32::MAX as usize;
        let tensor = |shape| device.zeros::<f32, 2>(shape).unwrap();
        let mut y = device.zeros::<f32, 1>([0]).unwrap();
        // Extents that a launch refuses, with a workspace that nothing could hold.
        let (x, v) = (tensor([1 << 40, 0]), tensor([1 << 40, 0]));
        let error = roomier::launch(&device, &x, &v, &mut y).unwrap_err();
        assert!(matches!(error.problem(), Problem::ExtentRange { .. }), "{error}");
        // Extents that it takes, whose product it does not.
        let (x, v) = (tensor([most, 0]), tensor([most, 0]));
        let error = roomier::launch(&device, &x, &v, &mut y).unwrap_err();
        let refused = matches!(
            error.problem(),
            Problem::Driver(Error::OutOfMemory { .. } | Error::Shape(ShapeError::Overflow { .. }))
        );
        assert!(refused, "{error}");
        assert!(roomier::prepare(&device, &x, &v, &mut y).is_err());
        assert!(roomier::class(&device, &x, &v, &mut y).is_err());
        // A broken `require` comes first.
        let x = tensor([1 << 20, 0]);
        let v = device.zeros::<f32, 1>([1 << 20]).unwrap();
        let mut y = device.zeros::<f32, 1>([1 << 20]).unwrap();
        let error = roomy::launch(&device, &x, &v, &mut y).unwrap_err();
        assert!(matches!(error.problem(), Problem::Require { .. }), "{error}");
        // And a right one is launched.
        let (x, v) = (device.tensor(&[1.0, 2.0], [2, 1]).unwrap(), device.tensor(&[0.5], [1]).unwrap());
        let mut y = device.zeros::<f32, 1>([2]).unwrap();
        roomy::launch(&device, &x, &v, &mut y).unwrap();
        assert_eq!(y.to_vec().unwrap(), [1.5, 2.5]);
    }
}
