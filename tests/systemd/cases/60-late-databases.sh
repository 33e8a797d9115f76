# Both databases come up long after the service: it waits, says so, and is there when they are.
running
inside systemctl stop tallyd
databases stop
inside systemctl start --no-block tallyd
until=$((SECONDS + ${OUTAGE:-30}))
while [ "$SECONDS" -lt "$until" ]; do
    state=$(property ActiveState)
    [ "$state" = activating ] || fail "with both databases down the unit is $state"
    sleep 1
done
[ "$(property StatusText)" ] || fail "it does not say what it waits for"
note "status meanwhile: $(property StatusText)"
databases start
await 30 has ActiveState active
await 30 ready
like 10086 "$(date +%s)"
note "restarts $(property NRestarts) in ${OUTAGE:-30} s"
