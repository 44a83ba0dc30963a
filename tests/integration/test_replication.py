# SPDX-License-Identifier: GPL-3.0-or-later
"""A real primary (deb12) with a real replica (deb13) connected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from live import Host, Lab, until

OPTIONS = "/etc/mysql/mariadb.conf.d/zz-fleet-test.cnf"


class Pair(NamedTuple):
    primary: Host
    replica: Host

    def connect(self) -> None:
        """Wait until the replica is connected and has no error."""
        until(self._connected, 60, "the replica is connected")

    def _connected(self) -> bool:
        status = self.replica.sh("mariadb -Ee 'SHOW SLAVE STATUS'")
        dumps = self.primary.sql(
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog%'"
        )
        return all(
            f"{what}: Yes" in status for what in ("Slave_IO_Running", "Slave_SQL_Running")
        ) and dumps == ("1")


@pytest.fixture
def pair(deb12: Host, deb13: Host) -> Iterator[Pair]:
    deb12.put(
        OPTIONS, "[mysqld]\nlog_bin = fleet-test\nserver_id = 12\nbind_address = 0.0.0.0\n", mode="0644"
    )
    deb13.put(OPTIONS, "[mysqld]\nserver_id = 13\n", mode="0644")
    deb12.sh("systemctl restart mariadb")
    deb12.sql(
        "SET sql_log_bin = 0; CREATE OR REPLACE USER fleet_test@'%' IDENTIFIED BY 'replica';"
        "GRANT REPLICATION SLAVE ON *.* TO fleet_test@'%';"
    )
    deb13.sql(
        f"SET GLOBAL server_id = 13; CHANGE MASTER TO MASTER_HOST = '{deb12.address}', MASTER_USER = 'fleet_test',"
        " MASTER_PASSWORD = 'replica', MASTER_SSL_VERIFY_SERVER_CERT = 0, MASTER_CONNECT_RETRY = 1; START SLAVE;"
    )
    found = Pair(deb12, deb13)
    found.connect()
    yield found
    deb13.sql("STOP SLAVE; RESET SLAVE ALL; SET GLOBAL gtid_slave_pos = '';")
    deb12.sql("SET sql_log_bin = 0; DROP USER IF EXISTS fleet_test@'%'; RESET MASTER;")
    for host in found:
        host.sh(f"rm -f {OPTIONS}")
        host.virgin(restart=True)
    deb12.sh("rm -f /var/lib/mysql/fleet-test.*")


def test_a_primary_needs_consent_and_a_replica_is_tuned_but_not_measured(lab: Lab, pair: Pair) -> None:
    pid = pair.primary.pid()

    done = lab.tune("deb12:deb13", tuning_benchmark="before_after")

    assert done.rc != 0, done.out
    assert "mariadb.service is a primary (" in done.said
    assert "Set tuning_include_primaries: true to restart it" in done.said
    assert pair.primary.pid() == pid and not pair.primary.touched()
    assert done.counted("deb13", "failed") == 0 and pair.replica.effective()
    assert "not measured: mariadb.service (replica) takes part in replication" in done.said
    assert not list(lab.reports.rglob("deb13/before"))

    pair.connect()
    consented = lab.tune("deb12", tuning_include_primaries=True)

    assert consented.rc == 0, consented.out
    assert pair.primary.pid() != pid and pair.primary.effective()
    pair.connect()
