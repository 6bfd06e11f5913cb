"""Products that are drawn from a seed: of matrices, of batches of them, with an epilogue, and of a matrix and a vector.

Each class says how `cookbook_for_python` knows the product (`entry`, `scalars`), what the tensors of a call are (the result is the third),
what they must come to, and who computes the same: cuBLAS as torch calls it, cuBLASLt, Triton.
"""
import math
import random
from dataclasses import dataclass

import torch

from . import cublaslt
from .workloads import relative_error

TORCH = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "tf32": torch.float32}
# The rounding of a 16-bit result is 2^-9 or 2^-12; tf32 rounds each operand by 2^-10.
TOLERANCE = {"bf16": 4e-3, "f16": 1e-3, "f32": 1e-5, "tf32": 2e-3}
RESULT = 2


def every_heuristic(matmul, sets):
    return {str(index): [matmul.prepare(index, *one) for one in sets] for index in range(len(matmul.results))}


def filled(dtype, *extents):
    return torch.randn(*extents, device="cuda", dtype=TORCH[dtype])


@dataclass
class Shape:
    """`c[m, n] = a b`, of which `layout` says how each operand is stored; `pad` elements follow each row of an operand."""
    family: str
    dtype: str
    layout: str
    m: int
    n: int
    k: int
    pad: int = 0
    entry = "gemm"
    most_sets = 64

    @property
    def name(self):
        return f"{self.family} {self.dtype} {self.layout} {self.m}x{self.n}x{self.k}" + (f" pitch +{self.pad}" if self.pad else "")

    @property
    def nbytes(self):
        return (self.m * self.k + self.n * self.k + self.m * self.n) * TORCH[self.dtype].itemsize

    @property
    def scalars(self):
        return [float(self.layout[0] == "t"), float(self.layout[1] == "t"), float(self.dtype == "tf32")]

    @property
    def group(self):
        """The greatest of 64, 16, 8 and 1 that divides the elements between rows of both operands."""
        pitches = (self.m if self.layout[0] == "t" else self.k) + self.pad, (self.k if self.layout[1] == "t" else self.n) + self.pad
        return f"pitches of {next(step for step in (64, 16, 8, 1) if all(p % step == 0 for p in pitches))} elements"

    def stored(self, *batches):
        a = (self.m, self.k) if self.layout[0] == "n" else (self.k, self.m)
        b = (self.k, self.n) if self.layout[1] == "n" else (self.n, self.k)
        return [filled(self.dtype, *batches, rows, cols + self.pad)[..., :cols] for rows, cols in (a, b)]

    def tensors(self):
        return *self.stored(), torch.empty(self.m, self.n, device="cuda", dtype=TORCH[self.dtype])

    def operands(self, a, b):
        return (a if self.layout[0] == "n" else a.mT), (b if self.layout[1] == "n" else b.mT)

    def reference(self, a, b, c):
        return torch.matmul(*(x.double() for x in self.operands(a, b)))

    def error(self, c, wanted):
        return relative_error(c, wanted)

    def cublas(self, one):
        """How torch calls cuBLAS on a set, by the call's name."""
        a, b = self.operands(*one[:2])
        return {"": lambda: torch.matmul(a, b, out=one[2])}

    def cublaslt(self, sets):
        """Every heuristic's calls on the sets."""
        return every_heuristic(cublaslt.Matmul(self.m, self.n, self.k, self.dtype, self.layout, [x.stride(0) for x in sets[0]]), sets)

    def triton(self, one):
        """The kernel in several configurations on a set, by the configuration; none where it does not take the operands."""
        from . import triton_peer
        if self.dtype not in ("bf16", "f16") or any(x.stride(0) % 8 for x in one):
            return {}
        return {str(config): triton_peer.gemm_call(config, dict(zip("abc", one)), self.layout) for config in triton_peer.GEMM_CONFIGS}

    def peers(self, names, sets):
        """Calls on each set, by peer and what distinguishes its calls."""
        found = {}
        for name in names:
            if name == "cublaslt":
                calls = self.cublaslt(sets)
            else:
                each = [getattr(self, name)(one) for one in sets]
                calls = {label: [calls[label] for calls in each] for label in each[0]}
            found |= {f"{name} {label}".strip(): made for label, made in calls.items()}
        return found

    def compiled_for(self, choice):
        """Whether this choice is compiled for the shape: others are compiled once for all shapes of a `kind`, of which `small` is one."""
        return choice.startswith(("a ", "b "))

    @property
    def kind(self):
        return self.dtype, self.layout, self.pad, self.family == "odd" and not self.pad

    def small(self):
        m, n, k = (101, 203, 4099) if self.kind[-1] else (128, 256, 4096)
        return Shape("", self.dtype, self.layout, m, n, k, self.pad)


