# Killed: it is started again, and what was acknowledged is there.
running
writers 2
acknowledge 100
inside systemctl kill --signal=KILL tallyd
await 30 has NRestarts 1
await 30 ready
acknowledge 100
all_there
