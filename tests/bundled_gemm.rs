//! The bundled GEMM: against a product on the CPU, on both simulators.

use tile_kernel_examples::data::{Real, integers, normal};
use tile_kernel_examples::gemm::product;
use tile_kernels::gemm::copied::Operands;
use tile_kernels::gemm::pack::{Pack, Packs};
use tile_kernels::gemm::{
    Activation, Choice, Gemm, GemmElement, Precision, batched, class, full, gemm, gemm_batched, tf32,
};
use tile_runtime::kernel::{Class, Width};
use tile_runtime::prelude::*;

const LAYOUTS: [[bool; 2]; 4] = [[false, true], [false, false], [true, true], [true, false]];

fn plain<T: GemmElement<C> + Real, C: Real>(device: &Device, shapes: &[[usize; 3]], layouts: &[[bool; 2]]) {
    for &[m, n, k] in shapes {
        for &[a_transposed, b_transposed] in layouts {
            let (a, b) = (integers::<T>(1, m * k, 3), integers::<T>(2, n * k, 3));
            let shape = |t: bool, rows: usize, cols: usize| if t { [cols, rows] } else { [rows, cols] };
            let da = device.tensor(&a, shape(a_transposed, m, k)).unwrap();
            let db = device.tensor(&b, shape(b_transposed, k, n)).unwrap();
            let mut dc = device.tensor(&vec![C::from_f32(12345.0); m * n], [m, n]).unwrap();
            let options = Gemm { a_transposed, b_transposed, ..Gemm::default() };
            gemm(device, &da, &db, &mut dc, &options).unwrap();
            let wanted: Vec<C> =
                product(&a, &b, [m, n, k], [a_transposed, b_transposed]).into_iter().map(C::from_f32).collect();
            assert!(dc.to_vec().unwrap() == wanted, "{m} x {n} x {k}, {a_transposed} {b_transposed}");
        }
    }
}

#[test]
fn every_layout_on_the_fast_simulator() {
    let shapes = [[1, 1, 1], [64, 64, 64], [129, 264, 72], [16, 136, 200], [3, 5, 7], [200, 8, 0]];
    plain::<f16, f16>(&Device::simulator(), &shapes, &LAYOUTS);
    plain::<bf16, bf16>(&Device::simulator(), &shapes[2..3], &LAYOUTS);
}

/// The program that the GPU runs, lane by lane: roles, barriers, TMA and products of warpgroups.
#[test]
fn every_layout_on_the_checked_simulator() {
    plain::<f16, f16>(&Device::checked_simulator(), &[[72, 136, 136]], &LAYOUTS);
}

#[test]
fn unaligned_operands_on_the_checked_simulator() {
    plain::<f16, f16>(&Device::checked_simulator(), &[[33, 35, 37]], &LAYOUTS);
}

#[test]
fn f32_results() {
    let shapes = [[72, 136, 136], [33, 35, 37], [40, 72, 0]];
    plain::<f16, f32>(&Device::simulator(), &shapes, &LAYOUTS);
    plain::<bf16, f32>(&Device::checked_simulator(), &shapes[..2], &LAYOUTS[..2]);
}

#[test]
fn f32_operands() {
    let shapes = [[72, 72, 40], [33, 35, 37], [1, 3, 5], [40, 72, 0]];
    plain::<f32, f32>(&Device::simulator(), &shapes, &LAYOUTS);
    plain::<f32, f32>(&Device::checked_simulator(), &shapes[..2], &LAYOUTS);
}

