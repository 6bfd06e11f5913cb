#!/bin/bash
# Packs the peers that a GPU machine without network lacks: target/peers/{cutile,tilelang}.tar.xz.
#
# Wheels come from PyPI, for Python 3.12 on x86-64 Linux, in the versions that were measured. Only what a benchmark
# needs is kept, so that each archive fits beside a working tree of 64 MiB; the two travel in different calls.
# bench/peers_env.sh unpacks them on the other machine.
#
# usage: bench/peers_bundle.sh [cutile] [tilelang]
set -euo pipefail
cd "$(dirname "$0")/.."
out=$PWD/target/peers
mkdir -p "$out/wheels"

fetch() { # fetch NAME==VERSION...: wheels into $out/wheels
    python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
        --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_24_x86_64 \
        --platform manylinux2014_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2010_x86_64 \
        --platform any -d "$out/wheels" "$@"
}

# pack FOLDER MEBIBYTES: an archive of the folder, which must fit.
pack() {
    local archive=$out/$1.tar.xz
    tar -C "$out/$1" --owner=0 --group=0 --sort=name -cf - . | xz -T1 --x86 --lzma2=preset=9,dict=128MiB > "$archive.part"
    mv "$archive.part" "$archive"
    local size
    size=$(stat -c %s "$archive")
    echo "$archive: $((size >> 10)) KiB, sha256 $(sha256sum "$archive" | cut -c1-16)"
    if [ "$size" -gt $(($2 << 20)) ]; then
        echo "larger than the $2 MiB that it may take" >&2
        return 1
    fi
}

cutile() {
    local site=$out/cutile
    rm -rf "$site" && mkdir -p "$site"
    # cuTile's compiler calls ptxas and libnvvm of its own release, so all three have one version.
    fetch cuda-tile==1.7.0 nvidia-cuda-tileiras==13.4.92 nvidia-cuda-nvcc==13.4.92 nvidia-nvvm==13.4.92
    unzip -q "$out"/wheels/cuda_tile-1.7.0-*.whl -d "$site"
    unzip -q "$out"/wheels/nvidia_cuda_tileiras-13.4.92-*.whl nvidia/cu13/bin/tileiras -d "$site"
    unzip -q "$out"/wheels/nvidia_cuda_nvcc-13.4.92-*.whl nvidia/cu13/bin/ptxas -d "$site"
    unzip -q "$out"/wheels/nvidia_nvvm-13.4.92-*.whl nvidia/cu13/lib/libnvvm.so.4 nvidia/cu13/nvvm/libdevice/libdevice.10.bc -d "$site"
    chmod +x "$site"/nvidia/cu13/bin/*
    pack cutile 55
}

tilelang() {
    local site=$out/tilelang
    rm -rf "$site" && mkdir -p "$site"
    fetch tilelang==0.1.15 apache-tvm-ffi==0.1.12 torch-c-dlpack-ext==0.1.5 z3-solver==4.15.4.0 cloudpickle==3.1.2
    local wheel
    for wheel in tilelang-0.1.15 apache_tvm_ffi-0.1.12 torch_c_dlpack_ext-0.1.5 z3_solver-4.15.4.0 cloudpickle-3.1.2; do
        unzip -q "$out/wheels/$wheel"-*.whl -d "$site"
    done
    # z3's command and headers are not used, and its library is there twice.
    rm -rf "$site"/z3_solver-*.data "$site"/z3/include
    ln -sf libz3.so "$site"/z3/lib/libz3.so.4.15
    pack tilelang 40
}

for which in "${@:-cutile tilelang}"; do
    for one in $which; do
        case $one in
        cutile | tilelang) "$one" ;;
        *) echo "usage: bench/peers_bundle.sh [cutile] [tilelang]" >&2 && exit 2 ;;
        esac
    done
done
