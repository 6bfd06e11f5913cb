//! Borrowed streams and the memory that is lent on them: how many calls of the driver a launch is, what is ordered, and what
//! a capture of other code is spared.

use super::{X, allocations, good_driver, lines, scale, scenario, special, sums, three, trace};
use cudarc::driver::{CudaContext, CudaGraph, CudaSlice, CudaStream, sys};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use tile_runtime::interop::{
    CudaLender, Placement, borrow_cudarc_stream, borrow_stream, from_cudarc, into_cudarc, lend, lend_cudarc,
    lend_cudarc_mut, lend_mut, own_cudarc,
};
use tile_runtime::prelude::*;
use tile_runtime::{Error, Problem, ShapeError};

/// A context whose slices have no events, and a stream of it.
pub fn untracked() -> (Arc<CudaContext>, Arc<CudaStream>) {
    let context = CudaContext::new(0).unwrap();
    // SAFETY: every slice of these tests is used on one stream, or on streams that follow each other.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    (context, stream)
}

pub fn begin(stream: &CudaStream) {
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED).unwrap();
}

pub fn end(stream: &Arc<CudaStream>) -> CudaGraph {
    stream.end_capture(sys::CUgraphInstantiate_flags(0)).unwrap().unwrap()
}

fn problem_of(error: &tile_runtime::LaunchError) -> &Error {
    match error.problem() {
        Problem::Driver(error) => error,
        other => panic!("{other:?}"),
    }
}

/// The scenario `name`, whose trace must be in order.
pub fn ordered(name: &str) -> Option<String> {
    let traced = good_driver()?.join(format!("{name}.trace"));
    std::fs::remove_file(&traced).ok();
    let log = scenario(name, &[("FAKE_TRACE", traced.to_str().unwrap())])?;
    let text = std::fs::read_to_string(traced).unwrap();
    trace::check_one_thread(&text).unwrap_or_else(|problem| panic!("{problem}\n{log}"));
    Some(log)
}

#[test]
fn a_launch_on_a_borrowed_stream_with_three_lent_tensors_is_one_call() {
    let Some(log) = ordered("lent::child_one_call") else { return };
    // Between the creations of two streams, which mark the place.
    let marks: Vec<usize> = log.match_indices("\nstream ").map(|(at, _)| at + 1).collect();
    for pair in marks[marks.len() - 4..].chunks(2) {
        let between: Vec<&str> = log[pair[0]..pair[1]].lines().skip(1).collect();
        assert_eq!(between.len(), 1, "{between:?}");
        assert!(between[0].starts_with("launch on "), "{between:?}");
    }
    assert_eq!(lines(&log, "record").len() + lines(&log, "wait").len(), 0, "{log}");
}

#[test]
#[ignore = "run by a_launch_on_a_borrowed_stream_with_three_lent_tensors_is_one_call"]
fn child_one_call() {
    let device = Device::cuda(0).unwrap();
    let (context, cudarc) = untracked();
    let stream = borrow_cudarc_stream(&device, &cudarc).unwrap();
    let (a, b) = (cudarc.clone_htod(&X[..2]).unwrap(), cudarc.clone_htod(&X[..2]).unwrap());
    let mut y = cudarc.alloc_zeros::<f32>(2).unwrap();
    let (la, lb) = (lend_cudarc(&stream, &a, [2, 1]).unwrap(), lend_cudarc(&stream, &b, [2, 1]).unwrap());
    let mut ly = lend_cudarc_mut(&stream, &mut y, [2, 1]).unwrap();
    three::launch(&stream, &la, &lb, &mut ly).unwrap();
    let _mark = context.new_stream().unwrap();
    three::launch(&stream, &la, &lb, &mut ly).unwrap();
    let _mark = context.new_stream().unwrap();
    // A launch on tensors lent by their raw addresses, lending included, is one driver call too.
    let raw: *mut c_void = cudarc.cu_stream().cast();
    // SAFETY: a stream, which is kept.
    let stream = unsafe { borrow_stream(&device, raw, cudarc.clone()) }.unwrap();
    let (pa, pb, py) = [&*la, &*lb, &*ly].map(|t| tile_runtime::interop::address_of(t).0).into();
    let _mark = context.new_stream().unwrap();
    // SAFETY: memory of the slices, which live until the end.
    unsafe {
        let (a, b) = (lend::<f32, 2>(&stream, pa, [2, 1]).unwrap(), lend::<f32, 2>(&stream, pb, [2, 1]).unwrap());
        three::launch(&stream, &a, &b, &mut lend_mut::<f32, 2>(&stream, py, [2, 1]).unwrap()).unwrap();
    }
    let _mark = context.new_stream().unwrap();
}

