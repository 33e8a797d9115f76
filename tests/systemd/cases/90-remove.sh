# Removed: it is stopped, the program and the unit are gone, the configuration stays; purged: nothing is left, but the
# databases and the operator's own drop-in.
running
like 90 1
inside tallyd sync
process=$(property MainPID)
apt remove tallyd
! inside kill -0 "$process" 2>/dev/null || fail "it still runs"
! inside test -e /usr/bin/tallyd || fail "the program is there"
same "$(property LoadState)" masked "the unit (as Debian leaves it)"
inside test -s /etc/tallyd/config.toml
inside test -s /etc/tallyd/mysql-password

apt purge tallyd
left=$(inside find / -xdev -path /proc -prune -o -name '*tallyd*' -not -path '/var/lib/mysql/*' -not -path '/run/*' \
    -not -path '/tmp/*' -not -path '/var/cache/man/*' -print)
same "$left" /etc/systemd/system/tallyd.service.d "what is left"
same "$(sql 'SELECT user_id FROM interaction_record WHERE target_id = 90')" 1 "the row of before"
