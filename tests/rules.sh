#!/usr/bin/env bash
# The alert rules and the dashboard's expressions held to promtool, and the alerts to what they should fire on. Without
# promtool it says so and succeeds; tests/setup.sh fetches it where that can be done.
set -euo pipefail
cd "$(dirname "$0")/.."

rules=systemd/prometheus/tallyd.rules.yml cases=tests/prometheus/tallyd.test.yml dashboard=systemd/grafana/tallyd.json

while read -r alert; do
    grep -q "\b$alert\b" "$cases" || { echo "$alert is fired by no case of $cases" >&2; exit 1; }
done < <(sed -n 's/.*- alert: //p' "$rules")

promtool=$(command -v promtool || ls target/tools/prometheus/usr/bin/promtool 2>/dev/null || true)
if [ -z "$promtool" ]; then
    echo "skipped: promtool not found: neither the alert rules nor the dashboard's expressions were checked"
    exit 0
fi
"$promtool" check rules "$rules"
"$promtool" test rules "$cases"

# Grafana's variable stands for a time span, and every expression becomes a rule.
generated=$(mktemp --suffix .yml)
trap 'rm -f "$generated"' EXIT
{
    printf 'groups:\n  - name: dashboard\n    rules:\n'
    sed -n 's/^ *"expr": \("\([^"\\]\|\\.\)*"\),\?$/\1/p' "$dashboard" | sed 's/\$__rate_interval/5m/g' | awk '{
        printf "      - record: panel:%d\n        expr: %s\n", NR, $0 }'
} >"$generated"
written=$(grep -c '"expr"' "$dashboard") taken=$(grep -c ' expr: ' "$generated")
[ "$written" -eq "$taken" ] || { echo "$written expressions in $dashboard, $taken understood" >&2; exit 1; }
"$promtool" check rules "$generated" | sed "s|$generated|$dashboard|"