/// Every tile of f32, on shapes that it does not divide, from operands that are read by 16 bytes and by single elements.
#[test]
fn f32_by_every_tile() {
    for stored @ [a_transposed, b_transposed] in LAYOUTS {
        for tile in full::tiles() {
            let (rows, cols) = (tile.0 as usize, tile.1 as usize);
            for (shape, epilogue) in
                [([rows + 4, cols + 12, 44], false), ([rows - 1, cols + 3, 21], true), ([2, 5, 3], false)]
            {
                let [m, n, k] = shape;
                let (a, b) = (integers::<f32>(1, m * k, 3), integers::<f32>(2, n * k, 3));
                let shape = |t: bool, rows: usize, cols: usize| if t { [cols, rows] } else { [rows, cols] };
                let found = [Device::simulator(), Device::checked_simulator()].map(|device| {
                    let da = device.tensor(&a, shape(a_transposed, m, k)).unwrap();
                    let db = device.tensor(&b, shape(b_transposed, k, n)).unwrap();
                    let mut dc = device.tensor(&vec![12345.0; m * n], [m, n]).unwrap();
                    let plain = Gemm { a_transposed, b_transposed, ..Gemm::default() };
                    let options = if epilogue { Gemm { alpha: 2.0, ..plain } } else { plain };
                    let choice = Choice { tile, ..Choice::default() };
                    GemmElement::launch(&device, choice, &da, &db, &mut dc, &options).unwrap();
                    dc.to_vec().unwrap()
                });
                let factor = if epilogue { 2.0 } else { 1.0 };
                let wanted: Vec<f32> = product(&a, &b, [m, n, k], stored).into_iter().map(|sum| factor * sum).collect();
                for found in found {
                    let wrong = found.iter().zip(&wanted).position(|(x, y)| x != y);
                    assert_eq!(wrong, None, "{tile:?}: {m} x {n} x {k}, {stored:?}");
                }
            }
        }
    }
}

/// Rounded sums are the same on both simulators: every element is added up along K, whatever the tile.
#[test]
fn f32_sums_go_along_k() {
    let [m, n, k] = [70, 68, 52];
    let (a, b) = (normal::<f32>(1, m * k), normal::<f32>(2, n * k));
    for stored @ [a_transposed, b_transposed] in LAYOUTS {
        let at = |i: usize, l: usize| if a_transposed { l * m + i } else { i * k + l };
        let bt = |j: usize, l: usize| if b_transposed { j * k + l } else { l * n + j };
        let wanted: Vec<f32> =
            (0..m * n).map(|e| (0..k).fold(0.0f32, |sum, l| a[at(e / n, l)].mul_add(b[bt(e % n, l)], sum))).collect();
        for device in [Device::simulator(), Device::checked_simulator()] {
            for tile in full::tiles().filter(|tile| tile.0 <= 64) {
                let shape = |t: bool, rows: usize, cols: usize| if t { [cols, rows] } else { [rows, cols] };
                let da = device.tensor(&a, shape(a_transposed, m, k)).unwrap();
                let db = device.tensor(&b, shape(b_transposed, k, n)).unwrap();
                let mut dc = device.zeros::<f32, 2>([m, n]).unwrap();
                let options = Gemm { a_transposed, b_transposed, ..Gemm::default() };
                let choice = Choice { tile, ..Choice::default() };
                GemmElement::launch(&device, choice, &da, &db, &mut dc, &options).unwrap();
                assert!(dc.to_vec().unwrap() == wanted, "{tile:?} {stored:?}");
            }
        }
    }
}

