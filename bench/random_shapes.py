"""Products on shapes that nobody chose: what `gemm` takes by itself, every choice that it has, and the peers, in one process.

    cargo build --release -p tile-cookbook --example cookbook_for_python
    python bench/random_shapes.py target/release/examples/libcookbook_for_python.so --seed 1a2b3c4d --out shapes.json

usage: random_shapes.py LIBRARY --seed HEX [--families aligned,odd,tf32,f32] [--count 60] [--peers cublas,cublaslt,triton] [--rounds 7]
       [--called] [--shapes MxNxK,..] [--seconds N] [--out FILE.json]

Shapes are drawn log-uniformly from the seed: a third of them with 1 to 128 rows, the others up to 16,384; N and K from 64 to 28,672; at
most 2^41 multiply-adds; every layout (`nt` is a linear layer's). `aligned`: bf16 and f16, extents that are multiples of 8. `odd`: extents
that are not, or rows of a pitch of K + 8 elements. The figures of a commit are those of the seed that the first eight digits of its hash
are.

Each result is compared with float64 first. A time is that of a graph of calls which rotate over 0.4 GB of operands; `plain` and
`dependent` are the same calls without and with programmatic dependent launch. Everybody is screened in short rounds; what is called, the
three best of ours and the two best of each peer run in random order afterwards. `--called` leaves the other choices out; `--shapes`
measures these instead, bf16 and `nt`. A peer that
fails is named, and takes no part in that row. A run goes on where FILE.json ends; `--seconds` begins no shape after so many.
"""
import argparse
import ctypes
import json
import math
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from cookbook import DTYPES, View
from harness import cublaslt
from harness.method import Captured, median, race
from harness.workloads import relative_error

P = ctypes.c_void_p
ROTATE, MOST_SETS, CALLS = 400_000_000, 64, 16
TORCH = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "tf32": torch.float32}
# The rounding of a 16-bit result is 2^-9 or 2^-12; tf32 rounds each operand by 2^-10.
TOLERANCE = {"bf16": 4e-3, "f16": 1e-3, "f32": 1e-5, "tf32": 2e-3}


class Asked(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("cuda", ctypes.c_int), ("stream", P), ("views", P), ("view_count", ctypes.c_size_t),
                ("each", ctypes.c_size_t), ("scalars", P), ("scalar_count", ctypes.c_size_t)]