#[test]
fn a_lender_s_launch_is_one_call_and_allocates_nothing() {
    let Some(log) = ordered("lent::child_lender") else { return };
    let marks: Vec<usize> = log.match_indices("\nstream ").map(|(at, _)| at + 1).collect();
    let between: Vec<&str> = log[marks[marks.len() - 2]..marks[marks.len() - 1]].lines().skip(1).collect();
    assert_eq!(between.len(), 2, "{between:?}");
    assert!(between.iter().all(|line| line.starts_with("launch on ")), "{between:?}");
}

#[test]
#[ignore = "run by a_lender_s_launch_is_one_call_and_allocates_nothing"]
fn child_lender() {
    let device = Device::cuda(0).unwrap();
    let (context, first) = untracked();
    let second = context.new_stream().unwrap();
    let lender = CudaLender::new(&device, &first).unwrap();
    let xs = [first.clone_htod(&X).unwrap(), first.clone_htod(&X.map(|x| -x)).unwrap()];
    let (mut y, mut wide) = (first.alloc_zeros::<f32>(6).unwrap(), first.alloc_zeros::<f32>(10).unwrap());
    let launch = |x: &CudaSlice<f32>, y: &mut CudaSlice<f32>, place: Placement<2>, alpha: f32| {
        let x = lender.lend::<f32, 2>(x, [2, 3]).unwrap();
        let mut y = lender.lend_mut::<f32, 2>(y, place).unwrap();
        scale::launch(lender.stream(), &x, &mut y, alpha).unwrap();
        lender.take_back(x);
        lender.take_back_mut(y);
    };
    launch(&xs[0], &mut y, [2, 3].into(), 1.0);
    // Other memory, and another layout, from what was given back.
    let gaps = Placement { offset: 1, ..Placement::strided([2, 3], [4, 1]) };
    let _mark = context.new_stream().unwrap();
    let before = allocations();
    launch(&xs[1], &mut wide, gaps, 3.0);
    launch(&xs[0], &mut y, [2, 3].into(), 2.0);
    assert_eq!(allocations() - before, 0);
    let _mark = context.new_stream().unwrap();
    assert_eq!(first.clone_dtoh(&y).unwrap(), X.map(|x| 2.0 * x));
    assert_eq!(first.clone_dtoh(&wide).unwrap(), [0.0, -3.0, -6.0, -9.0, 0.0, -12.0, -15.0, -18.0, 0.0, 0.0]);

    // What does not fit is refused as ever, and what is lent next is whole.
    assert!(matches!(lender.lend::<f32, 2>(&xs[0], [2, 4]), Err(Error::Shape(_))));
    let elsewhere = second.clone_htod(&X).unwrap();
    assert!(matches!(lender.lend::<f32, 2>(&elsewhere, [2, 3]), Err(Error::ForeignStream { .. })));
    launch(&xs[1], &mut y, [2, 3].into(), 1.0);
    assert_eq!(first.clone_dtoh(&y).unwrap(), X.map(|x| -x));
    // What another lender lent is not taken for this one's.
    let other = CudaLender::new(&device, &second).unwrap();
    other.take_back(lender.lend::<f32, 2>(&xs[0], [2, 3]).unwrap());
    other.take_back_mut(lender.lend_mut::<f32, 2>(&mut y, [2, 3]).unwrap());
    let mut there = second.alloc_zeros::<f32>(6).unwrap();
    let x = other.lend::<f32, 2>(&elsewhere, [2, 3]).unwrap();
    scale::launch(other.stream(), &x, &mut other.lend_mut::<f32, 2>(&mut there, [2, 3]).unwrap(), 4.0).unwrap();
    assert_eq!(second.clone_dtoh(&there).unwrap(), X.map(|x| 4.0 * x));
    // A view that was lent keeps what it needs, whatever becomes of the lender.
    let held = lender.lend::<f32, 2>(&xs[0], [2, 3]).unwrap();
    drop(lender);
    assert_eq!(held.to_vec().unwrap(), X);
}

