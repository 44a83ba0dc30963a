# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that somebody has stopped on purpose stays stopped, whenever it was stopped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from live import BYTES, Host, Lab, Survivors
from spoiled import LIBRARY, module, put_library, staged

# Wait until the run has staged its files, then stop the server.
STOP_WHEN_STAGED = """
echo watching
staged=/etc/systemd/system/mariadb.service.d/zz-fleet-mysqltune.conf
for i in $(seq 3000); do [ ! -e $staged ] || break; sleep 0.02; done
[ -e $staged ] && systemctl stop mariadb && echo stopped
"""
SECOND = "/etc/systemd/system/mysqld.service"


@pytest.mark.fault("server stopped on purpose before the run")
@pytest.mark.quick
def test_a_server_that_was_stopped_before_the_run_stays_stopped(lab: Lab, deb12: Host) -> None:
    """It stays stopped, and is a line of the table; nothing is changed."""
    deb12.sh("systemctl stop mariadb")

    done = lab.tune("deb12")

    assert (done.rc, done.counted("deb12", "changed")) == (0, 0), done.out
    assert "mariadb stopped" in done.said, done.out
    assert deb12.sh("systemctl is-active mariadb", check=False) == "inactive"
    assert not deb12.touched()


@pytest.mark.fault("server stopped while its files are staged")
def test_a_server_that_is_stopped_while_its_files_are_staged_stays_stopped(lab: Lab, deb12: Host) -> None:
    """It stays stopped; the files are put back."""
    before = deb12.tree(BYTES)
    watcher = deb12.start(STOP_WHEN_STAGED)
    assert watcher.stdout is not None and watcher.stdout.readline() == "watching\n"

    done = lab.tune("deb12", tuning_run_id="stopped")

    assert watcher.communicate()[0] == "stopped\n"
    assert done.rc != 0 and "stopped" in done.said, done.out
    assert deb12.sh("systemctl is-active mariadb", check=False) == "inactive"
    assert deb12.tree(BYTES) == before


@pytest.mark.fault("server stopped right before its restart")
@pytest.mark.quick
def test_a_server_that_is_stopped_right_before_its_restart_stays_stopped(lab: Lab, deb12: Host) -> None:
    """The transaction leaves it stopped and puts the files back; reason stopped."""
    put_library(deb12, "-DHANG")
    before = deb12.tree(BYTES)
    instances = staged(lab, deb12, "stopped", LIBRARY)
    assert deb12.tree(BYTES) != before
    deb12.sh("systemctl stop mariadb")

    result = module(lab, deb12, "mysqld_activate", run_id="stopped", instances=instances)

    assert (result["state"], result["reason"]) == ("restored", "stopped"), result
    assert "is stopped now; it was left so" in result["msg"]
    assert deb12.sh("systemctl is-active mariadb", check=False) == "inactive"
    assert deb12.tree(BYTES) == before


@pytest.fixture
def second(deb12: Host) -> Iterator[Host]:
    """A second server of the host, which does not run."""
    text = "[Service]\nUser=mysql\nExecStart=/usr/sbin/mariadbd --datadir=/var/lib/second\n"
    deb12.put(SECOND, text, "0644")
    deb12.sh("systemctl daemon-reload")
    yield deb12
    deb12.sh(f"rm {SECOND}; systemctl daemon-reload")


@pytest.mark.fault("stopped server beside a running one")
@pytest.mark.quick
def test_a_stopped_server_beside_a_running_one_stays_stopped(lab: Lab, second: Host) -> None:
    """Only the running one is tuned."""
    rows = Survivors(second)

    done = lab.tune("deb12")

    assert done.rc == 0 and "mysqld stopped" in done.said, done.out
    assert second.effective()
    assert second.sh("systemctl is-active mysqld", check=False) == "inactive"
    assert second.sh("ls -d /etc/systemd/system/mysqld.service.d 2>&1", check=False).endswith(
        "No such file or directory"
    )
    assert rows.lost() == ""
