"""Tensors of torch (and numpy) in and out of our kernels by DLPack: same memory, right order, let go once.

    cargo build --release --example dlpack
    python bench/dlpack.py target/release/examples/libdlpack.so [--device cuda:0 | cpu] [--repeats 1000]

On `cuda` the other side is torch, on `cpu` (our simulator) torch where it is there, else numpy.
"""
import argparse
import ctypes
import gc

P = ctypes.c_void_p


class Form(ctypes.Structure):
    _fields_ = [("plain", P), ("versioned", P)]


api = ctypes.pythonapi
api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = P, [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_IsValid.restype, api.PyCapsule_IsValid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.restype, api.PyCapsule_SetName.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_New.restype, api.PyCapsule_New.argtypes = ctypes.py_object, [P, ctypes.c_char_p, P]
PLAIN, VERSIONED = b"dltensor", b"dltensor_versioned"
USED = {PLAIN: b"used_dltensor", VERSIONED: b"used_dltensor_versioned"}


def taken(capsule):
    """The tensor of a capsule, which we let go from here on."""
    for name in (VERSIONED, PLAIN):
        if api.PyCapsule_IsValid(capsule, name):
            pointer = api.PyCapsule_GetPointer(capsule, name)
            api.PyCapsule_SetName(capsule, USED[name])
            return Form(None, pointer) if name == VERSIONED else Form(pointer, None)
    raise TypeError("not a DLPack capsule")


class Given:
    """A tensor of ours, for `from_dlpack`: the consumer lets it go."""

    def __init__(self, form, device):
        self.form, self.device = form, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        name = VERSIONED if self.form.versioned else PLAIN
        return api.PyCapsule_New(self.form.versioned or self.form.plain, name, None)


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.dlpack_error.restype = ctypes.c_char_p
        form = ctypes.POINTER(Form)
        for function in (self.c.dlpack_scale, self.c.dlpack_scale_into):
            function.argtypes = [ctypes.c_int, P, form, ctypes.c_float, form]

    def call(self, function, *arguments):
        if function(*arguments):
            raise RuntimeError(self.c.dlpack_error().decode())

    def scale(self, cuda, stream, x, alpha):
        y = Form()
        self.call(self.c.dlpack_scale, cuda, stream, ctypes.byref(taken(x)), alpha, ctypes.byref(y))
        return Given(y, (1, 0) if cuda < 0 else (2, cuda))

    def scale_into(self, cuda, stream, x, alpha, y):
        self.call(self.c.dlpack_scale_into, cuda, stream, ctypes.byref(taken(x)), alpha, ctypes.byref(taken(y)))


def refused(words, call):
    try:
        call()
    except RuntimeError as error:
        assert words in str(error), error
        print(f"  refused: {error}")
        return
    raise AssertionError(f"not refused: {words}")


def with_torch(lib, torch, device, repeats):
    cuda = -1 if device == "cpu" else int(device.partition(":")[2] or 0)
    if cuda >= 0:
        torch.cuda.set_device(cuda)
    current = lambda: torch.cuda.current_stream().cuda_stream if cuda >= 0 else None
    capsules = {"plain": torch.utils.dlpack.to_dlpack}
    try:
        torch.zeros(1).__dlpack__(max_version=(1, 0))
        capsules["versioned"] = lambda x: x.__dlpack__(max_version=(1, 0))
    except TypeError:
        print("  this torch has no versioned capsules")
    streams = [None] if cuda < 0 else [torch.cuda.current_stream(), torch.cuda.Stream()]
    for form, capsule in capsules.items():
        for stream in streams:
            with torch.cuda.stream(stream) if stream else torch.no_grad():
                wide = torch.randn(257, 1000, device=device)
                for x in (wide, wide[3:, 4:900]):
                    y = torch.from_dlpack(lib.scale(cuda, current(), capsule(x), 2.0))
                    assert torch.equal(y, 2.0 * x), form
                # In place: the memory that is seen is torch's own.
                y = torch.full((257, 1000), float("nan"), device=device)
                place = y.data_ptr()
                lib.scale_into(cuda, current(), capsule(wide), 3.0, capsule(y))
                assert y.data_ptr() == place and torch.equal(y, 3.0 * wide), form
                # In torch's order: poisoned, computed and read, again and again, with nothing that waits.
                bad = torch.zeros((), dtype=torch.int64, device=device)
                for round in range(repeats):
                    wide.fill_(float(round))
                    y.fill_(float("nan"))
                    lib.scale_into(cuda, current(), capsule(wide), 3.0, capsule(y))
                    bad += (y != 3.0 * round).sum()
                    z = torch.from_dlpack(lib.scale(cuda, current(), capsule(wide), 5.0)) if round % 10 == 0 else None
                    if z is not None:
                        bad += (z != 5.0 * round).sum()
                    del z
                assert int(bad) == 0, f"{form}: {int(bad)} elements are wrong"
        print(f"  {form}: in, out and in place, {len(streams)} streams, {repeats} rounds over poisoned outputs: right")
    capsule = capsules["plain"]
    if cuda >= 0:
        # In a graph of torch.
        x, y = torch.ones(64, 64, device=device), torch.zeros(64, 64, device=device)
        lib.scale_into(cuda, current(), capsule(x), 7.0, capsule(y))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            lib.scale_into(cuda, current(), capsule(x), 7.0, capsule(y))
        for round in range(repeats):
            x.fill_(float(round))
            y.fill_(float("nan"))
            graph.replay()
            assert round % 50 or torch.equal(y, 7.0 * x), round
        print(f"  a graph of torch, {repeats} replays: right")
        # Nothing leaks: the memory of as many tensors as there is room for, ten times over.
        torch.cuda.synchronize()
        free = torch.cuda.mem_get_info()[0]
        for _ in range(200):
            big = torch.from_dlpack(lib.scale(cuda, current(), capsule(torch.ones(4096, 4096, device=device)), 1.0))
        del big
        gc.collect()
        torch.cuda.synchronize()
        assert free - torch.cuda.mem_get_info()[0] < 1 << 30, "memory is not given back"
    refused("bf16", lambda: lib.scale(cuda, current(), capsule(torch.zeros(2, 2, dtype=torch.bfloat16, device=device)), 1.0))
    refused("1 axes", lambda: lib.scale(cuda, current(), capsule(torch.zeros(4, device=device)), 1.0))
    refused("apart, not 1", lambda: lib.scale(cuda, current(), capsule(torch.zeros(4, 6, device=device).t()), 1.0))
    refused("apart, and each takes", lambda: lib.scale(cuda, current(), capsule(torch.zeros(1, 6, device=device).expand(4, 6)), 1.0))
    if cuda >= 0:
        refused("memory of the host", lambda: lib.scale(cuda, current(), capsule(torch.zeros(4, 6)), 1.0))


def with_numpy(lib, numpy, repeats):
    for round in range(repeats):
        wide = numpy.random.rand(7, 33).astype(numpy.float32)
        for x in (wide, wide[1:, 1:20]):
            y = numpy.from_dlpack(lib.scale(-1, None, x.__dlpack__(), 2.0))
            assert numpy.array_equal(y, numpy.float32(2.0) * x)
        out = numpy.full((7, 33), numpy.nan, dtype=numpy.float32)
        lib.scale_into(-1, None, wide.__dlpack__(), 3.0, out.__dlpack__())
        assert numpy.array_equal(out, numpy.float32(3.0) * wide)
    refused("f64", lambda: lib.scale(-1, None, numpy.zeros((2, 2)).__dlpack__(), 1.0))
    refused("3 axes", lambda: lib.scale(-1, None, numpy.zeros((2, 2, 2), numpy.float32).__dlpack__(), 1.0))
    print(f"  numpy, {repeats} rounds: in, out and in place: right")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--device")
    parser.add_argument("--repeats", type=int, default=1000)
    options = parser.parse_args()
    lib = Library(options.library)
    try:
        import torch
    except ImportError:
        torch = None
    device = options.device or ("cuda:0" if torch is not None and torch.cuda.is_available() else "cpu")
    print(f"on {device}")
    if torch is not None:
        with_torch(lib, torch, device, options.repeats if device != "cpu" else min(options.repeats, 20))
    if device == "cpu":
        try:
            import numpy
            with_numpy(lib, numpy, min(options.repeats, 50))
        except ImportError:
            print("  no numpy")
    print("ok")
