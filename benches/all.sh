#!/usr/bin/env bash
# Every comparison in one go, each on private servers of its own, and a table of what came out. ROUNDS says how often
# each pair is measured (5), ONLY which are run (as in ONLY='sync queries').
set -euo pipefail
cd "$(dirname "$0")/.."
trap 'exit 130' INT
names=${ONLY:-single_writes batches latency sync one_change by_hand reconciliation memory marks queries}
for name in $names; do
    if [ ! -x "benches/$name.sh" ]; then
        echo "ONLY: there is no bench $name; see benches/" >&2
        exit 2
    fi
done
tests/setup.sh bench
[ -n "${TALLYD:-}" ] || cargo build --release --quiet
export TALLYD=${TALLYD:-$PWD/target/release/tallyd}
BENCH_TABLE=$(mktemp)
export BENCH_TABLE
trap 'rm -f "$BENCH_TABLE"' EXIT

failed=()
for name in $names; do
    echo
    "benches/$name.sh" || failed+=("$name")
done

echo
uname -srm
echo "$(nproc) x $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(free -g | awk '/^Mem:/ { print $2 }') GiB," \
    "$(redis-server --version | sed 's/.* v=\([0-9.]*\).*/Redis \1/'), $(mariadbd --version | sed 's/.*Ver \([0-9.]*\).*/MariaDB \1/')," \
    "${ROUNDS:-5} rounds; the load generator and both servers are on this machine"
{
    printf 'work\tmedian\tspread\treach\taim\toutcome\n'
    cat "$BENCH_TABLE"
} | awk -F '\t' '{ printf "| %-60s | %8s | %-18s | %6s | %6s | %-8s |\n", $1, $2, $3, $4, $5, $6
    if (NR == 1) print "|---|---|---|---|---|---|" }'
if [ "${#failed[@]}" -gt 0 ]; then
    echo "failed: ${failed[*]}" >&2
    exit 1
fi
