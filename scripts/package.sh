#!/usr/bin/env bash
# build/package/: a .deb and a .tar.gz of the stripped release binary with its unit file and documents.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^project(geminga VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
arch=$(dpkg --print-architecture)
out=build/package
root=$out/root
rm -rf "$out"
install -d "$root/usr/bin" "$root/lib/systemd/system" "$root/usr/share/doc/geminga" "$root/etc/geminga" "$root/DEBIAN"
install -m755 build/release/geminga "$root/usr/bin/geminga"
install -m755 bin/pulsar-admin "$root/usr/bin/pulsar-admin"
strip --strip-unneeded "$root/usr/bin/geminga"
install -m644 deploy/geminga.service "$root/lib/systemd/system/geminga.service"
install -m644 deploy/geminga.conf "$root/etc/geminga/geminga.conf"
install -m644 README.md LICENSE "$root/usr/share/doc/geminga/"
echo /etc/geminga/geminga.conf >"$root/DEBIAN/conffiles"
cat >"$root/DEBIAN/control" <<CONTROL
Package: geminga
Version: $version
Architecture: $arch
Maintainer: The Geminga team <maintainers@geminga.invalid>
Depends: libc6 (>= 2.36), libstdc++6 (>= 12)
Section: net
Priority: optional
Description: message and stream platform that speaks Apache Pulsar's protocols
 One binary that serves official Pulsar clients, durable and without a JVM.
CONTROL
dpkg-deb --root-owner-group --build "$root" "$out/geminga_${version}_${arch}.deb" >/dev/null
tar -C "$root" --owner=0 --group=0 --transform "s,^\.,geminga-$version," --exclude=./DEBIAN \
  -czf "$out/geminga-$version-$arch.tar.gz" .
for file in "$out"/*.deb "$out"/*.tar.gz; do
  size=$(stat -c %s "$file")
  echo "$file: $((size / 1024)) KiB"
  [ "$size" -le $((60 << 20)) ] || { echo "$file is larger than 60 MiB" >&2; exit 1; }
done
