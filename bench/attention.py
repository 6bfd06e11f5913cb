"""Attention in PyTorch (cuDNN and flash), beside `cargo run --release --example attention`: the same shapes, bf16, TFLOP/s.
CUDA-graph replays of eight calls, the median of nine.

    python3 bench/attention.py
"""

import statistics

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

SHAPES = [
    (16, 16, 16, 1024, 128),
    (8, 16, 16, 2048, 128),
    (4, 16, 16, 4096, 128),
    (2, 16, 16, 8192, 128),
    (1, 16, 16, 16384, 128),
    (4, 32, 8, 4096, 128),
    (16, 32, 32, 1024, 64),
    (4, 32, 32, 4096, 64),
    (1, 32, 32, 16384, 64),
]
BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
COUNT = 8


def measure(shape: tuple[int, ...], causal: bool, backend: SDPBackend) -> float:
    """Microseconds of a call."""
    b, h, hk, s, d = shape
    make = lambda heads: torch.randn(b, heads, s, d, device="cuda", dtype=torch.bfloat16)
    q, k, v = make(h), make(hk), make(hk)
    with sdpa_kernel(backend), torch.no_grad():
        call = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=h != hk)
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(COUNT):
                call()
        times = []
        for _ in range(10):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) * 1e3 / COUNT)
    return statistics.median(times[1:])


def main() -> None:
    print("| B, H, HK, S, D | " + " | ".join(BACKENDS) + " |\n|---|" + "---:|" * len(BACKENDS))
    for causal in (False, True):
        for shape in SHAPES:
            b, h, _, s, d = shape
            flops = 4 * b * h * s * s * d / (2 if causal else 1)
            row = []
            for backend in BACKENDS.values():
                try:
                    row.append(f"{flops / measure(shape, causal, backend) * 1e-6:.0f}")
                except Exception as error:  # a backend that takes no such shape
                    row.append(f"none ({type(error).__name__})")
            name = ", ".join(map(str, shape)) + (" causal" if causal else "")
            print(f"| {name} | " + " | ".join(row) + " |", flush=True)


main()
