#!/usr/bin/env bash
# The main job, shown: likes over HTTP, marks in Redis, a sync, rows in MySQL. Starts private servers in a temporary
# folder and ends them; with KEEP=1 they stay until Ctrl-C.
set -euo pipefail
cd "$(dirname "$0")/.."

tests/setup.sh
[ -n "${TALLYD:-}" ] || cargo build --release --quiet
tallyd=${TALLYD:-$PWD/target/release/tallyd}

source tests/servers.sh

# Shows a command as one would type it, and its output.
show() {
    printf '\n$ %s\n' "$1"
    shift
    "$@"
}

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

say "The schema, once"
show "tallyd migrate" "$tallyd" migrate

serve

say "Likes over HTTP"
show "curl -X PUT $api/v1/like/note/10086/users/42" curl -sS -X PUT "$api/v1/like/note/10086/users/42"
echo
for user in $(seq 100 227); do
    printf 'url="%s/v1/like/note/10086/users/%s"\nrequest=PUT\noutput=/dev/null\n' "$api" "$user"
    [ "$user" -eq 227 ] || echo next
done >"$home/likes"
show "# 128 more users like it" curl -sS --config "$home/likes"
show "curl -X DELETE $api/v1/like/note/10086/users/100" curl -sS -X DELETE "$api/v1/like/note/10086/users/100"
echo
show "curl $api/v1/like/note/10086" curl -sS "$api/v1/like/note/10086"
echo
show "curl -d '{\"viewer\":\"anna\"}' $api/v1/view/note/10086" \
    curl -sS -H 'content-type: application/json' -d '{"viewer":"anna"}' "$api/v1/view/note/10086"
echo

say "In Redis: the states, the counts, and the marks that say what MySQL does not have yet"
show "redis-cli HGETALL cnt:1:10086" redis HGETALL cnt:1:10086
show "redis-cli SMEMBERS dirty:1" redis SMEMBERS dirty:1
show "redis-cli HLEN chg:1" redis HLEN chg:1

say "A sync: every five minutes by itself, or now"
show "tallyd sync --now" "$tallyd" sync --now
show "redis-cli EXISTS dirty:1 chg:1" redis EXISTS dirty:1 chg:1

say "In MySQL"
show "SELECT status, COUNT(*) FROM interaction_record GROUP BY status" \
    sql tallyd -e 'SELECT status, COUNT(*) FROM interaction_record GROUP BY status'
show "SELECT * FROM interaction_count" sql tallyd -e 'SELECT * FROM interaction_count'
show "curl '$api/v1/users/42/like'" curl -sS "$api/v1/users/42/like"
echo

say "Redis is killed: MySQL takes its place, and says so"
kill -KILL "$redis_pid"
wait "$redis_pid" 2>/dev/null || true
show "curl -i -X PUT $api/v1/like/note/10086/users/7" \
    sh -c "curl -sS -i -X PUT $api/v1/like/note/10086/users/7 | tr -d '\r' | grep -iE '^(HTTP|tallyd-source|\{)'"
echo

say "Redis is back: the like is replayed into it"
start_redis
await redis ping
replayed() { curl -fsS "$admin/status" | grep -q '"breaker":"closed".*"pending":0,"accepted_total":1,"replayed_total":1'; }
await replayed
show "curl $api/v1/like/note/10086" curl -sS "$api/v1/like/note/10086"
echo
show "redis-cli HGET like:1:10086 7" redis HGET like:1:10086 7

say "Redis loses everything: it is restored from MySQL, and nothing that was synced is missing"
show "tallyd sync" "$tallyd" sync
show "redis-cli FLUSHALL" redis FLUSHALL
show "tallyd sync" "$tallyd" sync
show "curl $api/v1/like/note/10086" curl -sS "$api/v1/like/note/10086"
echo

say "Somebody changes a count in MySQL: reconciliation finds it. All of one target is too much to repair unasked"
show "UPDATE interaction_count SET count = 500 WHERE target_id = 10086 AND interaction_type = 1" \
    sql tallyd -e 'UPDATE interaction_count SET count = 500 WHERE target_id = 10086 AND interaction_type = 1'
show "tallyd reconcile" "$tallyd" reconcile || [ $? -eq 3 ]
show "tallyd reconcile --target note:10086" "$tallyd" reconcile --target note:10086
show "tallyd reconcile" "$tallyd" reconcile
show "tallyd report" "$tallyd" report

say "What it did"
show "tallyd status" "$tallyd" status

if [ "${KEEP:-}" = 1 ]; then
    cat <<END

Everything stays up until Ctrl-C:
  curl -X PUT $api/v1/like/note/1/users/7
  curl $admin/status
  redis-cli -p $redis_port
  mariadb --socket=$home/mysql.sock --user=root tallyd
  TALLYD_CONFIG=$home/config.toml $tallyd sync --now
END
    wait
fi
