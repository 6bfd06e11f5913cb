"""Triton's row kernels, as its users write them: a program a row, the whole row in a block, sums in f32.

`calls(kernel, n)` gives label -> a function of the buffers, one for each number of warps worth trying on rows of `n` elements. Row
lengths are constants, and a row that fills its block is not masked, as in what torch.compile writes.
"""
import functools

import triton
import triton.language as tl

EPSILON = tl.constexpr(1e-5)


@triton.jit
def load_row(at, columns, N: tl.constexpr, BLOCK: tl.constexpr, other: tl.constexpr):
    if N == BLOCK:
        values = tl.load(at + columns)
    else:
        values = tl.load(at + columns, mask=columns < N, other=other)
    return values


@triton.jit
def store_row(at, columns, values, N: tl.constexpr, BLOCK: tl.constexpr):
    if N == BLOCK:
        tl.store(at + columns, values)
    else:
        tl.store(at + columns, values, mask=columns < N)


@triton.jit
def rms_norm(x, w, y, N: tl.constexpr, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * N
    columns = tl.arange(0, BLOCK)
    weight = load_row(w, columns, N, BLOCK, 0.0).to(tl.float32)
    a = load_row(x + start, columns, N, BLOCK, 0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(a * a, 0) / N + EPSILON)
    store_row(y + start, columns, (a * scale * weight).to(y.dtype.element_ty), N, BLOCK)


@triton.jit
def add_rms_norm(x, r, w, y, N: tl.constexpr, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * N
    columns = tl.arange(0, BLOCK)
    weight = load_row(w, columns, N, BLOCK, 0.0).to(tl.float32)
    added = load_row(x + start, columns, N, BLOCK, 0.0) + load_row(r + start, columns, N, BLOCK, 0.0)
    store_row(r + start, columns, added, N, BLOCK)
    a = added.to(tl.float32)
    scale = tl.rsqrt(tl.sum(a * a, 0) / N + EPSILON)
    store_row(y + start, columns, (a * scale * weight).to(y.dtype.element_ty), N, BLOCK)


@triton.jit
def layer_norm(x, w, s, y, N: tl.constexpr, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * N
    columns = tl.arange(0, BLOCK)
    weight = load_row(w, columns, N, BLOCK, 0.0).to(tl.float32)
    bias = load_row(s, columns, N, BLOCK, 0.0).to(tl.float32)
    a = load_row(x + start, columns, N, BLOCK, 0.0).to(tl.float32)
    centred = a - tl.sum(a, 0) / N
    if N != BLOCK:
        centred = tl.where(columns < N, centred, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / N + EPSILON)
    store_row(y + start, columns, (centred * scale * weight + bias).to(y.dtype.element_ty), N, BLOCK)


@triton.jit
def softmax(x, y, N: tl.constexpr, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * N
    columns = tl.arange(0, BLOCK)
    a = load_row(x + start, columns, N, BLOCK, float("-inf")).to(tl.float32)
    e = tl.exp(a - tl.max(a, 0))
    store_row(y + start, columns, (e / tl.sum(e, 0)).to(y.dtype.element_ty), N, BLOCK)


@triton.jit
def copy(x, y, N: tl.constexpr, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * N
    columns = tl.arange(0, BLOCK)
    store_row(y + start, columns, load_row(x + start, columns, N, BLOCK, 0.0), N, BLOCK)


@triton.jit
def swiglu(x, y, F: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < F
    gate = tl.load(x + row * 2 * F + columns, mask=inside).to(tl.float32)
    up = tl.load(x + row * 2 * F + F + columns, mask=inside).to(tl.float32)
    tl.store(y + row * F + columns, (gate * tl.sigmoid(gate) * up).to(y.dtype.element_ty), mask=inside)


# The buffers of each kernel, in the order of its parameters; the last one is written.
ROWS = {"rms_norm": (rms_norm, "xwy"), "add_rms_norm": (add_rms_norm, "xrwy"), "layer_norm": (layer_norm, "xwsy"), "softmax": (softmax, "xy"),
        "copy": (copy, "xy")}
BLOCKS = [(512, 4), (1024, 4), (2048, 4), (2048, 8), (4096, 8)]


def row_call(function, names, warps, b):
    m, n = b["y"].shape
    function[(m,)](*(b[name] for name in names), n, triton.next_power_of_2(n), num_warps=warps)


def swiglu_call(block, warps, b):
    m, f = b["y"].shape
    swiglu[(m, triton.cdiv(f, block))](b["x"], b["y"], f, block, num_warps=warps)


def calls(kernel, n):
    if kernel == "swiglu":
        return {f"{block}, {warps} warps": functools.partial(swiglu_call, block, warps) for block, warps in BLOCKS}
    function, names = ROWS[kernel]
    # With more than 128 elements a thread a row does not stay in registers.
    worth = [warps for warps in (4, 8, 16, 32) if 1 <= triton.next_power_of_2(n) // (32 * warps) <= 128]
    return {f"{warps} warps": functools.partial(row_call, function, names, warps) for warps in worth}
