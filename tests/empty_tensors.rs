//! Boxes of tensors that have no elements: TMA's maps cannot describe such a tensor, yet what is loaded of it is zeros and what is
//! stored to it is dropped, as beyond the edge of any other.

use tile_ir::ir::Target;
use tile_kernel_examples::data::integers;
use tile_kernel_examples::devices::devices;
use tile_kernel_examples::gemm::product;
use tile_runtime::kernel::{Format, Variant, show};
use tile_runtime::prelude::*;

/// `C = A B^T` over the columns of B, wherever those of A end; D is C as far as it has rows.
#[tile_kernel(partial(d))]
pub fn shorter(
    a: &Tensor<f16, (M, KA)>,
    b: &Tensor<f16, (N, KB)>,
    c: &mut Tensor<f32, (M, N)>,
    d: &mut Tensor<f32, (R, N)>,
) {
    let [bx, by] = blocks([ceil_div(N, 64), ceil_div(M, 64)]);
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(KB, 64), 3) {
        copy(a.at([by * 64, k * 64]), &mut a_s);
        copy(b.at([bx * 64, k * 64]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([by * 64, bx * 64]));
    copy(&acc, d.at_mut([by * 64, bx * 64]));
}

#[test]
fn what_is_loaded_is_zeros_and_what_is_stored_is_dropped() {
    let (m, n, kb) = (96, 72, 136);
    for (ka, rows) in [(136, 96), (64, 40), (0, 96), (136, 0), (0, 0)] {
        let (a, b) = (integers::<f16>(1, m * ka, 4), integers::<f16>(2, n * kb, 4));
        let mut padded = vec![f16::ZERO; m * kb];
        for row in 0..m {
            padded[row * kb..row * kb + ka].copy_from_slice(&a[row * ka..(row + 1) * ka]);
        }
        let expected = product(&padded, &b, [m, n, kb], [false, true]);
        for device in devices() {
            // Twice: what the first launch stores must not be what the second one loads.
            for _ in 0..2 {
                let (x, y) = (device.tensor(&a, [m, ka]).unwrap(), device.tensor(&b, [n, kb]).unwrap());
                let mut c = device.tensor(&vec![f32::NAN; m * n], [m, n]).unwrap();
                let mut d = device.tensor(&vec![f32::NAN; rows * n], [rows, n]).unwrap();
                shorter::launch(&device, &x, &y, &mut c, &mut d).unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(c.to_vec().unwrap(), expected, "KA = {ka}, {rows} rows on {device:?}");
                assert_eq!(d.to_vec().unwrap(), expected[..rows * n], "KA = {ka}, {rows} rows on {device:?}");
            }
        }
    }
}

#[test]
fn these_are_copies_by_tma() {
    let text = show(shorter::definition(), Variant::default(), Target::Sm90a, Format::Lowered).unwrap();
    for map in ["a_map", "b_map", "c_map", "d_map"] {
        assert!(text.contains(map), "{map} is missing: {text}");
    }
}
