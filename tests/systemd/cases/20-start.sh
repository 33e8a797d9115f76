# Configured, migrated, started: it is ready, says what it does, writes, and tells no secret.
says_what_it_does() { [ "$(property StatusText)" ]; }

running
same "$(property ActiveState)" active "the unit's state"
await 10 says_what_it_does
note "status: $(property StatusText)"

[ "$(inside stat --format %U "/proc/$(property MainPID)")" != root ] || fail "it runs as root"
answer=$(like 10086 42)
same "$answer" '{"changed":true,"active":true,"count":"1"}' "the answer"
inside tallyd sync
same "$(sql 'SELECT user_id, status FROM interaction_record WHERE target_id = 10086')" $'42\t1' "the row"

logged 'tallyd starts' || fail "the journal does not say that it started"
inside journalctl --sync
! inside journalctl --no-pager | grep "$secret" || fail "the journal tells the password"
! inside cat "/proc/$(property MainPID)/cmdline" "/proc/$(property MainPID)/environ" | grep --text "$secret" ||
    fail "the password is an argument or a variable"
