#!/usr/bin/env bash
# Checks the Kubernetes manifests and the objects of the Helm chart by the schemas of Kubernetes and of the Prometheus
# operator. The chart is rendered by Go's templates and Sprig, which Helm uses too. Needs Go, Sprig, python3-yaml, node
# 20, npm and its registry.
#   schemas.sh BUILD      BUILD: folder of `make build`
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Debian's packages of Go hold sources, which the compiler finds by GOPATH.
GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=$work/cache go build -o "$work/render" "$here/render_chart.go"
mkdir "$work/objects"
PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$here/chart.py" "$work/render" "$build/bin/lightcone" "$here/../.." \
  "$work/objects"
cp "$here/schemas.mjs" "$work"
cd "$work"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit --ignore-scripts \
  kubernetes-models@5.1.0 @kubernetes-models/prometheus-operator@6.0.0 typescript@5
node schemas.mjs objects/*.json
npx --no-install tsc --noEmit --strict --skipLibCheck --module nodenext --moduleResolution nodenext objects.ts
echo "all objects fit the schemas"
