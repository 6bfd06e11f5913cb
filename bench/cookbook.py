"""The cookbook's recipes, or the row kernels of `tile-kernels`, beside torch in one process: first right, then timed.

    cargo build --release -p tile-cookbook --example cookbook_for_python
    python bench/cookbook.py target/release/examples/libcookbook_for_python.so --out bench/results/cookbook-h200.json
    python bench/cookbook.py target/release/examples/libcookbook_for_python.so --cases rows --compile --out bench/results/rows-h200.json

usage: cookbook.py LIBRARY [--cases recipes | rows] [--out FILE.json] [--recipes NAME,..] [--rounds 11] [--compile] [--seconds N]
       [--copy] [--device cuda | cpu]

Each result, ours and each peer's, is checked before anything is timed. The method is that of harness/method.py: graphs of at least 20
calls, in random order, medians over rounds. *Cold*: the calls rotate over buffers of 0.8 GB, or over 4,096 sets of smaller ones, so
that none finds its operands in L2. *Warm*: always the same buffers, where these are at most 32 MB (an H200's L2 has 50). torch
allocates its results, in the graph, where each call has its own as ours has. On torch's stream no kernel of ours starts before the
previous one is done. `--compile` adds torch.compile, which takes seconds a shape. Row kernels have a peer in Triton too
(harness/triton_rows.py), with the number of warps that is fastest in a few short rounds. A peer that fails is named and takes no part.
`--copy` times copies of x to y beside the kernels that read and write a row each: what such a kernel cannot beat. They are no peers.
`--seconds` begins no case after so many. FILE.md is the table. `--device cpu` only checks, small shapes on our simulator.
"""
import argparse
import ctypes
import json
import math
import sys
import time

import torch

from harness import recipes, rows
from harness.method import Captured, median, race, screen, sets_for

P = ctypes.c_void_p
DTYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2, torch.int32: 3}
# Tensors of i32 that a recipe takes as u32: torch's u32 can do little.
UNSIGNED = {("rope", 3), ("argmax", 1), ("histogram", 0), ("histogram", 1), ("gather", 1), ("segmented_sum", 1), ("top_k", 2),
            ("kernels/argmax", 1), ("kernels/embedding", 1)}
WARM, CALLS, MOST_SETS = 32_000_000, 20, 4096
# Kernels that read a row of x and write one of y.
COPIES = ("rms_norm", "layer_norm", "softmax")


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


def checked(case, call, tolerance):
    """The relative error of what `call` writes, or returns; raises where it is too large."""
    b = case.make()
    check = case.check(b)
    for name in case.poisoned:
        b[name].fill_(float("nan") if b[name].is_floating_point() else -1)
    result = call(b)
    if result is not None:
        b.update(zip(case.poisoned, result if isinstance(result, tuple) else (result,)))
    found = check(b)
    if not found <= tolerance:
        raise ValueError(f"WRONG: relative error {found:.2e}, above {tolerance:.0e}")
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


def attempt(name, what):
    """What `what()` gives; None where a peer fails, which is said."""
    try:
        return what()
    except Exception as problem:  # what a peer cannot do is said, and the rest goes on
        print(f"   {name} takes no part: {repr(problem)[:300]}", flush=True)


def right(case, name, call):
    # A peer may round to the dtype in between: a wrong one is wrong by more than that.
    return attempt(name, lambda: (checked(case, call, 4 * case.tolerance),)) is not None


def fastest_triton(case, sets):
    """The fastest configuration's label, call and graph, or None."""
    from harness import triton_rows
    found = {}
    for label, call in triton_rows.calls(case.triton, case.shape[1]).items():
        if right(case, f"triton ({label})", call) and (graph := attempt(f"triton ({label})", lambda: captured(call, sets))):
            found[label] = call, graph
    times = screen({label: graph for label, (_, graph) in found.items()})
    return min(((label, *found[label]) for label in found), key=lambda each: times[each[0]], default=None)


def copies(case):
    """Copies of a case's bytes: torch's, and Triton's with a program a row."""
    from harness import triton_rows
    rows = triton_rows.calls("copy", case.shape[1])
    return {"copy by torch": lambda b: b["y"].copy_(b["x"]), **{f"copy by rows, {label}": call for label, call in rows.items()}}


def timed(library, case, args):
    """name -> {cold, warm} in microseconds a call, and how the cold ones were run."""
    peers = dict(case.torch)
    if args.compile:
        peers["torch.compile"] = compiled(next(iter(case.torch.values())))
    calls = {"ours": lambda b: launch(library, case, b), **{name: call for name, call in peers.items() if right(case, name, call)}}
    sets = [case.make() for _ in range(sets_for(case.nbytes, MOST_SETS))]
    entries, found = {}, {}
    # Ours first, and its failure is one of the case.
    entries["ours", "cold"] = captured(calls["ours"], sets)
    for name, call in calls.items():
        if name != "ours" and (graph := attempt(name, lambda: captured(call, sets))):
            entries[name, "cold"] = graph
    if case.triton and (best := attempt("triton", lambda: fastest_triton(case, sets))):
        label, calls["triton"], entries["triton", "cold"] = best
        found["triton"] = dict(config=label)
    if args.copy and case.triton in COPIES:
        for name, call in copies(case).items():
            if graph := attempt(name, lambda: captured(call, sets)):
                calls[name], entries[name, "cold"] = call, graph
    for name, _ in list(entries):
        found.setdefault(name, {})["how"] = entries[name, "cold"].how
        if case.nbytes <= WARM and (graph := attempt(f"{name}, warm,", lambda: captured(calls[name], sets[:1]))):
            entries[name, "warm"] = graph
    for (name, state), times in race(entries, args.rounds, budget_us=3000).items():
        found[name][state] = median(times)
    return found, len(sets)


