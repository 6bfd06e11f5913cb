//! Order across streams and under capture.

use crate::gpu;
use tile_kernel_examples::data::{hash, normal};
use tile_kernels::gemv::{Gemv, gemv};
use tile_runtime::prelude::*;

/// y2 = W2 (W1 x), the two products on two streams, many times over the same memory: every result is right only if
/// each launch waits for what the other stream has under way.
#[test]
fn a_chain_over_two_streams_is_ordered() {
    let Some(device) = gpu() else { return };
    let n = 2048;
    let (w1, w2) = (normal::<f32>(1, n * n), normal::<f32>(2, n * n));
    let (w1, w2) = (device.tensor(&w1, [n, n]).unwrap(), device.tensor(&w2, [n, n]).unwrap());
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let mut middle = device.zeros::<f32, 1>([n]).unwrap();
    let mut out = device.zeros::<f32, 1>([n]).unwrap();
    for round in 0..20 {
        let x = device.tensor(&normal::<f32>(100 + round, n), [n]).unwrap();
        gemv(&device, &w1, &x, &mut middle, Gemv::default()).unwrap();
        gemv(&device, &w2, &middle, &mut out, Gemv::default()).unwrap();
        let serial = hash(&out.to_vec().unwrap());
        gemv(&first, &w1, &x, &mut middle, Gemv::default()).unwrap();
        gemv(&second, &w2, &middle, &mut out, Gemv::default()).unwrap();
        assert_eq!(serial, hash(&out.to_vec().unwrap()), "round {round}");
    }
}

#[test]
fn a_captured_launch_replays() {
    let Some(device) = gpu() else { return };
    let (n, k) = (512, 1024);
    let w = device.tensor(&normal::<f16>(1, n * k), [n, k]).unwrap();
    let mut x = device.tensor(&normal::<f16>(2, k), [k]).unwrap();
    let mut y = device.zeros::<f16, 1>([n]).unwrap();
    gemv(&device, &w, &x, &mut y, Gemv::default()).unwrap();
    let graph = device
        .capture(|stream| {
            gemv(stream, &w, &x, &mut y, Gemv::default())?;
            Ok(())
        })
        .unwrap();
    for seed in 3..8 {
        let values = normal::<f16>(seed, k);
        x.write(&values).unwrap();
        graph.launch().unwrap();
        let replayed = hash(&y.to_vec().unwrap());
        gemv(&device, &w, &x, &mut y, Gemv::default()).unwrap();
        assert_eq!(replayed, hash(&y.to_vec().unwrap()));
    }
}
