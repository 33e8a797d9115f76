#!/bin/sh
# What an operator does after the installation, inside the container: a user of MySQL, its password ($1) in a file that
# root alone can read, named in the configuration and in a drop-in. The rest of the configuration is as shipped.
set -eu
mariadb --execute "CREATE DATABASE IF NOT EXISTS tallyd;
    CREATE USER IF NOT EXISTS tallyd@localhost IDENTIFIED BY '$1';
    GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX ON tallyd.* TO tallyd@localhost"
(umask 077 && printf '%s\n' "$1" >/etc/tallyd/mysql-password)
dpkg-deb --fsys-tarfile /packages/1.deb | tar --extract --to-stdout ./etc/tallyd/config.toml |
    sed 's|^# \(password_file = "/etc/tallyd/mysql-password"\)|\1|' >/etc/tallyd/config.toml
mkdir -p /etc/systemd/system/tallyd.service.d
printf '[Service]\nLoadCredential=mysql-password:/etc/tallyd/mysql-password\n' \
    >/etc/systemd/system/tallyd.service.d/credentials.conf
systemctl daemon-reload
