"""Graphs of products that `cookbook_for_python` makes for Python, launched as a user's program launches them."""
import ctypes

import torch

from cookbook import DTYPES, View
from .method import Captured

P = ctypes.c_void_p
# What stands for a candidate's number: who chooses instead.
CALL, TUNER = -1, -2


class Asked(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("cuda", ctypes.c_int), ("stream", P), ("views", P), ("view_count", ctypes.c_size_t),
                ("each", ctypes.c_size_t), ("scalars", P), ("scalar_count", ctypes.c_size_t)]


class Library:
    """The C functions of cookbook_for_python that make graphs of products."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.cookbook_error.restype = ctypes.c_char_p
        self.c.cookbook_candidates.argtypes = [P]
        self.c.cookbook_graph.argtypes = [P, ctypes.c_int, ctypes.c_int, P]
        self.c.cookbook_launch.argtypes = [P, ctypes.c_int, P]
        self.c.cookbook_free.argtypes = [P]

    def check(self, status):
        if status:
            raise RuntimeError(self.c.cookbook_error().decode())

    def asked(self, name, sets, scalars):
        tensors = [tensor for one in sets for tensor in one]
        views = (View * len(tensors))()
        for view, tensor in zip(views, tensors):
            view.address, view.rank, view.dtype = tensor.data_ptr(), tensor.dim(), DTYPES[tensor.dtype]
            view.shape[:tensor.dim()], view.strides[:tensor.dim()] = tensor.shape, tensor.stride()
        values = (ctypes.c_double * max(1, len(scalars)))(*scalars)
        asked = Asked(name.encode(), 0, torch.cuda.current_stream().cuda_stream, ctypes.addressof(views), len(tensors), len(sets[0]),
                      ctypes.addressof(values), len(scalars))
        asked.kept = views, values
        return asked

    def candidates(self, asked):
        """(name, us expected) of every choice, what is taken by itself first."""
        self.check(self.c.cookbook_candidates(ctypes.byref(asked)))
        lines = self.c.cookbook_error().decode().splitlines()
        return [(line.partition(" ")[2], float(line.partition(" ")[0])) for line in lines]

    def graph(self, asked, candidate=CALL, dependent=True):
        made = P()
        self.check(self.c.cookbook_graph(ctypes.byref(asked), candidate, int(dependent), ctypes.byref(made)))
        return made


class Ours:
    """A graph of our launches, with the interface of `Captured`."""

    def __init__(self, library, asked, sets, candidate, dependent):
        self.library, self.count, self.sets = library, len(sets), sets
        self.graph = library.graph(asked, candidate, dependent)
        self.stream = torch.cuda.current_stream().cuda_stream
        self.run()
        torch.cuda.synchronize()

    def run(self):
        self.library.check(self.library.c.cookbook_launch(self.graph, 0, self.stream))

    block, replays_for = Captured.block, Captured.replays_for

    def __del__(self):
        if getattr(self, "graph", None):
            self.library.c.cookbook_free(self.graph)
