"""FlashAttention-3, built by bench/flash3/build.sh, as a function of tensors."""
import ctypes

import torch


class Flash3:
    """`forward` computes what `flash_attn_func` and `flash_attn_varlen_func` of its repository do, into a tensor that exists."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.processors = torch.cuda.get_device_properties(0).multi_processor_count

    def forward(self, q, k, v, o, causal, first=None, lengths=None):
        """`q` is [B, H, M, D] with any strides but the last; or [tokens, H, D], where `first` are the offsets of queries and keys (on the device)
        and `lengths` the most of each."""
        if first is None:
            (b, h, m, d), hk, n = q.shape, k.shape[1], k.shape[2]
            strides, totals = [(t.stride(0), t.stride(1), t.stride(2)) for t in (q, k, v, o)], (b * m, b * n)
        else:
            (h, d), hk, (m, n), b = q.shape[1:], k.shape[1], lengths, len(first[0]) - 1
            strides, totals = [(0, t.stride(1), t.stride(0)) for t in (q, k, v, o)], (q.shape[0], k.shape[0])
        # Allocated at each call, as its own entry does; freed memory is used again by what is later on the stream.
        lse = torch.empty(h * totals[0], dtype=torch.float32, device=q.device)
        scratch = torch.empty(self.library.flash3_scratch(b), dtype=torch.int32, device=q.device)
        pointer, three = ctypes.c_void_p, ctypes.c_int64 * 3
        offsets = [pointer(t.data_ptr()) for t in first] if first else [None, None]
        status = self.library.flash3_forward(
            *(pointer(t.data_ptr()) for t in (q, k, v, o, lse, scratch)), b, h, hk, m, n, d, *(three(*s) for s in strides), *offsets,
            *totals, int(causal), self.processors, pointer(torch.cuda.current_stream().cuda_stream))
        if status:
            raise RuntimeError(f"flash3_forward returned {status}")
