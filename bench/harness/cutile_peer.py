"""NVIDIA cuTile Python (cuda-tile 1.7.0, tileiras 13.4): GEMM and GEMV in about twenty variants each.

The package is looked for in the folder CUTILE_SITE (`bench/peers_bundle.sh` makes one); importing this module fails
where it is not. A variant's first call compiles it (0.1-2 s); kernels are shared between buffer sets.
"""
import functools
import os
import re
import sys

from .contender import Contender

SITE = os.environ.get("CUTILE_SITE", "/tmp/cutile_site")
if os.path.isdir(os.path.join(SITE, "cuda", "tile")) and SITE not in sys.path:
    sys.path.append(SITE)
os.environ.setdefault("CUDA_TILE_CACHE_DIR", "off")

try:
    import cuda.tile as ct  # needs libcuda.so.1
except ModuleNotFoundError:  # another 'cuda' that is no namespace package, or one that was imported before
    import cuda
    cuda.__path__ = [*cuda.__path__, os.path.join(SITE, "cuda")]
    import cuda.tile as ct
from cuda.tile import _compile as _ctc


def _pin_tileiras():
    """Use SITE's tileiras, which must not see CUDA_HOME or CUDA_PATH: with one set it loads that toolkit's libnvvm
    (13.0 on the GPU machine) and fails with 'failed to compile Tile IR program'."""
    exe = os.path.join(SITE, "nvidia", "cu13", "bin", "tileiras")
    if os.path.exists(exe):
        binary = _ctc._CompilerBinary(exe, os.path.dirname(exe) + ":" + os.environ.get("PATH", ""),
                                      os.environ.get("LD_LIBRARY_PATH", ""), False)
        _ctc._find_compiler_bin = lambda: binary


_pin_tileiras()

from typing import Annotated

CI = ct.Constant[int]
CB = ct.Constant[bool]
Static2 = Annotated[ct.Array, ct.ArrayAnnotation(static_shape_dims=(0, 1))]
Static1 = Annotated[ct.Array, ct.ArrayAnnotation(static_shape_dims=(0,))]


# ------------------------------------------------------------------------------------ kernels
def pad(chk):
    # tileiras 13.4.92 rejects check_bounds=False together with padding_mode=ZERO
    if chk:
        return ct.PaddingMode.ZERO
    return ct.PaddingMode.UNDETERMINED


