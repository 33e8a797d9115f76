#!/usr/bin/env bash
# One change on a target of 1,000,000 states against one on a target of 10: the time of `tallyd sync --now`, the rows,
# and the commands that both servers were sent.
source "$(dirname "$0")/support.sh"
source benches/changes.sh
rounds=${ROUNDS:-15}
large=${STATES:-1000000}

fill 1 1767225600000 1 "$large"
run
large_id=$(sql -N --skip-table tallyd -e 'SELECT target_id FROM interaction_count')
small_id=5
for user in $(seq 10); do echo "HSET like:1:$small_id $user 1"; done | redis --pipe >/dev/null
redis HSET "like:1:$small_id" 0 full >/dev/null
redis HSET "cnt:1:$small_id" like 10 >/dev/null
redis SADD dirty:1 "$small_id" >/dev/null
run

script=$(cat src/store/lua/write.lua)
# change TARGET: a user likes it who never did.
change() {
    local user=$(($(cat "$home/users" 2>/dev/null || echo 1000) + 1))
    echo "$user" >"$home/users"
    redis EVAL "$script" 5 dirty:1 chg:1 "like:1:$1" "cnt:1:$1" "lock:1:$1" 99999999999999 0 refuse like "$1" "$user" 1 >/dev/null
}
commands() { redis INFO stats | sed -n 's/^total_commands_processed:\([0-9]*\).*/\1/p'; }
statements_asked() { sql -N --skip-table -e "SHOW GLOBAL STATUS LIKE 'Questions'" | cut -f2; }
one() {
    change "$1"
    local commands_before statements_before
    commands_before=$(commands) statements_before=$(statements_asked)
    timed run
    echo "$(said rows_written) rows, $(($(commands) - commands_before)) commands, $(($(statements_asked) - statements_before)) statements" >>"$home/work.$1"
}
small() { one "$small_id"; }
large() { one "$large_id"; }
compare "one change on $large states against one on 10" 1.5 1.0 least small large
echo "of 10 states: $(sort "$home/work.$small_id" | uniq -c | sort -rn | head -n 1)"
echo "of $large states: $(sort "$home/work.$large_id" | uniq -c | sort -rn | head -n 1)"
