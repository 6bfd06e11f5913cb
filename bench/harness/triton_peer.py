"""Triton: the kernels its users would write, in the configurations they would try."""
import functools

import torch
import triton
import triton.language as tl

from .contender import Contender

GEMV_CONFIGS = [(bn, bk, warps) for bn in (1, 2, 4, 8) for bk in (512, 1024, 2048) for warps in (1, 2, 4, 8)]
# Those of them that are the fastest somewhere in results/gemv-h200.json, or meant for short rows.
GEMV_FEW = [(2, 1024, 1), (2, 1024, 4), (2, 2048, 8), (8, 512, 4)]
GEMM_CONFIGS = [(128, 256, 64, 3, 8), (128, 128, 64, 4, 8), (128, 128, 128, 3, 8), (64, 128, 128, 4, 4), (64, 256, 64, 4, 4)]


@triton.jit
def gemv_kernel(x, w, y, N, K, BN: tl.constexpr, BK: tl.constexpr, PDL: tl.constexpr):
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros((BN, BK), tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        xv = tl.load(x + rk, mask=rk < K, other=0.0).to(tl.float32)
        wv = tl.load(w + rn[:, None] * K + rk[None, :], mask=(rn[:, None] < N) & (rk[None, :] < K), other=0.0)
        acc += wv.to(tl.float32) * xv[None, :]
    tl.store(y + rn, tl.sum(acc, 1).to(y.dtype.element_ty), mask=rn < N)


def gemv_call(config, b, dependent=False):
    bn, bk, warps = config
    w, x, y = b["w"], b["x"], b["y"]
    n, k = w.shape
    extra = {"launch_pdl": True} if dependent else {}
    return lambda: gemv_kernel[(triton.cdiv(n, bn),)](x, w, y, n, k, bn, bk, dependent, num_warps=warps, **extra)


@triton.jit
def gemm_kernel(a_d, b_d, c_d, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                G: tl.constexpr, CTAS: tl.constexpr, AT: tl.constexpr, BT: tl.constexpr):
    nm, nn = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), nm * nn, CTAS, flatten=True):
        per = G * nn
        first = tile // per * G
        rows = min(nm - first, G)
        pm = first + (tile % rows)
        pn = (tile % per) // rows
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(K, BK)):
            if AT:
                a = a_d.load([k * BK, pm * BM]).T
            else:
                a = a_d.load([pm * BM, k * BK])
            if BT:
                b = b_d.load([pn * BN, k * BK]).T
            else:
                b = b_d.load([k * BK, pn * BN])
            acc = tl.dot(a, b, acc)
        c_d.store([pm * BM, pn * BN], acc.to(c_d.dtype))


@functools.cache
def multiprocessors():
    return torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count


def gemm_call(config, t, layout="nt"):
    from triton.tools.tensor_descriptor import TensorDescriptor
    bm, bn, bk, stages, warps = config
    a_t, b_t = (letter == "t" for letter in layout)
    m, k = reversed(t["a"].shape) if a_t else t["a"].shape
    n = t["b"].shape[0 if b_t else 1]
    a = TensorDescriptor.from_tensor(t["a"], [bk, bm] if a_t else [bm, bk])
    b = TensorDescriptor.from_tensor(t["b"], [bn, bk] if b_t else [bk, bn])
    c = TensorDescriptor.from_tensor(t["c"], [bm, bn])
    ctas = min(multiprocessors(), triton.cdiv(m, bm) * triton.cdiv(n, bn))
    return lambda: gemm_kernel[(ctas,)](a, b, c, m, n, k, bm, bn, bk, 8, ctas, a_t, b_t, num_stages=stages, num_warps=warps)


def contenders(problem):
    configs, call = (GEMV_CONFIGS, gemv_call) if problem.op == "gemv" else (GEMM_CONFIGS, gemm_call)
    return [Contender("triton", str(c), lambda t, c=c: call(c, t)) for c in configs]
