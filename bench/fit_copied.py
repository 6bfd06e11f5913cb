"""Fits the times that `tile-kernels/src/gemm/copied.rs` expects of products whose operands threads copy.

    python bench/fit_copied.py [FILE.json ..]
    python bench/fit_copied.py --trees tile-kernels/src/gemm/residual-f32-h200.txt

Without files, f32 is fitted to `bench/results/gemm-f32-fit-h200.json`, `gemm-f32-f17a0023-h200.json` (whose other tiles were a trial's) and `gemm-parts-f17a0021-h200.json`,
tf32 to the last, `gemm-parts-fit-h200.json` and `gemm-cluster-fit-h200.json`, whose other kernels were others, and 16 bits to `gemm-odd-a11e0001-h200.json` and `gemm-parts-f17a0021-h200.json`.

`us` below is `Copied::us` of that file. For each kind of operand it prints the constants (`Beside`, and for each tile `alone`, `shared` and
`add`), what is left over, and how much longer the choices take than the best ones: on all products, and on each fifth of them by constants that were
fitted to the others. Needs numpy and scipy.

With `--trees` it fits what the constants in the source, `FULL` below, leave over of f32: regression trees over what `Copied::features` says of a launch, as
`bench/fit_residual.py` fits them of operands that TMA fetches. Printed is how much longer choices take than the best ones, without trees and with trees of the other
four fifths of the products. Needs scikit-learn.
"""
import json
import math
import re
import sys

import numpy as np
from scipy.optimize import least_squares

MULTIPROCESSORS = 132
# Of `model::Parameters::H200`.
MEMORY, UNDER_WAY, AGAIN, POWER = 4.435e6, 6.938e6, 0.02937, 2.598
NAME = re.compile(r"ours (\d+)x(\d+)x(\d+), (\d+) stages, (\d+) threads, (?:cluster 1(?:x1)?|copied, (\d+) (slots|sums of a second launch))$")
# us of a further sum of an element that a second launch adds, and bytes of sums a us: of `model::Parameters::H200`.
EACH, SUMS = 0.0797, 3.502e6
FILES = {"bench/results/gemm-parts-fit-h200.json": ("tf32",), "bench/results/gemm-cluster-fit-h200.json": ("tf32",),
         "bench/results/gemm-odd-a11e0001-h200.json": ("odd",), "bench/results/gemm-parts-f17a0021-h200.json": ("odd", "f32", "tf32"),
         "bench/results/gemm-f32-fit-h200.json": ("f32",), "bench/results/gemm-f32-f17a0023-h200.json": ("f32",)}
# Those of f32 that trees are fitted to: by the kernels that there are.
TREES = [f"bench/results/gemm-{name}-h200.json" for name in ("parts-f17a0021", "f32-f17a0023", "parts-f17a0027")]
# us of a tile's step before there were measurements: alone, shared. The fit stays near them where nothing says otherwise.
# Of f32 a tile, its step, or the negative of that where a tile has few rows and `b` lies along K.
BEFORE = {"f32": {(128, 128, 8): (0.54, 0.64), (128, 64, 8): (0.54, 0.34), (64, 128, 8): (0.54, 0.34),
                  (64, 64, 16): (0.54, 0.39), (32, 64, 16): (0.54, 0.21), (16, 64, 16): (0.31, 0.13), (32, 128, 16): (0.54, 0.4), (16, 128, 8): (0.3, 0.13),
                  (32, 64, -16): (0.54, 0.21), (16, 64, -16): (0.31, 0.13), (32, 128, -16): (0.54, 0.4), (16, 128, -8): (0.3, 0.13)},
          "tf32": {(128, 128, 16): (0.6, 0.53), (64, 64, 16): (0.28, 0.19), (16, 64, 32): (0.3, 0.13)},
          # Rows of a tile, columns, and bytes of a piece, or their negative where a step is 64.
          "odd": {(128, 128, 2): (3.0, 1.6), (64, 64, 2): (1.0, 0.4), (16, 64, 2): (0.8, 0.25), (64, 64, -2): (0.8, 0.9), (64, 64, -4): (0.5, 0.6),
                  (128, 128, 4): (0.46, 0.9), (64, 64, 4): (0.32, 0.28), (16, 64, 4): (0.25, 0.1)}}
