//! Products of operands that are copied first to where TMA fetches them: against a product on the CPU, as tf32 and of 16 bits, whatever
//! their layout and alignment.

use tile_kernel_examples::data::{Real, hash, normal};
use tile_kernel_examples::gemm::{Case, LAYOUTS};
use tile_kernels::gemm::pack::Pack;
use tile_kernels::gemm::{Choice, Gemm, GemmElement, Precision, candidates, class, gemm, gemm_by};
use tile_runtime::kernel::Width;
use tile_runtime::prelude::*;

fn shape(transposed: bool, rows: usize, cols: usize) -> [usize; 2] {
    if transposed { [cols, rows] } else { [rows, cols] }
}

fn is_packed(choice: &Choice) -> bool {
    choice.packs != [None; 2]
}

/// The fastest and the slowest of the choices for copies of the operands give the product of the CPU. What is copied.
fn check<T: GemmElement<U> + Real, U: Real>(
    device: &Device,
    shape: [usize; 3],
    stored: [bool; 2],
    pads: [usize; 3],
    precision: Precision,
) -> [Option<Pack>; 2] {
    let case = Case::<T, U>::new(shape, stored, pads);
    let mut copied = [None; 2];
    let checked = case.check(device, precision, |a, b, mut c, options| {
        let all = candidates(device, a, b, c.reborrow(), options);
        let packed: Vec<Choice> = all.iter().map(|(choice, _)| *choice).filter(is_packed).collect();
        let [first, .., last] = packed[..] else { return gemm(device, a, b, c, options) };
        copied = first.packs;
        assert_eq!(last.packs, copied, "{first}, {last}");
        let old = c.view().to_vec()?;
        gemm_by(device, last, a, b, c.reborrow(), options)?;
        let by_last = c.view().to_vec()?;
        c.write(&old)?;
        gemm_by(device, first, a, b, c.reborrow(), options)?;
        assert!(by_last == c.view().to_vec()?, "{first} and {last}: {shape:?} {stored:?} {pads:?}, {options:?}");
        Ok(())
    });
    checked.unwrap();
    copied
}

/// As tf32, what begins between multiples of 16 bytes gets another pitch; of operands that are both stored across K the smaller one is
/// transposed.
fn tf32(device: &Device, shapes: &[[usize; 3]]) {
    let rows = |vec| Some(Pack::Rows { vec });
    for &shape @ [m, n, k] in shapes {
        for stored in LAYOUTS {
            for pads in [[0; 3], [4, 0, 4], [1, 2, 3]] {
                let found = check::<f32, f32>(device, shape, stored, pads, Precision::Tf32);
                let packed = |transposed: bool, width: usize, pad: usize| {
                    let pitch = width + pad;
                    match (transposed, pitch % 4, pitch % 2, width % 2) {
                        (true, ..) => Some(Pack::Transposed),
                        (false, 0, ..) => None,
                        (false, _, 0, 0) => rows(2),
                        (false, ..) => rows(1),
                    }
                };
                let across = stored == [true, false];
                let wanted = [
                    packed(across && m < n, if stored[0] { m } else { k }, pads[0]),
                    packed(across && m >= n, if stored[1] { k } else { n }, pads[1]),
                ];
                assert_eq!(found, wanted, "{m} x {n} x {k} {stored:?} {pads:?}");
            }
        }
    }
}

