#!/usr/bin/env bash
# Runs stock Qdrant clients of npm against a server that it starts: each of their verbs that we have, and vector stores
# on top of them. Needs node 20, npm and its registry.
#   run.sh [BUILD]      BUILD: folder of `make build`
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
work=$(mktemp -d)
server=
clean() {
  if [ -n "$server" ]; then kill -9 "$server"; fi
  rm -rf "$work"
}
trap clean EXIT

cp "$here"/*.mjs "$work"
cd "$work"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit --ignore-scripts \
  @qdrant/js-client-rest @langchain/core @langchain/qdrant @llamaindex/core @llamaindex/env @llamaindex/qdrant \
  @mastra/qdrant
"$build/bin/lightcone" serve --data "$work/data" --listen 127.0.0.1:0 --http-listen 127.0.0.1:0 \
  >"$work/ready" 2>"$work/log" &
server=$!
for _ in $(seq 300); do
  if grep -q http= "$work/ready"; then break; fi
  kill -0 "$server" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
  sleep 0.1
done
LIGHTCONE_URL=http://$(sed -n 's/.* http=\([^ ]*\).*/\1/p' "$work/ready")
export LIGHTCONE_URL
node --test ./*.mjs

# A server that answered well ends well, too.
stopped=$server
server=
kill "$stopped"
wait "$stopped" || { echo "the server ended with status $?: $(cat "$work/log")" >&2; exit 1; }