class Library:
    """The C functions of cookbook_for_python that make graphs of products."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.cookbook_error.restype = ctypes.c_char_p
        self.c.cookbook_candidates.argtypes = [P]
        self.c.cookbook_graph.argtypes = [P, ctypes.c_int, ctypes.c_int, P]
        self.c.cookbook_launch.argtypes = [P, ctypes.c_int, P]
        self.c.cookbook_free.argtypes = [P]

    def check(self, status):
        if status:
            raise RuntimeError(self.c.cookbook_error().decode())

    def asked(self, name, sets, scalars):
        tensors = [tensor for one in sets for tensor in one]
        views = (View * len(tensors))()
        for view, tensor in zip(views, tensors):
            view.address, view.rank, view.dtype = tensor.data_ptr(), tensor.dim(), DTYPES[tensor.dtype]
            view.shape[:tensor.dim()], view.strides[:tensor.dim()] = tensor.shape, tensor.stride()
        values = (ctypes.c_double * max(1, len(scalars)))(*scalars)
        asked = Asked(name.encode(), 0, torch.cuda.current_stream().cuda_stream, ctypes.addressof(views), len(tensors), len(sets[0]),
                      ctypes.addressof(values), len(scalars))
        asked.kept = views, values
        return asked

    def candidates(self, asked):
        """(name, us expected) of every choice, what is taken by itself first."""
        self.check(self.c.cookbook_candidates(ctypes.byref(asked)))
        lines = self.c.cookbook_error().decode().splitlines()
        return [(line.partition(" ")[2], float(line.partition(" ")[0])) for line in lines]

    def graph(self, asked, candidate=-1, dependent=True):
        made = P()
        self.check(self.c.cookbook_graph(ctypes.byref(asked), candidate, int(dependent), ctypes.byref(made)))
        return made


class Ours:
    """A graph of our launches, with the interface of `Captured`."""

    def __init__(self, library, asked, sets, candidate, dependent):
        self.library, self.count, self.sets = library, len(sets), sets
        self.graph = library.graph(asked, candidate, dependent)
        self.stream = torch.cuda.current_stream().cuda_stream
        self.run()
        torch.cuda.synchronize()

    def run(self):
        self.library.check(self.library.c.cookbook_launch(self.graph, 0, self.stream))

    block, replays_for = Captured.block, Captured.replays_for

    def __del__(self):
        if getattr(self, "graph", None):
            self.library.c.cookbook_free(self.graph)


class Shape:
    """A product: `c[m, n] = a b`, of which `layout` says how each operand is stored; `pad` elements follow each row of an operand."""

    def __init__(self, family, dtype, layout, m, n, k, pad=0):
        self.family, self.dtype, self.layout, self.m, self.n, self.k, self.pad = family, dtype, layout, m, n, k, pad

    @property
    def name(self):
        return f"{self.family} {self.dtype} {self.layout} {self.m}x{self.n}x{self.k}" + (f" pitch +{self.pad}" if self.pad else "")

    @property
    def nbytes(self):
        return (self.m * self.k + self.n * self.k + self.m * self.n) * TORCH[self.dtype].itemsize

    @property
    def scalars(self):
        return [float(self.layout[0] == "t"), float(self.layout[1] == "t"), float(self.dtype == "tf32")]

    def tensors(self):
        def stored(rows, cols):
            return torch.randn(rows, cols + self.pad, device="cuda", dtype=TORCH[self.dtype])[:, :cols]
        a = stored(self.m, self.k) if self.layout[0] == "n" else stored(self.k, self.m)
        b = stored(self.k, self.n) if self.layout[1] == "n" else stored(self.n, self.k)
        return a, b, torch.empty(self.m, self.n, device="cuda", dtype=TORCH[self.dtype])

    def operands(self, a, b):
        return (a if self.layout[0] == "n" else a.T), (b if self.layout[1] == "n" else b.T)


def drawn(rng, low, high, step=1):
    value = round(math.exp(rng.uniform(math.log(low), math.log(high))))
    return max(step, value // step * step)


def shapes(family, seed, count):
    rng = random.Random(f"{family} {seed}")
    found = []
    while len(found) < count:
        m = drawn(rng, 1, 128) if rng.random() < 1 / 3 else drawn(rng, 129, 16384)
        step = 1 if family == "odd" else 8
        n, k = drawn(rng, 64, 28672, step), drawn(rng, 64, 28672, step)
        layout = rng.choice(["nt", "nt", "nn", "tn", "tt"])
        if layout[0] == "t" and step == 8:
            m = max(8, m // 8 * 8)
        dtype = {"f32": "f32", "tf32": "tf32"}.get(family) or rng.choice(["bf16", "f16"])
        pad = 0
        if family == "odd" and rng.random() < 0.4:
            m, n, k, pad = max(8, m // 8 * 8), n // 8 * 8, k // 8 * 8, 8
        limit = 2 ** 37 if family == "f32" else 2 ** 41
        if m * n * k <= limit:
            found.append(Shape(family, dtype, layout, m, n, k, pad))
    return found


def peers(shape, sets, names):
    """name -> a list of the calls on each set."""
    found = {}
    if "cublas" in names:
        def call(one):
            a, b = shape.operands(*one[:2])
            return lambda: torch.matmul(a, b, out=one[2])
        found["cublas"] = [call(one) for one in sets]
    if "cublaslt" in names:
        pitches = [one.stride(0) for one in sets[0]]
        matmul = cublaslt.Matmul(shape.m, shape.n, shape.k, shape.dtype, shape.layout, pitches)
        for index in range(len(matmul.results)):
            found[f"cublaslt {index}"] = [matmul.prepare(index, *one) for one in sets]
    if "triton" in names and shape.dtype in ("bf16", "f16"):
        from harness import triton_peer
        if all(one.stride(0) % 8 == 0 for one in sets[0]):
            for config in triton_peer.GEMM_CONFIGS:
                found[f"triton {config}"] = [triton_peer.gemm_call(config, dict(zip("abc", one)), shape.layout) for one in sets]
    return found


def measure(library, shape, arguments):
    torch.backends.cuda.matmul.allow_tf32 = shape.dtype == "tf32"
    count = min(MOST_SETS, max(2, ROTATE // shape.nbytes))
    sets = [shape.tensors() for _ in range(count)]
    calls = [sets[i % count] for i in range(max(count, CALLS if shape.nbytes < 100e6 else count))]
    references = [(one[2], torch.matmul(*(x.double() for x in shape.operands(*one[:2])))) for one in (sets[0], sets[-1])]
    asked = library.asked("gemm", calls, shape.scalars)
    expected = library.candidates(asked)
    row = dict(shape.__dict__, refused={}, expected=dict(expected), screened={})

    def right(run):
        for c, _ in references:
            c.fill_(float("nan"))
        run()
        torch.cuda.synchronize()
        error = max(relative_error(c, wanted) for c, wanted in references)
        if not error <= TOLERANCE[shape.dtype]:
            raise ValueError(f"WRONG: relative error {error:.2e}")

    entries = {}

    def enter(name, make):
        try:
            entry = make()
            right(entry.run)
            entries[name] = entry
        except Exception as problem:
            row["refused"][name] = repr(problem)[:200]
            print(f"   {name} takes no part: {row['refused'][name]}", flush=True)

    enter("called plain", lambda: Ours(library, asked, calls, -1, False))
    enter("called dependent", lambda: Ours(library, asked, calls, -1, True))
    if not arguments.called:
        for index, (name, _) in enumerate(expected):
            enter(f"ours {name}", lambda: Ours(library, asked, calls, index, False))
    try:
        for name, made in peers(shape, calls, arguments.peers).items():
            enter(name, lambda: Captured(made))
    except Exception as problem:
        row["refused"]["peers"] = repr(problem)[:200]
        print(f"   {row['refused']['peers']}", flush=True)
    for name, times in race(entries, 3, 700).items():
        row["screened"][name] = min(times)
    keep = {"called plain", "called dependent"}
    for group, most in [("ours", 3), ("cublas", 1), ("cublaslt", 2), ("triton", 2)]:
        keep |= set(sorted((n for n in entries if n.split(" ")[0] == group), key=row["screened"].get)[:most])
    finalists = {name: entry for name, entry in entries.items() if name in keep}
    # Every choice of ours that is among the best is timed as a dependent launch too.
    if not arguments.called:
        for name in [n for n in finalists if n.startswith("ours ")]:
            index = [candidate for candidate, _ in expected].index(name[5:])
            try:
                finalists[f"dependent {name[5:]}"] = Ours(library, asked, calls, index, True)
            except Exception as problem:
                row["refused"][f"dependent {name[5:]}"] = repr(problem)[:200]
    row["us"] = {name: median(times) for name, times in race(finalists, arguments.rounds, 2500).items()}
    return row


def ratios(row):
    """Best peer's time over ours as called (plain, dependent) and at best; and the best choice's time over the call's."""
    us = row["us"]
    peer = min((t for n, t in us.items() if n.split(" ")[0] in ("cublas", "cublaslt", "triton")), default=None)
    best = min(t for n, t in us.items() if n.startswith(("ours", "called plain")))
    called, dependent = us.get("called plain"), us.get("called dependent")
    return dict(peer=peer, called=called and peer and peer / called, dependent=dependent and peer and peer / dependent,
                best=peer and peer / best, regret=called and called / best - 1)


