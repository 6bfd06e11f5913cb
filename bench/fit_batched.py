"""Fits the times that `tile-kernels/src/gemm/batched/choice.rs` expects of many products in one launch.

    python bench/fit_batched.py bench/results/gemm-batched-{fit,fit2}-h200.json
    python bench/fit_batched.py bench/results/gemm-odd-a11e0001-h200.json

The files are of `random_shapes.py`, families `batched`, `batched-f32`, `batched-tf32` and `few`, or `batched-odd`, of which it takes what every thread copies of 16 bits. `expected` below is `Paced::us` of that file, but for what rows of f32
cost that do not begin at multiples of 16 bytes. For each kind of
operand it prints the constants (of the kind, and of each tile), what is left over, and how much longer the choices take than the best ones: on all
products, and on each fifth of them by constants that were fitted to the others. Needs numpy and scipy.
"""
import json
import re
import sys

import numpy as np
from scipy.optimize import least_squares

MULTIPROCESSORS, POWER = 132, 2.0
NAME = re.compile(r"ours (\d+)x(\d+)x(\d+), (\d+) stages, (\d+) threads, (?:cluster (\d+)x(\d+)|(\d+) parts)$")
# Blocks that a multiprocessor has at once, as the table in choice.rs has it.
SOURCE = "tile-kernels/src/gemm/batched/choice.rs"
ENTRY = re.compile(r"paced\(\((\d+), (\d+), (\d+), (\d+), (\d+), (\d+), (\d+)\), (\d+),")
PARTED = re.compile(r"parted\(\((\d+), (\d+), (\d+), (\d+), (\d+)\), (\d+), (\d+),")
OF_KIND, OF_TILE = 10, 4
COPIED = [(128, 128, 32), (64, 64, 32), (64, 64, 64, 4, 256)]


