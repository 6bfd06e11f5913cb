"""The CUDA C of attention for sm_80, as PTX of compute_80 on whatever GPU there is, beside torch in float32: right, or it says where not.

    TILE_NVRTC_REPORT=FOLDER cargo test --test nvrtc -- --ignored --exact compile::listing
    python3 bench/attention_ptx.py FOLDER/causal_bf16_*D=128_DV=128*GROUP=1_sm_80.cu FOLDER/forward_bf16_*D=64*sm_80.cu

Each file is compiled by `nvcc -ptx -arch=compute_80` and by the driver, and launched on shapes whose lengths are no multiples of a tile's.
"""
import ctypes
import math
import re
import subprocess
import sys
import tempfile

import torch

from harness.exported import Function, LaunchConfig, check, driver

SHAPES = [(1, 2, 1, 300, 300), (2, 4, 2, 129, 457), (3, 4, 4, 1, 1000), (2, 8, 2, 1024, 1024)]


def shared_bytes(text, d, keys, slots):
    """Where the last array begins, and its slots."""
    return max(int(at) for at in re.findall(r"tile_shared \+ (\d+)", text)) + slots * keys * d * 2


def main():
    for path in sys.argv[1:]:
        with open(path) as file:
            text = file.read()
        rows, keys, d = (int(re.search(rf"_{name}=(\d+)", path)[1]) for name in ("BM", "BN", "D"))
        symbol, parameters = re.search(r"\n(tile_\w+)\(([^)]*)\)", text).groups()
        ptx = tempfile.mktemp(suffix=".ptx")
        subprocess.run(["nvcc", "-ptx", "-arch=compute_80", "-std=c++17", "-o", ptx, path], check=True)
        function = Function.get("/", dict(cubin=ptx, symbol=symbol))
        shared, threads = shared_bytes(text, d, keys, rows // 64), int(re.search(r"__launch_bounds__\((\d+)", text)[1])
        function.reserve(shared)
        causal = "causal" in symbol
        heads_first = parameters.index("int H,") < parameters.index("int M,")
        for b, h, hk, m, n in SHAPES:
            q, k, v = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in [(b, h, m, d), (b, hk, n, d), (b, hk, n, d)])
            o, sums = torch.full((b, h, m, d), math.nan, device="cuda", dtype=torch.bfloat16), torch.empty(b, h, m, device="cuda")
            views = dict(q=q if heads_first else q.transpose(1, 2), k=k, v=v, o=o if heads_first else o.transpose(1, 2), sums=sums, taken=torch.zeros(1, dtype=torch.int32, device="cuda"))
            values = dict(B=b, H=h, HK=hk, M=m, N=n, group=h // hk, past=n - m, section=1, scale=1.4426950408889634 / d**0.5)
            slots = []
            for parameter in parameters.split(", "):
                kind, name = parameter.rsplit(" ", 1)
                if name in views:
                    slots.append(ctypes.c_uint64(views[name].data_ptr()))
                elif "_stride" in name:
                    slots.append(ctypes.c_int32(views[name.split("_stride")[0]].stride(int(name[-1]))))
                else:
                    slots.append((ctypes.c_float if "float" in kind else ctypes.c_int32)(values[name]))
            array = (ctypes.c_void_p * len(slots))(*[ctypes.addressof(slot) for slot in slots])
            blocks = b * h * -(-m // rows)
            config = LaunchConfig((ctypes.c_uint * 3)(blocks, 1, 1), (ctypes.c_uint * 3)(threads, 1, 1), shared,
                                  torch.cuda.current_stream().cuda_stream, None, 0)
            check(driver().cuLaunchKernelEx(ctypes.byref(config), function.handle, array, None), symbol)
            torch.cuda.synchronize()
            scores = q.float() @ k.float().repeat_interleave(h // hk, 1).mT / d**0.5
            if causal:
                scores.masked_fill_(torch.arange(n, device="cuda")[None] > torch.arange(m, device="cuda")[:, None] + n - m, -math.inf)
            wanted = scores.softmax(-1) @ v.float().repeat_interleave(h // hk, 1)
            error = ((o.float() - wanted).norm() / wanted.norm()).item()
            print(f"{symbol} {b}, {h}, {hk}, {m}, {n}: relative error {error:.1e}")
            if not error < 6e-3:
                sys.exit("WRONG")


main()
