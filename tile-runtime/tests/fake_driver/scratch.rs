//! Scratch memory of host functions: whose it is, how long it lives, and what a capture is refused.

use super::lent::{begin, end, ordered, untracked};
use super::{X, lines, scale};
use std::sync::Barrier;
use std::thread;
use tile_runtime::interop::{borrow_cudarc_stream, lend_cudarc, lend_cudarc_mut};
use tile_runtime::kernel::{Argument, LaunchOn, Scratch, TensorInput, TensorOutput};
use tile_runtime::prelude::*;
use tile_runtime::{Error, LaunchError};

static BETWEEN: Scratch = Scratch::new();

/// y = 6 x, by way of scratch memory of so many rows, whose address is returned.
fn two_steps(
    on: &impl LaunchOn,
    x: impl TensorInput<f32, 2>,
    y: impl TensorOutput<f32, 2>,
    rows: usize,
) -> Result<u64, LaunchError> {
    let mut between = BETWEEN.lend::<f32, 2>(on, [rows, 3])?;
    let part = between.view_mut().rows(0..2)?;
    scale::launch(on, x, part, 2.0)?;
    let part = between.view().rows(0..2)?;
    scale::launch(on, part, y, 3.0)?;
    match between.view().argument() {
        Argument::Tensor(tensor) => Ok(tensor.address()),
        _ => unreachable!(),
    }
}

#[test]
fn streams_have_scratch_memory_of_their_own_until_they_end() {
    let Some(log) = ordered("scratch::child_streams") else { return };
    assert_eq!(lines(&log, "alloc").len() - lines(&log, "free").len(), 1, "the default stream's is kept: {log}");
}

#[test]
#[ignore = "run by streams_have_scratch_memory_of_their_own_until_they_end"]
fn child_streams() {
    let device = Device::cuda(0).unwrap();
    let x = device.tensor(&X, [2, 3]).unwrap();
    let mut y = device.zeros::<f32, 2>([2, 3]).unwrap();
    let first = two_steps(&device, &x, &mut y, 2).unwrap();
    assert_eq!(y.to_vec().unwrap(), X.map(|v| 6.0 * v));
    assert_eq!(two_steps(&device, &x, &mut y, 2).unwrap(), first, "lent again");
    let wide = two_steps(&device, &x, &mut y, 4000).unwrap();
    assert_eq!(two_steps(&device, &x, &mut y, 2).unwrap(), wide, "the largest is kept");
    let stream = device.stream().unwrap();
    let other = two_steps(&stream, &x, &mut y, 2).unwrap();
    assert_ne!(other, wide);
    assert_eq!(two_steps(&stream.clone(), &x, &mut y, 2).unwrap(), other);
    assert_eq!(y.to_vec().unwrap(), X.map(|v| 6.0 * v));
    {
        // Who asks while it is lent gets other memory.
        let (one, two) = (BETWEEN.lend::<f32, 1>(&stream, [6]).unwrap(), BETWEEN.lend::<f32, 1>(&stream, [6]).unwrap());
        let address = |view: TensorView<'_, f32, 1>| match view.argument() {
            Argument::Tensor(tensor) => tensor.address(),
            _ => unreachable!(),
        };
        assert_ne!(address(one.view()), address(two.view()));
    }
    drop(stream);
    let again = device.stream().unwrap();
    two_steps(&again, &x, &mut y, 2).unwrap();
    assert_eq!(y.to_vec().unwrap(), X.map(|v| 6.0 * v));
    drop(again);
    assert!(matches!(BETWEEN.lend::<f32, 2>(&device, [usize::MAX, 2]), Err(Error::Shape(_))));
}

/// Threads that launch on one stream see their own values.
#[test]
fn threads_do_not_share_what_is_lent() {
    let Some(_) = super::scenario("scratch::child_threads", &[]) else { return };
}