/// Views into wider matrices: what begins where decides how it is read, and whatever it is the result is the same.
#[test]
fn every_class_of_alignment() {
    let [m, n, k] = [40, 72, 48];
    for device in [Device::simulator(), Device::checked_simulator()] {
        for (skip, wanted) in [(8, Width::Sixteen), (4, Width::Eight), (2, Width::Four), (1, Width::Element)] {
            for [a_transposed, b_transposed] in LAYOUTS {
                let shape = |t: bool, rows: usize, cols: usize| if t { [cols, rows] } else { [rows, cols] };
                let wide = |seed: u64, [rows, cols]: [usize; 2]| {
                    let values = integers::<f16>(seed, rows * (cols + 16), 3);
                    let own: Vec<f16> =
                        values.chunks(cols + 16).flat_map(|row| &row[skip..skip + cols]).copied().collect();
                    (device.tensor(&values, [rows, cols + 16]).unwrap(), own)
                };
                let (sa, sb) = (shape(a_transposed, m, k), shape(b_transposed, k, n));
                let ((wa, a), (wb, b)) = (wide(1, sa), wide(2, sb));
                let da = wa.slice([0..sa[0], skip..skip + sa[1]]).unwrap();
                let db = wb.slice([0..sb[0], skip..skip + sb[1]]).unwrap();
                let mut dc = device.zeros::<f16, 2>([m, n]).unwrap();
                let options = Gemm { a_transposed, b_transposed, ..Gemm::default() };
                let found = class(&device, da, db, &mut dc, &options).unwrap();
                assert_eq!(found.reads, wanted, "from column {skip} on");
                gemm(&device, da, db, &mut dc, &options).unwrap();
                let sums = product(&a, &b, [m, n, k], [a_transposed, b_transposed]);
                let wanted: Vec<f16> = sums.into_iter().map(f16::from_f32).collect();
                assert!(dc.to_vec().unwrap() == wanted, "from column {skip} on, {a_transposed} {b_transposed}");
            }
        }
    }
}

/// Operands that TMA could fetch, into rows that it could not store.
#[test]
fn a_result_that_is_not_aligned() {
    let device = Device::checked_simulator();
    let (a, b) = (integers::<f16>(1, 64 * 32, 3), integers::<f16>(2, 32 * 35, 3));
    let (da, db) = (device.tensor(&a, [64, 32]).unwrap(), device.tensor(&b, [35, 32]).unwrap());
    let mut dc = device.zeros::<f16, 2>([64, 35]).unwrap();
    let found = class(&device, &da, &db, &mut dc, &Gemm::nt()).unwrap();
    assert_eq!(found, Class { reads: Width::Sixteen, writes: Width::Element });
    gemm(&device, &da, &db, &mut dc, &Gemm::nt()).unwrap();
    let wanted: Vec<f16> = product(&a, &b, [64, 35, 32], [false, true]).into_iter().map(f16::from_f32).collect();
    assert!(dc.to_vec().unwrap() == wanted);
}

fn batches<T: GemmElement<C> + Real, C: Real>(device: &Device, [z, m, n, k]: [usize; 4], one_b: bool) {
    for [a_transposed, b_transposed] in LAYOUTS {
        let zb = if one_b { 1 } else { z };
        let (a, b) = (integers::<T>(1, z * m * k, 3), integers::<T>(2, zb * n * k, 3));
        let shape = |t: bool, z: usize, rows: usize, cols: usize| if t { [z, cols, rows] } else { [z, rows, cols] };
        let da = device.tensor(&a, shape(a_transposed, z, m, k)).unwrap();
        let db = device.tensor(&b, shape(b_transposed, zb, k, n)).unwrap();
        let mut dc = device.tensor(&vec![C::from_f32(12345.0); z * m * n], [z, m, n]).unwrap();
        let options = Gemm { a_transposed, b_transposed, alpha: 2.0, ..Gemm::default() };
        gemm_batched(device, da.view(), db.view(), dc.view_mut(), &options).unwrap();
        let wanted: Vec<C> = (0..z)
            .flat_map(|i| {
                let at = if one_b { 0 } else { i };
                let (a, b) = (&a[i * m * k..(i + 1) * m * k], &b[at * n * k..(at + 1) * n * k]);
                product(a, b, [m, n, k], [a_transposed, b_transposed])
            })
            .map(|sum| C::from_f32(2.0 * sum))
            .collect();
        assert!(dc.to_vec().unwrap() == wanted, "{z} x {m} x {n} x {k}, {a_transposed} {b_transposed}");
    }
}