def up(a, b):
    return -(-a // b)


def is_copied(tile):
    """Whether every thread copies operands of 16 bits."""
    return any(tile[:len(one)] == one for one in COPIED)


def kind_of(row, tile):
    if row["dtype"] == "f32":
        return "f32"
    if row["dtype"] == "tf32":
        return "tf32" if tile[2] == 32 else "any tf32"
    if not is_copied(tile):
        return "halves"
    at, bt = (side == "t" for side in row["layout"])
    lengths = row["m"] if at else row["k"], row["k"] if bt else row["n"]
    return "copied" if all(length % 2 == 0 for length in lengths) else "single"


def launch(row, tile, blocks, us, product):
    """What was measured, and what `expected` needs of it."""
    batches, m, n, k = row["batches"], row["m"], row["n"], row["k"]
    size = 4 if row["dtype"] in ("f32", "tf32") else 2
    bm, bn, bk, _, _, cx, cy, parts = tile
    pitches = m if row["layout"][0] == "t" else k, n if row["layout"][1] == "n" else k
    tiles = batches * up(up(m, bm), cy) * cy * up(up(n, bn), cx) * cx * parts
    # In what a group of multiprocessors has beyond a multiple of four no cluster of four fits.
    most = up(tiles, MULTIPROCESSORS if cx * cy * parts < 4 else 120)
    a_across, b_across = row["layout"][0] == "t", row["layout"][1] == "n"
    steps, lines = up(up(k, bk), parts), [pitch * size % 128 != 0 for pitch in pitches]
    sectors = [pitch * size % 32 != 0 for pitch in pitches]
    # Of an operand across K a row of the tile is fetched whole for each step, however little of it there is; blocks of a cluster share.
    asked = [size * bk * (bm if a_across else min(bm, m)) / cx, size * bk * (bn if b_across else min(bn, n)) / cy]
    weigh = lambda flags: tiles * steps * sum(part * flag for part, flag in zip(asked, flags))
    stored, piece = size * min(bm, m) * min(bn, n), next((piece for piece in (16, 8, 4) if n * size % piece == 0), 2)
    return dict(kind=kind_of(row, tile), pieces=stored / piece - stored / 16, tile=tile, product=product, us=us, most=most, turns=up(most, blocks), steps=steps,
                between=sum(lines), halved=sum(sectors), stored=stored, a=a_across, b=b_across,
                moved=size * batches * (m * k + n * k + m * n), asked=weigh([1, 1]), in_sectors=weigh(sectors))


def launches(rows, blocks):
    for title, row in rows.items():
        is_odd = row["family"] == "batched-odd"
        if row["family"] == "odd" or is_odd and row["dtype"] == "tf32":
            continue
        for name, us in row["screened"].items():
            found = NAME.match(name)
            tile = tuple(int(number or 1) for number in found.groups()) if found else None
            if tile in blocks and is_odd == is_copied(tile):
                yield launch(row, tile, blocks[tile], us, title)


class Table:
    """Launches as columns."""

    def __init__(self, found, tiles):
        column = lambda name: np.array([float(one[name]) for one in found])
        self.us, self.most, self.turns, self.steps = map(column, ("us", "most", "turns", "steps"))
        self.stored, self.moved, self.a, self.b = map(column, ("stored", "moved", "a", "b"))
        self.between, self.halved, self.asked, self.in_sectors = map(column, ("between", "halved", "asked", "in_sectors"))
        self.pieces = column("pieces")
        self.place = np.array([tiles.index(one["tile"]) for one in found])

    def expected(self, constants):
        (fixed, memory, store, across_a, across_b, between, halved, cache, split, piece), own = constants[:OF_KIND], constants[OF_KIND:].reshape(-1, OF_TILE)[self.place]
        # Of rows that run along M or N, of rows that begin between lines of 128 bytes, and of those that begin between sectors of 32.
        slower = (1 + across_a * self.a) * (1 + across_b * self.b) * (1 + between * self.between) * (1 + halved * self.halved)
        stored = self.stored / store
        alone = self.steps * own[:, 0] * slower + own[:, 2] + stored
        shared = self.steps * own[:, 1] * slower + own[:, 3] + piece * self.pieces
        parts = np.stack([self.turns * alone, self.most * shared, self.moved / memory, (self.asked + split * self.in_sectors) / cache])
        return fixed + (parts ** POWER).sum(0) ** (1 / POWER)


def fit(found, tiles):
    begin = [2.0, 4.0e6, 4e4, 0.05, 0.05, 0.05, 0.05, 7e6, 0.5, 5e-5]
    for bm, bn, bk, *_ in tiles:
        work = bm * bn * bk / (128 * 128 * 64)
        begin += [0.05 + 0.3 * work, 0.02 + 0.3 * work, 0.3, 0.1 + 0.5 * bm * bn / 128 / 128]
    begin, table = np.log(begin), Table(found, tiles)

    def residuals(row):
        return np.concatenate([np.log(table.expected(np.exp(row)) / table.us), 0.03 * (row - begin)])

    return np.exp(least_squares(residuals, begin, loss="soft_l1", f_scale=0.1).x)


def regrets(found, tiles, constants):
    expected = Table(found, tiles).expected(constants)
    for product in sorted({one["product"] for one in found}):
        own = [(us, one) for us, one in zip(expected, found) if one["product"] == product]
        taken = min(own, key=lambda pair: pair[0])[1]
        yield taken["us"] / min(one["us"] for _, one in own), product, taken["tile"]


def mean(found):
    return np.exp(np.mean([np.log(r) for r, *_ in found])) - 1


def main():
    source = open(SOURCE).read()
    blocks = {(*map(int, found[:7]), 1): int(found[7]) for found in ENTRY.findall(source)}
    blocks |= {(*map(int, found[:5]), 1, 1, int(found[5])): int(found[6]) for found in PARTED.findall(source)}
    every = [one for path in sys.argv[1:] for one in launches(json.load(open(path))["rows"], blocks)]
    for kind in sorted({one["kind"] for one in every}):
        found = [one for one in every if one["kind"] == kind]
        tiles = [tile for tile in blocks if any(one["tile"] == tile for one in found)]
        constants = fit(found, tiles)
        fixed, memory, store, *across, between, halved, cache, split, piece = constants[:OF_KIND]
        print(f"{kind}: Kind {{ fixed: {fixed:.4g}, memory: {memory:.4g}, store: {store:.4g}, across: [{across[0]:.3g}, {across[1]:.3g}],"
              f" between: [{between:.3g}, {halved:.3g}], cache: {cache:.4g}, split: {split:.3g} }}, a piece {piece:.3g}")
        for tile, (a, b, c, d) in zip(tiles, constants[OF_KIND:].reshape(-1, OF_TILE)):
            named = f"paced({tile[:7]}" if tile[7] == 1 else f"parted({tile[:5]}, {tile[7]}"
            print(f"    {named}, {blocks[tile]}, [{a:.4g}, {b:.4g}], [{c:.4g}, {d:.4g}]),")
        ratios = Table(found, tiles).expected(constants) / np.array([one["us"] for one in found])
        print(f"   {len(found)} launches: {ratios.min():.2f} to {ratios.max():.2f} of what was measured, {np.sqrt((np.log(ratios) ** 2).mean()):.3f} "
              "in the quadratic mean")
        products, left_out = sorted({one["product"] for one in found}), []
        for part in range(5):
            some = set(products[part::5])
            others = fit([one for one in found if one["product"] not in some], tiles)
            left_out += regrets([one for one in found if one["product"] in some], tiles, others)
        own = list(regrets(found, tiles, constants))
        print(f"   regret among them {mean(own):.3f} (worst {max(own)}), of products left out {mean(left_out):.3f} (worst {max(left_out)})")


if __name__ == "__main__":
    main()
