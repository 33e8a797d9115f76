# An upgrade starts nothing that was stopped, and enables nothing that was disabled.
running
inside systemctl disable --now tallyd
install_package 2
same "$(property ActiveState)" inactive "the unit's state"
same "$(inside systemctl is-enabled tallyd || true)" disabled "the unit"
inside systemctl enable tallyd
