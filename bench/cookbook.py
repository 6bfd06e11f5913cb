"""The cookbook's recipes beside torch, in one process: first right, then timed.

    cargo build --release -p tile-cookbook --example cookbook_for_python
    python bench/cookbook.py target/release/examples/libcookbook_for_python.so --out bench/results/cookbook-h200.json

usage: cookbook.py LIBRARY [--out FILE.json] [--recipes NAME,..] [--rounds 11] [--compile] [--device cuda | cpu]

Each result is compared with torch's before anything is timed. The method is that of harness/method.py: graphs of at least 20 calls,
in random order, medians over rounds. *Cold*: the calls rotate over buffers of 0.8 GB, so that none finds its operands in L2.
*Warm*: always the same buffers, where these are at most 32 MB (an H200's L2 has 50). torch allocates its results, in the graph,
where each call has its own as ours has. `--compile` adds torch.compile, which takes seconds a shape. FILE.md is the table. `--device cpu`
only checks, small shapes on our simulator.
"""
import argparse
import ctypes
import json
import sys

import torch

from harness import recipes
from harness.method import Captured, median, race, sets_for

P = ctypes.c_void_p
DTYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2, torch.int32: 3}
# Tensors of i32 that a recipe takes as u32: torch's u32 can do little.
UNSIGNED = {("rope", 3), ("argmax", 1), ("histogram", 0), ("histogram", 1), ("gather", 1), ("segmented_sum", 1), ("top_k", 2)}
WARM, CALLS = 32_000_000, 20


class View(ctypes.Structure):
    _fields_ = [("address", ctypes.c_uint64), ("dtype", ctypes.c_uint32), ("rank", ctypes.c_uint32),
                ("shape", ctypes.c_uint64 * 4), ("strides", ctypes.c_uint64 * 4)]


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.cookbook_error.restype = ctypes.c_char_p
        self.c.cookbook_call.argtypes = [ctypes.c_char_p, ctypes.c_int, P, P, ctypes.c_size_t, P, ctypes.c_size_t]

    def __call__(self, recipe, tensors, scalars):
        views = (View * len(tensors))()
        for at, (view, tensor) in enumerate(zip(views, tensors)):
            view.address, view.rank = tensor.data_ptr(), tensor.dim()
            view.dtype = 4 if (recipe, at) in UNSIGNED else DTYPES[tensor.dtype]
            view.shape[:tensor.dim()], view.strides[:tensor.dim()] = tensor.shape, tensor.stride()
        values = (ctypes.c_double * max(1, len(scalars)))(*scalars)
        on_gpu = tensors[0].is_cuda
        stream = torch.cuda.current_stream().cuda_stream if on_gpu else None
        cuda = tensors[0].get_device() if on_gpu else -1
        if self.c.cookbook_call(recipe.encode(), cuda, stream, views, len(tensors), values, len(scalars)):
            raise RuntimeError(f"{recipe}: {self.c.cookbook_error().decode()}")


def launch(library, case, b):
    if case.before:
        case.before(b)
    library(case.recipe, *case.ours(b))


def checked(library, case):
    """The relative error of ours; raises where it is too large."""
    b = case.make()
    check = case.check(b)
    for name in case.poisoned:
        b[name].fill_(float("nan") if b[name].is_floating_point() else -1)
    launch(library, case, b)
    found = check(b)
    if not found <= case.tolerance:
        raise ValueError(f"WRONG: relative error {found:.2e}, above {case.tolerance:.0e}")
    return found


def captured(call, sets):
    """A graph of `call` on each set, over and over until there are enough calls; what it returns is kept, a result a set."""
    results = {}
    def once(at):
        def run():
            results[at] = call(sets[at])
        return run
    graph = Captured([once(i % len(sets)) for i in range(max(CALLS, len(sets)))])
    graph.results = results
    return graph


def compiled(function):
    torch._dynamo.reset()
    return torch.compile(function, dynamic=False)


