//! Host programs that free or read memory in use if the runtime lets them: captures, writers through `&self`, and memory of
//! cudarc. Each is repeated often enough that a missing wait is seen.

use crate::{cudarc_context, gpu};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use tile_runtime::prelude::*;
use tile_runtime::{Error, Problem, interop};

const REPEATS: usize = 1000;

/// Writes one value everywhere; slow enough that a launch is still running when the next is queued.
#[tile_kernel]
pub fn flood(y: &mut Tensor<f32, (N,)>, value: f32) {
    let [b] = blocks([ceil_div(N, 256)]);
    let [t] = threads([256]);
    if b * 256 + t < N {
        y[b * 256 + t] = value;
    }
}

/// Counts the elements that differ from the first: none, unless somebody writes at the same time.
#[tile_kernel]
pub fn torn(y: &Tensor<f32, (N,)>, count: &mut Tensor<i32, (Fixed<1>,)>) {
    let [b] = blocks([ceil_div(N, 256)]);
    let [t] = threads([256]);
    if b * 256 + t < N {
        let differs = y[b * 256 + t] != y[0];
        if differs {
            atomic_add(&mut count[0], 1);
        }
    }
}

/// y = x + add.
#[tile_kernel]
pub fn shifted(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, add: f32) {
    let [b] = blocks([ceil_div(N, 256)]);
    let [t] = threads([256]);
    if b * 256 + t < N {
        y[b * 256 + t] = x[b * 256 + t] + add;
    }
}

#[test]
fn another_stream_cannot_join_a_capture() {
    let Some(device) = gpu() else { return };
    let n = 1 << 20;
    let other = device.stream().unwrap();
    for round in 0..100 {
        let x = device.tensor(&vec![round as f32; n], [n]).unwrap();
        let (mut y, mut z) = (device.zeros::<f32, 1>([n]).unwrap(), device.zeros::<f32, 1>([n]).unwrap());
        let before = other.record().unwrap();
        let graph = device
            .capture(|stream| {
                assert!(matches!(stream.record(), Err(Error::Capture { .. })));
                assert!(matches!(stream.wait(&before), Err(Error::Capture { .. })));
                assert!(matches!(stream.synchronize(), Err(Error::Capture { .. })));
                // What another stream does meanwhile is not captured.
                shifted::launch(&other, &x, &mut z, 1.0)?;
                Ok(shifted::launch(stream, &x, &mut y, 2.0)?)
            })
            .unwrap();
        drop(x);
        // Memory that the graph still has is not given out again.
        let mut poison = device.zeros::<f32, 1>([n]).unwrap();
        flood::launch(&other, &mut poison, -1.0).unwrap();
        graph.launch_on(&other).unwrap();
        graph.launch().unwrap();
        drop(graph);
        flood::launch(&device, &mut poison, -2.0).unwrap();
        assert_eq!(z.to_vec().unwrap(), vec![round as f32 + 1.0; n]);
        assert_eq!(y.to_vec().unwrap(), vec![round as f32 + 2.0; n]);
    }
}

/// To let go of a tensor that other code had is to wait for everything on the device, which the driver refuses during a capture. The memory is kept then.
#[test]
fn what_other_code_lets_go_meanwhile_does_not_end_a_capture() {
    let Some(device) = gpu() else { return };
    let x = device.tensor(&[1.0f32; 512], [512]).unwrap();
    let mut y = device.zeros::<f32, 1>([512]).unwrap();
    let theirs = interop::dlpack::export(device.zeros::<f32, 1>([512]).unwrap(), None, true).unwrap();
    let graph = device
        .capture(|stream| {
            drop(theirs);
            Ok(shifted::launch(stream, &x, &mut y, 2.0)?)
        })
        .unwrap();
    graph.launch().unwrap();
    assert_eq!(y.to_vec().unwrap(), [3.0; 512]);
}

#[test]
fn the_stream_of_a_finished_capture_takes_nothing() {
    let Some(device) = gpu() else { return };
    let x = device.tensor(&[1.0f32; 512], [512]).unwrap();
    let mut y = device.zeros::<f32, 1>([512]).unwrap();
    let mut leaked = None;
    let graph = device
        .capture(|stream| {
            leaked = Some(stream.clone());
            Ok(shifted::launch(stream, &x, &mut y, 2.0)?)
        })
        .unwrap();
    let leaked = leaked.unwrap();
    assert!(matches!(graph.launch_on(&leaked), Err(Error::Capture { .. })));
    assert!(matches!(leaked.record(), Err(Error::Capture { .. })));
    let error = shifted::launch(&leaked, &x, &mut y, 1.0).unwrap_err();
    assert!(matches!(error.problem(), Problem::StreamOver), "{error}");
    assert_eq!(y.to_vec().unwrap(), [0.0; 512]);
    graph.launch().unwrap();
    assert_eq!(y.to_vec().unwrap(), [3.0; 512]);
}

