# A configuration that is wrong: exit code 78, the field in the journal, and no restarts that mend nothing.
running
inside sed -i 's/^batch_rows = .*/batch_rows = "many"/' /etc/tallyd/config.toml
! inside systemctl restart tallyd || fail "it started"
same "$(property ExecMainStatus)" 78 "the exit code"
logged batch_rows
sleep 8 # longer than RestartSec
same "$(property ActiveState)" failed "the unit's state"
same "$(property NRestarts)" 0 NRestarts
running