# Calls of `gemm-random-h200.json`, by the tile that they took: tile, threads, shape, us, bytes of a piece.
OLDER = [((64, 64, 16), 128, (119, 912, 1992), 38.7, 16),
         ((64, 64, 16), 128, (240, 5576, 13648), 496.7, 16), ((64, 64, 16), 128, (560, 480, 3624), 63.6, 16),
         ((128, 128, 16), 256, (3288, 25432, 2568), 3505.3, 16), ((128, 128, 16), 256, (12752, 104, 1216), 49.1, 16)]
# The constants of f32 in `copied.rs`.
FULL = ((1.967, 2.478, 9639.0, 1.702, 0.926, 2.611),
        {(16, 64, -16): (0.408, 0.2461, 0.422), (16, 64, 16): (0.248, 0.1402, 0.189), (16, 128, -8): (0.44, 0.2319, 0.396), (16, 128, 8): (0.223, 0.1348, 0.328),
         (32, 64, -16): (0.453, 0.297, 0.638), (32, 64, 16): (0.441, 0.2319, 0.442), (32, 128, -16): (0.469, 0.5159, 0.398), (32, 128, 16): (0.391, 0.4169, 0.367),
         (64, 64, 16): (0.438, 0.4246, 0.719), (64, 128, 8): (0.372, 0.4016, 0.727), (128, 64, 8): (0.406, 0.4074, 0.872), (128, 128, 8): (0.785, 0.774, 0.0)})
# `copied::FEATURES`.
NAMES = ("m n k a_across b_across rows cols step slots launches counted waves tail rest steps us used_rows used_cols high wide rate").split()


