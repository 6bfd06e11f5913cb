//! Tiles that begin where TMA cannot: at columns that are no multiple of 16 bytes, and stores that begin before the tensor. Both
//! are illegal instructions on Hopper, so such copies go another way; what lies outside reads as 0 and is not written.

use tile_ir::ir::Target;
use tile_kernel_examples::data::integers;
use tile_kernel_examples::devices::devices;
use tile_kernel_examples::gemm::product;
use tile_runtime::prelude::*;

/// `C = A B^T`, whose tiles of A and B begin `SHIFT` columns early, and whose results go `ROW` rows up and `COL` columns to the left.
#[tile_kernel(
    instances((SHIFT, ROW, COL) in [(0, 0, 0), (8, 0, 0), (64, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 16), (3, 5, 2)]),
    partial(c)
)]
pub fn moved<const SHIFT: usize, const ROW: usize, const COL: usize>(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    let [bx, by] = blocks([ceil_div(N, 64), ceil_div(M, 64)]);
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K + SHIFT, 64), 3) {
        copy(a.at([by * 64, k * 64 - SHIFT]), &mut a_s);
        copy(b.at([bx * 64, k * 64 - SHIFT]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([by * 64 - ROW, bx * 64 - COL]));
}

#[allow(non_snake_case)]
fn check(params: MovedParams, shape: [usize; 3]) {
    let ([m, n, k], MovedParams { ROW, COL, .. }) = (shape, params);
    let (a, b) = (integers::<f16>(1, m * k, 4), integers::<f16>(2, n * k, 4));
    let whole = product(&a, &b, shape, [false, true]);
    let expected: Vec<f32> = (0..m * n)
        .map(|i| [i / n + ROW, i % n + COL])
        .map(|[row, col]| if row < m && col < n { whole[row * n + col] } else { 0.0 })
        .collect();
    for device in devices() {
        let (x, y) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
        let mut c = device.zeros::<f32, 2>([m, n]).unwrap();
        moved::instance(&device, params).unwrap().launch(&x, &y, &mut c).unwrap();
        assert_eq!(c.to_vec().unwrap(), expected, "{shape:?}, {params:?} on {device:?}");
    }
}

#[test]
#[allow(non_snake_case)]
fn tiles_begin_anywhere() {
    let instances = [(0, 0, 0), (8, 0, 0), (64, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 16), (3, 5, 2)];
    for (SHIFT, ROW, COL) in instances {
        for shape in [[128, 192, 128], [72, 72, 72], [65, 67, 71]] {
            check(MovedParams { SHIFT, ROW, COL }, shape);
        }
    }
}

/// What TMA can do it still does: loads at multiples of 16 bytes, before the tensor too; stores from 0 on.
#[test]
fn tma_is_used_where_it_can_be() {
    let kernel = moved::<0, 0, 0>::definition().kernel().unwrap();
    let uses: Vec<[bool; 2]> = kernel
        .instances
        .iter()
        .map(|instance| {
            let program = tile_ir::lower::lower(kernel, instance, Target::Sm90a).unwrap();
            let text = tile_ir::emit::cuda::emit(&program);
            ["  tensor_load_2d(", "  tensor_store_2d("].map(|call| text.contains(call))
        })
        .collect();
    let (both, loads, neither) = ([true, true], [true, false], [false, false]);
    // In the order of the instances: 1 and 3 columns are 2 and 6 bytes, and row -1 is before the tensor.
    assert_eq!(uses, [both, both, both, neither, loads, loads, loads, neither]);
}