/// Of 16 bits, what begins between multiples of 16 bytes gets another pitch; nothing else is copied.
fn halves<T: GemmElement<U> + Real, U: Real>(device: &Device, shapes: &[[usize; 3]]) {
    for &shape in shapes {
        for stored in LAYOUTS {
            check::<T, U>(device, shape, stored, [0; 3], Precision::Full);
            check::<T, U>(device, shape, stored, [2, 0, 1], Precision::Full);
        }
    }
    let rows = |vec| Some(Pack::Rows { vec });
    let packs = |shape, pads| check::<T, U>(device, shape, [false, true], pads, Precision::Full);
    assert_eq!(packs([9, 17, 37], [0, 3, 0]), [rows(1), None]);
    assert_eq!(packs([9, 17, 36], [0, 4, 1]), [rows(4), None]);
    assert_eq!(packs([9, 17, 38], [2, 0, 8]), [None, rows(2)]);
    assert_eq!(packs([9, 17, 40], [8, 0, 1]), [None, None]);
    // Few rows of an operand that is stored across K are transposed, whatever their alignment; 64 rows are what `wgmma` reads.
    let packs = |shape, stored, pads| check::<T, U>(device, shape, stored, pads, Precision::Full);
    let turned = Some(Pack::Transposed);
    assert_eq!(packs([8, 72, 136], [true, false], [0; 3]), [turned, None]);
    assert_eq!(packs([24, 40, 72], [true, true], [8, 8, 0]), [turned, None]);
    assert_eq!(packs([5, 17, 38], [true, true], [0, 1, 0]), [turned, rows(1)]);
    assert_eq!(packs([64, 72, 40], [true, false], [0; 3]), [None; 2]);
}

#[test]
fn tf32_on_the_fast_simulator() {
    tf32(&Device::simulator(), &[[1, 1, 1], [70, 131, 65], [130, 70, 72], [3, 264, 34]]);
}

#[test]
fn tf32_on_the_checked_simulator() {
    tf32(&Device::checked_simulator(), &[[33, 66, 38]]);
}

#[test]
fn halves_on_the_fast_simulator() {
    let device = &Device::simulator();
    halves::<bf16, bf16>(device, &[[1, 1, 1], [70, 131, 65], [3, 264, 34]]);
    halves::<f16, f32>(device, &[[130, 70, 75]]);
}

#[test]
fn halves_on_the_checked_simulator() {
    halves::<f16, f16>(&Device::checked_simulator(), &[[33, 66, 37]]);
}

/// What a call takes, without and with a graph; every launch gives the same bits, on both simulators.
#[test]
fn calls_are_packed() {
    let [m, n, k] = [200, 72, 4098];
    let (a, b) = (normal::<f32>(1, m * k), normal::<f32>(2, n * k));
    let options = Gemm { a_transposed: true, ..Gemm::default() }.tf32();
    let device = &Device::simulator();
    let (da, db) = (device.tensor(&a, [k, m]).unwrap(), device.tensor(&b, [k, n]).unwrap());
    let mut c = device.zeros::<f32, 2>([m, n]).unwrap();
    let all = candidates(device, &da, &db, &mut c, &options);
    let packed = all.iter().map(|(choice, _)| *choice).find(is_packed).unwrap();
    assert!(packed.to_string().starts_with("b transposed, "), "{packed}");
    let mut found = vec![];
    for _ in 0..2 {
        gemm_by(device, packed, &da, &db, &mut c, &options).unwrap();
        found.push(hash(&c.to_vec().unwrap()));
    }
    let (mut first, mut second) = (device.zeros::<f32, 2>([m, n]).unwrap(), device.zeros::<f32, 2>([m, n]).unwrap());
    let graph = device.capture(|on| {
        gemm_by(on, packed, &da, &db, &mut first, &options)?;
        Ok(gemm_by(on, packed, &da, &db, &mut second, &options)?)
    });
    graph.unwrap().launch().unwrap();
    found.extend([&first, &second].map(|c| hash(&c.to_vec().unwrap())));
    assert!(found.iter().all(|bits| *bits == found[0]), "{found:?}");
}

