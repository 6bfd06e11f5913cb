//! The runtime on a real GPU. Skipped, aloud, where there is none.

use cudarc::driver::CudaContext;
use std::process::Command;
use std::time::Instant;
use tile_runtime::prelude::*;
use tile_runtime::{Error, Problem, interop};

/// y = alpha x + beta y, a block a row.
#[tile_kernel]
pub fn mix(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N, K)>, alpha: f32, beta: f32) {
    let [b] = blocks([N]);
    let [t] = threads([128]);
    for k in (0..K).step_by(128) {
        if k + t < K {
            y[[b, k + t]] = alpha * x[[b, k + t]] + beta * y[[b, k + t]];
        }
    }
}

fn device() -> Option<Device> {
    Device::cuda(0).inspect_err(|error| eprintln!("SKIPPED: {error}")).ok()
}

fn ramp(n: usize, k: usize, scale: f32) -> Vec<f32> {
    (0..n * k).map(|i| (i % 1021) as f32 * scale).collect()
}

/// Runs `work` on a device; what it leaves in y.
fn run(device: &Device, n: usize, k: usize) -> Vec<f32> {
    let x = device.tensor(&ramp(n, k, 0.37), [n, k]).unwrap();
    let mut y = device.tensor(&ramp(n, k, -1.7), [n, k]).unwrap();
    mix::launch(device, &x, &mut y, 1.1, 0.3).unwrap();
    let mut wide = device.zeros::<f32, 2>([n + 2, k + 5]).unwrap();
    mix::launch(device, &x, wide.slice_mut([1..n + 1, 2..k + 2]).unwrap(), 2.0, 1.0).unwrap();
    mix::launch(device, wide.slice([1..n + 1, 2..k + 2]).unwrap(), &mut y, 1.0, 1.0).unwrap();
    [y.to_vec().unwrap(), wide.to_vec().unwrap()].concat()
}

#[test]
fn the_gpu_and_both_simulators_agree_bit_for_bit() {
    let Some(gpu) = device() else { return };
    for (n, k) in [(1, 1), (3, 127), (5, 128), (64, 1000), (7, 4096)] {
        let bits = |device: &Device| run(device, n, k).into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let expected = bits(&Device::simulator());
        assert_eq!(bits(&Device::checked_simulator()), expected, "{n} x {k}: checked");
        assert_eq!(bits(&gpu), expected, "{n} x {k}: GPU");
    }
}

/// Random work on four streams over tensors that come and go equals the same work in order.
#[test]
fn random_work_on_four_streams_equals_the_same_in_order() {
    let Some(gpu) = device() else { return };
    let mut seed = 42u64;
    let mut random = |n: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % n
    };
    let host = Device::simulator();
    let streams: Vec<Stream> = (0..4).map(|_| gpu.stream().unwrap()).collect();
    // Large enough that a launch is still running when the next is queued.
    let (n, k) = (256, 4096);
    let make = |device: &Device, scale: f32| device.tensor(&ramp(n, k, scale), [n, k]).unwrap();
    let mut on_gpu: Vec<Tensor<f32, 2>> = (0..5).map(|i| make(&gpu, i as f32)).collect();
    let mut on_host: Vec<Tensor<f32, 2>> = (0..5).map(|i| make(&host, i as f32)).collect();
    for step in 0..300 {
        let (from, to) = (random(5), random(5));
        match random(12) {
            0 => {
                // Dropped while it may be in use, and replaced.
                let scale = step as f32 * 0.01;
                (on_gpu[to], on_host[to]) = (make(&gpu, scale), make(&host, scale));
            }
            1 if from != to => {
                let source = std::mem::replace(&mut on_gpu[from], make(&gpu, 0.0));
                on_gpu[to].copy_from(&source).unwrap();
                on_gpu[from] = source;
                let source = std::mem::replace(&mut on_host[from], make(&host, 0.0));
                on_host[to].copy_from(&source).unwrap();
                on_host[from] = source;
            }
            2 => assert_eq!(on_gpu[to].to_vec().unwrap(), on_host[to].to_vec().unwrap(), "step {step}"),
            _ if from != to => {
                let alpha = [0.5, -0.25, 1.0][random(3)];
                let stream = &streams[random(4)];
                let [x, y] = on_gpu.get_disjoint_mut([from, to]).unwrap();
                mix::launch(stream, &*x, y, alpha, 0.5).unwrap();
                let [x, y] = on_host.get_disjoint_mut([from, to]).unwrap();
                mix::launch(&host, &*x, y, alpha, 0.5).unwrap();
            }
            _ => {}
        }
    }
    for (gpu, host) in on_gpu.iter().zip(&on_host) {
        assert_eq!(gpu.to_vec().unwrap(), host.to_vec().unwrap());
    }
}

