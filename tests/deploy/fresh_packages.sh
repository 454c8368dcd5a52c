#!/usr/bin/env bash
# Tries the packages (packages.sh) on a Debian 12 that has nothing of Lightcone: debootstrap makes it in a folder, which
# is removed at the end. Run it as root. Ports 7700 and 7701 of the loopback interface must be free.
#   fresh_packages.sh [--from OLDER.deb]... LIGHTCONE.deb [MODEL.deb]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=fresh_debian.sh
. "$here/fresh_debian.sh"
work=$(mktemp -d /var/tmp/lightcone-packages.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root

fresh_debian "$root" "$work/log" || {
  echo "fresh_packages.sh: debootstrap: $(tail -3 "$work/log")" >&2
  exit 1
}
# Without a services' policy, packages that bring daemons would start them in the new system.
printf '%s\n' '#!/bin/sh' 'exit 101' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir "$root/packages"
arguments=()
for argument in "$@"; do
  if [ "$argument" != --from ]; then
    copy=/packages/${#arguments[@]}-$(basename "$argument")
    cp "$argument" "$root$copy"
    argument=$copy
  fi
  arguments+=("$argument")
done
cp "$here/packages.sh" "$root/packages/"
# All that runs in the new system ends with the script: it has a list of processes of its own.
# shellcheck disable=SC2016
unshare --mount --pid --fork --kill-child bash -euc '
  root=$1
  shift
  mount -t proc proc "$root/proc"
  mount -t tmpfs none "$root/run"
  mount --rbind /dev "$root/dev"
  exec chroot "$root" /packages/packages.sh "$@"' bash "$root" "${arguments[@]}"
