"""Kernels of this project, as `cargo xtask export` writes them: a cubin and a launch record a shape."""
import ctypes
import functools
import json
import os

import torch

from .contender import Contender

# CUlaunchAttribute: a 4-byte id, 4 bytes of padding, a union of 64 bytes.
PROGRAMMATIC_STREAM_SERIALIZATION = 6


class LaunchAttribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_int * 16)]


class LaunchConfig(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(LaunchAttribute)), ("count", ctypes.c_uint)]


@functools.cache
def driver():
    return ctypes.CDLL("libcuda.so.1")


def check(status, what):
    if status:
        text = ctypes.c_char_p()
        driver().cuGetErrorName(status, ctypes.byref(text))
        raise RuntimeError(f"{what}: {(text.value or b'unknown').decode()} ({status})")


class Function:
    """A loaded cubin's function, with room for its dynamic shared memory."""

    loaded = {}

    @classmethod
    def get(cls, folder, record):
        """Loaded once for each file and symbol, whatever the number of its launch records."""
        key = (os.path.realpath(os.path.join(folder, record["cubin"])), record["symbol"])
        if key not in cls.loaded:
            cls.loaded[key] = cls(*key)
        return cls.loaded[key]

    def __init__(self, path, symbol):
        torch.cuda.synchronize()  # makes the context that the module belongs to
        with open(path, "rb") as file:
            image = file.read()
        self.module, self.handle, self.shared = ctypes.c_void_p(), ctypes.c_void_p(), 0
        check(driver().cuModuleLoadData(ctypes.byref(self.module), image), f"loading {path}")
        check(driver().cuModuleGetFunction(ctypes.byref(self.handle), self.module, symbol.encode()), symbol)

    def reserve(self, shared):
        """Raises the limit on dynamic shared memory, which is 48 KiB unless asked for."""
        if shared > self.shared:
            check(driver().cuFuncSetAttribute(self.handle, 8, shared), f"{shared} bytes of shared memory")
            self.shared = shared


def slot(parameter, tensors):
    """One kernel parameter."""
    (kind, value), = parameter.items()
    if kind == "pointer":
        return ctypes.c_uint64(tensors[value].data_ptr())
    if kind == "f32":
        return ctypes.c_float(value)
    if kind == "i32":
        return ctypes.c_int32(value)
    if kind == "i64":
        return ctypes.c_int64(value)
    raise ValueError(f"the launch record has a parameter of unknown kind {kind!r}")


def prepare(folder, record, tensors, dependent=False):
    """A callable that launches a record on torch's current stream.

    With `dependent`, the launch may begin before its predecessor in the stream has ended (programmatic dependent
    launch): only for a record with "pdl", whose kernel waits for the predecessor by itself.
    """
    if dependent and not record.get("pdl"):
        raise ValueError(f"{record['instance']} is not exported for dependent launch")
    function = Function.get(folder, record)
    function.reserve(record["dynamic_shared"])
    slots = [slot(p, tensors) for p in record["params"]]
    array = (ctypes.c_void_p * len(slots))(*[ctypes.cast(ctypes.byref(s), ctypes.c_void_p) for s in slots])
    attribute = LaunchAttribute(id=PROGRAMMATIC_STREAM_SERIALIZATION)
    attribute.value[0] = 1
    attributes = (LaunchAttribute * 1)(attribute)
    config = LaunchConfig((ctypes.c_uint * 3)(*record["grid"]), (ctypes.c_uint * 3)(*record["threads"]),
                          record["dynamic_shared"], None, attributes, 1 if dependent else 0)
    launch = driver().cuLaunchKernelEx
    kept = (tensors, slots, attributes)

    def call(kept=kept):
        config.stream = torch.cuda.current_stream().cuda_stream
        check(launch(ctypes.byref(config), function.handle, array, None), record["instance"])

    return call


def load(folder):
    with open(os.path.join(folder, "launches.json")) as file:
        return json.load(file)


def contenders(problem, folder, peer="ours"):
    """Every exported launch of this problem."""
    found = []
    for record in load(folder):
        if problem.matches(record):
            found.append(Contender(peer, record["instance"], lambda b, r=record: prepare(folder, r, b),
                                   chosen=bool(record.get("chosen")), record=record))
    return found
