#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Turn Debian's MariaDB server into what a tarball unpacked under /usr/local leaves. usage: tarball.sh ROOTFS
set -eu
here=$(dirname "$0")

chroot "$1" sh -eu <<'END' >&2
base=/usr/local/mysql
mkdir -p $base/bin $base/lib $base/share
cp -a /usr/sbin/mariadbd /usr/bin/mariadb /usr/bin/mariadb-* /usr/bin/my_print_defaults $base/bin
cp -a /usr/bin/mariadbd-safe $base/bin/mysqld_safe
cp -a /usr/bin/mariadbd-safe-helper $base/bin/mysqld_safe_helper
cp -a /usr/lib/mysql/plugin $base/lib
cp -a /usr/share/mysql $base/share
ln -s mariadbd $base/bin/mysqld
ln -s $base/bin/mariadb $base/bin/mariadb-admin $base/bin/mariadb-dump /usr/local/bin

mv /var/lib/mysql $base/data
rm $base/data/debian-*.flag

apt-mark --quiet=2 manual $(apt-mark showauto)
dpkg --purge mariadb-server mariadb-server-core mariadb-client mariadb-client-core mariadb-common mysql-common \
  libmariadb3 galera-4
rm -rf /etc/mysql
END

# Debian's client also reads /etc/mysql, which comes back with any package that uses libmariadb3: root's file has the last word.
install -m 644 "$here/my.cnf" "$1/etc/my.cnf"
install -m 600 "$here/my.cnf" "$1/root/.my.cnf"
install -m 755 "$here/mysql.server" "$1/etc/init.d/mysql"
chroot "$1" update-rc.d mysql defaults
