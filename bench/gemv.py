"""Our GEMV against what a user would pick instead, in one process and one harness, on one GPU.

`cargo run --release --example gemv -- --export DIR` writes every instance of the bundled kernel (a cubin and a launch
record a shape); this script launches them beside cuBLAS (torch) and Triton.

Method: every contender gets the same N(0,1) data and is checked against float64 first; a round replays, for each
contender in a fresh random order, a CUDA graph that rotates over buffer sets of at least 0.8 GB together, so that L2 is
cold; the baseline is entered twice and its spread printed; medians over the rounds.

With `--chain 64` the square shapes are timed as a chain of at least so many products, each of the previous one's result,
with weights of its own; ours are then launched as dependent launches (programmatic stream serialisation), and the chain's
last vector must have the bits it has without them. The others are launched as they come.

usage: gemv.py DIR [--rounds 15] [--dtypes f16,bf16] [--chain 0] [--out FILE.json]
"""
import argparse
import ctypes
import json
import os
import random
import struct

import torch
import triton
import triton.language as tl

SHAPES = [(1024, 1024), (4096, 4096), (7168, 16384), (18432, 7168), (28672, 8192), (57344, 7168)]
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
ROTATE = 800_000_000


@triton.jit
def triton_gemv_kernel(x, w, y, N, K, BN: tl.constexpr, BK: tl.constexpr):
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros((BN, BK), tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        xv = tl.load(x + rk, mask=rk < K, other=0.0).to(tl.float32)
        wv = tl.load(w + rn[:, None] * K + rk[None, :], mask=(rn[:, None] < N) & (rk[None, :] < K), other=0.0)
        acc += wv.to(tl.float32) * xv[None, :]
    tl.store(y + rn, tl.sum(acc, 1).to(y.dtype.element_ty), mask=rn < N)


def triton_call(cfg):
    bn, bk, warps = cfg

    def call(w, x, y):
        n, k = w.shape
        triton_gemv_kernel[(triton.cdiv(n, bn),)](x, w, y, n, k, bn, bk, num_warps=warps)

    return call


class Attribute(ctypes.Structure):
    """CUlaunchAttribute. 6: programmatic stream serialisation."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_int), ("rest", ctypes.c_char * 60)]


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint)]


class Exported:
    """One exported launch: a cubin's function with its grid and parameters."""

    driver = ctypes.CDLL("libcuda.so.1")

    def __init__(self, folder, record, early=False):
        self.record = record
        self.early = early and record.get("pdl", False)
        with open(os.path.join(folder, record["cubin"]), "rb") as f:
            image = f.read()
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.driver.cuModuleLoadData(ctypes.byref(self.module), image))
        self.check(self.driver.cuModuleGetFunction(ctypes.byref(self.function), self.module, record["symbol"].encode()))

    @staticmethod
    def check(status):
        if status:
            raise RuntimeError(f"CUDA driver error {status}")

    def __call__(self, w, x, y):
        tensors = {"w": w, "x": x, "y": y}
        slots = []
        for p in self.record["params"]:
            if "pointer" in p:
                slots.append(ctypes.c_uint64(tensors[p["pointer"]].data_ptr()))
            elif "f32" in p:
                slots.append(ctypes.c_float(p["f32"]))
            else:
                slots.append(ctypes.c_int32(p["i32"]))
        array = (ctypes.c_void_p * len(slots))(*[ctypes.cast(ctypes.byref(s), ctypes.c_void_p) for s in slots])
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        grid, block = self.record["grid"], self.record["threads"]
        attribute = Attribute(id=6, value=1)
        config = Config((ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block), self.record["dynamic_shared"], stream,
                        ctypes.pointer(attribute), int(self.early))
        self.check(self.driver.cuLaunchKernelEx(ctypes.byref(config), self.function, array, None))


def graph_of(calls):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for c in calls:
            c()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for c in calls:
            c()
    return graph


def timed(run, count):
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    for _ in range(count):
        run()
    b.record()
    b.synchronize()
    return a.elapsed_time(b) / count * 1e3


