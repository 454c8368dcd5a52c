#!/usr/bin/env bash
# Installs, upgrades, removes and purges the packages, and looks at what is there after each step. It changes the
# system: run it as root on a Debian 12 that has none of them and no systemd running, as fresh_packages.sh does. Ports
# 7700 and 7701 of the loopback interface must be free.
#   packages.sh [--from OLDER.deb]... LIGHTCONE.deb [MODEL.deb]
# OLDER.deb is the package of an earlier release, and one of the model's programs may follow. Without --from the
# older packages are made of the given ones: a lower version, and settings that differ from those of the upgrade.
set -euo pipefail
data=/var/lib/lightcone
logs=/var/log/lightcone
settings=/etc/lightcone/lightcone.toml
unit=/usr/lib/systemd/system/lightcone.service
work=$(mktemp -d)
server=
end() {
  if [ -n "$server" ]; then kill -9 "$server" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap end EXIT

fail() {
  echo "packages.sh: $*" >&2
  exit 1
}

older=()
while [ "${1:-}" = --from ]; do
  older+=("$(realpath "$2")")
  shift 2
done
[ $# -ge 1 ] || fail "no package is named: packages.sh [--from OLDER.deb]... LIGHTCONE.deb [MODEL.deb]"
newer=()
for package in "$@"; do newer+=("$(realpath "$package")"); done
[ -d /run/systemd/system ] && fail "systemd runs here: this is not a system to try packages on"
for port in 7700 7701; do
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then fail "somebody listens on port $port"; fi
done

version_of() { dpkg-deb -f "$1" Version; }
installed_version() { dpkg-query -W -f '${Version}' lightcone; }

# repack PACKAGE VERSION: adds to `older` the same package as an earlier VERSION of it. Its settings have a line more,
# so that an upgrade meets settings that both the package and the operator changed: there dpkg may replace them.
repack() {
  local package=$1 version=$2 folder
  folder=$(mktemp -d "$work/repack.XXXXXX")
  chmod 755 "$folder"
  dpkg-deb -R "$package" "$folder"
  sed -i -e "s/^Version: .*/Version: $version/" -e "s/lightcone (= [^)]*)/lightcone (= $version)/" \
    "$folder/DEBIAN/control"
  if [ -e "$folder$settings" ]; then echo "# of version $version" >>"$folder$settings"; fi
  (cd "$folder" && find . -type f -not -path './DEBIAN/*' -printf '%P\0' | xargs -0 md5sum >DEBIAN/md5sums)
  dpkg-deb --root-owner-group -Zgzip -b "$folder" "$folder.deb" >/dev/null
  older+=("$folder.deb")
}
if [ ${#older[@]} -eq 0 ]; then
  for package in "${newer[@]}"; do repack "$package" "$(version_of "$package")~older"; done
fi
from=$(version_of "${older[0]}")
to=$(version_of "${newer[0]}")
dpkg --compare-versions "$from" lt "$to" || fail "the older package has version $from; allowed: below $to"

# Nobody is asked anything, as in an unattended upgrade, and the settings stay as they are. Scripts of packages look for
# programs in /usr/local/bin first.
export DEBIAN_FRONTEND=noninteractive
apt() {
  apt-get "$1" -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold \
    -o DPkg::Path=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${@:2}" >"$work/apt" 2>&1 ||
    fail "apt-get $*: $(cat "$work/apt")"
}

# The command of the unit, by its user: where no systemd runs, this is what it would do.
start() {
  local command
  command=$(sed -n 's/^ExecStart=//p' $unit)
  # shellcheck disable=SC2086
  setpriv --reuid lightcone --regid lightcone --clear-groups --no-new-privs $command >"$work/log" 2>&1 &
  server=$!
  for _ in $(seq 300); do
    if lightcone status >/dev/null 2>&1; then return; fi
    kill -0 "$server" 2>/dev/null || fail "the server ended: $(cat "$work/log")"
    sleep 0.1
  done
  fail "the server does not answer: $(cat "$work/log")"
}

stop() {
  local stopped=$server
  server=
  kill "$stopped"
  wait "$stopped" || fail "the server ended with status $?: $(cat "$work/log")"
}

# What must outlive an upgrade, as the command line shows it: items with vectors and payloads, and generations.
shown() {
  lightcone generation list things --json
  lightcone export things "$work/shown.jsonl" >/dev/null
  cat "$work/shown.jsonl"
  lightcone search things --vector 0.1,0.9 --k 2 --payload --json
}

# quiet WHO COMMAND...: the command succeeds and complains of nothing.
quiet() {
  "${@:2}" >/dev/null 2>"$work/complaints" || fail "$1 ended with status $?: $(cat "$work/complaints")"
  [ ! -s "$work/complaints" ] || fail "$1: $(cat "$work/complaints")"
}

# The files that a person reads, completes with and copies, each by the program that takes it.
files() {
  local man completed example
  man=$(man -w lightcone) || fail "man finds no page of lightcone"
  lexgrog "$man" >/dev/null || fail "apropos cannot index $man"
  mandoc -Tlint -W error "$man" || fail "mandoc finds mistakes in $man"
  quiet "groff" man --warnings lightcone
  bash -n /usr/share/bash-completion/completions/lightcone || fail "bash cannot read its completions"
  zsh -n /usr/share/zsh/vendor-completions/_lightcone || fail "zsh cannot read its completions"
  fish --no-execute /usr/share/fish/vendor_completions.d/lightcone.fish || fail "fish cannot read its completions"
  # shellcheck disable=SC2016
  completed=$(bash -c '. /usr/share/bash-completion/completions/lightcone
    COMP_WORDS=(lightcone generation reg) COMP_CWORD=2; _lightcone; echo "${COMPREPLY[*]}"')
  [ "$completed" = register ] || fail "'lightcone generation reg' completes to '$completed'; allowed: register"
  for example in prometheus/prometheus.yml prometheus/rules.yml grafana/serving.json grafana/rollout.json; do
    [ -s "/usr/share/doc/lightcone/examples/$example" ] || fail "the example $example is missing"
  done
  [ -s /usr/share/doc/lightcone/copyright ] || fail "the copyright is missing"
  quiet "systemd-analyze" systemd-analyze verify $unit
}

# With systemd, what the package's scripts tell it. It does not run here: a program in its place writes down what it is
# asked, and leaves to the real one what concerns files alone.
services() {
  local asked=$work/asked
  cat >/usr/local/bin/systemctl <<STAND_IN
#!/bin/sh
echo "\$*" >>$asked
case "\$1" in
  enable | disable | is-enabled) exec /usr/bin/systemctl --root=/ "\$@" ;;
esac
STAND_IN
  chmod 755 /usr/local/bin/systemctl
  mkdir -p /run/systemd/system
  expect() { # expect WHAT STEP: the line WHAT was asked in this step
    grep -qx "$1" "$asked" || fail "$2: systemd was not asked to $1, but: $(tr '\n' ';' <"$asked")"
  }
  enabled() { systemctl is-enabled --quiet lightcone.service; }
  apt install "${older[0]}"
  expect "start lightcone.service" "a first installation"
  enabled || fail "a first installation does not start the server with the machine"
  : >"$asked"
  apt install "${newer[0]}"
  expect daemon-reload "an upgrade"
  expect "restart lightcone.service" "an upgrade"
  : >"$asked"
  apt remove lightcone
  expect "stop lightcone.service" "a removal"
  : >"$asked"
  apt install "${newer[0]}"
  enabled || fail "an installation after a removal does not start the server with the machine"
  expect "restart lightcone.service" "an installation after a removal"
  systemctl disable --quiet lightcone.service
  : >"$asked"
  apt install --reinstall "${newer[0]}"
  enabled && fail "an upgrade enabled a server that its operator had disabled"
  grep -q "start lightcone.service" "$asked" && fail "an upgrade started a server that its operator had disabled"
  systemctl enable --quiet lightcone.service
  apt purge lightcone
  [ -z "$(find /etc/systemd -name 'lightcone*')" ] || fail "purged, and a link to the unit is left in /etc/systemd"
  rm /usr/local/bin/systemctl
  rmdir /run/systemd/system
}

apt-get update -qq
apt install man-db mandoc zsh fish systemd

# The older version, with settings of the operator and with data.
apt install "${older[@]}"
[ "$(installed_version)" = "$from" ] || fail "installed is version $(installed_version); allowed: $from"
[ "$(stat -c '%U %a' $data)" = "lightcone 700" ] || fail "$data is $(stat -c '%U %a' $data); allowed: lightcone 700"
[ "$(stat -c '%U %a' $logs)" = "lightcone 700" ] || fail "$logs is $(stat -c '%U %a' $logs); allowed: lightcone 700"
[ "$(stat -c '%G %a' $settings)" = "lightcone 640" ] || fail "$settings is $(stat -c '%G %a' $settings)"
[ "$(sed -n 's/^User=//p' $unit)" = lightcone ] || fail "the unit has another user"
printf '%s\n' '[audit]' "file = \"$logs/audit.jsonl\"" >>$settings
cp $settings "$work/settings"
start
printf '%s\n' '{"id": "a", "vector": [1, 0], "payload": {"colour": "red"}}' \
  '{"id": "b", "vector": [0, 1], "payload": {"colour": "blue"}}' >"$work/things.jsonl"
lightcone collection create things --geometry cosine >/dev/null
lightcone generation register things --dimension 2 >/dev/null
lightcone generation activate things 1 >/dev/null
lightcone import things "$work/things.jsonl" >/dev/null
lightcone generation register things --dimension 2 >/dev/null
shown >"$work/before"
grep -q '"blue"' "$work/before" || fail "the payloads are not there before the upgrade: $(cat "$work/before")"
audited=$(wc -l <$logs/audit.jsonl)

# The upgrade meets a server that runs, as it does with systemd, which starts the new one afterwards.
apt install "${newer[@]}"
[ "$(installed_version)" = "$to" ] || fail "installed is version $(installed_version); allowed: $to"
cmp -s $settings "$work/settings" || fail "an upgrade changed the settings: $(diff "$work/settings" $settings)"
[ "$(stat -c '%G %a' $settings)" = "lightcone 640" ] || fail "an upgrade left $settings $(stat -c '%G %a' $settings)"
[ "$(stat -c '%U %a' $data)" = "lightcone 700" ] || fail "an upgrade left $data $(stat -c '%U %a' $data)"
shown >"$work/during"
cmp -s "$work/before" "$work/during" || fail "the running server: $(diff "$work/before" "$work/during")"
stop
start
shown >"$work/after"
cmp -s "$work/before" "$work/after" || fail "an upgrade changed the data: $(diff "$work/before" "$work/after")"
lightcone generation activate things 2 --force --reason upgraded >/dev/null
[ "$(wc -l <$logs/audit.jsonl)" -gt "$audited" ] || fail "the upgraded server does not write the operator's audit file"
stop
files

# Removed: the programs go, settings and data stay. Purged: the settings go, and data only when somebody asks for it.
apt remove lightcone
[ -e /usr/bin/lightcone ] && fail "removed, and still there"
cmp -s $settings "$work/settings" || fail "removing changed the settings"
find $data $logs -type f -printf '%p %s\n' | sort >"$work/files"
[ -s "$work/files" ] || fail "removing deleted the data"
apt purge lightcone
[ -e /etc/lightcone ] && fail "purged, and the settings are there"
cmp -s "$work/files" <(find $data $logs -type f -printf '%p %s\n' | sort) ||
  fail "purging deleted data, and nobody asked for it"
getent passwd lightcone >/dev/null || fail "purging deleted the owner of data that is kept"

apt install "${newer[0]}"
start
[ "$(lightcone count things --json | tr -dc 0-9 | head -c1)" = 2 ] || fail "the data that a purge kept is not served"
stop
LIGHTCONE_PURGE_DATA=yes apt purge lightcone
[ -e $data ] || [ -e $logs ] && fail "LIGHTCONE_PURGE_DATA=yes left the data"
getent passwd lightcone >/dev/null && fail "LIGHTCONE_PURGE_DATA=yes left the user"

apt install "${newer[0]}"
touch $data/PURGE
apt purge lightcone
[ -e $data ] || [ -e $logs ] && fail "$data/PURGE left the data"

services
echo "packages.sh: installed $from, upgraded to $to with data, removed and purged"
