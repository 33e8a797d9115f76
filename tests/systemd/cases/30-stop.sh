# A stop is clean, and within the grace, with writes under way; it starts again.
running
writers 2
acknowledge 100
stopping=$SECONDS
inside systemctl stop tallyd
[ $((SECONDS - stopping)) -le 20 ] || fail "the stop took $((SECONDS - stopping)) s"
same "$(property ActiveState)" inactive "the unit's state"
same "$(property Result)" success "the result"
same "$(property ExecMainStatus)" 0 "the exit code"
logged 'tallyd has stopped'
inside systemctl start tallyd
all_there
