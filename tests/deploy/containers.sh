#!/usr/bin/env bash
# Builds the image with podman, starts it by the compose file and by the Kubernetes manifest, and searches through each.
# Run it as root on a Debian 12 with podman, podman-compose, debootstrap, curl, openssl and python3-yaml. No image
# registry is needed: the base is made by debootstrap, Prometheus comes from Debian. Grafana is in no package, so its
# service is started only where GRAFANA_IMAGE names an image. Images and containers lie in a store of their own, which
# is removed at the end, or kept in LIGHTCONE_CONTAINERS_STORE: a folder that is missing, empty, or of an earlier run.
#   containers.sh BUILD             BUILD/bin/lightcone is the client, and the whole Dockerfile is built
#   containers.sh BUILD --programs  the image holds the programs of BUILD: only its last stage is built
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
programs=${2:-}
lightcone=$build/bin/lightcone
# shellcheck source-path=SCRIPTDIR source=fresh_debian.sh
. "$source/tests/deploy/fresh_debian.sh"

fail() {
  echo "containers.sh: $*" >&2
  exit 1
}

# Podman's runtime refuses control groups of both versions. In a mount namespace of its own it sees the older alone.
one_version() {
  local groups place
  groups=$work/groups
  mkdir "$groups"
  mount -t tmpfs none "$groups"
  for place in /sys/fs/cgroup/*; do
    [ "$place" = /sys/fs/cgroup/unified ] && continue
    mkdir "$groups/${place##*/}"
    mount --bind "$place" "$groups/${place##*/}"
  done
  mount --rbind "$groups" /sys/fs/cgroup
}
if [ -d /sys/fs/cgroup/unified ] && [ -z "${LIGHTCONE_OWN_MOUNTS:-}" ]; then
  LIGHTCONE_OWN_MOUNTS=yes exec unshare -m "$0" "$@"
fi
work=$(mktemp -d /var/tmp/lightcone-containers.XXXXXX)
store=${LIGHTCONE_CONTAINERS_STORE:-$work/store}
own="lightcone-containers-store" # a file in each store that this script made
if [ -n "$(ls -A "$store" 2>/dev/null)" ] && [ ! -e "$store/$own" ]; then
  rmdir "$work"
  fail "LIGHTCONE_CONTAINERS_STORE is '$store'; allowed: a folder that is missing, empty, or made by this script"
fi
mkdir -p "$store"
touch "$store/$own"
if [ -n "${LIGHTCONE_OWN_MOUNTS:-}" ]; then one_version; fi

cat >"$work/storage.conf" <<CONF
[storage]
driver = "overlay"
runroot = "$work/run"
graphroot = "$store"
CONF
cat >"$work/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=$(ulimit -n):$(ulimit -Hn)", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
network_config_dir = "$work/networks"
CONF
export CONTAINERS_CONF=$work/containers.conf CONTAINERS_STORAGE_CONF=$work/storage.conf
# Limits within those of this machine, which root may not raise everywhere.
printf '%s\n' "services: {lightcone: {ulimits: {nofile: $(ulimit -Hn), nproc: 4096}}}" >"$work/limits.yml"
compose=(podman-compose -p lightcone-check -f "$source/deploy/compose/compose.yml" -f "$work/limits.yml")

pod_name="lightcone-check-lightcone"
clean() {
  "${compose[@]}" down -v >/dev/null 2>&1 || true
  if [ -e "$work/pod.yml" ]; then podman kube down "$work/pod.yml" >/dev/null 2>&1 || true; fi
  podman pod rm -f --ignore "$pod_name" pod_lightcone-check >/dev/null 2>&1 || true
  podman volume ls -q --filter name=^lightcone-check | xargs -r podman volume rm -f >/dev/null 2>&1 || true
  if [ "$store" = "$work/store" ]; then podman rmi -fa >/dev/null 2>&1 || true; fi
  if [ -e "$work/groups" ]; then umount -R /sys/fs/cgroup "$work/groups" 2>/dev/null || true; fi
  rm -rf --one-file-system "$work" || true
}
trap clean EXIT

image() {
  podman build --isolation chroot --format docker --pull=never --network host -q "$@" >"$work/image"
}

# The bases that the Dockerfile names.
if ! podman image exists docker.io/library/debian:12; then
  fresh_debian "$work/root" "$work/log" || fail "debootstrap: $(tail -3 "$work/log")"
  tar -C "$work/root" -c . | podman import -q - docker.io/library/debian:12 >/dev/null
  rm -rf --one-file-system "$work/root"
fi
podman tag docker.io/library/debian:12 docker.io/library/debian:12-slim

if [ "$programs" = --programs ]; then
  mkdir -p "$work/stage/src/build/bin"
  cp "$build"/bin/lightcone{,-model,-research} "$work/stage/src/build/bin/"
  sed '1,/^RUN make build/d' "$source/Dockerfile" >"$work/Dockerfile"
  image --build-context build="$work/stage" -t localhost/lightcone:check -f "$work/Dockerfile" "$source"
  rm -r "$work/stage"
else
  image -t localhost/lightcone:check -f "$source/Dockerfile" "$source"
fi
printf '%s\n' 'FROM debian:12-slim' \
  'RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends prometheus >/dev/null' \
  'ENTRYPOINT ["/usr/bin/prometheus"]' >"$work/Prometheus"
image -t localhost/prometheus:check -f "$work/Prometheus" "$work"
version=$(podman run --rm localhost/lightcone:check lightcone version)
echo "built $version"

