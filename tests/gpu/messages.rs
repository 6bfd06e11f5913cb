//! `device_print` and `device_assert` on a GPU: what threads say arrives with its place, and the device lives on. Tests whose
//! assertions fail on purpose have a process each.

use super::{gpu, is_alone};
use std::process::Command;
use tile_runtime::Error;
use tile_runtime::prelude::*;

/// y = x + 1, with a word of those that are odd and an assertion that none is above `limit`.
#[tile_kernel]
fn talk(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, limit: f32) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    if i < N {
        let v = x[i];
        device_assert(v <= limit, "x is within its limit");
        if i % 2 == 1 && i < 4 {
            device_print("x[{}] = {}, as f16 {}, odd {}", i, v, v.cast::<f16>(), i % 2 == 1);
        }
        y[i] = v + 1.0;
    }
}

/// Nothing here is true.
#[tile_kernel]
fn flood(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([N / 256]);
    let [t] = threads([256]);
    device_assert(x[b * 256 + t] > 0.0, "positive");
    y[b * 256 + t] = 1.0;
}

#[test]
fn an_assertion_is_the_next_waits_error_and_the_device_lives_on() {
    let Some(device) = gpu() else { return };
    if !is_alone("messages::an_assertion_is_the_next_waits_error_and_the_device_lives_on") {
        return;
    }
    let x: Vec<f32> = (0..100).map(|i| i as f32).collect();
    let input = device.tensor(&x, [100]).unwrap();
    let mut y = device.zeros::<f32, 1>([100]).unwrap();
    for _ in 0..3 {
        talk::launch(&device, &input, &mut y, 98.5).unwrap();
        match device.synchronize() {
            Err(Error::Assert(failed)) => {
                assert_eq!((failed.kernel.as_str(), failed.message.as_str()), ("talk", "x is within its limit"));
                assert_eq!((failed.block, failed.thread, failed.more), ([3, 0, 0], [3, 0, 0], 0));
                assert!(failed.file.ends_with("messages.rs"), "{}", failed.file);
                let text = failed.to_string();
                assert!(text.contains("TK0901") && text.contains("device_assert(v <= limit"), "{text}");
            }
            other => panic!("{other:?}"),
        }
        // It is said once, and what was launched is done.
        device.synchronize().unwrap();
        assert_eq!(y.to_vec().unwrap(), x.iter().map(|v| v + 1.0).collect::<Vec<_>>());
    }
    talk::launch(&device, &input, &mut y, 1000.0).unwrap();
    device.synchronize().unwrap();
}

#[test]
fn a_graph_says_it_too() {
    let Some(device) = gpu() else { return };
    if !is_alone("messages::a_graph_says_it_too") {
        return;
    }
    let input = device.tensor(&[5.0f32], [1]).unwrap();
    let mut y = device.zeros::<f32, 1>([1]).unwrap();
    let graph = device
        .capture(|stream| {
            talk::launch(stream, &input, &mut y, 1.0)?;
            Ok(())
        })
        .unwrap();
    for _ in 0..2 {
        graph.launch().unwrap();
        assert!(matches!(device.synchronize(), Err(Error::Assert(_))));
    }
}

#[test]
fn what_does_not_fit_is_counted() {
    let Some(device) = gpu() else { return };
    if !is_alone("messages::what_does_not_fit_is_counted") {
        return;
    }
    let input = device.zeros::<f32, 1>([1 << 20]).unwrap();
    let mut y = device.zeros::<f32, 1>([1 << 20]).unwrap();
    for _ in 0..3 {
        flood::launch(&device, &input, &mut y).unwrap();
        match device.synchronize() {
            Err(Error::Assert(failed)) => assert_eq!(failed.more, 8191, "{failed}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn lines_appear_with_their_place() {
    if gpu().is_none() {
        return;
    }
    let child = ["--exact", "messages::says", "--ignored", "--nocapture"];
    let out = Command::new(std::env::current_exe().unwrap()).args(child).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    for line in [
        "block (0, 0, 0), thread (1, 0, 0): x[1] = 0.1, as f16 0.099975586, odd true",
        "block (0, 0, 0), thread (3, 0, 0): x[3] = 0.1, as f16 0.099975586, odd true",
    ] {
        assert_eq!(text.matches(line).count(), 1, "{text}");
    }
    assert_eq!(text.matches("talk at ").count(), 2, "{text}");
}

/// The child of `lines_appear_with_their_place`.
#[test]
#[ignore = "started by another test"]
fn says() {
    let Some(device) = gpu() else { return };
    let input = device.tensor(&[0.1f32; 40], [40]).unwrap();
    let mut y = device.zeros::<f32, 1>([40]).unwrap();
    talk::launch(&device, &input, &mut y, 1.0).unwrap();
    device.synchronize().unwrap();
}