#[test]
fn many_products_at_once() {
    for one_b in [false, true] {
        batches::<f16, f16>(&Device::simulator(), [3, 72, 136, 40], one_b);
        batches::<bf16, f32>(&Device::checked_simulator(), [3, 72, 72, 40], one_b);
        // Rows that are not aligned, of all batches at once.
        batches::<f16, f16>(&Device::simulator(), [3, 5, 7, 9], one_b);
        batches::<f16, f16>(&Device::checked_simulator(), [3, 5, 7, 9], one_b);
        batches::<f32, f32>(&Device::simulator(), [2, 36, 20, 12], one_b);
        batches::<f32, f32>(&Device::checked_simulator(), [3, 37, 67, 9], one_b);
    }
    batches::<f16, f16>(&Device::simulator(), [0, 72, 136, 40], true);
}

/// Every tile of the batched kernels for operands of a kind, on matrices that it does not divide.
fn batches_by_tile<T: GemmElement<f32> + Real>(operands: Operands, epilogue: bool) {
    let precision = if matches!(operands, Operands::Tf32 { .. }) { Precision::Tf32 } else { Precision::Full };
    for stored @ [a_transposed, b_transposed] in LAYOUTS {
        // Where TMA fetches f32, one operand at least lies along K.
        if operands == (Operands::Tf32 { fetched: true }) && !tf32::takes(stored) {
            continue;
        }
        let (matrices, packs) = ([2; 2], [[None; 2]; 2]);
        let shape = batched::Shape { batches: 2, m: 40, n: 72, k: 24, stored, operands, splits: true, matrices, packs };
        // A step of K, and as many as there are parts, the last of which is not whole.
        let deep = batched::Shape { k: 8 * 64, ..shape };
        let parted = deep.ranked().into_iter().filter(|(choice, _)| choice.parts > 1);
        for (choice, _) in shape.ranked().into_iter().filter(|(choice, _)| choice.parts == 1).chain(parted) {
            let k = if choice.parts > 1 { choice.parts * choice.tile.2 - 8 } else { 24 };
            let (z, m, n) = (2, choice.tile.0 as usize + 8, 72);
            let (a, b) = (integers::<T>(1, z * m * k, 3), integers::<T>(2, z * n * k, 3));
            let bias = integers::<T>(3, n, 3);
            let extents = |t: bool, rows: usize, cols: usize| if t { [z, cols, rows] } else { [z, rows, cols] };
            let shift = |at: usize| if epilogue { bias[at % n].to_f32() } else { 0.0 };
            let wanted: Vec<f32> = (0..z)
                .flat_map(|i| {
                    product(&a[i * m * k..(i + 1) * m * k], &b[i * n * k..(i + 1) * n * k], [m, n, k], stored)
                })
                .enumerate()
                .map(|(at, sum)| sum + shift(at))
                .collect();
            for device in [Device::simulator(), Device::checked_simulator()] {
                let da = device.tensor(&a, extents(a_transposed, m, k)).unwrap();
                let db = device.tensor(&b, extents(b_transposed, k, n)).unwrap();
                let db_bias = device.tensor(&bias, [n]).unwrap();
                let mut dc = device.tensor(&vec![12345.0; z * m * n], [z, m, n]).unwrap();
                let bias = epilogue.then_some(&db_bias);
                let options = Gemm { a_transposed, b_transposed, bias, precision, ..Gemm::default() };
                batched::launch_by(&device, choice, da.view(), db.view(), dc.view_mut(), &options).unwrap();
                let found = dc.to_vec().unwrap();
                let wrong = found.iter().zip(&wanted).position(|(x, y)| x != y);
                assert_eq!(wrong, None, "{choice}, {stored:?}");
            }
        }
    }
}

#[test]
fn batches_by_every_tile() {
    batches_by_tile::<f32>(Operands::Full, false);
    batches_by_tile::<f16>(Operands::Fetched, false);
    batches_by_tile::<bf16>(Operands::Copied { width: 2 }, true);
}

#[test]
fn batches_as_tf32_by_every_tile() {
    batches_by_tile::<f32>(Operands::Tf32 { fetched: true }, true);
    batches_by_tile::<f32>(Operands::Tf32 { fetched: false }, false);
}

