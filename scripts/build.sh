#!/usr/bin/env bash
# scripts/build.sh PRESET [TARGET...]: configures once, then builds with ninja's progress line.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
[ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" >"$(mktemp)" || {
  cmake --preset "$preset"
  exit 1
}
exec cmake --build --preset "$preset" ${1:+--target "$@"}
