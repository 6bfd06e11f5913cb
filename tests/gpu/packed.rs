//! Products of operands that are copied first to where TMA fetches them.

use tile_kernel_examples::data::{Real, integers};
use tile_kernel_examples::gemm::product;
use tile_kernels::gemm::batched::{self, Shape};
use tile_kernels::gemm::{Choice, Gemm, GemmElement, Precision, candidates, gemm_by};
use tile_runtime::kernel::{LaunchOn, Place, Target};
use tile_runtime::prelude::*;

const LAYOUTS: [[bool; 2]; 4] = [[false, true], [false, false], [true, true], [true, false]];

/// A product of integers, exact whatever the order of its sums.
struct Product<T: Real> {
    a: Tensor<T, 2>,
    b: Tensor<T, 2>,
    c: Tensor<T, 2>,
    wanted: Vec<T>,
}

impl<T: Real> Product<T> {
    fn new(device: &Device, seed: u64, [m, n, k]: [usize; 3], stored: [bool; 2]) -> Self {
        let (a, b) = (integers::<T>(seed, m * k, 2), integers::<T>(seed + 1, n * k, 2));
        let shape = |transposed: bool, rows, cols| if transposed { [cols, rows] } else { [rows, cols] };
        let wanted = product(&a, &b, [m, n, k], stored).into_iter().map(T::from_f32).collect();
        Product {
            a: device.tensor(&a, shape(stored[0], m, k)).unwrap(),
            b: device.tensor(&b, shape(stored[1], k, n)).unwrap(),
            c: device.zeros([m, n]).unwrap(),
            wanted,
        }
    }

