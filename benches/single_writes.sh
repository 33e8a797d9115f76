#!/usr/bin/env bash
# Single writes over HTTP keep-alive against redis-benchmark on the same script, with as many connections and no
# pipelining, in turns: load generator, Redis and tallyd share this machine. Prints requests a second and their ratio.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-5} connections=${CONNECTIONS:-64} users=100000

tests/setup.sh
command -v wrk >/dev/null || { echo "install wrk: apt-get install wrk" >&2; exit 1; }
[ -n "${TALLYD:-}" ] || cargo build --release --quiet
tallyd=${TALLYD:-$PWD/target/release/tallyd}
source tests/servers.sh
"$tallyd" migrate >/dev/null
serve

# The target is loaded, and the script known to Redis.
curl -fsS -X PUT "$api/v1/like/1/5/users/1" >/dev/null
sha=$(redis SCRIPT LOAD "$(cat src/store/lua/write.lua)")
later=99999999999999
cat >"$home/put.lua" <<END
request = function()
  return wrk.format("PUT", "/v1/like/1/5/users/" .. math.random(1, $users))
end
END

http() {
    wrk -t 2 -c "$connections" -d "${seconds}s" -s "$home/put.lua" "$api" | awk '/^Requests\/sec/ { print $2 }'
}
direct() {
    redis-benchmark -p "$redis_port" -c "$connections" -n $((seconds * 40000)) -r "$users" --csv \
        EVALSHA "$sha" 5 dirty:1 chg:1 like:1:5 cnt:1:5 lock:1:5 "$later" 0 refuse like 5 1__rand_int__ 1 |
        awk -F'","|"' 'END { print $3 }'
}

echo "$(nproc) x $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $connections connections, $seconds s a round"
for round in $(seq "$rounds"); do
    a=$(direct)
    b=$(http)
    awk -v r="$round" -v a="$a" -v b="$b" \
        'BEGIN { printf "round %d: redis-benchmark %.0f/s, tallyd over HTTP %.0f/s, ratio %.2f\n", r, a, b, b / a }'
done | tee "$home/rounds"
sort -t, -k3 "$home/rounds" | awk '{ ratio[NR] = $NF } END { printf "median ratio %.2f\n", ratio[int((NR + 1) / 2)] }'
