#!/usr/bin/env bash
# Runs every fuzz target of a folder, some beside each other. The script fails when one has a finding, whose input stays
# in the folder.
#   [FUZZ_RUNS=N] tests/fuzz/run.sh FOLDER SECONDS [JOBS]
# A target ends after SECONDS (0: no limit) or after N executions, whichever comes first. The script prints the number
# of executions of each target, and fails when one had fewer than N.
# A target begins from what earlier runs found and from the files beside this script in corpus/TARGET.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
export FUZZ_FOLDER=$folder FUZZ_SECONDS=$2 FUZZ_SEEDS=$here/corpus FUZZ_RUNS=${FUZZ_RUNS:-0}
if [ "$FUZZ_SECONDS" = 0 ] && [ "$FUZZ_RUNS" = 0 ]; then
  echo "SECONDS is 0 and FUZZ_RUNS is 0: one of them must be a limit" >&2
  exit 2
fi
# Folders of targets that end at a finding stay behind: they go with this one. Memory, where it can be had, because
# engines under test sync.
base=/dev/shm
if [ ! -w "$base" ]; then base=${TMPDIR:-/tmp}; fi
TMPDIR=$(mktemp -d "$base/fuzz-XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
run_one() {
  target=$1
  name=$(basename "$target")
  corpus=$FUZZ_FOLDER/corpus/$name
  mkdir -p "$corpus"
  folders=("$corpus")  # new inputs go into the first
  if [ -d "$FUZZ_SEEDS/$name" ]; then folders+=("$FUZZ_SEEDS/$name"); fi
  limits=(-max_total_time="$FUZZ_SECONDS")
  if [ "$FUZZ_RUNS" != 0 ]; then limits+=(-runs="$FUZZ_RUNS"); fi
  if ! "$target" "${limits[@]}" -rss_limit_mb=4096 -timeout=20 -verbosity=0 -print_final_stats=1 \
    -artifact_prefix="$corpus-finding-" "${folders[@]}" >"$corpus.log" 2>&1; then
    echo "$name: FINDING"
    tail -40 "$corpus.log"
    return 1
  fi
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$corpus.log" | tail -1)
  runs=${runs:-0}
  if [ "$runs" -lt "$FUZZ_RUNS" ]; then
    echo "$name: $runs executions in $FUZZ_SECONDS s, FUZZ_RUNS asks for $FUZZ_RUNS"
    return 1
  fi
  echo "$name: no finding in $runs executions, $(find "$corpus" -type f | wc -l) inputs kept"
}
export -f run_one
targets=("$folder"/*_fuzzer)
# shellcheck disable=SC2016  # the inner shell expands it
printf '%s\0' "${targets[@]}" | xargs -0 -n 1 -P "${3:-1}" bash -c 'run_one "$0"'
echo "${#targets[@]} fuzz targets, no finding"
