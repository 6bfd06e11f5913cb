//! A kernel that faults: the first error wins, later calls fail fast, nothing panics. In a process of its own, since a
//! faulted context cannot be used again.

use crate::{gpu, is_alone};
use tile_runtime::prelude::*;

/// Writes far outside its tensor, by an index the compiler is told nothing about and a host buffer that lies about its
/// size.
#[tile_kernel]
fn out_of_bounds(y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    if b * 128 + t < N {
        y[b * 128 + t] = 1.0;
    }
}

#[test]
fn an_illegal_address_is_remembered_with_its_kernel() {
    if gpu().is_none() || !is_alone("faults::an_illegal_address_is_remembered_with_its_kernel") {
        return;
    }
    let device = Device::cuda(0).unwrap();
    let n = 1 << 20;
    // SAFETY: deliberately wrong: the address is not an allocation. The kernel faults on it, which is the test.
    let mut y = unsafe {
        tile_runtime::interop::from_raw_parts::<f32, 1>(&device, 0x10_0000, [n], [1], std::ptr::null_mut()).unwrap()
    };
    let launched = out_of_bounds::launch(&device, &mut y);
    let error = launched.map_err(|e| e.to_string()).and_then(|()| device.synchronize().map_err(|e| e.to_string()));
    let error = error.expect_err("the fault is reported");
    println!("first: {error}");
    assert!(error.contains("out_of_bounds"), "the kernel is named: {error}");
    assert!(error.contains("faults.rs"), "the call is named: {error}");
    let later = device.zeros::<f32, 1>([4]).map(|_| ()).expect_err("later calls fail");
    println!("later: {later}");
    assert!(later.to_string().contains("out_of_bounds"), "the first error wins: {later}");
}
