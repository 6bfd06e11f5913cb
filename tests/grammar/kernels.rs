//! The kernels: together they use every form of the language. `tests/nvrtc` compiles them too.

use tile_runtime::prelude::*;

#[tile_kernel(
    instances((A, B) in [(2, 4), (4, 8)], FLAG in [true, false], C = 3, where A * B <= 32),
    dtypes(T in [f16, f32]),
    require(K % 4 == 0 && n <= N),
    targets(sm_80, sm_90a),
    min_blocks(2),
    stream(table),
    lints(TK0601 = "off")
)]
pub fn statements<T: Float, const A: usize, const B: usize, const C: usize, const FLAG: bool>(
    x: &Tensor<T, (N, K)>,
    y: &mut Tensor<f32, (N, K)>,
    table: &Tensor<f32, (Fixed<{ 2 * B }>, Fixed<4>)>,
    scale: f32,
    n: usize,
) {
    let most = A * B;
    let [block_y, block_x] = blocks([N, ceil_div(K, most)]);
    let [thread] = threads([A * B]);
    let row = block_y;
    let column = block_x * most + thread;

    let mut shared = alloc_shared::<f32>([A, B]);
    let mut local = alloc_local::<f32>([4]);
    clear(&mut shared);
    fill(&mut local, 1.5);

    let mut sum = 0.0f32;
    for i in 0..C {
        sum += i as f32;
    }
    for i in serial(0..K).step_by(16).unroll(2) {
        sum -= (x.masked([row, i]) * lit(2.0)).cast::<f32>();
    }
    for i in (0..4).step_by(2) {
        sum *= local[i];
    }
    let mut ahead = alloc_local::<T>([2]);
    for i in pipelined(0..ceil_div(K, 2), C) {
        for v in unroll(0..2) {
            ahead[v] = x.masked([row, i * 2 + v]);
        }
        sum += ahead[0].cast::<f32>() - ahead[1].cast::<f32>();
    }
    for i in unroll(0..4) {
        local[i] = table[[i, i % 4]] + sum;
    }
    for [i, j] in parallel([A, B]) {
        shared[[i, j]] += table[[j, i % 4]];
    }
    let picked = if thread % 2 == 0 {
        let near = local[1];
        near * 2.0
    } else if FLAG {
        local[2]
    } else {
        0.25
    };
    if FLAG {
        sum += shared[[thread / B, thread % B]];
    } else {
        sum -= shared[[thread / B, thread % B]];
    }
    {
        let scoped = picked * scale;
        sum += scoped;
    }
    sync_threads();
    sync_warp();
    let total = thread_allreduce(Sum, sum, thread);
    thread_allreduce(Max, &mut local, thread);
    if row < n && column < K {
        y[[row, column]] = total + local[3];
        y[[row, column]] += 1.0;
    }
    *y.masked_mut([row, column + K]) = 7.0;
    device_assert(total == total, "a sum of numbers is a number");
}

#[tile_kernel(require(N % 4 == 0))]
pub fn tiles(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>, copied: &mut Tensor<f32, (M, N)>) {
    let [bn, bm] = blocks([ceil_div(N, 16), ceil_div(M, 8)]);
    let [t, _] = threads([32, 2]);
    let mut tile = alloc_shared::<f32>([8, 16]);
    let mut row = alloc_local::<f32>([4]);
    copy(x.at([bm * 8, bn * 16]), &mut tile);
    copy(&tile, y.tile_mut([bm * 8..bm * 8 + 8, bn * 16..bn * 16 + 16]));
    copy(x.tile([bm * 8..bm * 8 + 8, bn * 16..bn * 16 + 16]), &mut tile).width(4);
    copy(&tile, copied.at_mut([bm * 8, bn * 16]));
    for v in vectorized(0..4) {
        row[v] = tile[[t % 8, t / 8 * 4 + v]];
    }
    device_assert(row[0] == tile[[t % 8, t / 8 * 4]], "one transaction or four loads, the same elements");
}

#[tile_kernel]
pub fn products(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let [bn, bm] = blocks([ceil_div(N, 32), ceil_div(M, 32)]);
    threads([64]);
    let mut left = alloc_shared::<f32>([32, 16]);
    let mut right = alloc_shared::<f32>([32, 16]);
    let mut first = alloc_fragment::<f32>([32, 32]);
    let mut sum = alloc_fragment::<f32>([32, 32]);
    clear(&mut first);
    clear(&mut sum);
    for k in pipelined(0..ceil_div(K, 16), 2) {
        copy(a.at([bm * 32, k * 16]), &mut left);
        copy(b.at([bn * 32, k * 16]), &mut right);
        gemm(&left, right.t(), &mut first).policy(FullRow).clear().tf32();
        gemm(&left, right.t(), &mut sum).policy(FullRow).tf32();
    }
    for [i, j] in parallel([32, 32]) {
        sum[[i, j]] += first[[i, j]];
    }
    copy(&sum, c.at_mut([bm * 32, bn * 32]));
}

