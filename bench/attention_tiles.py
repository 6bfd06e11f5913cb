"""Every tile of `tile_kernels::attention::forward` beside FlashAttention-3 and cuDNN, and the model that chooses among them.

    python bench/attention_tiles.py --library target/release/examples/libcookbook_for_python.so --flash3 flash3.so --out bench/results/attention-tiles-h200.json
    python bench/attention_tiles.py --fit bench/results/attention-tiles-h200.json    # needs scipy

Shapes have 512 to 16,384 queries of many heads, or fewer heads than fill the device, or more keys than queries; each with and without a causal mask, in bf16.
`--fit` prints the times of `tile-kernels/src/attention/tile.rs`, and how much longer the tile that this model chooses takes than the fastest one (regret).
The model here is the one there.
"""
import argparse
import json
import math
import random
import time

PROCESSORS = 132
TILES = {64: [(128, 128), (192, 128)], 128: [(128, 128), (192, 80)]}
MANY = [512, 768, 1024, 1280, 1536, 2048, 3072, 4096, 6144, 8192, 16384]
FEW = [(1, 12000), (1, 24000), (2, 9000), (2, 13000), (2, 17689), (3, 5000), (3, 16000), (4, 2900), (4, 9000), (6, 3300), (8, 1900), (8, 4700), (12, 2500),
       (16, 1300), (16, 2200), (24, 1500), (32, 900), (48, 1100), (2, 30000)]
MORE_KEYS = [(8, 700, 5000), (16, 300, 6000), (4, 4000, 12000), (32, 1000, 3000)]


def shapes():
    """B, H, HK, M, N, D in random order."""
    found = []
    for d in TILES:
        found += [(max(1, 16384 // m), 2048 // d, 2048 // d, m, m, d) for m in MANY]
        found += [(1, h, h, m, m, d) for h, m in FEW] + [(1, h, h, m, n, d) for h, m, n in MORE_KEYS]
    random.Random(7).shuffle(found)
    return found


def measure(args):
    import torch
    from torch.nn.attention import SDPBackend

    import attention
    from cookbook import Library
    from harness.flash3 import Flash3
    from harness.method import median, race, sets_for
    library, flash3, end = Library(args.library), args.flash3 and Flash3(args.flash3), time.monotonic() + args.seconds
    rows = []
    for shape in shapes():
        for causal in (False, True):
            if time.monotonic() > end:
                print(f"{shape}: no time left", flush=True)
                continue
            case = attention.Case(shape, causal)
            size = sum(x.nbytes for x in case.tensors("cuda").values() if isinstance(x, torch.Tensor))
            sets = [case.tensors("cuda") for _ in range(sets_for(size, 8))]

            def of_tile(tile):
                return lambda t: library("kernels/attention", [t[name] for name in "qkvo"], [float(causal), -1.0, -1.0, 0.0, *map(float, tile)])
            calls = {"ours": case.ours(library), **{f"{rows}x{keys}": of_tile((rows, keys)) for rows, keys in TILES[shape[5]]}}
            if flash3:
                calls["FA3"] = attention.flash3_call(flash3, case)
            cudnn = attention.torch_call(SDPBackend.CUDNN_ATTENTION, causal)
            calls["cuDNN"] = lambda t: cudnn(t["q"], t["k"], t["v"])
            entries = {}
            for name, call in calls.items():
                attention.checked(call, case, sets[0])
                entries[name] = attention.captured(call, sets)
            us = {name: median(times) for name, times in race(entries, args.rounds).items()}
            rows.append(dict(shape=shape, causal=causal, us=us))
            best = min(us[f"{rows}x{keys}"] for rows, keys in TILES[shape[5]])
            print(case.title, f"{best:.1f} us", {name: round(best / x, 3) for name, x in us.items()}, flush=True)
            with open(args.out, "w") as file:
                json.dump(dict(torch=torch.__version__, device=torch.cuda.get_device_name(), rounds=args.rounds, rows=rows), file, indent=1)
            del entries, sets
            torch.cuda.empty_cache()


def expected(shape, causal, tile, step, around, around_causal):
    """Microseconds; see `Work::expected`."""
    (b, h, _, m, n, _), (rows, keys) = shape, tile
    in_head, heads = -(-m // rows), b * h
    tiles = heads * in_head

    def length(longer):
        seen = min(n - m + (in_head - longer // heads) * rows, n) if causal else n
        return (around_causal if causal else around) + step * -(-seen // keys)
    waves = -(-tiles // PROCESSORS)
    last = max((k + 1) * length(k * PROCESSORS) for k in [*range(min(waves, 8)), waves - 1])
    return max(last, tiles / PROCESSORS * (length(0) + length(tiles - 1)) / 2)


def fit(path):
    from scipy.optimize import least_squares
    with open(path) as file:
        rows = json.load(file)["rows"]
    for d, tiles in TILES.items():
        some, times = [row for row in rows if row["shape"][5] == d], {}
        for tile in tiles:
            def off(x):
                return [math.log((3.0 + expected(row["shape"], row["causal"], tile, *map(abs, x))) / row["us"]["%dx%d" % tile]) for row in some]
            found = least_squares(off, [1.3, 1.0, 2.0], loss="soft_l1", f_scale=0.05)
            times[tile] = [abs(x) for x in found.x]
            print(f"heads of {d}, {tile[0]} x {tile[1]}: step {times[tile][0]:.3f}, around {times[tile][1]:.2f}, causal {times[tile][2]:.2f}")
        regrets = []
        for row in some:
            us = {tile: row["us"]["%dx%d" % tile] for tile in tiles}
            taken = min(tiles, key=lambda tile: expected(row["shape"], row["causal"], tile, *times[tile]))
            regrets.append(us[taken] / min(us.values()))
        mean = math.exp(sum(map(math.log, regrets)) / len(regrets))
        print(f"heads of {d}: regret {mean - 1:.2%}, {max(regrets) - 1:.1%} at most, of {len(some)} shapes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="libcookbook_for_python.so")
    parser.add_argument("--flash3", help="the library that bench/flash3/build.sh makes")
    parser.add_argument("--out", default="attention-tiles.json")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--fit", metavar="FILE.json")
    args = parser.parse_args()
    fit(args.fit) if args.fit else measure(args)


if __name__ == "__main__":
    main()
