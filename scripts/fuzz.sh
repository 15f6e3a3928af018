#!/usr/bin/env bash
# Builds the libFuzzer targets and runs each for SECONDS_EACH (60).
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target fuzz_targets
for target in build/fuzz/tests/fuzz/fuzz_*; do
  corpus=build/fuzz/corpus/$(basename "$target")
  mkdir -p "$corpus"
  echo "== $(basename "$target")"
  "$target" -max_total_time="${SECONDS_EACH:-60}" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 "$corpus"
done
