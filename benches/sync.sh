#!/usr/bin/env bash
# `tallyd sync --now` of 1,000,000 changes over 10,000 targets against the `mariadb` client loading the very same rows as
# upserts of 1,000 rows over two connections: new rows, then all of them flipped.
source "$(dirname "$0")/support.sh"
source benches/changes.sh
targets=${TARGETS:-10000} each=${STATES_EACH:-100}
begin=1767225600000 passed=0 state=1

sync_in_turn() {
    fill "$state" $((begin + passed)) "$targets" "$each"
    timed run
    [ "$(said changes)" -eq $((targets * each)) ] || { cat "$home/run.json" >&2; exit 1; }
}
client_new() { emptied yardstick; timed load; }
tallyd_new() { emptied tallyd; sync_in_turn; }
statements 1 "$begin" "$targets" "$each"
compare "sync of $((targets * each)) changes, new rows" 1.2 1.0 least client_new tallyd_new

# Another state, at a later time, each round. What is measured runs in a subshell: the turn is kept in a file.
echo 0 >"$home/turn"
client_flip() {
    local turn=$(($(cat "$home/turn") + 1))
    echo "$turn" >"$home/turn"
    statements $((1 - turn % 2)) $((begin + turn * 60000)) "$targets" "$each"
    timed load
}
tallyd_flip() {
    local turn
    turn=$(cat "$home/turn")
    state=$((1 - turn % 2)) passed=$((turn * 60000))
    sync_in_turn
}
compare "sync of $((targets * each)) changes, all flipped" 1.3 1.0 least client_flip tallyd_flip

cmp <(sql -N -e 'SELECT target_id, user_id, status, update_time FROM tallyd.interaction_record ORDER BY 1, 2') \
    <(sql -N -e 'SELECT target_id, user_id, status, update_time FROM yardstick.interaction_record ORDER BY 1, 2')
