#!/usr/bin/env bash
# Installs what the tests need and this machine lacks, on Debian or Ubuntu with a Rust toolchain: Redis, MariaDB, a
# linker, make, and systemd to judge the unit. It starts no service, changes nothing that is there, and is silent when
# nothing is missing. With the argument `browser` also a Chromium for the tests of the status page; with `openapi` what
# tests/openapi.sh needs; with `rules` promtool for tests/rules.sh; with `bench` a load generator; with `deb` what building
# the Debian package needs, and no servers; with `systemd` that and what tests/systemd/run.sh needs: its servers are in a
# container.
set -euo pipefail

# Servers lie in sbin, which the PATH of an ordinary user may not hold.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

has() { command -v "$1" >/dev/null; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

packages=()
need() { has "$1" || packages+=("$2"); }

need cc gcc
need make make
need curl curl
need setpriv util-linux
need systemd-analyze systemd
need redis-cli redis-tools
need redis-benchmark redis-tools
has redis-server || need redis-check-rdb redis-tools
need mariadbd mariadb-server-core
need mariadb-install-db mariadb-server-core
need mariadb mariadb-client-core
need mariadb-dump mariadb-client
case "${1:-}" in
    # Ubuntu has it as a snap only; without it the tests in a browser count as skipped.
    browser) if grep -qs '^ID=debian' /etc/os-release; then need chromium chromium; fi ;;
    openapi) python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv) ;;
    bench)
        need wrk wrk
        need python3 python3
        ;;
    deb | systemd)
        packages=()
        need cc gcc
        need make make
        need strip binutils
        need dpkg-shlibdeps dpkg-dev
        ;;&
    systemd)
        need debootstrap debootstrap
        need systemd-nspawn systemd-container
        need nsenter util-linux
        ;;
esac

if [ "${#packages[@]}" -gt 0 ]; then
    mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
    has apt-get || { echo "tests/setup.sh: please install: ${packages[*]}" >&2; exit 1; }
    echo "tests/setup.sh: installing ${packages[*]}"
    as_root apt-get update -qq
    # --no-remove: MySQL's and MariaDB's packages exclude each other, and nobody's MySQL goes for the sake of a test.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends --no-remove \
        "${packages[@]}" </dev/null >/dev/null
fi

# The package redis-server would start a service. It holds little but this link: the program looks at its own name.
if ! has redis-server && has redis-check-rdb; then
    program=$(command -v redis-check-rdb)
    as_root ln -s "$program" /usr/local/bin/redis-server
fi

# The package prometheus would start a service and make a user: of it only promtool is taken, into target. It may fail.
if [ "${1:-}" = rules ] && ! has promtool && [ ! -x target/tools/prometheus/usr/bin/promtool ] && has apt-get; then
    echo "tests/setup.sh: fetching promtool"
    mkdir -p target/tools/prometheus
    (
        # Readable to apt's own user.
        fetched=$(mktemp -d) && chmod 755 "$fetched" && trap 'rm -rf "$fetched"' EXIT
        root=$PWD
        cd "$fetched"
        apt-get download -qq prometheus || { as_root apt-get update -qq && apt-get download -qq prometheus; }
        dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x -C "$root/target/tools/prometheus" ./usr/bin/promtool
    ) || echo "tests/setup.sh: promtool cannot be had"
fi