def mean(values):
    values = [v for v in values if v]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def pitch(row):
    """The greatest of 64, 16, 8 and 1 that divides the elements between rows of both operands."""
    (a, b), pad = row["layout"], row.get("pad", 0)
    pitches = (row["m"] if a == "t" else row["k"]) + pad, (row["k"] if b == "t" else row["n"]) + pad
    return next(step for step in (64, 16, 8, 1) if all(p % step == 0 for p in pitches))


def warm(library, found, called):
    """Compiles what will be launched, in parallel: where only calls are measured, that of each shape; else a small product of each type and
    layout by every choice, and of each shape the choices for copies of the operands, which are different ones for each."""
    jobs, kept = [], []
    for shape in found:
        kept.append(shape.tensors())
        asked = library.asked("gemm", kept[-1:], shape.scalars)
        choices = [-1] if called else [i for i, (name, _) in enumerate(library.candidates(asked)) if name.startswith(("a ", "b "))]
        jobs += [(asked, index) for index in choices]
    kinds = set() if called else {(s.dtype, s.layout, s.pad, s.family == "odd" and not s.pad) for s in found}
    for dtype, layout, pad, odd in kinds:
        m, n, k = (101, 203, 4099) if odd else (128, 256, 4096)
        one = Shape("", dtype, layout, m, n, k, pad)
        kept.append(one.tensors())
        asked = library.asked("gemm", kept[-1:], one.scalars)
        jobs += [(asked, index) for index in range(len(library.candidates(asked)))]

    def compile_one(job):
        try:
            library.c.cookbook_free(library.graph(*job))
        except Exception as problem:
            print(f"   {repr(problem)[:200]}", flush=True)
    began = time.time()
    # Captures of one device exclude each other; the compilation of their first launches does not.
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(compile_one, jobs))
    print(f"{len(jobs)} choices compiled in {time.time() - began:.0f} s", flush=True)


