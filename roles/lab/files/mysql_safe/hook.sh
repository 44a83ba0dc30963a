#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Let a hand-made unit run mysqld_safe in place of the package's unit, which runs the daemon. usage: hook.sh ROOTFS
set -eu
install -m 644 "$(dirname "$0")/mysqld-safe.service" "$1/etc/systemd/system/mysqld-safe.service"
chroot "$1" systemctl --quiet disable mysql.service
chroot "$1" systemctl --quiet enable mysqld-safe.service
