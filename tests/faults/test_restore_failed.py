# SPDX-License-Identifier: GPL-3.0-or-later
"""The new state does not start, and the old state does not start any more either: the host says so, and waits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from live import BYTES, Host, Lab, Survivors
from spoiled import LIBRARY, put_library, result

# What somebody changed since the last start, and what neither the flight test nor the running server minds.
OPTIONS = "/etc/mysql/mariadb.conf.d/zz-fault.cnf"
SAID = "Bind on unix socket"


@pytest.fixture
def fault(deb12: Host) -> Iterator[Host]:
    deb12.put(OPTIONS, "[mysqld]\nsocket = /nowhere/mysqld.sock\n", "0644")
    yield deb12
    deb12.sh(f"rm -f {OPTIONS}")


@pytest.mark.fault("the old state does not start either")
def test_a_host_on_which_nothing_starts_says_so_until_somebody_has_repaired_it(lab: Lab, fault: Host) -> None:
    """restore_failed, said loudly by tune.yml and verify.yml, which touch nothing more; after the repair rollback.yml ends it."""
    put_library(fault)
    before = fault.tree(BYTES)
    rows = Survivors(fault)

    first = lab.tune("deb12", allocator_name=LIBRARY, tuning_run_id="failed")

    ended = result(fault, "failed")
    assert (ended["state"], ended["reason"]) == ("restore_failed", "crash"), ended
    assert first.rc != 0, first.out
    for words in (
        "RESTORE FAILED",
        "mariadb.service does not run on the old state",
        SAID,
        "Look at this host now",
    ):
        assert words in first.said, first.out
    assert fault.tree(BYTES) == before
    starts = fault.sh("systemctl show -p InvocationID mariadb")

    again = lab.tune("deb12")
    verified = lab.play("verify.yml", "deb12")

    for done in (again, verified):
        assert done.rc != 0 and done.counted("deb12", "failed") == 1, done.out
        assert "mariadb.service is down since run failed could not be undone" in done.said, done.out
    assert fault.tree(BYTES) == before
    assert fault.sh("systemctl show -p InvocationID mariadb") == starts

    fault.sh(f"rm {OPTIONS}")
    undone = lab.play("rollback.yml", "deb12")

    assert undone.rc == 0, undone.out
    assert rows.lost() == ""
    assert not fault.effective("libbad")
