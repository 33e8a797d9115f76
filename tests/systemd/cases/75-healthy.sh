# The same limits, a daemon at work all the time, and a MySQL that stands still for a while: the watchdog stays quiet.
running
inside sed -i -e 's/^timeout_ms = 10000/timeout_ms = 1000/' -e 's/^cron = .*/cron = "* * * * * *"/' \
    /etc/tallyd/config.toml
drop_in '[Service]' WatchdogSec=4
inside systemctl restart tallyd
process=$(property MainPID)
writers 2
acknowledge 200
inside systemctl kill --signal=STOP mariadb
sleep 30 # longer than the watchdog waits, and than a loop may be silent
inside systemctl kill --signal=CONT mariadb
acknowledge 200
same "$(property MainPID)" "$process" "the process"
same "$(property NRestarts)" 0 NRestarts
all_there
