//! Random words: Philox and dropout.

use super::*;
use tile_cookbook::dropout::{dropout, philox, philox_reference, reference};

/// Philox of the four words of each column of `x`, four words a column of `y`.
#[tile_kernel(uses(philox))]
fn philox_columns(x: &Tensor<u32, (Fixed<6>, N)>, y: &mut Tensor<u32, (Fixed<4>, N)>) {
    let [block] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let column = block * 32 + t;
    let mut words = alloc_local::<u32>([4]);
    for i in unroll(0..4) {
        words[i] = x.masked([i, column]);
    }
    philox(&mut words, x.masked([4, column]), x.masked([5, column]));
    for i in unroll(0..4) {
        *y.masked_mut([i, column]) = words[i];
    }
}

/// The known answers of the authors' library, Random123 (`kat_vectors`): counter, key, words.
const KNOWN: [([u32; 4], [u32; 2], [u32; 4]); 3] = [
    ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
    ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
    (
        [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
        [0xa409_3822, 0x299f_31d0],
        [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
    ),
];

#[test]
fn philox_has_the_known_answers() {
    let columns = |row: usize| KNOWN.iter().map(move |(c, k, _)| if row < 4 { c[row] } else { k[row - 4] });
    let x: Vec<u32> = (0..6).flat_map(columns).collect();
    let wanted: Vec<u32> = (0..4).flat_map(|row| KNOWN.iter().map(move |known| known.2[row])).collect();
    for (counter, key, words) in KNOWN {
        assert_eq!(philox_reference(counter, key), words);
    }
    let run = |device: &Device| {
        let mut y = device.zeros::<u32, 2>([4, 3])?;
        philox_columns::launch(device, &device.tensor(&x, [6, 3])?, &mut y)?;
        y.to_vec()
    };
    everywhere(Bits::Everywhere, run, |y| assert_eq!(y, wanted));
}

fn dropout_of<T: Rounded>() {
    for (count, p) in [(1, 0.5), (1001, 0.1), (5000, 0.9), (2052, 0.0), (100, 1.0)] {
        let x = noise::<T>(count, 5);
        let x32: Vec<f32> = x.iter().map(|x| x.up() as f32).collect();
        let wanted: Vec<f64> = reference(&x32, p, 0x1234_5678_9abc, 7).into_iter().map(|y| T::of(y).up()).collect();
        let run = |device: &Device| {
            let mut y = device.tensor(&vec![T::of(f32::NAN); count], [count])?;
            dropout(device, &device.tensor(&x, [count])?, &mut y, p, 0x1234_5678_9abc, 7)?;
            y.to_vec()
        };
        everywhere(Bits::Everywhere, run, |y| close(y, &wanted, 0.0, 0.0));
    }
}

#[test]
fn dropout_in_f32() {
    dropout_of::<f32>();
}

#[test]
fn dropout_in_bf16() {
    dropout_of::<bf16>();
}

/// As many elements are dropped as the probability says: within six standard deviations.
#[test]
fn dropout_drops_as_many_as_asked() {
    let (count, p) = (40_000, 0.25);
    let device = Device::simulator();
    let mut y = device.zeros::<f32, 1>([count]).unwrap();
    dropout(&device, &device.tensor(&vec![1.0f32; count], [count]).unwrap(), &mut y, p, 99, 0).unwrap();
    let dropped = y.to_vec().unwrap().iter().filter(|y| **y == 0.0).count() as f64;
    let deviation = (count as f64 * p * (1.0 - p)).sqrt();
    assert!((dropped - count as f64 * p).abs() < 6.0 * deviation, "{dropped}");
}