@dataclass
class Batches(Shape):
    """`c[z] = a[z] b[z]` for every `z`."""
    batches: int = 1
    entry = "gemm_batched"

    @property
    def name(self):
        return f"{self.family} {self.dtype} {self.layout} {self.batches} of {self.m}x{self.n}x{self.k}"

    @property
    def nbytes(self):
        return super().nbytes * self.batches

    @property
    def group(self):
        return self.dtype

    def tensors(self):
        return *self.stored(self.batches), torch.empty(self.batches, self.m, self.n, device="cuda", dtype=TORCH[self.dtype])

    def cublas(self, one):
        a, b = self.operands(*one[:2])
        return {"": lambda: torch.bmm(a, b, out=one[2])}

    def cublaslt(self, sets):
        return every_heuristic(cublaslt.Matmul(self.m, self.n, self.k, self.dtype, self.layout, batches=self.batches), sets)

    def triton(self, one):
        return {}

    def compiled_for(self, choice):
        return False

    @property
    def kind(self):
        return self.dtype, self.layout, self.family == "batched-odd"

    def small(self):
        m, n, k = (71, 67, 1027) if self.kind[-1] else (64, 64, 1024)
        return Batches("", self.dtype, self.layout, m, n, k, batches=2)


EPILOGUES = {"bias": (0, lambda x: x), "relu": (1, torch.relu), "gelu": (2, lambda x: torch.nn.functional.gelu(x, approximate="tanh"))}


@dataclass
class Epilogue(Shape):
    """`c = f(a b + bias)`, where `epilogue` names `f`: the fourth tensor of a call is the bias. `a b` has a variance of 1."""
    epilogue: str = "bias"

    @property
    def name(self):
        return f"{self.family} {self.epilogue} {self.dtype} {self.layout} {self.m}x{self.n}x{self.k}"

    @property
    def scalars(self):
        return super().scalars + [float(EPILOGUES[self.epilogue][0])]

    @property
    def group(self):
        return self.epilogue

    def tensors(self):
        a, b, c = super().tensors()
        return a.mul_(self.k ** -0.5), b, c, filled(self.dtype, self.n)

    def reference(self, a, b, c, bias):
        return EPILOGUES[self.epilogue][1](super().reference(a, b, c) + bias.double())

    def cublas(self, one):
        """The product and the bias in one call, as torch fuses them; ReLU and GELU take another pass over the result."""
        (a, b), (c, bias) = self.operands(*one[:2]), one[2:]
        if self.epilogue == "bias":
            return {"": lambda: torch.addmm(bias, a, b, out=c)}
        if self.epilogue == "relu":
            return {"": lambda: torch._addmm_activation(bias, a, b, out=c)}
        return {"": lambda: torch._addmm_activation(bias, a, b, use_gelu=True, out=c)}

    def cublaslt(self, sets):
        return every_heuristic(cublaslt.Matmul(self.m, self.n, self.k, self.dtype, self.layout, epilogue=self.epilogue), sets)

    def triton(self, one):
        return {}

    @property
    def kind(self):
        return *super().kind, self.epilogue

    def small(self):
        return Epilogue("", self.dtype, self.layout, 128, 256, 4096, epilogue=self.epilogue)


@dataclass
class Vector:
    """`y[n] = w x`, `w` of N rows and K columns."""
    family: str
    dtype: str
    n: int
    k: int
    entry = "gemv"
    most_sets = 256
    scalars = ()

    @property
    def name(self):
        return f"{self.family} {self.dtype} {self.n}x{self.k}"

    @property
    def nbytes(self):
        return (self.n * self.k + self.n + self.k) * TORCH[self.dtype].itemsize

    @property
    def group(self):
        return self.dtype

    def tensors(self):
        return filled(self.dtype, self.n, self.k), filled(self.dtype, self.k), torch.empty(self.n, device="cuda", dtype=TORCH[self.dtype])

    def reference(self, w, x, y):
        return w.double() @ x.double()

    def error(self, y, wanted):
        # Sums of K products have a variance of K; that of a single row may be near 0.
        return ((y.double() - wanted).norm() / max(wanted.norm().item(), math.sqrt(self.n * self.k))).item()

    def cublas(self, one):
        w, x, y = one
        return {"mv": lambda: torch.mv(w, x, out=y), "matmul": lambda: torch.matmul(x[None], w.T, out=y[None])}

    def cublaslt(self, sets):
        return every_heuristic(cublaslt.Matmul(1, self.n, self.k, self.dtype), [(x, w, y) for w, x, y in sets])

    def triton(self, one):
        from . import triton_peer
        return {str(config): triton_peer.gemv_call(config, dict(zip("wxy", one))) for config in triton_peer.GEMV_FEW}

    peers = Shape.peers
    # Most kernels are compiled for each K.
    kind = None

    def compiled_for(self, choice):
        return True


