#!/usr/bin/env bash
# Runs the cases, each in a shell of its own and all in one container, and sums up.
set -euo pipefail
cd "$(dirname "$0")/../.."
source tests/systemd/container.sh
source tests/systemd/words.sh

boot
passed=0 failed=0
for case in tests/systemd/cases/${CASES:-*}.sh; do
    name=$(basename "$case" .sh) began=$(date +%s)
    # Not as a condition: that would switch `set -e` off inside.
    set +e
    # shellcheck source=/dev/null
    (set -e; trap - EXIT; source "$case") >"$log/$name" 2>&1
    outcome=$?
    set -e
    if [ "$outcome" -eq 0 ]; then
        passed=$((passed + 1))
        notes=$(sed -n 's/^NOTE //p' "$log/$name" | paste -sd';')
        printf 'passed  %-24s %3d s  %s\n' "$name" $(($(date +%s) - began)) "$notes"
    else
        failed=$((failed + 1))
        printf 'FAILED  %-24s %3d s\n' "$name" $(($(date +%s) - began))
        tail -n 15 "$log/$name" | sed 's/^/        /'
        inside journalctl --unit=tallyd --no-pager --output=cat --lines=12 2>&1 | cut -c 1-300 | sed 's/^/        | /'
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
