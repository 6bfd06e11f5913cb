"""The cookbook's recipes as `bench/cookbook.py` runs them: buffers, what torch makes of them, shapes.

A case has `title`, `make()` (a set of buffers by name), `ours(b)` (the tensors and scalars of the recipe's host function), `before`
(what has to be done to the buffers before each launch, timed with it), `torch` (label -> a function of the buffers, which returns what
ours writes to the buffers `poisoned`), `check(b)` (a function that gives the relative error of the buffers once they are written; it
is made before they are), `nbytes` and `flops`.
"""
from dataclasses import dataclass, field
from typing import Callable

import torch
import torch.nn.functional as F

device = "cuda"
NAMES = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.int32: "i32"}
BF16, F32, I32 = torch.bfloat16, torch.float32, torch.int32


@dataclass
class Case:
    recipe: str
    dtype: torch.dtype
    shape: tuple
    make: Callable
    ours: Callable
    torch: dict
    check: Callable
    nbytes: int
    flops: int = 0
    tolerance: float = 0.0
    before: Callable = None
    # Which buffers ours writes without reading them: filled with NaN (or -1) before the result is checked.
    poisoned: tuple = field(default=("y",))
    # A kernel of `triton_rows`, which writes the same buffers as ours.
    triton: str = None

    @property
    def title(self):
        return f"{self.recipe} {NAMES[self.dtype]} {' x '.join(map(str, self.shape))}"


def normal(*shape, dtype=BF16):
    return torch.randn(*shape, device=device, dtype=dtype)


def error(found, wanted):
    """The relative error in the Frobenius norm; 0 where both are the same."""
    found, wanted = found.double(), wanted.double()
    return ((found - wanted).norm() / wanted.norm().clamp_min(1e-30)).item()


def within(places, n):
    """Whether every place is one of `n`: a wrong one would take the device down in torch's `gather`."""
    return bool((places >= 0).all() and (places < n).all())


def against(wanted, name="y"):
    """A check of one buffer against what `wanted(buffers)` gives before the launch."""
    def check(b):
        expected = wanted(b)
        return lambda b: error(b[name], expected)
    return check


def together(*checks):
    """The sum of several errors, which is NaN where one of them is."""
    def check(b):
        found = [check(b) for check in checks]
        return lambda b: sum(each(b) for each in found)
    return check


def softmax(m, n, dtype=BF16):
    return Case("softmax", dtype, (m, n), lambda: dict(x=normal(m, n, dtype=dtype) * 4, y=torch.empty(m, n, device=device, dtype=dtype)),
                lambda b: ([b["x"], b["y"]], []), {"softmax": lambda b: torch.softmax(b["x"], -1)},
                against(lambda b: torch.softmax(b["x"].float(), -1)), 2 * m * n * dtype.itemsize, tolerance=4e-3)


def added(b):
    return b["x"] + b["r"]


def rms_norm(m, n, dtype=BF16):
    make = lambda: dict(x=normal(m, n), r=normal(m, n), w=normal(n), y=torch.empty(m, n, device=device, dtype=dtype))
    def peer(b):
        b["r"].add_(b["x"])
        return F.rms_norm(b["r"], (n,), b["w"], 1e-5)
    return Case("rms_norm", dtype, (m, n), make, lambda b: ([b["x"], b["r"], b["w"], b["y"]], [1e-5]), {"add_, rms_norm": peer},
                together(against(lambda b: F.rms_norm((b["x"] + b["r"]).float(), (n,), b["w"].float(), 1e-5)), against(added, "r")),
                4 * m * n * dtype.itemsize, tolerance=6e-3)