def drawn(rng, low, high, step=1):
    value = round(math.exp(rng.uniform(math.log(low), math.log(high))))
    return max(step, value // step * step)


def rows(rng, high):
    """A third of them 1 to 128."""
    return drawn(rng, 1, 128) if rng.random() < 1 / 3 else drawn(rng, 129, high)


def product(rng, family):
    """A product of the families `aligned`, `odd`, `f32`, `tf32` and `epilogue`, or none where it is too large."""
    m = rows(rng, 16384)
    step = 1 if family == "odd" else 8
    n, k = drawn(rng, 64, 28672, step), drawn(rng, 64, 28672, step)
    layout = "nt" if family == "epilogue" else rng.choice(["nt", "nt", "nn", "tn", "tt"])
    if layout[0] == "t" and step == 8:
        m = max(8, m // 8 * 8)
    dtype = {"f32": "f32", "tf32": "tf32"}.get(family) or rng.choice(["bf16", "f16"])
    pad = 0
    if family == "odd" and rng.random() < 0.4:
        m, n, k, pad = max(8, m // 8 * 8), n // 8 * 8, k // 8 * 8, 8
    if m * n * k > (2 ** 37 if family == "f32" else 2 ** 41):
        return None
    if family == "epilogue":
        return Epilogue(family, dtype, layout, m, n, k, epilogue=rng.choice(list(EPILOGUES)))
    return Shape(family, dtype, layout, m, n, k, pad)


def long(rng, family):
    """A product of few rows and few columns, with a long K."""
    m, n, k = drawn(rng, 64, 1200, 8), drawn(rng, 64, 1200, 8), drawn(rng, 4096, 28672, 8)
    layout = rng.choice(["nt", "nt", "nn", "tn", "tt"])
    return Shape(family, rng.choice(["bf16", "f16"]), layout, m, n, k)


def batches(rng, family):
    """A product of the families `batched`, `batched-f32`, `batched-tf32` and `batched-odd`, or none where it is too large."""
    count = drawn(rng, 2, 512)
    step = 1 if family == "batched-odd" else 8
    # A third is of small matrices.
    most = 256 if rng.random() < 1 / 3 else 4096
    m = max(16, drawn(rng, 16, 128, step) if rng.random() < 1 / 3 else drawn(rng, min(129, most), most, step))
    n, k = max(16, drawn(rng, 16, most, step)), max(16, drawn(rng, 16, most, step))
    layout = rng.choice(["nt", "nt", "nn", "tn", "tt"])
    of_family = {"batched": ["bf16", "f16"], "batched-odd": ["bf16", "f16", "tf32"]}.get(family)
    dtype = rng.choice(of_family) if of_family else family.partition("-")[2]
    limit = 2 ** 37 if family == "batched-f32" else 2 ** 39
    if count * m * n * k > limit or count * (m * k + n * k + m * n) > 2 ** 29:
        return None
    return Batches(family, dtype, layout, m, n, k, batches=count)


def few(rng, family):
    """Few products of small matrices with a long K, whose tiles leave multiprocessors idle."""
    count = drawn(rng, 2, 40)
    m, n, k = max(16, drawn(rng, 16, 768, 8)), max(16, drawn(rng, 16, 768, 8)), drawn(rng, 256, 4096, 8)
    layout = rng.choice(["nt", "nt", "nn", "tn", "tt"])
    return Batches(family, rng.choice(["bf16", "f16", "f32", "tf32"]), layout, m, n, k, batches=count)


def vector(rng, family):
    """A product of the families `gemv` and `gemv-odd`, or none where it is too large."""
    step = 1 if family == "gemv-odd" else 8
    n, k = drawn(rng, 1, 262144), drawn(rng, 64, 32768, step)
    dtype = rng.choice(["bf16", "f16", "f32"])
    # No row of these is pieces of 16 bytes.
    k += step == 1 and k % (16 // TORCH[dtype].itemsize) == 0
    found = Vector(family, dtype, n, k)
    return found if found.nbytes <= 2 ** 31 else None


FAMILIES = {"aligned": product, "odd": product, "f32": product, "tf32": product, "epilogue": product, "long": long,
            "batched": batches, "batched-f32": batches, "batched-tf32": batches, "batched-odd": batches,
            "few": few,
            "gemv": vector, "gemv-odd": vector}


def shapes(family, seed, count):
    rng = random.Random(f"{family} {seed}")
    found = []
    while len(found) < count:
        found += filter(None, [FAMILIES[family](rng, family)])
    return found
