//! What is summed or counted: histogram, segmented sum, scan.

use super::*;
use tile_cookbook::{histogram, scan, segmented_sum};

fn words(count: usize, below: u32) -> Vec<u32> {
    (0..count as u32).map(|i| i.wrapping_mul(2_654_435_761).rotate_left(13) % below).collect()
}

#[test]
fn histogram_of_values() {
    for (count, bins, below) in [(1, 256, 1), (1001, 256, 300), (16_388, 1024, 1500), (40_000, 256, 3)] {
        let x = words(count, below);
        let wanted: Vec<u32> = histogram::reference(&x, bins).iter().map(|count| count + 5).collect();
        let run = |device: &Device| {
            let mut counts = device.tensor(&vec![5u32; bins], [bins])?;
            histogram::histogram(device, &device.tensor(&x, [count])?, &mut counts)?;
            counts.to_vec()
        };
        everywhere(Bits::Everywhere, run, |counts| assert_eq!(counts, wanted));
    }
}

#[test]
fn histogram_refuses_other_bins() {
    let device = Device::simulator();
    let x = device.zeros::<u32, 1>([10]).unwrap();
    let error = histogram::histogram(&device, &x, &mut device.zeros([300]).unwrap()).unwrap_err();
    assert!(error.to_string().contains("300"), "{error}");
}

/// Segments of no, one and many elements; also such as no sparse matrix has, which give part of a sum or none.
#[test]
fn segmented_sums() {
    let values = noise::<f32>(5000, 3);
    let regular: Vec<u32> = (0..38).map(|i| (i * i * 3) as u32).collect();
    for offsets in [vec![0, 1], vec![0, 0, 33, 33, 4000, 5000], regular, vec![4990, 6000, 10, u32::MAX, 7]] {
        let wanted = segmented_sum::reference(&wide(&values), &offsets);
        let segments = wanted.len();
        let run = |device: &Device| {
            let mut sums = device.tensor(&vec![f32::NAN; segments], [segments])?;
            let (values, offsets) = (device.tensor(&values, [5000])?, device.tensor(&offsets, [segments + 1])?);
            segmented_sum::segmented_sum(device, &values, &offsets, &mut sums)?;
            sums.to_vec()
        };
        everywhere(Bits::Everywhere, run, |sums| close(sums, &wanted, 1e-5, 1e-3));
    }
}

/// Any number of chunks gives the same sums, also one for less than a chunk, or more chunks than the array fills.
#[test]
fn scan_of_words() {
    for (count, chunks) in [(1, 1), (1001, 1), (5000, 3), (4099, 300), (3333, scan::chunks(3333))] {
        let x = words(count, u32::MAX);
        let wanted = scan::reference(&x);
        let run = |device: &Device| {
            let (mut sums, mut y) =
                (device.tensor(&vec![9u32; chunks], [chunks])?, device.tensor(&vec![7u32; count], [count])?);
            scan::scan(device, device.tensor(&x, [count])?.view(), sums.view_mut(), &mut y)?;
            y.to_vec()
        };
        everywhere(Bits::Everywhere, run, |y| assert_eq!(y, wanted));
    }
}

/// Sums of floats have an order, too: the executors agree bit by bit.
#[test]
fn scan_of_floats() {
    for count in [2500, 4100] {
        let x = noise::<f32>(count, 1);
        let wanted: Vec<f64> = wide(&x)
            .into_iter()
            .scan(0.0, |sum, value| {
                *sum += value;
                Some(*sum)
            })
            .collect();
        let run = |device: &Device| {
            let (mut sums, mut y) = (device.zeros::<f32, 1>([2])?, device.tensor(&vec![f32::NAN; count], [count])?);
            scan::scan(device, device.tensor(&x, [count])?.view(), sums.view_mut(), &mut y)?;
            y.to_vec()
        };
        everywhere(Bits::Everywhere, run, |y| close(y, &wanted, 1e-5, 1e-3));
    }
}
