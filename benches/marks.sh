#!/usr/bin/env bash
# What a mark takes in Redis: bytes a change for targets and users of 19 digits, 1,000,000 changes of 10,000 targets.
source "$(dirname "$0")/support.sh"
source benches/changes.sh
rounds=1
targets=${TARGETS:-10000} each=${STATES_EACH:-100}

# Of both keys, all of their members looked at.
marks() {
    fill 1 1767225600000 "$targets" "$each"
    local bytes=0 key
    for key in dirty:1 chg:1; do bytes=$((bytes + $(redis MEMORY USAGE "$key" SAMPLES 0))); done
    run
    awk -v bytes="$bytes" -v changes="$(said changes)" 'BEGIN { printf "%.1f\n", bytes / changes }'
}
figure "marks in Redis, bytes a change" 110 90 least marks
