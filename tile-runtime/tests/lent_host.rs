//! Slices of the host that simulators use in place.

use std::panic::{AssertUnwindSafe, catch_unwind};
use tile_runtime::interop::{Placement, lend_host, lend_host_mut};
use tile_runtime::prelude::*;
use tile_runtime::{Error, Problem, ShapeError, f16};

/// y = alpha x.
#[tile_kernel(dtypes(T in [f32, f16]))]
pub fn scale<T: Float>(x: &Tensor<T, (N, K)>, y: &mut Tensor<T, (N, K)>, alpha: T) {
    let [b] = blocks([N]);
    let [t] = threads([32]);
    for k in (0..K).step_by(32) {
        if k + t < K {
            y[[b, k + t]] = alpha * x[[b, k + t]];
        }
    }
}

fn simulators() -> [Device; 2] {
    [Device::simulator(), Device::checked_simulator()]
}

#[test]
fn a_kernel_reads_and_writes_slices_in_place() {
    for device in simulators() {
        // 3 rows of 5 in rows of 7, from element 2 on; 16-bit elements of an odd number end in the middle of a word.
        let x: Vec<f16> = (0..23).map(|i| f16::from_f32(i as f32)).collect();
        let mut y = vec![f16::from_f32(-1.0); 15];
        let from = Placement { offset: 2, ..Placement::strided([3, 5], [7, 1]) };
        {
            let x = lend_host(&device, &x, from).unwrap();
            let mut y = lend_host_mut(&device, &mut y, [3, 5]).unwrap();
            scale::<f16>::launch(&device, &x, &mut y, f16::from_f32(2.0)).unwrap();
            // And beside a tensor of the simulator's own.
            let mut own = device.zeros::<f16, 2>([3, 5]).unwrap();
            own.copy_from(&y).unwrap();
            assert_eq!(own.to_vec().unwrap(), y.to_vec().unwrap());
        }
        let expected: Vec<f16> = (0..15).map(|i| f16::from_f32(2.0 * (2 + i / 5 * 7 + i % 5) as f32)).collect();
        assert_eq!(y, expected, "{}", device.label());
    }
}

#[test]
fn what_surrounds_the_placement_is_left_alone() {
    for device in simulators() {
        let x = [1.0f32, 2.0, 3.0, 4.0];
        let mut y = [9.0f32; 12];
        let to = Placement { offset: 1, ..Placement::strided([2, 2], [6, 1]) };
        let mut lent = lend_host_mut(&device, &mut y, to).unwrap();
        scale::<f32>::launch(&device, &lend_host(&device, &x, [2, 2]).unwrap(), lent.view_mut(), 1.0).unwrap();
        lent.view_mut().rows(1..2).unwrap().write(&[7.0, 8.0]).unwrap();
        // Nothing is written back when the borrow ends: it was written where it lies.
        std::mem::forget(lent);
        assert_eq!(y, [9.0, 1.0, 2.0, 9.0, 9.0, 9.0, 9.0, 7.0, 8.0, 9.0, 9.0, 9.0]);
    }
}

#[test]
fn what_does_not_fit_is_a_typed_error() {
    let device = Device::simulator();
    let x = [1.0f32; 6];
    let outside = lend_host(&device, &x, [2, 4]).map(drop).unwrap_err();
    assert!(matches!(outside, Error::Shape(ShapeError::Outside { end: 8, len: 6, .. })), "{outside}");
    let halves = [f16::ONE; 8];
    let from = if halves.as_ptr().addr() % 4 == 0 { 1 } else { 0 };
    let error = lend_host(&device, &halves[from..], [2, 2]).map(drop).unwrap_err();
    assert!(error.to_string().contains("does not begin at a multiple of 4 bytes"), "{error}");
    let lent = lend_host(&device, &x, [2, 3]).unwrap();
    // Another device, and beyond the borrow.
    let other = Device::checked_simulator();
    let error = scale::<f32>::launch(&other, &lent, &mut other.zeros::<f32, 2>([2, 3]).unwrap(), 1.0).unwrap_err();
    assert!(matches!(error.problem(), Problem::Device { .. }), "{error}");
    let mut y = device.zeros::<f32, 2>([2, 3]).unwrap();
    assert!(scale::<f32>::prepare(&device, &lent, &mut y, 1.0).is_err());
    let captured = device.capture(|stream| Ok(scale::<f32>::launch(stream, &lent, &mut y, 1.0)?));
    assert!(captured.unwrap_err().to_string().contains("borrowed from other code"));
    // A launch that unwinds in the middle of the borrow leaves the slice to its owner.
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _lent = lend_host(&device, &x, [6]).unwrap();
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(unwound.is_err());
}