#[test]
fn a_graph_replays_and_keeps_its_memory() {
    let Some(gpu) = device() else { return };
    let (n, k) = (32, 1000);
    let x = gpu.tensor(&vec![1.0f32; n * k], [n, k]).unwrap();
    let mut y = gpu.zeros::<f32, 2>([n, k]).unwrap();
    // Compiled and loaded before the capture.
    mix::launch(&gpu, &x, &mut y, 0.0, 0.0).unwrap();
    let graph = gpu
        .capture(|stream| {
            for _ in 0..3 {
                mix::launch(stream, &x, &mut y, 1.0, 1.0)?;
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(y.to_vec().unwrap(), vec![0.0; n * k]);
    drop(x);
    for _ in 0..5 {
        graph.launch().unwrap();
    }
    graph.launch_on(&gpu.stream().unwrap()).unwrap();
    assert_eq!(y.to_vec().unwrap(), vec![18.0; n * k]);
}

#[test]
fn memory_of_cudarc_is_used_in_order_and_given_back() {
    let Some(gpu) = device() else { return };
    let (n, k) = (64, 2048);
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let x = gpu.tensor(&vec![2.0f32; n * k], [n, k]).unwrap();
    for round in 0..20 {
        let mut slice = stream.clone_htod(&vec![round as f32; n * k]).unwrap();
        let mut borrowed = interop::from_cudarc_mut(&gpu, &mut slice, [n, k]).unwrap();
        mix::launch(&gpu, &x, &mut borrowed, 1.0, 3.0).unwrap();
        assert!(gpu.capture(|s| Ok(mix::launch(s, &x, &mut borrowed, 1.0, 3.0)?)).is_err());
        // Forgotten, not dropped: the slice's stream must wait all the same.
        std::mem::forget(borrowed);
        assert_eq!(stream.clone_dtoh(&slice).unwrap(), vec![2.0 + 3.0 * round as f32; n * k]);
        drop(slice);
    }
    let slice = stream.clone_htod(&[1.0f32; 8]).unwrap();
    assert!(matches!(interop::from_cudarc(&gpu, &slice, [9]), Err(Error::Shape(_))));
}

#[test]
fn too_much_memory_is_an_error_with_numbers() {
    let Some(gpu) = device() else { return };
    let error = gpu.zeros::<f32, 1>([1 << 40]).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { requested: 4_398_046_511_104, .. }), "{error}");
    // The device is as good as before.
    assert_eq!(gpu.tensor(&[1, 2, 3], [3]).unwrap().to_vec().unwrap(), [1, 2, 3]);
}

#[test]
fn an_illegal_address_is_named_and_later_calls_fail_fast() {
    if device().is_none() {
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--ignored", "--exact", "--nocapture", "child_illegal_address"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "run by an_illegal_address_is_named_and_later_calls_fail_fast"]
fn child_illegal_address() {
    let gpu = Device::cuda(0).unwrap();
    let good = gpu.tensor(&[1.0f32; 64], [1, 64]).unwrap();
    let mut y = gpu.zeros::<f32, 2>([1, 64]).unwrap();
    // SAFETY: none, on purpose: nobody owns this address.
    let bad =
        unsafe { interop::from_raw_parts::<f32, 2>(&gpu, 0x1000, [1, 64], [64, 1], std::ptr::null_mut()) }.unwrap();
    let line = line!() + 1;
    mix::launch(&gpu, &bad, &mut y, 1.0, 1.0).unwrap();
    let first = gpu.synchronize().unwrap_err().to_string();
    println!("{first}");
    assert!(first.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{first}");
    assert!(first.contains(&format!("`mix` at {}:{line}", file!())), "{first}");
    let start = Instant::now();
    let error = mix::launch(&gpu, &good, &mut y, 1.0, 1.0).unwrap_err();
    assert!(matches!(error.problem(), Problem::Driver(Error::Fault(_))), "{error}");
    assert_eq!(y.to_vec().unwrap_err().to_string(), first);
    assert!(start.elapsed().as_millis() < 100);
    drop((good, bad, y));
}

/// What a launch costs on the host: `cargo test --release -p tile-runtime --test runtime_gpu -- --ignored launch_cost --nocapture`.
#[test]
#[ignore = "a measurement"]
fn launch_cost() {
    let Some(gpu) = device() else { return };
    let x = gpu.tensor(&[1.0f32; 64], [1, 64]).unwrap();
    let mut y = gpu.zeros::<f32, 2>([1, 64]).unwrap();
    let mut cost = |on: &str, launch: &mut dyn FnMut(&mut Tensor<f32, 2>)| {
        let mut best = f64::MAX;
        for _ in 0..50 {
            gpu.synchronize().unwrap();
            let start = Instant::now();
            // Few enough that the queue never fills.
            for _ in 0..200 {
                launch(&mut y);
            }
            best = best.min(start.elapsed().as_secs_f64() / 200.0);
        }
        println!("{on}: {:.3} us", best * 1e6);
    };
    cost("launch on the device", &mut |y| mix::launch(&gpu, &x, y, 1.0, 0.5).unwrap());
    let stream = gpu.stream().unwrap();
    cost("launch on a stream", &mut |y| mix::launch(&stream, &x, y, 1.0, 0.5).unwrap());
    let graph = {
        let mut y = gpu.zeros::<f32, 2>([1, 64]).unwrap();
        gpu.capture(|s| Ok(mix::launch(s, &x, &mut y, 1.0, 0.5)?)).unwrap()
    };
    cost("launch of a graph of one", &mut |_| graph.launch().unwrap());
}
