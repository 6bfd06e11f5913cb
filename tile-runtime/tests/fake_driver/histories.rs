//! Random histories of several threads over shared tensors, streams, prepared launches and graphs; what the driver was asked
//! is then read by [`trace`]: everything is ordered, and nothing is used after it was freed (R19).
//!
//! `TILE_SOAK=40 cargo test -p tile-runtime --test fake_driver histories` makes forty times as many; `HISTORY_FROM=N` begins
//! with others (the soak's part `histories` does).

use super::{X, good_driver, scale, scenario, special, trace};
use std::fs;
use std::sync::{Barrier, Mutex};
use tile_runtime::prelude::*;
use tile_runtime::{Error, Graph, PreparedLaunch, Problem, Tensor};

const THREADS: u64 = 4;
const STEPS: usize = 60;
/// Histories of one process.
const EACH: u64 = 6;

#[test]
fn any_history_of_several_threads_is_ordered() {
    let Some(driver) = good_driver() else { return };
    let times = std::env::var("TILE_SOAK").ok().and_then(|text| text.parse().ok()).unwrap_or(1u64);
    let from = std::env::var("HISTORY_FROM").ok().and_then(|text| text.parse().ok()).unwrap_or(0u64);
    let mut total = trace::Counts::default();
    for process in from..from + 2 * times {
        let file = driver.join(format!("history-{process}.trace"));
        let first = (process * EACH).to_string();
        // Half of them dawdle, so that threads are interrupted between any two calls.
        let delay = if process % 2 == 0 { "0" } else { "300" };
        let settings = [("FAKE_TRACE", file.to_str().unwrap()), ("FAKE_DELAY", delay), ("HISTORY", first.as_str())];
        let Some(_) = scenario("histories::child_histories", &settings) else { return };
        let counts = trace::check(&fs::read_to_string(&file).unwrap())
            .unwrap_or_else(|problem| panic!("histories from {first}, {}: {problem}", file.display()));
        fs::remove_file(&file).ok();
        assert_eq!(counts.allocations, counts.frees, "everything is freed in the end");
        total.works += counts.works;
        total.waits += counts.waits;
        total.captures += counts.captures;
        total.graph_launches += counts.graph_launches;
    }
    eprintln!("{} histories of {THREADS} threads: {total:?}", 2 * times * EACH);
    let enough = total.works > 1000 && total.waits > 200 && total.captures > 50 && total.graph_launches > 100;
    assert!(enough, "the histories do something: {total:?}");
}

type Matrix = Tensor<f32, 2>;

/// What all threads of a history have.
struct Shared {
    device: Device,
    streams: Vec<Stream>,
    /// Read by everybody, and written by the prepared launches and graphs.
    tensors: Vec<Matrix>,
    prepared: Vec<PreparedLaunch>,
    graphs: Vec<Graph>,
    /// A stream that some thread is capturing, or was.
    captured: Mutex<Option<Stream>>,
}

fn random(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as usize
}

#[test]
#[ignore = "run by any_history_of_several_threads_is_ordered"]
fn child_histories() {
    let first: u64 = std::env::var("HISTORY").unwrap().parse().unwrap();
    for history in first..first + EACH {
        let shared = shared();
        let start = Barrier::new(THREADS as usize);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (shared, start) = (&shared, &start);
                scope.spawn(move || {
                    let mut seed = history * 1000 + thread;
                    start.wait();
                    steps(shared, &mut seed);
                });
            }
        });
        drop(shared);
        Device::cuda(0).unwrap().synchronize().unwrap();
    }
}

fn shared() -> Shared {
    let device = Device::cuda(0).unwrap();
    let mut tensors: Vec<Matrix> = (0..3).map(|_| device.tensor(&X, [2, 3]).unwrap()).collect();
    let mut prepared = Vec::new();
    let mut graphs = Vec::new();
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        let mut target = std::mem::replace(&mut tensors[to], device.zeros([0, 3]).unwrap());
        prepared.push(scale::prepare(&device, &tensors[from], &mut target, 1.5).unwrap());
        let both = device.capture(|stream| {
            scale::launch(stream, &tensors[from], &mut target, 0.5)?;
            prepared[prepared.len() - 1].launch_on(stream)?;
            Ok(())
        });
        graphs.push(both.unwrap());
        tensors[to] = target;
    }
    let streams = (0..3).map(|_| device.stream().unwrap()).collect();
    Shared { device, streams, tensors, prepared, graphs, captured: Mutex::new(None) }
}

/// What one thread does.
fn steps(shared: &Shared, seed: &mut u64) {
    let Shared { device, streams, tensors, prepared, graphs, captured } = shared;
    let mut own = device.zeros::<f32, 2>([2, 3]).unwrap();
    let mut made: Option<Graph> = None;
    for _ in 0..STEPS {
        let stream = &streams[random(seed) % streams.len()];
        let (shared_tensor, launch) = (&tensors[random(seed) % 3], &prepared[random(seed) % 3]);
        let graph = &graphs[random(seed) % 3];
        match random(seed) % 14 {
            0 | 1 => launch.launch_on(stream).unwrap(),
            2 => launch.launch().unwrap(),
            3 => graph.launch_on(stream).unwrap(),
            4 | 5 => scale::launch(stream, shared_tensor, &mut own, 2.0).unwrap(),
            6 => drop(shared_tensor.to_vec().unwrap()),
            7 => own.copy_from(shared_tensor).unwrap(),
            8 => own = device.zeros([2, 3]).unwrap(),
            9 => {
                let (top, bottom) = own.view_mut().split_rows(1).unwrap();
                scale::launch(stream, shared_tensor.rows(0..1).unwrap(), top, 1.0).unwrap();
                scale::launch(&streams[0], shared_tensor.rows(1..2).unwrap(), bottom, 1.0).unwrap();
            }
            10 => {
                let new = device.capture(|stream| {
                    *captured.lock().unwrap() = Some(stream.clone());
                    scale::launch(stream, shared_tensor, &mut own, 3.0)?;
                    graph.launch_on(stream)?;
                    launch.launch_on(stream)?;
                    assert!(matches!(stream.record(), Err(Error::Capture { .. })));
                    Ok(())
                });
                made = Some(new.unwrap());
            }
            11 => {
                // A stream that another thread is capturing at this moment, or has captured.
                let found = captured.lock().unwrap().clone();
                if let Some(found) = found {
                    match launch.launch_on(&found) {
                        Ok(()) => {}
                        Err(error) => assert!(matches!(error.problem(), Problem::StreamOver), "{error}"),
                    }
                    match graph.launch_on(&found) {
                        Ok(()) => {}
                        Err(error) => assert!(matches!(error, Error::Capture { .. }), "{error}"),
                    }
                    assert!(found.wait(&stream.record().unwrap()).is_err());
                }
            }
            12 => match &made {
                Some(graph) => graph.launch_on(stream).unwrap(),
                None => stream.wait(&streams[0].record().unwrap()).unwrap(),
            },
            _ => {
                // Kernels compiled for an extent come and go.
                let k = 1 + random(seed) % 3;
                let (x, mut y) = (device.zeros::<f32, 2>([2, k]).unwrap(), device.zeros::<f32, 2>([2, k]).unwrap());
                special::launch(stream, &x, &mut y).unwrap();
                if random(seed).is_multiple_of(2) {
                    made = Some(device.capture(|stream| Ok(special::launch(stream, &x, &mut y)?)).unwrap());
                }
            }
        }
    }
}
