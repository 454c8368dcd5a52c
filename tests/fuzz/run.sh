#!/usr/bin/env bash
# Runs every fuzz target of a folder for so many seconds; stops at the first finding, whose input stays in the folder.
#   tests/fuzz/run.sh FOLDER SECONDS
# A target begins from what earlier runs found and from the files beside this script in corpus/TARGET.
set -euo pipefail
seeds=$(cd "$(dirname "$0")" && pwd)/corpus
folder=$1
seconds=$2
count=0
for target in "$folder"/*_fuzzer; do
  corpus=$folder/corpus/$(basename "$target")
  mkdir -p "$corpus"
  folders=("$corpus")  # new inputs go into the first
  if [ -d "$seeds/$(basename "$target")" ]; then folders+=("$seeds/$(basename "$target")"); fi
  echo "== $(basename "$target"), $seconds s"
  "$target" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=20 -print_final_stats=0 -verbosity=0 \
    -artifact_prefix="$corpus-finding-" "${folders[@]}"
  count=$((count + 1))
done
echo "$count fuzz targets, no finding"
