#!/usr/bin/env bash
# The container, to be sourced: boot and end it, and do something inside.

# Boots it, and sets init to the process of its systemd. It is ended with the script, also by Ctrl-C.
boot() {
    log=$(mktemp -d "${TMPDIR:-/tmp}/tallyd.XXXXXX")
    trap halt EXIT
    trap 'exit 130' INT TERM
    # In a session of its own: Ctrl-C is for this script, which ends the container.
    setsid systemd-nspawn --quiet --directory=target/systemd/root --volatile=overlay --boot --register=no --keep-unit \
        --link-journal=no --private-network --machine="tallyd-$$" --console=pipe \
        --bind-ro="$PWD/target/systemd/packages:/packages" --bind-ro="$PWD/tests/systemd:/tests" \
        </dev/null >"$log/console" 2>&1 &
    container=$!
    await 30 booted
    await 60 inside systemctl is-active redis-server mariadb
}

booted() {
    init=$(pgrep --parent "$container")
    kill -0 "$container" && [ "$(cat "/proc/$init/comm")" = systemd ] && inside test -S /run/dbus/system_bus_socket
}

halt() {
    # The first asks its systemd to shut down, the second does not ask.
    for limit in 200 50; do
        kill -TERM "$container" 2>/dev/null || break
        for _ in $(seq "$limit"); do kill -0 "$container" 2>/dev/null || break; sleep 0.1; done
    done
    kill -KILL "$container" 2>/dev/null || true
    wait "$container" 2>/dev/null || true
    rm -rf "$log"
}

# A command inside, as root.
inside() {
    nsenter --target "$init" --all env --ignore-environment HOME=/root LANG=C.UTF-8 \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
