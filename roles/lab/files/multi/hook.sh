#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Two servers by mysqld_multi and its own init script, in place of the one. usage: hook.sh ROOTFS
set -eu
install -m 644 "$(dirname "$0")/groups.cnf" "$1/etc/mysql/mariadb.conf.d/70-groups.cnf"
install -m 755 "$(dirname "$0")/mysqld_multi.server" "$1/etc/init.d/mysqld_multi"
chroot "$1" sh -eu <<'INSIDE' >&2
systemctl --quiet mask mariadb.service
for number in 1 2; do cp -a /var/lib/mysql /srv/mysql$number; done
update-rc.d mysqld_multi defaults
INSIDE
