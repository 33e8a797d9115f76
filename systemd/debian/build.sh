#!/usr/bin/env bash
# Builds the Debian package into target/debian. It fits the release of Debian or Ubuntu that it is built on, and later ones.
# PROFILE=dev takes a program that is sooner built, for tests.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=3.8.0
profile=${PROFILE:-release}

tests/setup.sh deb
cargo_deb=target/tools/bin/cargo-deb
if [ "$("$cargo_deb" --version 2>/dev/null)" != "$version" ]; then
    cargo install --quiet --root target/tools --locked --version "$version" cargo-deb
fi

cargo build --profile "$profile" --locked
tallyd=target/${profile/#dev/debug}/tallyd
made=target/package
rm -rf "$made"
mkdir -p "$made/completions"
"$tallyd" man "$made/man"
for shell in bash zsh fish; do "$tallyd" completions "$shell" >"$made/completions/$shell"; done

# The same source makes the same package, to the byte.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
rm -rf target/debian
"$cargo_deb" --no-build --locked --profile "$profile"
