#!/usr/bin/env bash
# A linker launcher (RULE_LAUNCH_LINK): takes the archives of gRPC, Protobuf, Abseil and what those need in place of
# their shared libraries, where they are installed. The dynamic loader resolves 20,000 symbols of those libraries at
# every start, which is most of the time that a short command takes.
set -euo pipefail

names='^lib(grpc|grpc\+\+|grpc\+\+_reflection|gpr|upb|address_sorting|protobuf|cares|re2|absl_[a-z0-9_]+)\.a$'
arguments=()
for argument in "$@"; do
  archive=
  case $argument in
    -lre2) archive=$(compgen -G '/usr/lib/*/libre2.a' || true) ;;
    */lib*.so*) archive=${argument%%.so*}.a ;;
  esac
  if [[ ${archive##*/} =~ $names && -e $archive ]]; then argument=$archive; fi
  arguments+=("$argument")
done
exec "${arguments[@]}" -Wl,--gc-sections
