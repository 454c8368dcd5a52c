#!/usr/bin/env bash
# Runs every fuzz target of a folder for so many seconds; stops at the first finding, whose input stays in the folder.
#   tests/fuzz/run.sh FOLDER SECONDS
set -euo pipefail
folder=$1
seconds=$2
count=0
for target in "$folder"/*_fuzzer; do
  corpus=$folder/corpus/$(basename "$target")
  mkdir -p "$corpus"
  echo "== $(basename "$target"), $seconds s"
  "$target" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=20 -print_final_stats=0 -verbosity=0 \
    -artifact_prefix="$corpus-finding-" "$corpus"
  count=$((count + 1))
done
echo "$count fuzz targets, no finding"