class Launch:
    """A launch that was measured."""

    def __init__(self, family, tile, stages, threads, slots, shape, stored, width, us, product, name, second=False):
        self.stored, self.second, self.family, self.tile, self.stages, self.shape, self.measured, self.product, self.name = stored, second, family, tile, stages, shape, us, product, name
        self.slots, self.counted, self.bytes = slots or 1, slots is not None, 2 if family == "odd" else 4
        same = stored[0] == stored[1]
        if family == "f32" and tile[0] <= 32 and stored[1]:
            self.key = (*tile[:2], -tile[2])
        else:
            self.key = tile if family != "odd" else (*tile[:2], (2 if width == 2 else 4) * (-1 if tile[2] == 64 else 1))
        large = tile[0] >= 128
        # A thread of f32 has at most 255 registers for 16 x 8 elements, and 128 for 8 x 8.
        registers = 256 if tile[0] * tile[1] > 64 * threads else 128
        self.blocks = {"f32": min(8, 65536 // registers // threads), "tf32": 2 if large else 4}.get(family)
        if family == "odd":
            narrow = width == 2
            self.blocks = (1 if narrow else 2) if large else 2 if tile[2] == 64 or narrow and tile[0] == 64 and same else 4

    def us(self, beside, times):
        (fixed, fill, store, arrive, only, second), (alone, shared, add) = beside, times
        (m, n, k), (rows, cols, step) = self.shape, self.tile
        up = lambda a, b: -(-a // b)
        blocks = max(1, up(m, rows) * up(n, cols) * self.slots)
        steps = up(up(k, step), self.slots)
        stored = min(rows, m) * min(cols, n) * (4 if self.second else self.bytes) / store
        took = lambda count: steps * (alone if count == 1 else max(alone, count * shared)) + stored if count else 0.0
        rounds, rest = divmod(up(blocks, MULTIPROCESSORS), self.blocks)
        compute = rounds * took(self.blocks) + took(rest) + max(0, rounds + (rest > 0) - 1) * fill
        working = min(blocks, self.blocks * MULTIPROCESSORS)
        asked = (min(m, rows) + min(n, cols)) * step * max(1, self.stages - 1) * self.bytes * working
        nbytes = (m * k + n * k + m * n + n * k * AGAIN * (up(m, rows) - 1)) * self.bytes
        read = nbytes / max(1, MEMORY * (1 - math.exp(-asked / UNDER_WAY)))
        most = max(compute, read)
        together = most * ((compute / most) ** POWER + (read / most) ** POWER) ** (1 / POWER)
        if self.second:
            return fixed + together + second + self.slots * EACH + self.slots * m * n * 4 / SUMS
        return fixed + together + (arrive + self.slots * add if self.slots > 1 else only if self.counted else 0)

    def features(self, us):
        """`Copied::features`."""
        (m, n, k), (rows, cols, step) = self.shape, self.tile
        high, wide = -(-m // rows), -(-n // cols)
        waves = high * wide * self.slots / MULTIPROCESSORS
        return [m, n, k, self.stored[0], not self.stored[1], rows, cols, step, self.slots, 1 + self.second, self.counted and not self.second, waves,
                math.ceil(waves) - waves, waves / self.blocks % 1, k / (step * self.slots), us, m / (high * rows), n / (wide * cols), high, wide,
                us / (2 * m * n * k / 6.7e7)]


def launches(rows):
    for title, row in rows.items():
        m, n, k, pad, layout = row["m"], row["n"], row["k"], row["pad"], row["layout"]
        stored = [layout[0] == "t", layout[1] == "t"]
        lengths = [m if stored[0] else k, k if stored[1] else n]
        width = next((w for w in (16, 8, 4, 2) if all(2 * e % w == 0 and 2 * (e + pad) % w == 0 for e in lengths)))
        fetched = width == 16 and row["family"] == "odd" or row["family"] == "tf32" and layout == "nt" and (k + pad) % 4 == 0
        if row["family"] == "aligned" or row["family"] == "odd" and fetched:
            continue
        for name, us in row["screened"].items():
            found = NAME.match(name)
            if found and not (fetched and found[6] is None):
                bm, bn, bk, stages, threads = map(int, found.groups()[:5])
                if row["family"] == "odd" and bk == 64 and threads == 128:
                    continue
                # `wgmma`'s, and tiles of a trial.
                if row["family"] == "tf32" and found[6] is None and bk != 16 or row["family"] == "f32" and ((bm, bn, bk) not in BEFORE["f32"] or threads == 32):
                    continue
                slots = found[6] and int(found[6])
                # The last block of a tile waited for each element of each part (7.5 us a part), which is mended since.
                if row["family"] == "f32" and (bm, bn, bk) == (64, 64, 16) and layout == "nt" and found[7] == "slots" and slots > 1:
                    continue
                yield Launch(row["family"], (bm, bn, bk), stages, threads, slots, (m, n, k), stored, width, us, title, name, found[7] not in (None, "slots"))


def older():
    return [Launch("tf32", tile, 4, threads, None, shape, [False, True], width, us, None, "") for tile, threads, shape, us, width in OLDER]


def fit(family, found):
    tiles = sorted({one.key for one in found})
    begin = np.log([2.5, 0.8, 0.041e6, 1.5, 0.5, 2.8] + [v for tile in tiles for v in (*BEFORE[family][tile], 0.3)])

    def constants(row):
        row = np.exp(row)
        times = {tile: tuple(row[6 + 3 * i:9 + 3 * i]) for i, tile in enumerate(tiles)}
        return tuple(row[:6]), times

    def residuals(row):
        beside, times = constants(row)
        own = [math.log(one.us(beside, times[one.key]) / one.measured) for one in found]
        launch = (1 if family == "tf32" else 3) * (row[0] - math.log(2.2))
        return own + list(0.03 * (row - begin)) + [launch, 0.3 * (row[2] - math.log(0.02e6))]

    return constants(least_squares(residuals, begin, loss="soft_l1", f_scale=0.2).x)


def regrets(found, beside, times):
    for product in sorted({one.product for one in found} - {None}):
        own = [one for one in found if one.product == product and one.key in times]
        taken = min(own, key=lambda one: one.us(beside, times[one.key]))
        yield taken.measured / min(one.measured for one in own)


def mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) - 1


def write_trees(to):
    from fit_residual import MOST, text
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import GroupKFold
    found = [one for path in TREES for one in launches(json.load(open(path))["rows"]) if one.family == "f32"]
    us = np.array([one.us(FULL[0], FULL[1][one.key]) for one in found])
    measured, products = np.array([one.measured for one in found]), np.array([one.product for one in found])
    best = np.array([measured[products == product].min() for product in products])
    features = np.array([one.features(t) for one, t in zip(found, us)], dtype=float)

    def fit(rows):
        trees = HistGradientBoostingRegressor(max_iter=100, learning_rate=0.08, max_leaf_nodes=31, l2_regularization=4, min_samples_leaf=20)
        return trees.fit(features[rows], np.log(measured / us)[rows], sample_weight=((best / measured) ** 3)[rows])

    def said(expected):
        chosen = {product: min((e, t / b) for e, t, b, p in zip(expected, measured, best, products) if p == product)[1] for product in set(products)}
        return f"{100 * mean(chosen.values()):.1f}% in geometric mean, {100 * max(chosen.values()) - 100:.0f}% at most"
    print(f"{len(found)} launches of {len(set(products))} products; without trees: {said(us)}")
    of_others = np.zeros(len(found))
    for others, out in GroupKFold(5).split(features, us, products):
        of_others[out] = fit(others).predict(features[out])
    print(f"with trees of other products: {said(us * np.exp(np.clip(of_others, -MOST, MOST)))}")
    trees = fit(np.arange(len(found)))
    lines = [f"{trees._baseline_prediction.item():.4g}"] + [text(tree[0].nodes, NAMES) for tree in trees._predictors]
    with open(to, "w") as file:
        file.write(f"# {len(lines)} trees, fitted to {len(found)} launches of {len(set(products))} products by bench/fit_copied.py --trees\n" + "\n".join(lines) + "\n")


def main():
    if sys.argv[1:2] == ["--trees"]:
        return write_trees(sys.argv[2])
    files = dict.fromkeys(sys.argv[1:], tuple(BEFORE)) or FILES
    every = [one for path, families in files.items() for one in launches(json.load(open(path))["rows"]) if one.family in families] + older()
    for family in BEFORE:
        found = [one for one in every if one.family == family]
        beside, times = fit(family, found)
        print(f"{family}: " + ", ".join(f"{name} {v:.5g}" for name, v in zip(("fixed", "fill", "store", "arrive", "only", "second"), beside)))
        for tile, (alone, shared, add) in times.items():
            print(f"   {tile}: alone {alone:.3f}, shared {shared:.4f}, add {add:.3f}")
        ratios = [one.us(beside, times[one.key]) / one.measured for one in found]
        print(f"   {len(found)} launches: {min(ratios):.2f} to {max(ratios):.2f} of what was measured, "
              f"{math.sqrt(sum(math.log(r) ** 2 for r in ratios) / len(ratios)):.3f} in the quadratic mean")
        left_out = []
        products = sorted({one.product for one in found} - {None})
        for fifth in range(5):
            out = set(products[fifth::5])
            constants = fit(family, [one for one in found if one.product not in out])
            left_out += regrets([one for one in found if one.product in out], *constants)
        print(f"   regret among them {mean(regrets(found, beside, times)):.3f}, of products left out {mean(left_out):.3f}")


if __name__ == "__main__":
    main()
