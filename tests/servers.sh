#!/usr/bin/env bash
# Private servers for scripts, to be sourced: a Redis and a MariaDB in a temporary folder, on free ports, ended with the
# script. Sets home, redis_port, mysql_port, TALLYD_CONFIG; adds what is to be ended to pids.
set -euo pipefail
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

home=$(mktemp -d "${TMPDIR:-/tmp}/tallyd.XXXXXX")
pids=()
finish() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$home"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Waits until a command succeeds, for at most 30 seconds.
await() {
    for _ in $(seq 300); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.1
    done
    echo "in vain waited for: $*" >&2
    tail -n 20 "$home"/*.log >&2
    exit 1
}

free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 12000))
        if ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then echo "$port"; return; fi
    done
}

redis_port=$(free_port)
mysql_port=$(free_port)
as_root=()
if [ "$(id -u)" -eq 0 ]; then as_root=(--user=root); fi

mariadb-install-db --no-defaults "${as_root[@]}" --force --datadir="$home/mysql" \
    --auth-root-authentication-method=normal --skip-test-db >"$home/install.log" 2>&1
mariadbd --no-defaults "${as_root[@]}" --datadir="$home/mysql" --socket="$home/mysql.sock" --port="$mysql_port" \
    --bind-address=127.0.0.1 --pid-file="$home/mysql.pid" >"$home/mysql.log" 2>&1 &
pids+=($!)
start_redis() {
    redis-server --port "$redis_port" --bind 127.0.0.1 --dir "$home" --save '' --appendonly yes >>"$home/redis.log" 2>&1 &
    redis_pid=$!
    pids+=("$redis_pid")
}
start_redis

redis() { redis-cli -p "$redis_port" "$@"; }
sql() { mariadb --no-defaults --socket="$home/mysql.sock" --user=root --table "$@"; }
await redis ping
await sql -e 'SELECT 1'

sql -e "CREATE DATABASE tallyd; CREATE USER tallyd@'127.0.0.1' IDENTIFIED BY 'demo'; GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX ON tallyd.* TO tallyd@'127.0.0.1'"
printf 'demo\n' >"$home/mysql-password"
cat >"$home/config.toml" <<END
[redis]
url = "redis://127.0.0.1:$redis_port/0"
[mysql]
url = "mysql://tallyd@127.0.0.1:$mysql_port/tallyd"
password_file = "$home/mysql-password"
[api]
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[degraded]
probe_seconds = 1
END
export TALLYD_CONFIG="$home/config.toml"

# Starts the daemon, and sets api and admin to its addresses.
serve() {
    "$tallyd" serve >"$home/tallyd.log" 2>&1 &
    pids+=($!)
    await listening
    api=http://$(address api)
    admin=http://$(address admin)
    await curl -fsS "$admin/readyz"
}
address() { sed -n "s/.*$1 listens on \([0-9.:]*\).*/\1/p" "$home/tallyd.log" | tail -n 1; }
listening() { [ -n "$(address api)" ] && [ -n "$(address admin)" ]; }
