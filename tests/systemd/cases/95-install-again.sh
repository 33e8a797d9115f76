# After a purge it is a first installation again.
inside rm -rf /etc/systemd/system/tallyd.service.d
install_package 1
same "$(property ActiveState)" inactive "the unit's state"
same "$(inside systemctl is-enabled tallyd)" enabled "the unit"
running
