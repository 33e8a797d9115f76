#!/usr/bin/env bash
# Latency of single writes at 10,000 requests a second: an open loop, measured from the moment at which a request was
# due (corrected for coordinated omission), with oha. Milliseconds.
source "$(dirname "$0")/support.sh"
seconds=${SECONDS_EACH:-10} rate=${RATE:-10000}
oha=target/tools/bin/oha
[ -x "$oha" ] || cargo install --quiet --locked --root target/tools --version 1.16.0 oha
serve
curl -fsS -X PUT "$api/v1/like/1/5/users/1" >/dev/null

load() {
    "$oha" --no-tui --output-format json --latency-correction --disable-compression -q "$rate" -z "${seconds}s" -c 64 \
        -m PUT --rand-regex-url "$api/v1/like/1/5/users/[1-9][0-9]{4}" >"$home/oha.json"
}
# Whoever was not answered at all, or not in time, is not left out of a percentile.
percentile() {
    python3 - "$1" "$home/oha.json" <<'END'
import json, sys
said = json.load(open(sys.argv[2]))
bad = sum(said["errorDistribution"].values()) + sum(n for code, n in said["statusCodeDistribution"].items() if code != "200")
cut = said["errorDistribution"].get("aborted due to deadline", 0)
if bad > cut or cut > 64:
    sys.exit(f"{bad} requests were not answered: {said['errorDistribution']} {said['statusCodeDistribution']}")
print(round(said["latencyPercentiles"][sys.argv[1]] * 1000, 2))
END
}
both() { load; echo "$(percentile p99) $(percentile p99.9)"; }
echo "latency at $rate requests a second ($(machine))"
for round in $(seq "$rounds"); do both; done | tee "$home/both"
read -r median least most < <(cut -d' ' -f1 "$home/both" | spread)
row "latency at $rate requests a second, p99 in ms" "$median" "$least to $most" 5 5 "$(verdict "$median" 5 5 least)"
read -r median least most < <(cut -d' ' -f2 "$home/both" | spread)
row "latency at $rate requests a second, p99.9 in ms" "$median" "$least to $most" - 10 "$(verdict "$median" 1e9 10 least)"
