#!/usr/bin/env bash
# Installs what building, running and testing Geminga needs from Debian's packages. Does nothing, and asks for
# nothing, where all of it is there already.
set -euo pipefail

build_packages=(
  build-essential cmake ninja-build ccache mold pkg-config
  libboost1.81-dev libboost-json1.81-dev libprotobuf-dev protobuf-compiler librocksdb-dev
  libfmt-dev libspdlog-dev libcli11-dev liburing-dev libre2-dev libyaml-cpp-dev
  libsnappy-dev liblz4-dev libzstd-dev zlib1g-dev libbz2-dev
  libgtest-dev libgmock-dev  # configuring looks for them, whatever is built then
)
test_packages=(
  python3 python3-venv python3-pip curl clang-format-14
)
lint_packages=(clang-14 clang-tidy-14)
fuzz_packages=(clang-14 libclang-rt-14-dev)

wanted=("${build_packages[@]}")
for part in "$@"; do
  case "$part" in
    test) wanted+=("${test_packages[@]}") ;;
    lint) wanted+=("${lint_packages[@]}") ;;
    fuzz) wanted+=("${fuzz_packages[@]}") ;;
    *) echo "usage: $0 [test] [lint] [fuzz]" >&2; exit 2 ;;
  esac
done

missing=()
for package in "${wanted[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "these packages are missing and installing them needs root: ${missing[*]}" >&2
    echo "run as root: apt-get update && apt-get install ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "installing ${#missing[@]} packages: ${missing[*]}"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
