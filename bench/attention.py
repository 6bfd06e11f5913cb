"""Attention as `tile_kernels::attention::forward` launches it, beside torch's cuDNN and flash kernels, in one process: first right, then timed.

    cargo build --release -p tile-cookbook --example cookbook_for_python
    python bench/attention.py target/release/examples/libcookbook_for_python.so --sustained --out bench/results/attention-h200.json
    python bench/attention.py target/release/examples/libcookbook_for_python.so --random 20 --seed 1a2b3c4d

usage: attention.py LIBRARY [--out FILE.json] [--random N --seed S] [--only TEXT] [--rounds 9] [--sustained] [--seconds N] [--device cuda | cpu]

The shapes are those of the FlashAttention-3 paper (16,384 tokens, 2,048 elements of all heads) in bf16, or N random ones: heads, groups,
lengths from 17 to 30,000, causal or not. Every result is checked beside float32 before anything is timed. The method is that of
harness/method.py: graphs that rotate over buffers, in random order, medians over rounds; `--sustained` adds blocks of half a second. TFLOP/s
count 4 B H M N D operations, and of a causal product those of the keys that are seen. `ATTENTION_PEERS` may name a Python file with more
contenders: its `contenders(q, k, v, o, causal)` returns calls that write `o`, by name. `--seconds` begins no shape after so many. `--device
cpu` only checks, small shapes on our simulator.
"""
import argparse
import importlib.util
import json
import math
import os
import random
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from cookbook import Library
from harness.method import Captured, median, race, sets_for, sustained

# B, H, HK, M, N, D
PAPER = [(16, 16, 16, 1024, 1024, 128), (8, 16, 16, 2048, 2048, 128), (4, 16, 16, 4096, 4096, 128), (2, 16, 16, 8192, 8192, 128),
         (1, 16, 16, 16384, 16384, 128), (4, 32, 8, 4096, 4096, 128), (16, 32, 32, 1024, 1024, 64), (4, 32, 32, 4096, 4096, 64),
         (1, 32, 32, 16384, 16384, 64)]
SMALL = [(1, 4, 2, 150, 333, 128), (2, 2, 2, 200, 200, 64)]
TOLERANCE = 6e-3


def drawn(count, seed):
    """Random shapes and whether they are causal, of 5e10 to 5e12 operations."""
    draw, found = random.Random(int(seed, 16)), []
    while len(found) < count:
        group, hk, d = draw.choice([1, 1, 2, 4, 8]), draw.choice([1, 2, 4, 8, 16, 32]), draw.choice([64, 128, 128])
        m = round(math.exp(draw.uniform(math.log(17), math.log(30000))))
        n, b = draw.choice([m, m, m + draw.randrange(8192)]), draw.choice([1, 1, 2, 3, 4, 8, 16])
        if 5e10 <= 4 * b * hk * group * m * n * d <= 5e12 and hk * group <= 64:
            found.append(((b, hk * group, hk, m, n, d), draw.random() < 0.5))
    return found