def layer_norm(m, n, dtype=BF16):
    make = lambda: dict(x=normal(m, n), r=normal(m, n), g=normal(n), s=normal(n), y=torch.empty(m, n, device=device, dtype=dtype))
    def peer(b):
        b["r"].add_(b["x"])
        return F.layer_norm(b["r"], (n,), b["g"], b["s"], 1e-5)
    return Case("layer_norm", dtype, (m, n), make, lambda b: ([b["x"], b["r"], b["g"], b["s"], b["y"]], [1e-5]),
                {"add_, layer_norm": peer},
                together(against(lambda b: F.layer_norm((b["x"] + b["r"]).float(), (n,), b["g"].float(), b["s"].float(), 1e-5)), against(added, "r")),
                4 * m * n * dtype.itemsize, tolerance=6e-3)


def rope(tokens, heads, d=128, dtype=BF16, positions=8192):
    half = d // 2
    def make():
        angle = torch.arange(positions, device=device).double()[:, None] * 10000.0 ** -(torch.arange(half, device=device).double() / half)
        at = torch.randint(positions, (tokens,), device=device, dtype=I32)
        cos, sin = angle.cos().float(), angle.sin().float()
        wide = lambda table: torch.cat([table[at.long()]] * 2, -1)[:, None, :].to(dtype)
        return dict(x=normal(tokens, heads, d), c=cos, s=sin, at=at, y=torch.empty(tokens, heads, d, device=device, dtype=dtype),
                    wc=wide(cos), ws=wide(sin))
    def peer(b):
        x = b["x"]
        turned = torch.cat([-x[..., half:], x[..., :half]], -1)
        return x * b["wc"] + turned * b["ws"]
    def wanted(b):
        x, at = b["x"].float(), b["at"].long()
        c, s = b["c"][at][:, None, :], b["s"][at][:, None, :]
        return torch.cat([x[..., :half] * c - x[..., half:] * s, x[..., half:] * c + x[..., :half] * s], -1)
    return Case("rope", dtype, (tokens, heads, d), make, lambda b: ([b["x"], b["c"], b["s"], b["at"], b["y"]], []),
                {"rotate_half (cos, sin gathered before)": peer}, against(wanted), 2 * tokens * heads * d * dtype.itemsize, tolerance=4e-3)


def argmax(m, n, dtype=BF16):
    def check(_):
        # Of equal elements torch may choose another one.
        return lambda b: float(not (within(b["y"], n) and torch.equal(b["x"].gather(1, b["y"].long()[:, None])[:, 0], b["x"].amax(1))))
    return Case("argmax", dtype, (m, n), lambda: dict(x=normal(m, n), y=torch.empty(m, device=device, dtype=I32)),
                lambda b: ([b["x"], b["y"]], []), {"argmax": lambda b: torch.argmax(b["x"], -1)}, check, m * n * dtype.itemsize)


def top_k(m, n, k):
    make = lambda: dict(x=normal(m, n, dtype=F32), y=torch.empty(m, k, device=device), places=torch.empty(m, k, device=device, dtype=I32))
    def check(b):
        values = torch.topk(b["x"], k, -1).values
        return lambda b: float(not (within(b["places"], n) and torch.equal(b["y"], values)
                                    and torch.equal(b["x"].gather(1, b["places"].long()), values)))
    return Case("top_k", F32, (m, n, k), make, lambda b: ([b["x"], b["y"], b["places"]], []),
                {"topk": lambda b: torch.topk(b["x"], k, -1)}, check, m * n * 4 + m * k * 8, poisoned=("y", "places"))


def histogram(n, bins=256):
    def make():
        x = torch.randint(bins, (n,), device=device, dtype=I32)
        return dict(x=x, xf=x.float(), y=torch.empty(bins, device=device, dtype=I32))
    return Case("histogram", I32, (n, bins), make, lambda b: ([b["x"], b["y"]], []),
                {"histc (of f32)": lambda b: torch.histc(b["xf"], bins, -0.5, bins - 0.5)},
                against(lambda b: torch.bincount(b["x"], minlength=bins)), n * 4, before=lambda b: b["y"].zero_())