/// Batches of operands that TMA does not fetch: by the fastest and the slowest of the choices for each way to copy them, one after the other in
/// the memory of the copies, and in a graph. The ways there are.
fn packed<T: GemmElement<C> + Real, C: Real>(
    device: &Device,
    [z, m, n, k]: [usize; 4],
    stored: [bool; 2],
    ones: [bool; 2],
    options: Gemm<'_, T>,
) -> Vec<Packs> {
    let [za, zb] = ones.map(|one| if one { 1 } else { z });
    let (a, b, bias) = (integers::<T>(1, za * m * k, 3), integers::<T>(2, zb * n * k, 3), integers::<T>(3, n, 3));
    let extents = |t: bool, z: usize, rows: usize, cols: usize| if t { [z, cols, rows] } else { [z, rows, cols] };
    let da = device.tensor(&a, extents(stored[0], za, m, k)).unwrap();
    let db = device.tensor(&b, extents(stored[1], zb, k, n)).unwrap();
    let of_columns = device.tensor(&bias, [n]).unwrap();
    let mut dc = device.zeros::<C, 3>([z, m, n]).unwrap();
    let options = Gemm { a_transposed: stored[0], b_transposed: stored[1], bias: Some(&of_columns), ..options };
    let wanted: Vec<C> = (0..z)
        .flat_map(|i| {
            let [ia, ib] = ones.map(|one| if one { 0 } else { i });
            product(&a[ia * m * k..(ia + 1) * m * k], &b[ib * n * k..(ib + 1) * n * k], [m, n, k], stored)
        })
        .enumerate()
        .map(|(at, sum)| C::from_f32(sum + bias[at % n].to_f32()))
        .collect();
    let shape = batched::Shape::of(device, &da.view(), &db.view(), [z, m, n], &options);
    let all: Vec<batched::Choice> = shape.ranked().into_iter().map(|(choice, _)| choice).collect();
    let ways: Vec<Packs> = shape.packs.into_iter().filter(|packs| *packs != [None; 2]).collect();
    for way in &ways {
        let of_it: Vec<_> = all.iter().filter(|choice| choice.packs == *way).collect();
        let [first, .., last] = of_it[..] else { panic!("{way:?}: {of_it:?}") };
        for choice in [first, last] {
            dc.write(&vec![C::from_f32(12345.0); z * m * n]).unwrap();
            batched::launch_by(device, *choice, da.view(), db.view(), dc.view_mut(), &options).unwrap();
            assert!(dc.to_vec().unwrap() == wanted, "{choice}: {z} of {m} x {n} x {k}, {stored:?} {ones:?}");
        }
        let launch = |on: &Stream| {
            batched::launch_by(on, *last, da.view(), db.view(), dc.view_mut(), &options)?;
            Ok(batched::launch_by(on, *first, da.view(), db.view(), dc.view_mut(), &options)?)
        };
        device.capture(launch).unwrap().launch().unwrap();
        assert!(dc.to_vec().unwrap() == wanted, "in a graph: {first}, {last}");
    }
    ways
}

/// Of operands as tf32 that both lie across K one is transposed, and what begins between multiples of 16 bytes gets another pitch.
#[test]
fn batches_of_copies() {
    let (turned, rows) = (Some(Pack::Transposed), |vec| Some(Pack::Rows { vec }));
    let (fast, checked) = (&Device::simulator(), &Device::checked_simulator());
    let (across, tf32) = ([true, false], Gemm::<f32>::default().tf32());
    let (one, none) = ([false, true], [false; 2]);
    assert_eq!(packed(fast, [3, 72, 132, 68], across, none, tf32), [[turned, None], [None, turned]]);
    assert_eq!(packed(fast, [2, 4, 201, 300], across, one, tf32), [[turned, rows(1)], [None, turned]]);
    assert_eq!(packed(checked, [2, 66, 36, 40], across, [true, false], tf32), [[turned, None], [rows(2), turned]]);
    assert_eq!(packed(fast, [3, 5, 72, 66], [false, true], one, tf32), [[rows(2); 2]]);
    for stored in LAYOUTS {
        let ways = packed::<f16, f16>(fast, [3, 70, 133, 65], stored, one, Gemm::default());
        let of = |begins_at_4: bool| rows(if begins_at_4 { 2 } else { 1 });
        assert_eq!(ways, [[of(stored[0]), of(false)]], "{stored:?}");
        let ways = packed::<bf16, f32>(checked, [2, 36, 72, 20], stored, none, Gemm::default());
        assert_eq!(ways, [[rows(4), if stored[1] { rows(4) } else { None }]], "{stored:?}");
    }
}

