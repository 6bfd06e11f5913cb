//! What computes each element by itself: RoPE, SwiGLU.

use super::*;
use tile_cookbook::{rope, swiglu};

fn rope_of<T: Rounded>() {
    for [tokens, heads, half] in [[1, 1, 1], [5, 3, 33], [7, 17, 64], [2, 20, 36]] {
        let (x, d) = (noise::<T>(tokens * heads * 2 * half, half), 2 * half);
        let (cosines, sines) = rope::tables(41, half, 10_000.0);
        let positions: Vec<u32> = (0..tokens).map(|token| (token * 17 % 41) as u32).collect();
        let wanted = rope::reference(&wide(&x), (&cosines, &sines), &positions, heads, half);
        let run = |device: &Device| {
            let mut y = device.tensor(&vec![T::of(f32::NAN); x.len()], [tokens, heads, d])?;
            let (cosines, sines) = (device.tensor(&cosines, [41, half])?, device.tensor(&sines, [41, half])?);
            let x = device.tensor(&x, [tokens, heads, d])?;
            rope::rope(device, &x, &cosines, &sines, &device.tensor(&positions, [tokens])?, &mut y)?;
            y.to_vec()
        };
        everywhere(Bits::Everywhere, run, |y| close(y, &wanted, T::EPSILON, 1e-6));
    }
}

#[test]
fn rope_in_f32() {
    rope_of::<f32>();
}

#[test]
fn rope_in_bf16() {
    rope_of::<bf16>();
}

/// A position that the table does not have gives zeros, whatever is there.
#[test]
fn rope_of_an_unknown_position() {
    let run = |device: &Device| {
        let mut y = device.tensor(&[f32::NAN; 8], [1, 1, 8])?;
        let table = device.tensor(&[1.0f32; 4], [1, 4])?;
        let x = device.tensor(&[1.0f32; 8], [1, 1, 8])?;
        rope::rope(device, &x, &table, &table, &device.tensor(&[u32::MAX], [1])?, &mut y)?;
        y.to_vec()
    };
    everywhere(Bits::Everywhere, run, |y| assert_eq!(y, [0.0; 8]));
}

fn swiglu_of<T: Rounded>() {
    for [m, f] in [[1, 1], [3, 100], [5, 257], [2, 4104]] {
        let x = noise::<T>(2 * m * f, f);
        let wanted = swiglu::reference(&wide(&x), f);
        let run = |device: &Device| {
            let mut y = device.tensor(&vec![T::of(f32::NAN); m * f], [m, f])?;
            swiglu::swiglu(device, &device.tensor(&x, [m, 2 * f])?, &mut y)?;
            y.to_vec()
        };
        everywhere(Bits::OnSimulators, run, |y| close(y, &wanted, T::EPSILON + 2e-6, 1e-7));
    }
}

#[test]
fn swiglu_in_f32() {
    swiglu_of::<f32>();
}

#[test]
fn swiglu_in_bf16() {
    swiglu_of::<bf16>();
}
