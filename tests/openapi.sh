#!/usr/bin/env bash
# Holds the daemon to its own description: schemathesis reads /openapi.json, and sends what is in it and what is not,
# first without tokens, then with one. Its version is fixed here; it lives in a virtual environment under target/.
# Other requests with SEED=2, more with SECONDS_EACH=300.
set -euo pipefail
cd "$(dirname "$0")/.."

version=4.32.5
each=${SECONDS_EACH:-25}

tests/setup.sh openapi
environment=$PWD/target/openapi
schemathesis=$environment/bin/schemathesis
if ! "$schemathesis" --version 2>/dev/null | grep -qw "$version"; then
    rm -rf "$environment"
    python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$version"
fi
# As the tests build it.
[ -n "${TALLYD:-}" ] || cargo build --quiet --features failpoints
tallyd=${TALLYD:-$PWD/target/debug/tallyd}

source tests/servers.sh
# What was written is in MySQL, too, soon after.
printf '[sync]\ncron = "* * * * * *"\n' >>"$home/config.toml"
"$tallyd" migrate

# All checks but two. A state that was deleted is not gone: it is one that is not active, as if it had never been. And
# when it follows links of its own making, it puts the interaction of one path into another where the description does
# not list it, a counter where a state is meant, and expects that to be accepted.
cat >"$home/schemathesis.toml" <<'END'
[checks]
enabled = true
use_after_free.enabled = false
[phases.stateful.checks]
positive_data_acceptance.enabled = false
END

hold() {
    (cd "$home" && "$schemathesis" run "$api/openapi.json" --phases examples,coverage,fuzzing,stateful --max-time "$each" \
        --seed "${SEED:-1}" --generation-database none --request-timeout 10 --no-color "$@")
    kill -0 "$daemon"
    if grep -qE 'panicked|ERROR' "$home/tallyd.log"; then
        grep -E 'panicked|ERROR' "$home/tallyd.log" >&2
        exit 1
    fi
}

printf '\nWithout tokens\n'
serve
daemon=${pids[-1]}
hold
kill "$daemon"
wait "$daemon"
rm "$home/tallyd.log"

printf '\nWith tokens\n'
printf 'rotated-out\nin-use\n' >"$home/tokens"
chmod 600 "$home/tokens"
export TALLYD__API__TOKEN_FILE="$home/tokens"
serve
daemon=${pids[-1]}
hold --header 'Authorization: Bearer in-use'
