#!/usr/bin/env bash
# Formatting, layers, and clang-tidy over the files that differ from `main` (all of them with ALL=1).
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files 'src/*.h' 'src/*.cc' 'tests/*.h' 'tests/*.cc' | xargs clang-format-14 --dry-run --Werror
python3 tests/architecture/check_layers.py .
[ -f build/release/compile_commands.json ] || cmake --preset release >/dev/null
if [ "${ALL:-0}" = 1 ]; then
  files=$(git ls-files 'src/*.cc' | grep -v _test.cc)
else
  files=$(git diff --name-only origin/main...HEAD -- 'src/*.cc' 2>/dev/null || git diff --name-only HEAD -- 'src/*.cc')
fi
[ -z "$files" ] || echo "$files" | xargs -P "$(nproc)" -n 4 clang-tidy-14 -p build/release --quiet
echo "lint: ok"
