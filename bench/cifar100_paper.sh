#!/usr/bin/env bash
# HBCT Table 1 on CIFAR-100 with ResNet-18, and adapters behind it: one command, which goes on where it was stopped.
#   bench/cifar100_paper.sh DIR [OUT]              200 epochs: a GPU, or many days
#   REDUCED=1 bench/cifar100_paper.sh DIR [OUT]    one epoch of a narrow network: shows that everything runs
# DIR holds train.bin and test.bin of CIFAR-100's binary version. Tables come in OUT/hbct-cifar100-adapters/ (OUT/reduced/).
set -euo pipefail
data=${1:?the folder with train.bin and test.bin}
root=$(cd "$(dirname "$0")/.." && pwd)
out=${2:-$root/build/bench/cifar100${REDUCED:+-reduced}}
recipe=$root/research/recipes/hbct-cifar100-adapters.toml
lightcone=$root/build/bin/lightcone
[ -x "$lightcone" ] || make -C "$root" build
mkdir -p "$out"
if [ "${REDUCED:-}" ]; then
  sed 's/^\[train\]$/&\nepochs = 1\nencoder.width = 0.0625/' "$recipe" >"$out/reduced.toml"
  recipe=$out/reduced.toml
fi
exec "$lightcone" experiment "$recipe" --data "cifar100:$data" --out "$out"
