# Unpacks the peers that bench/peers_bundle.sh packed, and points Python at them. To be sourced from the repository's
# root on the GPU machine: `. bench/peers_env.sh`. What was not carried along is skipped.
if [ -f target/peers/cutile.tar.xz ]; then
    mkdir -p /tmp/cutile_site && tar -xJf target/peers/cutile.tar.xz -C /tmp/cutile_site
    export CUTILE_SITE=/tmp/cutile_site
    # With either set, cuTile's compiler loads that toolkit's libnvvm, which is too old for it.
    unset CUDA_HOME CUDA_PATH
fi
if [ -f target/peers/tilelang.tar.xz ]; then
    mkdir -p /tmp/tilelang_site && tar -xJf target/peers/tilelang.tar.xz -C /tmp/tilelang_site
    export PYTHONPATH=/tmp/tilelang_site${PYTHONPATH:+:$PYTHONPATH}
    export LD_LIBRARY_PATH=/tmp/tilelang_site/z3/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
