//! Borrowed streams and lent memory: that launches are in the owner's order, whatever else runs. Outputs are poisoned before
//! each round, so that a launch that came too late, or never, is seen.

use crate::host::{flood, shifted};
use crate::{cudarc_context, gpu};
use cudarc::driver::{CudaContext, CudaStream, sys};
use std::sync::Arc;
use std::time::Instant;
use tile_runtime::interop::{borrow_cudarc_stream, into_cudarc, lend_cudarc, lend_cudarc_mut, own_cudarc};

const REPEATS: usize = 1000;
const N: usize = 1 << 20;

/// A context whose slices have no events.
fn untracked() -> Arc<CudaContext> {
    let context = CudaContext::new(0).unwrap();
    // SAFETY: every slice of these tests is used on its own stream, or on streams that are made to follow each other.
    unsafe { context.disable_event_tracking() };
    context
}

fn is_all(values: &[f32], value: f32, round: usize) {
    let wrong = values.iter().position(|v| *v != value);
    assert_eq!(wrong, None, "round {round}: {} instead of {value}", values[wrong.unwrap_or(0)]);
}

/// cudarc poisons the output and writes the input, a kernel of ours computes, cudarc reads: all on one stream, and nothing
/// waits but the stream.
#[test]
fn launches_are_in_the_owner_s_order() {
    let Some(device) = gpu() else { return };
    let context = untracked();
    let owner = context.new_stream().unwrap();
    let stream = borrow_cudarc_stream(&device, &owner).unwrap();
    let (mut x, mut y) = (owner.alloc_zeros::<f32>(N).unwrap(), owner.alloc_zeros::<f32>(N).unwrap());
    let mut host = vec![0.0f32; N];
    let poison = vec![-1.0f32; N];
    for round in 0..REPEATS {
        // ANCHOR: in_order
        owner.memcpy_htod(&poison, &mut y).unwrap();
        flood::launch(&stream, &mut lend_cudarc_mut(&stream, &mut x, [N]).unwrap(), round as f32).unwrap();
        let input = lend_cudarc(&stream, &x, [N]).unwrap();
        shifted::launch(&stream, &input, &mut lend_cudarc_mut(&stream, &mut y, [N]).unwrap(), 3.0).unwrap();
        owner.memcpy_dtoh(&y, &mut host).unwrap();
        // ANCHOR_END: in_order
        owner.synchronize().unwrap();
        is_all(&host, round as f32 + 3.0, round);
    }
}

/// Two streams of cudarc, each borrowed: one writes what the other reads, ordered by cudarc's own events.
#[test]
fn two_borrowed_streams_follow_each_other() {
    let Some(device) = gpu() else { return };
    let context = cudarc_context();
    let (first, second) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let (a, b) = (borrow_cudarc_stream(&device, &first).unwrap(), borrow_cudarc_stream(&device, &second).unwrap());
    let (mut x, mut y) = (first.alloc_zeros::<f32>(N).unwrap(), second.alloc_zeros::<f32>(N).unwrap());
    let mut host = vec![0.0f32; N];
    for round in 0..REPEATS {
        flood::launch(&b, &mut lend_cudarc_mut(&b, &mut y, [N]).unwrap(), -1.0).unwrap();
        for value in [-2.0, round as f32] {
            flood::launch(&a, &mut lend_cudarc_mut(&a, &mut x, [N]).unwrap(), value).unwrap();
        }
        {
            let x = lend_cudarc(&b, &x, [N]).unwrap();
            let mut y = lend_cudarc_mut(&b, &mut y, [N]).unwrap();
            shifted::launch(&b, &x, &mut y, 3.0).unwrap();
            if round % 2 == 1 {
                std::mem::forget((x, y));
            }
        }
        // Written again on the first stream at once, after the second has read it.
        first.memset_zeros(&mut x).unwrap();
        if round % 10 == 0 {
            first.memcpy_dtoh(&y, &mut host).unwrap();
            first.synchronize().unwrap();
            is_all(&host, round as f32 + 3.0, round);
        }
    }
}

/// Tensors of the device on a borrowed stream, between uses on streams of ours.
#[test]
fn tensors_of_the_device_are_ordered_with_a_borrowed_stream() {
    let Some(device) = gpu() else { return };
    let context = untracked();
    let owner = context.new_stream().unwrap();
    let stream = borrow_cudarc_stream(&device, &owner).unwrap();
    let own = device.stream().unwrap();
    let mut x = device.zeros::<f32, 1>([N]).unwrap();
    let mut result = device.zeros::<f32, 1>([N]).unwrap();
    for round in 0..REPEATS {
        let mut y = device.zeros::<f32, 1>([N]).unwrap();
        flood::launch(&own, &mut result, -1.0).unwrap();
        flood::launch(&own, &mut x, round as f32).unwrap();
        shifted::launch(&stream, &x, &mut y, 1.0).unwrap();
        flood::launch(&own, &mut x, -2.0).unwrap();
        shifted::launch(&own, &y, &mut result, 1.0).unwrap();
        // Freed while it is in use, and given out again.
        drop(y);
        if round % 10 == 0 {
            is_all(&result.to_vec().unwrap(), round as f32 + 2.0, round);
        }
    }
}

fn captured(stream: &Arc<CudaStream>, work: impl FnOnce()) -> cudarc::driver::CudaGraph {
    // A global capture would forbid the other tests' threads to wait for their streams meanwhile.
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    work();
    stream.end_capture(sys::CUgraphInstantiate_flags(0)).unwrap().unwrap()
}

