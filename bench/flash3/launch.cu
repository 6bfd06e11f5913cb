// FlashAttention-3's forward kernels behind a C function, without PyTorch: what flash_api.cpp of its repository does for a call in bf16 without
// splits, a window, a soft cap or pages.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "flash.h"
#include "heuristics.h"
#include "tile_size.h"

#define KERNEL(d, causal, varlen, pack, cluster) void flash3_##d##_##causal##_##varlen##_##pack##_##cluster(Flash_fwd_params&, cudaStream_t);
KERNEL(64, 0, 0, 0, 1) KERNEL(64, 0, 0, 1, 1) KERNEL(64, 1, 0, 0, 1) KERNEL(64, 1, 0, 1, 1)
KERNEL(64, 0, 1, 0, 1) KERNEL(64, 0, 1, 1, 1) KERNEL(64, 1, 1, 0, 1) KERNEL(64, 1, 1, 1, 1)
KERNEL(128, 0, 0, 0, 1) KERNEL(128, 0, 0, 1, 1) KERNEL(128, 1, 0, 0, 1) KERNEL(128, 1, 0, 1, 1)
KERNEL(128, 0, 1, 0, 1) KERNEL(128, 0, 1, 1, 1) KERNEL(128, 1, 1, 0, 1) KERNEL(128, 1, 1, 1, 1)
KERNEL(128, 0, 0, 0, 2) KERNEL(128, 0, 0, 1, 2)
#undef KERNEL

using Kernel = void (*)(Flash_fwd_params&, cudaStream_t);

// The number of 32-bit words of scratch memory that a call with `b` sequences needs.
extern "C" int flash3_scratch(int b) { return 4 * ((b + 3) / 4 * 4) + 1; }

// Shapes and strides count elements; the last dimension of each tensor is contiguous. `first_q` and `first_k` are null, or the b + 1 offsets of
// packed sequences, of which the longest has `m` queries and `n` keys. Returns 0, 1 for a head that is not compiled, or the error of the runtime + 100.
extern "C" int flash3_forward(const void* q, const void* k, const void* v, void* o, float* lse, int* scratch, int b, int h, int hk, int m, int n, int d,
                              const int64_t* q_strides, const int64_t* k_strides, const int64_t* v_strides, const int64_t* o_strides, const int* first_q,
                              const int* first_k, int total_q, int total_k, int causal, int multiprocessors, void* stream_) {
    auto stream = static_cast<cudaStream_t>(stream_);
    if (d != 64 && d != 128) return 1;
    Flash_fwd_params p = {};
    const bool varlen = first_q != nullptr;
    p.is_bf16 = true;
    p.q_ptr = const_cast<void*>(q), p.k_ptr = const_cast<void*>(k), p.v_ptr = const_cast<void*>(v), p.o_ptr = o, p.softmax_lse_ptr = lse;
    p.q_batch_stride = q_strides[0], p.q_head_stride = q_strides[1], p.q_row_stride = q_strides[2];
    p.k_batch_stride = k_strides[0], p.k_head_stride = k_strides[1], p.k_row_stride = k_strides[2];
    p.v_batch_stride = v_strides[0], p.v_head_stride = v_strides[1], p.v_row_stride = v_strides[2], p.v_dim_stride = 1;
    p.o_batch_stride = o_strides[0], p.o_head_stride = o_strides[1], p.o_row_stride = o_strides[2];
    p.cu_seqlens_q = const_cast<int*>(first_q), p.cu_seqlens_k = const_cast<int*>(first_k);
    p.b = p.b_k = b, p.h = h, p.h_k = hk, p.seqlen_q = m, p.seqlen_k = n, p.d = p.d_rounded = p.dv = p.dv_rounded = d;
    p.total_q = total_q, p.total_k = total_k;
    p.seqlen_q_rounded = (m + 127) / 128 * 128, p.seqlen_k_rounded = (n + 127) / 128 * 128;
    p.scale_softmax = 1.0f / std::sqrt(static_cast<float>(d));
    p.p_dropout = 1.0f, p.rp_dropout = 1.0f, p.p_dropout_in_uint8_t = 255;
    // A single query sees every key.
    p.is_causal = causal && m > 1;
    p.window_size_left = n - 1, p.window_size_right = p.is_causal ? 0 : m - 1;
    p.arch = 90, p.num_sm = multiprocessors, p.num_splits = 1;
    const int rows = std::get<0>(tile_size_fwd_sm90(d, d, p.is_causal, false));
    p.pack_gqa = h != hk && should_pack_gqa(varlen, m, h / hk, rows);
    p.varlen_sort_batches = true, p.head_swizzle = p.is_causal, p.prepare_varlen_pdl = varlen && b <= 992;
    const int rounded = (b + 3) / 4 * 4;
    if (varlen) {
        p.num_splits_dynamic_ptr = scratch, p.num_m_blocks_ptr = scratch + rounded, p.varlen_batch_idx_ptr = scratch + 2 * rounded;
        p.num_nheads_in_l2_ptr = p.head_swizzle ? scratch + 3 * rounded : nullptr;
        p.tile_count_semaphore_offset = rounded * (p.head_swizzle ? 4 : 3);
        p.tile_count_semaphore = scratch + p.tile_count_semaphore_offset;
    } else if (p.is_causal) {
        p.tile_count_semaphore = scratch;
        cudaMemsetAsync(scratch, 0, sizeof(int), stream);
    }
    const int tiles = (m * (p.pack_gqa ? h / hk : 1) + rows - 1) / rows;
    const bool cluster = d == 128 && !p.is_causal && !varlen && tiles % 2 == 0;
    static const Kernel kernels[] = {
        flash3_64_0_0_0_1, flash3_64_0_0_1_1, flash3_64_0_1_0_1, flash3_64_0_1_1_1, flash3_64_1_0_0_1, flash3_64_1_0_1_1, flash3_64_1_1_0_1, flash3_64_1_1_1_1,
        flash3_128_0_0_0_1, flash3_128_0_0_1_1, flash3_128_0_1_0_1, flash3_128_0_1_1_1, flash3_128_1_0_0_1, flash3_128_1_0_1_1, flash3_128_1_1_0_1, flash3_128_1_1_1_1,
    };
    Kernel kernel = kernels[(d == 128) * 8 + p.is_causal * 4 + varlen * 2 + p.pack_gqa];
    if (cluster) kernel = p.pack_gqa ? flash3_128_0_0_1_2 : flash3_128_0_0_0_2;
    kernel(p, stream);
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? 0 : 100 + static_cast<int>(error);
}
