"""Attention written by hand in CUDA C, as contenders for `bench/attention.py`: `ATTENTION_PEERS=bench/attention_by_hand.py BY_HAND=FOLDER`.

The kernels are not this repository's. FOLDER has `gen_attn.py`, which must define, of a dict of options (`D`, `NWG`, `BN`, `PP`, `LAZY`,
`CAUSAL`, `DYN`): `kernel` (CUDA C of `attn(tq, tk, tv, to, counter, Args)`, where Args is seven int32 and a float as `Args` here has them),
`name` and `smem_bytes`. nvcc compiles the four variants for heads of 128 and the three for heads of 64 when they are first asked for. A tile has
64 NWG queries and BN keys; queries, keys, values and the output are contiguous [B, H, S, D].
"""
import ctypes
import functools
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import torch

from harness.exported import Function, LaunchConfig, TensorMap, check, driver

sys.path.insert(0, os.environ["BY_HAND"])
import gen_attn

VARIANTS = {128: [dict(NWG=3, BN=80, PP=0, LAZY=8), dict(NWG=2, BN=128, PP=1, LAZY=8), dict(NWG=2, BN=128, PP=1, LAZY=0), dict(NWG=2, BN=160, PP=0, LAZY=8)],
            64: [dict(NWG=3, BN=128, PP=0, LAZY=0), dict(NWG=3, BN=128, PP=0, LAZY=8), dict(NWG=3, BN=128, PP=1, LAZY=0)]}
L2_OF_A_SECTION = 32 << 20


class Args(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in ("heads", "group", "all_heads", "queries", "keys", "tiles")] + [("scale", ctypes.c_float),
                                                                                                                   ("section", ctypes.c_int32)]


@functools.cache
def compiled():
    """name -> (options, cubin) of every variant, with and without a mask."""
    folder = tempfile.mkdtemp()

    def one(options):
        name = gen_attn.name(options)
        path = os.path.join(folder, name)
        with open(path + ".cu", "w") as file:
            file.write(gen_attn.kernel(options))
        subprocess.run(["nvcc", "-gencode=arch=compute_90a,code=sm_90a", "-cubin", "-std=c++17", "-O3", "-o", path + ".cubin", path + ".cu"], check=True)
        return name, (options, path + ".cubin")
    wanted = [dict(v, D=d, DYN=2, CAUSAL=causal) for d, variants in VARIANTS.items() for v in variants for causal in (0, 1)]
    with ThreadPoolExecutor() as pool:
        return dict(pool.map(one, wanted))


@functools.cache
def counter(device):
    """The counter of tiles, which every launch leaves at zero."""
    return torch.zeros(1, dtype=torch.int32, device=device)


def prepared(options, cubin, q, k, v, o):
    (b, h, m, d), (hk, n) = q.shape, k.shape[1:3]
    function = Function.get("/", dict(cubin=cubin, symbol="attn"))
    shared, rows = gen_attn.smem_bytes(options), 64 * options["NWG"]
    function.reserve(shared)

    def flat(name, tensor, box):
        record = dict(tensor=name, box=[64, box, 1], swizzle="B128", promotion="B256")
        return TensorMap.encode(tensor.view(-1, tensor.shape[2], d), record)
    maps = [flat("q", q, rows), flat("k", k, options["BN"]), flat("v", v, options["BN"]), flat("o", o, 64)]
    tiles = b * h * -(-m // rows)
    section = max(1, L2_OF_A_SECTION // (4 * n * d)) * (h // hk)
    blocks = min(tiles, torch.cuda.get_device_properties(0).multi_processor_count)
    slots = [ctypes.c_uint64(counter(q.device).data_ptr()), Args(h, h // hk, b * h, m, n, tiles, 1.4426950408889634 / d**0.5, section)]
    addresses = [each.address for each in maps] + [ctypes.addressof(each) for each in slots]
    array = (ctypes.c_void_p * len(addresses))(*addresses)
    config = LaunchConfig((ctypes.c_uint * 3)(blocks, 1, 1), (ctypes.c_uint * 3)((options["NWG"] + 1) * 128, 1, 1), shared, None, None, 0)

    def call(kept=(maps, slots, q, k, v, o)):
        config.stream = torch.cuda.current_stream().cuda_stream
        check(driver().cuLaunchKernelEx(ctypes.byref(config), function.handle, array, None), "a kernel by hand")
    return call


def contenders(q, k, v, o, causal):
    """name -> a launch on these tensors."""
    d = q.shape[3]
    return {"hand " + name.removeprefix("attn_").replace("_causal", "").removesuffix("_early"): prepared(options, cubin, q, k, v, o)
            for name, (options, cubin) in compiled().items() if options["D"] == d and bool(options["CAUSAL"]) == bool(causal)}
