# A reload takes over the level of the log and the tokens, in the same process, and names what needs a restart; a
# configuration that is wrong changes nothing. Tokens to be rotated are in the state directory, which nobody else can enter.
tokens() { printf '%s\n' "$@" | inside tee /var/lib/tallyd/api-tokens >/dev/null; }
bearer() { like 10086 43 --header "Authorization: Bearer $1"; }

running
tokens "$secret-1"
inside sed -i '/^\[api\]/a token_file = "/var/lib/tallyd/api-tokens"' /etc/tallyd/config.toml
inside systemctl restart tallyd
process=$(property MainPID)
bearer "$secret-1"
! bearer "$secret-2" || fail "a token of no file is good"

tokens "$secret-2"
inside sed -i -e 's/^level = .*/level = "debug"/' -e 's/^grace_seconds = .*/grace_seconds = 19/' \
    /etc/tallyd/config.toml
inside systemctl reload tallyd
await 10 logged log.level
await 10 logged serve.grace_seconds
# Whoever asks for what is grave is shown that, and not the rest.
grave() { inside journalctl --unit=tallyd --priority=warning --no-pager --output=cat --since="@${began:?}"; }
grave | grep --fixed-strings "a restart is needed for serve.grace_seconds" >/dev/null
! grave | grep " INFO " || fail "the journal takes all lines for grave ones"
await 10 bearer "$secret-2"
! bearer "$secret-1" || fail "the old token is still good"

inside sed -i 's/^level = .*/level = "loud"/' /etc/tallyd/config.toml
inside systemctl reload tallyd || true
await 10 logged loud
bearer "$secret-2"
same "$(property MainPID)" "$process" "the process"
same "$(property NRestarts)" 0 NRestarts
! journal | grep "$secret" || fail "the journal tells a token"
