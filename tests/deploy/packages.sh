#!/usr/bin/env bash
# Installs, upgrades, removes and purges the packages on a Debian 12 that has none of them, and looks at what is there
# after each step. It changes the system: run it as root in a container or a chroot.
#   packages.sh LIGHTCONE.deb [MODEL.deb]
set -euo pipefail
data=/var/lib/lightcone

fail() {
  echo "packages.sh: $*" >&2
  exit 1
}

# The command of the unit, by its user: where no systemd runs, this is what it would do.
start() {
  local command
  command=$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/lightcone.service)
  # shellcheck disable=SC2086
  setpriv --reuid lightcone --regid lightcone --clear-groups --no-new-privs $command 2>/tmp/lightcone.log &
  server=$!
  for _ in $(seq 300); do
    if lightcone status >/dev/null 2>&1; then return; fi
    kill -0 "$server" 2>/dev/null || fail "the server ended: $(cat /tmp/lightcone.log)"
    sleep 0.1
  done
  fail "the server does not answer: $(cat /tmp/lightcone.log)"
}

stop() {
  kill "$server"
  wait "$server" || fail "the server ended with status $?"
}

[ -d /run/systemd/system ] && fail "systemd runs here: this is not a system to try packages on"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "$@" >/dev/null
[ "$(stat -c '%U %a' $data)" = "lightcone 700" ] || fail "$data is $(stat -c '%U %a' $data); allowed: lightcone 700"
[ "$(stat -c '%G %a' /etc/lightcone/lightcone.toml)" = "lightcone 640" ] || fail "the settings have other modes"
[ "$(sed -n 's/^User=//p' /usr/lib/systemd/system/lightcone.service)" = lightcone ] || fail "the unit has another user"

start
lightcone collection create things --geometry cosine
lightcone generation register things --dimension 2
lightcone generation activate things 1
printf '%s\n' '{"id": "a", "vector": [1, 0]}' '{"id": "b", "vector": [0, 1]}' >/tmp/things.jsonl
lightcone import things /tmp/things.jsonl
stop

echo "# kept" >>/etc/lightcone/lightcone.toml
apt-get install -y -qq --reinstall -o Dpkg::Options::=--force-confold --no-install-recommends "$@" >/dev/null
grep -q "^# kept" /etc/lightcone/lightcone.toml || fail "an upgrade replaced the settings"
start
[ "$(lightcone count things --json | tr -dc 0-9 | head -c1)" = 2 ] || fail "an upgrade lost items"
stop

apt-get remove -y -qq lightcone >/dev/null
[ -e /usr/bin/lightcone ] && fail "removed, and still there"
[ -e /etc/lightcone/lightcone.toml ] || fail "removing deleted the settings"
[ -e $data/LOCK ] || [ -n "$(ls $data)" ] || fail "removing deleted the data"
apt-get purge -y -qq lightcone >/dev/null
[ -e /etc/lightcone ] && fail "purged, and the settings are there"
[ -n "$(ls $data)" ] || fail "purging deleted the data, and nobody asked for it"

apt-get install -y -qq --no-install-recommends "$1" >/dev/null
LIGHTCONE_PURGE_DATA=yes apt-get purge -y -qq lightcone >/dev/null
[ -e $data ] && fail "LIGHTCONE_PURGE_DATA=yes left the data"
getent passwd lightcone >/dev/null && fail "LIGHTCONE_PURGE_DATA=yes left the user"
echo "packages.sh: installed, upgraded, removed and purged"
