"""Attention in Triton, as its tutorial does it (FlashAttention-2: a program has a tile of queries and goes through the keys), with more tiles to choose from."""
import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config(dict(BM=bm, BN=bn), num_warps=warps, num_stages=stages)
           for bm, bn, warps, stages in [(128, 64, 8, 3), (128, 128, 8, 2), (128, 64, 4, 3), (64, 64, 4, 3)]]


@triton.jit
def steps(acc, total, most, q, k, v, kn, vn, rows, begin, end, N, shift, scale, D: tl.constexpr, BN: tl.constexpr, MASKED: tl.constexpr, CAUSAL: tl.constexpr):
    d = tl.arange(0, D)
    for start in range(begin, end, BN):
        keys = start + tl.arange(0, BN)
        if MASKED:
            kt = tl.load(k + keys[None, :] * kn + d[:, None], mask=keys[None, :] < N, other=0.0)
        else:
            kt = tl.load(k + keys[None, :] * kn + d[:, None])
        s = tl.dot(q, kt)
        if MASKED:
            seen = keys[None, :] < N
            if CAUSAL:
                seen = seen & (keys[None, :] <= rows[:, None] + shift)
            s = tl.where(seen, s * scale, -1.0e30)
            new = tl.maximum(most, tl.max(s, 1))
            p = tl.exp2(s - new[:, None])
        else:
            new = tl.maximum(most, tl.max(s, 1) * scale)
            p = tl.exp2(s * scale - new[:, None])
        keep = tl.exp2(most - new)
        total = total * keep + tl.sum(p, 1)
        acc = acc * keep[:, None]
        if MASKED:
            vt = tl.load(v + keys[:, None] * vn + d[None, :], mask=keys[:, None] < N, other=0.0)
        else:
            vt = tl.load(v + keys[:, None] * vn + d[None, :])
        acc = tl.dot(p.to(vt.dtype), vt, acc)
        most = new
    return acc, total, most


@triton.autotune(CONFIGS, key=["M", "N", "D", "CAUSAL"])
@triton.jit
def forward(q, k, v, o, qz, qh, qm, kz, kh, kn, vz, vh, vn, oz, oh, om, H, G, M, N, scale, D: tl.constexpr, CAUSAL: tl.constexpr, BM: tl.constexpr,
            BN: tl.constexpr):
    tile, z, h = tl.program_id(0), tl.program_id(1) // H, tl.program_id(1) % H
    if CAUSAL:
        tile = tl.num_programs(0) - 1 - tile  # the longest first
    z, kv = z.to(tl.int64), h // G
    q, o = q + z * qz + h * qh, o + z * oz + h * oh
    k, v = k + z * kz + kv * kh, v + z * vz + kv * vh
    rows, d, shift = tile * BM + tl.arange(0, BM), tl.arange(0, D), N - M
    qt = tl.load(q + rows[:, None] * qm + d[None, :], mask=rows[:, None] < M, other=0.0)
    most, total = tl.full([BM], -1.0e30, tl.float32), tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    end, whole = N, N // BN * BN
    if CAUSAL:
        end = tl.minimum(N, (tile + 1) * BM + shift)
        whole = tl.minimum(whole, tl.maximum(tile * BM + shift + 1, 0) // BN * BN)
    acc, total, most = steps(acc, total, most, qt, k, v, kn, vn, rows, 0, whole, N, shift, scale, D, BN, False, CAUSAL)
    acc, total, most = steps(acc, total, most, qt, k, v, kn, vn, rows, whole, end, N, shift, scale, D, BN, True, CAUSAL)
    acc = acc / total[:, None]
    tl.store(o + rows[:, None] * om + d[None, :], acc.to(o.dtype.element_ty), mask=rows[:, None] < M)


def call(q, k, v, o, causal):
    """Attention of [B, H, M, D] by the tile that is the fastest, which the first call of a shape finds."""
    (b, h, m, d), n = q.shape, k.shape[2]
    strides = [s for t in (q, k, v, o) for s in t.stride()[:3]]
    grid = lambda meta: (triton.cdiv(m, meta["BM"]), b * h)
    forward[grid](q, k, v, o, *strides, h, h // k.shape[1], m, n, 1.4426950408889634 / d**0.5, d, causal)
