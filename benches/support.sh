#!/usr/bin/env bash
# For benches, to be sourced: private servers, a release build, and `compare`, which takes two measures in turns and
# prints the ratio. Sets tallyd; ROUNDS and TALLYD (a program that is built already) vary it. Rows of the table of
# `make bench` are appended to $BENCH_TABLE.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for name in ROUNDS SECONDS_EACH TARGETS STATES_EACH STATES EXIST CONNECTIONS RATE; do
    if [[ ! ${!name:-1} =~ ^[1-9][0-9]*$ ]]; then
        echo "$name=${!name}: give a number above 0" >&2
        exit 2
    fi
done
if [ -n "${TALLYD:-}" ] && [ ! -x "$TALLYD" ]; then
    echo "TALLYD=$TALLYD: there is no such program; leave it out to have one built" >&2
    exit 2
fi
rounds=${ROUNDS:-5}

tests/setup.sh bench
[ -n "${TALLYD:-}" ] || cargo build --release --quiet
tallyd=${TALLYD:-$PWD/target/release/tallyd}
source tests/servers.sh
"$tallyd" migrate >/dev/null

machine() { echo "$(nproc) x $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(free -g | awk '/^Mem:/ { print $2 }') GiB"; }

# Seconds that a command takes.
timed() {
    local begun=$EPOCHREALTIME
    "$@" >/dev/null
    awk -v begun="$begun" -v ended="$EPOCHREALTIME" 'BEGIN { printf "%.3f\n", ended - begun }'
}

# median, least and greatest of the numbers on standard input
spread() { sort -g | awk '{ n[NR] = $1 } END { print n[int((NR + 1) / 2)], n[1], n[NR] }'; }

# verdict MEASURED REACH AIM least|most
verdict() {
    awk -v at="$1" -v reach="$2" -v aim="$3" -v best="$4" 'BEGIN {
        sign = best == "least" ? 1 : -1
        print sign * at <= sign * aim ? "aim" : sign * at <= sign * reach ? "reached" : "missed" }'
}

# row TITLE FIGURE SPREAD REACH AIM VERDICT
row() {
    local IFS=$'\t'
    echo "$*" >>"${BENCH_TABLE:-/dev/null}"
    printf '%s: %s (%s), reach %s, aim %s: %s\n' "$@"
}

# compare TITLE REACH AIM least|most YARDSTICK OURS: runs both in turns; each prints one number (seconds, or a rate).
# `least` says that a small ratio ours / yardstick is good, `most` that a great one is.
compare() {
    local title=$1 reach=$2 aim=$3 best=$4 yardstick=$5 ours=$6 a b round
    echo "$title ($(machine))"
    : >"$home/ratios"
    for round in $(seq "$rounds"); do
        a=$("$yardstick")
        b=$("$ours")
        awk -v a="$a" -v b="$b" 'BEGIN { printf "%.3f\n", b / a }' >>"$home/ratios"
        printf 'round %d: %s %s, %s %s, ratio %s\n' "$round" "$yardstick" "$a" "$ours" "$b" "$(tail -n 1 "$home/ratios")"
    done
    local median least most
    read -r median least most < <(spread <"$home/ratios")
    row "$title" "$median" "$least to $most" "$reach" "$aim" "$(verdict "$median" "$reach" "$aim" "$best")"
}

# figure TITLE REACH AIM least|most OURS: a number by itself, of as many rounds.
figure() {
    local title=$1 reach=$2 aim=$3 best=$4 ours=$5 round
    echo "$title ($(machine))"
    : >"$home/figures"
    for round in $(seq "$rounds"); do
        "$ours" >>"$home/figures"
        printf 'round %d: %s\n' "$round" "$(tail -n 1 "$home/figures")"
    done
    local median least most
    read -r median least most < <(spread <"$home/figures")
    row "$title" "$median" "$least to $most" "$reach" "$aim" "$(verdict "$median" "$reach" "$aim" "$best")"
}

# A run by hand; what it says is in $home/run.json, its log in $home/tallyd.log.
run() { "$tallyd" sync --now --json 2>>"$home/tallyd.log" >"$home/run.json"; }
# said NAME: a number of that run.
said() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" "$home/run.json"; }
