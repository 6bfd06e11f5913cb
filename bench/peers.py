"""Our exported kernels against what a user would pick instead, in one process and one harness, on one GPU.

`cargo xtask export gemv DIR` writes our instances; the peers are cuBLAS (torch), cuBLASLt (every algorithm of its
heuristics), Triton, and cuTile, TileLang and TileOPs where they can be imported (bench/peers_bundle.sh packs them for
a machine without network), and fast.cu where FASTCU names its sources (bench/README.md). The method is that of
harness/method.py.

usage: peers.py gemv|gemm|chain|ceiling|launch... [--export DIR] [--out FILE.json] [--peers LIST] [--dtypes LIST]
       [--shapes 4096x4096,...] [--rounds 15] [--sustained] [--pdl] [--skip REGEX]

- gemv, gemm: independent calls with a cold L2.
- chain: GEMVs that each read the last one's result; ours and Triton's also as dependent launches (PDL).
- ceiling: what a plain read and a plain copy of 4 GB reach. launch: host time of one call.
"""
import argparse
import importlib
import random
import re
import sys
import time

import torch

from harness import exported, report
from harness.contender import Contender
from harness.method import Captured, acceptable, admit, median, race, screen, sustained
from harness.problems import PROBLEMS, Gemv
from harness.workloads import Chain, Rotation

# Ours first: where a peer takes the process down, ours have been admitted.
PEERS = {"cublas": "cublas", "cublaslt": "cublaslt", "triton": "triton_peer", "cutile": "cutile_peer", "tilelang": "tilelang_peer",
         "fastcu": "fastcu_peer"}
KEEP, KEEP_OURS = 3, 5


def available(names):
    """name -> the peer's module, for those that can be imported."""
    found = {}
    for name in names:
        if name == "ours":
            continue
        try:
            found[name] = importlib.import_module(f"harness.{PEERS[name]}")
        except Exception as error:
            print(f"{name} takes no part: {repr(error)[:300]}", flush=True)
    return found


def entered(problem, peers, args):
    """The contenders of a problem, by peer."""
    found = []
    if args.export and "ours" in args.peers:
        found += exported.contenders(problem, args.export)
    for name, module in peers.items():
        try:
            found += module.contenders(problem)
        except Exception as error:
            print(f"   {name} takes no part: {repr(error)[:300]}", flush=True)
    return found


def with_dependent_launches(found, args):
    """Ours once more as dependent launches, where they can be."""
    for contender in list(found):
        if contender.record and contender.record.get("pdl"):
            chosen = contender.record.get("chosen_dependent", contender.chosen)
            found.append(Contender("ours pdl", contender.label, chosen=bool(chosen), record=contender.record,
                                   prepare=lambda b, r=contender.record: exported.prepare(args.export, r, b, dependent=True)))
    return found


def entered_in_chain(problem, peers, args):
    """The contenders of a chain: as for independent calls, and once more as dependent launches where they can be."""
    found = with_dependent_launches(entered(problem, peers, args), args)
    if "triton" in peers:
        triton_peer = peers["triton"]
        found += [Contender("triton pdl", str(c), lambda b, c=c: triton_peer.gemv_call(c, b, dependent=True))
                  for c in triton_peer.GEMV_CONFIGS]
    return found


def compete(problem, work, contenders, args):
    """The whole method for one problem: admit, screen, race the best. Returns (finalists, times, baseline)."""
    admitted = {}
    for contender in contenders:
        if args.skip and re.search(args.skip, contender.name):
            continue
        try:
            captured, error = admit(contender, work)
            admitted[contender.name] = (contender, captured, error)
        except Exception as error:
            print(f"   {contender.name} takes no part: {repr(error)[:240]}", flush=True)
            try:
                torch.cuda.synchronize()
            except Exception:
                print(f"the device is lost after {contender.name}; go on without it: --skip '{re.escape(contender.name)}'", flush=True)
                sys.exit(3)
    if not admitted:
        return {}, {}, None
    quick = screen({name: entry[1] for name, entry in admitted.items()})
    finalists = {}
    for peer in dict.fromkeys(entry[0].peer for entry in admitted.values()):
        mine = sorted((n for n in admitted if admitted[n][0].peer == peer), key=quick.get)
        keep = mine[:KEEP_OURS if peer.startswith("ours") else KEEP]
        keep += [n for n in mine if admitted[n][0].chosen and n not in keep]
        finalists.update({n: (*admitted[n], quick[n]) for n in keep})
        if peer.startswith("ours"):
            for name in mine:
                print(f"      {name}: {quick[name]:.3f} us", flush=True)
    others = [n for n in finalists if not finalists[n][0].peer.startswith("ours")] or list(finalists)
    baseline = min(others, key=quick.get)
    graphs = {name: entry[1] for name, entry in finalists.items()}
    times = race({**graphs, report.AGAIN: graphs[baseline]}, args.rounds, idle_s=args.idle)
    for name, entry in finalists.items():
        work.poison()
        entry[1].run()
        acceptable(work, f"{name}'s result after the race", thorough=True)
    return finalists, times, baseline


