#!/bin/bash
# Builds FlashAttention-3's forward kernels for bf16 heads of 64 and 128 as a library without PyTorch, for `bench/attention.py --flash3`.
#
# Needs nvcc 12.8 or newer, and SOURCES with two folders: `hopper` of https://github.com/Dao-AILab/flash-attention (0251105a was measured), and
# `include` of the CUTLASS that it names as a submodule (71275920). Flags are those of its own setup.py. A kernel takes a minute; all run at once.
#
# usage: bench/flash3/build.sh SOURCES OUT.so
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
sources=$(cd "$1" && pwd)
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
flags=(-O3 -std=c++17 --use_fast_math --expt-relaxed-constexpr -gencode "arch=compute_90a,code=sm_90a" -Xcompiler -fPIC
    -DCUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED -DCUTLASS_ENABLE_GDC_FOR_SM90 -DCUTLASS_DEBUG_TRACE_LEVEL=0 -DNDEBUG
    -I "$sources/hopper" -I "$sources/include")

{
    echo "launch $here/launch.cu"
    echo "prepare $sources/hopper/flash_prepare_scheduler.cu"
    for pack in 0 1; do
        for head in 64 128; do
            for causal in 0 1; do
                for varlen in 0 1; do
                    echo "$head-$causal-$varlen-$pack-1 $here/kernel.cu -DHEAD=$head -DCAUSAL=$causal -DVARLEN=$varlen -DPACK=$pack -DCLUSTER=1"
                done
            done
        done
        echo "128-0-0-$pack-2 $here/kernel.cu -DHEAD=128 -DCAUSAL=0 -DVARLEN=0 -DPACK=$pack -DCLUSTER=2"
    done
} | xargs -P "$(nproc)" -L 1 bash -c 'out=$0; shift 0; nvcc '"$(printf '%q ' "${flags[@]}")"' -c "$@" -o '"$objects"'/$out.o'
nvcc -shared -cudart static -o "$2" "$objects"/*.o
