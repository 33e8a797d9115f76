#!/usr/bin/env bash
# Installs what the tests need and this machine lacks, on Debian or Ubuntu with a Rust toolchain: Redis, MariaDB, a
# linker and make. It starts no service, changes nothing that is there, and is silent when nothing is missing. With the
# argument `openapi` also what tests/openapi.sh needs, with `bench` what benches do.
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
need redis-cli redis-tools
need redis-benchmark redis-tools
has redis-server || need redis-check-rdb redis-tools
need mariadbd mariadb-server-core
need mariadb-install-db mariadb-server-core
need mariadb mariadb-client-core
if [ "${1:-}" = openapi ]; then
    python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
fi

if [ "${1:-}" = bench ]; then
    need wrk wrk
    need python3 python3
fi

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
if ! has redis-server; then
    program=$(command -v redis-check-rdb)
    as_root ln -s "$program" /usr/local/bin/redis-server
fi
