# An upgrade over the running service, under writes: the new program runs, and no acknowledged write is lost. The
# configuration stays as the operator has it.
running
before=$(property MainPID)
configuration=$(inside md5sum /etc/tallyd/config.toml)
writers 4
acknowledge 200
install_package 2
same "$(inside dpkg-query --show --showformat '${Version}' tallyd)" 99.0.0-1 "the version"
same "$(property ActiveState)" active "the unit's state"
[ "$(property MainPID)" != "$before" ] || fail "the old program runs on"
same "$(inside md5sum /etc/tallyd/config.toml)" "$configuration" "the configuration"
ready
note "away for $((($(property ActiveEnterTimestampMonotonic) - $(property ActiveExitTimestampMonotonic)) / 1000)) ms"
acknowledge 200
all_there
