"""Products on shapes that nobody chose: what the call takes by itself, every choice that it has, and the peers, in one process.

    cargo build --release -p tile-cookbook --example cookbook_for_python
    python bench/random_shapes.py target/release/examples/libcookbook_for_python.so --seed 1a2b3c4d --out shapes.json

usage: random_shapes.py LIBRARY --seed HEX [--families aligned,odd,..] [--count 60] [--peers cublas,cublaslt,triton] [--rounds 7]
       [--called | --within 1.5] [--tuned] [--shapes MxNxK,..] [--seconds N] [--out FILE.json]

Shapes are drawn log-uniformly from the seed. The families of `tile_kernels::gemm` are `aligned` (bf16 and f16, extents that are multiples of
8), `odd` (extents that are not, or rows of a pitch of K + 8 elements), `f32`, `tf32` and `epilogue` (a bias, and ReLU or GELU of the sum with
it or neither; bf16 and f16, layout `nt`). A third of them have 1 to 128 rows, the others up to 16,384; N and K are 64 to 28,672; at most 2^41
multiply-adds; every layout (`nt` is a linear layer's). `long` are products of 64 to 1,200 rows and columns with a K of 4,096 to 28,672, all multiples of 8. Those of `gemm_batched` are `batched` (bf16 and f16), `batched-f32`,
`batched-tf32` and `batched-odd` (bf16, f16 and tf32 of any extents): 2 to 512 products, M, N and K from 16 to 4,096 (to 256 for a third), a third with at most 128 rows; and `few`, 2 to 40 products of 16 to 768
rows and columns with a K of 256 to 4,096, of every type. Those of `gemv` are `gemv`
and `gemv-odd` (rows that are no multiple of 16 bytes): bf16, f16 and f32, N from 1 to 262,144, K from 64 to 32,768. The figures of a commit are
those of the seed that the first eight digits of its hash are.

Each result is compared with float64 first. A time is that of a graph of calls which rotate over 0.4 GB of operands, or over 64 sets (256 of a
GEMV's) of smaller ones; `plain` and `dependent` are the same calls without and with programmatic dependent launch; the peers' are plain.
Everybody is screened in short rounds; what is called, the three best of ours and the two best of each peer run in random order afterwards.
`--called` leaves the other choices out, `--within` those that are expected to take so many times as long as the best; `--tuned` adds what `gemm::tuned` or `gemv::tuned` launches; `--shapes` measures these instead, bf16
and `nt`. A peer that fails is named, and takes no part in that row. A run goes on where FILE.json ends; `--seconds` begins no shape after so many.
"""
import argparse
import json
import math
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from harness.drawn import FAMILIES, RESULT, TOLERANCE, Shape, shapes
from harness.library import CALL, TUNER, Library, Ours
from harness.method import Captured, median, race

ROTATE, CALLS = 400_000_000, 16
PEERS = ("cublas", "cublaslt", "triton")


