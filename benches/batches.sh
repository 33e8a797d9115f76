#!/usr/bin/env bash
# The batch endpoint with 100 operations a request against redis-benchmark on the script with one operation, 100 of them
# in a pipeline, in operations a second.
source "$(dirname "$0")/support.sh"
seconds=${SECONDS_EACH:-5} connections=${CONNECTIONS:-64} users=100000
serve

curl -fsS -X PUT "$api/v1/like/1/5/users/1" >/dev/null
sha=$(redis SCRIPT LOAD "$(cat src/store/lua/write.lua)")
later=99999999999999
# Bodies are made before, so that the generator has little to do.
cat >"$home/post.lua" <<END
local requests = {}
function init(args)
  local headers = { ["content-type"] = "application/json" }
  for i = 1, 500 do
    local ops = {}
    for o = 1, 100 do
      ops[o] = '{"op":"set","interaction":"like","target_type":1,"target_id":"5","user_id":"' .. math.random(1, $users) .. '"}'
    end
    requests[i] = wrk.format("POST", "/v1/batch", headers, '{"ops":[' .. table.concat(ops, ",") .. "]}")
  end
end
local at = 0
function request()
  at = at % #requests + 1
  return requests[at]
end
END

over_http() {
    wrk -t 2 -c "$connections" -d "${seconds}s" -s "$home/post.lua" "$api" >"$home/wrk"
    if grep -q Non-2xx "$home/wrk"; then cat "$home/wrk" >&2; exit 1; fi
    awk '/^Requests\/sec/ { print $2 * 100 }' "$home/wrk"
}
redis_benchmark() {
    redis-benchmark -p "$redis_port" -c "$connections" -P 100 -n $((seconds * 100000)) -r "$users" --csv \
        EVALSHA "$sha" 5 dirty:1 chg:1 like:1:5 cnt:1:5 lock:1:5 "$later" 0 refuse like 5 1__rand_int__ 1 |
        awk -F'","|"' 'END { print $3 }'
}
compare "batches of 100 over HTTP, $connections connections" 0.9 1.2 most redis_benchmark over_http