#[test]
fn cudarc_s_other_streams_follow_what_is_lent() {
    let Some(log) = ordered("lent::child_tracked") else { return };
    assert!(lines(&log, "wait").len() > 10, "{log}");
}

/// Slices and views with events, on their own stream and on another, dropped, forgotten and unwound; used by cudarc
/// elsewhere afterwards, and freed.
#[test]
#[ignore = "run by cudarc_s_other_streams_follow_what_is_lent"]
fn child_tracked() {
    let device = Device::cuda(0).unwrap();
    let context = CudaContext::new(0).unwrap();
    let (first, second) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    for (round, lender) in [&first, &second, &first, &second].into_iter().enumerate() {
        let stream = borrow_cudarc_stream(&device, lender).unwrap();
        let x = first.clone_htod(&X).unwrap();
        let mut wide = second.alloc_zeros::<f32>(10).unwrap();
        {
            let x = lend_cudarc(&stream, &x, [2, 3]).unwrap();
            let mut part = wide.slice_mut(1..9);
            // Rows of three with a gap.
            let mut y = lend_cudarc_mut(&stream, &mut part, Placement::strided([2, 3], [4, 1])).unwrap();
            match round {
                0 => scale::launch(&stream, &x, &mut y, 2.0).unwrap(),
                1 => {
                    scale::launch(&stream, &x, &mut y, 2.0).unwrap();
                    std::mem::forget((x, y));
                }
                _ => {
                    let unwound = catch_unwind(AssertUnwindSafe(move || {
                        scale::launch(&stream, &x, &mut y, 2.0).unwrap();
                        std::panic::resume_unwind(Box::new(()));
                    }));
                    assert!(unwound.is_err());
                }
            }
        }
        // The stream that did not launch reads what was written, and writes what was read.
        let other = if Arc::ptr_eq(lender, &first) { &second } else { &first };
        let read = other.clone_dtoh(&wide.slice(1..9)).unwrap();
        assert_eq!(read, [2.0, 4.0, 6.0, 0.0, 8.0, 10.0, 12.0, 0.0]);
        let mut x = x;
        other.memset_zeros(&mut x).unwrap();
    }
}

#[test]
fn tensors_of_the_device_are_ordered_with_a_borrowed_stream() {
    let Some(log) = ordered("lent::child_guests") else { return };
    assert!(lines(&log, "launch").len() >= 6, "{log}");
}

#[test]
#[ignore = "run by tensors_of_the_device_are_ordered_with_a_borrowed_stream"]
fn child_guests() {
    let device = Device::cuda(0).unwrap();
    let (_context, cudarc) = untracked();
    let own = device.stream().unwrap();
    let x = device.tensor(&X, [2, 3]).unwrap();
    let mut y = device.zeros::<f32, 2>([2, 3]).unwrap();
    let mut slice = cudarc.alloc_zeros::<f32>(6).unwrap();
    let mut other = device.zeros::<f32, 2>([2, 3]).unwrap();
    scale::launch(&own, &x, &mut other, 3.0).unwrap();
    {
        let stream = borrow_cudarc_stream(&device, &cudarc).unwrap();
        // Written by ours, then by the borrowed stream, then read by ours.
        scale::launch(&own, &x, &mut y, 1.0).unwrap();
        scale::launch(&stream, &x, &mut y, 2.0).unwrap();
        scale::launch(&own, &y, &mut other, 2.0).unwrap();
        // Lent memory beside the device's.
        let mut lent = lend_cudarc_mut(&stream, &mut slice, [2, 3]).unwrap();
        scale::launch(&stream, &other, &mut lent, 1.0).unwrap();
        assert_eq!(lent.to_vec().unwrap(), X.map(|v| 4.0 * v));
        y.copy_from(&lent).unwrap();
        lent.view_mut().copy_from(&x).unwrap();
        lent.view_mut().write(&X).unwrap();
        // A graph and a prepared launch of ours, on the borrowed stream.
        let graph = device.capture(|s| Ok(scale::launch(s, &x, &mut other, 5.0)?)).unwrap();
        graph.launch_on(&stream).unwrap();
        let prepared = scale::prepare(&device, &y, &mut other, 5.0).unwrap();
        prepared.launch_on(&stream).unwrap();
        // The stream ends before the memory.
    }
    drop(cudarc);
    assert_eq!(other.to_vec().unwrap(), X.map(|v| 20.0 * v));
    drop((x, y, other));
}

