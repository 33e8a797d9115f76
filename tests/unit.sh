#!/usr/bin/env bash
# Holds the unit to systemd's own judgement: it must be understood without a remark, and its exposure be 2.0 at most.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# A program that does not exist would be a remark, and tallyd need not be installed.
sed 's|^ExecStart=/usr/bin/tallyd |ExecStart=/bin/true |' systemd/tallyd.service >"$folder/tallyd.service"
grep -q '^ExecStart=/bin/true ' "$folder/tallyd.service"

remarks=$(systemd-analyze verify --recursive-errors=no "$folder/tallyd.service" 2>&1) || { echo "$remarks" >&2; exit 1; }
if [ -n "$remarks" ]; then
    echo "$remarks" >&2
    exit 1
fi
systemd-analyze security --offline=true --no-pager --threshold=20 "$folder/tallyd.service" | tail -n 1