/// Large products of operands that TMA does not fetch take copies of them; the class is that of the product of the copies.
#[test]
fn what_is_packed_and_what_is_not() {
    fn packs<T: GemmElement + Real>(
        [m, n, k]: [usize; 3],
        stored: [bool; 2],
        precision: Precision,
    ) -> [Option<Pack>; 2] {
        let device = &Device::simulator();
        let (a, b) = (
            device.zeros::<T, 2>(shape(stored[0], m, k)).unwrap(),
            device.zeros::<T, 2>(shape(stored[1], k, n)).unwrap(),
        );
        let mut c = device.zeros::<T, 2>([m, n]).unwrap();
        let options = Gemm { a_transposed: stored[0], b_transposed: stored[1], precision, ..Gemm::default() };
        let choice = candidates(device, &a, &b, &mut c, &options)[0].0;
        if is_packed(&choice) {
            assert_eq!(class(device, &a, &b, &mut c, &options).unwrap().reads, Width::Sixteen, "{choice}");
        }
        choice.packs
    }
    let (turned, rows) = (Some(Pack::Transposed), |vec| Some(Pack::Rows { vec }));
    assert_eq!(packs::<f32>([800, 2664, 2960], [true, false], Precision::Tf32), [turned, None]);
    assert_eq!(packs::<f32>([2664, 800, 2960], [true, false], Precision::Tf32), [None, turned]);
    for stored in [[true, true], [false, false], [false, true]] {
        assert_eq!(packs::<f32>([800, 2664, 2960], stored, Precision::Tf32), [None; 2]);
    }
    assert_eq!(packs::<f32>([800, 2664, 2960], [true, true], Precision::Full), [None; 2]);
    assert_eq!(packs::<bf16>([2274, 3739, 149], [false, true], Precision::Full), [rows(1), rows(1)]);
    assert_eq!(packs::<f16>([1076, 112, 15_902], [false, true], Precision::Full), [rows(2), rows(2)]);
    assert_eq!(packs::<f16>([1, 64, 65], [false, true], Precision::Full), [None; 2]);
    assert_eq!(packs::<f32>([1, 64, 65], [true, false], Precision::Tf32), [None; 2]);
}

/// What there is nothing to copy of is not copied, and is right.
#[test]
fn empty_products() {
    let device = &Device::simulator();
    for [m, n, k] in [[0, 5, 7], [5, 0, 7], [5, 9, 0]] {
        for [a_transposed, b_transposed] in LAYOUTS {
            let (a, b) = (
                device.zeros::<f32, 2>(shape(a_transposed, m, k)).unwrap(),
                device.zeros::<f32, 2>(shape(b_transposed, k, n)).unwrap(),
            );
            let mut c = device.tensor(&vec![5.0; m * n], [m, n]).unwrap();
            let options = Gemm { a_transposed, b_transposed, ..Gemm::default() }.tf32();
            assert!(!candidates(device, &a, &b, &mut c, &options).iter().any(|(choice, _)| is_packed(choice)));
            gemm(device, &a, &b, &mut c, &options).unwrap();
            assert_eq!(c.to_vec().unwrap(), vec![0.0; m * n]);
        }
    }
}

/// A call that is refused is refused before anything is copied.
#[test]
fn what_is_refused_is_not_packed() {
    let device = &Device::simulator();
    let (a, b) = (device.zeros::<f32, 2>([512, 512]).unwrap(), device.zeros::<f32, 2>([512, 500]).unwrap());
    let mut c = device.zeros::<f32, 2>([512, 512]).unwrap();
    let options = Gemm { b_transposed: false, ..Gemm::default() }.tf32();
    assert!(!candidates(device, &a, &b, &mut c, &options).iter().any(|(choice, _)| is_packed(choice)));
    assert!(gemm(device, &a, &b, &mut c, &options).is_err());
    let elsewhere = Device::checked_simulator();
    let (b, mut c) = (device.zeros::<f32, 2>([512, 512]).unwrap(), elsewhere.zeros::<f32, 2>([512, 512]).unwrap());
    assert!(!candidates(device, &a, &b, &mut c, &options).iter().any(|(choice, _)| is_packed(choice)));
    assert!(gemm(device, &a, &b, &mut c, &options).is_err());
}
