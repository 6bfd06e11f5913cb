//! Vectorised loops that fill and empty a per-thread array whose rows are no multiple of the transaction: the loop is still one
//! transaction of global memory, and the array is filled and emptied element by element.

use tile_ir::ir::Target;
use tile_runtime::kernel::{Format, Variant, show};
use tile_runtime::prelude::*;

/// y = 2 x, by four elements; the array's second row begins at byte 20.
#[tile_kernel(require(N % 256 == 0))]
fn double(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([N / 256]);
    let [t] = threads([32]);
    let mut values = alloc_local::<f32>([2, 5]);
    for row in unroll(0..2) {
        for v in vectorized(0..4) {
            values[[row, v]] = x[[b * 256 + row * 128 + t * 4 + v]];
        }
    }
    for row in unroll(0..2) {
        for v in unroll(0..4) {
            values[[row, v]] = values[[row, v]] * 2.0;
        }
    }
    for row in unroll(0..2) {
        for v in vectorized(0..4) {
            y[[b * 256 + row * 128 + t * 4 + v]] = values[[row, v]];
        }
    }
}

#[test]
fn rows_of_a_local_array_that_no_transaction_fits() {
    for device in [Device::simulator(), Device::checked_simulator()] {
        let x: Vec<f32> = (0..512).map(|i| i as f32).collect();
        let input = device.tensor(&x, [512]).unwrap();
        let mut y = device.zeros::<f32, 1>([512]).unwrap();
        double::launch(&device, &input, &mut y).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(y.to_vec().unwrap(), x.iter().map(|v| v * 2.0).collect::<Vec<_>>(), "{device:?}");
    }
}

#[test]
fn global_memory_is_still_accessed_by_transactions() {
    let text = show(double::definition(), Variant::default(), Target::Sm90a, Format::Cuda).unwrap();
    assert!(text.contains("load16(") && text.contains("store16("), "{text}");
    assert!(!text.contains("&values["), "{text}");
}
