# Confined.
exposure=$(inside systemd-analyze security --no-pager tallyd |
    sed -n 's/.*exposure level for tallyd.service: \([0-9.]*\).*/\1/p')
awk -v exposure="$exposure" 'BEGIN { exit !(exposure != "" && exposure <= 2.0) }' || fail "the exposure is '$exposure'"
note "exposure $exposure"