#[test]
fn a_stream_lives_as_long_as_what_is_lent_on_it() {
    let Some(log) = ordered("lent::child_drop_order") else { return };
    let launch = log.rfind("launch on").expect(&log);
    let destroyed = log.rfind("destroy stream").expect(&log);
    assert!(launch < destroyed, "{log}");
}

#[test]
#[ignore = "run by a_stream_lives_as_long_as_what_is_lent_on_it"]
fn child_drop_order() {
    let device = Device::cuda(0).unwrap();
    let (_context, cudarc) = untracked();
    let x = cudarc.clone_htod(&X).unwrap();
    let mut y = cudarc.alloc_zeros::<f32>(6).unwrap();
    let stream = borrow_cudarc_stream(&device, &cudarc).unwrap();
    let x = lend_cudarc(&stream, &x, [2, 3]).unwrap();
    let mut y = lend_cudarc_mut(&stream, &mut y, [2, 3]).unwrap();
    drop(cudarc);
    let again = stream.clone();
    drop(stream);
    scale::launch(&again, &x, &mut y, 2.0).unwrap();
    drop(again);
    assert_eq!(y.to_vec().unwrap(), X.map(|v| 2.0 * v));
}

#[test]
fn what_other_code_captures_is_not_spoilt() {
    let Some(log) = ordered("lent::child_capture") else { return };
    let start = log.rfind("begin ").expect(&log);
    let inside = &log[start..start + log[start..].find("end ").expect(&log)];
    assert_eq!(lines(inside, "launch on").len(), 3, "{inside}");
    for spoils in ["record", "wait", "synchronize"] {
        assert_eq!(lines(inside, spoils).len(), 0, "{spoils}: {inside}");
    }
    let captured = inside.lines().next().and_then(|line| line.split(' ').nth(1)).expect(inside);
    let on = format!(" on {captured}");
    let other = |line: &&str| line.contains(&on) && !line.starts_with("launch");
    assert_eq!(inside.lines().find(other), None, "{inside}");
    assert_eq!(lines(&log, "unload").len(), 1, "the variant that was not captured; the other stays loaded: {log}");
}