def row(case, found, sets, error):
    ours, peer = found["ours"], next(name for name in case.torch)
    out = dict(recipe=case.recipe, dtype=recipes.NAMES[case.dtype], shape=case.shape, sets=sets, nbytes=case.nbytes, flops=case.flops,
               error=error, peer=peer, us=found, tbps=case.nbytes / ours["cold"] * 1e-6, tflops=case.flops / ours["cold"] * 1e-6)
    for state in ("cold", "warm"):
        if state in ours and state in found.get(peer, {}):
            out[f"torch_over_ours_{state}"] = found[peer][state] / ours[state]
        others = {name: us[state] for name, us in found.items() if name != "ours" and not name.startswith("copy ") and state in us}
        if state in ours and others:
            best = min(others, key=others.get)
            out[f"best_{state}"], out[f"best_over_ours_{state}"] = best, others[best] / ours[state]
    return out


def line(row):
    us = lambda name, state: f"{row['us'][name][state]:.{1 if row['us'][name][state] >= 10 else 2}f}" if state in row["us"].get(name, {}) else ""
    ratio = lambda key: f"{row[key]:.2f}" if key in row else ""
    # Attention is bound by arithmetic.
    rate = f"{row['tflops']:.0f} TFLOP/s" if row["recipe"] == "attention" else f"{row['tbps']:.2f} TB/s"
    shape = " x ".join(map(str, row["shape"]))
    config = row["us"].get("triton", {}).get("config")
    best = lambda state: (row.get(f"best_{state}", ""), us(row.get(f"best_{state}"), state), ratio(f"best_over_ours_{state}"))
    cells = [row["recipe"], row["dtype"], shape, us("ours", "cold"), rate, us(row["peer"], "cold"), us("torch.compile", "cold"),
             us("triton", "cold") + (f" ({config})" if config else ""), *best("cold"), us("ours", "warm"), *best("warm")]
    return "| " + " | ".join(cells) + " |"


HEAD = """| recipe | dtype | shape | ours, µs | rate | torch, µs | torch.compile, µs | Triton, µs | best peer | its µs | best / ours | \
warm: ours, µs | best peer | its µs | best / ours |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"""


def mean(rows, key):
    """The geometric mean over the rows that have `key`."""
    logs = [math.log(row[key]) for row in rows if key in row]
    return math.exp(sum(logs) / len(logs)) if logs else float("nan")


def means(rows):
    cold, warm = mean(rows, "best_over_ours_cold"), mean(rows, "best_over_ours_warm")
    return f"| geometric mean of {len(rows)} |" + " |" * 9 + f" {cold:.3f} |" + " |" * 3 + f" {warm:.3f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="libcookbook_for_python.so")
    parser.add_argument("--cases", choices=("recipes", "rows"), default="recipes")
    parser.add_argument("--out", help="JSON, rewritten after every row, with a table beside it")
    parser.add_argument("--recipes", type=lambda text: text.split(","), help="these alone")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--copy", action="store_true")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    begun = time.monotonic()
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = False
    recipes.device = args.device
    on_cpu = args.device == "cpu"
    library = Library(args.library)
    about = dict(torch=torch.__version__, cuda=torch.version.cuda, device="cpu" if on_cpu else torch.cuda.get_device_name())
    print(about, flush=True)
    done, wrong = [], []
    for case in {"recipes": recipes, "rows": rows}[args.cases].cases(small=on_cpu):
        if args.recipes and case.recipe not in args.recipes:
            continue
        if time.monotonic() - begun > args.seconds:
            print(f"{case.title}: no time left", flush=True)
            continue
        try:
            error = checked(case, lambda b: launch(library, case, b), case.tolerance)
            if on_cpu:
                for name, call in case.torch.items():
                    right(case, name, call)
                print(f"{case.title}: right, relative error {error:.1e}", flush=True)
                continue
            found, sets = timed(library, case, args)
        except Exception as problem:
            print(f"{case.title}: {repr(problem)[:400]}", flush=True)
            wrong.append(case.title)
            continue
        done.append(row(case, found, sets, error))
        print(line(done[-1]), flush=True)
        for name in found:
            if name.startswith("copy "):
                print(f"   {name}: {found[name]['cold']:.2f} us, {found[name].get('warm', float('nan')):.2f} warm", flush=True)
        if args.out:
            with open(args.out, "w") as file:
                json.dump(dict(about, rounds=args.rounds, best_over_ours=mean(done, "best_over_ours_cold"), rows=done, failed=wrong), file, indent=1)
            with open(args.out.removesuffix(".json") + ".md", "w") as file:
                print(HEAD, *map(line, done), means(done), sep="\n", file=file)
        torch.cuda.empty_cache()
    print(f"{means(done)} {time.monotonic() - begun:.0f} s" if done else f"{time.monotonic() - begun:.0f} s", flush=True)
    if wrong:
        sys.exit(f"failed: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
