"""The problems: their buffers, their exact answers, and what they must move and compute.

A problem has `op`, `dtype` (a name of ours), `shape` (a dict), `nbytes`, `flops`, `tolerance` (of the relative error
in the Frobenius norm), `tensors()` (fresh N(0,1) buffers by name), `output` (the name of the result) and
`reference(buffers)` in float64.
"""
import torch

# tf32 is f32 in memory; only the products are of fewer bits.
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "tf32": torch.float32}
# The rounding of a 16-bit result alone is 2^-12 or 2^-9 relative, of which the norm sees about a third.
# Operands of tf32 that are rounded towards zero lose 2^-10 of themselves at most, which is 7e-4 of the result on average.
TOLERANCE = {"f16": 4e-3, "bf16": 4e-3, "f32": 1e-5, "tf32": 2e-3}

GEMV_SHAPES = [(1024, 1024), (4096, 4096), (7168, 16384), (18432, 7168), (28672, 8192), (57344, 7168)]
GEMM_SHAPES = [(1024,) * 3, (2048,) * 3, (4096,) * 3, (8192,) * 3, (16384,) * 3,
               (4096, 14336, 4096), (4096, 7168, 16384), (8192, 28672, 8192),
               (16, 7168, 16384), (64, 18432, 7168), (128, 4096, 7168), (512, 7168, 2048)]


class Problem:
    output = "y"

    @property
    def torch_dtype(self):
        return DTYPES[self.dtype]

    @property
    def tolerance(self):
        return TOLERANCE[self.dtype]

    @property
    def title(self):
        return f"{self.op} {self.dtype} " + "x".join(str(v) for v in self.shape.values())

    def normal(self, *shape):
        return torch.randn(*shape, device="cuda", dtype=self.torch_dtype)

    def matches(self, record):
        """Whether an exported launch is one of this problem."""
        return (record.get("op", record["kernel"]) == self.op and record["dtype"] == self.dtype
                and all(record[axis] == size for axis, size in self.shape.items()))


class Gemv(Problem):
    """y[N] = w[N,K] x[K]; accumulated in float32."""

    op = "gemv"

    def __init__(self, dtype, n, k):
        self.dtype, self.n, self.k = dtype, n, k
        self.shape = {"n": n, "k": k}
        size = self.torch_dtype.itemsize
        self.nbytes = (n * k + n + k) * size
        self.flops = 2 * n * k

    def tensors(self):
        return {"w": self.normal(self.n, self.k), "x": self.normal(self.k),
                "y": torch.empty(self.n, device="cuda", dtype=self.torch_dtype)}

    def reference(self, b):
        return b["w"].double() @ b["x"].double()


class Gemm(Problem):
    """c[M,N] = a[M,K] b[K,N]; accumulated in float32. `layout`, as in BLAS: whether a and b are stored transposed."""

    op = "gemm"
    output = "c"

    def __init__(self, dtype, m, n, k, layout="nt"):
        self.dtype, self.m, self.n, self.k, self.layout = dtype, m, n, k, layout
        self.shape = {"m": m, "n": n, "k": k}
        size = self.torch_dtype.itemsize
        self.nbytes = (m * k + n * k + m * n) * size
        self.flops = 2 * m * n * k

    def tensors(self):
        a = (self.m, self.k) if self.layout[0] == "n" else (self.k, self.m)
        b = (self.k, self.n) if self.layout[1] == "n" else (self.n, self.k)
        return {"a": self.normal(*a), "b": self.normal(*b),
                "c": torch.empty(self.m, self.n, device="cuda", dtype=self.torch_dtype)}

    def reference(self, t):
        a, b = self.operands(t)
        return a.double() @ b.double()

    def operands(self, t):
        """a[M,K] and b[K,N] as views of the buffers."""
        return (t["a"] if self.layout[0] == "n" else t["a"].T), (t["b"] if self.layout[1] == "n" else t["b"].T)

    @property
    def title(self):
        return f"{super().title} {self.layout}"

    def matches(self, record):
        return super().matches(record) and record.get("layout", "nt") == self.layout


PROBLEMS = {"gemv": (Gemv, GEMV_SHAPES), "gemm": (Gemm, GEMM_SHAPES)}
