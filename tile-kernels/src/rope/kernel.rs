//! The kernel: a group of lanes a head, both halves of it in registers.

use tile_runtime::prelude::*;

/// Norms and rotates the query heads of `qkv` into `q`, its key heads into `k_cache`, and copies its value heads into `v_cache`.
///
/// `LANES` lanes have a head; each has `VECS` vectors of `VEC` elements of the first half, and as many of the second, which they
/// are rotated with. A block has 128 threads' heads of one token. Everything but `qkv`, which the previous kernel makes, may be read
/// before that one is done.
#[tile_kernel(
    instances(
        (VEC, LANES, VECS) in [(8, 8, 1), (8, 32, 1), (4, 16, 1), (4, 32, 2), (1, 32, 2), (1, 32, 8)],
        where VEC * T::BITS == 128 || VEC == 1
    ),
    require(HALF % VEC == 0),
    require(HALF <= VEC * LANES * VECS),
    require(PAGE > 0),
    partial(k_cache, v_cache),
    pdl(independent = [cosines, sines, positions, slots, q_norm, k_norm], trigger = AtStart)
)]
pub fn append_heads<T: Float, const VEC: usize, const LANES: usize, const VECS: usize>(
    cosines: &Tensor<f32, (P, HALF)>,
    sines: &Tensor<f32, (P, HALF)>,
    positions: &Tensor<u32, (S,)>,
    slots: &Tensor<u32, (S,)>,
    q: &mut Tensor<T, (S, H, Extent<{ 2 * HALF }>)>,
    q_norm: Option<&Tensor<T, (Extent<{ 2 * HALF }>,)>>,
    k_norm: Option<&Tensor<T, (Extent<{ 2 * HALF }>,)>>,
    k_cache: &mut Tensor<T, (PAGES, HK, PAGE, Extent<{ 2 * HALF }>)>,
    v_cache: &mut Tensor<T, (PAGES, HK, PAGE, Extent<{ 2 * HALF }>)>,
    qkv: &Tensor<T, (S, Extent<{ (H + 2 * HK) * 2 * HALF }>)>,
    epsilon: f32,
) {
    let heads = 128 / LANES; // of a block
    let quad = min(VEC, 4); // f32 of one access
    let [token, group] = blocks([S, ceil_div(H + 2 * HK, heads)]);
    let [lane, which] = threads([LANES, heads]);
    let head = group * heads + which;

    let mut wa = alloc_local::<T>([VECS, VEC]);
    let mut wb = alloc_local::<T>([VECS, VEC]);
    fill(&mut wa, T::ONE);
    fill(&mut wb, T::ONE);
    if let Some(weight) = q_norm {
        if head < H {
            for u in unroll(0..VECS) {
                let i = (u * LANES + lane) * VEC;
                if i < HALF {
                    for v in vectorized(0..VEC) {
                        wa[[u, v]] = weight[i + v];
                        wb[[u, v]] = weight[HALF + i + v];
                    }
                }
            }
        }
    }
    if let Some(weight) = k_norm {
        if head >= H && head < H + HK {
            for u in unroll(0..VECS) {
                let i = (u * LANES + lane) * VEC;
                if i < HALF {
                    for v in vectorized(0..VEC) {
                        wa[[u, v]] = weight[i + v];
                        wb[[u, v]] = weight[HALF + i + v];
                    }
                }
            }
        }
    }

    let position = positions[token] as usize;
    let slot = slots[token] as usize;
    let mut c = alloc_local::<f32>([VECS, VEC]);
    let mut s = alloc_local::<f32>([VECS, VEC]);
    for u in unroll(0..VECS) {
        let i = (u * LANES + lane) * VEC;
        if head < H + HK && i < HALF {
            for part in unroll(0..VEC / quad) {
                for v in vectorized(0..quad) {
                    c[[u, part * quad + v]] = cosines.masked([position, i + part * quad + v]);
                    s[[u, part * quad + v]] = sines.masked([position, i + part * quad + v]);
                }
            }
        }
    }
    let mut a = alloc_local::<T>([VECS, VEC]);
    let mut b = alloc_local::<T>([VECS, VEC]);
    clear(&mut a);
    clear(&mut b);
    for u in unroll(0..VECS) {
        let i = (u * LANES + lane) * VEC;
        if head < H + 2 * HK && i < HALF {
            for v in vectorized(0..VEC) {
                a[[u, v]] = qkv[[token, head * 2 * HALF + i + v]];
                b[[u, v]] = qkv[[token, head * 2 * HALF + HALF + i + v]];
            }
        }
    }

    let mut squares = 0.0f32;
    for u in unroll(0..VECS) {
        for v in unroll(0..VEC) {
            squares += a[[u, v]].cast::<f32>() * a[[u, v]].cast::<f32>();
            squares += b[[u, v]].cast::<f32>() * b[[u, v]].cast::<f32>();
        }
    }
    let total = thread_allreduce(Sum, squares, lane);
    let normed = rsqrt(total / (2 * HALF) as f32 + epsilon);
    let mut scale = 1.0f32;
    if let Some(_) = q_norm {
        if head < H {
            scale = normed;
        }
    }
    if let Some(_) = k_norm {
        if head >= H {
            scale = normed;
        }
    }

    for u in unroll(0..VECS) {
        let i = (u * LANES + lane) * VEC;
        if head < H + HK && i < HALF {
            for v in unroll(0..VEC) {
                let re = a[[u, v]].cast::<f32>() * scale * wa[[u, v]].cast::<f32>();
                let im = b[[u, v]].cast::<f32>() * scale * wb[[u, v]].cast::<f32>();
                a[[u, v]] = (re * c[[u, v]] - im * s[[u, v]]).cast::<T>();
                b[[u, v]] = (im * c[[u, v]] + re * s[[u, v]]).cast::<T>();
            }
        }
        if i < HALF {
            if head < H {
                for v in vectorized(0..VEC) {
                    q[[token, head, i + v]] = a[[u, v]];
                    q[[token, head, HALF + i + v]] = b[[u, v]];
                }
            } else if head < H + HK {
                for v in vectorized(0..VEC) {
                    *k_cache.masked_mut([slot / PAGE, head - H, slot % PAGE, i + v]) = a[[u, v]];
                    *k_cache.masked_mut([slot / PAGE, head - H, slot % PAGE, HALF + i + v]) = b[[u, v]];
                }
            } else {
                for v in vectorized(0..VEC) {
                    *v_cache.masked_mut([slot / PAGE, head - H - HK, slot % PAGE, i + v]) = a[[u, v]];
                    *v_cache.masked_mut([slot / PAGE, head - H - HK, slot % PAGE, HALF + i + v]) = b[[u, v]];
                }
            }
        }
    }
}
