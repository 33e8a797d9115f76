#!/usr/bin/env bash
# What cases say, to be sourced.

# Not to be found in any log.
secret=s3ntinel-Pa55word
api=http://127.0.0.1:7780
admin=http://127.0.0.1:7781

fail() { echo "$*" >&2; exit 1; }

# A figure for the line of a case that passed.
note() { printf '\nNOTE %s\n' "$*"; }

# Waits until a command succeeds, for at most so many seconds.
await() {
    local until=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$until" ] || fail "in vain waited for: $*"
        sleep 0.2
    done
}

# Fails unless the two are equal; the third says of what.
same() { [ "$1" = "$2" ] || fail "$3 is '$1', not '$2'"; }

# A property of the unit, as NRestarts.
property() { inside systemctl show --property="$1" --value tallyd; }
has() { [ "$(property "$1")" = "$2" ]; }

# What the unit has written since the case began, which cases.sh notes.
journal() {
    inside journalctl --sync
    inside journalctl --unit=tallyd --no-pager --output=cat --since="@${began:?}"
}
# Not `grep --quiet`: it leaves before all is written to it, and `pipefail` takes that for a failure.
logged() { journal | grep --fixed-strings -- "$1" >/dev/null; }

sql() { inside mariadb --batch --skip-column-names tallyd --execute "$1"; }
redis() { inside redis-cli "$@"; }
http() { inside curl --silent --show-error --fail --max-time 5 "$@"; }
ready() { http "$admin/readyz" >/dev/null; }

databases() { inside systemctl "$1" redis-server mariadb; }

# A like of note $1 by user $2.
like() {
    local path=note/$1/users/$2
    shift 2
    http "$@" --request PUT "$api/v1/like/$path"
}

# Starts so many clients that like note 777, each a user after the other, and again until it is acknowledged; what was,
# is in /run/acknowledged.
writers() {
    inside rm -rf /run/acknowledged /run/no-more-writes
    inside mkdir /run/acknowledged
    trap 'inside touch /run/no-more-writes; wait' EXIT
    for writer in $(seq "$1"); do inside sh /tests/writer.sh "$writer" & done
}
acknowledged() { inside sh -c 'cat /run/acknowledged/*' 2>/dev/null | wc -l; }

# Waits until so many more are acknowledged.
acknowledge() {
    local wanted=$(($(acknowledged) + $1))
    await 60 as_many "$wanted"
}
as_many() { [ "$(acknowledged)" -ge "$1" ]; }

# Ends the clients, syncs, and fails unless each acknowledged write is in MySQL and every count is exact.
all_there() {
    inside touch /run/no-more-writes
    wait
    inside tallyd sync
    local lost rows
    lost=$(comm -23 <(inside sh -c 'cat /run/acknowledged/*' | sort) \
        <(sql 'SELECT user_id FROM interaction_record WHERE target_id = 777 AND status = 1' | sort))
    [ -z "$lost" ] || fail "acknowledged and lost: $(xargs <<<"$lost")"
    rows=$(sql 'SELECT COUNT(*) FROM interaction_record WHERE target_id = 777 AND status = 1')
    same "$(sql 'SELECT count FROM interaction_count WHERE target_id = 777')" "$rows" "the count in MySQL"
    same "$(redis HGET cnt:1:777 like)" "$rows" "the count in Redis"
    note "$(acknowledged) writes acknowledged, none lost"
}

same_package() { [ "$(version dpkg-deb "/packages/$1.deb")" = "$(version dpkg-query tallyd)" ]; }
# shellcheck disable=SC2016
version() { inside "$1" --show --showformat '${Version}' "$2" 2>/dev/null; }

install_package() {
    apt install --allow-downgrades "/packages/$1.deb"
}
apt() {
    inside env DEBIAN_FRONTEND=noninteractive apt-get --yes --quiet --quiet --option Dpkg::Use-Pty=0 "$@" 2>&1
}

# Changes the unit, until the next `running`.
drop_in() {
    printf '%s\n' "$@" | inside tee /etc/systemd/system/tallyd.service.d/test.conf >/dev/null
    inside systemctl daemon-reload
}

# Brings the unit, from wherever the case before has left it, to: the first package, as an operator sets it up, running
# and ready, with the databases up and no restart counted.
running() {
    databases start
    same_package 1 || install_package 1
    inside rm -f /etc/systemd/system/tallyd.service.d/test.conf
    inside sh /tests/configure.sh "$secret"
    inside tallyd migrate
    inside systemctl stop tallyd
    inside systemctl reset-failed tallyd 2>/dev/null || true
    inside systemctl start tallyd
    ready
    same "$(property NRestarts)" 0 NRestarts
}