def scan(n, dtype=F32):
    chunks = max(1, min(1024, -(-n // 1024)))
    def make():
        x = normal(n, dtype=F32) if dtype == F32 else torch.randint(-99, 99, (n,), device=device, dtype=dtype)
        return dict(x=x, s=torch.empty(chunks, device=device, dtype=dtype), y=torch.empty(n, device=device, dtype=dtype))
    exact = torch.float64 if dtype == F32 else torch.int64
    return Case("scan", dtype, (n,), make, lambda b: ([b["x"], b["s"], b["y"]], []),
                {"cumsum": lambda b: torch.cumsum(b["x"], 0, dtype=dtype)}, against(lambda b: torch.cumsum(b["x"], 0, dtype=exact)),
                3 * n * dtype.itemsize, tolerance=1e-5 if dtype == F32 else 0.0)


def transpose(m, n, dtype):
    return Case("transpose", dtype, (m, n), lambda: dict(x=normal(m, n, dtype=dtype), y=torch.empty(n, m, device=device, dtype=dtype)),
                lambda b: ([b["x"], b["y"]], []), {"t().contiguous()": lambda b: b["x"].t().contiguous()},
                against(lambda b: b["x"].t()), 2 * m * n * dtype.itemsize)


def stencil(h, w):
    make = lambda: dict(x=normal(h, w, dtype=F32), w=normal(5, 5, dtype=F32), y=torch.empty(h, w, device=device))
    convolve = lambda x, w: F.conv2d(x[None, None], w[None, None], padding=2)[0, 0]
    return Case("stencil", F32, (h, w), make, lambda b: ([b["x"], b["w"], b["y"]], []),
                {"conv2d": lambda b: convolve(b["x"], b["w"])}, against(lambda b: convolve(b["x"].double(), b["w"].double())),
                2 * h * w * 4, flops=50 * h * w, tolerance=1e-5)


TABLES = {}


def gather(rows, k, n, dtype=BF16):
    def make():
        if (rows, k) not in TABLES:
            TABLES.clear()
            TABLES[rows, k] = normal(rows, k, dtype=dtype)
        at = torch.randint(rows, (n,), device=device, dtype=I32)
        return dict(table=TABLES[rows, k], at=at, y=torch.empty(n, k, device=device, dtype=dtype))
    return Case("gather", dtype, (rows, k, n), make, lambda b: ([b["table"], b["at"], b["y"]], []),
                {"index_select": lambda b: torch.index_select(b["table"], 0, b["at"])},
                against(lambda b: b["table"][b["at"].long()]), 2 * n * k * dtype.itemsize)


def segmented_sum(segments, mean):
    n = segments * mean
    def make():
        inner = torch.randint(n + 1, (segments - 1,), device=device).sort().values
        offsets = torch.cat([inner.new_zeros(1), inner, inner.new_full((1,), n)])
        return dict(x=normal(n, dtype=F32), o=offsets.to(I32), o64=offsets, y=torch.empty(segments, device=device))
    def wanted(b):
        sums = torch.cat([b["x"].new_zeros(1, dtype=torch.float64), torch.cumsum(b["x"], 0, dtype=torch.float64)])
        return sums[b["o64"][1:]] - sums[b["o64"][:-1]]
    return Case("segmented_sum", F32, (segments, mean), make, lambda b: ([b["x"], b["o"], b["y"]], []),
                {"segment_reduce": lambda b: torch.segment_reduce(b["x"], "sum", offsets=b["o64"])},
                against(wanted), n * 4 + segments * 8, tolerance=1e-5)


def swiglu(m, f, dtype=BF16):
    def peer(b):
        gate, up = b["x"].chunk(2, -1)
        return F.silu(gate) * up
    def wanted(b):
        gate, up = b["x"].float().chunk(2, -1)
        return F.silu(gate) * up
    return Case("swiglu", dtype, (m, f), lambda: dict(x=normal(m, 2 * f), y=torch.empty(m, f, device=device, dtype=dtype)),
                lambda b: ([b["x"], b["y"]], []), {"silu, *": peer}, against(wanted), 3 * m * f * dtype.itemsize, tolerance=4e-3)


def dropout(n, p=0.1, dtype=BF16):
    def check(_):
        def found(b):
            kept = b["y"] != 0
            # Six standard deviations of the number of dropped elements; what is kept is scaled.
            share = abs((~kept).float().mean(dtype=torch.float64).item() - p)
            if share > 6 * (p * (1 - p) / n) ** 0.5 + 1e-2 * (n < 10_000) + 5e-3:
                return float("inf")
            return error(b["y"][kept], b["x"][kept].float() / (1 - p))
        return found
    return Case("dropout", dtype, (n,), lambda: dict(x=normal(n), y=torch.empty(n, device=device, dtype=dtype)),
                lambda b: ([b["x"], b["y"]], [p, 1234567, 3]), {"dropout": lambda b: F.dropout(b["x"], p, True)}, check,
                2 * n * dtype.itemsize, tolerance=4e-3)


def attention(batch, heads, key_heads, n, d, dtype=BF16):
    def make():
        q, y = (torch.empty(batch * heads, n, d, device=device, dtype=dtype).normal_() for _ in range(2))
        k, v = (normal(batch * key_heads, n, d, dtype=dtype) for _ in range(2))
        return dict(q=q, k=k, v=v, y=y)
    def peer(b):
        of = lambda name, h: b[name].view(batch, h, n, d)
        q, k, v = of("q", heads), of("k", key_heads), of("v", key_heads)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).view(batch * heads, n, d)
    elements = batch * n * d
    return Case("attention", dtype, (batch, heads, key_heads, n, d), make, lambda b: ([b["q"], b["k"], b["v"], b["y"]], []),
                {"scaled_dot_product_attention": peer}, against(peer), 2 * elements * (heads + key_heads) * dtype.itemsize,
                flops=2 * batch * heads * n * n * d, tolerance=8e-3)


def cases(small):
    """Two or three realistic shapes of each recipe; with `small`, ragged ones that a simulator can do."""
    if small:
        return [softmax(3, 1001), rms_norm(3, 1000), layer_norm(3, 1001), rope(5, 3, positions=64), argmax(3, 1001), top_k(5, 100, 6),
                histogram(5001), scan(5001), scan(5001, I32), transpose(67, 130, F32), transpose(66, 130, BF16), stencil(33, 70),
                gather(10, 1001, 5), segmented_sum(37, 20), swiglu(3, 1001), dropout(5000), attention(1, 2, 1, 70, 64)]
    return [softmax(4096, 4096), softmax(256, 128256), softmax(8192, 32768),
            rms_norm(4096, 4096), rms_norm(16384, 8192),
            layer_norm(4096, 4096), layer_norm(16384, 8192),
            rope(8192, 32), rope(8192, 8),
            argmax(256, 128256), argmax(4096, 32000),
            top_k(16384, 256, 8), top_k(32768, 64, 6), top_k(8192, 1000, 8),
            histogram(1 << 24), histogram(1 << 28),
            scan(1 << 20), scan(1 << 24), scan(1 << 28), scan(1 << 24, I32),
            transpose(8192, 8192, F32), transpose(8192, 8192, BF16), transpose(4096, 14336, BF16),
            stencil(1080, 1920), stencil(4096, 4096), stencil(8192, 8192),
            gather(128256, 4096, 8192), gather(32000, 8192, 16384),
            segmented_sum(1 << 18, 64), segmented_sum(1 << 20, 16), segmented_sum(1 << 14, 1000),
            swiglu(4096, 14336), swiglu(16384, 8192),
            dropout(1 << 24), dropout(1 << 27),
            attention(4, 32, 8, 2048, 128), attention(2, 32, 8, 4096, 128), attention(4, 16, 4, 2048, 64)]
