#!/usr/bin/env bash
# The package under a real systemd: builds it, boots Debian with Redis and MariaDB in a container that has no network, and
# runs the cases in order. CASES='4*' runs some of them, OUTAGE=300 makes an outage longer. The container is a folder
# under target/ that stays as it is: what a run writes is in memory, and gone with it.
#
# Building takes the time: PROFILE=dev does for a test.
set -euo pipefail
cd "$(dirname "$0")/../.."

tests/setup.sh systemd
tests/systemd/packages.sh
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo "--preserve-env=CASES,OUTAGE")
"${as_root[@]}" tests/systemd/root.sh
"${as_root[@]}" tests/systemd/cases.sh