/// `c = clamp(a b^T, bounds) + clamp(the greatest of its row and tile, 0, 4)`.
#[tile_kernel(dtypes(T in [f16, bf16]), targets(sm_80, sm_90a))]
pub fn clamped<T: Half>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    bounds: &Tensor<f32, (Fixed<2>,)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    let [bn, bm] = blocks([ceil_div(N, 64), ceil_div(M, 64)]);
    threads([128]);
    let mut left = alloc_shared::<T>([64, 64]);
    let mut right = alloc_shared::<T>([64, 64]);
    let mut sum = alloc_fragment::<f32>([64, 64]);
    let mut greatest = alloc_fragment::<f32>([64]);
    clear(&mut sum);
    for k in pipelined(0..ceil_div(K, 64), 3) {
        copy(a.at([bm * 64, k * 64]), &mut left);
        copy(b.at([bn * 64, k * 64]), &mut right);
        gemm(&left, right.t(), &mut sum).policy(FullRow);
    }
    clamp(&mut sum, bounds[0], bounds[1]);
    reduce(Max, &sum, &mut greatest, 1);
    clamp(&mut greatest, 0.0, 4.0);
    for [i, j] in parallel([64, 64]) {
        sum[[i, j]] += greatest[i];
    }
    copy(&sum, c.at_mut([bm * 64, bn * 64]));
}

#[tile_kernel]
pub fn expressions(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, counts: &mut Tensor<u32, (Fixed<4>,)>, on: bool) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let i = b * 64 + t;
    let v = x.masked([i]);
    let mut bits = (i as u32 & 0xf | 1) ^ 2 << 1 >> 1;
    bits = !bits % 7 / 2 + 1;
    let small = min(max(v, -1.0), 1.0);
    let half = (small.cast::<f16>() * lit::<f16>(0.5) + f16::ONE).cast::<f32>();
    let other = f32::from(bf16::from_f32(0.25)) + f32::ZERO + bf16::ONE.to_f32() - f32::ONE;
    let bounded = if v < f32::INFINITY && v > f32::NEG_INFINITY || !on { v } else { other };
    let chosen = select(bits >= 2 && bits != 3, bounded, -half);
    let (half, chosen) = (half, chosen);
    let exact = fma(chosen, 2.0, sqrt(abs(chosen)));
    let inexact = exp(small) + exp2(small) + log(half) + rsqrt(half + 1.0) + tanh(small);
    let approximate = fast::exp(small) + fast::exp2(small) + fast::log(half) + fast::tanh(small) + fast::recip(small);
    let warp = warp_reduce(Min, exact) + shfl_xor(exact, 1) - shfl_down(exact, 2);
    let votes = ballot(v > 0.0);
    let agreed = any(v > 0.5) && true;
    let unanimous = all(v <= 2.0);
    if inexact < approximate + 1.0 {
        atomic_add(&mut counts[0], 1);
    }
    let before = atomic_max(&mut counts[1], bits);
    atomic_min(&mut counts[2], before * 0 + 5);
    if i < N {
        y[i] = if agreed == unanimous { warp } else { (votes as i32 % 3) as f32 };
    }
    device_print("{} {}", i, v);
}

/// Functions of a number, lanes read by number, and where the greatest value is.
#[tile_kernel]
pub fn numbers(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, words: &mut Tensor<u32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let i = b * 64 + t;
    let v = x.masked([i]);
    let whole = floor(v) + ceil(v) + trunc(v) + round(v) + round_ties_even(v);
    let inexact = sin(v) + cos(v) + pow(abs(v), 0.5) + fast::sin(v) + fast::cos(v);
    let bits = mul_hi(i as u32, 0x9E37_79B9)
        + count_ones(i as u32)
        + leading_zeros(i as u32)
        + trailing_zeros(i as u32)
        + to_bits(v);
    let near = shfl_up(v, 1) + shfl(v, 0);
    let (most, most_at) = thread_argmax(v, i as u32, t);
    let (least, least_at) = thread_argmin(v, i as u32, t);
    let (warp_most, warp_most_at) = warp_argmax(v, i as u32);
    let (mut warp_least, warp_least_at) = warp_argmin(v, i as u32);
    warp_least += most + least + warp_most;
    if i < N {
        y[i] = if is_nan(v) { 0.0 } else { whole + inexact + near + warp_least };
        words[i] = bits ^ most_at ^ least_at ^ warp_most_at ^ warp_least_at;
    }
}

/// Four axes, and an extent that another dim gives.
#[tile_kernel]
pub fn axes(x: &Tensor<f32, (A, B, C, K)>, y: &mut Tensor<f32, (A, B, C, Extent<{ 2 * K }>)>) {
    let [c, b, a] = blocks([C, B, A]);
    let [t] = threads([32]);
    for k in 0..ceil_div(K, 32) {
        if k * 32 + t < K {
            y[[a, b, c, k * 32 + t]] = x[[a, b, c, k * 32 + t]];
            y[[a, b, c, K + k * 32 + t]] = -x[[a, b, c, k * 32 + t]];
        }
    }
}

