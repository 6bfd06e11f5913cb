// One kernel of FlashAttention-3 as a function of its own, so that each is compiled beside the others.
#include "flash_fwd_launch_template.h"

#define JOIN_(d, causal, varlen, pack, cluster) flash3_##d##_##causal##_##varlen##_##pack##_##cluster
#define JOIN(d, causal, varlen, pack, cluster) JOIN_(d, causal, varlen, pack, cluster)

void JOIN(HEAD, CAUSAL, VARLEN, PACK, CLUSTER)(Flash_fwd_params& params, cudaStream_t stream) {
    using bf16 = cutlass::bfloat16_t;
    run_flash_fwd<90, HEAD, HEAD, CLUSTER, bf16, bf16, CAUSAL, false, false, VARLEN, false, false, false, PACK, false, false>(params, stream);
}
