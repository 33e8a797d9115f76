# A driver that is stuck: the watchdog ends the process, and systemd starts it again; before, while there is nothing to
# be stuck in, it lives for longer than the watchdog waits. Limits are shortened.
restarted() { [ "$(property NRestarts)" -ge 1 ]; }

running
install_package 3
inside tallyd sync
inside sed -i 's/^timeout_ms = 10000/timeout_ms = 1000/' /etc/tallyd/config.toml
drop_in '[Service]' WatchdogSec=4 RestartSec=1 Environment=TALLYD_FAILPOINT=after_claim:hang
inside systemctl restart tallyd
process=$(property MainPID)
sleep 12 # three times as long as the watchdog waits
same "$(property MainPID)" "$process" "the healthy process"

like 10086 "$(date +%s)"
http --request POST "$admin/sync"
await 90 logged 'Watchdog timeout'
logged 'is stuck' || fail "it does not say what is stuck"
note "$(journal | grep 'is stuck' | head -n 1 | cut -c 1-200)"
await 30 restarted
[ "$(property MainPID)" != "$process" ] || fail "the stuck process lives"

drop_in ''
inside systemctl restart tallyd
await 30 ready
inside tallyd sync
