# An upgrade while both databases are down does not wait for them for ever; the new program is there when they are. (How
# long it waits is shortened.)
running
drop_in '[Unit]' JobRunningTimeoutSec=5
databases stop
inside systemctl --no-block restart tallyd
install_package 2
same "$(inside dpkg --audit)" "" "what dpkg has left half done"
same "$(property ActiveState)" activating "the unit's state"
databases start
await 60 ready
await 10 has ActiveState active
