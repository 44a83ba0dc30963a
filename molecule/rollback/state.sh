#!/bin/sh
# What must be the same before and after: bytes, mode and owner of everything that could start a server, the rows, and
# whether a server runs with a bad library mapped.
set -eu
# Not every host has every path, so find may complain.
find /etc/systemd /etc/fleet-mysqltune /etc/init.d /etc/mysql /etc/my.cnf /usr/local/mysql/bin/mysqld_safe \
  -type f -exec sha256sum {} + -exec stat -c '%a %U %G %n' {} + 2>/dev/null | sort
mariadb -NBe 'CHECKSUM TABLE survivors.t; SELECT COUNT(*) FROM survivors.t'
cd /proc
grep -lsE 'lib(crash|hang)\.so' [0-9]*/maps || true # nothing found, or a process that has ended meanwhile
