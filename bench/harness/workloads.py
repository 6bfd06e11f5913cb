"""What a graph runs: independent calls over rotating buffers, or a chain in which each call reads the last one's result.

A workload has `problem`, `sets` (the buffers of each call), `poison()` (overwrites what the calls write) and
`error(thorough)` (the largest relative error of the results looked at, in the Frobenius norm, against float64).
"""
import torch

from .method import sets_for


def relative_error(out, reference):
    out = out.double()
    return ((out - reference).norm() / reference.norm()).item()


def larger(a, b):
    """The larger error; a NaN wins."""
    return a if a != a or a > b else b


class Rotation:
    """Independent calls, each on its own operands."""

    def __init__(self, problem):
        self.problem = problem
        self.sets = [problem.tensors() for _ in range(sets_for(problem.nbytes))]
        self.looked_at = [(self.sets[i], problem.reference(self.sets[i])) for i in (0, -1)]

    def poison(self):
        for buffers, _ in self.looked_at:
            buffers[self.problem.output].fill_(float("nan"))

    def error(self, thorough=False):
        error = 0.0
        for buffers, reference in self.looked_at:
            error = larger(relative_error(buffers[self.problem.output], reference), error)
        return error


class Chain:
    """Dependent GEMVs, as layers of a model: call i reads the vector that call i-1 wrote.

    Weights have variance 1/K, so that values stay near 1 along the chain; they rotate over at least 0.8 GB. Where
    N < K the rest of a vector is N(0,1) from the start. Each link is checked against float64 on the vector that it
    read, and vectors are poisoned first: a launch that ran ahead of its predecessor would have read NaN.
    """

    LENGTH = 64

    def __init__(self, problem):
        self.problem = problem
        n, k = problem.n, problem.k
        sets = sets_for(problem.nbytes)
        self.weights = [problem.normal(n, k) * k ** -0.5 for _ in range(sets)]
        length = max(self.LENGTH, sets)
        self.vectors = [problem.normal(max(n, k)) for _ in range(length + 1)]
        self.sets = [{"w": self.weights[i % sets], "x": self.vectors[i][:k], "y": self.vectors[i + 1][:n]}
                     for i in range(length)]

    def poison(self):
        for buffers in self.sets:
            buffers["y"].fill_(float("nan"))

    def error(self, thorough=False):
        last = len(self.sets) - 1
        error = 0.0
        for i in range(last + 1) if thorough else (0, 1, 2, last):
            error = larger(relative_error(self.sets[i]["y"], self.problem.reference(self.sets[i])), error)
        return error