/// Long products take copies, short ones and those that need none do not; nor do those that the launch will refuse.
#[test]
fn which_batches_are_copied_first() {
    let device = &Device::simulator();
    fn shape<T: GemmElement>(
        device: &Device,
        [z, m, n, k]: [usize; 4],
        stored: [bool; 2],
        precision: Precision,
    ) -> batched::Shape {
        let extents = |t: bool, rows: usize, cols: usize| if t { [z, cols, rows] } else { [z, rows, cols] };
        let a = device.zeros::<T, 3>(extents(stored[0], m, k)).unwrap();
        let b = device.zeros::<T, 3>(extents(stored[1], k, n)).unwrap();
        let options = Gemm { a_transposed: stored[0], b_transposed: stored[1], precision, ..Gemm::default() };
        batched::Shape::of(device, &a.view(), &b.view(), [z, m, n], &options)
    }
    let (across, tf32, turned) = ([true, false], Precision::Tf32, Some(Pack::Transposed));
    let taken = |extents| shape::<f32>(device, extents, across, tf32).fastest().0.packs;
    assert_eq!(taken([12, 976, 104, 2536]), [None, turned]);
    assert_eq!(taken([24, 384, 1560, 184]), [turned, None]);
    assert_eq!(taken([14, 144, 24, 56]), [None; 2]);
    let none = [[None; 2]; 2];
    for stored in [[true, true], [false, false], [false, true]] {
        assert_eq!(shape::<f32>(device, [12, 976, 104, 2536], stored, tf32).packs, none, "{stored:?}");
    }
    assert_eq!(shape::<f32>(device, [12, 976, 104, 2536], across, Precision::Full).packs, none);
    assert_eq!(shape::<f16>(device, [12, 976, 104, 2536], across, Precision::Full).packs, none);
    let rows = |vec| Some(Pack::Rows { vec });
    let halves = |extents| shape::<f16>(device, extents, [false, true], Precision::Full).fastest().0.packs;
    assert_eq!(halves([16, 515, 517, 1030]), [rows(2), rows(2)]);
    assert_eq!(halves([16, 17, 19, 33]), [None; 2]);
    // Extents that disagree.
    let (a, b) = (device.zeros::<f32, 3>([4, 40, 32]).unwrap(), device.zeros::<f32, 3>([3, 40, 48]).unwrap());
    let options = Gemm { a_transposed: true, ..Gemm::default() }.tf32();
    assert_eq!(batched::Shape::of(device, &a.view(), &b.view(), [4, 32, 48], &options).packs, none);
    let first = device.zeros::<f32, 3>([1, 40, 48]).unwrap();
    let shape = batched::Shape::of(device, &a.view(), &first.view(), [4, 32, 48], &options);
    assert_eq!((shape.matrices, shape.packs), ([4, 1], [[turned, None], [None, turned]]));
}

#[test]
fn batches_that_disagree_are_refused() {
    let device = Device::simulator();
    let (a, b) = (device.zeros::<f16, 3>([4, 64, 32]).unwrap(), device.zeros::<f16, 3>([3, 48, 32]).unwrap());
    let mut c = device.zeros::<f16, 3>([4, 64, 48]).unwrap();
    let error = gemm_batched(&device, a.view(), b.view(), c.view_mut(), &Gemm::nt()).unwrap_err().to_string();
    assert!(error.contains('3') && error.contains('4'), "{error}");
}