def timed(library, case, args):
    """name -> {cold, warm} in microseconds a call, and how the cold ones were run."""
    calls = {"ours": lambda b: launch(library, case, b), **case.torch}
    if args.compile:
        calls["torch.compile"] = compiled(next(iter(case.torch.values())))
    sets = [case.make() for _ in range(sets_for(case.nbytes))]
    entries, how = {}, {}
    for name, call in calls.items():
        try:
            entries[name, "cold"] = captured(call, sets)
            how[name] = entries[name, "cold"].how
            if case.nbytes <= WARM:
                entries[name, "warm"] = captured(call, sets[:1])
        except Exception as problem:  # what torch cannot do is said, and the rest goes on
            if name == "ours":
                raise
            print(f"   {name} takes no part: {repr(problem)[:200]}", flush=True)
    us = {name: median(times) for name, times in race(entries, args.rounds, budget_us=3000).items()}
    found = {name: dict(how=how[name]) for name in how}
    for (name, state), value in us.items():
        found[name][state] = value
    return found, len(sets)


def row(case, found, sets, error):
    ours, peer = found["ours"], next(name for name in case.torch)
    out = dict(recipe=case.recipe, dtype=recipes.NAMES[case.dtype], shape=case.shape, sets=sets, nbytes=case.nbytes, flops=case.flops,
               error=error, peer=peer, us=found, tbps=case.nbytes / ours["cold"] * 1e-6, tflops=case.flops / ours["cold"] * 1e-6)
    for state in ("cold", "warm"):
        if state in ours and state in found.get(peer, {}):
            out[f"torch_over_ours_{state}"] = found[peer][state] / ours[state]
    return out


def line(row):
    us = lambda name, state: f"{row['us'][name][state]:.1f}" if state in row["us"].get(name, {}) else ""
    ratio = lambda state: f"{row[f'torch_over_ours_{state}']:.2f}" if f"torch_over_ours_{state}" in row else ""
    # Attention is bound by arithmetic.
    rate = f"{row['tflops']:.0f} TFLOP/s" if row["recipe"] == "attention" else f"{row['tbps']:.2f} TB/s"
    shape = " x ".join(map(str, row["shape"]))
    cells = [row["recipe"], row["dtype"], shape, us("ours", "cold"), rate, us(row["peer"], "cold"), ratio("cold"), us("torch.compile", "cold"),
             us("ours", "warm"), us(row["peer"], "warm"), ratio("warm")]
    return "| " + " | ".join(cells) + " |"


HEAD = """| recipe | dtype | shape | ours, µs | rate | torch, µs | torch / ours | torch.compile, µs | warm: ours, µs | torch, µs | torch / ours |
|---|---|---|---|---|---|---|---|---|---|---|"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="libcookbook_for_python.so")
    parser.add_argument("--out", help="JSON, rewritten after every row, with a table beside it")
    parser.add_argument("--recipes", type=lambda text: text.split(","), help="these alone")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = False
    recipes.device = args.device
    on_cpu = args.device == "cpu"
    library = Library(args.library)
    about = dict(torch=torch.__version__, cuda=torch.version.cuda, device="cpu" if on_cpu else torch.cuda.get_device_name())
    print(about, flush=True)
    rows, wrong = [], []
    for case in recipes.cases(small=on_cpu):
        if args.recipes and case.recipe not in args.recipes:
            continue
        try:
            error = checked(library, case)
            if on_cpu:
                print(f"{case.title}: right, relative error {error:.1e}", flush=True)
                continue
            found, sets = timed(library, case, args)
        except Exception as problem:
            print(f"{case.title}: {repr(problem)[:400]}", flush=True)
            wrong.append(case.title)
            continue
        rows.append(row(case, found, sets, error))
        print(line(rows[-1]), flush=True)
        if args.out:
            with open(args.out, "w") as file:
                json.dump(dict(about, rounds=args.rounds, rows=rows, failed=wrong), file, indent=1)
            with open(args.out.removesuffix(".json") + ".md", "w") as file:
                print(HEAD, *map(line, rows), sep="\n", file=file)
        torch.cuda.empty_cache()
    if wrong:
        sys.exit(f"failed: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
