# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that accepts connections but no queries is not restarted: nobody could tell what depends on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from live import BYTES, PID, Host, Lab
from spoiled import LIBRARY, module, put_library, staged

# Take every connection that the server gives, the reserved one too: as long as one is free, take one more.
EXHAUST = """
mariadb -e 'SET GLOBAL max_connections = 10'
for i in $(seq 50); do
  mariadb -e 'SELECT SLEEP(600)' >/dev/null 2>&1 &
  sleep 0.1
  mariadb -e 'DO 1' 2>/dev/null || break
done
mariadb -e 'DO 1' 2>&1 | grep -o 'Too many connections'
"""
RELEASE = """
pkill -x mariadb
timeout 30 sh -c 'until mariadb -e "SET GLOBAL max_connections = DEFAULT" 2>/dev/null; do sleep 0.1; done'
"""


@pytest.fixture
def stopped(deb12: Host) -> Iterator[Host]:
    """The kernel still accepts connections for a server that stands still."""
    deb12.sh(f"kill -STOP $({PID})")
    yield deb12
    deb12.sh(f"kill -CONT $({PID})")


@pytest.fixture
def exhausted(deb12: Host) -> Iterator[Host]:
    try:
        assert deb12.sh(EXHAUST) == "Too many connections"
        yield deb12
    finally:
        deb12.sh(RELEASE)


def assert_refused(lab: Lab, host: Host, *words: str) -> None:
    before = host.tree(), host.pid()
    done = lab.tune("deb12")
    assert done.rc != 0 and done.counted("deb12", "failed") == 1, done.out
    assert not [word for word in words if word not in done.said], done.out
    assert (host.tree(), host.pid()) == before


@pytest.mark.fault("server that stands still before the run (SIGSTOP)")
def test_a_server_that_stands_still_is_refused(lab: Lab, stopped: Host) -> None:
    """Refused: whether others depend on it cannot be asked; untouched."""
    assert_refused(lab, stopped, "mariadb.service", "no answer within")


@pytest.mark.fault("server without a free connection")
@pytest.mark.quick
def test_a_server_without_a_free_connection_is_refused(lab: Lab, exhausted: Host) -> None:
    """Refused with the server's words; untouched."""
    assert_refused(lab, exhausted, "mariadb.service", "Too many connections")


@pytest.mark.fault("server that stands still since its files were staged")
def test_a_server_that_stands_still_since_its_files_were_staged_is_left_alone(lab: Lab, deb12: Host) -> None:
    """Not restarted; the files are put back; reason no_answer."""
    put_library(deb12, "-DHANG")
    before, pid = deb12.tree(BYTES), deb12.pid()
    instances = staged(lab, deb12, "still", LIBRARY)
    deb12.sh(f"kill -STOP {pid}")
    try:
        result = module(lab, deb12, "mysqld_activate", run_id="still", instances=instances)
    finally:
        deb12.sh(f"kill -CONT {pid}")

    assert (result["state"], result["reason"]) == ("restored", "no_answer"), result
    assert "does not answer queries already before a restart" in result["msg"]
    assert (deb12.tree(BYTES), deb12.pid()) == (before, pid)
