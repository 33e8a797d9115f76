#!/usr/bin/env bash
# The whole design against what people write by hand: SMEMBERS of the dirty targets, HGETALL of each, an upsert of every
# state in statements of 1,000 rows, then the mark is deleted. 1,000 targets of 1,000 states, 1 % of them changed.
source "$(dirname "$0")/support.sh"
source benches/changes.sh
targets=${TARGETS:-1000} each=${STATES_EACH:-1000}

fill 1 1767225600000 "$targets" "$each"
run
changed=$((each / 100))

# The plain script. It takes neither a lease nor a checkpoint, and a write between HGETALL and DEL is lost to it.
recipe() {
    redis SMEMBERS dirty:1 >"$home/dirty"
    awk '{ print "ECHO target"; print "ECHO " $1; print "HGETALL like:1:" $1 }' "$home/dirty" | redis | awk -v now="$(date -u '+%F %T')" '
        $1 == "target" { getline id; field = ""; next }
        field == "" { field = $1; next }
        {
            user = field; field = ""
            if (user == "0") next
            rows = rows (held ? "," : "") "(1," id ",1," user "," $1 ",\x27" now "\x27,\x27" now "\x27)"
            if (++held == 1000) send()
        }
        function send() {
            if (held) print "INSERT INTO interaction_record (target_type, target_id, interaction_type, user_id, status," \
                " create_time, update_time) VALUES " rows " ON DUPLICATE KEY UPDATE status = VALUES(status), update_time = VALUES(update_time);"
            rows = ""; held = 0
        }
        END { send() }' | mariadb --no-defaults --socket="$home/mysql.sock" --user=root yardstick
    redis DEL dirty:1 >/dev/null
}
echo 0 >"$home/turn"
mark() {
    local turn=$(($(cat "$home/turn") + 1))
    echo "$turn" >"$home/turn"
    fill $((1 - turn / 2 % 2)) $((1767225600000 + turn * 60000)) "$targets" "$changed" $((each - changed))
}
by_hand() { mark; redis DEL chg:1 >/dev/null; timed recipe; }
by_tallyd() { mark; timed run; }
compare "1 % of $((targets * each)) states, against a script by hand" 0.05 0.02 least by_hand by_tallyd