/// cudarc captures launches of ours in a graph of its own; its graph is launched a thousand times over poisoned outputs.
#[test]
fn a_graph_of_other_code_replays_what_is_launched_on_a_borrowed_stream() {
    let Some(device) = gpu() else { return };
    let context = untracked();
    let owner = context.new_stream().unwrap();
    let stream = borrow_cudarc_stream(&device, &owner).unwrap();
    let (mut x, mut y) = (owner.alloc_zeros::<f32>(N).unwrap(), owner.alloc_zeros::<f32>(N).unwrap());
    // Compiled before the capture.
    flood::launch(&stream, &mut lend_cudarc_mut(&stream, &mut y, [N]).unwrap(), -1.0).unwrap();
    let prepared = shifted::prepare(
        &device,
        &device.zeros::<f32, 1>([N]).unwrap(),
        &mut device.zeros::<f32, 1>([N]).unwrap(),
        0.0,
    );
    prepared.unwrap();
    let tensor_of_ours = device.zeros::<f32, 1>([N]).unwrap();
    let graph = captured(&owner, || {
        let input = lend_cudarc(&stream, &x, [N]).unwrap();
        let mut output = lend_cudarc_mut(&stream, &mut y, [N]).unwrap();
        // Refused, and the capture is as good as before.
        assert!(shifted::launch(&stream, &tensor_of_ours, &mut output, 1.0).is_err());
        assert!(stream.synchronize().is_err() && stream.record().is_err() && output.to_vec().is_err());
        flood::launch(&stream, &mut output, -3.0).unwrap();
        shifted::launch(&stream, &input, &mut output, 5.0).unwrap();
    });
    let mut host = vec![0.0f32; N];
    for round in 0..REPEATS {
        flood::launch(&stream, &mut lend_cudarc_mut(&stream, &mut x, [N]).unwrap(), round as f32).unwrap();
        flood::launch(&stream, &mut lend_cudarc_mut(&stream, &mut y, [N]).unwrap(), -1.0).unwrap();
        graph.launch().unwrap();
        if round % 10 == 0 {
            owner.memcpy_dtoh(&y, &mut host).unwrap();
            owner.synchronize().unwrap();
            is_all(&host, round as f32 + 5.0, round);
        }
    }
}

/// Memory is handed over in both directions while it is in use.
#[test]
fn memory_changes_hands_in_use() {
    let Some(device) = gpu() else { return };
    let context = cudarc_context();
    let (first, second) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let own = device.stream().unwrap();
    let mut host = vec![0.0f32; N];
    for round in 0..REPEATS {
        let mut tensor = own_cudarc(&device, first.alloc_zeros::<f32>(N).unwrap(), [N]).unwrap();
        flood::launch(&own, &mut tensor, round as f32).unwrap();
        let mut out = device.zeros::<f32, 1>([N]).unwrap();
        shifted::launch(&own, &tensor, &mut out, 1.0).unwrap();
        // Freed by cudarc while it is read.
        drop(tensor);
        let slice = into_cudarc(out, &first).unwrap();
        if round % 10 == 0 {
            second.memcpy_dtoh(&slice, &mut host).unwrap();
            second.synchronize().unwrap();
            is_all(&host, round as f32 + 1.0, round);
        }
    }
}

/// What a launch costs the host: on a stream of ours, and on a borrowed one with lent memory. It prints; it asserts no time.
#[test]
fn cost_of_a_launch_on_a_borrowed_stream() {
    let Some(device) = gpu() else { return };
    let context = untracked();
    let owner = context.new_stream().unwrap();
    let stream = borrow_cudarc_stream(&device, &owner).unwrap();
    let own = device.stream().unwrap();
    let n = 256;
    let (x, mut y) = (device.zeros::<f32, 1>([n]).unwrap(), device.zeros::<f32, 1>([n]).unwrap());
    let (sx, mut sy) = (owner.alloc_zeros::<f32>(n).unwrap(), owner.alloc_zeros::<f32>(n).unwrap());
    let mut best = [f64::MAX; 3];
    let time = |best: &mut f64, work: &mut dyn FnMut()| {
        device.synchronize().unwrap();
        owner.synchronize().unwrap();
        let start = Instant::now();
        (0..200).for_each(|_| work());
        *best = best.min(start.elapsed().as_secs_f64() / 200.0 * 1e6);
    };
    for _ in 0..50 {
        time(&mut best[0], &mut || shifted::launch(&own, &x, &mut y, 1.0).unwrap());
        {
            let lx = lend_cudarc(&stream, &sx, [n]).unwrap();
            let mut ly = lend_cudarc_mut(&stream, &mut sy, [n]).unwrap();
            time(&mut best[1], &mut || shifted::launch(&stream, &lx, &mut ly, 1.0).unwrap());
        }
        time(&mut best[2], &mut || {
            let lx = lend_cudarc(&stream, &sx, [n]).unwrap();
            let mut ly = lend_cudarc_mut(&stream, &mut sy, [n]).unwrap();
            shifted::launch(&stream, &lx, &mut ly, 1.0).unwrap();
        });
    }
    let [ours, lent, lending] = best;
    println!("a launch, us: ours {ours:.2}, on a borrowed stream {lent:.2}, lending included {lending:.2}");
}
