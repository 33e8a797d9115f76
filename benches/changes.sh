# For benches, to be sourced after support.sh: many changes in Redis, and the same rows as SQL.

# fill STATE TIME TARGETS EACH [OTHERS]: that many targets, each with so many users of 19 digits in that state and marked
# as changed at TIME (Unix ms), as the API leaves them; complete hashes, counts as they should be with OTHERS who are active.
fill() {
    awk -v state="$1" -v time="$2" -v targets="$3" -v each="$4" -v others="${5:-0}" 'BEGIN {
        for (t = 1; t <= targets; t++) {
            id = sprintf("70000%07d%07d", t % 10000000, t)
            states = changes = ""
            for (u = 1; u <= each; u++) {
                user = sprintf("80000%07d%07d", (t * 7919 + u * 104729) % 10000000, u)
                states = states " " user " " state
                changes = changes " like:" id ":" user " " time
                if (u % 500 == 0 || u == each) {
                    print "HSET like:1:" id states
                    print "HSET chg:1" changes
                    states = changes = ""
                }
            }
            print "HSET like:1:" id " 0 full"
            print "HSET cnt:1:" id " like " state * each + others
            print "SADD dirty:1 " id
        }
    }' | redis --pipe >/dev/null
}

# statements STATE TIME TARGETS EACH: the rows of these changes as upserts of 1,000 rows, in the order of the key, as two
# files for two connections: $home/first.sql, $home/second.sql.
statements() {
    awk -v state="$1" -v time="$2" -v targets="$3" -v each="$4" -v first="$home/first.sql" -v second="$home/second.sql" '
    function put(row) {
        rows = rows (held ? "," : "") row
        if (++held == 1000) send()
    }
    function send() {
        if (held) print "INSERT INTO interaction_record (target_type, target_id, interaction_type, user_id, status," \
            " create_time, update_time) VALUES " rows " ON DUPLICATE KEY UPDATE" \
            " status = IF(VALUES(update_time) >= update_time, VALUES(status), status)," \
            " update_time = GREATEST(update_time, VALUES(update_time));" > file
        rows = ""; held = 0
    }
    function count(row) {
        counts = counts (counted ? "," : "") row
        if (++counted == 1000) send_counts()
    }
    function send_counts() {
        if (counted) print "INSERT INTO interaction_count (target_type, target_id, interaction_type, count, update_time)" \
            " VALUES " counts " ON DUPLICATE KEY UPDATE update_time = IF(VALUES(count) <> count," \
            " GREATEST(update_time, VALUES(update_time)), update_time), count = VALUES(count);" > file
        counts = ""; counted = 0
    }
    BEGIN {
        at = strftime("%Y-%m-%d %H:%M:%S", int(time / 1000), 1) sprintf(".%03d", time % 1000)
        file = first
        for (t = 1; t <= targets; t++) {
            if (t == int(targets / 2) + 1) { send(); send_counts(); file = second }
            id = sprintf("70000%07d%07d", t % 10000000, t)
            for (u = 1; u <= each; u++)
                users[u] = sprintf("80000%07d%07d", (t * 7919 + u * 104729) % 10000000, u)
            sort(users, each)
            for (u = 1; u <= each; u++) put("(1," id ",1," users[u] "," state ",\x27" at "\x27,\x27" at "\x27)")
            count("(1," id ",1," state * each ",\x27" at "\x27)")
        }
        send(); send_counts()
    }
    function sort(a, n,   i, j, v) {
        for (i = 2; i <= n; i++) { v = a[i]; for (j = i - 1; j > 0 && a[j] > v; j--) a[j + 1] = a[j]; a[j + 1] = v }
    }'
}

# Two clients load both files into the database `yardstick`.
load() {
    local pids=() pid
    for file in first second; do
        mariadb --no-defaults --socket="$home/mysql.sock" --user=root --init-command="SET time_zone = '+00:00'" yardstick <"$home/$file.sql" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid"; done
}

sql -e "CREATE DATABASE yardstick;
    CREATE TABLE yardstick.interaction_record LIKE tallyd.interaction_record;
    CREATE TABLE yardstick.interaction_count LIKE tallyd.interaction_count"
emptied() { sql "$1" -e 'TRUNCATE interaction_record; TRUNCATE interaction_count'; }
