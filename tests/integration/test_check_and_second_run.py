# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from live import Host, Lab


@pytest.mark.quick
def test_check_mode_with_diff_shows_every_change_of_a_virgin_host_and_touches_nothing(
    lab: Lab, deb12: Host, deb13: Host, safe12: Host
) -> None:
    hosts = (deb12, deb13, safe12)
    before = [(host.tree(), host.pid()) for host in hosts]

    done = lab.tune("deb12:deb13:safe12", "--check", "--diff")

    assert done.rc == 0, done.out
    assert [(host.tree(), host.pid()) for host in hosts] == before
    assert "wave 1 of 1: deb12, deb13, safe12" in done.said
    assert done.out.count("+EnvironmentFile=-/etc/fleet-mysqltune/mariadb.service.env") == 2
    assert done.out.count("+LD_PRELOAD=/") == 2
    assert "+# BEGIN fleet.mysqltune" in done.out
    assert "3 hosts: 3 would change." in done.out


def test_the_second_run_changes_nothing_and_restarts_nothing(
    lab: Lab, deb12: Host, deb13: Host, safe12: Host
) -> None:
    hosts = (deb12, deb13, safe12)
    first = lab.tune("deb12:deb13:safe12")
    assert first.rc == 0, first.out
    assert all(host.effective() for host in hosts)
    before = [(host.tree(), host.pid()) for host in hosts]

    second = lab.tune("deb12:deb13:safe12", tuning_benchmark="before_after")

    assert second.rc == 0, second.out
    assert [second.counted(host.name, "changed") for host in hosts] == [0, 0, 0]
    assert [(host.tree(), host.pid()) for host in hosts] == before
