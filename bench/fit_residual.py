"""Fits the trees of what the model of the GEMM's times misses: `tile-kernels/src/gemm/residual-h200.txt`.

    cargo run --release --example gemm_fit -- FILE.json .. --features features.tsv
    cargo run --release --example gemm_fit -- OLDER.json .. --features older.tsv
    python bench/fit_residual.py features.tsv older.tsv tile-kernels/src/gemm/residual-h200.txt

FILE.json are what `bench/random_shapes.py` wrote without `--called`: the time of every choice. A tree's target is the logarithm of the measured time over
the expected one; a candidate counts by the third power of its shape's best time over its own, since nobody would choose the others. Printed is the
regret of the choice on the shapes of the first table, by the model alone and with trees of the other shapes only: a fifth of them is left out of a fit in
turn. The older table has times of kernels that found their tiles by divisions, which took 0.3 us of a launch; they count a tenth.
Needs numpy and scikit-learn.
"""
import csv
import sys

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import GroupKFold

FIXED = ["title", "best", "measured", "expected"]
MOST = 0.8  # of `residual.rs`
# Shapes whose best choice takes longer were timed on a device that the others had heated, if their title says that they are published or of models.
COOL = 150.0
# us that a launch took longer before tiles were found by multiplications, and what its times count since.
DIVISIONS, OLDER = 0.3, 0.1
# How many times a shape counts: those that are published, and the products of language models, more than random ones.
WEIGHTS = {"published": 2.5, "models": 3.0, "raced": 6.0}
# Families whose operands are multiplied by other kernels, or copied first, but for those in rows of a longer pitch.
OTHERS = ("odd", "tf32", "f32")


def fit(features, target, weights):
    trees = HistGradientBoostingRegressor(max_iter=150, learning_rate=0.1, max_leaf_nodes=127, l2_regularization=4, min_samples_leaf=20)
    return trees.fit(features, target, sample_weight=weights)


class Table:
    """The candidates of a file of `gemm_fit --features`."""

    def __init__(self, file, is_older):
        rows = [row for row in csv.DictReader(open(file), delimiter="\t") if row["title"].split(" ")[0] not in OTHERS or "pitch" in row["title"]]
        self.names = [name for name in rows[0] if name not in FIXED]
        self.titles = np.array([row["title"] for row in rows])
        best, self.measured, self.expected = (np.array([float(row[name]) for row in rows]) for name in FIXED[1:])
        self.features = np.array([[float(row[name]) for name in self.names] for row in rows])
        families = [title.split(" ")[0] for title in self.titles]
        self.kept = np.array([us < COOL or family not in WEIGHTS for family, us in zip(families, best)])
        if is_older:
            # Blocks whose last one adds the sums of all have a grid of three axes, and no division.
            slots, launches = (self.features[:, self.names.index(name)] for name in ("slots", "launches"))
            divides = (slots == 1) | (launches == 2)
            self.measured = np.maximum(self.measured - DIVISIONS * divides, 0.5 * self.measured)
        least = {}
        for title, us in zip(self.titles, self.measured):
            least[title] = min(us, least.get(title, us))
        self.best = np.array([least[title] for title in self.titles])
        counts = np.array([WEIGHTS.get(family, 1.0) for family in families]) * (OLDER if is_older else 1.0)
        self.target, self.weights = np.log(self.measured / self.expected), counts * (self.best / self.measured) ** 3


def regret(titles, best, measured, expected):
    """How much longer the choices take than the best ones: in geometric mean, and at most."""
    chosen = {}
    for title, least, us, by in zip(titles, best, measured, expected):
        chosen[title, least] = min((by, us), chosen.get((title, least), (by, us)))
    parts = np.log([us / least for (_, least), (_, us) in chosen.items()])
    return f"{100 * np.expm1(parts.mean()):.2f}% in geometric mean, {100 * np.expm1(parts.max()):.0f}% at most, {len(parts)} shapes"


def text(nodes, names, at=0):
    """A tree in preorder."""
    node = nodes[at]
    if node["is_leaf"]:
        return f"{node['value']:.4g}"
    below = " ".join(text(nodes, names, node[side]) for side in ("left", "right"))
    return f"{names[node['feature_idx']]}<={node['num_threshold']:.6g} {below}"


def main():
    table, older, to = sys.argv[1:]
    table, older = Table(table, False), Table(older, True)

    def all_of(train, name):
        return np.concatenate([getattr(older, name)[older.kept], getattr(table, name)[train]])

    def fitted(train):
        return fit(*(all_of(train, name) for name in ("features", "target", "weights")))

    def said(logarithms):
        by = table.expected * np.exp(np.clip(logarithms, -MOST, MOST))
        return regret(table.titles, table.best, table.measured, by)

    everything = np.arange(len(table.titles))
    print(f"{len(everything)} candidates and {older.kept.sum()} older ones; by the model alone: {said(0)}")
    others = np.zeros(len(everything))
    for train, test in GroupKFold(5, shuffle=True, random_state=1).split(table.features, table.target, table.titles):
        others[test] = fitted(train).predict(table.features[test])
    print(f"with trees of other shapes: {said(others)}")
    found = fitted(everything)
    print(f"with trees of the same shapes: {said(found.predict(table.features))}")
    # Beside its trees the fit has a mean, which is a tree of one leaf.
    trees = [f"{found._baseline_prediction.item():.4g}"] + [text(one.nodes, table.names) for [one] in found._predictors]
    shapes = len(set(table.titles)), len(set(older.titles[older.kept]))
    with open(to, "w") as file:
        file.write(f"# {len(trees)} trees, fitted to the times of {shapes[0]} shapes and {shapes[1]} older ones by bench/fit_residual.py\n")
        file.writelines(tree + "\n" for tree in trees)


if __name__ == "__main__":
    main()