def run(kind, peers, args, results):
    op = "gemv" if kind == "chain" else kind
    make, shapes = PROBLEMS[op]
    shapes = args.shapes or shapes
    for dtype in args.dtypes:
        for shape in shapes:
            started = time.time()
            problem = make(dtype, *shape, **({"layout": args.layout} if op == "gemm" else {}))
            work = Chain(problem) if kind == "chain" else Rotation(problem)
            contenders = (entered_in_chain if kind == "chain" else entered)(problem, peers, args)
            if args.pdl and kind != "chain":
                contenders = with_dependent_launches(contenders, args)
            finalists, times, baseline = compete(problem, work, contenders, args)
            if not finalists:
                print(f"== {kind} {problem.title}: nobody takes part", flush=True)
                continue
            row = report.row(problem, work, finalists, times, baseline, args.rounds)
            row["kind"] = kind
            if args.sustained:
                tops = {f"{peer} {found['label']}" for peer, found in row["best"].items()}
                row["sustained"] = sustained({name: finalists[name][1] for name in tops})
                for name, seen in row["sustained"].items():
                    print(f"   sustained {name}: {seen['us']:.3f} us, {seen['sm_mhz']} MHz, {seen['watts']} W", flush=True)
            row["seconds"] = time.time() - started
            report.show(problem, row, kind)
            print(f"   ({row['seconds']:.0f} s)", flush=True)
            results.add(row)
            del work, contenders, finalists
            torch.cuda.empty_cache()


def ceiling(results):
    """A plain read and a plain copy of 4 GB: what the memory gives at most."""
    x = torch.randn(2 << 30, device="cuda", dtype=torch.bfloat16)
    y = torch.empty_like(x)
    entries = {"read": Captured([lambda: torch.sum(x.view(torch.int32))]), "copy": Captured([lambda: y.copy_(x)])}
    us = {name: median(times) for name, times in race(entries, 9).items()}
    read, copy = x.nbytes / us["read"] * 1e-6, 2 * x.nbytes / us["copy"] * 1e-6
    print(f"== ceiling: read {read:.3f} TB/s, copy {copy:.3f} TB/s (read and written)", flush=True)
    results.add(dict(op="ceiling", kind="ceiling", read_tbps=read, copy_tbps=copy))


def launch(peers, args, results):
    """Host time of one asynchronous call, the GPU having little to do."""
    problem = Gemv(args.dtypes[0], 1024, 1024)
    buffers = problem.tensors()
    per_peer = {}
    for contender in entered(problem, peers, args):
        if contender.peer not in per_peer or contender.chosen:
            per_peer[contender.peer] = contender
    for peer, contender in per_peer.items():
        call = contender.prepare(buffers)
        for _ in range(50):
            call()
        torch.cuda.synchronize()
        times = []
        for _ in range(10):
            begin = time.perf_counter()
            for _ in range(200):
                call()
            times.append((time.perf_counter() - begin) / 200 * 1e6)
            torch.cuda.synchronize()
        print(f"== launch {contender.name}: {median(times):.2f} us of host time", flush=True)
        results.add(dict(op="launch", kind="launch", peer=peer, label=contender.label, host_us=median(times)))


def main():
    listed = lambda text: text.split(",")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", choices=["gemv", "gemm", "chain", "ceiling", "launch"])
    parser.add_argument("--export", help="a folder that cargo xtask export wrote")
    parser.add_argument("--out", help="JSON, rewritten after every row")
    parser.add_argument("--peers", type=listed, default=["ours", *PEERS], help="of " + ",".join(["ours", *PEERS]))
    parser.add_argument("--dtypes", type=listed, default=["f16", "bf16"])
    parser.add_argument("--shapes", type=lambda text: [tuple(map(int, s.split("x"))) for s in text.split(",")])
    parser.add_argument("--layout", default="nt", choices=["nn", "nt", "tn", "tt"], help="of gemm: which operands are stored transposed")
    parser.add_argument("--idle", type=float, default=0.0, help="seconds of rest before every block, so that power does not bind")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sustained", action="store_true", help="also half-second blocks of each peer's best")
    parser.add_argument("--pdl", action="store_true", help="ours also as dependent launches (chains always have them)")
    parser.add_argument("--skip", help="leave out the contenders whose name this finds")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    unknown = [p for p in args.peers if p != "ours" and p not in PEERS]
    if unknown:
        parser.error(f"unknown peers {unknown}; there are ours, {', '.join(PEERS)}")
    torch.manual_seed(args.seed)
    random.seed(args.seed)
    peers = available(args.peers)
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda}
    for name in ("triton", "tilelang"):
        if name in peers:
            versions[name] = importlib.import_module(name).__version__
    if "cutile" in peers:
        versions["cutile"] = peers["cutile"].ct.__version__
    about = dict(device=torch.cuda.get_device_name(), **versions)
    print(about, flush=True)
    results = report.Json(args.out, about)
    for what in args.what:
        if what == "ceiling":
            ceiling(results)
        elif what == "launch":
            launch(peers, args, results)
        else:
            run(what, peers, args, results)


if __name__ == "__main__":
    main()
