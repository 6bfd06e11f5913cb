//! Attention with grouped heads.

use super::*;
use tile_cookbook::attention::{Extents, attention, reference};

fn attention_of<T: Rounded + Half>(shapes: &[[usize; 5]]) {
    for &[heads, key_heads, m, n, d] in shapes {
        let extents = Extents { heads, key_heads, m, n, d };
        let [q, k, v] =
            [(heads * m, 0), (key_heads * n, 70), (key_heads * n, 90)].map(|(rows, seed)| noise::<T>(rows * d, seed));
        let wanted = reference(&wide(&q), &wide(&k), &wide(&v), extents);
        let run = |device: &Device| {
            let mut o = device.tensor(&vec![T::of(f32::NAN); heads * m * d], [heads, m, d])?;
            let q = device.tensor(&q, [heads, m, d])?;
            let (k, v) = (device.tensor(&k, [key_heads, n, d])?, device.tensor(&v, [key_heads, n, d])?);
            attention(device, &q, &k, &v, &mut o)?;
            o.to_vec()
        };
        // A weight is at most 1 and rounded once, which moves a mean of values by at most epsilon times the largest,
        // which is 2; so does rounding the result.
        everywhere(Bits::Nowhere, run, |o| close(o, &wanted, 0.0, 4.0 * T::EPSILON + 1e-4));
    }
}

#[test]
fn attention_in_f16() {
    attention_of::<f16>(&[[1, 1, 1, 1, 64], [4, 2, 70, 70, 64], [3, 1, 33, 150, 64]]);
}

#[test]
fn attention_in_bf16() {
    attention_of::<bf16>(&[[2, 1, 130, 131, 128], [1, 1, 1, 70, 64], [4, 2, 33, 33, 128]]);
}

/// Extents that no attention has are errors, whatever they are.
#[test]
fn attention_refuses_what_does_not_fit() {
    for device in [Device::simulator(), Device::checked_simulator()] {
        for ([heads, key_heads, m, n, d], words) in [
            ([4, 3, 8, 8, 64], "H % HK == 0"),
            ([4, 0, 8, 8, 64], "H % HK == 0"),
            ([2, 4, 8, 8, 64], "H % HK == 0"),
            ([2, 1, 9, 8, 64], "past + M == N"),
            ([2, 1, 8, 8, 65], "no instance"),
            ([2, 1, 8, 8, 0], "no instance"),
        ] {
            let of = |heads: usize, rows: usize| device.zeros::<f16, 3>([heads, rows, d]).unwrap();
            let (q, k, v, mut o) = (of(heads, m), of(key_heads, n), of(key_heads, n), of(heads, m));
            let error = attention(&device, &q, &k, &v, &mut o).unwrap_err().to_string();
            assert!(error.contains(words), "{heads} {key_heads} {m} {n} {d}: {error}");
        }
    }
}
