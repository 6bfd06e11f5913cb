"""fast.cu's two best GEMM kernels for Hopper (github.com/pranjalssh/fast.cu), bf16, A and B^T both K-major.

The sources are not kept here: the folder FASTCU has them, and a `wrap.cu` that bench/README.md describes. Importing this
module builds it with nvcc, which takes a quarter of a minute, and fails where FASTCU is not set.
"""
import ctypes
import hashlib
import os
import subprocess
import tempfile

import torch

from .contender import Contender

VERSIONS = (11, 12)
# The flags of fast.cu's Makefile, for a library. Its -arch=sm_90a makes nvcc 13.0 assemble for compute_90 too, which has no wgmma.
FLAGS = ["-std=c++17", "-O3", "-DNDEBUG", "-w", "--expt-relaxed-constexpr", "--expt-extended-lambda", "--use_fast_math",
         "-gencode=arch=compute_90a,code=sm_90a", "--shared", "-Xcompiler", "-fPIC", "-lcuda"]


def built(folder):
    """The path of the library made from the folder's wrap.cu; built once for the same sources."""
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    for name in sorted(os.listdir(folder)):
        if name.endswith((".cu", ".cuh")):
            with open(os.path.join(folder, name), "rb") as file:
                digest.update(file.read())
    path = os.path.join(tempfile.gettempdir(), f"fastcu-{digest.hexdigest()[:16]}.so")
    if not os.path.exists(path):
        done = subprocess.run(["nvcc", os.path.join(folder, "wrap.cu"), *FLAGS, "-o", path + ".part"],
                              capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"nvcc: {(done.stderr or done.stdout)[:240]}")
        os.replace(path + ".part", path)
    return path


def loaded():
    if not os.environ.get("FASTCU"):
        raise RuntimeError("FASTCU names no folder with fast.cu's sources")
    library = ctypes.CDLL(built(os.environ["FASTCU"]))
    for version in VERSIONS:
        takes, init, run = (getattr(library, f"{name}{version}") for name in ("takes", "init", "run"))
        takes.argtypes, takes.restype = [ctypes.c_int] * 3, ctypes.c_int
        init.argtypes, init.restype = [ctypes.c_int] * 3 + [ctypes.c_void_p] * 3, ctypes.c_void_p
        run.argtypes, run.restype = [ctypes.c_void_p] * 2, ctypes.c_int
    return library


LIBRARY = loaded()


def prepare(version, problem, t):
    """A call that only launches: the tensor maps and the schedule of its tiles are made here."""
    plan = getattr(LIBRARY, f"init{version}")(problem.m, problem.n, problem.k, *(t[name].data_ptr() for name in "abc"))
    if not plan:
        raise RuntimeError("fast.cu could not be prepared; it says why on stderr")
    run = getattr(LIBRARY, f"run{version}")

    def call(kept=t):
        status = run(plan, torch.cuda.current_stream().cuda_stream)
        if status:
            raise RuntimeError(f"fast.cu's launch: CUDA error {status}")

    return call


def contenders(problem):
    if problem.op != "gemm" or problem.dtype != "bf16" or problem.layout != "nt":
        return []
    return [Contender("fastcu", f"kernel {version}", lambda t, v=version: prepare(v, problem, t)) for version in VERSIONS
            if getattr(LIBRARY, f"takes{version}")(problem.m, problem.n, problem.k)]
