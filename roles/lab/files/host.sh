#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Make a fresh root file system a lab host. usage: host.sh ROOTFS
set -eu

# Timers would disturb measurements and hold the lock of apt.
chroot "$1" systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer logrotate.timer 2>/dev/null

echo LANG=C.UTF-8 >"$1/etc/default/locale"

# Each lab gives its hosts their own keys; many simulated hosts may share one real one.
rm -f "$1"/etc/ssh/ssh_host_*
cat >"$1/etc/ssh/sshd_config.d/lab.conf" <<'END'
HostKey /etc/ssh/ssh_host_ed25519_key
PasswordAuthentication no
MaxStartups 1000
MaxSessions 1000
END