#[test]
fn the_epilogue() {
    let device = Device::simulator();
    let [m, n, k] = [40, 72, 48];
    let (a, b) = (integers::<f16>(1, m * k, 2), integers::<f16>(2, n * k, 2));
    let (old, shift) = (integers::<f16>(3, m * n, 2), integers::<f16>(4, n, 2));
    let (da, db) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
    let bias = device.tensor(&shift, [n]).unwrap();
    let sums = product(&a, &b, [m, n, k], [false, true]);
    for activation in [Activation::None, Activation::Relu, Activation::Gelu, Activation::Silu] {
        let mut dc = device.tensor(&old, [m, n]).unwrap();
        let options = Gemm { alpha: 0.5, beta: 2.0, bias: Some(&bias), activation, ..Gemm::nt() };
        gemm(&device, &da, &db, &mut dc, &options).unwrap();
        for (at, found) in dc.to_vec().unwrap().into_iter().enumerate() {
            let x = 0.5 * sums[at] + 2.0 * old[at].to_f32() + shift[at % n].to_f32();
            let wanted = match activation {
                Activation::None => x,
                Activation::Relu => x.max(0.0),
                Activation::Gelu => 0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044_715 * x * x * x)).tanh()),
                Activation::Silu => x / (1.0 + (-x).exp()),
            };
            assert!(
                (found.to_f32() - wanted).abs() <= 1e-3 * wanted.abs().max(1.0),
                "{activation:?} at {at}: {found} {wanted}"
            );
        }
    }
}

#[test]
fn shapes_that_disagree_are_refused() {
    let device = Device::simulator();
    let (a, b) = (device.zeros::<f16, 2>([64, 32]).unwrap(), device.zeros::<f16, 2>([48, 40]).unwrap());
    let mut c = device.zeros::<f16, 2>([64, 48]).unwrap();
    let error = gemm(&device, &a, &b, &mut c, &Gemm::nt()).unwrap_err().to_string();
    assert!(error.contains("32") && error.contains("40"), "{error}");
}

#[test]
fn the_choice_is_an_instance() {
    for m in [1, 16, 100, 1000, 10_000] {
        for n in [8, 500, 4096, 30_000] {
            for k in [0, 64, 1000, 20_000] {
                for [a_t, b_t] in LAYOUTS {
                    let Choice { tile: (bm, bn, ..), .. } = Choice::for_shape(m, n, k, [a_t, b_t]);
                    assert!(bm * bn > 0 && (b_t || bn >= 64), "{m} {n} {k}: {bm} x {bn}");
                }
            }
        }
    }
}

/// The tiles for few rows, and the dependent launch of all: `[BM, BN, BK, STAGES]`.
const SKINNY: [(i64, i64, usize, usize); 7] = [
    (16, 56, 128, 12),
    (16, 96, 128, 7),
    (32, 32, 128, 14),
    (32, 48, 128, 10),
    (64, 32, 128, 8),
    (64, 48, 128, 7),
    (64, 192, 64, 6),
];

/// What a tile makes of operands, with and without an epilogue.
fn by_tile(device: &Device, tile: (i64, i64, usize, usize), [m, n, k]: [usize; 3], epilogue: bool) -> Vec<bf16> {
    let (bm, bn, bk, stages) = tile;
    let choice = Choice { tile: (bm, bn, bk, stages, 128, 1, 1), ..Choice::default() };
    let (a, b) = (integers::<bf16>(1, m * k, 3), integers::<bf16>(2, n * k, 3));
    let (da, db) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
    let mut dc = device.tensor(&integers::<bf16>(3, m * n, 2), [m, n]).unwrap();
    let bias = device.tensor(&integers::<bf16>(4, n, 2), [n]).unwrap();
    let (alpha, beta, activation) = (0.5, 2.0, Activation::Relu);
    let options = match epilogue {
        true => Gemm { alpha, beta, bias: Some(&bias), activation, ..Gemm::nt() },
        false => Gemm::nt(),
    };
    GemmElement::launch(device, choice, &da, &db, &mut dc, &options).unwrap();
    dc.to_vec().unwrap()
}

