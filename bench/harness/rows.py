"""The row kernels of `tile-kernels` as `bench/cookbook.py --cases rows` runs them; a case is as in `recipes.py`.

`triton` of a case names a kernel of `triton_rows.py`, which is imported where there is a GPU. Bytes are of all operands, weights too:
a launch on one row reads as much of them as of the row.
"""
from dataclasses import replace

import torch
import torch.nn.functional as F

from . import recipes
from .recipes import BF16, Case, against, normal

EPSILON = 1e-5


def empty(m, n):
    return torch.empty(m, n, device=recipes.device, dtype=BF16)


def norm(kernel, weights, m, n):
    """A norm of `x` with one tensor of weights or two (`layer_norm`)."""
    function = {"rms_norm": lambda x, w: F.rms_norm(x, (n,), *w, EPSILON), "layer_norm": lambda x, w: F.layer_norm(x, (n,), *w, EPSILON)}[kernel]
    names = ["w", "s"][:weights]
    of = lambda b: [b[name] for name in names]
    return Case(f"kernels/{kernel}", BF16, (m, n), lambda: dict(x=normal(m, n), y=empty(m, n), **{name: normal(n) for name in names}),
                lambda b: ([b["x"], *of(b), b["y"]], [EPSILON]), {kernel: lambda b: function(b["x"], of(b))},
                against(lambda b: function(b["x"].float(), [w.float() for w in of(b)])), (2 * m * n + weights * n) * BF16.itemsize,
                tolerance=4e-3, triton=kernel)


def rms_norm(m, n):
    return norm("rms_norm", 1, m, n)


def layer_norm(m, n):
    return norm("layer_norm", 2, m, n)


def add_rms_norm(m, n):
    return replace(recipes.rms_norm(m, n), recipe="kernels/add_rms_norm", nbytes=(4 * m * n + n) * BF16.itemsize, triton="add_rms_norm")


def softmax(m, n):
    return replace(recipes.softmax(m, n), recipe="kernels/softmax", triton="softmax")


def swiglu(m, f):
    return replace(recipes.swiglu(m, f), recipe="kernels/swiglu", triton="swiglu")


def argmax(m, n):
    return replace(recipes.argmax(m, n), recipe="kernels/argmax")


def embedding(rows, k, n):
    return replace(recipes.gather(rows, k, n), recipe="kernels/embedding", torch={"embedding": lambda b: F.embedding(b["at"], b["table"])})


def cases(small):
    """Shapes of layers and decode steps; with `small`, ragged ones that a simulator can do: in registers, and read twice."""
    if small:
        return [rms_norm(3, 1000), rms_norm(3, 1001), add_rms_norm(3, 1000), add_rms_norm(2, 8200), layer_norm(3, 1000), layer_norm(3, 1001),
                softmax(3, 1000), softmax(2, 33000), swiglu(3, 1000), argmax(3, 9001), embedding(37, 1000, 5)]
    return [*(rms_norm(*shape) for shape in [(4096, 4096), (8192, 8192), (16384, 7168), (32768, 1024), (64, 8192), (1, 8192), (16, 4096)]),
            *(add_rms_norm(*shape) for shape in [(4096, 4096), (16384, 7168), (64, 8192), (1, 4096)]),
            *(layer_norm(*shape) for shape in [(4096, 4096), (32768, 1024), (64, 4096)]),
            *(softmax(*shape) for shape in [(4096, 4096), (32768, 1024), (4096, 32768), (64, 4096)]),
            *(swiglu(*shape) for shape in [(4096, 14336), (64, 14336), (1, 14336)]),
            argmax(64, 151936), argmax(1, 151936), embedding(151936, 4096, 64)]
