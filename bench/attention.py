"""Attention as `tile_kernels::attention::forward` launches it, beside torch's cuDNN and flash kernels (and, on the paper's shapes, Triton), in one process: first right, then timed.

    cargo build --release -p tile-cookbook --example cookbook_for_python
    python bench/attention.py target/release/examples/libcookbook_for_python.so --sustained --out bench/results/attention-h200.json
    python bench/attention.py target/release/examples/libcookbook_for_python.so --random 20 --seed 1a2b3c4d

usage: attention.py LIBRARY [--out FILE.json] [--random N --seed S | --options] [--only TEXT] [--rounds 9] [--sustained] [--seconds N] [--flash3 FILE.so] [--device cuda | cpu]

The shapes are those of the FlashAttention-3 paper (16,384 tokens, 2,048 elements of all heads) in bf16, or N random ones: heads, groups,
lengths from 17 to 30,000, causal or not, a quarter of them packed sequences of different length; or (`--options`) windows, soft caps, sinks and
other heads, beside flex_attention (which has no sinks) and beside cuDNN without the option. Of packed sequences "a call each" is one call of
cuDNN a sequence. Every result but cuDNN's without the option is checked beside float32 before anything is timed. The method is that of
harness/method.py: graphs that rotate over buffers, in random order, medians over rounds; `--sustained` adds blocks of half a second. TFLOP/s
count 2 (D + DV) operations for each key that a query of a head sees. FlashAttention-3 is a peer where `--flash3` names a library of it
(bench/flash3/build.sh). `ATTENTION_PEERS` may name a Python file with more
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
from torch.nn.attention.bias import causal_lower_right
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.attention.varlen import varlen_attn

from cookbook import Library
from harness.flash3 import Flash3
from harness.method import Captured, median, race, sets_for, sustained

# B, H, HK, M, N, D
PAPER = [(16, 16, 16, 1024, 1024, 128), (8, 16, 16, 2048, 2048, 128), (4, 16, 16, 4096, 4096, 128), (2, 16, 16, 8192, 8192, 128),
         (1, 16, 16, 16384, 16384, 128), (4, 32, 8, 4096, 4096, 128), (16, 32, 32, 1024, 1024, 64), (4, 32, 32, 4096, 4096, 64),
         (1, 32, 32, 16384, 16384, 64)]
# Shape, causal, elements of a value, and what of left, cap and sinks there is.
OPTIONS = [((4, 16, 16, 4096, 4096, 128), True, 128, dict(left=1023)), ((4, 16, 16, 4096, 4096, 128), True, 128, dict(cap=30.0)),
           ((4, 16, 16, 4096, 4096, 128), True, 128, dict(sinks=True)), ((4, 32, 32, 4096, 4096, 64), True, 64, dict(left=127, sinks=True)),
           ((4, 16, 16, 4096, 4096, 96), False, 96, {}), ((4, 16, 16, 4096, 4096, 96), True, 96, {}),
           ((4, 16, 16, 4096, 4096, 192), False, 128, {}), ((4, 16, 16, 4096, 4096, 192), True, 128, {}),
           ((4, 16, 16, 4096, 4096, 256), False, 256, {}), ((4, 16, 16, 4096, 4096, 256), True, 256, {})]
SMALL = [(1, 4, 2, 150, 333, 128), (2, 2, 2, 200, 200, 64)]
TOLERANCE = 6e-3


class Case:
    """A shape, whether it is causal, the options, and of packed sequences how many queries and keys each has."""

    def __init__(self, shape, causal, dv=None, options=None, packed=()):
        self.shape, self.causal, self.dv, self.options, self.packed = shape, causal, dv or shape[5], options or {}, packed
        b, h, hk, m, n, d = shape
        heads = f"{d}" if self.dv == d else f"{d}/{self.dv}"
        words = [f"{b}, {h}, {hk}, {m}, {n}, {heads}", "causal" * causal, "packed" * bool(packed), *(f"{k} {x:g}" for k, x in self.options.items())]
        self.title = " ".join(word for word in words if word)

    def flops(self):
        _, h, _, _, _, d = self.shape
        pairs = 0
        for m, n in self.packed or [self.shape[3:5]] * self.shape[0]:
            left = self.options.get("left", n)
            pairs += sum(min(n - m + i, left) + 1 for i in range(m)) if self.causal else m * n
        return 2 * h * (d + self.dv) * pairs

    def tensors(self, device, dtype=torch.bfloat16):
        b, h, hk, m, n, d = self.shape
        make = lambda *shape: torch.randn(*shape, device=device).to(dtype)
        if not self.packed:
            t = dict(q=make(b, h, m, d), k=make(b, hk, n, d), v=make(b, hk, n, self.dv), o=torch.empty(b, h, m, self.dv, device=device, dtype=dtype))
        else:
            first = [[sum(pair[at] for pair in self.packed[:z]) for z in range(b + 1)] for at in (0, 1)]
            t = dict(q=make(first[0][-1], h, d), k=make(first[1][-1], hk, d), v=make(first[1][-1], hk, self.dv), first=first,
                     o=torch.empty(first[0][-1], h, self.dv, device=device, dtype=dtype))
            t["fq"], t["fk"] = (torch.tensor(x, dtype=torch.int32, device=device) for x in first)
        if "sinks" in self.options:
            t["sinks"] = torch.randn(h, device=device)
        return t

    def ours(self, library):
        names = ["q", "k", "v", "o", *(["fq", "fk"] if self.packed else []), *(["sinks"] if "sinks" in self.options else [])]
        scalars = [float(self.causal), self.options.get("left", -1), -1.0, self.options.get("cap", 0.0)]
        return lambda t: library("kernels/attention", [t[name] for name in names], scalars)

    def sequences(self, t, x=None):
        """(q, k, v, o) of each sequence, as [1, H, M, D]."""
        o = t["o"] if x is None else x
        for z in range(self.shape[0]):
            if not self.packed:
                yield t["q"][z:z + 1], t["k"][z:z + 1], t["v"][z:z + 1], o[z:z + 1]
            else:
                (q, q_end), (k, k_end) = (first[z:z + 2] for first in t["first"])
                yield tuple(part.transpose(0, 1)[None] for part in (t["q"][q:q_end], t["k"][k:k_end], t["v"][k:k_end], o[q:q_end]))


def drawn(count, seed):
    """Random cases of 5e10 to 5e12 operations."""
    draw, found = random.Random(int(seed, 16)), []
    while len(found) < count:
        group, hk, d = draw.choice([1, 1, 2, 4, 8]), draw.choice([1, 2, 4, 8, 16, 32]), draw.choice([64, 128, 128])
        m = round(math.exp(draw.uniform(math.log(17), math.log(30000))))
        n, b = draw.choice([m, m, m + draw.randrange(8192)]), draw.choice([1, 1, 2, 3, 4, 8, 16])
        causal, packed = draw.random() < 0.5, ()
        if b > 1 and draw.random() < 0.4:
            queries = [m] + [draw.randint(1, m) for _ in range(b - 1)]
            packed = [(x, x + n - m) for x in queries]
        if 5e10 <= 4 * hk * group * d * sum(x * y for x, y in packed or [(m, n)] * b) <= 5e12 and hk * group <= 64:
            found.append(Case((b, hk * group, hk, m, n, d), causal, packed=packed))
    return found


def error(case, t, o):
    """The relative error of some rows of some heads beside float32; infinite where an element was not written."""
    if not bool(o.isfinite().all()):
        return float("inf")
    worst, options, sequences = 0.0, case.options, list(case.sequences(t, o))
    for _ in range(4):
        q, k, v, o = random.choice(sequences)
        (h, m, d), n = q.shape[1:], k.shape[2]
        head = random.randrange(h)
        rows, key = torch.randperm(m, device=q.device)[:1024], head // (h // k.shape[1])
        scores = q[0, head, rows].float() @ k[0, key].float().T / math.sqrt(d)
        if "cap" in options:
            scores = options["cap"] * torch.tanh(scores / options["cap"])
        own, column = rows[:, None] + (n - m), torch.arange(n, device=q.device)[None]
        if case.causal:
            scores.masked_fill_((column > own) | (column + options.get("left", n) < own), float("-inf"))
        if "sinks" in options:
            scores = torch.cat([scores, t["sinks"][head].expand(len(rows), 1)], 1)
        wanted = torch.softmax(scores, -1)[:, :n] @ v[0, key].float()
        worst = max(worst, ((o[0, head, rows].float() - wanted).norm() / wanted.norm()).item())
    return worst


def torch_call(backend, causal):
    def call(q, k, v):
        (m, n), grouped = (q.shape[2], k.shape[2]), k.shape[1] != q.shape[1]
        mask = dict(attn_mask=causal_lower_right(m, n)) if causal and m != n else dict(is_causal=causal)
        with sdpa_kernel(backend), torch.no_grad():
            return F.scaled_dot_product_attention(q, k, v, **mask, enable_gqa=grouped)
    return call


def flex_call(case):
    """flex_attention, compiled for the case, with the block mask made before."""
    left, cap = case.options.get("left", 1 << 30), case.options.get("cap")
    mask = create_block_mask(lambda b, h, i, j: (j <= i) & (j + left >= i), None, None, case.shape[3], case.shape[4])
    score = (lambda s, b, h, i, j: cap * torch.tanh(s / cap)) if cap else None
    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda t: compiled(t["q"], t["k"], t["v"], score_mod=score, block_mask=mask)


def flash3_call(flash3, case):
    def call(t):
        if case.packed:
            most = [max(pair[at] for pair in case.packed) for at in (0, 1)]
            flash3.forward(t["q"], t["k"], t["v"], t["o"], case.causal, (t["fq"], t["fk"]), most)
        else:
            flash3.forward(t["q"], t["k"], t["v"], t["o"], case.causal)
    return call


def contenders(library, case, flash3, more):
    """name -> a function of a set of tensors, which returns the result, or writes `o` and returns None."""
    calls, causal = {"ours": case.ours(library)}, case.causal
    if flash3 and not case.options and case.shape[5] in (64, 128):
        calls["FA3"] = flash3_call(flash3, case)
    cudnn, flash = torch_call(SDPBackend.CUDNN_ATTENTION, causal), torch_call(SDPBackend.FLASH_ATTENTION, causal)
    if case.packed:
        most = [max(pair[at] for pair in case.packed) for at in (0, 1)]
        window = dict(window_size=(-1, 0 if causal else -1))
        calls["varlen"] = lambda t: varlen_attn(t["q"], t["k"], t["v"], t["fq"], t["fk"], *most, **window)

        def each(t):
            for q, k, v, o in case.sequences(t):
                o.copy_(cudnn(q, k, v))
        calls["a call each"] = each
        return calls
    if more is not None and not case.options:
        t = case.tensors("cuda")
        for name in more.contenders(t["q"], t["k"], t["v"], t["o"], causal):
            calls[name] = lambda t, name=name: more.contenders(t["q"], t["k"], t["v"], t["o"], causal)[name]()
    if case.options and "sinks" not in case.options:
        calls["flex"] = flex_call(case)
    calls["cuDNN" + " without" * bool(case.options)] = lambda t: cudnn(t["q"], t["k"], t["v"])
    if not case.options:
        calls["flash"] = lambda t: flash(t["q"], t["k"], t["v"])
    if case.shape in PAPER and not case.options:
        from harness import triton_attention
        calls["Triton"] = lambda t: triton_attention.call(t["q"], t["k"], t["v"], t["o"], causal)
    return calls


def checked(call, case, t):
    t["o"].fill_(float("nan"))
    result = call(t)
    found = error(case, t, t["o"] if result is None else result)
    if not found < TOLERANCE:
        raise ValueError(f"WRONG: relative error {found:.2e}")
    return found


def captured(call, sets):
    """The call of each set of tensors, as a graph. What calls return lives as long as the graph."""
    kept = {}
    entry = Captured([lambda t=t, at=at: kept.__setitem__(at, call(t)) for at, t in enumerate(sets)])
    entry.kept = kept
    return entry


def measured(library, case, args, flash3, more):
    work, entries, errors = case.flops(), {}, {}
    size = sum(x.nbytes for x in case.tensors("cuda").values() if isinstance(x, torch.Tensor))
    sets = [case.tensors("cuda") for _ in range(sets_for(size, 8))]
    for name, call in contenders(library, case, flash3, more).items():
        try:
            if "without" not in name:
                errors[name] = checked(call, case, sets[0])
            entries[name] = captured(call, sets)
        except Exception as problem:  # what a peer cannot do is said, and the rest goes on
            if name == "ours":
                raise
            print(f"   {name} takes no part: {repr(problem)[:200]}", flush=True)
    us = {name: median(times) for name, times in race(entries, args.rounds).items()}
    row = dict(title=case.title, shape=case.shape, causal=case.causal, dv=case.dv, options=case.options, packed=case.packed, errors=errors, us=us,
               tflops={name: work / t * 1e-6 for name, t in us.items()})
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
    parser.add_argument("--options", action="store_true", help="windows, soft caps, sinks and other heads instead of the paper's shapes")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--flash3", help="the library that bench/flash3/build.sh makes: FlashAttention-3 takes part")
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
            for options, packed in [({}, ()), (dict(left=70, cap=5.0, sinks=True), ()), ({}, [(shape[3], shape[4]), (13, 40)][:shape[0]])]:
                for causal in [True] if options else [False, True]:
                    case = Case(shape, causal, options=options, packed=packed)
                    found = checked(case.ours(library), case, case.tensors("cpu"))
                    print(f"{case.title}: right, relative error {found:.1e}")
        return
    flash3, more = Flash3(args.flash3) if args.flash3 else None, None
    if path := os.environ.get("ATTENTION_PEERS"):
        spec = importlib.util.spec_from_file_location("attention_peers", path)
        more = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(more)
    about = dict(torch=torch.__version__, cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version(), device=torch.cuda.get_device_name())
    print(about, flush=True)
    cases = [Case(shape, causal) for causal in (False, True) for shape in PAPER]
    if args.options:
        cases = [Case(*case) for case in OPTIONS]
    elif args.random:
        cases = drawn(args.random, args.seed)
    rows, failed, names = [], [], []
    for case in cases:
        title = case.title
        if args.only not in title:
            continue
        if time.monotonic() - begun > args.seconds:
            print(f"{title}: no time left", flush=True)
            continue
        try:
            row = measured(library, case, args, flash3, more)
        except Exception as problem:
            print(f"{title}: {repr(problem)[:400]}", flush=True)
            failed.append(title)
            continue
        rows.append(row)
        if not set(row["tflops"]) <= set(names):
            names = list(row["tflops"])
            print("| B, H, HK, M, N, D | " + " | ".join(names) + " | ours / best peer |\n|---|" + "---:|" * (len(names) + 1), flush=True)
        rates = [row["tflops"]]
        if args.sustained:
            rates.append({name: found["tflops"] for name, found in row["sustained"].items()})
        for rate in rates:
            peers = [x for name, x in rate.items() if name != "ours" and "without" not in name]
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
            for name in sorted({name for row in some for name in row["tflops"]} - {"ours"}):
                both = [row["tflops"]["ours"] / row["tflops"][name] for row in some if name in row["tflops"]]
                if both:
                    print(f"heads of {d}{', causal' * causal}: {mean(both):.3f} of {name}, in geometric mean of {len(both)}; least {min(both):.3f}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
