"""Kernels of this project, as `cargo xtask export` writes them: a cubin and a launch record a shape."""
import ctypes
import functools
import json
import os

import torch

from .contender import Contender

# CUlaunchAttribute: a 4-byte id, 4 bytes of padding, a union of 64 bytes.
CLUSTER_DIMENSION = 4
PROGRAMMATIC_STREAM_SERIALIZATION = 6
# CUtensorMapDataType, CUtensorMapSwizzle and CUtensorMapL2promotion by the names that records use.
MAP_TYPES = {torch.float16: 6, torch.float32: 7, torch.bfloat16: 9}
SWIZZLES = {"None": 0, "B32": 1, "B64": 2, "B128": 3}
PROMOTIONS = {"None": 0, "B64": 1, "B128": 2, "B256": 3}


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


class TensorMap(ctypes.Structure):
    """A CUtensorMap: 128 bytes at a multiple of 64."""

    _fields_ = [("opaque", ctypes.c_ulonglong * 16), ("room", ctypes.c_ulonglong * 8)]

    @classmethod
    def encode(cls, tensor, record):
        """The map of a row-major tensor for boxes of `record["box"]`, innermost axis first."""
        self = cls()
        address = -(-ctypes.addressof(self) // 64) * 64
        rank = tensor.dim()
        extents = (ctypes.c_ulonglong * rank)(*reversed(tensor.shape))
        strides = [s * tensor.element_size() for s in reversed(tensor.stride()[:-1])]
        status = driver().cuTensorMapEncodeTiled(
            ctypes.c_void_p(address), MAP_TYPES[tensor.dtype], rank, ctypes.c_void_p(tensor.data_ptr()), extents,
            (ctypes.c_ulonglong * max(rank - 1, 1))(*strides), (ctypes.c_uint * rank)(*record["box"]),
            (ctypes.c_uint * rank)(*[1] * rank), 0, SWIZZLES[record["swizzle"]], PROMOTIONS[record["promotion"]], 0)
        check(status, f"a tensor map for {record['tensor']}")
        self.address = address
        return self


def slot(parameter, tensors, dependent=False):
    """One kernel parameter."""
    (kind, value), = parameter.items()
    if kind == "ahead":
        # Slots that may be filled before the predecessor is done: none where the launch cannot begin before.
        return ctypes.c_int32(value if dependent else 0)
    if kind == "map":
        return TensorMap.encode(tensors[value["tensor"]], value)
    if kind == "pointer":
        return ctypes.c_uint64(tensors[value].data_ptr())
    if kind == "f32":
        return ctypes.c_float(value)
    if kind == "i32":
        return ctypes.c_int32(value)
    if kind == "i64":
        return ctypes.c_int64(value)
    raise ValueError(f"the launch record has a parameter of unknown kind {kind!r}")


@functools.cache
def workspace(name, elements):
    """Memory that a kernel keeps between launches, of 4-byte elements: zeros before the first."""
    return torch.zeros(elements, device="cuda", dtype=torch.int32)


def prepare(folder, record, tensors, dependent=False):
    """A callable that launches a record on torch's current stream.

    With `dependent`, the launch may begin before its predecessor in the stream has ended (programmatic dependent
    launch): only for a record with "pdl", whose kernel waits for the predecessor by itself.
    """
    if dependent and not record.get("pdl"):
        raise ValueError(f"{record['instance']} is not exported for dependent launch")
    function = Function.get(folder, record)
    function.reserve(record["dynamic_shared"])
    own = {name: workspace(name, elements) for name, elements in record.get("workspace", {}).items()}
    tensors = {**tensors, **own}
    slots = [slot(p, tensors, dependent) for p in record["params"]]
    addresses = [getattr(s, "address", None) or ctypes.addressof(s) for s in slots]
    array = (ctypes.c_void_p * len(slots))(*addresses)
    asked = []
    if dependent:
        attribute = LaunchAttribute(id=PROGRAMMATIC_STREAM_SERIALIZATION)
        attribute.value[0] = 1
        asked.append(attribute)
    if record.get("cluster", [1, 1, 1]) != [1, 1, 1]:
        attribute = LaunchAttribute(id=CLUSTER_DIMENSION)
        attribute.value[0:3] = record["cluster"]
        asked.append(attribute)
    attributes = (LaunchAttribute * max(len(asked), 1))(*asked)
    config = LaunchConfig((ctypes.c_uint * 3)(*record["grid"]), (ctypes.c_uint * 3)(*record["threads"]),
                          record["dynamic_shared"], None, attributes, len(asked))
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
