"""Fits what `tile-kernels/src/gemm/pack.rs` expects of the copies in front of a product whose operands TMA does not fetch.

    python bench/fit_pack.py bench/results/gemm-odd-e0dd0001-h200.json

FILE.json is of `random_shapes.py --families odd`, whose rows say what was expected of each choice by the constants BEFORE. `LAUNCH` (us a copy) and
`RATE` (bytes a us) are fitted to all choices with copies; beside them a factor for the product itself is printed, which should be near 1. Then how
much longer the choices take than the best ones of those that were measured, by the constants before and by the fit. Needs numpy and scipy.
"""
import json
import math
import sys

import numpy as np
from scipy.optimize import least_squares

# Half of what all multiprocessors must have asked for, `MEMORY[1]` of copied.rs; and what a choice with copies must be expected to take less than.
UNDER_WAY, PACKED = 0.5 * 6.938e6, 0.9
BEFORE = dict(launch=2.2, rate=3.3e6, narrow=2.4e6)


def copies(row, name):
    """(bytes moved, whether an element at a time) of each operand that a choice copies."""
    m, n, k, layout = row["m"], row["n"], row["k"], row["layout"]
    stored = [(k, m) if layout[0] == "t" else (m, k), (n, k) if layout[1] == "t" else (k, n)]
    found = []
    for (rows, cols), operand in zip(stored, "ab"):
        if f"{operand} packed" in name or f"{operand} transposed" in name:
            found.append((4 * rows * cols, f"{operand} packed" in name and (cols + row["pad"]) % 2 == 1))
    return found


def before(found, launch, rate, narrow):
    return sum(launch + moved / ((narrow if single else rate) * (1 - math.exp(-moved / UNDER_WAY))) for moved, single in found)


def expected(one, launch, rate, product):
    return before(one["copies"], launch, rate, rate) + one["product"] * (product if one["copies"] else 1)


def regret(every, us):
    """Mean and worst of the choices' times over those of the best."""
    lost = []
    for name in {one["name"] for one in every}:
        some = [one for one in every if one["name"] == name]
        plain, copied = ([one for one in some if bool(one["copies"]) == flag] for flag in (False, True))
        taken = min(plain, key=us, default=None)
        packed = min(copied, key=us, default=None)
        if packed and (taken is None or us(packed) < PACKED * us(taken)):
            taken = packed
        lost.append(taken["us"] / min(one["us"] for one in some))
    return math.exp(np.mean(np.log(lost))) - 1, max(lost) - 1


def main():
    every = []
    for path in sys.argv[1:]:
        with open(path) as file:
            rows = json.load(file)["rows"]
        for name, row in rows.items():
            for choice, us in row["expected"].items():
                measured = row["screened"].get(f"ours {choice}")
                if row["family"] == "odd" and measured:
                    found = copies(row, choice)
                    every.append(dict(name=name, copies=found, product=us - before(found, **BEFORE), old=us, us=measured))
    with_copies = [one for one in every if one["copies"]]
    off = lambda x: [math.log(expected(one, x[0], x[1] * 1e6, x[2]) / one["us"]) for one in with_copies]
    fit = least_squares(off, [2.2, 3.3, 1.0], bounds=([0.1, 0.5, 0.3], [4, 9, 2]), loss="soft_l1").x
    print(f"{len(every)} launches, {len(with_copies)} with copies: LAUNCH {fit[0]:.3g}, RATE {fit[1]:.3g}e6, product {fit[2]:.3g}, "
          f"off by {np.sqrt(np.mean(np.square(off(fit)))):.1%}")
    for what, us in [("before", lambda one: one["old"]), ("fit", lambda one: expected(one, fit[0], fit[1] * 1e6, 1.0))]:
        mean, worst = regret(every, us)
        print(f"{what}: {mean:.1%} longer than the best, {worst:.0%} at worst")


main()