/// Loops that end early.
#[tile_kernel]
pub fn leaving(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let mut v = x.masked([b * 64 + t]);
    while v > 1.0 {
        v *= 0.5;
    }
    loop {
        v += 0.25;
        if v > 0.0 {
            break;
        }
    }
    for i in 0..8 {
        if i > t {
            v += 1.0;
            break;
        } else {
            v += 2.0;
        }
        v += 4.0;
    }
    if b * 64 + t < N {
        y[b * 64 + t] = v;
    }
}

/// Extents, threads and unrolled loops of a dim.
#[tile_kernel(specialize(K, max = 4), targets(sm_80, sm_90a))]
pub fn specialized(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N, K)>) {
    let share = ceil_div(K, 128);
    let [row] = blocks([N]);
    let [t] = threads([if K < 128 { K } else { 128 }]);
    let mut values = alloc_local::<f32>([share]);
    for i in unroll(0..share) {
        values[i] = x.masked([row, i * 128 + t]);
    }
    for i in unroll(0..share) {
        *y.masked_mut([row, i * 128 + t]) = values[i] + (K as f32);
    }
}

/// The functions of [`functions`].
#[tile_fn]
fn halved<T: Float>(x: T) -> f32 {
    x.cast::<f32>() * 0.5
}

#[tile_fn(uses(halved), dtypes(T in [f16, f32]))]
fn gathered<T, const LIMIT: usize>(
    x: &Tensor<T, (M, N)>,
    bias: Option<&Tensor<f32, (N,)>>,
    values: &mut LocalArray<f32, (V,)>,
    row: usize,
) {
    clear(values);
    for v in unroll(0..V) {
        if v < LIMIT {
            values[v] = halved(x.masked([row, v]));
        }
        if let Some(b) = bias {
            values[v] += b.masked([v]);
        }
    }
}

/// Calls of functions, and tensors that a launch may leave out.
#[tile_kernel(instances(L in [2]), uses(gathered, halved))]
pub fn functions<const L: usize>(
    x: &Tensor<f32, (M, N)>,
    bias: Option<&Tensor<f32, (N,)>>,
    y: &mut Tensor<f32, (M,)>,
    twice: Option<&mut Tensor<f32, (M,)>>,
) {
    let [b] = blocks([ceil_div(M, 32)]);
    let [t] = threads([32]);
    let mut values = alloc_local::<f32>([4]);
    gathered::<_, L>(x, bias, &mut values, b * 32 + t);
    if b * 32 + t < M {
        let sum = values[0] + values[1] + halved(values[3]);
        y[b * 32 + t] = sum;
        if let Some(twice) = twice {
            twice[b * 32 + t] = 2.0 * sum;
        }
    }
}

/// Reductions of tiles, and blocks that wait for each other.
#[tile_kernel]
pub fn reductions(
    x: &Tensor<f32, (M, N)>,
    y: &mut Tensor<f32, (M,)>,
    total: &mut Tensor<f32, (Fixed<1>,)>,
    parts: &mut Workspace<f32, (M,)>,
    arrived: &mut Workspace<u32, (Fixed<1>,)>,
) {
    let [b] = blocks([ceil_div(M, 16)]);
    let [t] = threads([32]);
    let mut tile = alloc_fragment::<f32>([16, 32]);
    let mut rows = alloc_fragment::<f32>([16]);
    let mut most = alloc_shared::<f32>([32]);
    copy(x.at([b * 16, 0]), &mut tile);
    reduce(Max, &tile, &mut most, 0);
    for [i, j] in parallel([16, 32]) {
        tile[[i, j]] -= most[j];
    }
    reduce(Sum, &tile, &mut rows, 1);
    for [i] in parallel([16]) {
        *y.masked_mut([b * 16 + i]) = rows[i];
    }
    if t == 0 {
        parts[b] = most[0];
    }
    if last_arriver(&mut arrived[0], ceil_div(M, 16)) {
        let mut sum = 0.0f32;
        for i in 0..ceil_div(M, 16) {
            sum += parts[i];
        }
        if t == 0 {
            total[0] = sum;
        }
    }
}

/// What blocks of a cluster do together.
#[tile_kernel(targets(sm_90a))]
pub fn clusters(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, Fixed<32>)>) {
    let [b, part] = blocks([ceil_div(M, 16), 4]);
    threads([128]);
    cluster([1, 2]);
    let mut tile = alloc_fragment::<f32>([16, 32]);
    copy(x.at([b * 16, part * 32]), &mut tile);
    cluster_reduce(Sum, &mut tile);
    let mut mine = alloc_shared::<f32>([2, 4]);
    let mut theirs = alloc_shared::<f32>([2, 4]);
    fill(&mut mine, 1.0);
    cluster_exchange(&mine, &mut theirs);
    for [i, j] in parallel([16, 32]) {
        tile[[i, j]] += theirs[[1, j % 4]];
    }
    if part == 0 {
        copy(&tile, y.at_mut([b * 16, 0]));
    }
}
