#!/usr/bin/env bash
# Makes target/systemd/root, what the container boots: the release that this machine has, with systemd, Redis, MariaDB.
# Made once; `rm -r` it for another.
set -euo pipefail
cd "$(dirname "$0")/../.."

root=target/systemd/root
[ ! -e "$root" ] || exit 0

source /etc/os-release
case "$ID" in
    debian) components=main ;;
    ubuntu) components=main,universe ;;
    *) echo "tests/systemd: a container is made on Debian or Ubuntu, not on $ID" >&2; exit 1 ;;
esac
echo "tests/systemd: making a container of $ID $VERSION_CODENAME"
rm -rf "$root.new"
mkdir -p "$(dirname "$root")"
if ! debootstrap --variant=minbase --components="$components" \
    --include=systemd,systemd-sysv,dbus,redis-server,mariadb-server,man-db,curl \
    "$VERSION_CODENAME" "$root.new" >"$root.log" 2>&1; then
    tail -n 20 "$root.log" >&2
    exit 1
fi
# Who connects to that would start a MariaDB that a case has stopped.
systemctl --root="$root.new" mask mariadb.socket 2>/dev/null
rm -rf "$root.new"/var/cache/apt/archives/*.deb
mv "$root.new" "$root"