def median(values):
    return sorted(values)[len(values) // 2]


def race(graphs, per_graph, rounds, budget_us):
    """Microseconds a call for each contender: medians over rounds in random order."""
    times = {name: [] for name in graphs}
    repeats = {}
    for name, graph in graphs.items():
        timed(graph.replay, 1)
        repeats[name] = max(1, int(budget_us / max(timed(graph.replay, 2), 1.0)))
    for _ in range(rounds):
        order = list(graphs)
        random.shuffle(order)
        for name in order:
            times[name].append(timed(graphs[name].replay, repeats[name]) / per_graph)
    return {name: median(v) for name, v in times.items()}


def relative_error(out, ref):
    out, ref = out.double(), ref.double()
    return ((out - ref).norm() / ref.norm()).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--dtypes", default="f16,bf16")
    parser.add_argument("--chain", type=int, default=0)
    parser.add_argument("--out")
    args = parser.parse_args()
    with open(os.path.join(args.folder, "launches.json")) as f:
        records = json.load(f)
    rows = []
    for name in args.dtypes.split(","):
        dtype = DTYPES[name]
        for n, k in SHAPES:
            nbytes = (n * k + n + k) * 2
            sets = max(2, args.chain, -(-ROTATE // nbytes))
            if args.chain and n != k:
                continue
            w = [torch.randn(n, k, device="cuda", dtype=dtype) for _ in range(sets)]
            x = [torch.randn(k, device="cuda", dtype=dtype) for _ in range(sets)]
            y = [torch.empty(n, device="cuda", dtype=dtype) for _ in range(sets)]
            if args.chain:
                w = [a / k ** 0.5 for a in w]
                vectors = [torch.randn(k, device="cuda", dtype=dtype) for _ in range(sets + 1)]
                x, y = vectors[:-1], vectors[1:]
            ref = w[0].double() @ x[0].double()
            groups = {"cublas": {"torch.mv": lambda w, x, y: torch.mv(w, x, out=y)}}
            groups["triton"] = {str(c): triton_call(c) for c in
                                [(bn, bk, nw) for bn in (1, 2, 4, 8) for bk in (512, 1024, 2048) for nw in (1, 2, 4, 8)]}
            groups["ours"] = {r["instance"]: Exported(args.folder, r, args.chain > 0) for r in records
                              if r["dtype"] == name and r["n"] == n and r["k"] == k}
            finalists = {}
            for who, contenders in groups.items():
                quick = {}
                for label, call in contenders.items():
                    y[0].fill_(float("nan"))
                    call(w[0], x[0], y[0])
                    torch.cuda.synchronize()
                    e = relative_error(y[0], ref)
                    if not e < 4e-3:
                        print(f"  WRONG {who} {label}: relative error {e}", flush=True)
                        continue
                    graph = graph_of([lambda w=a, x=b, y=c, call=call: call(w, x, y) for a, b, c in zip(w, x, y)])
                    timed(graph.replay, 1)
                    if args.chain and who == "ours":
                        chained, call.early = y[-1].clone(), False
                        for a, b, c in zip(w, x, y):
                            call(a, b, c)
                        call.early = True
                        if not torch.equal(chained, y[-1]):
                            print(f"  WRONG {who} {label}: the chain has other bits than its products", flush=True)
                            continue
                    quick[label] = (min(timed(graph.replay, 2) for _ in range(3)) / sets, graph)
                for label in sorted(quick, key=lambda l: quick[l][0])[:3]:
                    finalists[f"{who} {label}"] = quick[label][1]
                for label in quick:
                    if who == "ours" and contenders[label].record["chosen"]:
                        finalists["default"] = quick[label][1]
                if who == "ours":
                    for label, (us, _) in sorted(quick.items(), key=lambda q: q[1][0]):
                        print(f"    ours {label}: {us:.2f} us", flush=True)
                if who == "triton" and quick:
                    baseline = min(quick, key=lambda l: quick[l][0])
                    finalists["baseline again"] = quick[baseline][1]
            result = race(finalists, sets, args.rounds, 4000)
            best = {who: min((us, label) for label, us in result.items() if label.startswith(who)) for who in groups if any(l.startswith(who) for l in result)}
            spread = abs(result["baseline again"] / best["triton"][0] - 1)
            ours = best["ours"][0]
            default = result.get("default", float("nan"))
            row = dict(default_us=default, default_vs_triton=best["triton"][0] / default, dtype=name, n=n, k=k, sets=sets, ours_us=ours, ours=best["ours"][1], triton_us=best["triton"][0],
                       cublas_us=best["cublas"][0], tbps=nbytes / ours * 1e-6, vs_triton=best["triton"][0] / ours,
                       vs_cublas=best["cublas"][0] / ours, baseline_spread=spread, all=result)
            rows.append(row)
            print(f"{name} {n}x{k}: ours {ours:.2f} us ({row['tbps']:.2f} TB/s, {best['ours'][1]}), triton {best['triton'][0]:.2f} "
                  f"({row['vs_triton']:.3f}x), cublas {best['cublas'][0]:.2f} ({row['vs_cublas']:.3f}x), default {default:.2f} ({row['default_vs_triton']:.3f}x), spread {spread:.3f}", flush=True)
            del w, x, y, finalists
            torch.cuda.empty_cache()
    if args.out:
        with open(args.out, "w") as f:
            json.dump(dict(device=torch.cuda.get_device_name(), torch=torch.__version__, triton=triton.__version__, rows=rows), f, indent=1)


main()
