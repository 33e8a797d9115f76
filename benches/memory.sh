#!/usr/bin/env bash
# The most memory (RSS, MiB) that the daemon had after it synced 1,000,000 changes.
source "$(dirname "$0")/support.sh"
source benches/changes.sh
rounds=${ROUNDS:-3}
targets=${TARGETS:-10000} each=${STATES_EACH:-100}

draining() {
    emptied tallyd
    fill 1 1767225600000 "$targets" "$each"
    "$tallyd" serve --no-schedule >"$home/tallyd.log" 2>&1 &
    local pid=$!
    await listening
    curl -fsS -X POST "http://$(address admin)/sync?wait_seconds=300" >"$home/run.json"
    [ "$(said changes)" -eq $((targets * each)) ] || { cat "$home/run.json" >&2; kill "$pid"; exit 1; }
    awk '/^VmHWM/ { printf "%.1f\n", $2 / 1024 }' "/proc/$pid/status"
    kill "$pid"
    wait "$pid"
}
figure "memory of the daemon after $((targets * each)) changes, MiB" 64 40 least draining