#[test]
#[ignore = "run by what_other_code_captures_is_not_spoilt"]
fn child_capture() {
    let device = Device::cuda(0).unwrap();
    let (_context, cudarc) = untracked();
    let stream = borrow_cudarc_stream(&device, &cudarc).unwrap();
    let ours = device.tensor(&X, [2, 3]).unwrap();
    let mut own_y = device.zeros::<f32, 2>([2, 3]).unwrap();
    let graph_of_ours = device.capture(|s| Ok(scale::launch(s, &ours, &mut own_y, 5.0)?)).unwrap();
    let event = device.stream().unwrap().record().unwrap();
    let x = cudarc.clone_htod(&X).unwrap();
    let mut y = cudarc.alloc_zeros::<f32>(6).unwrap();
    let (mut total, narrow) = (cudarc.alloc_zeros::<f32>(1).unwrap(), cudarc.clone_htod(&X[..2]).unwrap());
    let mut narrow_y = cudarc.alloc_zeros::<f32>(2).unwrap();
    // A workspace is allocated once, before the capture.
    {
        let x = lend_cudarc(&stream, &narrow, [2, 1]).unwrap();
        sums::launch(&stream, &x, lend_cudarc_mut(&stream, &mut total, [1]).unwrap().view_mut()).unwrap();
    }
    begin(&cudarc);
    {
        let x = lend_cudarc(&stream, &x, [2, 3]).unwrap();
        let mut y = lend_cudarc_mut(&stream, &mut y, [2, 3]).unwrap();
        scale::launch(&stream, &x, &mut y, 2.0).unwrap();
        let small = lend_cudarc(&stream, &narrow, [2, 1]).unwrap();
        special::launch(&stream, &small, lend_cudarc_mut(&stream, &mut narrow_y, [2, 1]).unwrap().view_mut()).unwrap();
        sums::launch(&stream, &small, lend_cudarc_mut(&stream, &mut total, [1]).unwrap().view_mut()).unwrap();
        // Not with other extents: that is another workspace.
        let one = lend_cudarc(&stream, &narrow, [1, 2]).unwrap();
        let mut all = lend_cudarc_mut(&stream, &mut total, [1]).unwrap();
        let error = sums::launch(&stream, &one, &mut all).unwrap_err();
        assert!(problem_of(&error).to_string().contains("launch it once with these extents"), "{error}");
        // What would join streams of ours to the capture, or be forgotten by the graph.
        let error = scale::launch(&stream, &ours, &mut y, 2.0).unwrap_err();
        assert!(matches!(problem_of(&error), Error::Capture { .. }), "{error}");
        for refused in [
            stream.synchronize(),
            stream.record().map(drop),
            stream.wait(&event),
            graph_of_ours.launch_on(&stream),
            y.to_vec().map(drop),
            y.view_mut().write(&X),
            y.view_mut().copy_from(&ours),
        ] {
            assert!(matches!(refused, Err(Error::Capture { .. })), "{refused:?}");
        }
    }
    // A slice borrowed on streams of ours would join them.
    assert!(matches!(from_cudarc(&device, &x, [6]).map(drop), Err(Error::ForeignStream { .. })));
    assert!(matches!(into_cudarc(device.zeros::<f32, 1>([4]).unwrap(), &cudarc), Err(Error::ForeignStream { .. })));
    let graph = end(&cudarc);
    // Others take the place of the variant that was captured.
    for k in [2, 3] {
        let a = device.zeros::<f32, 2>([2, k]).unwrap();
        special::launch(&device, &a, &mut device.zeros::<f32, 2>([2, k]).unwrap()).unwrap();
    }
    graph.launch().unwrap();
    drop(stream);
    graph.launch().unwrap();
    drop(graph);
}

#[test]
fn what_does_not_belong_to_the_stream_is_refused() {
    let Some(_) = ordered("lent::child_refused") else { return };
}

