#!/usr/bin/env bash
# POST /v1/query for 100 states and their counts (200 HGETs) against redis-benchmark's HGET, 100 in a pipeline, in HGETs
# a second.
source "$(dirname "$0")/support.sh"
seconds=${SECONDS_EACH:-5} connections=${CONNECTIONS:-64} targets=1000
serve

# A thousand targets of ten users, loaded.
for target in $(seq "$targets"); do
    for user in $(seq 10); do
        printf '{"op":"set","interaction":"like","target_type":1,"target_id":%d,"user_id":%d}\n' "$target" "$user"
    done
done | split -l 1000 --filter='{ printf "{\"ops\":["; paste -sd, -; printf "]}"; } >"$FILE"' - "$home/ops."
for body in "$home"/ops.*; do
    curl -fsS -H 'content-type: application/json' -d "@$body" "$api/v1/batch" >/dev/null
done
run
cat >"$home/post.lua" <<END
local requests = {}
function init(args)
  local headers = { ["content-type"] = "application/json" }
  for i = 1, 500 do
    local items = {}
    for o = 1, 100 do
      items[o] = '{"interaction":"like","target_type":1,"target_id":"' .. math.random(1, $targets) .. '","user_id":"' .. math.random(1, 10) .. '"}'
    end
    requests[i] = wrk.format("POST", "/v1/query", headers, '{"items":[' .. table.concat(items, ",") .. "]}")
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
    awk '/^Requests\/sec/ { print $2 * 200 }' "$home/wrk"
}
redis_benchmark() {
    redis-benchmark -p "$redis_port" -c "$connections" -P 100 -n $((seconds * 500000)) -r 10 --csv \
        HGET like:1:5 __rand_int__ | awk -F'","|"' 'END { print $3 }'
}
compare "queries of 100 states and counts, $connections connections" 0.15 0.3 most redis_benchmark over_http
