#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Let the tarball's init script start the daemon itself, without mysqld_safe. usage: hook.sh ROOTFS
set -eu
sed -i 's,bin/mysqld_safe ,bin/mysqld ,' "$1/etc/init.d/mysql"
grep -q 'bin/mysqld ' "$1/etc/init.d/mysql"
