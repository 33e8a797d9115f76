#!/usr/bin/env bash
# Single writes over HTTP keep-alive against redis-benchmark on the same script, with as many connections and no
# pipelining: load generator, Redis and tallyd share this machine.
source "$(dirname "$0")/support.sh"
seconds=${SECONDS_EACH:-5} connections=${CONNECTIONS:-64} users=100000
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

over_http() {
    wrk -t 2 -c "$connections" -d "${seconds}s" -s "$home/put.lua" "$api" | awk '/^Requests\/sec/ { print $2 }'
}
redis_benchmark() {
    redis-benchmark -p "$redis_port" -c "$connections" -n $((seconds * 40000)) -r "$users" --csv \
        EVALSHA "$sha" 5 dirty:1 chg:1 like:1:5 cnt:1:5 lock:1:5 "$later" 0 refuse like 5 1__rand_int__ 1 |
        awk -F'","|"' 'END { print $3 }'
}
compare "single writes over HTTP, $connections connections" 0.75 0.9 most redis_benchmark over_http
