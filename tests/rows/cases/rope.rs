//! Norm, rotation and append to the cache.

use super::*;
use tile_kernel_examples::data::normal;
use tile_kernel_examples::rows::{rope_tables, rotate_head};
use tile_kernels::rope::{Rope, append as append_to};

/// What a call has.
struct Heads {
    tokens: usize,
    queries: usize,
    keys: usize,
    half: usize,
    /// Weights for queries, for keys.
    normed: [bool; 2],
    margins: [usize; 2],
}

pub fn append<T: Rounded>(device: &Device) -> Bits {
    let heads = |tokens, queries, keys, half, normed, margins| Heads { tokens, queries, keys, half, normed, margins };
    let cases = [
        heads(0, 2, 1, 8, [true, true], MARGINS[0]),
        // Qwen3's heads, Llama's, and those of single elements.
        heads(5, 10, 3, 64, [true, true], MARGINS[0]),
        heads(3, 4, 2, 64, [false, false], MARGINS[1]),
        heads(2, 17, 1, 64, [true, true], MARGINS[2]),
        // Heads that lanes do not fill, one norm of two, long heads.
        heads(3, 3, 3, 40, [true, false], MARGINS[0]),
        heads(2, 2, 1, 7, [false, true], MARGINS[0]),
        heads(2, 2, 2, 128, [true, true], MARGINS[0]),
        heads(1, 1, 1, 256, [true, true], MARGINS[2]),
    ];
    cases.iter().flat_map(|case| append_case::<T>(device, case)).collect()
}

const EPSILON: f32 = 1e-6;
const POSITIONS: usize = 50;
const PAGES: usize = 3;
const PAGE: usize = 4;
/// What the caches hold where nothing was stored.
const OLD: f32 = 77.0;

fn append_case<T: Rounded>(device: &Device, case: &Heads) -> Bits {
    let Heads { tokens, queries, keys, half, normed, margins } = *case;
    let d = 2 * half;
    let columns = (queries + 2 * keys) * d;
    let qkv = normal::<T>(half as u64, tokens * columns);
    let weights: [Vec<T>; 2] = [1, 2].map(|seed| normal(seed, d));
    let (cosines, sines) = rope_tables(POSITIONS, half, 10000.0);
    // One position that is not in the tables; a slot beyond the cache, and one that is none.
    let positions: Vec<u32> = [7, 0, POSITIONS as u32 + 3, 49, 8][..tokens].to_vec();
    let slots: Vec<u32> = [11, 2, 5, u32::MAX, (PAGES * PAGE) as u32][..tokens].to_vec();

    let tables = [&cosines, &sines].map(|table| device.tensor(table, [POSITIONS, half]).unwrap());
    let on_device = [0, 1].map(|at| normed[at].then(|| device.tensor(&weights[at], [d]).unwrap()));
    let rope = Rope {
        cosines: &tables[0],
        sines: &tables[1],
        q_norm: on_device[0].as_ref(),
        k_norm: on_device[1].as_ref(),
        epsilon: EPSILON,
    };
    let qkv_device = Framed::new(device, &qkv, [tokens, columns], margins);
    let [positions_device, slots_device] = [&positions, &slots].map(|list| device.tensor(list, [tokens]).unwrap());
    let mut q = device.tensor(&vec![T::from_f32(f32::NAN); tokens * queries * d], [tokens, queries, d]).unwrap();
    let old = vec![T::from_f32(OLD); PAGES * keys * PAGE * d];
    let [mut k, mut v] = [0, 1].map(|_| device.tensor(&old, [PAGES, keys, PAGE, d]).unwrap());
    append_to(device, &rope, qkv_device.view(), &positions_device, &slots_device, &mut q, [&mut k, &mut v]).unwrap();

    let head = |token: usize, head: usize| wide(&qkv[token * columns + head * d..][..d]);
    let rotated = |token: usize, at: usize, norm: usize| {
        let start = positions[token] as usize * half;
        let table = |values: &[f32]| wide(values.get(start..start + half).unwrap_or(&vec![0.0; half]));
        let weight = normed[norm].then(|| wide(&weights[norm]));
        rotate_head(&head(token, at), weight.as_deref(), f64::from(EPSILON), &table(&cosines), &table(&sines))
    };
    let wanted_q: Vec<f64> = (0..tokens)
        .flat_map(|t| (0..queries).flat_map(move |h| [(t, h)]))
        .flat_map(|(t, h)| rotated(t, h, 0))
        .collect();
    let mut wanted_k = vec![f64::from(OLD); old.len()];
    let mut wanted_v = wanted_k.clone();
    for (token, slot) in slots.iter().enumerate().filter(|(_, slot)| (**slot as usize) < PAGES * PAGE) {
        for h in 0..keys {
            let (page, row) = (*slot as usize / PAGE, *slot as usize % PAGE);
            let start = ((page * keys + h) * PAGE + row) * d;
            wanted_k[start..start + d].copy_from_slice(&rotated(token, queries + h, 1));
            wanted_v[start..start + d].copy_from_slice(&head(token, queries + keys + h));
        }
    }
    let what = format!("{tokens} tokens, {queries} and {keys} heads of {d}, {normed:?} {margins:?}");
    let [q, k, v] = [q.to_vec().unwrap(), k.to_vec().unwrap(), v.to_vec().unwrap()];
    // Two products that may cancel, of numbers up to about 10.
    let absolute = 1e-5 + if size_of::<T>() == 4 { 0.0 } else { 1e-4 };
    close(&q, &wanted_q, T::EPSILON + 1e-6, absolute, &format!("q, {what}"));
    close(&k, &wanted_k, T::EPSILON + 1e-6, absolute, &format!("k, {what}"));
    close(&v, &wanted_v, 0.0, 0.0, &format!("v, {what}"));
    [bits(&q), bits(&k), bits(&v)].concat()
}