# free_port: a port of the loopback interface that nobody listens on.
free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# wait_for SECONDS COMMAND...: until the command succeeds.
wait_for() {
  local seconds=$1
  shift
  for _ in $(seq $((seconds * 5))); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.2
  done
  fail "not within $seconds s: $*"
}

# A collection of two items, and the search that must find the right one first.
things() {
  printf '%s\n' '{"id": "a", "vector": [1, 0]}' '{"id": "b", "vector": [0, 1]}' >"$work/things.jsonl"
  "$@" collection create things --geometry cosine
  "$@" generation register things --dimension 2
  "$@" generation activate things 1
  "$@" import things "$work/things.jsonl"
}
search() {
  local found
  found=$("$@" search things --vector 0.1,0.9 --k 1 --json) || fail "a search failed"
  grep -q '"b"' <<<"$found" || fail "a search found: $found"
}

# Compose.
LIGHTCONE_PORT=$(free_port)
LIGHTCONE_HTTP_PORT=$(free_port)
PROMETHEUS_PORT=$(free_port)
export LIGHTCONE_PORT LIGHTCONE_HTTP_PORT PROMETHEUS_PORT
export LIGHTCONE_IMAGE=localhost/lightcone:check PROMETHEUS_IMAGE=localhost/prometheus:check GRAFANA_PASSWORD=unused
"${compose[@]}" up -d lightcone prometheus ${GRAFANA_IMAGE:+grafana} >"$work/log" 2>&1 || fail "$(cat "$work/log")"
wait_for 60 curl -fsS "http://127.0.0.1:$LIGHTCONE_HTTP_PORT/readyz"
client=("$lightcone" --server "127.0.0.1:$LIGHTCONE_PORT")
things "${client[@]}"
search "${client[@]}"
scraped() { # Prometheus has the metrics of the server, and has read the rules
  curl -fsS "http://127.0.0.1:$PROMETHEUS_PORT/api/v1/query?query=up%7Bjob%3D%22lightcone%22%7D" | grep -q '"1"\]' &&
    curl -fsS "http://127.0.0.1:$PROMETHEUS_PORT/api/v1/rules" | grep -q '"name":"Lightcone'
}
wait_for 60 scraped
"${compose[@]}" stop lightcone >/dev/null 2>&1
code=$(podman inspect --format '{{.State.ExitCode}}' lightcone-check_lightcone_1)
[ "$code" = 0 ] || fail "the server of compose ended with status $code"
"${compose[@]}" start lightcone >/dev/null 2>&1
wait_for 60 curl -fsS "http://127.0.0.1:$LIGHTCONE_HTTP_PORT/readyz"
search "${client[@]}"
echo "compose: a search, Prometheus has the metrics, and the items are there after a restart"

# The manifest, with keys and a certificate as the secret has them.
mkdir "$work/trust"
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=lightcone -addext subjectAltName=IP:127.0.0.1 \
  -keyout "$work/trust/tls.key" -out "$work/trust/tls.crt" 2>/dev/null
"$lightcone" key create app --scope admin --scope read --scope write --scope operate >"$work/key.out"
grep -m1 '^{"name"' "$work/key.out" >"$work/trust/keys"
grep -m1 '^lck_' "$work/key.out" >"$work/key"
chmod 600 "$work/key"
grpc_port=$(free_port)
http_port=$(free_port)
python3 "$source/tests/deploy/one_pod.py" "$source/deploy/kubernetes/lightcone.yml" localhost/lightcone:check \
  lightcone-check- "$grpc_port" "$http_port" lightcone-trust="$work/trust" >"$work/pod.yml"
podman kube play "$work/pod.yml" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
pod="$pod_name-lightcone"
probed() { # every probe of the manifest, with its own scheme, port and path
  local scheme port path count=0
  while read -r scheme port path; do
    port=${port/#grpc/$grpc_port} port=${port/#http/$http_port}
    wait_for 60 curl -fsS --cacert "$work/trust/tls.crt" "$scheme://127.0.0.1:$port$path"
    count=$((count + 1))
  done <"$work/probes"
  [ "$count" = 3 ] || fail "the manifest has $count probes; allowed: 3"
}
python3 "$source/tests/deploy/one_pod.py" --probes "$source/deploy/kubernetes/lightcone.yml" >"$work/probes"
probed
client=("$lightcone" --server "127.0.0.1:$grpc_port" --ca "$work/trust/tls.crt" --api-key-file "$work/key")
things "${client[@]}"
search "${client[@]}"
refused=$("$lightcone" --server "127.0.0.1:$grpc_port" --ca "$work/trust/tls.crt" count things 2>&1) &&
  fail "a call without a key was answered"
grep -q "has no key" <<<"$refused" || fail "a call without a key: $refused"
read_only=$(podman inspect --format '{{.HostConfig.ReadonlyRootfs}}' "$pod")
[ "$read_only" = true ] || fail "the root file system of the pod can be written to"
user=$(podman exec "$pod" id -u)
[ "$user" = 10001 ] || fail "the pod runs as $user; allowed: 10001"
podman stop -t 60 "$pod" >/dev/null
code=$(podman inspect --format '{{.State.ExitCode}}' "$pod")
[ "$code" = 0 ] || fail "the server of the pod ended with status $code"
podman start "$pod" >/dev/null
probed
search "${client[@]}"
echo "kube play: a search with key and certificate, and the items are there after a restart"
