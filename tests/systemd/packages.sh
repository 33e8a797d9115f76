#!/usr/bin/env bash
# Makes three packages in target/systemd/packages: 1.deb is the package; 2.deb the same under a higher version, to upgrade
# to; 3.deb higher still, with a program that has failpoints.
set -euo pipefail
cd "$(dirname "$0")/../.."

packages=target/systemd/packages
rm -rf "$packages"
mkdir -p "$packages"

# $1.deb again as $2.deb, of version $3, with the program $4 in it if that is given.
again() {
    local tree=$packages/tree
    dpkg-deb --raw-extract "$packages/$1.deb" "$tree"
    sed -i "s/^Version: .*/Version: $3/" "$tree/DEBIAN/control"
    if [ "$#" -eq 4 ]; then
        install -m 755 "$4" "$tree/usr/bin/tallyd"
        (cd "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | xargs -0 md5sum >DEBIAN/md5sums)
    fi
    dpkg-deb --build --root-owner-group -Zgzip -z1 "$tree" "$packages/$2.deb" >/dev/null
    rm -r "$tree"
}

# As the tests build it.
cargo build --quiet --locked --features failpoints
strip -o target/systemd/tallyd-failpoints target/debug/tallyd
make --no-print-directory deb
cp target/debian/tallyd_*.deb "$packages/1.deb"
again 1 2 99.0.0-1
again 1 3 99.1.0-1 target/systemd/tallyd-failpoints