def measure(library, shape, arguments):
    torch.backends.cuda.matmul.allow_tf32 = shape.dtype == "tf32"
    count = min(shape.most_sets, max(2, ROTATE // shape.nbytes))
    sets = [shape.tensors() for _ in range(count)]
    calls = [sets[i % count] for i in range(max(count, CALLS if shape.nbytes < 100e6 else count))]
    references = [(one[RESULT], shape.reference(*one)) for one in (sets[0], sets[-1])]
    asked = library.asked(shape.entry, calls, shape.scalars)
    expected = library.candidates(asked)
    row = dict(shape.__dict__, group=shape.group, taken=expected[0][0], refused={}, expected=dict(expected), screened={})

    def right(run):
        for c, _ in references:
            c.fill_(float("nan"))
        run()
        torch.cuda.synchronize()
        error = max(shape.error(c, wanted) for c, wanted in references)
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

    enter("called plain", lambda: Ours(library, asked, calls, CALL, False))
    enter("called dependent", lambda: Ours(library, asked, calls, CALL, True))
    if arguments.tuned:
        enter("tuned", lambda: Ours(library, asked, calls, TUNER, True))
    if not arguments.called:
        most = arguments.within * min(us for _, us in expected)
        for index, (name, us) in enumerate(expected):
            if us <= most:
                enter(f"ours {name}", lambda: Ours(library, asked, calls, index, False))
    try:
        for name, made in shape.peers(arguments.peers, calls).items():
            enter(name, lambda: Captured(made))
    except Exception as problem:
        row["refused"]["peers"] = repr(problem)[:200]
        print(f"   {row['refused']['peers']}", flush=True)
    for name, times in race(entries, 3, 700).items():
        row["screened"][name] = min(times)
    keep = {"called plain", "called dependent", "tuned"}
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
    """Best peer's time over ours as called (plain, dependent) and at best; the best choice's time over the call's; what is tuned, over the call's."""
    us = row["us"]
    peer = min((t for n, t in us.items() if n.split(" ")[0] in PEERS), default=None)
    best = min((t for n, t in us.items() if n.startswith(("ours", "called plain"))), default=None)
    called, dependent, tuned = us.get("called plain"), us.get("called dependent"), us.get("tuned")
    return dict(peer=peer, called=called and peer and peer / called, dependent=dependent and peer and peer / dependent,
                best=best and peer and peer / best, regret=called and called / best - 1, tuned=dependent and tuned and tuned / dependent)


def mean(values):
    values = [v for v in values if v]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def warm(library, found, called):
    """Compiles what will be launched, in parallel: where only calls are measured, that of each shape; else a small product of each kind
    by every choice, and of each shape the choices that are compiled for it alone."""
    jobs, kept = [], []

    def add(shape, takes):
        kept.append(shape.tensors())
        asked = library.asked(shape.entry, kept[-1:], shape.scalars)
        jobs.extend((asked, index) for index, (name, _) in enumerate(library.candidates(asked)) if takes(name))

    for shape in found:
        if called:
            kept.append(shape.tensors())
            jobs.append((library.asked(shape.entry, kept[-1:], shape.scalars), CALL))
        else:
            add(shape, shape.compiled_for)
    kinds = {} if called else {shape.kind: shape for shape in found if shape.kind}
    for shape in kinds.values():
        add(shape.small(), lambda name: True)

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
    listed = lambda text: [name for name in text.split(",") if name]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="libcookbook_for_python.so")
    parser.add_argument("--seed", required=True)
    parser.add_argument("--families", type=listed, default=["aligned"], help=",".join(FAMILIES))
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--peers", type=listed, default=list(PEERS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--called", action="store_true")
    parser.add_argument("--within", type=float, default=math.inf)
    parser.add_argument("--tuned", action="store_true")
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
              f"best {text(r['best'])}, regret {text(r['regret'])}, tuned {text(r['tuned'])}", flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(dict(device=torch.cuda.get_device_name(), seed=arguments.seed, rows=rows), indent=1))
    for family in arguments.families:
        summary(family, [row for row in rows.values() if row["family"] == family])


def summary(family, every):
    """Prints the geometric means of a family and of its groups."""
    groups = sorted({row["group"] for row in every if "group" in row})
    for title, some in [(family, every)] + [(f"{family}, {group}", [row for row in every if row.get("group") == group]) for group in groups]:
        of = [ratios(row) for row in some]
        if not of:
            continue
        worst = min((r["called"] for r in of if r["called"]), default=None)
        print(f"{title}: {len(of)} shapes, called {mean(r['called'] for r in of):.3f} (worst {worst}), "
              f"dependent {mean(r['dependent'] for r in of):.3f}, best {mean(r['best'] for r in of):.3f}, "
              f"regret {mean(1 + r['regret'] for r in of if r['regret'] is not None) - 1:.3f}, tuned {mean(r['tuned'] for r in of):.3f}")


if __name__ == "__main__":
    main()