/// Both simulators give the same bits, and those are the product's.
#[test]
fn few_rows_on_both_simulators() {
    let (fast, checked) = (Device::simulator(), Device::checked_simulator());
    for (i, tile) in SKINNY.into_iter().enumerate() {
        let (bm, bn) = (tile.0 as usize, tile.1 as usize);
        let rows = [1, 3, bm - 1, bm, 2 * bm + 5];
        for (j, k) in [8, 72, 520].into_iter().enumerate() {
            let shape = [rows[(i + j) % 5], bn / 8 * 8 + 8, k];
            for epilogue in [false, true] {
                let found = by_tile(&checked, tile, shape, epilogue);
                assert!(found == by_tile(&fast, tile, shape, epilogue), "{tile:?} {shape:?} {epilogue}");
                if !epilogue {
                    let [m, n, k] = shape;
                    let (a, b) = (integers::<bf16>(1, m * k, 3), integers::<bf16>(2, n * k, 3));
                    let wanted = product(&a, &b, shape, [false, true]).into_iter().map(bf16::from_f32);
                    assert!(found == wanted.collect::<Vec<_>>(), "{tile:?} {shape:?}");
                }
            }
        }
    }
}

/// Tiles whose columns are the rows of an instruction, in every layout, ragged and with an epilogue: both simulators give the same bits, and
/// those are the product's.
#[test]
fn transposed_tiles_on_both_simulators() {
    let (fast, checked) = (Device::simulator(), Device::checked_simulator());
    let mut tiles = 0;
    for (turn, stored) in LAYOUTS.into_iter().enumerate() {
        let is_transposed = |choice: &Choice| {
            choice.split.is_none() && choice.tile.0 % 64 != 0 && (choice.tile.0 > 64 || choice.tile.2 == 64)
        };
        for (number, choice) in Choice::candidates(1, 8, 64, stored).filter(is_transposed).enumerate() {
            tiles += 1;
            let (bm, bn) = (choice.tile.0 as usize, choice.tile.1 as usize);
            let [m, n, k] = [[bm + 8, bn + 8, 72], [bm, bn, 136], [8, 2 * bn + 16, 64]][(turn + number) % 3];
            let epilogue = (turn + number) % 2 == 1;
            let (a, b) = (integers::<bf16>(1, m * k, 3), integers::<bf16>(2, n * k, 3));
            let by = |device: &Device| {
                let da = device.tensor(&a, if stored[0] { [k, m] } else { [m, k] }).unwrap();
                let db = device.tensor(&b, if stored[1] { [n, k] } else { [k, n] }).unwrap();
                let mut dc = device.tensor(&integers::<bf16>(3, m * n, 2), [m, n]).unwrap();
                let bias = device.tensor(&integers::<bf16>(4, n, 2), [n]).unwrap();
                let plain = Gemm { a_transposed: stored[0], b_transposed: stored[1], ..Gemm::default() };
                let (alpha, beta, activation) = (0.5, 2.0, Activation::Relu);
                let options = match epilogue {
                    true => Gemm { alpha, beta, bias: Some(&bias), activation, ..plain },
                    false => plain,
                };
                GemmElement::launch(device, choice, &da, &db, &mut dc, &options).unwrap();
                dc.to_vec().unwrap()
            };
            let found = by(&checked);
            assert!(found == by(&fast), "{choice} {stored:?} {m} x {n} x {k} {epilogue}");
            if !epilogue {
                let wanted: Vec<bf16> = product(&a, &b, [m, n, k], stored).into_iter().map(bf16::from_f32).collect();
                assert!(found == wanted, "{choice} {stored:?} {m} x {n} x {k}");
            }
        }
    }
    // Of the first, 112 rows of an operand along K are no whole atoms for each of four blocks; fewer than 64 rows are never across K.
    assert_eq!(tiles, 4 * 19 - 2 + 2 * 4);
}
