#!/usr/bin/env bash
# Carries snapshots of a server that it starts into a bucket of npm's s3rver and back. s3rver compares no signature:
# tests/snapshot/s3_test.cc does. Needs node 20, npm and its registry.
#   s3.sh [BUILD]      BUILD: folder of `make build`
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
work=$(mktemp -d)
server=
store=
clean() {
  for process in $server $store; do
    if kill -0 "$process" 2>/dev/null; then kill -9 "$process"; fi
  done
  wait
  rm -rf "$work"
}
trap clean EXIT

# await FILE WORD PROCESS LOG: until the file has the word
await() {
  for _ in $(seq 300); do
    if grep -q "$2" "$1"; then return; fi
    kill -0 "$3" 2>/dev/null || break
    sleep 0.1
  done
  cat "$4" >&2
  exit 1
}

cd "$work"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit --ignore-scripts s3rver@3.7.1
node node_modules/s3rver/bin/s3rver.js --directory "$work/store" --address 127.0.0.1 --port 0 \
  --configure-bucket backups >"$work/store.log" 2>&1 &
store=$!
await "$work/store.log" 'listening on' "$store" "$work/store.log"
AWS_ENDPOINT_URL=http://$(sed -n 's/^S3rver listening on //p' "$work/store.log")
export AWS_ENDPOINT_URL AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID=S3RVER AWS_SECRET_ACCESS_KEY=S3RVER
unset AWS_SESSION_TOKEN AWS_CA_BUNDLE

"$build/bin/lightcone" serve --data "$work/data" --listen 127.0.0.1:0 --http-listen 127.0.0.1:0 \
  >"$work/ready" 2>"$work/log" &
server=$!
await "$work/ready" http= "$server" "$work/log"
LIGHTCONE_SERVER=$(sed -n 's/.* grpc=\([^ ]*\).*/\1/p' "$work/ready")
export LIGHTCONE_SERVER

lightcone() { "$build/bin/lightcone" "$@"; }
place=s3://backups/lightcone/main
lightcone collection create shop --geometry cosine
lightcone generation register shop --dimension 4 --activate
lightcone upsert shop 1 --vector 1,0,0,0
lightcone snapshot create monday
lightcone snapshot copy data/snapshots/monday "$place"
lightcone upsert shop 2 --vector 0,1,0,0
lightcone snapshot create tuesday
lightcone snapshot copy data/snapshots/tuesday "$place" --json | tee second.json
node -e 'if (JSON.parse(require("fs").readFileSync("second.json")).shared_files === 0) throw "nothing was shared"'
lightcone snapshot verify "$place/monday"
lightcone snapshot prune "$place" --keep 1 --file-age-hours-min 0
status=0
lightcone restore "$place/monday" --data old || status=$?
if [ "$status" -ne 3 ]; then echo "restore of a pruned snapshot: exit status $status; allowed: 3" >&2; exit 1; fi
lightcone snapshot list "$place"
lightcone restore "$place/tuesday" --data restored
sums() { (cd "$1" && find . -type f -exec sha256sum {} + | sort -k 2); }
diff <(sums data/snapshots/tuesday/data) <(sums restored)
