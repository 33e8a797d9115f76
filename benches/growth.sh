#!/usr/bin/env bash
# How the time of a sync grows: with the changes (to a million), and with the states that exist (to a million;
# STATES=10000000 for more, which takes Redis about 1 GB) only as counts are verified: up to sync.verify_limit of a target. Medians of ROUNDS runs, in seconds, and as bars.
source "$(dirname "$0")/support.sh"
source benches/changes.sh
rounds=${ROUNDS:-3}
if [ "${EXIST:-1000}" -lt 1000 ] || [ "${STATES:-1000}" -lt 1000 ]; then
    echo "EXIST and STATES: give 1000 or more, for they are of 1,000 targets" >&2
    exit 2
fi
begin=1767225600000
echo 0 >"$home/turn"

# Every power of ten from 1,000 to this.
powers() { local n; for ((n = 1000; n <= $1; n *= 10)); do echo "$n"; done; }

# flip CHANGES TARGETS: seconds that a run takes after so many states of so many targets were flipped.
flip() {
    local turn=$(($(cat "$home/turn") + 1))
    echo "$turn" >"$home/turn"
    fill $((1 - turn % 2)) $((begin + turn * 60000)) "$2" $(($1 / $2)) $((exist_each - $1 / $2))
    timed run
    [ "$(said changes)" -eq "$1" ] || { cat "$home/run.json" >&2; exit 1; }
}
# exist STATES: nothing but so many states, of 1,000 targets, on both sides.
exist() {
    emptied tallyd
    redis FLUSHALL >/dev/null
    run
    exist_each=$(($1 / 1000))
    fill 1 "$begin" 1000 "$exist_each"
    run
}
measure() {
    local seconds
    seconds=$(for _ in $(seq "$rounds"); do flip "$1" "$2"; done | spread)
    echo "$3 ${seconds%% *}" >>"$home/points"
}
plot() {
    sort -g "$home/points" | awk '{ n[NR] = $1; s[NR] = $2; if ($2 > most) most = $2 }
        END { for (i = 1; i <= NR; i++) {
            bar = ""; for (j = 0; j < 50 * s[i] / most; j++) bar = bar "#"
            printf "%9d %8.3f s %s\n", n[i], s[i], bar } }'
    : >"$home/points"
}

machine
exist "${EXIST:-1000000}"
echo "changes, with ${EXIST:-1000000} states of 1000 targets:"
for changes in $(powers "${EXIST:-1000000}"); do measure "$changes" 1000 "$changes"; done
plot
echo "states that exist, with 1000 changes on 1000 targets:"
for states in $(powers "${STATES:-1000000}"); do
    exist "$states"
    measure 1000 1000 "$states"
done
plot