def main():
    listed = lambda text: text.split(",")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="libcookbook_for_python.so")
    parser.add_argument("--seed", required=True)
    parser.add_argument("--families", type=listed, default=["aligned"])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--peers", type=listed, default=["cublas", "cublaslt", "triton"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--called", action="store_true")
    parser.add_argument("--shapes", type=lambda text: [tuple(map(int, s.split("x"))) for s in text.split(",")])
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    began = time.time()
    library = Library(arguments.library)
    rows = json.loads(arguments.out.read_text())["rows"] if arguments.out and arguments.out.exists() else {}
    found = [shape for family in arguments.families for shape in shapes(family, arguments.seed, arguments.count)]
    if arguments.shapes:
        found = [Shape("aligned", "bf16", "nt", *shape) for shape in arguments.shapes]
    warm(library, found, arguments.called)
    for shape in found:
        if shape.name in rows or time.time() - began > arguments.seconds:
            continue
        try:
            row = measure(library, shape, arguments)
        except torch.cuda.OutOfMemoryError:
            print(f"{shape.name}: out of memory", flush=True)
            torch.cuda.empty_cache()
            continue
        rows[shape.name] = row
        r = ratios(row)
        text = lambda v: "  -  " if v is None else f"{v:5.3f}"
        print(f"{shape.name:44} peer {text(r['peer'])} us, called {text(r['called'])}, dependent {text(r['dependent'])}, "
              f"best {text(r['best'])}, regret {text(r['regret'])}", flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(dict(device=torch.cuda.get_device_name(), seed=arguments.seed, rows=rows), indent=1))
    for family in arguments.families:
        every = [row for row in rows.values() if row["family"] == family]
        groups = {family: every} | {f"{family}, pitches of {step} elements": [row for row in every if pitch(row) == step] for step in (64, 16, 8, 1)}
        for title, some in groups.items():
            of = [ratios(row) for row in some]
            if not of:
                continue
            worst = min((r["called"] for r in of if r["called"]), default=None)
            print(f"{title}: {len(of)} shapes, called {mean(r['called'] for r in of):.3f} (worst {worst}), "
                  f"dependent {mean(r['dependent'] for r in of):.3f}, best {mean(r['best'] for r in of):.3f}, "
                  f"regret {mean(1 + r['regret'] for r in of if r['regret'] is not None) - 1:.3f}")


if __name__ == "__main__":
    main()
