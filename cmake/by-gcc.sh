#!/usr/bin/env bash
# A compiler launcher of CMake: compiles with GCC what was meant for Clang, without what only Clang knows.
#   cmake/by-gcc.sh CLANG ARGUMENT...
set -euo pipefail
shift
arguments=()
for argument in "$@"; do
  case "$argument" in
    -fsanitize=* | -Wthread-safety) ;;
    *) arguments+=("$argument") ;;
  esac
done
exec g++ "${arguments[@]}"
