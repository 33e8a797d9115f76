# Installed: everything is there, and nothing runs.
! inside dpkg --status tallyd 2>/dev/null || fail "tallyd is installed already"
said=$(install_package 1)
grep --quiet 'systemctl start tallyd' <<<"$said" || fail "no word of what comes next: $said"

same "$(inside systemctl is-enabled tallyd)" enabled "the unit"
same "$(property ActiveState)" inactive "the unit's state"
same "$(property ExecMainStartTimestampMonotonic)" 0 "the time of the first start"

conffiles=$(inside dpkg-query --show --showformat '${Conffiles}' tallyd | awk 'NF { print $1 }')
same "$conffiles" /etc/tallyd/config.toml "the conffiles"
same "$(inside stat --format '%U:%G %a' /etc/tallyd/config.toml)" "root:root 644" "the configuration's mode"
same "$(inside dpkg --verify tallyd)" "" "what dpkg misses"

pages=$(inside sh -c 'dpkg --listfiles tallyd | grep /man1/')
for command in serve sync reconcile report warm status check migrate completions; do
    grep --quiet "/tallyd-$command.1.gz" <<<"$pages" || fail "no page for $command"
done
inside man tallyd | grep 'EXIT STATUS' || fail "man tallyd says nothing of the exit status"
inside bash -c 'source /usr/share/bash-completion/completions/tallyd && complete -p tallyd' >/dev/null
inside test -s /usr/share/zsh/vendor-completions/_tallyd
inside test -s /usr/share/fish/vendor_completions.d/tallyd.fish
inside test -s /usr/share/doc/tallyd/copyright

inside tallyd --version
