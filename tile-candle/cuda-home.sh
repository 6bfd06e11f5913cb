#!/usr/bin/env bash
# Makes a folder that serves as CUDA_HOME where no CUDA toolkit is installed, of NVIDIA's wheels: what candle's feature `cuda`
# needs to be built. 1.2 GB. Needs python3 with venv, a C compiler and the network.
#
#     ./cuda-home.sh FOLDER && source FOLDER/env && cargo build --release --features cuda --example gpu
#
# Its libcuda.so is for the linker alone: it has the names of the driver's functions and no driver.
set -euo pipefail
cd "$(dirname "$0")"
home=$(realpath -m "${1:?usage: cuda-home.sh FOLDER}")
version=13.0

mkdir -p "$home/lib/stubs"
[ -x "$home/venv/bin/pip" ] || python3 -m venv "$home/venv"
wheels=()
for name in cuda-nvcc cuda-runtime cuda-cccl cuda-crt nvvm cublas cuda-nvrtc; do wheels+=("nvidia-$name==$version.*"); done
"$home/venv/bin/pip" install --quiet "${wheels[@]}" nvidia-curand

# The wheels' folders, and a name without a version for each library, which linkers ask for.
wheel=$(echo "$home"/venv/lib/python3*/site-packages/nvidia/cu13)
for folder in bin include nvvm; do ln -sfn "$wheel/$folder" "$home/$folder"; done
ln -sfn lib "$home/lib64"
for library in "$wheel"/lib/lib*; do
    name=$(basename "$library")
    ln -sf "$library" "$home/lib/$name"
    case $name in *.so.*) ln -sf "$library" "$home/lib/${name%%.so.*}.so" ;; esac
done

# A driver without functions.
cudarc=$(cargo metadata --format-version 1 --all-features | python3 -c '
import json, os, sys
for package in json.load(sys.stdin)["packages"]:
    if package["name"] == "cudarc":
        print(os.path.dirname(package["manifest_path"]))')
grep -oE 'pub unsafe fn cu[A-Za-z0-9_]+' "$cudarc/src/driver/sys/mod.rs" | awk "{ print \$4 }" | sort -u |
    awk '{ print "void " $1 "(void) {}" }' > "$home/libcuda.c"
cc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$home/lib/stubs/libcuda.so" "$home/libcuda.c"
ln -sf libcuda.so "$home/lib/stubs/libcuda.so.1"

cat > "$home/env" <<END
export CUDA_HOME='$home' CUDA_PATH='$home'
export PATH='$home/bin:'"\$PATH"
export LIBRARY_PATH='$home/lib:$home/lib/stubs'"\${LIBRARY_PATH:+:\$LIBRARY_PATH}"
export LD_LIBRARY_PATH='$home/lib:$home/lib/stubs'"\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
export CUDA_COMPUTE_CAP="\${CUDA_COMPUTE_CAP:-90}"
END
echo "source $home/env"
