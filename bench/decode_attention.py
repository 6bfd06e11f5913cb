"""Decode attention in PyTorch, beside `cargo run --release --example decode_attention`: 64 heads of queries, 8 of keys, D = 128,
bf16, one query a sequence, contiguous keys and values. CUDA-graph replays, each call with keys and values of its own, more of
them than the L2 holds.

    python3 bench/decode_attention.py
"""

import statistics

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

HEADS, KEY_HEADS, D = 64, 8, 128
SHAPES = [(1, 1024), (1, 4096), (1, 16384), (1, 65536), (8, 4096), (8, 16384), (64, 4096), (64, 8192)]
BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
ROUND = 1 << 30


def measure(batch: int, keys: int, backend: SDPBackend) -> float:
    """Microseconds of a call: the median of nine rounds."""
    copies = max(4, -(-ROUND // (batch * keys * KEY_HEADS * D * 4)))
    make = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    q = make(batch, HEADS, 1, D)
    caches = [(make(batch, KEY_HEADS, keys, D), make(batch, KEY_HEADS, keys, D)) for _ in range(copies)]
    with sdpa_kernel(backend), torch.no_grad():
        call = lambda cache: F.scaled_dot_product_attention(q, *cache, enable_gqa=True)
        k, v = (x.repeat_interleave(HEADS // KEY_HEADS, 1).float() for x in caches[0])
        wanted = torch.softmax(q.float() @ k.mT / D**0.5, -1) @ v
        assert (call(caches[0]).float() - wanted).abs().max() < 0.02, "wrong result"
        for _ in range(2):
            call(caches[0])
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for cache in caches:
                call(cache)
        graph.replay()
        times = []
        for _ in range(9):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) * 1e3 / copies)
    return statistics.median(times)


def main() -> None:
    print("| batch, keys | " + " | ".join(f"{name} us" for name in BACKENDS) + " |\n|---|" + "---:|" * len(BACKENDS))
    for batch, keys in SHAPES:
        row = []
        for backend in BACKENDS.values():
            try:
                row.append(f"{measure(batch, keys, backend):.2f}")
            except Exception as error:  # a backend that takes no such shape
                row.append(f"none ({type(error).__name__})")
            torch.cuda.empty_cache()
        print(f"| {batch}, {keys} | " + " | ".join(row) + " |", flush=True)


main()
