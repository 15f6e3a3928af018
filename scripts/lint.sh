#!/usr/bin/env bash
# Formatting, layers, coroutine traps, and clang-tidy over the files that differ from `main` (all of them with ALL=1).
# --formatting: the first alone.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files 'src/*.h' 'src/*.cc' 'tests/*.h' 'tests/*.cc' | xargs clang-format-14 --dry-run --Werror
[ "${1:-}" != --formatting ] || exit 0
python3 tests/architecture/check_layers.py .
python3 tests/architecture/check_coroutines.py .
# clang's own build folder: its flags, the generated protobuf headers, no precompiled headers.
cmake --preset lint >/dev/null
cmake --build --preset lint --target geminga_proto_headers
if [ "${ALL:-0}" = 1 ]; then
  files=$(git ls-files 'src/*.cc' | grep -v _test.cc)
else
  files=$(git diff --name-only origin/main...HEAD -- 'src/*.cc' 2>/dev/null || git diff --name-only HEAD -- 'src/*.cc')
fi
[ -z "$files" ] || echo "$files" | xargs -P "$(nproc)" -n 4 clang-tidy-14 -p build/lint --quiet --extra-arg=-Wno-unused-result
echo "lint: ok"