#[test]
#[ignore = "run by threads_do_not_share_what_is_lent"]
fn child_threads() {
    let device = Device::cuda(0).unwrap();
    let barrier = Barrier::new(4);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (device, barrier) = (&device, &barrier);
            scope.spawn(move || {
                let values = X.map(|v| v + thread as f32);
                let x = device.tensor(&values, [2, 3]).unwrap();
                let mut y = device.zeros::<f32, 2>([2, 3]).unwrap();
                for _ in 0..20 {
                    barrier.wait();
                    two_steps(device, &x, &mut y, 2).unwrap();
                    assert_eq!(y.to_vec().unwrap(), values.map(|v| 6.0 * v));
                }
            });
        }
    });
}

#[test]
fn a_graph_keeps_its_scratch_memory() {
    let Some(log) = ordered("scratch::child_graph") else { return };
    assert_eq!(lines(&log, "graph on").len(), 3, "{log}");
}

#[test]
#[ignore = "run by a_graph_keeps_its_scratch_memory"]
fn child_graph() {
    let device = Device::cuda(0).unwrap();
    let x = device.tensor(&X, [2, 3]).unwrap();
    let mut y = device.zeros::<f32, 2>([2, 3]).unwrap();
    let direct = two_steps(&device, &x, &mut y, 2).unwrap();
    let (mut first, mut second) = (0, 0);
    let graph = device
        .capture(|stream| {
            first = two_steps(stream, &x, &mut y, 2)?;
            second = two_steps(stream, &x, &mut y, 2)?;
            Ok(())
        })
        .unwrap();
    assert_ne!(first, direct, "direct launches do not come between the two of a graph");
    assert_eq!(first, second);
    // (The fake driver computes while it captures.)
    for on in [device.stream().unwrap(), device.stream().unwrap()] {
        graph.launch_on(&on).unwrap();
        assert_eq!(y.to_vec().unwrap(), X.map(|v| 6.0 * v));
    }
    graph.launch().unwrap();
    drop((graph, x));
    assert_eq!(y.to_vec().unwrap(), X.map(|v| 6.0 * v));
}

#[test]
fn a_capture_of_other_code_has_what_was_there_before() {
    let Some(log) = ordered("scratch::child_foreign") else { return };
    let start = log.rfind("begin ").expect(&log);
    let inside = &log[start..start + log[start..].find("end ").expect(&log)];
    for spoils in ["alloc", "free", "record", "wait", "synchronize"] {
        assert_eq!(lines(inside, spoils).len(), 0, "{spoils}: {inside}");
    }
}

#[test]
#[ignore = "run by a_capture_of_other_code_has_what_was_there_before"]
fn child_foreign() {
    let device = Device::cuda(0).unwrap();
    let (_context, cudarc) = untracked();
    let stream = borrow_cudarc_stream(&device, &cudarc).unwrap();
    let x = cudarc.clone_htod(&X).unwrap();
    let mut y = cudarc.alloc_zeros::<f32>(6).unwrap();
    {
        let x = lend_cudarc(&stream, &x, [2, 3]).unwrap();
        let mut y = lend_cudarc_mut(&stream, &mut y, [2, 3]).unwrap();
        let small = two_steps(&stream, &x, y.view_mut(), 2).unwrap();
        assert_eq!(two_steps(&stream, &x, y.view_mut(), 2).unwrap(), small);
        two_steps(&stream, &x, y.view_mut(), 4000).unwrap();
        assert_eq!(y.to_vec().unwrap(), X.map(|v| 6.0 * v));
    }
    begin(&cudarc);
    {
        let x = lend_cudarc(&stream, &x, [2, 3]).unwrap();
        let mut y = lend_cudarc_mut(&stream, &mut y, [2, 3]).unwrap();
        two_steps(&stream, &x, y.view_mut(), 2).unwrap();
        two_steps(&stream, &x, y.view_mut(), 4000).unwrap();
        let error = two_steps(&stream, &x, y.view_mut(), 4001).unwrap_err();
        assert!(error.to_string().contains("launch it once with these extents"), "{error}");
    }
    let graph = end(&cudarc);
    graph.launch().unwrap();
    drop(stream);
    graph.launch().unwrap();
}
