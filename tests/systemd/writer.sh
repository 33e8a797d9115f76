#!/bin/sh
# Client $1, inside the container: see `writers` in words.sh.
user=$(($1 * 1000000000 + $(date +%s) % 1000000 * 1000))
while [ ! -e /run/no-more-writes ]; do
    user=$((user + 1))
    until curl --silent --fail --output /dev/null --max-time 3 --request PUT \
        "http://127.0.0.1:7780/v1/like/note/777/users/$user"; do
        [ ! -e /run/no-more-writes ] || exit 0
        sleep 0.1
    done
    echo "$user" >>"/run/acknowledged/$1"
done
