# shellcheck shell=bash
# Sourced by the scripts beside it: a Debian 12 that holds nothing but what debootstrap puts there.

# fresh_debian FOLDER LOG: makes one in FOLDER from the mirror that this machine uses. The caller is root. What
# debootstrap prints goes to LOG; a status other than 0 means that there is no such system.
fresh_debian() {
  local root=$1 log=$2 mirror
  mirror=$(sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb (\[[^]]*\] )?([^ ]+) .*/\2/p' \
    /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -n1) || true
  mirror=${mirror:-http://deb.debian.org/debian}
  debootstrap --variant=minbase bookworm "$root" "$mirror" >"$log" 2>&1 || return 1
  # Of this machine's sources, some may name keys that the new system lacks.
  echo "deb $mirror bookworm main" >"$root/etc/apt/sources.list"
  cp -r /etc/apt/apt.conf.d "$root/etc/apt/"
}
