"""Two exports of the same kernels, of an older and a newer commit, raced in one process: has any launch become slower?

`cargo xtask export gemv DIR` (gemm, gemm-tf32) writes an export at each commit, without a GPU. A launch record of one is paired with
that of the same kernel, instance, dtype and shape of the other. Where the machine code of both is equal, byte for byte, nothing
is timed and the ratio is 1. Times are of cold-L2 graph replays in random order (harness/method.py); results are checked first.

usage: regression.py --before DIR --after DIR [--every | --same] [--dtypes LIST] [--shapes LIST] [--rounds 15] [--out FILE.json]

Without --every only the launch that is chosen by default for a shape is raced, with it every exported instance. With --same what was
chosen then is raced with the same instance now, whatever is chosen now: what the compiler gained or lost, not the choice. The ratio is
before / after: above 1 the newer one is faster. Exits with 1 where a ratio is below --least (0.99).
"""
import argparse
import collections
import hashlib
import math
import os
import random
import re
import sys
import time

import torch

from harness import exported, report
from harness.contender import Contender
from harness.method import acceptable, admit, median, race
from harness.problems import PROBLEMS, Gemm, Gemv
from harness.workloads import Rotation


def key(record):
    """What both exports call the same launch. Symbols got a prefix in between, and clusters of `gemm` a second extent."""
    shape = tuple(record.get(axis) for axis in "mnk")
    instance = re.sub("^tile_", "", record["instance"])
    instance = re.sub(r"^(gemm(?:_[a-z]+\d+){2}(?:_\d+){6})((?:_\d+){3}_[a-z_]+)$", r"\1_1\2", instance)
    return (record["kernel"], instance, record["dtype"], record.get("layout", "nt"), shape)


def code(folder, record):
    """The machine code of a launch without its symbol's name."""
    with open(os.path.join(folder, record["cubin"]), "rb") as file:
        return hashlib.sha256(file.read().replace(record["symbol"].encode(), b"")).hexdigest()


def source(folder, record):
    """The CUDA C of a launch without its symbol's name; None where the export has none."""
    path = os.path.join(folder, os.path.splitext(record["cubin"])[0] + ".cu")
    if not os.path.exists(path):
        return None
    with open(path) as file:
        return file.read().replace(record["symbol"], "")


def problem_of(record):
    if record.get("op", record["kernel"]) == "gemv":
        return Gemv(record["dtype"], record["n"], record["k"])
    return Gemm(record["dtype"], record["m"], record["n"], record["k"], record.get("layout", "nt"))


def pairs(before, after, args):
    """Pairs of records by problem: {problem key: [(old, new), ...]}. What is chosen now for a problem is paired with the same instance of
    the older export, or where that has none with what was chosen then."""
    is_chosen = lambda record: record.get("chosen") or record.get("chosen_dependent")
    problem = lambda record: (record.get("op", record["kernel"]), *key(record)[2:])
    old = {key(r): r for r in exported.load(before)}
    chosen_then = {problem(r): r for r in exported.load(before) if is_chosen(r)}
    found = collections.OrderedDict()
    for record in exported.load(after):
        if args.same and not is_chosen(old.get(key(record), {})):
            continue
        if not (args.every or args.same or is_chosen(record)):
            continue
        if record["dtype"] not in args.dtypes:
            continue
        earlier = old.get(key(record)) or (chosen_then.get(problem(record)) if is_chosen(record) else None)
        if earlier is None:
            print(f"   only in the newer export: {key(record)}", flush=True)
            continue
        found.setdefault(problem(record), []).append((earlier, record))
    return found


def main():
    listed = lambda text: text.split(",")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", required=True)
    parser.add_argument("--after", required=True)
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--same", action="store_true")
    parser.add_argument("--dtypes", type=listed, default=["f16", "bf16", "f32", "tf32"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--idle", type=float, default=0.02)
    parser.add_argument("--least", type=float, default=0.99)
    parser.add_argument("--seconds", type=float, default=400, help="begin no further problem after this long; the rest is said")
    parser.add_argument("--out")
    args = parser.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    results = report.Json(args.out, dict(device=torch.cuda.get_device_name(), torch=torch.__version__))
    begun, slow, not_raced, ratios, same = time.time(), [], [], [], 0
    todo = pairs(args.before, args.after, args)
    for number, ((op, dtype, layout, shape), list_of) in enumerate(todo.items()):
        changed = [(a, b) for a, b in list_of if code(args.before, a) != code(args.after, b)]
        same += len(list_of) - len(changed)
        ratios += [1.0] * (len(list_of) - len(changed))
        if not changed:
            continue
        if time.time() - begun > args.seconds:
            print(f"   out of time: {len(todo) - number} problems were not looked at", flush=True)
            results.content["not_looked_at"] = len(todo) - number
            break
        problem = problem_of(changed[0][1])
        work = Rotation(problem)
        graphs = {}
        try:
            for i, (a, b) in enumerate(changed):
                for peer, folder, record in (("before", args.before, a), ("after", args.after, b)):
                    contender = Contender(peer, record["instance"], lambda t, f=folder, r=record: exported.prepare(f, r, t))
                    graphs[(i, peer)], _ = admit(contender, work)
        except RuntimeError as error:
            # One row or column stored transposed has a pitch that no tensor map takes: a launch takes another class there.
            print(f"{problem.title}: not raced, {error}", flush=True)
            not_raced.append(problem.title)
            continue
        times = {name: median(found) for name, found in race(graphs, args.rounds, idle_s=args.idle).items()}
        for i, (a, b) in enumerate(changed):
            ratio = times[(i, "before")] / times[(i, "after")]
            ratios.append(ratio)
            print(f"{problem.title} {b['instance']}: {times[(i, 'before')]:.3f} -> {times[(i, 'after')]:.3f} us, {ratio:.4f}"
                  f"{'' if source(args.before, a) != source(args.after, b) else ' (same CUDA text)'}", flush=True)
            results.add(dict(op=op, dtype=dtype, layout=layout, shape=shape, instance=b["instance"], before_us=times[(i, "before")],
                             after_us=times[(i, "after")], ratio=ratio))
            if ratio < args.least:
                slow.append((ratio, problem.title, b["instance"]))
        del work, graphs
        torch.cuda.empty_cache()
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else float("nan")
    print(f"{len(ratios)} launches, {same} with equal machine code; geometric mean {mean:.4f}, least {min(ratios, default=1):.4f}", flush=True)
    results.content.update(launches=len(ratios), equal_code=same, geometric_mean=mean, least=min(ratios, default=1), not_raced=not_raced)
    results.add(dict(op="summary"))
    for entry in slow:
        print("slower:", *entry, flush=True)
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