#[test]
#[ignore = "run by what_does_not_belong_to_the_stream_is_refused"]
fn child_refused() {
    let device = Device::cuda(0).unwrap();
    let (context, cudarc) = untracked();
    let stream = borrow_cudarc_stream(&device, &cudarc).unwrap();
    let foreign = |error: Error, words: &str| {
        assert!(matches!(&error, Error::ForeignStream { problem, .. } if problem.contains(words)), "{error}");
    };
    let x = cudarc.clone_htod(&X).unwrap();
    let mut y = cudarc.alloc_zeros::<f32>(6).unwrap();
    foreign(lend_cudarc(&device.stream().unwrap(), &x, [6]).map(drop).unwrap_err(), "the device's own");
    let other = context.new_stream().unwrap();
    let elsewhere = other.clone_htod(&X).unwrap();
    foreign(lend_cudarc(&stream, &elsewhere, [6]).map(drop).unwrap_err(), "no events of cudarc");
    let shape = lend_cudarc(&stream, &x, [7]).map(drop).unwrap_err();
    assert!(matches!(shape, Error::Shape(ShapeError::Outside { end: 7, len: 6, .. })), "{shape}");
    {
        let lent = lend_cudarc(&stream, &x, [2, 3]).unwrap();
        let mut out = lend_cudarc_mut(&stream, &mut y, [2, 3]).unwrap();
        // Used elsewhere.
        let error = scale::launch(&device, &lent, &mut out, 1.0).unwrap_err();
        assert!(problem_of(&error).to_string().contains("launch on that stream"), "{error}");
        let again = borrow_cudarc_stream(&device, &other).unwrap();
        assert!(scale::launch(&again, &lent, &mut out, 1.0).is_err());
        // Another borrow of the same stream is as good.
        scale::launch(&borrow_cudarc_stream(&device, &cudarc).unwrap(), &lent, &mut out, 1.0).unwrap();
        // Kept beyond the borrow.
        assert!(scale::prepare(&stream, &lent, &mut out, 1.0).is_err());
        assert!(device.capture(|s| Ok(scale::launch(s, &lent, &mut out, 1.0)?)).is_err());
    }
    // The per-thread default stream is this thread's.
    let default = context.per_thread_stream();
    let mine = borrow_cudarc_stream(&device, &default).unwrap();
    let slice = default.clone_htod(&X).unwrap();
    let lent = lend_cudarc(&mine, &slice, [2, 3]).unwrap();
    let mut out = default.alloc_zeros::<f32>(6).unwrap();
    let mut out = lend_cudarc_mut(&mine, &mut out, [2, 3]).unwrap();
    scale::launch(&mine, &lent, &mut out, 1.0).unwrap();
    thread::scope(|scope| {
        let there = scope.spawn(|| {
            let error = scale::launch(&mine, &lent, &mut out, 1.0).unwrap_err();
            assert!(problem_of(&error).to_string().contains("per-thread default stream"), "{error}");
            assert!(mine.synchronize().is_err() && lent.to_vec().is_err());
        });
        there.join().unwrap();
    });
    // A kept tensor is not handed over.
    let kept = device.tensor(&X, [2, 3]).unwrap();
    let prepared = scale::prepare(&device, &kept, &mut device.zeros::<f32, 2>([2, 3]).unwrap(), 1.0).unwrap();
    foreign(into_cudarc(kept, &cudarc).map(drop).unwrap_err(), "kept by a graph or a prepared launch");
    drop(prepared);
    assert!(borrow_cudarc_stream(&Device::simulator(), &cudarc).is_err());
}

#[test]
fn memory_changes_hands() {
    let Some(log) = ordered("lent::child_hands") else { return };
    assert_eq!(lines(&log, "free").len(), lines(&log, "alloc").len(), "each piece is freed once: {log}");
}

#[test]
#[ignore = "run by memory_changes_hands"]
fn child_hands() {
    let device = Device::cuda(0).unwrap();
    let context = CudaContext::new(0).unwrap();
    let (first, second) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let own = device.stream().unwrap();
    // From cudarc to us: used on two of our streams, then freed by cudarc.
    let x = own_cudarc(&device, first.clone_htod(&X).unwrap(), [2, 3]).unwrap();
    let mut y = device.zeros::<f32, 2>([2, 3]).unwrap();
    scale::launch(&own, &x, &mut y, 2.0).unwrap();
    scale::launch(&device, &x, &mut y, 3.0).unwrap();
    let graph = device.capture(|s| Ok(scale::launch(s, &x, &mut y, 4.0)?)).unwrap();
    drop(x);
    graph.launch().unwrap();
    drop(graph);
    // From us to cudarc: read on another stream of cudarc at once.
    scale::launch(&own, &own_cudarc(&device, first.clone_htod(&X).unwrap(), [2, 3]).unwrap(), &mut y, 5.0).unwrap();
    let slice = into_cudarc(y, &first).unwrap();
    assert_eq!(second.clone_dtoh(&slice).unwrap(), X.map(|v| 5.0 * v));
    assert!(matches!(own_cudarc(&device, slice, [7]), Err(Error::Shape(_))));
}
