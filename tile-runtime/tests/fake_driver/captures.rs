//! What may and may not happen on a stream that is being captured, or was.

use super::{X, good_driver, lines, scale, scenario, special, trace};
use std::sync::Mutex;
use tile_runtime::prelude::*;
use tile_runtime::{Error, Problem};

fn is_refused(result: Result<impl Sized, Error>, words: &str) {
    match result {
        Err(Error::Capture { problem, .. }) => assert!(problem.contains(words), "{problem}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{words}: it was not refused"),
    }
}

#[test]
fn another_stream_cannot_join_a_capture() {
    let Some(log) = scenario("captures::child_join", &[]) else { return };
    let begin = log.find("begin").expect(&log);
    let inside = &log[begin..log.find("end ").expect(&log)];
    assert_eq!(lines(inside, "record").len() + lines(inside, "wait").len(), 0, "the driver is not asked: {log}");
}

#[test]
#[ignore = "run by another_stream_cannot_join_a_capture"]
fn child_join() {
    let device = Device::cuda(0).unwrap();
    let x = device.tensor(&X, [2, 3]).unwrap();
    let (mut y, mut z) = (device.zeros::<f32, 2>([2, 3]).unwrap(), device.zeros::<f32, 2>([2, 3]).unwrap());
    let other = device.stream().unwrap();
    let before = other.record().unwrap();
    let graph = device
        .capture(|stream| {
            is_refused(stream.record(), "recording an event on a stream that is being captured");
            is_refused(stream.wait(&before), "waiting for an event on a stream that is being captured");
            is_refused(stream.synchronize(), "waiting for what is launched on a stream that is being captured");
            // The capture is as good as before.
            scale::launch(stream, &x, &mut y, 2.0)?;
            Ok(())
        })
        .unwrap();
    scale::launch(&other, &x, &mut z, 2.0).unwrap();
    drop(x);
    graph.launch_on(&other).unwrap();
    drop((y, z));
    graph.launch().unwrap();
}

#[test]
fn the_stream_of_a_finished_capture_takes_nothing() {
    let Some(log) = scenario("captures::child_over", &[]) else { return };
    assert_eq!(lines(&log, "graph on 3").len(), 0, "{log}");
    assert_eq!(lines(&log, "launch on 3").len(), 1, "the one that was captured: {log}");
}

#[test]
#[ignore = "run by the_stream_of_a_finished_capture_takes_nothing"]
fn child_over() {
    let device = Device::cuda(0).unwrap();
    let x = device.tensor(&X, [2, 3]).unwrap();
    let mut y = device.zeros::<f32, 2>([2, 3]).unwrap();
    let mut leaked = None;
    let graph = device
        .capture(|stream| {
            leaked = Some(stream.clone());
            Ok(scale::launch(stream, &x, &mut y, 2.0)?)
        })
        .unwrap();
    let leaked = leaked.unwrap();
    let prepared = scale::prepare(&device, &x, &mut y, 3.0).unwrap();
    let over = "the capture that this stream belongs to is over";
    is_refused(graph.launch_on(&leaked), over);
    is_refused(leaked.record(), over);
    is_refused(leaked.wait(&device.stream().unwrap().record().unwrap()), over);
    is_refused(leaked.synchronize(), over);
    is_refused(tile_runtime::interop::raw_stream(&leaked), over);
    for error in [scale::launch(&leaked, &x, &mut y, 2.0).unwrap_err(), prepared.launch_on(&leaked).unwrap_err()] {
        assert!(matches!(error.problem(), Problem::StreamOver), "{error}");
    }
    graph.launch().unwrap();
    assert_eq!(y.to_vec().unwrap(), X.map(|x| 2.0 * x));
}

/// The simulators refuse what a GPU refuses, so that a program that runs on them runs there.
#[test]
fn simulated_captures_have_the_same_rules() {
    for device in [Device::simulator(), Device::checked_simulator()] {
        let x = device.tensor(&X, [2, 3]).unwrap();
        let (mut y, mut z) = (device.zeros::<f32, 2>([2, 3]).unwrap(), device.zeros::<f32, 2>([2, 3]).unwrap());
        let before = device.stream().unwrap().record().unwrap();
        let mut leaked = None;
        let inner = device
            .capture(|stream| {
                is_refused(stream.record(), "recording an event on a stream that is being captured");
                is_refused(stream.wait(&before), "waiting for an event on a stream that is being captured");
                is_refused(stream.synchronize(), "being captured");
                leaked = Some(stream.clone());
                Ok(scale::launch(stream, &x, &mut y, 2.0)?)
            })
            .unwrap();
        let outer = device
            .capture(|stream| {
                inner.launch_on(stream)?;
                Ok(scale::launch(stream, &y, &mut z, 2.0)?)
            })
            .unwrap();
        assert_eq!(y.to_vec().unwrap(), [0.0; 6], "a graph that is captured does not run");
        drop((inner, x));
        outer.launch().unwrap();
        assert_eq!(z.to_vec().unwrap(), X.map(|x| 4.0 * x));
        let leaked = leaked.unwrap();
        is_refused(leaked.record(), "is over");
        is_refused(outer.launch_on(&leaked), "is over");
        let error = scale::launch(&leaked, &y, &mut z, 2.0).unwrap_err();
        assert!(matches!(error.problem(), Problem::StreamOver), "{error}");
        // A panic inside ends the capture too.
        let kept = Mutex::new(None);
        let panicked = std::panic::catch_unwind(|| {
            device.capture(|stream| {
                *kept.lock().unwrap() = Some(stream.clone());
                panic!("on purpose")
            })
        });
        assert!(panicked.is_err());
        let kept = kept.into_inner().unwrap_or_else(|e| e.into_inner()).unwrap();
        is_refused(kept.record(), "is over");
    }
}

#[test]
fn a_graph_in_a_graph_keeps_what_it_launches() {
    let Some(driver) = good_driver() else { return };
    let traced = driver.join("nested.trace");
    let Some(_) = scenario("captures::child_nested", &[("FAKE_TRACE", traced.to_str().unwrap())]) else { return };
    let text = std::fs::read_to_string(traced).unwrap();
    let counts = trace::check(&text).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!((counts.captures, counts.graph_launches), (2, 3), "{text}");
    let order: Vec<&str> =
        text.lines().filter(|l| ["unload", "graph", "destroy"].iter().any(|w| l.starts_with(w))).collect();
    let first = order.iter().position(|line| line.starts_with("unload")).unwrap_or(order.len());
    let graphs = order[..first].iter().filter(|line| line.starts_with("graph")).count();
    assert_eq!(graphs, 3, "the kernel is unloaded after the last launch of the outer graph: {order:?}");
}

#[test]
#[ignore = "run by a_graph_in_a_graph_keeps_what_it_launches"]
fn child_nested() {
    let device = Device::cuda(0).unwrap();
    let tensors = |k: usize| (device.zeros::<f32, 2>([2, k]).unwrap(), device.zeros::<f32, 2>([2, k]).unwrap());
    let ((x1, mut y1), (x2, mut y2)) = (tensors(1), tensors(2));
    let inner = device.capture(|stream| Ok(special::launch(stream, &x1, &mut y1)?)).unwrap();
    let outer = device.capture(|stream| inner.launch_on(stream)).unwrap();
    drop((inner, x1, y1));
    // Takes the place of the variant that the graphs launch.
    special::launch(&device, &x2, &mut y2).unwrap();
    outer.launch().unwrap();
    outer.launch_on(&device.stream().unwrap()).unwrap();
    drop(outer);
}
