#!/usr/bin/env bash
# A full pass of reconciliation over healthy data against reading the same hashes with HSCAN and the same rows with one
# ordered SELECT.
source "$(dirname "$0")/support.sh"
targets=${TARGETS:-10000} each=${STATES_EACH:-100}
run

# Users have 19 digits, as large sites give them; every tenth state is cancelled.
awk -v targets="$targets" -v each="$each" -v hscan="$home/hscan" -v rows="$home/rows" -v counts="$home/counts" 'BEGIN {
    OFS = "\t"; now = "2026-01-01 00:00:00.000"
    for (t = 1; t <= targets; t++) {
        line = "HSET like:1:" t " 0 full"
        active = 0
        for (u = 1; u <= each; u++) {
            user = sprintf("80000%07d%07d", (t * 7919 + u * 104729) % 10000000, u)
            state = u % 10 ? 1 : 0
            active += state
            line = line " " user " " state
            print 1, t, 1, user, state, now, now > rows
        }
        print line
        print "HSET cnt:1:" t " like " active
        print 1, t, 1, active, now > counts
        print "HSCAN like:1:" t " 0 COUNT 1000" > hscan
    }
}' >"$home/states"
redis --pipe <"$home/states" >/dev/null
columns() { echo "LOAD DATA LOCAL INFILE '$home/$1' INTO TABLE tallyd.$2 ($3)"; }
sql --local-infile=1 -e "SET time_zone = '+00:00';
    $(columns rows interaction_record 'target_type, target_id, interaction_type, user_id, status, create_time, update_time');
    $(columns counts interaction_count 'target_type, target_id, interaction_type, count, update_time')"

# All at once, and nobody reads what comes: redis-cli would take several times as long.
hashes() {
    exec 3<>"/dev/tcp/127.0.0.1/$redis_port"
    { cat "$home/hscan"; echo QUIT; } >&3
    cat <&3
    exec 3>&-
}
rows() {
    mariadb --no-defaults --socket="$home/mysql.sock" --user=root --quick --batch -e "SELECT * FROM tallyd.interaction_record
        ORDER BY target_type, target_id, interaction_type, user_id"
}
both() { hashes; rows; }
pass() {
    "$tallyd" reconcile --all --json 2>>"$home/tallyd.log" >"$home/report.json"
    grep -q "\"outcome\":\"clean\",.*\"looked_at\":$targets," "$home/report.json" || { cat "$home/report.json" >&2; exit 1; }
}
reading() { timed both; }
reconciling() { timed pass; }

reading >/dev/null
compare "full reconciliation of $((targets * each)) healthy rows" 2.0 1.3 least reading reconciling
