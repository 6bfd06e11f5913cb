#!/usr/bin/env bash
# Makes FOLDER/libcuda.so.1, which counts the calls of each function of the CUDA driver and passes them on to the driver that
# TILE_REAL_CUDA names. With FOLDER first in LD_LIBRARY_PATH the example `gpu` says what a call of ours asks of the driver.
#
#     ./count.sh FOLDER CUDA_HOME
set -euo pipefail
folder=${1:?usage: count.sh FOLDER CUDA_HOME} home=${2:?usage: count.sh FOLDER CUDA_HOME}
mkdir -p "$folder"
# Every function that the header declares, under each of the names that a library may ask for.
grep -ohE '\bcu[A-Z][A-Za-z0-9]+(_v[0-9]+)?(_ptsz|_ptds)?\b' "$home/include/cuda.h" "$home/libcuda.c" | sort -u > "$folder/names"
echo cuGetExportTable >> "$folder/names"
sort -u -o "$folder/names" "$folder/names"
{
    cat <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
static int absent(void) { return 500; } // CUDA_ERROR_NOT_FOUND
static const char *names[] = {
END
    sed 's/.*/    "&",/' "$folder/names"
    cat <<'END'
    0
};
enum { COUNT = sizeof names / sizeof *names - 1 };
__attribute__((visibility("hidden"))) uint64_t driver_counts[COUNT];
__attribute__((visibility("hidden"))) void *driver_functions[COUNT];
const char *driver_calls_name(uint32_t i) { return i < COUNT ? names[i] : 0; }
uint64_t driver_calls_count(uint32_t i) { return i < COUNT ? driver_counts[i] : 0; }
__attribute__((constructor)) static void start(void) {
    const char *path = getenv("TILE_REAL_CUDA");
    void *driver = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : 0;
    if (!driver) fprintf(stderr, "TILE_REAL_CUDA: %s\n", path ? dlerror() : "not set");
    for (int i = 0; i < COUNT; i++) {
        void *function = driver ? dlsym(driver, names[i]) : 0;
        driver_functions[i] = function ? function : (void *)absent;
    }
}
END
    awk '{ printf "__asm__(\".globl %s\\n.type %s,@function\\n%s: lock incq driver_counts+%d(%%rip)\\n jmp *driver_functions+%d(%%rip)\\n\");\n",
        $1, $1, $1, 8 * (NR - 1), 8 * (NR - 1) }' "$folder/names"
} > "$folder/count.c"
cc -O1 -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$folder/libcuda.so.1" "$folder/count.c" -ldl
echo "$(wc -l < "$folder/names") functions"
