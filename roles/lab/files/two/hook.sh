#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Two servers by the package's template unit, mariadb@a and mariadb@b, in place of the one. usage: hook.sh ROOTFS
set -eu
install -m 644 "$(dirname "$0")/instances.cnf" "$1/etc/mysql/mariadb.conf.d/70-instances.cnf"
chroot "$1" install -d -o mysql -g mysql -m 755 /var/lib/mysql-a /var/lib/mysql-b
chroot "$1" systemctl --quiet disable mariadb.service
chroot "$1" systemctl --quiet enable mariadb@a.service mariadb@b.service
