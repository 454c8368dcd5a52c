#!/usr/bin/env bash
# Installs what Lightcone needs on Debian 12, and only what is missing. Asks for nothing; running it again does nothing.
#   deploy/install-deps.sh [build] [test] [bench] [fuzz] [package] [fresh] [manifests] [containers] [runtime]
#                          [runtime-model]                                                       (default: build)
set -euo pipefail

build=(g++ cmake ninja-build pkg-config protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libgrpc++-dev
  libabsl-dev libopenblas-dev libtorch-dev librocksdb-dev libfaiss-dev prometheus-cpp-dev libspdlog-dev libcli11-dev
  nlohmann-json3-dev libboost-dev libhwy-dev libroaring-dev libfreetype-dev libpng-dev libjpeg-dev libwebp-dev
  fonts-dejavu-core fonts-liberation fonts-freefont-ttf libssl-dev libcurl4-openssl-dev zlib1g-dev)
test_group=(libgtest-dev libgmock-dev libcpp-httplib-dev python3 python3-grpcio python3-protobuf python3-torch
  python3-numpy python3-yaml systemd python3-setuptools python3-wheel python3-venv prometheus shellcheck chromium
  clang-format)
bench=(libhnswlib-dev python3 python3-grpcio python3-protobuf python3-numpy)
package=(dpkg-dev file fakeroot)
containers=(podman podman-compose crun netavark aardvark-dns iptables catatonit debootstrap python3 python3-yaml openssl
  curl)
fresh=(debootstrap)
manifests=(golang-go golang-github-masterminds-sprig-dev golang-k8s-sigs-yaml-dev python3 python3-yaml)
fuzz=(clang-14 libfuzzer-14-dev libclang-rt-14-dev libomp-14-dev libgtest-dev libgmock-dev)
# What `lightcone` loads, and what `lightcone-model` and `lightcone-research` load besides.
runtime=(libgrpc++1.51 libprotobuf32 libopenblas0-pthread libspdlog1.10 libgomp1
  libprometheus-cpp-core1.0 libhwy1 libroaring0 libcurl4 curl ca-certificates)
runtime_model=(libtorch1.13 libfreetype6 libpng16-16 libjpeg62-turbo libwebp7 fonts-dejavu-core fonts-liberation
  fonts-freefont-ttf)

wanted=()
for group in "${@:-build}"; do
  case "$group" in
    build) wanted+=("${build[@]}") ;;
    test) wanted+=("${test_group[@]}") ;;
    bench) wanted+=("${bench[@]}") ;;
    package) wanted+=("${package[@]}") ;;
    fresh) wanted+=("${fresh[@]}") ;;
    manifests) wanted+=("${manifests[@]}") ;;
    containers) wanted+=("${containers[@]}") ;;
    fuzz) wanted+=("${fuzz[@]}") ;;
    runtime) wanted+=("${runtime[@]}") ;;
    runtime-model) wanted+=("${runtime_model[@]}") ;;
    *)
      echo "install-deps.sh: group '$group' is not known; allowed: build test bench fuzz package fresh manifests" \
        "containers runtime runtime-model" >&2
      exit 2
      ;;
  esac
done

# Node and npm run the console's test and the schemas'; a Node from elsewhere, which brings npm, is as good.
if [[ " ${wanted[*]} " =~ " chromium "|" golang-go " ]] && ! { command -v node && command -v npm; } >/dev/null; then
  wanted+=(nodejs npm)
fi

missing=()
for package in "${wanted[@]}"; do
  if [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
    missing+=("$package")
  fi
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
  echo "install-deps.sh: must be root to install: ${missing[*]}  (sudo $0 $*)" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
echo "installing ${#missing[@]} packages: ${missing[*]}"
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
