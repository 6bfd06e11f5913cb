//! The next token.

use super::*;
use tile_kernel_examples::data::{integers, normal};
use tile_kernel_examples::rows as reference;

pub fn argmax<T: Rounded>(device: &Device) -> Bits {
    let mut all = Vec::new();
    for shape @ [m, n] in [[0, 8], [1, 1], [3, 100], [2, 4104], [4, 8193], [1, 70000]] {
        for (margins, seed) in MARGINS.into_iter().zip(0..) {
            // Numbers, many equal ones, and rows with what is no number.
            let mut logits = if seed == 1 { integers::<T>(seed, m * n, 3) } else { normal::<T>(seed, m * n) };
            if seed == 2 {
                logits.iter_mut().step_by(3).for_each(|v| *v = T::from_f32(f32::NAN));
                logits.iter_mut().skip(1).step_by(7).for_each(|v| *v = T::from_f32(f32::NEG_INFINITY));
            }
            all.extend(argmax_of(device, &logits, shape, margins));
        }
    }
    // Nothing above -inf, nothing at all, infinities.
    for row in [
        [f32::NAN, f32::NEG_INFINITY, f32::NEG_INFINITY],
        [f32::NAN; 3],
        [f32::INFINITY, f32::NAN, f32::INFINITY],
        [f32::NEG_INFINITY; 3],
    ] {
        all.extend(argmax_of(device, &row.map(T::from_f32), [1, 3], MARGINS[0]));
    }
    all
}

fn argmax_of<T: Rounded>(device: &Device, logits: &[T], shape: [usize; 2], margins: [usize; 2]) -> Bits {
    let logits_device = Framed::new(device, logits, shape, margins);
    let mut tokens = device.tensor(&vec![12345u32; shape[0]], [shape[0]]).unwrap();
    tile_kernels::sampling::argmax(device, logits_device.view(), &mut tokens).unwrap();
    let tokens = tokens.to_vec().unwrap();
    assert_eq!(tokens, reference::argmax(&wide(logits), shape[1]), "{shape:?} {margins:?}");
    tokens
}
