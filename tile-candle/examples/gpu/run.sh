#!/usr/bin/env bash
# run.sh [PART..]
#
# Runs the example `gpu`, built elsewhere, on a machine with a GPU and no Rust: beside this file lie `gpu.xz`, and `count` made by
# count.sh. The CUDA libraries are those of Python's wheels. Counts calls of the driver first, then times calls without counting.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d) && trap 'rm -rf "$place"' EXIT
python3 -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), open(sys.argv[2], "wb"))' "$here/gpu.xz" "$place/gpu"
chmod +x "$place/gpu"

# The folders of the CUDA libraries that the program is linked with.
folders=$(python3 - <<'END'
import glob, site, sys
paths = site.getsitepackages() + [site.getusersitepackages()] + sys.path
roots = [p for p in dict.fromkeys(paths) if p.endswith(("site-packages", "dist-packages"))]
found = [f for root in roots for f in glob.glob(root + "/nvidia/*/lib")]
print(":".join(dict.fromkeys(found)))
END
)
driver=$(ldconfig -p | awk '/libcuda\.so\.1 / { print $NF; exit }')
for path in /usr/local/nvidia/lib64/libcuda.so.1 /usr/lib/x86_64-linux-gnu/libcuda.so.1; do
    [ -z "$driver" ] && [ -e "$path" ] && driver=$path
done
echo "driver $driver"
export LD_LIBRARY_PATH="$folders:$(dirname "$driver")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
ldd "$place/gpu" | grep -E 'libcu|not found'
status=0
TILE_REAL_CUDA=$driver LD_LIBRARY_PATH="$here/count:$LD_LIBRARY_PATH" "$place/gpu" calls || status=1
"$place/gpu" "$@" || status=1
exit $status