def swizzle(M, N, tm, tn, G, bid):
    # the 2D swizzle of cutile-python's samples: G tile rows share a band of tile columns
    nm = ct.cdiv(M, tm)
    nn = ct.cdiv(N, tn)
    per = G * nn
    first = (bid // per) * G
    gs = min(nm - first, G)
    return first + (bid % gs), (bid % per) // gs


@ct.kernel
def gemm_persistent(A, B, C, tm: CI, tn: CI, tk: CI, G: CI, chk: CB):
    M = A.shape[0]
    N = B.shape[0]
    nk = ct.num_tiles(A, axis=1, shape=(tm, tk))
    total = ct.cdiv(M, tm) * ct.cdiv(N, tn)
    for cur in range(ct.bid(0), total, ct.num_blocks(0)):
        acc = ct.full((tm, tn), 0, dtype=ct.float32)
        bm, bn = swizzle(M, N, tm, tn, G, cur)
        for k in range(nk):
            a = ct.load(A, index=(bm, k), shape=(tm, tk), padding_mode=pad(chk), check_bounds=chk)
            # B is [N, K]; order=(1, 0) makes the tile space that of B^T
            b = ct.load(B, index=(k, bn), shape=(tk, tn), order=(1, 0), padding_mode=pad(chk), check_bounds=chk)
            acc = ct.mma(a, b, acc)
        ct.store(C, index=(bm, bn), tile=ct.astype(acc, C.dtype), check_bounds=chk)


@ct.kernel
def gemm_tile(A, B, C, tm: CI, tn: CI, tk: CI, G: CI, chk: CB):
    nk = ct.num_tiles(A, axis=1, shape=(tm, tk))
    acc = ct.full((tm, tn), 0, dtype=ct.float32)
    bm, bn = swizzle(A.shape[0], B.shape[0], tm, tn, G, ct.bid(0))
    for k in range(nk):
        a = ct.load(A, index=(bm, k), shape=(tm, tk), padding_mode=pad(chk), check_bounds=chk)
        b = ct.load(B, index=(k, bn), shape=(tk, tn), order=(1, 0), padding_mode=pad(chk), check_bounds=chk)
        acc = ct.mma(a, b, acc)
    ct.store(C, index=(bm, bn), tile=ct.astype(acc, C.dtype), check_bounds=chk)


@ct.kernel
def gemv_plain(W, x, y, R: CI, TK: CI):                      # no hint of any kind
    acc = ct.full((R, TK), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(W, axis=1, shape=(R, TK))):
        xv = ct.load(x, index=(k,), shape=(TK,), padding_mode=ct.PaddingMode.ZERO)
        wv = ct.load(W, index=(ct.bid(0), k), shape=(R, TK), padding_mode=ct.PaddingMode.ZERO)
        acc = acc + ct.astype(wv, ct.float32) * ct.reshape(ct.astype(xv, ct.float32), (1, TK))
    ct.store(y, index=(ct.bid(0),), tile=ct.astype(ct.sum(acc, axis=1), y.dtype))


def gemv_rows(W, x, y, r, R, TK, tma, lat, chk):
    acc = ct.full((R, TK), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(W, axis=1, shape=(R, TK))):
        xv = ct.load(x, index=(k,), shape=(TK,), padding_mode=pad(chk), allow_tma=False, latency=lat, check_bounds=chk)
        wv = ct.load(W, index=(r, k), shape=(R, TK), padding_mode=pad(chk), allow_tma=tma, latency=lat, check_bounds=chk)
        acc = acc + ct.astype(wv, ct.float32) * ct.reshape(ct.astype(xv, ct.float32), (1, TK))
    ct.store(y, index=(r,), tile=ct.astype(ct.sum(acc, axis=1), y.dtype), allow_tma=False, check_bounds=chk)


@ct.kernel
def gemv_tile(W, x, y, R: CI, TK: CI, tma: CB, lat: CI, chk: CB):
    gemv_rows(W, x, y, ct.bid(0), R, TK, tma, lat, chk)


@ct.kernel
def gemv_static(W: Static2, x: Static1, y, R: CI, TK: CI, tma: CB, lat: CI, chk: CB):
    gemv_rows(W, x, y, ct.bid(0), R, TK, tma, lat, chk)


@ct.kernel
def gemv_persistent(W, x, y, R: CI, TK: CI, tma: CB, lat: CI, chk: CB):
    for r in range(ct.bid(0), ct.cdiv(W.shape[0], R), ct.num_blocks(0)):
        gemv_rows(W, x, y, r, R, TK, tma, lat, chk)


@ct.kernel
def gemv_mma(W, x2, y, R: CI, TK: CI):
    # x as row 0 of an 8-row tile whose other rows are zero padding: tensor cores, W through TMA
    acc = ct.full((R, 8), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(W, axis=1, shape=(R, TK))):
        wv = ct.load(W, index=(ct.bid(0), k), shape=(R, TK), padding_mode=ct.PaddingMode.ZERO, latency=10)
        xv = ct.load(x2, index=(k, 0), shape=(TK, 8), order=(1, 0), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(wv, xv, acc)
    ct.store(y, index=(ct.bid(0),), tile=ct.astype(ct.sum(acc, axis=1), y.dtype))


KERNELS = {k: v for k, v in globals().items() if isinstance(v, ct.kernel)}


@functools.lru_cache(None)
def kern(name, hints):
    return KERNELS[name].replace_hints(**dict(hints)) if hints else KERNELS[name]


@functools.lru_cache(None)
def sm_count():
    try:
        import torch
        return torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    except Exception:
        return 132


# ------------------------------------------------------------------------------------ variants
W8 = {"num_worker_warps": 8}                                 # two consumer warpgroups: no spills
C2 = {"num_ctas": 2}                                         # one tile = a cluster of 2, multicast
BIG = [  # kernel, tm, tn, tk, group, hints, bounds checks
    ("gemm_persistent", 128, 256, 64, 8, W8, True),
    ("gemm_persistent", 128, 256, 64, 16, W8, True),
    ("gemm_persistent", 128, 256, 64, 8, {}, True),          # out of the box: spills (713 LDL)
    ("gemm_persistent", 128, 256, 64, 8, C2, True),
    ("gemm_persistent", 128, 256, 64, 8, {**C2, **W8}, True),
    ("gemm_persistent", 256, 128, 64, 8, W8, True),
    ("gemm_persistent", 256, 128, 64, 8, {**C2, **W8}, True),
    ("gemm_persistent", 256, 256, 64, 4, {**C2, **W8}, True),
    ("gemm_persistent", 128, 128, 64, 8, {}, True),
    ("gemm_persistent", 128, 128, 64, 8, W8, True),
    ("gemm_tile", 128, 256, 64, 8, W8, True),
    ("gemm_tile", 256, 128, 64, 8, W8, True),
    ("gemm_tile", 256, 256, 64, 4, {**C2, **W8}, True),
    ("gemm_tile", 128, 128, 64, 8, {"occupancy": 2}, True),
    ("gemm_tile", 128, 128, 128, 8, W8, True),
]
SMALL = [  # few output tiles: smaller ones
    ("gemm_tile", 64, 128, 64, 8, {"occupancy": 2}, True),
    ("gemm_tile", 64, 128, 128, 8, {}, True),
    ("gemm_tile", 64, 64, 128, 8, {"occupancy": 2}, True),
    ("gemm_tile", 64, 256, 64, 8, {}, True),
    ("gemm_tile", 64, 32, 256, 8, {"occupancy": 2}, True),
    ("gemm_persistent", 64, 128, 128, 8, {}, True),
    ("gemm_persistent", 64, 64, 128, 8, {"occupancy": 2}, True),
]
# kernel, rows, K tile, TMA, latency, hints
GEMV = [
    ("gemv_plain", 4, 1024, None, None, {}),
    ("gemv_tile", 1, 1024, False, 1, {}),
    ("gemv_tile", 1, 4096, False, 1, {}),
    ("gemv_tile", 2, 1024, False, 1, {}),
    ("gemv_tile", 4, 1024, False, 1, {}),
    ("gemv_tile", 8, 1024, False, 1, {}),
    ("gemv_tile", 4, 512, False, 1, {}),
    ("gemv_tile", 8, 512, False, 1, {}),
    ("gemv_static", 1, 1024, False, 1, {}),
    ("gemv_static", 4, 1024, False, 1, {}),
    ("gemv_static", 8, 1024, False, 1, {}),
    ("gemv_persistent", 4, 1024, False, 1, {"occupancy": 4}),
    ("gemv_tile", 4, 1024, True, 10, {"occupancy": 4}),
    ("gemv_tile", 8, 512, True, 10, {"occupancy": 4}),
    ("gemv_persistent", 4, 1024, True, 10, {}),
    ("gemv_persistent", 8, 1024, True, 10, {}),
    ("gemv_persistent", 8, 512, True, 10, {"occupancy": 4}),
    ("gemv_mma", 64, 256, None, None, {"occupancy": 2}),
    ("gemv_mma", 64, 128, None, None, {}),
    ("gemv_mma", 128, 128, None, None, {"occupancy": 2}),
]
SHORT = {"num_ctas": "cta", "num_worker_warps": "ww", "occupancy": "occ"}


def hint_tag(h):
    return "".join(f" {SHORT[k]}{v}" for k, v in h.items())


def gemm_specs(M, N, K, only=None):
    small = M <= 64 or N <= 64
    few = -(-M // 128) * -(-N // 128) < 132
    specs = [s for s in BIG if s[1:4] == (128, 128, 64)] if small else list(BIG)
    if small or few:
        specs += SMALL
    for kn, tm, tn, tk, g, h, chk in specs:
        if not chk and (M % tm or N % tn or K % tk):
            continue
        label = f"{kn[5:]} {tm}x{tn}x{tk} g{g}{hint_tag(h)}{'' if chk else ' nobounds'}"
        if only is None or re.search(only, label):
            yield label, kn, tm, tn, tk, g, h, chk


def gemv_specs(N, K, only=None):
    for kn, r, tk, tma, lat, h in GEMV:
        if tk > K and kn != "gemv_mma":
            continue
        chk = bool(N % r or K % tk)
        how = "" if tma is None else f" {'tma' if tma else 'ldg'} lat{lat}"
        label = f"{kn[5:]} {r}x{tk}{how}{hint_tag(h)}{'' if chk or tma is None else ' nobounds'}"
        if only is None or re.search(only, label):
            yield label, kn, r, tk, tma, lat, h, chk


def _launcher(grid, kernel, args):
    import torch
    stream, launch = torch.cuda.current_stream, ct.launch

    def run():
        launch(stream(), grid, kernel, args)
    return run


def make_gemm(M, N, K, a, b, c, only=None):
    out = []
    for label, kn, tm, tn, tk, g, h, chk in gemm_specs(M, N, K, only):
        tiles = -(-M // tm) * -(-N // tn)
        if kn == "gemm_persistent":                          # a block is a cluster of num_ctas CTAs
            slots = sm_count() * h.get("occupancy", 1) // h.get("num_ctas", 1)
            tiles = min(tiles, slots)
        out.append((label, _launcher((tiles, 1, 1), kern(kn, tuple(sorted(h.items()))),
                                     (a, b, c, tm, tn, tk, g, chk))))
    return out


def make_gemv(w, x, y, only=None):
    N, K = w.shape
    x, y = x.view(-1), y.view(-1)
    out = []
    for label, kn, r, tk, tma, lat, h, chk in gemv_specs(N, K, only):
        blocks = -(-N // r)
        if kn == "gemv_persistent":
            blocks = min(blocks, sm_count() * h.get("occupancy", 1))
        args = (w, x.view(1, K) if kn == "gemv_mma" else x, y, r, tk)
        if tma is not None:
            args += (tma, lat, chk)
        out.append((label, _launcher((blocks, 1, 1), kern(kn, tuple(sorted(h.items()))), args)))
    return out


def contenders(problem):
    if problem.op == "gemv":
        labels = [spec[0] for spec in gemv_specs(problem.n, problem.k)]

        def make(label, t):
            return dict(make_gemv(t["w"], t["x"], t["y"], only=f"^{re.escape(label)}$"))[label]
    else:
        labels = [spec[0] for spec in gemm_specs(problem.m, problem.n, problem.k)]

        def make(label, t):
            return dict(make_gemm(problem.m, problem.n, problem.k, t["a"], t["b"], t["c"],
                                  only=f"^{re.escape(label)}$"))[label]
    return [Contender("cutile", label, lambda t, label=label: make(label, t)) for label in labels]