def flops(shape, causal):
    b, h, _, m, n, d = shape
    return 4 * b * h * d * (m * (n - m) + m * (m + 1) // 2 if causal else m * n)


def tensors(shape, device, dtype):
    b, h, hk, m, n, d = shape
    make = lambda heads, rows: torch.randn(b, heads, rows, d, device=device).to(dtype)
    q = make(h, m)
    return dict(q=q, k=make(hk, n), v=make(hk, n), o=torch.empty_like(q))


def error(t, o, causal):
    """The relative error of some rows of some heads beside float32; infinite where an element was not written."""
    (b, h, m, d), n = o.shape, t["k"].shape[2]
    if not bool(o.isfinite().all()):
        return float("inf")
    worst = 0.0
    for _ in range(min(4, b * h)):
        at, head = random.randrange(b), random.randrange(h)
        rows = torch.randperm(m, device=o.device)[:1024]
        key = head // (h // t["k"].shape[1])
        scores = t["q"][at, head, rows].float() @ t["k"][at, key].float().T / math.sqrt(d)
        if causal:
            scores.masked_fill_(torch.arange(n, device=o.device)[None] > rows[:, None] + (n - m), float("-inf"))
        wanted = torch.softmax(scores, -1) @ t["v"][at, key].float()
        worst = max(worst, ((o[at, head, rows].float() - wanted).norm() / wanted.norm()).item())
    return worst


def torch_call(backend, causal):
    def call(t):
        b, h, m, d = t["q"].shape
        n, grouped = t["k"].shape[2], t["k"].shape[1] != h
        if causal and m != n:
            raise ValueError("torch's causal mask begins at the first key")
        with sdpa_kernel(backend), torch.no_grad():
            return F.scaled_dot_product_attention(t["q"], t["k"], t["v"], is_causal=causal, enable_gqa=grouped)
    return call


def contenders(library, shape, causal, more):
    """name -> a function of a set of tensors, which returns the result, or writes `o` and returns None."""
    calls = {"ours": lambda t: library("kernels/attention", [t["q"], t["k"], t["v"], t["o"]], [float(causal)])}
    if more is not None:
        t = tensors(shape, "cuda", torch.bfloat16)
        for name in more.contenders(t["q"], t["k"], t["v"], t["o"], causal):
            calls[name] = lambda t, name=name: more.contenders(t["q"], t["k"], t["v"], t["o"], causal)[name]()
    calls["cuDNN"] = torch_call(SDPBackend.CUDNN_ATTENTION, causal)
    calls["flash"] = torch_call(SDPBackend.FLASH_ATTENTION, causal)
    return calls


def checked(call, t, causal):
    t["o"].fill_(float("nan"))
    result = call(t)
    found = error(t, t["o"] if result is None else result, causal)
    if not found < TOLERANCE:
        raise ValueError(f"WRONG: relative error {found:.2e}")
    return found


def measured(library, shape, causal, args, more):
    work, entries, errors = flops(shape, causal), {}, {}
    size = sum(x.nbytes for x in tensors(shape, "cuda", torch.bfloat16).values())
    sets = [tensors(shape, "cuda", torch.bfloat16) for _ in range(sets_for(size, 8))]
    for name, call in contenders(library, shape, causal, more).items():
        try:
            errors[name] = checked(call, sets[0], causal)
            kept = {}
            entries[name] = Captured([lambda t=t, at=at, call=call, kept=kept: kept.__setitem__(at, call(t)) for at, t in enumerate(sets)])
            entries[name].kept = kept
        except Exception as problem:  # what a peer cannot do is said, and the rest goes on
            if name == "ours":
                raise
            print(f"   {name} takes no part: {repr(problem)[:200]}", flush=True)
    us = {name: median(times) for name, times in race(entries, args.rounds).items()}
    row = dict(shape=shape, causal=causal, errors=errors, us=us, tflops={name: work / t * 1e-6 for name, t in us.items()})
    if args.sustained:
        row["sustained"] = {name: dict(found, tflops=work / found["us"] * 1e-6) for name, found in sustained(entries, rounds=2).items()}
    return row


def mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="libcookbook_for_python.so")
    parser.add_argument("--out", help="JSON, rewritten after every row")
    parser.add_argument("--random", type=int, default=0, help="so many random shapes instead of the paper's")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", default="", help="the shapes whose title contains this")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--sustained", action="store_true")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    begun, library = time.monotonic(), Library(args.library)
    torch.backends.cuda.matmul.allow_tf32 = False
    if args.device == "cpu":
        for shape in SMALL:
            for causal in (False, True):
                t = tensors(shape, "cpu", torch.bfloat16)
                found = checked(lambda t: library("kernels/attention", [t["q"], t["k"], t["v"], t["o"]], [float(causal)]), t, causal)
                print(f"{shape} {'causal' if causal else ''}: right, relative error {found:.1e}")
        return
    more = None
    if path := os.environ.get("ATTENTION_PEERS"):
        spec = importlib.util.spec_from_file_location("attention_peers", path)
        more = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(more)
    about = dict(torch=torch.__version__, cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version(), device=torch.cuda.get_device_name())
    print(about, flush=True)
    cases = drawn(args.random, args.seed) if args.random else [(shape, causal) for causal in (False, True) for shape in PAPER]
    rows, failed, names = [], [], []
    for shape, causal in cases:
        title = ", ".join(map(str, shape)) + (" causal" if causal else "")
        if args.only not in title:
            continue
        if time.monotonic() - begun > args.seconds:
            print(f"{title}: no time left", flush=True)
            continue
        try:
            row = measured(library, shape, causal, args, more)
        except Exception as problem:
            print(f"{title}: {repr(problem)[:400]}", flush=True)
            failed.append(title)
            continue
        rows.append(row)
        if not names:
            names = list(row["tflops"])
            print("| B, H, HK, M, N, D | " + " | ".join(names) + " | ours / best peer |\n|---|" + "---:|" * (len(names) + 1), flush=True)
        rates = [row["tflops"]]
        if args.sustained:
            rates.append({name: found["tflops"] for name, found in row["sustained"].items()})
        for rate in rates:
            peers = [x for name, x in rate.items() if name != "ours"]
            row.setdefault("ratios", []).append(rate["ours"] / max(peers, default=math.nan))
            cells = [f"{rate[name]:.0f}" if name in rate else "" for name in names]
            print(f"| {title}{', sustained' * (rate is not row['tflops'])} | " + " | ".join(cells) + f" | {row['ratios'][-1]:.3f} |", flush=True)
        torch.cuda.empty_cache()
        if args.out:
            with open(args.out, "w") as file:
                json.dump(dict(about, command=sys.argv[1:], rounds=args.rounds, rows=rows, failed=failed), file, indent=1)
    for d in sorted({row["shape"][5] for row in rows}):
        for causal in (False, True):
            some = [row for row in rows if row["shape"][5] == d and row["causal"] == causal]
            for name in names[1:]:
                both = [row["tflops"]["ours"] / row["tflops"][name] for row in some if name in row["tflops"]]
                if both:
                    print(f"heads of {d}{', causal' * causal}: {mean(both):.3f} of {name}, in geometric mean of {len(both)}; least {min(both):.3f}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