#[test]
fn a_graph_in_a_graph_keeps_what_it_launches() {
    let Some(device) = gpu() else { return };
    let n = 1 << 16;
    let x = device.tensor(&vec![1.0f32; n], [n]).unwrap();
    let mut y = device.zeros::<f32, 1>([n]).unwrap();
    let inner = device.capture(|stream| Ok(shifted::launch(stream, &x, &mut y, 2.0)?)).unwrap();
    let outer = match device.capture(|stream| inner.launch_on(stream)) {
        Ok(outer) => outer,
        Err(error) => {
            eprintln!("the driver does not capture a graph's launch: {error}");
            return;
        }
    };
    drop((inner, x));
    let mut poison: Vec<Tensor<f32, 1>> = (0..8).map(|_| device.zeros([n]).unwrap()).collect();
    poison.iter_mut().for_each(|p| flood::launch(&device, p, -1.0).unwrap());
    outer.launch().unwrap();
    assert_eq!(y.to_vec().unwrap(), vec![3.0; n]);
}

/// A prepared launch and a graph write the tensor, from one thread; readers on other streams see one value or the other.
#[test]
fn readers_beside_writers_through_a_shared_reference_see_whole_tensors() {
    let Some(device) = gpu() else { return };
    let n = 1 << 22;
    let mut y = device.zeros::<f32, 1>([n]).unwrap();
    let ones = flood::prepare(&device, &mut y, 1.0).unwrap();
    let twos = device.capture(|stream| Ok(flood::launch(stream, &mut y, 2.0)?)).unwrap();
    let (y, done) = (&y, &AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..2 {
            let stream = device.stream().unwrap();
            let device = &device;
            scope.spawn(move || {
                let mut count = device.zeros::<i32, 1>([1]).unwrap();
                let mut rounds = 0;
                while !done.load(Ordering::Relaxed) || rounds < REPEATS {
                    torn::launch(&stream, y, &mut count).unwrap();
                    rounds += 1;
                    if rounds % 50 == 0 {
                        assert_eq!(count.to_vec().unwrap(), [0], "after {rounds} readings");
                    }
                }
                assert_eq!(count.to_vec().unwrap(), [0], "after {rounds} readings");
            });
        }
        let other = device.stream().unwrap();
        for round in 0..REPEATS {
            match round % 3 {
                0 => ones.launch().unwrap(),
                1 => ones.launch_on(&other).unwrap(),
                _ => twos.launch_on(&other).unwrap(),
            }
        }
        device.synchronize().unwrap();
        done.store(true, Ordering::Relaxed);
    });
}

/// A slice of cudarc is written by a kernel of ours, and read by cudarc on a stream that is not the slice's; then read by
/// a kernel of ours, and written by cudarc.
#[test]
fn other_streams_of_cudarc_follow_our_kernels() {
    let Some(device) = gpu() else { return };
    let n = 1 << 20;
    let context = cudarc_context();
    let (first, second) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let own = device.stream().unwrap();
    let mut slice = first.alloc_zeros::<f32>(n).unwrap();
    let mut host = vec![0.0f32; n];
    let mut result = device.zeros::<f32, 1>([n]).unwrap();
    for round in 0..REPEATS {
        let value = round as f32;
        let mut borrowed = interop::from_cudarc_mut(&device, &mut slice, [n]).unwrap();
        for last in [-1.0, -2.0, value] {
            flood::launch(&own, &mut borrowed, last).unwrap();
        }
        match round % 2 {
            0 => drop(borrowed),
            _ => std::mem::forget(borrowed),
        }
        second.memcpy_dtoh(&slice, &mut host).unwrap();
        second.synchronize().unwrap();
        assert!(host.iter().all(|v| *v == value), "round {round}: cudarc read old data");
        let borrowed = interop::from_cudarc(&device, &slice, [n]).unwrap();
        for add in [5.0, 7.0, 9.0] {
            shifted::launch(&own, &borrowed, &mut result, add).unwrap();
        }
        std::mem::forget(borrowed);
        second.memset_zeros(&mut slice).unwrap();
        if round % 20 == 0 {
            assert!(
                result.to_vec().unwrap().iter().all(|v| *v == value + 9.0),
                "round {round}: cudarc wrote too early"
            );
        }
    }
}
