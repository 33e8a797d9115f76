# However often it was started, the next start is allowed.
running
for _ in $(seq 12); do inside systemctl restart tallyd; done
ready
