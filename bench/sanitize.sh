#!/bin/bash
# Every instance of every bundled kernel under NVIDIA's compute-sanitizer, on a machine with a GPU; needs no Rust there.
#
# TEST is the binary of tests/gpu (`cargo xtask gpu-bundle` makes target/gpu/test-gpu). Its tests
# `every_instance_of_*` are run once without a tool, which compiles the kernels into the cache, then under each tool, by several
# processes that share the instances. OUT gets one log a tool and the table that is printed, table.txt.
#
# usage: bench/sanitize.sh TEST OUT [--tools LIST] [--limit SECONDS | --limit TOOL=SECONDS].. [--sample K | --sample TOOL=K]..
#                          [--processes N] [--instances TEXT]
#
#   --tools      of memcheck,initcheck,synccheck,racecheck; all of them unless given
#   --limit      how long the processes of a tool may take: 80 unless given, racecheck 60; the pass without a tool, `plain`, 180
#   --sample     one of every K instances alone: 1 unless given, racecheck 4, which is too slow for all of them
#   --processes  that share the instances under a tool: 8 unless given. The pass without a tool has one a core
#   --instances  only those whose name contains the text, such as 'gemm<bf16,bf16> BM=128'
#
# Kernels are kept in TILE_CACHE_DIR, or target/sanitize-cache. Exit status: 0 where memcheck, initcheck and synccheck, as far
# as they were asked for, finished without an error and no result was wrong; 1 where not; 2 where nothing could be run.
# racecheck is reported, and judges nothing.
set -euo pipefail

usage() {
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2
    exit 2
}

stop() {
    echo "sanitize: $*" >&2
    exit 2
}

number() { # number OPTION VALUE
    [[ $2 =~ ^[1-9][0-9]*$ ]] || stop "$1 takes a number from 1 on, not \`$2\`"
}

# each TABLE OPTION VALUE: a number for one tool, `memcheck=60`, or for each of them.
each() {
    local -n table=$1
    local one=${3%%=*} value=${3#*=}
    number "$2" "$value"
    if [ "$one" = "$3" ]; then
        for one in memcheck initcheck synccheck racecheck; do table[$one]=$value; done
    else
        [ -n "${table[$one]:-}" ] || stop "$2: there is no \`$one\`"
        table[$one]=$value
    fi
}

tools=memcheck,initcheck,synccheck,racecheck
processes=8
declare -A limit=([plain]=180 [memcheck]=80 [initcheck]=80 [synccheck]=80 [racecheck]=60)
declare -A sample=([memcheck]=1 [initcheck]=1 [synccheck]=1 [racecheck]=4)
paths=()
while [ $# -gt 0 ]; do
    case $1 in
    --tools | --limit | --sample | --processes | --instances) [ $# -gt 1 ] || usage ;;&
    --tools) tools=$2 && shift 2 ;;
    --limit) each limit "$1" "$2" && shift 2 ;;
    --sample) each sample "$1" "$2" && shift 2 ;;
    --processes) number "$1" "$2" && processes=$2 && shift 2 ;;
    --instances) export TILE_INSTANCES=$2 && shift 2 ;;
    -*) usage ;;
    *) paths+=("$1") && shift ;;
    esac
