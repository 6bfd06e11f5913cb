"""Fits the trees of what the model of the GEMM's times misses: `tile-kernels/src/gemm/residual-h200.txt`.

    cargo run --release --example gemm_fit -- FILE.json .. --features features.tsv
    python bench/fit_residual.py features.tsv tile-kernels/src/gemm/residual-h200.txt

FILE.json are what `bench/random_shapes.py` wrote without `--called`: the time of every choice. A tree's target is the logarithm of the measured time over
the expected one; a candidate counts by the square of its shape's best time over its own, since nobody would choose the others. Printed is the
regret of the choice, by the model alone and with trees of the other shapes only: a fifth of them is left out of a fit in turn.
Needs numpy and scikit-learn.
"""
import csv
import sys

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import GroupKFold

FIXED = ["title", "best", "measured", "expected"]
MOST = 0.4  # of `residual.rs`
# Shapes whose best choice takes longer were timed on a device that the others had heated, if their title says that they are published or of models.
COOL = 150.0
# How many times a shape counts: those that are published, and the products of language models, more than random ones.
WEIGHTS = {"published": 2.5, "models": 3.0}
# Families whose operands are multiplied by other kernels, or copied first.
OTHERS = ("odd", "tf32", "f32")


def fit(features, target, weights):
    trees = HistGradientBoostingRegressor(max_iter=150, learning_rate=0.1, max_leaf_nodes=31, l2_regularization=2, min_samples_leaf=4)
    return trees.fit(features, target, sample_weight=weights)


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
    table, to = sys.argv[1:]
    rows = [row for row in csv.DictReader(open(table), delimiter="\t") if row["title"].split(" ")[0] not in OTHERS]
    names = [name for name in rows[0] if name not in FIXED]
    titles = np.array([row["title"] for row in rows])
    best, measured, expected = (np.array([float(row[name]) for row in rows]) for name in FIXED[1:])
    features = np.array([[float(row[name]) for name in names] for row in rows])
    families = [title.split(" ")[0] for title in titles]
    counts = np.array([WEIGHTS.get(family, 1.0) for family in families])
    target, weights = np.log(measured / expected), counts * (best / measured) ** 2
    kept = np.array([us < COOL or family not in WEIGHTS for family, us in zip(families, best)])
    print(f"{len(rows)} candidates, {kept.sum()} of them fitted; by the model alone: {regret(titles, best, measured, expected)}")
    others = np.zeros(len(rows))
    for train, test in GroupKFold(5, shuffle=True, random_state=1).split(features, target, titles):
        train = train[kept[train]]
        others[test] = fit(features[train], target[train], weights[train]).predict(features[test])
    print(f"with trees of other shapes: {regret(titles, best, measured, expected * np.exp(np.clip(others, -MOST, MOST)))}")
    found = fit(features[kept], target[kept], weights[kept])
    print(f"with trees of the same shapes: {regret(titles, best, measured, expected * np.exp(np.clip(found.predict(features), -MOST, MOST)))}")
    # Beside its trees the fit has a mean, which is a tree of one leaf.
    trees = [f"{found._baseline_prediction.item():.4g}"] + [text(one.nodes, names) for [one] in found._predictors]
    with open(to, "w") as file:
        file.write(f"# {len(trees)} trees, fitted to {kept.sum()} times of {len(set(titles[kept]))} shapes by bench/fit_residual.py\n")
        file.writelines(tree + "\n" for tree in trees)


if __name__ == "__main__":
    main()
