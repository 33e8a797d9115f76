#!/usr/bin/env bash
# What a state, a count and a mark take in Redis, what a row takes in MySQL, and how fast batches are taken and runs copy,
# on private servers: Redis, MariaDB, tallyd and the client share this machine. Users have 19 digits, as large sites give them.
set -euo pipefail
cd "$(dirname "$0")/.."
total=${STATES:-1000000}

tests/setup.sh
[ -n "${TALLYD:-}" ] || cargo build --release --quiet
tallyd=${TALLYD:-$PWD/target/release/tallyd}
source tests/servers.sh
"$tallyd" migrate >/dev/null
"$tallyd" sync >/dev/null 2>&1
redis CONFIG SET appendonly no >/dev/null

# One line a command, for `redis-cli --pipe`: kind is states, counts or marks.
commands() {
    awk -v kind="$1" -v targets="$2" -v each="$3" 'BEGIN {
        for (t = 1; t <= targets; t++) {
            if (kind == "counts") { print "HSET cnt:1:" t " like " each " .seen 1764522000000"; continue }
            if (kind == "marks") print "SADD dirty:1 " t
            begin = line = kind == "states" ? "HSET like:1:" t " 0 full" : "HSET chg:1"
            for (u = 1; u <= each; u++) {
                user = sprintf("80000%07d%07d", (t * 7919 + u * 104729) % 10000000, u)
                line = line (kind == "states" ? " " user " 1" : " like:" t ":" user " 1764522000000")
                # Redis takes no line above 64 KiB.
                if (u % 1000 == 0 || u == each) { print line; line = begin }
            }
        }
    }'
}
memory() { redis INFO memory | sed -n 's/^used_memory:\([0-9]*\).*/\1/p'; }
# Loads `kind targets each`, and prints bytes for each of `units`.
measure() {
    local before after
    before=$(memory)
    commands "$2" "$3" "$4" | redis --pipe >/dev/null
    after=$(memory)
    awk -v what="$1" -v bytes=$((after - before)) -v units="$5" 'BEGIN { printf "%-58s %7.1f bytes\n", what, bytes / units }'
}
timed() {
    local begun=$EPOCHREALTIME
    "$@" >"$home/out"
    awk -v begun="$begun" -v ended="$EPOCHREALTIME" 'BEGIN { printf "%.3f", ended - begun }'
}
rate() { awk -v what="$1" -v units="$2" -v seconds="$3" 'BEGIN { printf "%-58s %7.0f a second\n", what, units / seconds }'; }

echo "$(nproc) x $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), redis $(redis INFO server |
    sed -n 's/^redis_version:\([0-9.]*\).*/\1/p'), $(mariadbd --version | awk '{ print $3 }')"
echo "Redis"
for each in 5 100 10000; do
    redis FLUSHALL >/dev/null
    measure "a state of a target with $each" states $((total / each)) "$each" "$total"
done
redis FLUSHALL >/dev/null
measure "a count, with its target" counts 100000 1 100000
redis FLUSHALL >/dev/null
measure "a mark, of a target with 100 changes" marks $((total / 100)) 100 "$total"

echo "MySQL"
redis FLUSHALL >/dev/null
"$tallyd" sync >/dev/null 2>&1
targets=$((total / 100))
for kind in states counts marks; do commands "$kind" "$targets" 100 | redis --pipe >/dev/null; done
copied=$(timed "$tallyd" sync 2>"$home/sync.log")
grep -q ": $total changes on $targets targets" "$home/out" || { cat "$home/out" "$home/sync.log" >&2; exit 1; }
sql tallyd -e 'ANALYZE TABLE interaction_record, interaction_count' >/dev/null
size() {
    sql --skip-column-names --silent --raw -e "SELECT ROUND((data_length + index_length) / $2, 1)
        FROM information_schema.tables WHERE table_schema = 'tallyd' AND table_name = '$1'" | tr -d '| +\n-'
}
printf '%-58s %7s bytes\n' "a row of interaction_record with its index" "$(size interaction_record "$total")"
printf '%-58s %7s bytes\n' "a row of interaction_count" "$(size interaction_count "$targets")"

echo "Speed"
rate "rows copied, all of them new" $((total + targets)) "$copied"
commands marks "$targets" 100 | sed 's/1764522000000/1764522001000/g' | redis --pipe >/dev/null
commands states "$targets" 100 | sed 's/ 1\b/ 0/g; s/ 0 full/ 0 full/' | redis --pipe >/dev/null
commands counts "$targets" 100 | sed 's/like 100/like 0/' | redis --pipe >/dev/null
copied=$(timed "$tallyd" sync 2>"$home/sync.log")
rate "rows copied, all of them flipped" $((total + targets)) "$copied"

serve
mkdir "$home/batches"
awk -v home="$home/batches" 'BEGIN {
    for (b = 1; b <= 200; b++) {
        line = ""
        for (n = 1; n <= 1000; n++)
            line = line (n > 1 ? "," : "") sprintf("{\"op\":\"set\",\"interaction\":\"like\",\"target_type\":1,\"target_id\":%d,\"user_id\":%d}", 20000000 + n % 100, b * 1000 + n)
        print "{\"ops\":[" line "]}" > (home "/" b)
        close(home "/" b)
    }
}'
for batch in "$home"/batches/*; do
    printf 'url="%s/v1/batch"\nheader="content-type: application/json"\ndata="@%s"\noutput=/dev/null\nfail\nnext\n' "$api" "$batch"
done >"$home/requests"
sed -i '$ d' "$home/requests"
curl -sS --config <(head -n 5 "$home/requests")
rate "writes taken in batches of 1,000, 4 at once" 200000 \
    "$(timed curl --no-progress-meter --parallel --parallel-max 4 --config "$home/requests")"
curl -fsS -X POST "$admin/sync?wait_seconds=300" >/dev/null
echo "The daemon"
awk '/^VmHWM/ { printf "%-58s %7.1f MiB\n", "memory at its most, after that", $2 / 1024 }' "/proc/${pids[-1]}/status"