done
[ ${#paths[@]} = 2 ] || usage
IFS=, read -ra tools <<<"$tools"
for tool in "${tools[@]}"; do
    [ "$tool" != plain ] && [ -n "${limit[$tool]:-}" ] || stop "--tools: there is no \`$tool\`"
done
[ -x "${paths[0]}" ] || stop "${paths[0]} is not a program"
test=$(realpath "${paths[0]}")
mkdir -p "${paths[1]}"
out=$(realpath "${paths[1]}")
PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
command -v compute-sanitizer >/dev/null || stop "compute-sanitizer is not on the PATH; it comes with the CUDA toolkit"

cd "$(dirname "$0")/.."
export TILE_CACHE_DIR=${TILE_CACHE_DIR:-$PWD/target/sanitize-cache} TILE_CACHE_SIZE=${TILE_CACHE_SIZE:-8G}
# The CPU's products, beside which other processes run.
export RAYON_NUM_THREADS=2 RUST_BACKTRACE=0
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
arguments=(instances::every_instance_of --nocapture --test-threads=1)

# pass NAME PROCESSES COMMAND..: the instances, or a sample of them, shared by so many processes, each under the command. Leaves their logs and exit
# statuses in $logs/NAME, and how long it took in $took.
pass() {
    local name=$1 of=$2 start=$SECONDS i
    local every=${sample[$name]:-1}
    shift 2
    mkdir -p "$logs/$name"
    for ((i = 0; i < of; i++)); do
        {
            status=0
            TILE_SHARD=$((i * every))/$((of * every)) timeout --kill-after=10 "${limit[$name]}" "$@" "$test" "${arguments[@]}" \
                >"$logs/$name/$i.log" 2>&1 </dev/null || status=$?
            echo "$status" >"$logs/$name/$i.status"
        } &
    done
    wait
    took=$((SECONDS - start))
}

# merge NAME: the logs of a pass as one file.
merge() {
    local i
    for ((i = 0; i < $(find "$logs/$1" -name '*.log' | wc -l); i++)); do
        echo "##### process $i, exit status $(cat "$logs/$1/$i.status")"
        cat "$logs/$1/$i.log"
    done >"$out/$1.log"
}

# count NAME: of a pass, its processes; those that ran out of time and those that ended in another way than by errors of the
# tool; instances begun; launches; instances with wrong results; errors. A process that ran out of time has no summary: what it
# reported is counted instead.
count() {
    local i status found unfinished=0 failed=0 errors=0
    local merged=$out/$1.log
    for i in "$logs/$1"/*.log; do
        status=$(cat "${i%.log}.status")
        case $status in
        0 | 9) ;;
        124 | 137) unfinished=$((unfinished + 1)) ;;
        *) failed=$((failed + 1)) ;;
        esac
        found=$(awk '
            /ERROR SUMMARY: [0-9]+ error/ && !/not printed/ { sub(/.*ERROR SUMMARY: /, ""); told = 1; sum += $1 }
            # "N hazards displayed (E errors, W warnings)"
            /RACECHECK SUMMARY:/ && /hazard/ { sub(/.*\(/, ""); told = 1; sum += $1 }
            /^========= (Invalid|Uninitialized|Misaligned|Program hit|Host API|Barrier error|Error: Race)/ { seen++ }
            END { print told ? sum + 0 : seen + 0 }' "$i")
        errors=$((errors + found))
    done
    echo "$(find "$logs/$1" -name '*.log' | wc -l) $unfinished $failed $(grep -c 'instance: ' "$merged" || true)" \
        "$(grep -o 'launches made: [0-9]*' "$merged" | awk '{ sum += $3 } END { print sum + 0 }')" \
        "$(grep -c 'WRONG: ' "$merged" || true) $errors"
}

# remarks NAME: what a tool said beside its errors, such as kernels that it could not track, each kind with how often it was said
# and of how many instances. Numbers do not make a kind. The tool's output is not ordered with the test's, so that the
# instances are nearly, not exactly, those meant.
remarks() {
    awk '
        /##### process/ { current = "" }
        /instance: / { sub(/.*instance: /, ""); current = $0; next }
        !/^========= [^ ]/ || /COMPUTE-SANITIZER|SUMMARY/ { next }
        /^========= (Invalid|Uninitialized|Misaligned|Program hit|Host API|Barrier error|Error: Race)/ { next }
        {
            sub(/^========= /, "")
            gsub(/0x[0-9a-fA-F]+|[0-9]+/, "#")
            times[$0]++
            if (!(($0, current) in met)) { met[$0, current] = 1; instances[$0]++ }
        }
        END { for (kind in times) printf "%8d times, of %d instances: %s\n", times[kind], instances[kind], kind }
    ' "$out/$1.log" | sort -rn | head -n 12
}

# show LINE: on the terminal and in the table.
show() {
    echo "$1" | tee -a "$out/table.txt"
}

columns='%-10s %9s %10s %6s %11s %8s %5s %6s %7s'

# row NAME: the line of a pass in the table, and what is to be known beside it.
row() {
    local line unfinished failed instances launches wrong errors
    read -r of unfinished failed instances launches wrong errors <<<"$(count "$1")"
    # shellcheck disable=SC2059
    printf -v line "$columns" "$1" "$of" "$unfinished" "$failed" "$instances/$total" "$launches" "$wrong" "$errors" "$took"
    show "$line"
    [ "$1" = racecheck ] || [ "$unfinished$failed$wrong$errors" = 0000 ] || verdict=1
}

verdict=0
rm -f "$out/table.txt"
cores=$(nproc)
pass plain "$((cores > processes ? cores : processes))"
merge plain
if grep -q 'SKIPPED, no GPU' "$out/plain.log"; then
    stop "$(grep -m 1 -o 'SKIPPED, no GPU.*' "$out/plain.log")"
fi
read -r _ _ _ total _ <<<"$(count plain)"
[ "$total" -gt 0 ] || stop "no instance was run; see $out/plain.log"

# shellcheck disable=SC2059
printf -v head "$columns" tool processes unfinished failed instances launches wrong errors seconds
show "$head"
row plain
for tool in "${tools[@]}"; do
    pass "$tool" "$processes" compute-sanitizer --tool "$tool" --error-exitcode 9 --target-processes all
    merge "$tool"
    row "$tool"
done
for tool in "${tools[@]}"; do
    said=$(remarks "$tool")
    [ -z "$said" ] || show "$tool also said:
$said"
done
skipped=$(grep -ho 'SKIPPED, .*' "$out/plain.log" | sort | uniq -c || true)
[ -z "$skipped" ] || show "$skipped"
show "logs in $out"
exit "$verdict"
