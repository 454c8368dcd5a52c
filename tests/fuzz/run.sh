#!/usr/bin/env bash
# Runs every fuzz target of a folder for so many seconds, some beside each other, and ends with an error when one has a
# finding, whose input stays in the folder.
#   tests/fuzz/run.sh FOLDER SECONDS [JOBS]
# A target begins from what earlier runs found and from the files beside this script in corpus/TARGET.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
export FUZZ_FOLDER=$folder FUZZ_SECONDS=$2 FUZZ_SEEDS=$here/corpus
run_one() {
  target=$1
  name=$(basename "$target")
  corpus=$FUZZ_FOLDER/corpus/$name
  mkdir -p "$corpus"
  folders=("$corpus")  # new inputs go into the first
  if [ -d "$FUZZ_SEEDS/$name" ]; then folders+=("$FUZZ_SEEDS/$name"); fi
  if "$target" -max_total_time="$FUZZ_SECONDS" -rss_limit_mb=4096 -timeout=20 -verbosity=0 \
    -artifact_prefix="$corpus-finding-" "${folders[@]}" >"$corpus.log" 2>&1; then
    echo "$name: no finding in $FUZZ_SECONDS s, $(find "$corpus" -type f | wc -l) inputs kept"
  else
    echo "$name: FINDING"
    tail -40 "$corpus.log"
    return 1
  fi
}
export -f run_one
targets=("$folder"/*_fuzzer)
# shellcheck disable=SC2016  # the inner shell expands it
printf '%s\0' "${targets[@]}" | xargs -0 -n 1 -P "${3:-1}" bash -c 'run_one "$0"'
echo "${#targets[@]} fuzz targets, no finding"
