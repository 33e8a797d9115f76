# A driver that is stuck: the watchdog ends the process, and systemd starts it again. Limits are shortened; what is
# proved is that the unit, the signal and the restart fit together.
restarted() { [ "$(property NRestarts)" -ge 1 ]; }

running
install_package 3
inside sed -i 's/^timeout_ms = 10000/timeout_ms = 1000/' /etc/tallyd/config.toml
drop_in $'WatchdogSec=4\nRestartSec=1\nEnvironment=TALLYD_FAILPOINT=after_claim:hang'
inside systemctl restart tallyd
process=$(property MainPID)
like 10086 "$(date +%s)"
http --request POST "$admin/sync" || true
await 90 logged 'Watchdog timeout'
await 30 restarted
[ "$(property MainPID)" != "$process" ] || fail "the stuck process lives"
drop_in ''
inside systemctl restart tallyd
ready