    fn launch(&mut self, on: &impl LaunchOn, choice: Choice, options: &Gemm<'_, T>) -> Result<(), LaunchError>
    where
        T: GemmElement,
    {
        gemm_by(on, choice, &self.a, &self.b, &mut self.c, options)
    }
}

/// Products one behind the other, whose copies follow one another in the same memory: on the default stream, on two streams at once, and in
/// a graph.
fn check<T: GemmElement + Real>(device: &Device, shape: [usize; 3], stored: [bool; 2], precision: Precision) {
    let options = Gemm { a_transposed: stored[0], b_transposed: stored[1], precision, ..Gemm::default() };
    let mut all: Vec<Product<T>> = (0..6).map(|i| Product::new(device, 2 * i, shape, stored)).collect();
    let first = &mut all[0];
    let found = candidates(device, &first.a, &first.b, &mut first.c, &options);
    let packed = found.iter().map(|(choice, _)| *choice).filter(|choice| choice.packs != [None; 2]);
    let streams = [device.stream().unwrap(), device.stream().unwrap()];
    for choice in packed {
        let right = |what: &str, all: &mut [Product<T>]| {
            for product in all {
                assert!(product.c.to_vec().unwrap() == product.wanted, "{what}: {choice} {shape:?} {stored:?}");
                product.c = device.zeros([shape[0], shape[1]]).unwrap();
            }
        };
        all.iter_mut().for_each(|product| product.launch(device, choice, &options).unwrap());
        right("one stream", &mut all);
        for (at, product) in all.iter_mut().enumerate() {
            product.launch(&streams[at % 2], choice, &options).unwrap();
        }
        right("two streams", &mut all);
        let graph =
            device.capture(|on| all.iter_mut().try_for_each(|product| Ok(product.launch(on, choice, &options)?)));
        graph.unwrap().launch().unwrap();
        right("a graph", &mut all);
    }
}

#[test]
fn packed_products() {
    let Some(device) = super::gpu() else { return };
    if !device.supports(Target::Sm90a) {
        eprintln!("SKIPPED, it is for Hopper");
        return;
    }
    for shape in [[1, 1, 1], [70, 131, 65], [515, 261, 1031], [130, 1032, 72]] {
        for stored in LAYOUTS {
            check::<f32>(&device, shape, stored, Precision::Tf32);
            check::<bf16>(&device, shape, stored, Precision::Full);
            check::<f16>(&device, shape, stored, Precision::Full);
        }
    }
}

/// Products of a batch, exact whatever the order of their sums.
struct Batch<T: Real> {
    a: Tensor<T, 3>,
    b: Tensor<T, 3>,
    c: Tensor<T, 3>,
    wanted: Vec<T>,
}

/// Batches by every choice for copies of their operands: one behind the other in the memory of the copies, on two streams at once, and in a
/// graph. `zb`: matrices of `b`.
fn check_batches<T: GemmElement + Real>(
    device: &Device,
    [z, m, n, k]: [usize; 4],
    zb: usize,
    stored: [bool; 2],
    precision: Precision,
) {
    let options = Gemm { a_transposed: stored[0], b_transposed: stored[1], precision, ..Gemm::default() };
    let extents = |t: bool, z: usize, rows: usize, cols: usize| if t { [z, cols, rows] } else { [z, rows, cols] };
    let mut all: Vec<Batch<T>> = (0..3)
        .map(|seed| {
            let (a, b) = (integers::<T>(2 * seed, z * m * k, 2), integers::<T>(2 * seed + 1, zb * n * k, 2));
            let sums = (0..z).flat_map(|i| {
                let at = if zb == 1 { 0 } else { i };
                product(&a[i * m * k..(i + 1) * m * k], &b[at * n * k..(at + 1) * n * k], [m, n, k], stored)
            });
            let wanted: Vec<T> = sums.map(T::from_f32).collect();
            let a = device.tensor(&a, extents(stored[0], z, m, k)).unwrap();
            let b = device.tensor(&b, extents(stored[1], zb, k, n)).unwrap();
            Batch { a, b, c: device.zeros([z, m, n]).unwrap(), wanted }
        })
        .collect();
    let first = &all[0];
    let shape = Shape::of(device, &first.a.view(), &first.b.view(), [z, m, n], &options);
    let packed = shape.ranked().into_iter().map(|(choice, _)| choice).filter(|choice| choice.packs != [None; 2]);
    let packed: Vec<_> = packed.collect();
    assert!(!packed.is_empty(), "{shape:?}");
    let streams = [device.stream().unwrap(), device.stream().unwrap()];
    let launch = |on: &Place<'_>, choice, batch: &mut Batch<T>| {
        batched::launch_by(on, choice, batch.a.view(), batch.b.view(), batch.c.view_mut(), &options)
    };
    for choice in packed {
        let right = |what: &str, all: &mut [Batch<T>]| {
            for batch in all {
                assert!(
                    batch.c.to_vec().unwrap() == batch.wanted,
                    "{what}: {choice} {z} of {m} x {n} x {k} {stored:?}"
                );
                batch.c = device.zeros([z, m, n]).unwrap();
            }
        };
        all.iter_mut().for_each(|batch| launch(&Place::of(device), choice, batch).unwrap());
        right("one stream", &mut all);
        for (at, batch) in all.iter_mut().enumerate() {
            launch(&Place::of(&streams[at % 2]), choice, batch).unwrap();
        }
        right("two streams", &mut all);
        let graph =
            device.capture(|on| all.iter_mut().try_for_each(|batch| Ok(launch(&Place::of(on), choice, batch)?)));
        graph.unwrap().launch().unwrap();
        right("a graph", &mut all);
    }
}

#[test]
fn packed_batches() {
    let Some(device) = super::gpu() else { return };
    if !device.supports(Target::Sm90a) {
        eprintln!("SKIPPED, it is for Hopper");
        return;
    }
    for (shape, zb) in [([3, 72, 132, 68], 3), ([20, 136, 100, 36], 1), ([2, 68, 132, 516], 2)] {
        check_batches::<f32>(&device, shape, zb, [true, false], Precision::Tf32);
    }
    for (shape, zb) in [([3, 71, 133, 65], 1), ([5, 66, 78, 134], 5)] {
        for stored in LAYOUTS {
            check_batches::<f32>(&device, shape, zb, stored, Precision::Tf32);
            check_batches::<bf16>(&device, shape, zb, stored, Precision::Full);
        }
    }
}
