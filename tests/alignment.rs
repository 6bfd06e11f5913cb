//! Alignment classes: a kernel whose copies demand no width serves any address, pitch and extent, in the widest class that they
//! allow, and says which.

use tile_kernel_examples::data::{Real, integers};
use tile_kernel_examples::devices::devices;
use tile_kernel_examples::gemm::product;
use tile_runtime::kernel::{Class, Width};
use tile_runtime::prelude::*;

/// C = A B^T as the book's first GEMM has it: nothing in it speaks of alignment.
#[tile_kernel(instances((BM, BN, BK, STAGES) in [(64, 64, 32, 4), (128, 64, 64, 6)]), targets(sm_80, sm_90a))]
pub fn small_gemm<T: Half, const BM: usize, const BN: usize, const BK: usize, const STAGES: usize>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    c: &mut Tensor<T, (M, N)>,
) {
    let [bx, by] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([128]);
    use_swizzle(8);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, BK), STAGES) {
        copy(a.at([by * BM, k * BK]), &mut a_s);
        copy(b.at([bx * BN, k * BK]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([by * BM, bx * BN]));
}

/// y = x, tile by tile through shared memory, three tiles under way.
#[tile_kernel(dtypes(T in [f16, f32]))]
pub fn tiled_copy<T>(x: &Tensor<T, (M, N)>, y: &mut Tensor<T, (M, N)>) {
    let [by] = blocks([ceil_div(M, 16)]);
    threads([64]);
    let mut tile = alloc_shared::<T>([16, 32]);
    for k in pipelined(0..ceil_div(N, 32), 3) {
        copy(x.at([by * 16, k * 32]), &mut tile);
        copy(&tile, y.at_mut([by * 16, k * 32]));
    }
}

/// A copy through a pipelined tile that demands rows of 8 bytes.
#[tile_kernel(require(N % 4 == 0))]
pub fn demanding_copy(x: &Tensor<f16, (M, N)>, y: &mut Tensor<f16, (M, N)>) {
    let [by] = blocks([ceil_div(M, 16)]);
    threads([64]);
    let mut tile = alloc_shared::<f16>([16, 32]);
    for k in pipelined(0..ceil_div(N, 32), 3) {
        copy(x.at([by * 16, k * 32]), &mut tile).width(4);
        copy(&tile, y.at_mut([by * 16, k * 32]));
    }
}

/// A matrix within a wider one, `skip` columns from its left edge, and its own values.
fn wide<T: Real>(device: &Device, seed: u64, [rows, cols]: [usize; 2], skip: usize) -> (Tensor<T, 2>, Vec<T>) {
    let pitch = cols + 16;
    let values = integers::<T>(seed, rows * pitch, 3);
    let own = values.chunks(pitch).flat_map(|row| &row[skip..skip + cols]).copied().collect();
    (device.tensor(&values, [rows, pitch]).unwrap(), own)
}

/// Read by the first width, written by the second.
fn class(reads: Width, writes: Width) -> Class {
    Class { reads, writes }
}

const WIDTHS: [(usize, Width); 4] = [(8, Width::Sixteen), (4, Width::Eight), (2, Width::Four), (1, Width::Element)];

#[test]
fn an_authors_gemm_at_every_alignment() {
    let [m, n, k] = [70, 72, 80];
    for device in devices() {
        for (skip, width) in WIDTHS {
            let ((wa, a), (wb, b)) = (wide::<f16>(&device, 1, [m, k], skip), wide::<f16>(&device, 2, [n, k], skip));
            let wanted: Vec<f16> = product(&a, &b, [m, n, k], [false, true]).into_iter().map(f16::from_f32).collect();
            let (da, db) = (wa.slice([0..m, skip..skip + k]).unwrap(), wb.slice([0..n, skip..skip + k]).unwrap());
            let mut c = device.zeros::<f16, 2>([m, n]).unwrap();
            let found = small_gemm::<f16, 64, 64, 32, 4>::class(&device, da, db, &mut c).unwrap();
            assert_eq!(found, class(width, Width::Sixteen), "from column {skip} on");
            small_gemm::<f16, 64, 64, 32, 4>::launch(&device, da, db, &mut c).unwrap();
            assert!(c.to_vec().unwrap() == wanted, "from column {skip} on");
            // More stages than a loop is written out in, and more rows than the tensors have.
            let mut c = device.zeros::<f16, 2>([m, n]).unwrap();
            small_gemm::<f16, 128, 64, 64, 6>::launch(&device, da, db, &mut c).unwrap();
            assert!(c.to_vec().unwrap() == wanted, "from column {skip} on");
        }
    }
}

/// Results that TMA cannot store, and those that not even pairs can.
#[test]
fn the_result_has_an_alignment_of_its_own() {
    let [m, k] = [70, 64];
    for device in devices() {
        for (n, writes) in [(72, Width::Sixteen), (68, Width::Eight), (66, Width::Four), (65, Width::Element)] {
            for skip in [8, 1] {
                let ((wa, a), (wb, b)) = (wide::<f16>(&device, 1, [m, k], skip), wide::<f16>(&device, 2, [n, k], skip));
                let (da, db) = (wa.slice([0..m, skip..skip + k]).unwrap(), wb.slice([0..n, skip..skip + k]).unwrap());
                let mut c = device.zeros::<f16, 2>([m, n]).unwrap();
                let found = small_gemm::<f16, 64, 64, 32, 4>::class(&device, da, db, &mut c).unwrap();
                // Without roles nothing is asked of what is written, the tile's columns not being known to be pairs.
                let wanted =
                    if skip == 8 { class(Width::Sixteen, writes) } else { class(Width::Element, Width::Sixteen) };
                assert_eq!(found, wanted, "{n} columns, from column {skip} on");
                small_gemm::<f16, 64, 64, 32, 4>::launch(&device, da, db, &mut c).unwrap();
                let sums = product(&a, &b, [m, n, k], [false, true]);
                assert!(c.to_vec().unwrap() == sums.into_iter().map(f16::from_f32).collect::<Vec<_>>(), "{n}, {skip}");
            }
        }
    }
}

fn copies<T: Real>(cols: usize, skip: usize, reads: Width)
where
    tiled_copy<T>: TiledCopyInstance,
{
    for device in devices() {
        let (whole, own) = wide::<T>(&device, 1, [19, cols], skip);
        let x = whole.slice([0..19, skip..skip + cols]).unwrap();
        let mut y = device.zeros::<T, 2>([19, cols]).unwrap();
        assert_eq!(tiled_copy::<T>::class(&device, x, &mut y).unwrap(), class(reads, Width::Sixteen));
        tiled_copy::<T>::launch(&device, x, &mut y).unwrap();
        assert!(y.to_vec().unwrap() == own, "{cols} columns, from column {skip} on");
    }
}

#[test]
fn a_plain_copy_at_every_alignment() {
    for (skip, width) in WIDTHS {
        copies::<f16>(72, skip, width);
    }
    // The length of a row counts as its beginning does.
    copies::<f16>(71, 8, Width::Element);
    copies::<f16>(70, 8, Width::Four);
    // Four bytes are an element of f32.
    copies::<f32>(71, 1, Width::Four);
    copies::<f32>(72, 4, Width::Sixteen);
}

/// A demand is none of the launch's business.
#[test]
fn a_demand_stays_an_error() {
    for device in devices() {
        let whole = device.zeros::<f16, 2>([19, 88]).unwrap();
        let mut y = device.zeros::<f16, 2>([19, 72]).unwrap();
        demanding_copy::launch(&device, whole.slice([0..19, 4..76]).unwrap(), &mut y).unwrap();
        let error = demanding_copy::launch(&device, whole.slice([0..19, 2..74]).unwrap(), &mut y).unwrap_err();
        assert!(error.to_string().contains("8-byte access"), "{error}");
    }
}

/// A prepared launch keeps its class, and a handle tells it.
#[test]
fn a_prepared_launch_has_a_class() {
    let device = Device::checked_simulator();
    let (whole, own) = wide::<f16>(&device, 1, [19, 40], 2);
    let x = whole.slice([0..19, 2..42]).unwrap();
    let mut y = device.zeros::<f16, 2>([19, 40]).unwrap();
    assert_eq!(tiled_copy::<f16>::instance(&device).unwrap().class(x, &mut y).unwrap().reads, Width::Four);
    let launch = tiled_copy::<f16>::prepare(&device, x, &mut y).unwrap();
    assert_eq!(launch.class(), class(Width::Four, Width::Sixteen));
    launch.launch().unwrap();
    assert!(y.to_vec().unwrap() == own);
}
